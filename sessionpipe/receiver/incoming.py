"""A batch as it arrives (the HTTP binding, ``POST {events}``), made into events or refused. Pure.

What the protocol says a receiver must keep is kept: unknown types, unknown members, extra keys. Only
what an event cannot be stored or ordered without is required of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

import msgspec
from msgspec import Meta

from sessionpipe.protocol.ids import is_harness_name, is_session_id
from sessionpipe.protocol.vocabulary import ULID, VOCABULARY, Tier

#: Deeper than anything an agent says; what reads it later recurses.
DEEPEST = 64
_MOST_SEQ = (1 << 53) - 1
_LONGEST_REASON = 200


class Refused(Exception):
    """A whole request is answered with ``status`` and ``body``, and nothing of it is stored."""

    def __init__(self, status: int, reason: str, **more: Any) -> None:
        super().__init__(reason)
        self.status = status
        self.body = {"reason": reason, **more}


class Event(NamedTuple):
    """An event that can be stored. ``at_ms`` is the sender's clock; ``raw`` the JSON as it came."""

    id: str
    type: str
    at_ms: int
    tier: int
    harness: str
    version: str
    session: str
    seq: int
    block: dict[str, Any]
    data: dict[str, Any]
    raw: bytes


class Batch(NamedTuple):
    """The events of a request that can be stored, in its order, and those that cannot: (id, reason)."""

    events: list[Event]
    rejected: list[tuple[str, str]]


class _Envelope(msgspec.Struct):
    """What is required of an event (protocol §2)."""

    protocol: Literal[1]
    id: ULID
    type: Annotated[str, Meta(pattern=r"^([a-z][a-z0-9]*(\.[a-z][a-z0-9_]*)+|native)$", max_length=200)]
    time: str
    tier: Tier
    harness: dict[str, Any]
    session: dict[str, Any]
    privacy: dict[str, Any]
    data: dict[str, Any]


class _Body(msgspec.Struct):
    events: list[msgspec.Raw]


def read(body: bytes, *, max_events: int, max_tier: int) -> Batch:
    """The events in ``body``. Raises :class:`Refused` when the request as a whole is no batch to take."""
    pieces = _pieces(body)
    if not pieces:
        raise Refused(400, "no_events")
    if len(pieces) > max_events:
        raise Refused(413, "too_many_events", max_events=max_events)
    batch = Batch([], [])
    for piece in pieces:
        try:
            batch.events.append(_allowed(_event(bytes(piece))))
        except ValueError as error:
            batch.rejected.append((_id(bytes(piece)), str(error)[:_LONGEST_REASON]))
    if any(event.tier > max_tier for event in batch.events):
        raise Refused(403, "tier_above_max", max_tier=max_tier)
    return batch


def _pieces(body: bytes) -> Sequence[msgspec.Raw]:
    try:
        return msgspec.json.decode(body, type=_Body).events
    except msgspec.ValidationError:
        raise Refused(400, "not_a_batch") from None
    except (msgspec.DecodeError, RecursionError):
        pass
    # Half a surrogate pair is JSON by its grammar, and one such character must not cost a whole batch.
    try:
        text = json.dumps(json.loads(body, parse_constant=_no), ensure_ascii=False)
        return msgspec.json.decode(text.encode("utf-8", "replace"), type=_Body).events
    except msgspec.ValidationError:
        raise Refused(400, "not_a_batch") from None
    except (ValueError, RecursionError):
        raise Refused(400, "not_json") from None


def _no(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _event(raw: bytes) -> Event:
    """One event; raises ValueError saying what is wrong with it, with nothing of what it holds."""
    try:
        said = msgspec.json.decode(raw, type=_Envelope)
    except RecursionError:
        raise ValueError("too_deep") from None
    except msgspec.DecodeError as error:
        raise ValueError(f"invalid: {error}") from None
    # Brackets inside texts count here too, so that it is only ever looked at when it may be deep.
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _deeper(said.data, DEEPEST):
        raise ValueError("too_deep")
    name, session, seq = said.harness.get("name"), said.session.get("id"), said.session.get("seq")
    if not is_harness_name(name):
        raise ValueError("invalid: harness.name")
    if not is_session_id(session):
        raise ValueError("invalid: session.id")
    if type(seq) is not int or not 0 <= seq <= _MOST_SEQ:
        raise ValueError("invalid: session.seq")
    version = said.harness.get("version")
    return Event(
        id=said.id,
        type=said.type,
        at_ms=moment(said.time),
        tier=said.tier,
        harness=str(name),
        version=version if isinstance(version, str) else "",
        session=str(session),
        seq=seq,
        block=said.session,
        data=said.data,
        raw=raw,
    )


def _allowed(event: Event) -> Event:
    """``event``, unless its type carries more than its tier."""
    row = VOCABULARY.get(event.type)
    if event.tier < (3 if event.type == "native" else row.tier if row else 0):
        raise ValueError("tier_type")
    return event


def stored(raw: bytes) -> Event:
    """An event that was taken once, from its JSON; it stays one whatever the vocabulary has learnt since."""
    return _event(raw)


def hushed(body: str) -> str:
    """The JSON of a ``turn.progress`` without what was said in it: whose it was is left."""
    event = json.loads(body)
    event["data"] = {name: value for name, value in event["data"].items() if name in ("turn", "agent_id")}
    return json.dumps(event, ensure_ascii=False)


def moment(time: str) -> int:
    """An RFC 3339 time as epoch milliseconds; raises ValueError."""
    try:
        found = datetime.fromisoformat(time)
        if found.tzinfo is None:
            raise ValueError
        return int(found.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError("invalid: time is not RFC 3339") from None


def _deeper(value: Any, most: int) -> bool:
    layer = [value]
    for _ in range(most):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not layer:
            return False
    return any(isinstance(left, (dict, list)) for left in layer)


def _id(raw: bytes) -> str:
    """The id of an event that is not one, as far as it has any."""
    try:
        said = msgspec.json.decode(raw, type=dict[str, Any]).get("id")
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return said[:64] if isinstance(said, str) else ""
