"""``sinks test``: whether a receiver takes what is sent to it."""

from __future__ import annotations

import os
from typing import assert_never

import msgspec

from sessionpipe.cli.common import Fail
from sessionpipe.cli.sink_words import keeps
from sessionpipe.clock import now_ms
from sessionpipe.config import SinkConfig
from sessionpipe.delivery.batch import Batch
from sessionpipe.delivery.outcome import Acked, Drop, LowerTier, Pause, Retry, Split
from sessionpipe.outbox import SinkState
from sessionpipe.protocol import PROTOCOL, new_id, rfc3339
from sessionpipe.protocol.vocabulary import VOCABULARY
from sessionpipe.sinks import Sink, build
from sessionpipe.sinks.apart import TooSlow, apart


def try_receiver(sink: SinkConfig, row: SinkState) -> list[str]:
    """Send a made-up session and take it back; what to say of it. Raises :class:`Fail`."""
    try:
        return apart(sink.kind, lambda: _tried(sink, row))
    except TooSlow as error:
        raise Fail(f"{sink.name}: {error}") from None


def _tried(sink: SinkConfig, row: SinkState) -> list[str]:
    receiver = build(sink, row, env=os.environ, log=lambda _level, _message: None)
    try:
        learned = receiver.learn(now_ms())
        if isinstance(learned, Pause):
            raise Fail(f"{sink.name}: {learned.reason}")
        if isinstance(learned, Retry):
            raise Fail(f"{sink.name} can't be reached: {learned.error}")
        session, odd = _send(sink, receiver, "session.heartbeat", None)
        remarks = [f"  warning: {odd}"] if odd else []
        if not receiver.forgets():
            why = keeps(sink) or "it does not say that it forgets"
            return [f"{sink.name} works; it keeps the test session {session}: {why}", *remarks]
        _send(sink, receiver, "session.forgotten", session)
        return [f"{sink.name} works: it took a test session and took it back", *remarks]
    finally:
        receiver.close()


def _send(sink: SinkConfig, receiver: Sink, type_: str, session: str | None) -> tuple[str, str | None]:
    """Send one event of a made-up session, a new one unless said; its id, and what is odd of the answer."""
    event_id = new_id()
    seq = 0 if session is None else 1
    session = session or f"test-{event_id}"
    event = {
        "protocol": PROTOCOL,
        "id": event_id,
        "type": type_,
        "time": rfc3339(now_ms()),
        "tier": VOCABULARY[type_].tier,
        "harness": {"name": "sessionpipe"},
        "session": {"id": session, "seq": seq},
        "privacy": {"rulesets": ["secrets@1"], "pii": sink.pii},
        "data": {},
    }
    outcome = receiver.send(Batch(f"msg_{event_id}", (msgspec.json.encode(event),), (event_id,)))
    match outcome:
        case Acked(rejected=(), odd=odd, unnamed=0):
            return session, odd
        case Acked(rejected, odd=odd):
            why = rejected[0][1] if rejected else odd
            raise Fail(f"{sink.name} answers, but will not store a test event: {why}")
        case Pause(reason):
            raise Fail(f"{sink.name}: {reason}")
        case Retry(error) | Drop(error) | Split(error):
            raise Fail(f"{sink.name} did not take a test event: {error}")
        case LowerTier(tier):
            raise Fail(f"{sink.name} refuses a tier-0 event, and says it takes tier {tier}")
        case _:
            assert_never(outcome)
