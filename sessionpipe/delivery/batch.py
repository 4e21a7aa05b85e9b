"""Packing: rows of the outbox become one batch for one sink. Pure.

Rows are taken in the outbox's order, filtered to what the sink may see, thinned, and packed until
one more event would pass a bound. What a batch leaves behind is exactly what has to be committed
with the cursor once the sink has answered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from sessionpipe.config import Tools
from sessionpipe.delivery.thinning import Window
from sessionpipe.outbox import Row, encode
from sessionpipe.privacy.filter import filter_event
from sessionpipe.protocol.vocabulary import VOCABULARY
from sessionpipe.redaction import PLAIN, Redaction

_THREADED = frozenset({"tool.started", "tool.ended", "attention.needed"})


class Limits(msgspec.Struct, frozen=True):
    """What a sink takes at once.

    ``max_bytes`` bounds the whole body: ``envelope`` bytes around the events, and one byte after
    each of them but the last. ``strict``: one event alone over the bound can't be sent at all;
    otherwise the bound only says how much to write at once.
    """

    max_events: int
    max_bytes: int
    envelope: int = 0
    strict: bool = False


class Policy(msgspec.Struct, frozen=True):
    """What a sink may see, and wants: its effective tier, ``pii@1``, thinning, types it does not take.

    ``home`` is a home folder that ``pii@1`` shortens though it does not look like one. ``rules`` are
    run over rows that other rules redacted: they may have grown since.
    """

    tier: int
    pii: bool = False
    tools: Tools = "all"
    without: frozenset[str] = frozenset()
    home: str | None = None
    rules: Redaction = PLAIN


class Batch(msgspec.Struct, frozen=True):
    """What is handed to a sink: the events as JSON, their ids, and an id for the whole.

    The same events of the same series make the same ``id``, on every attempt and by whatever
    process. Events of which one was forgotten meanwhile, or that a lower tier left less of, are
    another message with another id: a signature's id must never stand for two different bodies.
    """

    id: str
    events: tuple[bytes, ...]
    ids: tuple[str, ...]


class GivenUp(msgspec.Struct, frozen=True):
    """An event that can't be sent to this sink at all, and why."""

    position: int
    reason: str


class Packed(msgspec.Struct, frozen=True):
    """A batch (None when the rows left nothing to send) and what is true once it was taken.

    ``position`` is the row the cursor then stands on, ``thinning`` the window to keep with it,
    ``last_id`` the last event the sink then has of these rows. ``given_up`` was passed over for
    good, ``withheld`` counts the events of types the receiver does not take.
    """

    batch: Batch | None
    position: int
    thinning: dict[str, Any]
    given_up: tuple[GivenUp, ...] = ()
    withheld: int = 0
    last_id: str | None = None


def pack(
    series: str,
    rows: Iterable[Row],
    *,
    after: int,
    until: int,
    policy: Policy,
    limits: Limits,
    thinning: dict[str, Any],
    held: int = 0,
) -> Packed:
    """The next batch of ``series`` from ``rows``, which begin behind position ``after``.

    Nothing behind position ``until`` is taken unless it is 0: a batch that is tried again must not
    grow. What goes up to position ``held`` is with the sink already and is passed over.
    """
    window = Window.load(policy.tools, thinning)
    events: list[bytes] = []
    ids: list[str] = []
    given_up: list[GivenUp] = []
    size = limits.envelope - 1
    position = after
    last_id = None
    withheld = 0
    for row in rows:
        if until and row.position > until:
            # What lay between may have been forgotten: the cursor passes it all the same.
            position = until
            break
        withheld += row.type in policy.without
        event = _filtered(row, policy)
        if isinstance(event, GivenUp):
            given_up.append(event)
        elif event is not None:
            session = f"{row.harness}:{row.session}"
            goes, seen = window.admit(session, row.type, event.thread, row.time_ms)
            body = encode(event.body) if goes else b""
            if limits.strict and limits.envelope + len(body) > limits.max_bytes:
                given_up.append(_too_big(row, len(body), limits))
            elif goes:
                # Only an event that finds room may change the window: the next batch begins with it.
                if events and size + 1 + len(body) > limits.max_bytes:
                    break
                if seen is not None:
                    window.keep(session, seen, row.time_ms)
                last_id = event.id
                if row.position > held:
                    size += 1 + len(body)
                    events.append(body)
                    ids.append(event.id)
        position = row.position
        if len(events) >= limits.max_events:
            break
    batch = Batch(_id(series, events), tuple(events), tuple(ids)) if events else None
    return Packed(batch, position, window.dump(), tuple(given_up), withheld, last_id)


class _Filtered(NamedTuple):
    id: str
    thread: str
    body: dict[str, Any]


def _filtered(row: Row, policy: Policy) -> _Filtered | GivenUp | None:
    """The row as this sink may see it; None when it may not."""
    if not wanted(row.type, policy):
        return None
    try:
        event = msgspec.json.decode(row.body)
        clean = event if policy.rules.is_current(row.ruleset) else policy.rules.event(event)
        body = filter_event(clean, policy.tier, policy.pii, policy.home)
        thread = str(event["data"].get("agent_id") or "") if row.type in _THREADED else ""
        return None if body is None else _Filtered(event["id"], thread, body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        # A row that can't be read must not stand in the way of those behind it.
        return GivenUp(row.position, f"its record can't be read ({type(error).__name__})")


def _too_big(row: Row, size: int, limits: Limits) -> GivenUp:
    return GivenUp(
        row.position, f"its {size} bytes are more than the {limits.max_bytes} the receiver takes at once"
    )


def wanted(type_: str, policy: Policy) -> bool:
    """Whether a sink may be sent this type at all: known without reading the event."""
    known = VOCABULARY.get(type_)
    if known is None or known.tier > policy.tier or type_ in policy.without:
        return False
    # Who gets tool events needs no heartbeat beside them (protocol §4).
    return type_ != "session.heartbeat" or policy.tier == 0


def _id(series: str, events: list[bytes]) -> str:
    digest = hashlib.sha256(series.encode())
    for event in events:
        digest.update(b"\n")
        digest.update(event)
    return f"msg_{digest.hexdigest()[:32]}"
