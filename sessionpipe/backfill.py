"""Sessions that were there before us: one ``session.backfill`` for each (protocol §4).

:func:`search` asks the harnesses' own files what they know, :func:`record` puts what nobody knew yet into the
outbox, newest first. A session that is known in any way, one that was forgotten too, is left alone. What was
recorded stays when it is cut off, and doing it again goes on behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from sessionpipe import faults, harnesses
from sessionpipe.adapters import registry
from sessionpipe.clock import now_ms
from sessionpipe.harnesses import Context, Files, Past
from sessionpipe.harnesses.git import git_facts
from sessionpipe.intake import append
from sessionpipe.outbox import Outbox
from sessionpipe.protocol import is_session_id, rfc3339
from sessionpipe.seal import Draft, session_block

#: How far back it looks unless told otherwise.
DAYS = 30
DAY_MS = 24 * 3_600_000
#: How many sessions share one commit: few enough that intake never waits for it.
BATCH = 100
_LAST_MOMENT = 253_402_300_800_000  # the year 10000, which RFC 3339 can't say


class Found(NamedTuple):
    """A session that a harness's files tell of."""

    harness: str
    past: Past


class Search(NamedTuple):
    """What was found, newest first. ``failed``: the harnesses whose files could not be read, and why.

    ``late``: the time ran out before all of them were.
    """

    found: list[Found]
    failed: dict[str, str]
    late: bool


def context_of(env: Mapping[str, str], cwd: str) -> Context:
    """Where the harnesses' files are looked for: by the variables that a hook would hand on."""
    forwarded = {name: env[name] for name in registry.environment() if name in env}
    return Context(forwarded, cwd, now_ms(), env.get("HOME") or env.get("USERPROFILE"))


def search(
    names: Iterable[str],
    context: Context,
    since_ms: int,
    *,
    until: float | None = None,
    told: Callable[[str, int], None] = lambda harness, found: None,
) -> Search:
    """The sessions of ``names`` that were last active at ``since_ms`` or later.

    ``told`` hears of each harness that is looked at and how many sessions there are by then; ``until``
    (monotonic seconds) ends it. Reads files, writes nothing, and raises nothing on any file.
    """
    files = Files()
    best: dict[tuple[str, str], Found] = {}
    failed: dict[str, str] = {}
    late = False
    for name in names:
        told(name, len(best))
        try:
            for past in harnesses.get(name).history(context, since_ms, files):
                if late := until is not None and time.monotonic() > until:
                    break
                if (sound := _sound(past, since_ms, context.at_ms)) is None:
                    continue
                key = (name, sound.session_id)
                # One session may lie in two places: in an archive as well, or compressed.
                if key not in best or best[key].past.last_ms < sound.last_ms:
                    best[key] = Found(name, sound)
                    told(name, len(best))
        except Exception as error:  # A fault of ours in one harness's files keeps nobody from the others'.
            failed[name] = repr(error)
        if late:
            break
    ordered = sorted(best.values(), key=lambda one: (-one.past.last_ms, one.harness, one.past.session_id))
    return Search(ordered, failed, late)


def _sound(past: Past, since_ms: int, now: int) -> Past | None:
    """``past`` with times that can be: nothing in a file is certain, a clock least of all."""
    if not is_session_id(past.session_id) or not 0 < past.last_ms < _LAST_MOMENT:
        return None
    last = min(past.last_ms, now)
    started = past.started_ms if 0 < past.started_ms < last else last
    if last < since_ms:
        return None  # A file that was touched, or copied, and says nothing new.
    parent = past.block.get("parent_id")
    kept = {name: value for name, value in past.block.items() if name != "parent_id" or is_session_id(parent)}
    return past._replace(started_ms=started, last_ms=last, block=kept)


def unknown(outbox: Outbox, found: Iterable[Found]) -> list[Found]:
    """Those of ``found`` that the outbox has never heard of."""
    return [one for one in found if not outbox.knows(one.harness, one.past.session_id)]


def record(
    outbox: Outbox,
    found: Sequence[Found],
    *,
    machine: str | None,
    home: str | None,
    told: Callable[[int], None] = lambda recorded: None,
) -> int:
    """Record those of ``found`` that are not known, in their order; how many those were.

    ``told`` hears after every commit how many of ``found`` have been seen to. Raises what the outbox raises.
    """
    recorded = 0
    repos: dict[str, str | None] = {}
    for start in range(0, len(found), BATCH):
        batch = found[start : start + BATCH]
        # Asked of the disk before the write lock is held.
        blocks = [_block(one.past, machine, home, repos) for one in batch]
        with outbox.transaction() as tx:
            for one, block in zip(batch, blocks, strict=True):
                past = one.past
                if outbox.knows(one.harness, past.session_id):
                    continue
                # First and last as the files have it: that it was recorded now is no sign of life.
                session = tx.session(one.harness, past.session_id, past.started_ms)
                session.block = block
                # Anything may follow a backfill (protocol §4), so its start needs not be made up.
                session.state = {"started": True}
                append(tx, session, [_draft(one)], root=None, home=home)
                session.last_ms = past.last_ms
                tx.save(session)
                recorded += 1
            faults.point("backfill.inserted")
        told(start + len(batch))
    return recorded


def _block(
    past: Past, machine: str | None, home: str | None, repos: dict[str, str | None]
) -> dict[str, object]:
    facts = {**past.block, "machine": machine}
    cwd = past.block.get("cwd")
    if not facts.get("repo") and isinstance(cwd, str) and cwd:
        # The branch of then nobody knows; a folder's origin hardly ever changes.
        if cwd not in repos:
            repos[cwd] = git_facts(cwd).get("repo")
        facts["repo"] = repos[cwd]
    return session_block(facts, home)


def _draft(one: Found) -> Draft:
    past = one.past
    data = {"started_at": rfc3339(past.started_ms), "last_at": rfc3339(past.last_ms), "turns": past.turns}
    harness = {"name": one.harness, **({"version": past.version} if past.version else {})}
    return {
        "type": "session.backfill",
        "at_ms": now_ms(),
        "harness": harness,
        "session": {"id": past.session_id, "parent_id": past.block.get("parent_id")},
        "data": {name: value for name, value in data.items() if value is not None},
        "memo": {},
    }


__all__ = ["DAYS", "DAY_MS", "Found", "Search", "context_of", "record", "search", "unknown"]
