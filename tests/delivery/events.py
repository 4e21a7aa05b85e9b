"""An outbox with events in it, for tests of what is delivered from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sessionpipe.outbox import Outbox, encode
from sessionpipe.privacy.secrets import RULESET_VERSION
from sessionpipe.protocol import new_id, rfc3339

START = 1_790_000_000_000


@contextmanager
def opened(path: Path) -> Iterator[Outbox]:
    outbox = Outbox.open(path)
    try:
        yield outbox
    finally:
        outbox.close()


def record(
    outbox: Outbox,
    type_: str = "turn.started",
    data: dict[str, Any] | None = None,
    *,
    session: str = "s",
    at_ms: int | None = None,
    ruleset: int = RULESET_VERSION,
    count: int = 1,
    **block: Any,
) -> list[dict[str, Any]]:
    """Record ``count`` events as intake does, each a second after the one before unless ``at_ms`` is given."""
    events = []
    first = START + outbox.last_position() * 1000 if at_ms is None else at_ms
    with outbox.transaction() as tx:
        row = tx.session("claude-code", session, first)
        for number in range(count):
            time_ms = first + number * 1000
            event = {
                "protocol": 1,
                "id": new_id(),
                "type": type_,
                "time": rfc3339(time_ms),
                "tier": 3,
                "harness": {"name": "claude-code"},
                "session": {"id": session, "seq": row.next_seq, **block},
                "privacy": {"rulesets": ["secrets@1"], "pii": False},
                "data": data or {},
            }
            tx.append(row, type_, time_ms, ruleset, encode(event))
            events.append(event)
        tx.save(row)
    return events


def lines(file: Path) -> list[dict[str, Any]]:
    """The events of an NDJSON file, every line of which is a whole one."""
    text = file.read_bytes()
    assert text == b"" or text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


def keys(events: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """What a receiver deduplicates on, in the order of arrival (one harness)."""
    return [(event["session"]["id"], event["session"]["seq"]) for event in events]
