"""Playing a sender's scenario with an OTLP sink: the same rules, against a collector."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sessionpipe.sinks.base import Setup, Sink
from sessionpipe.sinks.otlp import OtlpSink
from sessionpipe.sinks.wire import Wire
from tests.collector import PROTOBUF, Collector, received, refused, taken
from tests.delivery.sender import TOKEN, Player, _Dated
from tests.receiver import Answer, Request


class OtlpPlayer(Player):
    """What a scenario's receiver answers is said as a collector says it."""

    receiver = Collector
    signs = False

    def _target(self) -> str:
        return f"otlp:{self._receiver.url}"

    def _sink_of(self, setup: Setup, wire: Wire, clock: Callable[[], float]) -> Sink:
        return OtlpSink(setup, wire=wire, clock=clock)

    def _message(self, request: Request) -> tuple[str | None, bytes]:
        return None, json.dumps(request.events).encode()

    def _answer(self, said: Mapping[str, Any]) -> Answer:
        if "fault" in said:
            return super()._answer(said)
        body = said.get("body", {})
        if 200 <= said["status"] < 300:
            count = body.get("refused", 0) if isinstance(body, dict) else 0
            return Answer(
                said["status"], taken(count, body.get("reason", "") if count else "").body, PROTOBUF
            )
        answer = refused(said["status"], body.get("reason", "") if isinstance(body, dict) else "")
        return Answer(said["status"], answer.body, _Dated(self, {**PROTOBUF, **said.get("headers", {})}))

    def _is_sound(self, request: Request) -> None:
        assert request.path == "/v1/logs"
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert 1 <= len(received(request)) <= 200
        newest: dict[str, int] = {}
        for record in received(request):
            session, seq = record.attributes["session.id"], record.attributes["sessionpipe.session.seq"]
            assert newest.get(session, -1) < seq
            newest[session] = seq
            assert record.attributes["log.record.uid"] == record.body["id"]
            assert record.attributes["sessionpipe.tier"] == record.body["tier"]
