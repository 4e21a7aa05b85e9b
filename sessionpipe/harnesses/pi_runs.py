"""Pi's ``--mode json`` stream, told as our extension tells what happens in Pi.

The extension sees more than a stream says and gets it in another order, so this carries what it takes to
say the same: which session it is, which run, what a call was started with, how the model stopped. What
comes out are the extension's own payloads, which ``adapters/pi.toml`` already maps, and the exchanges
that a stream, unlike a hook, brings along.

* A run (the protocol's turn) goes from the first ``agent_start`` after idle to ``agent_settled``. Retries
  and queued messages start the agent again within it. Versions of Pi that do not settle end a run with
  their last ``agent_end``.
* A session is started once its first message tells whether it is new. The stream of ``--mode rpc`` has no
  header: what happens is held until an answer of Pi's names the session.
* A stream that breaks off ends the run it was in.
* A line has no time, so what it tells happened when it came. In a stream that was saved and is read later,
  the messages' own times tell.

Pure, and of bounded memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from sessionpipe.harnesses import jsonl, pi_lines
from sessionpipe.harnesses.pi_exchanges import Conversation, Talk, asked
from sessionpipe.harnesses.pi_stream import args_of, success, tool_of
from sessionpipe.privacy import walk
from sessionpipe.protocol import is_session_id

#: A first message that is older than this when it comes was saved, not sent.
SAVED_MS = 10 * 60_000
#: How far a session's creation and its first message are apart when it is a new one.
FRESH_MS = 60_000
#: How many calls that have not ended are remembered.
MAX_CALLS = 256
#: How many events a session that was not named yet may have waiting, and from how much of the stream.
MAX_HELD = 10_000
HELD_BYTES = 32 << 20

_PROMPT = 2_000  # of a prompt, for a title: as much as the extension hands on
_PARTIAL = 4 << 20  # of the deltas of a message that is being said
_VALUES = 1 << 20  # of a call's arguments and result together
_WORD = 4_096  # what a value is cut back by, so that no word of it is cut in half

# --- what is told ---------------------------------------------------------------------------------


class Told(NamedTuple):
    """What the extension would have posted: ``payload`` is a hook's standard input, before encoding.

    ``by_pi_ms``: of a ``session_start``, when its first message was by the clock Pi runs on, where there is
    one. ``saved``: it happened then, and not only now.
    """

    session_id: str
    event: str
    at_ms: int
    payload: dict[str, Any]
    by_pi_ms: int | None = None
    saved: bool = False


class Talked(NamedTuple):
    """An exchange that is over; it follows the end of its run."""

    session_id: str
    at_ms: int
    talk: Talk
    saved: bool = False


# --- lines ----------------------------------------------------------------------------------------


class _Envelope(msgspec.Struct):
    message: msgspec.Raw = msgspec.Raw(b"null")


class _Message(msgspec.Struct):
    role: Any = None
    content: msgspec.Raw = msgspec.Raw(b"null")
    stopReason: Any = None
    errorMessage: Any = None
    model: Any = None
    timestamp: Any = None
    durationMs: Any = None


class _AgentEnd(msgspec.Struct):
    willRetry: Any = None


_ENVELOPES = msgspec.json.Decoder(_Envelope)
_MESSAGES = msgspec.json.Decoder(_Message)
_AGENT_ENDS = msgspec.json.Decoder(_AgentEnd)
_OBJECTS = msgspec.json.Decoder(dict[str, Any])
_ANYTHING = msgspec.json.Decoder(Any)

_DELTA = b'{"type":"message_update",'
_ASSISTANT = b'{"type":"message_start","message":{"role":"assistant"'
# Most of a stream: told again, in full, by another line.
_PASSED_OVER = tuple(
    b'{"type":"%s"' % kind
    for kind in (b"tool_execution_update", b"turn_start", b"turn_end", b"bash_execution_update")
)
#: What Pi answers a command with that leaves the session for another, and how that one begins.
_SWITCHES = {"new_session": "new", "switch_session": "resume", "fork": "fork", "clone": "fork"}
#: Types that only a stream of Pi's has.
_TELLING = frozenset({"session", "agent_start", "message_start", "message_end", "agent_settled", "response"})


def _message(line: bytes) -> _Message | None:
    envelope = jsonl.decode(line, _ENVELOPES)
    return jsonl.decode(bytes(envelope.message), _MESSAGES) if envelope else None


# --- sessions and runs ----------------------------------------------------------------------------


class _Session:
    """A session as far as the stream has told it. ``begins``: how it began, where something says so."""

    def __init__(self, mode: str, at_ms: int, begins: str | None = None) -> None:
        self.id: str | None = None
        self.mode = mode
        self.at_ms = at_ms
        self.begins = begins
        self.began: str | None = None  # as it was told
        self.cwd: str | None = None
        self.created_ms: int | None = None
        self.parent: str | None = None
        self.name: str | None = None
        self.model: str | None = None
        self.file: str | None = None
        self.file_name: str | None = None
        self.is_open = False
        self.saw_system = False
        self.ran = False

    def context(self) -> dict[str, Any]:
        """The extension's ``ctx``."""
        known = {
            "mode": self.mode,
            "cwd": self.cwd,
            "sessionId": self.id,
            "sessionName": self.name,
            "parentSession": self.parent,
            "model": {"id": self.model} if self.model else None,
        }
        return {name: value for name, value in known.items() if value is not None}

    def reason(self, first_ms: int) -> str:
        """How it began, in the words of ``session_start``; ``first_ms``: its first message, by Pi's clock."""
        if self.begins:
            return self.begins
        fresh = self.created_ms is None or abs(first_ms - self.created_ms) <= FRESH_MS
        if self.parent and fresh:
            return "fork"
        return "new" if fresh and (self.saw_system or not self.ran) else "resume"


class _Run:
    """The protocol's turn."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.id: str | None = None  # none before its start was told
        self.stop: str | None = None
        self.error: str | None = None
        self.ended_ms: int | None = None  # of an agent_end that may have been the last
        self.goes_on = False  # after that agent_end, as it said itself or as its queue says
        self.again_ms: int | None = None  # of an agent_start after it


class Runs:
    """Lines in, what they tell out.

    ``find``: where the session file with a name and a folder the session was begun in is, if it is anywhere;
    ``cwd``: Pi's folder, where the stream doesn't tell it.
    """

    def __init__(
        self, find: Callable[[str, str], str | None] = lambda name, cwd: None, cwd: str | None = None
    ) -> None:
        #: Whether anything looked like Pi's stream.
        self.recognized = False
        #: What happened in sessions that were never named.
        self.nameless = 0
        #: Lines that tell something, and can't be read.
        self.unreadable = 0
        self._find = find
        self._cwd = cwd
        self._told: list[Told | Talked] = []
        self._held: list[Told | Talked] = []
        self._held_left = HELD_BYTES
        self._size = 0  # of the line that is being read
        self._session: _Session | None = None
        self._run: _Run | None = None
        self._calls: dict[str, tuple[str | None, Any, int]] = {}
        self._talk = Conversation()
        self._deltas: list[bytes] = []
        self._deltas_left = _PARTIAL
        self._queued = False
        self._settles = False
        self._clock: int | None = None  # of a saved stream
        self._timed = False

    def feed(self, lines: Sequence[bytes], at_ms: int, *, torn: bool = False) -> list[Told | Talked]:
        """What some lines tell, which came at ``at_ms`` (epoch milliseconds); ``torn``: half a line, maybe."""
        unreadable = self.unreadable
        for line in lines:
            if line.startswith(_DELTA):
                if self._deltas_left > 0:
                    self._deltas.append(line)
                    self._deltas_left -= len(line)
            elif line and not line.startswith(_PASSED_OVER):
                self._line(line, at_ms)
        if torn:
            self.unreadable = unreadable  # The stream was cut, which its end tells.
        told, self._told = self._told, []
        return told

    def finish(self, at_ms: int, *, signalled: bool = False, clean: bool = True) -> list[Told | Talked]:
        """What the stream's end tells. ``signalled``: a signal ended it. Not ``clean``: Pi failed."""
        self._leave(self._moment(at_ms), signalled=signalled, clean=clean)
        told, self._told = self._told, []
        return told

    # --- one line -----------------------------------------------------------------------------

    def _line(self, line: bytes, at_ms: int) -> None:
        kind = pi_lines.kind(line)
        self._size = len(line)
        self.recognized |= kind in _TELLING
        match kind:
            case "message_end":
                if message := _message(line):
                    self._message(message, at_ms)
                else:
                    self.unreadable += 1
            case "message_start":
                if line.startswith(_ASSISTANT) and (message := _message(line)):
                    self._answering(message, at_ms)
            case "tool_execution_start" | "tool_execution_end":
                if value := jsonl.decode(line, _OBJECTS):
                    bounded = _bounded(value) if len(line) > _VALUES else value
                    (self._call if kind == "tool_execution_start" else self._called)(bounded, at_ms)
                else:
                    self.unreadable += 1
            case "agent_end":
                self._agent_ended(line, at_ms)
            case None | "message_update":
                pass
            case _ if handler := _HANDLERS.get(kind):
                if value := jsonl.decode(line, _OBJECTS):
                    handler(self, value, at_ms)
                else:
                    self.unreadable += 1

    def _header(self, value: dict[str, Any], at_ms: int) -> None:
        # Streams may follow one another: the one before has ended, then.
        self._leave(self._moment(at_ms))
        session = _Session("json", at_ms)
        session.id = _string(value, "id", "sessionId", "session_id")
        session.cwd = _string(value, "cwd")
        session.parent = _string(value, "parentSession")
        session.created_ms = jsonl.epoch_ms(value.get("timestamp"))
        session.file_name = file_name(value)
        self._session = session
        self._clock, self._timed = None, False

    def _agent_started(self, value: dict[str, Any], at_ms: int) -> None:
        if self._run is None:
            self._run = _Run(self._moment(at_ms))
        elif self._run.ended_ms is not None:
            self._run.again_ms = self._moment(at_ms)

    def _message(self, message: _Message, at_ms: int) -> None:
        self._tell_the_time(message, at_ms)
        moment = self._moment(at_ms)
        if message.role == "system":
            self._of_session(at_ms).saw_system = True
            return
        content = None
        if message.role in ("user", "assistant"):
            content = jsonl.decode(bytes(message.content), _ANYTHING)
        if message.role == "user":
            self._another_run(moment)
            if self._run is None or self._run.id is None:
                self._start(at_ms, prompt=asked(content), asked_ms=_ms(message.timestamp))
        elif message.role == "custom" and (self._run is None or self._run.id is None):
            self._start(at_ms, custom=True)
        if self._run:
            self._run.ended_ms = self._run.again_ms = None
        self._talk.take(
            {"role": message.role, "content": content, "stopReason": message.stopReason}, ms=moment
        )
        if message.role == "assistant":
            self._deltas, self._deltas_left = [], _PARTIAL
            run = self._running(at_ms)
            run.stop = message.stopReason if isinstance(message.stopReason, str) else None
            run.error = message.errorMessage if isinstance(message.errorMessage, str) else None
            self._learn_model(message.model, at_ms)

    def _answering(self, message: _Message, at_ms: int) -> None:
        """The model begins to answer, which may be the first that is known of its run."""
        if self._run and self._run.id is None:
            self._tell_the_time(message, at_ms)
            self._start(at_ms)
        self._learn_model(message.model, at_ms)

    def _learn_model(self, model: Any, at_ms: int) -> None:
        if isinstance(model, str) and model:
            self._of_session(at_ms).model = model

    def _another_run(self, moment: int) -> None:
        """What a person asks after an ``agent_end`` that nothing was to follow begins another run.

        Of versions of Pi that do not settle. In those that do, a message was queued, or there would have
        been an ``agent_settled``.
        """
        run = self._run
        if run is None or run.again_ms is None or run.ended_ms is None or run.goes_on or self._settles:
            return
        again = run.again_ms
        self._end_run(run.ended_ms, aborted=run.stop == "aborted")
        self._run = _Run(again)

    def _call(self, value: dict[str, Any], at_ms: int) -> None:
        call_id, tool, args = _string(value, "toolCallId"), tool_of(value), args_of(value)
        moment = self._moment(at_ms)
        self._running(at_ms)
        if call_id:
            self._calls.pop(call_id, None)
            self._calls[call_id] = (tool, args, moment)
            if len(self._calls) > MAX_CALLS:
                del self._calls[next(iter(self._calls))]
        ev = _known(
            toolCallId=call_id, toolName=tool, args=args, parentToolCallId=value.get("parentToolCallId")
        )
        self._tell("tool_execution_start", moment, ev)

    def _called(self, value: dict[str, Any], at_ms: int) -> None:
        call_id = _string(value, "toolCallId")
        tool, args, since = self._calls.pop(call_id or "", (None, None, None))
        moment, ms = self._moment(at_ms), _ms(value.get("durationMs"))
        if self._clock is not None and since is not None and ms is not None:
            moment = since + ms
        self._running(at_ms)
        ok = success(value)
        ev = _known(
            toolCallId=call_id,
            toolName=tool_of(value) or tool,
            isError=None if ok is None else not ok,
            durationMs=value.get("durationMs"),
            parentToolCallId=value.get("parentToolCallId"),
            result=_content(value.get("result")),
        )
        self._tell("tool_execution_end", moment, ev, **_known(args=args))

    def _agent_ended(self, line: bytes, at_ms: int) -> None:
        run = self._run
        if run is None:
            return
        end = jsonl.decode(line, _AGENT_ENDS) or _AgentEnd()
        run.ended_ms, run.again_ms = self._moment(at_ms), None
        run.goes_on = end.willRetry is True or self._queued
        if end.willRetry is None and not self._settles and not run.goes_on and run.stop != "error":
            # A version that doesn't say whether it goes on goes on only after an error.
            self._end_run(run.ended_ms, aborted=run.stop == "aborted")

    def _settled(self, value: dict[str, Any], at_ms: int) -> None:
        self._settles = True
        if self._run:
            self._running(at_ms)
            self._end_run(self._moment(at_ms), aborted=value.get("aborted") is True)

    def _compacted(self, value: dict[str, Any], at_ms: int) -> None:
        if value.get("result") is not None and value.get("aborted") is not True:
            self._tell("session_compact", self._moment(at_ms), _known(reason=value.get("reason")))

    def _queue(self, value: dict[str, Any], at_ms: int) -> None:
        self._queued = bool(value.get("steering") or value.get("followUp"))

    def _renamed(self, value: dict[str, Any], at_ms: int) -> None:
        self._of_session(at_ms).name = _string(value, "name")

    def _answer(self, value: dict[str, Any], at_ms: int) -> None:
        """An answer to a command of ``--mode rpc``: the only place where such a stream names its session."""
        data = value.get("data")
        data = data if isinstance(data, dict) else {}
        command = value.get("command")
        if value.get("success") is not True:
            return
        if command in _SWITCHES and data.get("cancelled") is not True:
            self._leave(self._moment(at_ms), reason="other")
            self._session = _Session("rpc", at_ms, _SWITCHES[command])
            return
        session = self._of_session(at_ms)
        model = data if command == "set_model" else data.get("model")
        if isinstance(model, dict) and (found := _string(model, "id")):
            session.model = found
        if name := _string(data, "sessionName"):
            session.name = name
        if session_id := _string(data, "sessionId"):
            self._named(session_id, data, at_ms)

    def _named(self, session_id: str, data: Mapping[str, Any], at_ms: int) -> None:
        session = self._of_session(at_ms)
        begins = None
        if type(count := data.get("messageCount")) is int:
            begins = "resume" if count else "new"
        if session.id not in (None, session_id):
            # It went on to another one, which nothing has said.
            self._leave(self._moment(at_ms), reason="other")
            session = self._session = _Session(session.mode, at_ms, begins)
        if session.id is None:
            session.id = session_id
            session.file = _string(data, "sessionFile")
            if not session.is_open:
                session.begins = session.begins or begins
            held, self._held, self._held_left = self._held, [], HELD_BYTES
            for one in held:
                if isinstance(one, Told):
                    one.payload["ctx"]["sessionId"] = session_id
                self._told.append(one._replace(session_id=session_id))
            self._open(at_ms)

    # --- telling ------------------------------------------------------------------------------

    def _of_session(self, at_ms: int) -> _Session:
        if self._session is None:
            # A stream without its beginning, or one of --mode rpc.
            self._session = _Session("rpc", at_ms)
        if self._session.cwd is None:
            self._session.cwd = self._cwd
        return self._session

    def _running(self, at_ms: int) -> _Run:
        """The run that goes on; one whose beginning nobody saw has begun now."""
        run = self._run = self._run or _Run(self._moment(at_ms))
        run.ended_ms = run.again_ms = None
        if run.id is None:
            self._start(at_ms)
        return run

    def _start(
        self, at_ms: int, *, prompt: str | None = None, asked_ms: int | None = None, custom: bool = False
    ) -> None:
        moment = self._moment(at_ms)
        run = self._run = self._run or _Run(moment)
        if self._clock is not None:
            run.at_ms = moment
        # The prompt's own time, so that a stream that is read twice has the same runs.
        run.id = f"run-{run.at_ms if asked_ms is None else asked_ms}"
        session = self._of_session(at_ms)
        session.ran = True
        self._open(at_ms, asked_ms)
        told = _known(id=run.id, custom=custom or None)
        if prompt is not None:
            told["prompt_chars"] = len(prompt)
            if session.began != "resume":
                told["prompt"] = prompt[:_PROMPT]  # Else it is not the first thing that was asked.
        if session.file is None and session.file_name and session.cwd:
            # Pi makes it when the first message has ended, which is now.
            session.file = self._find(session.file_name, session.cwd)
        # Its facts are looked up in its file now; an exchange is told by the stream and is no matter of it.
        self._tell("agent_start", run.at_ms, {}, run=told, context=_known(sessionFile=session.file))

    def _end_run(self, moment: int, *, aborted: bool, cut: bool = False) -> None:
        run = self._run
        if run is None:
            return
        if run.id is None:
            self._start(moment)
        failed = not aborted and (cut or run.stop == "error")
        outcome = "aborted" if aborted else "error" if failed else "completed"
        told = _known(id=run.id, outcome=outcome, stop=run.stop, error=run.error)
        self._tell("agent_settled", moment, {"aborted": aborted}, run=told)
        self._run = None
        self._calls = {}
        self._deltas, self._deltas_left = [], _PARTIAL
        self._exchanges(moment)

    def _exchanges(self, moment: int) -> None:
        self._talk.close()
        over, self._talk = self._talk.over, Conversation()
        for talk in over:
            self._add(Talked(self._id(), moment, talk, self._clock is not None))

    def _open(self, at_ms: int, first_ms: int | None = None) -> None:
        session = self._of_session(at_ms)
        if session.is_open:
            return
        session.is_open = True
        moment = self._moment(at_ms)
        reason = session.began = session.reason(moment if first_ms is None else first_ms)
        started = session.at_ms
        if self._clock is not None:
            started = session.created_ms if reason == "new" and session.created_ms else moment
        self._tell("session_start", started, {"reason": reason}, by_pi_ms=first_ms)

    def _leave(
        self, moment: int, *, signalled: bool = False, clean: bool = True, reason: str = "quit"
    ) -> None:
        """The session is over, and its run with it in one way or another; ``reason``: unless it was cut off."""
        session, run = self._session, self._run
        if session is None:
            return
        if run and run.ended_ms is not None and not run.goes_on and not signalled and clean:
            self._end_run(run.ended_ms, aborted=run.stop == "aborted")
        elif run:
            reason = "other"
            if self._deltas:
                self._talk.take(_so_far(self._deltas), ms=moment)
            self._end_run(moment, aborted=signalled, cut=True)
        elif signalled and not session.ran:
            reason = "other"
        if session.id or session.is_open:
            self._tell("session_shutdown", moment, {"reason": reason})
        if session.id is None:
            # Nobody will ever know which one it was.
            self.nameless += len(self._held)
            self._held, self._held_left = [], HELD_BYTES
        self._session = None

    def _tell(
        self,
        event: str,
        moment: int,
        ev: dict[str, Any],
        *,
        context: Mapping[str, Any] | None = None,
        by_pi_ms: int | None = None,
        **more: Any,
    ) -> None:
        if event != "session_start":
            self._open(moment)
        session = self._of_session(moment)
        payload = {
            "event": event,
            "t": moment,
            "ev": ev,
            "ctx": session.context() | dict(context or {}),
            **more,
        }
        if self._run and self._run.id and "run" not in more and event != "session_start":
            payload["run"] = {"id": self._run.id}
        self._add(Told(self._id(), event, moment, payload, by_pi_ms, self._clock is not None))

    def _add(self, one: Told | Talked) -> None:
        if one.session_id:
            self._told.append(one)
        elif len(self._held) < MAX_HELD and self._held_left > 0:
            self._held.append(one)
            self._held_left -= self._size
        else:
            self.nameless += 1

    def _id(self) -> str:
        return (self._session.id if self._session else None) or ""

    # --- time ---------------------------------------------------------------------------------

    def _moment(self, at_ms: int) -> int:
        return at_ms if self._clock is None else self._clock

    def _tell_the_time(self, message: _Message, at_ms: int) -> None:
        """In a stream that was saved, move the clock to when this message ended."""
        begun = _ms(message.timestamp)
        if begun is None:
            return
        if not self._timed:
            self._timed = True
            if at_ms - begun > SAVED_MS:
                self._clock = begun
        if self._clock is not None:
            lasted = _ms(message.durationMs) or 0 if message.role == "assistant" else 0
            self._clock = min(max(self._clock, begun + lasted), at_ms)


_HANDLERS = {
    "session": Runs._header,
    "agent_start": Runs._agent_started,
    "agent_settled": Runs._settled,
    "compaction_end": Runs._compacted,
    "queue_update": Runs._queue,
    "session_info_changed": Runs._renamed,
    "response": Runs._answer,
}


# --- values ---------------------------------------------------------------------------------------


def file_name(header: Mapping[str, Any]) -> str | None:
    """What Pi calls the file of a session with this header; None where the header doesn't tell."""
    session_id, began = header.get("id"), header.get("timestamp")
    if not (is_session_id(session_id) and isinstance(began, str) and _TIME.fullmatch(began)):
        return None
    return f"{re.sub('[:.]', '-', began)}_{session_id}.jsonl"


_TIME = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]{1,20}Z")


def _so_far(lines: Sequence[bytes]) -> dict[str, Any]:
    """The message that some deltas are of, as far as it had been said."""
    blocks: dict[Any, str] = {}
    for line in lines:
        event = (jsonl.decode(line, _OBJECTS) or {}).get("assistantMessageEvent")
        if not isinstance(event, dict):
            continue
        place = str(event.get("contentIndex"))
        match event.get("type"):
            case "text_delta" if isinstance(event.get("delta"), str):
                blocks[place] = blocks.get(place, "") + event["delta"]
            case "text_end" if isinstance(event.get("content"), str):
                blocks[place] = event["content"]
    content = [{"type": "text", "text": text} for text in blocks.values()]
    return {"role": "assistant", "content": content, "stopReason": "aborted"}


def _content(result: Any) -> dict[str, Any] | None:
    """What the agent got back; what else a result holds says it again."""
    if isinstance(result, dict):
        return {"content": result["content"]} if "content" in result else result
    if result is None:
        return None
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    return {"content": [{"type": "text", "text": text}]}


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    """``value`` with long strings cut, so that a call of any size takes little to redact.

    At an end of a word: a cut inside a credential would leave a half that no rule knows.
    """
    left = _VALUES

    def bound(text: str, *_: Any) -> str:
        nonlocal left
        if len(text) > left:
            end = max(text.rfind("\n", left - _WORD, left), text.rfind(" ", left - _WORD, left))
            text = text[: max(end, 0)] if left else ""
        left -= len(text)
        return text

    bounded: dict[str, Any] = walk.rewrite(value, bound, lambda key: key)
    return bounded


def _known(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _string(value: Mapping[str, Any], *names: str) -> str | None:
    return next((found for name in names if isinstance(found := value.get(name), str) and found), None)


def _ms(value: Any) -> int | None:
    """A count of milliseconds."""
    return int(value) if type(value) in (int, float) and 0 <= value < 2**53 else None
