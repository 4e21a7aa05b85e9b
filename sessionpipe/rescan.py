"""The outbox under today's rules: which events would be redacted now, and redacting them where they lie.

What is stored was redacted when it came, by the rules of then. Every row is looked at once more, a page
at a time, so that memory stays flat however many there are; nothing here keeps a transaction open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from sessionpipe.outbox import Outbox, Row, SessionRow, encode
from sessionpipe.redaction import FREE_TEXT, Redaction

_PAGE_ROWS, _PAGE_BYTES = 500, 1 << 20
# One commit's worth: a worker beside it waits no longer than that takes.
_COMMIT_ROWS, _COMMIT_BYTES = 100, 1 << 20


class Hit(NamedTuple):
    """A row the rules take something from: the fields it is in, by name alone, and its body without it."""

    row: Row
    fields: tuple[str, ...]
    body: bytes


class Unreadable(NamedTuple):
    """A row that is no event."""

    row: Row


def look(outbox: Outbox, rules: Redaction) -> Iterator[tuple[Row, Hit | Unreadable | None]]:
    """Every event there is now, in order, with what ``rules`` find in it."""
    position, last = 0, outbox.last_position()
    while position < last:
        page = outbox.read(position, _PAGE_ROWS, _PAGE_BYTES)
        if not page:
            return
        for row in page:
            if row.position > last:
                return
            yield row, examine(row, rules)
        position = page[-1].position


def examine(row: Row, rules: Redaction) -> Hit | Unreadable | None:
    """What ``rules`` find in one event."""
    try:
        event = msgspec.json.decode(row.body)
        clean = rules.event(event)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return Unreadable(row)
    fields = tuple(_changed(event, clean))
    return Hit(row, fields, encode(clean)) if fields else None


def _changed(event: dict[str, Any], clean: dict[str, Any]) -> Iterator[str]:
    for part in ("harness", "session", "data"):
        before, after = event.get(part), clean.get(part)
        if before == after:
            continue
        if not isinstance(before, dict) or not isinstance(after, dict):
            yield part
            continue
        # A field's name is the protocol's; what it holds is not told.
        yield from (f"{part}.{name}" for name in before if before[name] != after.get(name))


def rewrite(outbox: Outbox, rules: Redaction, positions: Iterable[int]) -> int:
    """Rewrite the events at ``positions`` as ``rules`` leave them, in small commits; how many there were."""
    done, size = 0, 0
    batch: list[tuple[Row, int, bytes]] = []
    for position in positions:
        rows = outbox.read(position - 1, 1)
        # It may have been forgotten, and the next one stand here.
        if not rows or rows[0].position != position:
            continue
        found = examine(rows[0], rules)
        if not isinstance(found, Hit):
            continue
        batch.append((found.row, rules.stamp, found.body))
        size += len(found.body)
        if len(batch) >= _COMMIT_ROWS or size >= _COMMIT_BYTES:
            done += outbox.rewrite(batch)
            batch, size = [], 0
    return done + outbox.rewrite(batch) if batch else done


def blocks(outbox: Outbox, rules: Redaction) -> list[SessionRow]:
    """The sessions whose remembered facts (a title, a folder) the rules take something from."""
    return [row for row in outbox.sessions() if _block(block := row.block, rules) != block]


def rewrite_blocks(outbox: Outbox, rules: Redaction, rows: Iterable[SessionRow]) -> int:
    """Rewrite the remembered facts of these sessions; how many there were."""
    done = 0
    for row in rows:
        with outbox.transaction() as tx:
            session = tx.session(row.harness, row.id, row.first_ms)
            session.block = _block(session.block, rules)
            tx.save(session)
            tx.discard(session)
        done += 1
    return done


def _block(block: dict[str, Any], rules: Redaction) -> dict[str, Any]:
    texts = {name: rules.short(block[name]) for name in FREE_TEXT if isinstance(block.get(name), str)}
    return {**block, **texts}
