"""The outbox's rows as Python has them, and their columns that are JSON."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

import msgspec

_LONE = re.compile("[\ud800-\udfff]")


class Row(NamedTuple):
    """One event as it is stored."""

    position: int
    harness: str
    session: str
    seq: int
    type: str
    time_ms: int
    ruleset: int
    body: bytes


class SessionRow(NamedTuple):
    """One session as ``sessions`` sees it. Times are epoch milliseconds.

    ``facts`` is the session block and ``state`` what fold remembers, as they are stored: of thousands of
    sessions most is never looked at.
    """

    harness: str
    id: str
    next_seq: int
    first_ms: int
    last_ms: int
    last_type: str
    facts: bytes | str
    state: bytes | str

    @property
    def block(self) -> dict[str, Any]:
        """The session block of protocol §3, without id and seq."""
        return object_of(self.facts)


class SinkState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What delivery remembers about one sink, changed in one commit with its cursor.

    ``position`` is the last row the sink is past, ``last_id`` the last event it was given.
    ``paused`` is a pause the receiver caused, with its reason; the person's own pause is in the
    config. ``failures`` and ``next_attempt_ms`` are the backoff, ``since_ms`` is when it was paused
    or began to fail. ``batch_end`` is the last position of the batch being sent, so that a retry
    after a restart is the same message; ``series`` tells the messages of one run over the outbox
    from those of another. ``sent`` events the sink has; ``dropped`` were given up, ``withheld`` are
    of types its receiver does not take. ``lost`` were let go before it had them, because the person's
    bound was reached, the last of them at ``lost_ms``. ``discovery`` is what its well-known file said.
    ``terms`` is how its events were made (tier, pii and so on), ``from`` which position on.
    """

    name: str
    position: int = 0
    last_id: str | None = None
    series: str = ""
    thinning: dict[str, Any] = {}
    paused: str | None = None
    max_tier: int | None = None
    failures: int = 0
    next_attempt_ms: int = 0
    since_ms: int = 0
    batch_end: int = 0
    sent: int = 0
    dropped: int = 0
    withheld: int = 0
    lost: int = 0
    lost_ms: int = 0
    last_error: str | None = None
    discovery: dict[str, Any] = {}
    terms: dict[str, Any] = {}

    def placed(self, position: int) -> SinkState:
        """The row of a sink that starts anew behind ``position``, once more over what it may have had.

        Its messages are others than those before: a receiver that knows messages by their id must
        not take what the person asked for again for a retry.
        """
        return msgspec.structs.replace(
            self, position=position, series=os.urandom(8).hex(), thinning={}, batch_end=0
        )


class Session(msgspec.Struct):
    """A session inside a :class:`Transaction`: change it, then :meth:`Transaction.save` it."""

    sid: int
    harness: str
    id: str
    next_seq: int
    first_ms: int
    last_ms: int
    last_type: str
    block: dict[str, Any]
    state: dict[str, Any]
    transcript: dict[str, Any]
    forgotten_ms: int | None


class PendingRead(NamedTuple):
    """A transcript that is owed a read. ``due_ms`` is None while it sleeps."""

    harness: str
    session: str
    first_ms: int
    transcript: dict[str, Any]
    want: dict[str, Any]
    queued_ms: int
    due_ms: int | None


def encode(value: Any) -> bytes:
    """``value`` as JSON. A lone surrogate, which no UTF-8 can carry, becomes U+FFFD."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_scrub(value))


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_scrub(key): _scrub(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_scrub(inner) for inner in value]
    return value


def object_of(text: object) -> dict[str, Any]:
    """What a session's column holds. A bit may tip on a disk without SQLite's noticing: then nothing.

    A session would else stand still for ever, over what it can learn again.
    """
    if not isinstance(text, str | bytes):
        return {}
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def sink_of(name: str, position: int, state: bytes) -> SinkState:
    try:
        found = msgspec.json.decode(state, type=SinkState)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = SinkState(name=name)  # As above; where it stands is in a column of its own.
    found.position = position
    return found
