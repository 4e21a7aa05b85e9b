"""What a session's events come to, and how it stands at a moment. Pure.

:func:`tell` folds the events of one session, in the order of ``seq``, into a :class:`Memory` that is
small whatever the session did; :func:`standing` reads it. The memory holds facts alone. What nobody
said, that a session which went quiet is over, is this receiver's reading: it is made when somebody
looks, from how long nothing was heard, and :attr:`Standing.reading` says that it is one (protocol §1,
§4 ``session.ended``).

Times are epoch milliseconds: the sender's, but never later than when the event arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from sessionpipe.receiver.incoming import Event, moment
from sessionpipe.words import ASKS, about, cut, duration, one_line, span, text_of

Group = Literal["needs", "working", "recent"]
Tone = Literal["needs", "working", "good", "bad", "quiet"]

MINUTE, HOUR = 60_000, 3_600_000
#: Silence after which a session at work is shown with how long nothing was heard of it.
QUIET_MS = 10 * MINUTE
#: Silence after which a session is read as over, and a question as one nobody will answer here.
GONE_MS, UNANSWERED_MS = 2 * HOUR, 24 * HOUR
TURNS, CALLS, ASKED, AGENTS = 12, 64, 32, 64
#: A prompt may be in a harness's file before its hook has fired.
_EARLY_MS = 5_000
#: How many characters of what was said are remembered for the board.
SAID = 280


class Ask(msgspec.Struct, omit_defaults=True):
    """A question to the person that nothing has shown to be answered."""

    kind: str
    at: int
    seq: int
    tool: str = ""
    message: str = ""
    thread: str = ""


class Call(msgspec.Struct, omit_defaults=True):
    """A tool call that has begun."""

    tool: str
    at: int
    seq: int
    about: str = ""
    thread: str = ""


class Turn(msgspec.Struct, omit_defaults=True):
    """A prompt and what came of it; ``at`` is None when only its end was heard of."""

    at: int | None = None
    id: str = ""
    ended: int | None = None
    reason: str = ""
    ms: int | None = None
    error: str = ""
    injected: bool = False
    #: Its exchange was told: ``user`` and ``assistant``.
    spoken: bool = False
    user: str = ""
    assistant: str = ""


class Progress(msgspec.Struct, omit_defaults=True):
    """The latest reading of the turn that runs (§4 ``turn.progress``)."""

    seq: int
    turn: int
    user: str = ""
    assistant: str = ""


class Memory(msgspec.Struct, omit_defaults=True):
    """What is remembered of a session; each list and table is bounded, the oldest going first."""

    seq: int = -1
    first: int | None = None
    last: int = 0
    tier: int = 0
    version: str = ""
    count: int = 0
    turns: list[Turn] = []
    running: bool = False
    #: What still runs after the last turn's end, as the harness counts it.
    background: int = 0
    #: When the main thread was last seen to do something.
    stirred: int = 0
    calls: dict[str, Call] = {}
    asks: dict[str, Ask] = {}
    agents: dict[str, str] = {}
    progress: Progress | None = None
    ended: str | None = None
    ended_at: int = 0
    history: bool = False

    @property
    def open(self) -> bool:
        """Whether it may need the person, or be at work, depending on how long ago that was."""
        return self.ended is None and bool(self.running or self.background or _pressing(self.asks))


class Standing(NamedTuple):
    """How a session stands: in which group, in words, since when.

    ``reading``: it is concluded from silence, and nobody said it. ``note`` is a remark beside it.
    """

    group: Group
    text: str
    since: int
    tone: Tone
    reading: bool = False
    note: str = ""


# --- the fold -----------------------------------------------------------------------------------


def tell(memory: Memory, event: Event, arrived_ms: int) -> None:
    """Let ``memory`` know of ``event``, the next of its session by ``seq``."""
    at, data = min(event.at_ms, arrived_ms), event.data
    memory.seq = event.seq
    memory.first = at if memory.first is None else min(memory.first, at)
    before, memory.last = memory.last, max(memory.last, at)
    memory.tier = event.tier
    memory.version = event.version or memory.version
    thread = text_of(data, "agent_id")
    match event.type:
        case "session.started":
            memory.ended, memory.history = None, False
            if data.get("source") != "compact":  # Which happens in the middle of a turn.
                memory.running, memory.background = False, 0
                _forget_thread(memory, "")
        case "session.backfill":
            memory.history = memory.history or not memory.turns
            memory.first = min(memory.first, _ms(data.get("started_at"), memory.first))
            # What files say of a session: that it was sent now is no sign of life.
            memory.last = min(_ms(data.get("last_at"), at), at) if memory.history else before
        case "session.ended":
            memory.ended, memory.ended_at = text_of(data, "reason")[:40], at
            memory.running, memory.background, memory.progress = False, 0, None
            memory.asks, memory.calls, memory.agents = {}, {}, {}
        case "session.heartbeat":
            _run(memory, at)
        case "turn.started":
            _turn_started(memory, data, at)
        case "turn.ended":
            _turn_ended(memory, data, at)
        case "turn.transcript":
            _said(memory, data)
        case "turn.progress":
            _run(memory, at)
            memory.progress = Progress(event.seq, _whole(data.get("turn")), *_sides(data))
        case "tool.started":
            _tool_started(memory, data, thread, at, event.seq)
        case "tool.ended":
            _tool_ended(memory, data, thread, at)
        case "attention.needed":
            ask = Ask(
                kind=text_of(data, "kind")[:40],
                at=at,
                seq=event.seq,
                tool=text_of(data, "tool")[:120],
                message=cut(one_line(text_of(data, "message")), SAID),
                thread=thread,
            )
            _put(memory.asks, _name(data, "attention_id") or str(event.seq), ask, ASKED)
        case "attention.cleared":
            memory.asks.pop(_name(data, "attention_id"), None)
        case "subagent.started":
            _put(memory.agents, thread, text_of(data, "agent_type")[:80], AGENTS)
        case "subagent.ended":
            memory.agents.pop(thread, None)
            _forget_thread(memory, thread)
            if "background" in data and not memory.running:
                memory.background = _whole(data["background"])


def _run(memory: Memory, at: int) -> None:
    """The main thread does something: a turn runs, whatever was heard of the turn before."""
    memory.running, memory.ended, memory.history = True, None, False
    memory.stirred = max(memory.stirred, at)


def _turn_started(memory: Memory, data: Mapping[str, Any], at: int) -> None:
    name = _name(data, "turn_id")
    injected = data.get("injected") is True
    if name and memory.running and memory.turns and memory.turns[-1].id == name:
        # A message taken into the turn that runs; it can only make it more the person's own (§4).
        memory.turns[-1].injected &= injected
        memory.asks = {n: a for n, a in memory.asks.items() if a.thread or a.kind not in ("idle", "error")}
        return
    _run(memory, at)
    memory.background = 0
    memory.count += 1
    memory.turns = [*memory.turns[1 - TURNS :], Turn(at=at, id=name, injected=injected)]
    _forget_thread(memory, "")


def _turn_ended(memory: Memory, data: Mapping[str, Any], at: int) -> None:
    name = _name(data, "turn_id")
    turn = _turn_of(memory, name)
    late = turn is not None and memory.running and turn is not memory.turns[-1]
    if turn is None:
        # Its start was not told.
        memory.count += 1
        turn = Turn(id=name)
        memory.turns = [*memory.turns[1 - TURNS :], turn]
    turn.ended, turn.reason = at, text_of(data, "reason")[:40]
    turn.error = cut(one_line(text_of(data, "error")), SAID)
    turn.ms = _whole(data["ms"]) if "ms" in data else (None if turn.at is None else max(0, at - turn.at))
    if late:
        # Learnt long after, of a turn another one has taken over from: that one goes on.
        return
    memory.running, memory.progress = False, None
    memory.background = _whole(data.get("background"))
    memory.asks = {n: a for n, a in memory.asks.items() if a.thread or a.kind in ("idle", "error")}
    memory.calls = {n: c for n, c in memory.calls.items() if c.thread}


def _turn_of(memory: Memory, name: str) -> Turn | None:
    """The turn an end is of: the one of its name, else the last that has not ended."""
    open_ = [turn for turn in memory.turns if turn.ended is None or (name and turn.id == name)]
    same = [turn for turn in open_ if name and turn.id == name]
    return same[-1] if same else next((t for t in reversed(open_) if not (name and t.id)), None)


def _said(memory: Memory, data: Mapping[str, Any]) -> None:
    if memory.progress is not None and memory.progress.turn <= _whole(data.get("turn")):
        memory.progress = None
    if turn := spoken_in(memory.turns, _ms(data.get("at"), 1 << 62)):
        turn.spoken = True
        turn.user, turn.assistant = _sides(data)


class Spoken(Protocol):
    """A turn, as far as an exchange is to find its own."""

    at: int | None
    spoken: bool


_Turn = TypeVar("_Turn", bound=Spoken)


def spoken_in(turns: Sequence[_Turn], at: int) -> _Turn | None:
    """Of which of ``turns`` an exchange is whose last word fell at ``at`` (§4 ``turn.transcript``).

    Exchanges come in the order of their turns and may come late: of those behind the last that has its
    exchange, it is the newest that had begun.
    """
    last = max((index for index, turn in enumerate(turns) if turn.spoken), default=-1)
    left = turns[last + 1 :]
    begun = [turn for turn in left if turn.at is None or turn.at <= at]
    if begun:
        return begun[-1]
    return next((turn for turn in left if (turn.at or 0) <= at + _EARLY_MS), None)


def _tool_started(memory: Memory, data: Mapping[str, Any], thread: str, at: int, seq: int) -> None:
    if not thread:
        _run(memory, at)
        memory.asks = {n: a for n, a in memory.asks.items() if a.thread or a.kind not in ("idle", "error")}
    tool = text_of(data, "tool")[:120]
    call = Call(tool, at, seq, cut(one_line(about(data)), SAID), thread)
    _put(memory.calls, _name(data, "call_id") or f"{thread} {tool}", call, CALLS)


def _tool_ended(memory: Memory, data: Mapping[str, Any], thread: str, at: int) -> None:
    """A call has ended, which answers what its thread asked, unless it ran beside the one asked about."""
    tool = text_of(data, "tool")[:120]
    name = _name(data, "call_id") or f"{thread} {tool}"
    call = memory.calls.get(name)
    alike = [c for c in memory.calls.values() if c.thread == thread and c.tool == tool]

    def answers(ask: Ask) -> bool:
        if ask.thread != thread:
            return False
        if call is None or call.seq > ask.seq:
            return True
        # With two alike that were there before the question, either may be the one that waits.
        before = [c for c in alike if c.seq < ask.seq]
        return ask.tool in ("", tool) and len(before) == 1

    memory.asks = {n: ask for n, ask in memory.asks.items() if not answers(ask)}
    memory.calls.pop(name, None)
    if not thread and memory.running:
        memory.stirred = max(memory.stirred, at)


def _forget_thread(memory: Memory, thread: str) -> None:
    """Nothing a thread asked or ran before matters any more."""
    memory.asks = {n: a for n, a in memory.asks.items() if a.thread != thread}
    memory.calls = {n: c for n, c in memory.calls.items() if c.thread != thread}


def _put(table: dict[str, Any], name: str, value: object, most: int) -> None:
    table.pop(name, None)
    table[name] = value
    for old in list(table)[:-most]:
        del table[old]


def _sides(data: Mapping[str, Any]) -> tuple[str, str]:
    user, assistant = (one_line(text_of(data, side)) for side in ("user", "assistant"))
    return cut(user, SAID), cut(assistant, SAID)


def _name(data: Mapping[str, Any], key: str) -> str:
    return text_of(data, key)[:128]


def _whole(value: object) -> int:
    return min(value, 1 << 53) if type(value) is int and value >= 0 else 0


def _ms(time: object, otherwise: int) -> int:
    try:
        return moment(str(time))
    except ValueError:
        return otherwise


# --- the reading --------------------------------------------------------------------------------


#: At work between tools; and where the tier tells nothing of tools.
_THINKING, _WORKING = "Thinking", "Working"


def standing(memory: Memory, now_ms: int) -> Standing:
    """How a session stands at ``now_ms``."""
    silent = now_ms - memory.last
    if memory.ended is not None:
        reason = f" ({memory.ended})" if memory.ended not in ("", "exit", "other") else ""
        return Standing("recent", f"Ended{reason}", memory.ended_at, "quiet")
    if asks := _pressing(memory.asks):
        words = asked(asks)
        if silent < UNANSWERED_MS:
            return Standing("needs", words, asks[0].at, "needs")
        return Standing("recent", f"Unanswered: {words}", asks[0].at, "quiet", True, "nothing heard since")
    if memory.running or memory.background:
        words, since = doing(memory)
        if silent < QUIET_MS:
            return Standing("working", words, since, "working")
        if silent < GONE_MS:
            return Standing("working", words, since, "working", False, f"nothing heard for {span(silent)}")
        was = "was in the middle of a turn" if words in (_THINKING, _WORKING) else f"was at: {words}"
        return Standing("recent", "Probably over", memory.last, "quiet", True, was)
    if memory.history:
        return Standing("recent", "From history", memory.last, "quiet")
    if not memory.turns:
        return Standing("recent", "Started, no prompt yet", memory.last, "quiet")
    return _rested(memory, silent)


def _rested(memory: Memory, silent: int) -> Standing:
    turn = memory.turns[-1]
    took = f" in {duration(turn.ms)}" if turn.ms is not None else ""
    since = memory.last if turn.ended is None else turn.ended
    match turn.reason:
        case "interrupt":
            return Standing("recent", "Interrupted", since, "bad")
        case "error":
            return Standing("recent", f"Failed: {turn.error}" if turn.error else "Failed", since, "bad")
    if silent < GONE_MS:
        return Standing("recent", f"Turn done{took}", since, "good", note="waits for your next prompt")
    return Standing("recent", "Probably done", since, "quiet", True, f"last turn done{took}")


def asked(asks: list[Ask]) -> str:
    """What the person is asked, in words: the oldest question, and how many more."""
    ask = asks[0]
    words = ASKS.get(ask.kind, ask.kind or "an answer")
    text = words[:1].upper() + words[1:]
    if ask.message or ask.tool:
        text += f": {ask.message or ask.tool}"
    return text + (f" (and {len(asks) - 1} more)" if len(asks) > 1 else "")


def doing(memory: Memory) -> tuple[str, int]:
    """What a session at work does now, in words, and since when."""
    mine = [call for call in memory.calls.values() if not call.thread]
    agents = len(memory.agents)
    beside = f"{agents} subagent{'s' * (agents != 1)}" if agents else ""
    if memory.running and mine:
        call = mine[-1]
        more = f" (and {len(mine) - 1} more)" if len(mine) > 1 else ""
        text = f"{call.tool} {call.about}".strip() + more
        return (f"{text}, {beside}" if beside else text), call.at
    begun = memory.turns[-1].at if memory.turns else None
    since = memory.stirred or begun or memory.last
    if not memory.running:
        since = memory.turns[-1].ended or memory.last if memory.turns else memory.last
        count = memory.background
        return f"Waits for {count} thing{'s' * (count != 1)} in the background", since
    if beside:
        return f"{beside} at work", since
    return _THINKING if memory.tier >= 1 else _WORKING, since


def _pressing(asks: Mapping[str, Ask]) -> list[Ask]:
    """The questions that keep a session from going on, oldest first: an idle prompt keeps it from nothing."""
    return sorted((ask for ask in asks.values() if ask.kind != "idle"), key=lambda ask: ask.seq)


def folded(events: Iterable[tuple[Event, int]]) -> Memory:
    """The memory of a session's ``events``, each with when it arrived, in the order of ``seq``."""
    memory = Memory()
    for event, arrived_ms in events:
        tell(memory, event, arrived_ms)
    return memory
