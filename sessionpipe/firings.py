"""When each hook fired last, and how long it took: what ``doctor`` knows of hooks beyond their files.

It is one note of the outbox, changed in the commit that marks the jobs done, so that a job counts once
however often its file is read. No text of a session is in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from sessionpipe.adapters import registry

#: The key of the note.
KEY = "firings"
#: How many of the latest hooks of a harness are timed.
TIMED = 200
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,39}")


class Event(msgspec.Struct, array_like=True):
    """One of a harness's events: when it fired last (epoch ms), and how often."""

    last_ms: int
    count: int = 0


class Firings(msgspec.Struct, omit_defaults=True):
    """What a harness's hooks did.

    ``took`` are the latest ones' times in ms, oldest first; ``version`` is the harness's, as it said last.
    """

    events: dict[str, Event] = {}
    took: list[int] = []
    version: str | None = None


class Firing(NamedTuple):
    """One hook that fired: its job's ``harness``, ``event``, ``at_ms`` and ``took_ms``, and what ran it."""

    harness: str
    event: str
    at_ms: int
    took_ms: int | None
    version: str | None = None


def read(note: object) -> dict[str, Firings]:
    """The firings of every harness, by its name; none when there is no note, or none of ours."""
    try:
        return msgspec.json.decode(note, type=dict[str, Firings]) if isinstance(note, str) else {}
    except msgspec.MsgspecError:
        return {}


def with_fired(note: object, fired: Iterable[Firing]) -> str:
    """The note after more hooks fired."""
    told = read(note)
    for one in fired:
        # Names come from job files: only what a table knows is kept, so that the note stays small.
        if not _known(one):
            continue
        of = told.setdefault(one.harness, Firings())
        event = of.events.setdefault(one.event, Event(0))
        event.last_ms = max(event.last_ms, one.at_ms)
        event.count += 1
        if one.took_ms is not None:
            of.took.append(one.took_ms)
        if one.version and _VERSION.fullmatch(one.version):
            of.version = one.version
    for of in told.values():
        del of.took[:-TIMED]
    return msgspec.json.encode(told).decode()


def _known(one: Firing) -> bool:
    try:
        adapter = registry.adapter(one.harness)
    except KeyError:
        return False
    return one.event in adapter.events or one.event in adapter.ignored


def percentile(values: Sequence[int], share: float) -> int | None:
    """The smallest of ``values`` that no less than ``share`` of them (0 to 1) do not exceed; None of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


__all__ = ["KEY", "TIMED", "Event", "Firing", "Firings", "percentile", "read", "with_fired"]
