"""Playing a sender's scenario (conformance/delivery/sender): our courier against a receiver that keeps to it.

The courier, its outbox, its settings and the commands a person gives are real, and so are the
requests; only the clock is the scenario's, so that half an hour takes no time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import threading
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Any

from click.testing import CliRunner

from sessionpipe.cli import cli
from sessionpipe.clock import now_ms
from sessionpipe.config import SinkConfig, load
from sessionpipe.delivery.batch import Batch
from sessionpipe.delivery.courier import Courier, Step
from sessionpipe.delivery.outcome import Outcome
from sessionpipe.outbox import Outbox, SinkState
from sessionpipe.paths import State, config_dir, make_private, state_dir
from sessionpipe.sinks import Log, Setup, Sink
from sessionpipe.sinks.http import HttpSink
from sessionpipe.sinks.wire import Wire
from tests import receiver as misbehaving
from tests.delivery.events import record
from tests.receiver import Answer, Receiver, Request

NAME = "board"
TOKEN = "tok" + "Zq7" * 8
KEY = bytes(range(32))
#: What stands for the 15 s a sender waits for an answer.
DEADLINE_S = 0.4


class Killed(BaseException):
    """The sender died while it waited for an answer."""


class Player:
    """A scenario's sender and receiver; :meth:`play` raises AssertionError where they part."""

    receiver: type[Receiver] = Receiver
    signs = True

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        self._scenario = scenario
        self._start = self._now = self._since = now_ms()
        self._log: list[str] = []
        self._messages: dict[str, tuple[str | None, bytes]] = {}
        self._checked = 0
        self._killed = False
        self._courier: Courier | None = None
        self._sink: SinkConfig | None = None
        self._state = State(state_dir())
        make_private(self._state.root)
        self._outbox = Outbox.open(self._state.outbox)
        answers = [self._answer(step["answer"]) for step in scenario["steps"] if "answer" in step]
        self._receiver = self.receiver(*answers, well_known=self._file(scenario.get("well_known")))

    def play(self) -> None:
        with self._receiver:
            try:
                self._record(self._scenario.get("record", []))
                self._add(self._scenario.get("sink", {}))
                for number, step in enumerate(self._scenario["steps"]):
                    try:
                        self._step(step)
                    except AssertionError as error:
                        raise AssertionError(f"step {number}, {json.dumps(step)[:200]}: {error}") from error
                self._quiet(0)
            finally:
                self._end()
                self._outbox.close()

    # --- steps ----------------------------------------------------------------------------------

    def _step(self, step: Mapping[str, Any]) -> None:
        kind = next(iter(step))
        match kind:
            case "request":
                self._request(step["request"])
            case "quiet":
                self._quiet(step["quiet"])
            case "away":
                self._away(step["away"])
            case "record":
                self._record(step["record"])
            case "restart":
                self._end()
            case "clock":
                self._now += step["clock"] * 1000
                self._since = self._now
            case "well_known":
                self._receiver.well_known = self._file(step["well_known"])
            case "forget":
                self._command("forget", f"claude-code:{step['forget']}")
            case "do":
                self._command(*step["do"])
            case "state":
                self._is(step["state"])
            case _:
                raise AssertionError(f"no step is called {kind}")

    def _request(self, expected: Mapping[str, Any]) -> None:
        least, most = _range(expected.get("wait", 0))
        if least:
            self._until(least * 1000 - 1)
        for seconds in (least, most):
            self._now = max(self._now, self._since + int(seconds * 1000))
            while len(self._receiver.requests) == self._checked and self._run().progress:
                continue
            if len(self._receiver.requests) > self._checked:
                break
        else:
            raise AssertionError("no request came")
        request = self._receiver.requests[self._checked]
        self._checked += 1
        self._since = self._now
        self._is_sound(request)
        assert _named(request) == _identities(expected["events"])
        if "tier" in expected:
            assert {event["tier"] for event in request.events} == {expected["tier"]}
        if "path" in expected:
            assert request.path == expected["path"]
        if "message" in expected:
            self._is_message(expected["message"], request)

    def _is_message(self, label: str, request: Request) -> None:
        """The same label stands for the same message, another for another."""
        sent = self._message(request)
        for known, other in self._messages.items():
            assert (sent == other) == (known == label), f"message {label} against {known}"
            assert sent[0] is None or (sent[0] == other[0]) == (known == label)
        self._messages[label] = sent

    def _message(self, request: Request) -> tuple[str | None, bytes]:
        """What two requests with the same message have in common: its id, if it has one, and its content."""
        return request.headers.get("webhook-id"), request.body

    def _quiet(self, seconds: float) -> None:
        self._until(seconds * 1000)
        self._since = self._now

    def _until(self, ms: float) -> None:
        """Let so much time pass since the last step, in which nothing may be sent."""
        self._now = max(self._now, self._since + int(ms))
        while self._run().progress:
            continue
        came = self._receiver.requests[self._checked :]
        assert not came, f"a request too many or too early: {[_named(request) for request in came]}"

    def _away(self, seconds: int) -> None:
        self._receiver.leave()
        for _ in range(seconds):
            self._run()
            self._now += 1000
        self._receiver.come_back()
        self._since = self._now

    def _record(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            at = self._start + int(event.get("at", self._outbox.last_position()) * 1000)
            record(
                self._outbox,
                event["type"],
                json.loads(re.sub(r"\{x\*(\d+)\}", _repeated, json.dumps(event.get("data", {})))),
                session=event["session"],
                at_ms=at,
                count=event.get("times", 1),
            )

    def _is(self, expected: Mapping[str, Any]) -> None:
        """Whether what ``status`` and the log say holds at least what is expected."""
        (sink,) = json.loads(self._command("status", "--json"))["sinks"]
        assert sink["reason"] is None or sink["reason"].isprintable()
        for key, value in expected.items():
            match key:
                case "says":
                    assert all(part in str(sink["reason"]) for part in value), sink["reason"]
                case "hides":
                    said = f"{sink['reason']} {self._log}"
                    assert not any(part in said for part in value), said
                case "log":
                    assert all(any(part in line for line in self._log) for part in value), self._log
                case "asked":
                    assert self._receiver.asked == value
                case _:
                    assert (key, sink[key]) == (key, value)

    # --- the sender -----------------------------------------------------------------------------

    def _add(self, wanted: Mapping[str, Any]) -> None:
        options = ["--token", "-"]
        if wanted.get("signed") and self.signs:
            file = self._state.root / "secret"
            file.write_text("whsec_" + base64.b64encode(KEY).decode())
            options += ["--secret-file", str(file)]
        for name in ("tier", "tools", "from"):
            if name in wanted:
                options += [f"--{name}", str(wanted[name])]
        self._command("sinks", "add", self._target(), "--name", NAME, *options)

    def _target(self) -> str:
        return self._receiver.url

    def _command(self, *arguments: str) -> str:
        found = CliRunner().invoke(cli, list(arguments), input=TOKEN)
        assert found.exit_code == 0, found.output
        return found.stdout

    def _run(self) -> Step:
        """One step of the courier; a new one when the last died or its settings changed."""
        sink = load(config_dir()).sink(NAME)
        assert sink is not None
        if sink != self._sink:
            self._end()
        if self._courier is None:
            self._sink = sink
            self._courier = Courier(
                sink,
                self._outbox,
                stop=threading.Event(),
                log=self._logged,
                env={},
                make=self._make,
                timer=lambda: 0.0,
            )
        try:
            return self._courier.step(self._now)
        except Killed:
            self._killed = False
            self._courier = None
            return Step(True)

    def _make(self, config: SinkConfig, state: SinkState, *, env: Mapping[str, str], log: Log) -> Sink:
        setup = Setup(config, state.discovery, env, log)
        sink = self._sink_of(setup, Wire(env, DEADLINE_S), lambda: self._now / 1000)
        send = sink.send

        def mortal(batch: Batch) -> Outcome:
            outcome = send(batch)
            if self._killed:
                raise Killed
            return outcome

        sink.send = mortal  # type: ignore[method-assign]
        return sink

    def _sink_of(self, setup: Setup, wire: Wire, clock: Callable[[], float]) -> Sink:
        return HttpSink(setup.config, setup.known, env=setup.env, log=setup.log, wire=wire, clock=clock)

    def _logged(self, _level: str, line: str) -> None:
        self._log.append(line)

    def _end(self) -> None:
        if self._courier is not None:
            self._courier.close()
            self._courier = None

    # --- the receiver ---------------------------------------------------------------------------

    def _answer(self, said: Mapping[str, Any]) -> Answer:
        fault = said.get("fault")
        if fault == "sender killed":
            return Answer(raw=lambda handler: self._kill(handler))
        if fault is not None:
            make = getattr(misbehaving, fault.replace(" ", "_"))
            return Answer(raw=make(said["status"]) if "status" in said else make)
        return Answer(said["status"], _Body(said.get("body", {})), _Dated(self, said.get("headers", {})))

    def _kill(self, handler: Any) -> None:
        self._killed = True
        misbehaving.hang_up(handler)

    def _file(self, said: Any) -> Answer | None:
        if said is None:
            return None
        if "fault" in said:
            return self._answer(said)
        if "status" not in said:
            return Answer(200, said)
        return Answer(said["status"], said.get("body", {}), said.get("headers", {}))

    def _is_sound(self, request: Request) -> None:
        """What holds of every request, whatever the scenario."""
        assert request.headers["content-type"] == "application/json"
        assert request.headers["sessionpipe-protocol"] == "1"
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        most_events, most_bytes = self._bounds()
        assert 1 <= len(request.events) <= most_events
        assert len(request.body) <= most_bytes
        newest: dict[str, int] = {}
        for event in request.events:
            session, seq = event["session"]["id"], event["session"]["seq"]
            assert newest.get(session, -1) < seq
            newest[session] = seq
        if self._scenario.get("sink", {}).get("signed"):
            self._is_signed(request)

    def _bounds(self) -> tuple[int, int]:
        """What the receiver's file says a request may have; what is no number of these says nothing."""
        said = self._receiver.well_known
        batch = said.body.get("batch", {}) if said is not None and isinstance(said.body, dict) else {}
        given = [batch.get("max_events"), batch.get("max_bytes")]
        events, size = (n if isinstance(n, int) and n > 0 else None for n in given)
        return events or 50, size or 262_144

    def _is_signed(self, request: Request) -> None:
        stamp = request.headers["webhook-timestamp"]
        assert abs(int(stamp) - self._now / 1000) <= 1
        signed = f"{request.headers['webhook-id']}.{stamp}.".encode() + request.body
        version, _, signature = request.headers["webhook-signature"].partition(",")
        assert version == "v1"
        assert base64.b64decode(signature) == hmac.digest(KEY, signed, hashlib.sha256)


class _Body:
    """An answer's body, with ``{a:1}`` as the id of that event of the request it answers."""

    def __init__(self, said: Any) -> None:
        self._said = said

    def __call__(self, request: Request) -> Any:
        if isinstance(self._said, str):
            return self._said.encode()
        ids = {
            f"{{{session}:{seq}}}": event["id"]
            for (session, seq), event in zip(_named(request), request.events, strict=True)
        }
        return json.loads(re.sub(r"\{[a-z]+:\d+\}", lambda found: ids[found[0]], json.dumps(self._said)))


class _Dated(dict[str, str]):
    """An answer's headers, with ``{now+N}`` as a date of the scenario's clock at the time they are sent."""

    def __init__(self, player: Player, headers: Mapping[str, str]) -> None:
        super().__init__(headers)
        self._player = player

    def items(self) -> Any:
        now = self._player._now / 1000

        def date(found: re.Match[str]) -> str:
            return formatdate(now + int(found[1]), usegmt=True)

        told = {"date": "{now+0}", **dict(super().items())}
        return {name: re.sub(r"\{now([+-]\d+)\}", date, value) for name, value in told.items()}.items()


def _repeated(found: re.Match[str]) -> str:
    return "x" * int(found[1])


def _range(wait: Any) -> tuple[float, float]:
    return (wait[0], wait[1]) if isinstance(wait, list) else (wait, wait)


def _named(request: Request) -> list[tuple[str, int]]:
    return [(event["session"]["id"], event["session"]["seq"]) for event in request.events]


def _identities(names: list[str]) -> list[tuple[str, int]]:
    """``a:3`` is the event of session a with seq 3, ``a:0..9`` are ten of them."""
    found = []
    for name in names:
        session, _, seqs = name.partition(":")
        first, _, last = seqs.partition("..")
        found += [(session, seq) for seq in range(int(first), int(last or first) + 1)]
    return found


__all__ = ["Player"]
