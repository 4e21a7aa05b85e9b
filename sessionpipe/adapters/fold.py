"""What takes memory: a session's drafts, in order, settled by what came before them.

An adapter sees one payload and remembers nothing. :func:`fold` carries a session's memory from job to
job: a call's start is needed for its duration (protocol §4, ``ms``) and, where the harness has no ids
for calls, for the name its end will have; a permission request for the ``attention.cleared`` that follows
it; an end or the usage limits for telling their doubles. It is a pure function over a JSON-able state, one
draft after the other, so that it does not matter how a session's drafts fall into batches:
``fold(fold(s, a), b)`` is ``fold(s, a + b)``.

The state is ``{}`` for a session never seen, and else::

    {"started": bool,      something of the session was sent; its session.started came first
     "tier0_ms": int,      the newest time of a tier-0 event: heartbeats keep a minute's distance from it
     "twins":              events of the last moments that may come by another entry too, at most 64:
         {digest: [how many came by this harness's own entry more than by another's, epoch ms]},
     "ended": bool,        its session.ended was sent, and since then only what may come late
     "limits":             the newest usage limits that were sent, at most 8 accounts':
         {account_id, or "" for the session's own: digest},
     "turn":               the main thread's turn, the running one or the last; null before the first
         {"id": str|null, "since": epoch ms of its turn.started | null, "over": bool,
          "from": epoch ms of the first sign that it runs (after an end, of that end),
          "background": int|null, what its end said still runs} | null,
     "past":               turns behind the running one, oldest first, at most 16:
         {turn_id: true when its end was sent, its "from" when another turn took over without one},
     "count": int,         how many calls and attentions were remembered: their order, as "nth"
     "calls":              calls that started and have not ended, oldest first, at most 256:
         {call: {"since": epoch ms, "nth": int, "tool": str|null, "ask": str|null, "thread": str|null,
                 "minted": bool, its name is ours}},
     "open":               attentions that are needed and not cleared, oldest first, at most 64:
         {attention_id: {"kind": str, "nth": int, "ask": str|null, "thread": str|null, "echo": bool}}}

``thread`` is the subagent's id, null for the main thread. ``ask`` names what a call does (the hash that
also names its permission request). ``echo``: a notification alone told of it. The records inside are
replaced, never changed, so that one level of copying keeps the caller's state as it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sessionpipe.protocol.vocabulary import VOCABULARY

Draft = dict[str, Any]
State = dict[str, Any]

MAX_CALLS = 256
MAX_OPEN = 64
MAX_PAST = 16
MAX_TWINS = 64
MAX_ACCOUNTS = 8
#: How long after one entry of ours another one of the same hook may be run: others' stand between them.
TWIN_MS = 30_000
HEARTBEAT_MS = 60_000

#: Longer ids of a harness are remembered by their hash: the state stays small whatever it sends.
MAX_NAME = 128

_TIER_0 = frozenset(name for name, kind in VOCABULARY.items() if kind.tier == 0)
#: What may be the first event of a session (protocol §4, the rules for all types).
_OPENERS = frozenset({"session.started", "session.backfill"})
#: Attentions of a session that waits for its next prompt, not for an answer inside a turn.
_RESTING = frozenset({"idle", "error"})
#: What may come behind a session's end without its going on: what had begun before is over, or was learnt.
_AFTERMATH = frozenset(
    {"turn.ended", "tool.ended", "subagent.ended", "attention.cleared", "files.changed", "limits.observed"}
)


def fold(state: State, drafts: Sequence[Draft]) -> tuple[State, list[Draft]]:
    """Settle ``drafts``, all of one session and in job order, against its ``state``.

    Returns the state after them and the drafts to send, in order: some dropped, some with an ``ms``
    filled in, some with a draft of ours before them. Neither argument is changed.
    """
    memory = _copy(state)
    settled: list[Draft] = []
    for draft in drafts:
        settled += _settle(memory, draft)
    return memory, settled


def _copy(state: State) -> State:
    return {
        "started": state.get("started", False),
        "tier0_ms": state.get("tier0_ms", 0),
        "twins": dict(state.get("twins", ())),
        "ended": state.get("ended", False),
        "limits": dict(state.get("limits", ())),
        "turn": state.get("turn"),
        "past": dict(state.get("past", ())),
        "count": state.get("count", 0),
        "calls": dict(state.get("calls", ())),
        "open": dict(state.get("open", ())),
    }


def _settle(state: State, draft: Draft) -> list[Draft]:
    """One draft: what its type asks for, then what holds for all types. Empty when it is dropped."""
    kind = draft["type"]
    if draft["memo"].get("only_known") and not state["started"]:
        return []
    if draft["memo"].get("only_new") and state["started"]:
        return []
    if draft["memo"].get("only_running") and not _ends_what_runs(state, draft):
        return []
    if _was_told_by_another_entry(state, draft):
        return []
    settled = _HANDLERS.get(kind, _as_it_is)(state, draft)
    if not settled:
        return []
    if not state["started"]:
        state["started"] = True
        if kind not in _OPENERS:
            settled.insert(0, _of_session(draft, "session.started", {"source": "unknown"}))
    if kind == "session.ended":
        state["ended"] = True
    elif kind not in _AFTERMATH:
        state["ended"] = False
    return _with_heartbeat(state, settled)


def _with_heartbeat(state: State, settled: list[Draft]) -> list[Draft]:
    """Show a tier-0 receiver that a turn is running, where it was told nothing for a minute."""
    draft = settled[-1]
    # Whatever of ours stands before the draft is tier 0 and of this moment.
    silent = len(settled) == 1 and draft["type"] not in _TIER_0
    if silent and not (_running(state) and _beat_is_due(state, draft)):
        return settled
    # The newest time, not the last: heartbeats keep their distance even when a clock steps back.
    state["tier0_ms"] = max(state["tier0_ms"], draft["at_ms"])
    return [_of_session(draft, "session.heartbeat", {}), draft] if silent else settled


def _beat_is_due(state: State, draft: Draft) -> bool:
    due: bool = draft["at_ms"] - state["tier0_ms"] >= HEARTBEAT_MS
    return due


# --- per type: what is sent for a draft (it comes last), or nothing -----------------------------------


def _as_it_is(_state: State, draft: Draft) -> list[Draft]:
    return [draft]


def _heartbeat(state: State, draft: Draft) -> list[Draft]:
    """An adapter's own heartbeat counts like ours: one a minute."""
    return [draft] if _beat_is_due(state, draft) else []


def _session_ended(state: State, draft: Draft) -> list[Draft]:
    """Some harnesses say it several times; a session that went on since has another end."""
    if state["ended"]:
        return []
    cleared = _clear(state, draft, lambda attention: "unknown")
    _leave_turn(state)
    state["turn"] = None
    state["calls"] = {}
    return [*cleared, draft]


def _turn_started(state: State, draft: Draft) -> list[Draft]:
    if _thread(draft) is not None:
        return [draft]
    turn, turn_id = _running(state), _name(draft["data"].get("turn_id"))
    if turn and turn_id is not None and turn["id"] == turn_id:
        # A prompt queued into the running turn: somebody is there, and the turn is as old as it was.
        return [*_clear(state, draft, _how_a_prompt_clears), draft]
    _enter_turn(state, turn_id, draft["at_ms"], prompted=True)
    return [*_clear(state, draft, _how_another_turn_clears), draft]


def _turn_ended(state: State, draft: Draft) -> list[Draft]:
    if _thread(draft) is not None:
        return [draft]
    turn, turn_id = _running(state), _name(draft["data"].get("turn_id"))
    ended = state["past"].get(turn_id)
    if ended is True or (turn_id is None and turn is None and state["turn"]):
        return [draft] if _restates_background(state, turn_id, draft) else []
    if ended is not None:
        # Learnt late, of a turn another one took over from: it says nothing about the one running now.
        _remember(state["past"], turn_id, True, MAX_PAST)
        return [draft]
    since = None
    if turn and _is_of(turn, turn_id):
        turn_id = turn_id or turn["id"]
        since = turn["since"]
    else:
        _leave_turn(state)
    state["turn"] = {
        "id": turn_id,
        "since": since,
        "over": True,
        "from": draft["at_ms"],
        "background": draft["data"].get("background"),
    }
    _remember(state["past"], turn_id, True, MAX_PAST)
    return [*_clear(state, draft, _how_a_turns_end_clears), _timed(draft, since)]


def _tool_started(state: State, draft: Draft) -> list[Draft]:
    cleared = _see_work(state, draft)
    nth, minted = _next(state), draft["data"].get("call_id") is None
    if minted:
        draft = _called(draft, _minted(draft, nth))
    call = {
        "since": draft["at_ms"],
        "nth": nth,
        "tool": draft["data"].get("tool"),
        "ask": draft["memo"].get("ask"),
        "thread": _thread(draft),
        "minted": minted,
    }
    _remember(state["calls"], _name(draft["data"]["call_id"]), call, MAX_CALLS)
    return [*cleared, draft]


def _tool_ended(state: State, draft: Draft) -> list[Draft]:
    thread = _thread(draft)
    if draft["data"].get("call_id") is None:
        draft = _called(draft, _unnamed_call(state, draft) or _minted(draft, _next(state)))
    name = _name(draft["data"]["call_id"])
    call = state["calls"].get(name)
    if call is not None and call["thread"] == thread:
        del state["calls"][name]
    else:
        call = None
    did = {draft["memo"].get("ask"), call and call["ask"]} - {None}

    def how(attention: Mapping[str, Any]) -> str | None:
        # A call that was running before the question came, and is not the one asked about, ends without
        # anybody having answered. One that started later, or was never seen to start, shows an answer.
        shown = call is None or call["nth"] > attention["nth"] or attention["ask"] in did
        return "answered" if attention["thread"] == thread and shown else None

    answered = _clear(state, draft, how)
    return [*answered, *_see_work(state, draft), _timed(draft, call and call["since"])]


def _subagent_ended(state: State, draft: Draft) -> list[Draft]:
    thread = _name(draft["data"]["agent_id"])
    state["calls"] = {name: call for name, call in state["calls"].items() if call["thread"] != thread}
    cleared = _clear(state, draft, lambda attention: "cancelled" if attention["thread"] == thread else None)
    return [*cleared, draft]


def _attention_needed(state: State, draft: Draft) -> list[Draft]:
    kind, thread, name = draft["data"]["kind"], _thread(draft), draft["data"]["attention_id"]
    if name in state["open"] or _repeats(state, draft, kind, thread):
        return []
    if len(name) > MAX_NAME:
        return [draft]
    attention = {
        "kind": kind,
        "nth": _next(state),
        "ask": _asked_about(state, draft),
        "thread": thread,
        "echo": bool(draft["memo"].get("echo")),
    }
    forgotten = _remember(state["open"], name, attention, MAX_OPEN)
    # What is remembered no longer must not stay needed for ever.
    return [*(_cleared(draft, old, "unknown") for old in forgotten), draft]


def _attention_cleared(state: State, draft: Draft) -> list[Draft]:
    """The harness says it itself. It may know the attention only by its kind: then it is the oldest.

    An echo says again what another hook said: it clears only what was known by an echo as well, or it
    would clear the next one that is open.
    """
    kind, thread, name = draft["memo"].get("kind"), _thread(draft), draft["data"].get("attention_id")
    echo = draft["memo"].get("echo")
    if name is None:
        same = (n for n, a in state["open"].items() if a["kind"] == kind and a["thread"] == thread)
        name = next((n for n in same if not echo or state["open"][n].get("echo")), None)
    if state["open"].pop(name, None) is None:
        return []
    return [{**draft, "data": {**draft["data"], "attention_id": name}}]


def _limits_observed(state: State, draft: Draft) -> list[Draft]:
    """A file repeats the numbers with every record; only new ones are an event (protocol §4)."""
    account = _name(draft["data"].get("account_id")) or ""
    numbers = json.dumps(draft["data"], sort_keys=True).encode()
    seen = hashlib.sha256(numbers).hexdigest()[:16]
    if seen == state["limits"].get(account):
        return []
    _remember(state["limits"], account, seen, MAX_ACCOUNTS)
    return [draft]


_HANDLERS: Mapping[str, Callable[[State, Draft], list[Draft]]] = {
    "session.heartbeat": _heartbeat,
    "session.ended": _session_ended,
    "turn.started": _turn_started,
    "turn.ended": _turn_ended,
    "tool.started": _tool_started,
    "tool.ended": _tool_ended,
    "subagent.ended": _subagent_ended,
    "attention.needed": _attention_needed,
    "attention.cleared": _attention_cleared,
    "limits.observed": _limits_observed,
}


# --- the main thread's turn ---------------------------------------------------------------------------


def _running(state: State) -> Mapping[str, Any] | None:
    turn: Mapping[str, Any] | None = state["turn"]
    return turn if turn and not turn["over"] else None


def _is_of(turn: Mapping[str, Any], turn_id: str | None) -> bool:
    """Whether something named ``turn_id`` is of this turn; where one of the two has no name, it is."""
    return turn_id is None or turn["id"] is None or turn["id"] == turn_id


def _ends_what_runs(state: State, draft: Draft) -> bool:
    """Whether an end that no hook told of is one of a turn whose end nobody told.

    That is the turn that runs, unless it is known to run only since later; or one by name that another
    took over from. A file tells the same end at every hook: once told, it is of no turn that runs.
    """
    if _thread(draft) is not None:
        return False
    turn, turn_id = _running(state), _name(draft["data"].get("turn_id"))
    left = state["past"].get(turn_id)
    if left is not None and left is not True:
        return bool(draft["at_ms"] >= left)
    return turn is not None and _is_of(turn, turn_id) and bool(draft["at_ms"] >= _from(turn))


def _from(turn: Mapping[str, Any]) -> int:
    since: int = turn.get("from") or turn["since"] or 0
    return since


def _runs_from(state: State, at_ms: int) -> int:
    """Since when a turn that is seen at ``at_ms`` is known to run: not since the end before it."""
    turn = state["turn"]
    return max(at_ms, _from(turn) + 1) if turn and turn["over"] else at_ms


def _restates_background(state: State, turn_id: str | None, draft: Draft) -> bool:
    """Whether the end of the turn that ended last comes again to say that less, or more, still runs."""
    turn, background = state["turn"], draft["data"].get("background")
    if _running(state) or not turn or not _is_of(turn, turn_id) or background is None:
        return False
    if turn.get("background") in (None, background):
        return False
    state["turn"] = {**turn, "background": background}
    return True


def _leave_turn(state: State) -> None:
    """Remember a turn that is left without its end, so that an end learnt late is known as its."""
    if turn := _running(state):
        _remember(state["past"], turn["id"], _from(turn), MAX_PAST)


def _enter_turn(state: State, turn_id: str | None, at_ms: int, *, prompted: bool) -> None:
    """Another turn runs: the main thread's calls in the one before are over, whether they ended or not."""
    _leave_turn(state)
    state["past"].pop(turn_id, None)
    since, runs_from = at_ms if prompted else None, _runs_from(state, at_ms)
    state["turn"] = {"id": turn_id, "since": since, "over": False, "from": runs_from, "background": None}
    _leave_calls(state)


def _leave_calls(state: State) -> None:
    state["calls"] = {name: call for name, call in state["calls"].items() if call["thread"] is not None}


def _see_work(state: State, draft: Draft) -> list[Draft]:
    """A call of the main thread shows that its turn runs, whatever was heard of the turn before.

    A turn's end may have been undone (somebody's Stop hook made the agent go on), and a queued prompt
    may have begun a turn without a hook. Only a call's end can come late, from a turn already past.
    """
    if _thread(draft) is not None:
        return []
    turn, turn_id = state["turn"], _name(draft["data"].get("turn_id"))
    if turn and _is_of(turn, turn_id):
        if turn["over"]:
            state["past"].pop(turn["id"], None)
            runs_from = _runs_from(state, draft["at_ms"])
            state["turn"] = {**turn, "over": False, "from": runs_from, "background": None}
            if draft["type"] == "tool.started":
                # A call's end may come behind its turn's; once there is other work, it will not come.
                _leave_calls(state)
        return []
    if draft["type"] == "tool.ended" and turn_id in state["past"]:
        return []
    left = _running(state)
    _enter_turn(state, turn_id, draft["at_ms"], prompted=False)
    # After a turn's end, what is open was asked in the turn that is only now seen to run.
    return _clear(state, draft, _how_another_turn_clears) if left else []


# --- attention ----------------------------------------------------------------------------------------


def _repeats(state: State, draft: Draft, kind: str, thread: str | None) -> bool:
    """Whether an open attention says already what this one says.

    An echo without a thread is one of any thread's: a harness's notification does not say whose it is.
    """
    echo = draft["memo"].get("echo")
    if not echo and kind != "idle":
        return False
    anyone = echo and thread is None
    return any(a["kind"] == kind and (anyone or a["thread"] == thread) for a in state["open"].values())


def _asked_about(state: State, draft: Draft) -> str | None:
    """The ``ask`` of the call an attention is about.

    A request's input may be spelled otherwise than its call's (Codex adds a description; a person may
    edit a command before allowing it): then the only running call of that tool is meant, if it is one.
    Where a harness doesn't say which tool a permission is for, it is the only call that runs at all.
    """
    ask: str | None = draft["memo"].get("ask")
    thread, tool = _thread(draft), draft["data"].get("tool")
    if tool is None and draft["data"]["kind"] != "permission":
        return ask
    running = [c for c in state["calls"].values() if c["thread"] == thread]
    same = [call["ask"] for call in running if tool in (None, call["tool"])]
    return same[0] if len(same) == 1 and same[0] is not None else ask


def _how_a_prompt_clears(attention: Mapping[str, Any]) -> str | None:
    return "answered" if attention["thread"] is None and attention["kind"] in _RESTING else None


def _how_a_turns_end_clears(attention: Mapping[str, Any]) -> str | None:
    return "cancelled" if attention["thread"] is None and attention["kind"] not in _RESTING else None


def _how_another_turn_clears(attention: Mapping[str, Any]) -> str | None:
    return _how_a_prompt_clears(attention) or _how_a_turns_end_clears(attention)


def _clear(state: State, draft: Draft, how_of: Callable[[Mapping[str, Any]], str | None]) -> list[Draft]:
    """Close the attentions of which ``how_of`` says how ``draft`` proves them over."""
    if not state["open"]:
        return []
    proved = [(name, how) for name, attention in state["open"].items() if (how := how_of(attention))]
    for name, _ in proved:
        del state["open"][name]
    return [_cleared(draft, name, how) for name, how in proved]


# --- one event by two entries -------------------------------------------------------------------------

#: What of an event is large, or measured, and does not tell it from another.
_UNTELLING = frozenset({"input", "output", "ms", "error"})


def _was_told_by_another_entry(state: State, draft: Draft) -> bool:
    """Whether the same event came by the other of two entries of ours.

    An agent that runs another one's hook file beside its own runs both our entries for each event. Which
    of them it runs first, whether it does at all, and whether its own file is in force, nobody says; so
    nothing is taken for granted: an event of one entry is matched with the same one of the other, one
    for one, whichever comes first. What came by one entry alone counts, and the same event twice by the
    same entry are two.
    """
    if draft["memo"].get("only_running"):
        return False  # From a file, not by an entry; it is known by itself.
    data = {name: value for name, value in draft["data"].items() if name not in _UNTELLING}
    if str(data.get("attention_id", "")).startswith("notif-"):
        del data["attention_id"]  # Made of its moment.
    telling = [draft["type"], draft["memo"].get("thread"), draft["memo"].get("ask"), data]
    # Both entries are mapped by one table, so that the members stand in one order; and this is done for
    # every event there is, for which JSON takes too long.
    name = hashlib.sha256(repr(telling).encode()).hexdigest()[:12]
    way, at_ms = -1 if draft["memo"].get("foreign") else 1, draft["at_ms"]
    twins = state["twins"]
    while twins and abs(at_ms - next(iter(twins.values()))[1]) > TWIN_MS:
        del twins[next(iter(twins))]
    more, told_ms = twins.pop(name, (0, at_ms))
    if abs(at_ms - told_ms) > TWIN_MS:
        more = 0
    if more + way:
        _remember(twins, name, [more + way, at_ms], MAX_TWINS)
    return bool(more * way < 0)


# --- drafts of ours -----------------------------------------------------------------------------------


def _cleared(proof: Draft, name: str, how: str) -> Draft:
    return _beside(proof, "attention.cleared", {"attention_id": name, "how": how})


def _of_session(draft: Draft, kind: str, data: dict[str, Any]) -> Draft:
    """A draft about the session as a whole: a subagent's ``parent_id`` is not the session's."""
    made = _beside(draft, kind, data)
    if _thread(draft) is not None:
        made["session"].pop("parent_id", None)
    return made


def _beside(draft: Draft, kind: str, data: dict[str, Any]) -> Draft:
    return {
        "type": kind,
        "at_ms": draft["at_ms"],
        "harness": dict(draft["harness"]),
        "session": dict(draft["session"]),
        "data": data,
        "memo": {},
    }


def _timed(draft: Draft, since: int | None) -> Draft:
    """``draft`` with the time from ``since`` to it, unless the harness has said how long it took."""
    if since is None or draft["data"].get("ms") is not None:
        return draft
    return {**draft, "data": {**draft["data"], "ms": max(0, draft["at_ms"] - since)}}


# --- names --------------------------------------------------------------------------------------------


def _thread(draft: Draft) -> str | None:
    return _name(draft["memo"].get("thread"))


def _minted(draft: Draft, nth: int) -> str:
    """An id for a call of a harness that has none; also another one when the session's memory was lost."""
    return f"call-{draft['at_ms']}-{nth}"


def _called(draft: Draft, call_id: str) -> Draft:
    return {**draft, "data": {**draft["data"], "call_id": call_id}}


def _unnamed_call(state: State, draft: Draft) -> str | None:
    """The running call that an end without an id is of: the oldest that does the same.

    Identical calls that run side by side can't be told apart, and need not be. A call whose input was
    rewritten on its way (somebody's hook may do that) is meant where it is the only one of its tool.
    """
    thread, tool, ask = _thread(draft), draft["data"].get("tool"), draft["memo"].get("ask")
    alike = {
        name: call["ask"]
        for name, call in state["calls"].items()
        if call.get("minted") and call["thread"] == thread and call["tool"] == tool
    }
    same = (name for name, does in alike.items() if does == ask)
    return next(same, None) or (next(iter(alike)) if len(alike) == 1 else None)


def _name(name: str | None) -> str | None:
    if name is None or len(name) <= MAX_NAME:
        return name
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _next(state: State) -> int:
    nth: int = state["count"]
    state["count"] = nth + 1
    return nth


def _remember(table: dict[str, Any], name: str | None, value: object, most: int) -> list[str]:
    """Make ``name``, if there is one, the newest of ``table``; what goes because of ``most`` is returned."""
    if name is None:
        return []
    table.pop(name, None)
    table[name] = value
    forgotten = list(table)[:-most]
    for old in forgotten:
        del table[old]
    return forgotten


# --- the session block --------------------------------------------------------------------------------

_PER_EVENT = frozenset({"id", "seq"})
_EMPTY = (None, "")
_TITLE_RANKS: Mapping[str | None, int] = {"custom": 3, "harness": 2, "first-ask": 1}


def merge_block(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a session after ``new`` was learnt (protocol §3, COALESCE).

    Fields of the session block but ``id`` and ``seq``. An absent or empty field blanks nothing; ``cwd``
    is where the session started and stays; a title gives way only to one of an equal or better source,
    and takes its source along.
    """
    block, learnt = _told(old), _told(new)
    if "cwd" in block:
        learnt.pop("cwd", None)
    if _title_rank(learnt) < _title_rank(block):
        learnt.pop("title", None)
        learnt.pop("title_source", None)
    return block | learnt


def _told(fields: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in fields.items() if name not in _PER_EVENT and value not in _EMPTY}
    if "title" not in told:
        told.pop("title_source", None)
    return told


def _title_rank(block: Mapping[str, Any]) -> int:
    return _TITLE_RANKS.get(block.get("title_source"), 0)


__all__ = [
    "HEARTBEAT_MS",
    "MAX_CALLS",
    "MAX_OPEN",
    "MAX_PAST",
    "MAX_TWINS",
    "TWIN_MS",
    "Draft",
    "State",
    "fold",
    "merge_block",
]
