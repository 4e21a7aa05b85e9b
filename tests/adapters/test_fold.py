"""fold and merge_block: what a session's memory makes of its drafts."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.adapters.fold import (
    HEARTBEAT_MS,
    MAX_CALLS,
    MAX_NAME,
    MAX_OPEN,
    MAX_PAST,
    MAX_TWINS,
    TWIN_MS,
    Draft,
    State,
    fold,
    merge_block,
)
from sessionpipe.protocol.vocabulary import VOCABULARY

MINUTE = HEARTBEAT_MS

# --- how the tests speak ------------------------------------------------------------------------------


_HINTS = ("thread", "ask", "echo", "only_known", "only_new", "only_running")


def draft(what: str, at: int = 0, *, memo: dict[str, Any] | None = None, **data: Any) -> Draft:
    """A draft of one session; what :data:`_HINTS` names are hints, everything else is data."""
    hints = {name: data.pop(name) for name in _HINTS if name in data}
    return {
        "type": what,
        "at_ms": at,
        "harness": {"name": "claude-code", "event": "SomeHook"},
        "session": {"id": "s-1", "cwd": "/home/dev/src"},
        "data": data,
        "memo": {**hints, **(memo or {})},
    }


def started(at: int = 0, source: str = "startup") -> Draft:
    return draft("session.started", at, source=source)


def prompt(turn: str | None = None, at: int = 0, **more: Any) -> Draft:
    return draft("turn.started", at, **({"turn_id": turn} if turn else {}), **more)


def stop(turn: str | None = None, at: int = 0, reason: str = "stop", **more: Any) -> Draft:
    return draft("turn.ended", at, reason=reason, **({"turn_id": turn} if turn else {}), **more)


def learnt(turn: str | None = None, at: int = 0) -> Draft:
    """An interruption that the harness's files tell, and no hook."""
    return stop(turn, at, "interrupt", only_running=True)


def call(name: str | None, at: int = 0, *, tool: str = "Bash", **more: Any) -> Draft:
    return draft("tool.started", at, tool=tool, **({"call_id": name} if name else {}), **more)


def done(name: str | None, at: int = 0, *, tool: str = "Bash", **more: Any) -> Draft:
    return draft("tool.ended", at, tool=tool, ok=True, **({"call_id": name} if name else {}), **more)


def needs(name: str, at: int = 0, kind: str = "permission", **more: Any) -> Draft:
    return draft("attention.needed", at, attention_id=name, kind=kind, **more)


def says_cleared(at: int = 0, *, of: str | None = None, how: str = "answered", **more: Any) -> Draft:
    return draft("attention.cleared", at, how=how, memo={"kind": of} if of else {}, **more)


_WORDS = ("source", "reason", "turn_id", "call_id", "attention_id", "agent_id", "kind", "how")


def line(sent: Draft) -> str:
    """One event in words: its type, its ids and enumerations, and its duration."""
    words = [sent["type"], *(str(sent["data"][word]) for word in _WORDS if word in sent["data"])]
    return " ".join([*words, f"{sent['data']['ms']}ms"] if "ms" in sent["data"] else words)


def told(*drafts: Draft, after: State | None = None) -> list[str]:
    """What is sent for ``drafts`` in a session that has started, in words."""
    state = fold({}, [started()])[0] if after is None else after
    return [line(sent) for sent in fold(state, drafts)[1]]


def types(*drafts: Draft, after: State | None = None) -> list[str]:
    return [sent.split()[0] for sent in told(*drafts, after=after)]


# --- session.started comes before anything else -------------------------------------------------------


def test_a_session_first_seen_in_its_middle_is_opened_as_unknown() -> None:
    assert told(prompt("t1"), after={}) == ["session.started unknown", "turn.started t1"]


def test_a_minted_start_has_the_time_harness_and_session_of_what_it_precedes() -> None:
    first = prompt("t1", at=7)
    minted = fold({}, [first])[1][0]
    assert {**first, "type": "session.started", "data": {"source": "unknown"}, "memo": {}} == minted


@pytest.mark.parametrize("opener", [started(), draft("session.backfill", started_at="…", last_at="…")])
def test_a_session_that_opens_itself_is_not_opened_twice(opener: Draft) -> None:
    assert types(opener, prompt("t1"), after={}) == [opener["type"], "turn.started"]


def test_a_real_start_after_a_minted_one_is_sent() -> None:
    assert told(prompt("t1"), started(), after={}) == [
        "session.started unknown",
        "turn.started t1",
        "session.started startup",
    ]


def test_a_session_that_ended_needs_no_new_start() -> None:
    assert types(draft("session.ended", reason="other"), prompt("t2")) == ["session.ended", "turn.started"]


def test_a_start_that_counts_for_a_new_session_alone_is_sent_once() -> None:
    begins = draft("session.started", source="startup", only_new=True), prompt()
    assert told(*begins, stop(), *begins, after={}) == [
        "session.started startup",
        "turn.started",
        "turn.ended stop 0ms",
        "turn.started",
    ]


def test_a_report_about_a_session_nobody_saw_is_dropped_and_opens_nothing() -> None:
    assert fold({}, [stop("t1", only_known=True)]) == fold({}, [])


def test_a_report_about_a_session_already_seen_is_sent() -> None:
    assert told(stop("t1", only_known=True)) == ["turn.ended stop t1"]


def test_a_draft_dropped_for_another_reason_opens_nothing() -> None:
    state, sent = fold({}, [says_cleared(of="permission")])
    assert (state["started"], sent) == (False, [])


def test_a_subagents_parent_is_not_made_the_sessions_parent() -> None:
    child = call("c1", thread="a1")
    child["session"]["parent_id"] = "s-1"
    assert [sent["session"].get("parent_id") for sent in fold({}, [child])[1]] == [None, "s-1"]


def test_a_session_that_is_a_subagent_keeps_its_parent() -> None:
    child = prompt("t1")
    child["session"]["parent_id"] = "s-0"
    assert [sent["session"]["parent_id"] for sent in fold({}, [child])[1]] == ["s-0", "s-0"]


# --- how long calls and turns took --------------------------------------------------------------------


def test_a_call_takes_from_its_start_to_its_end() -> None:
    assert told(call("c1", at=100), done("c1", at=130))[-1] == "tool.ended c1 30ms"


def test_the_harness_knows_better_how_long_a_call_took() -> None:
    assert told(call("c1", at=100), done("c1", at=130, ms=4))[-1] == "tool.ended c1 4ms"


def test_the_harness_may_say_that_it_took_no_time_at_all() -> None:
    assert told(call("c1", at=100), done("c1", at=130, ms=0))[-1] == "tool.ended c1 0ms"


def test_a_call_whose_start_was_not_seen_has_no_duration() -> None:
    assert told(done("c1", at=130)) == ["tool.ended c1"]


def test_parallel_calls_are_told_apart_by_their_ids() -> None:
    assert told(call("c1", 100), call("c2", 110), done("c2", 150), done("c1", 190))[2:] == [
        "tool.ended c2 40ms",
        "tool.ended c1 90ms",
    ]


def test_a_call_without_an_id_gets_one_that_its_end_has_too() -> None:
    begun, ended = told(call(None, 100, ask="x"), done(None, 130, ask="x"))
    assert (begun, ended) == ("tool.started call-100-0", "tool.ended call-100-0 30ms")


def test_calls_without_ids_are_told_apart_by_what_they_do() -> None:
    assert told(
        call(None, 100, ask="x"), call(None, 110, ask="y"), done(None, 150, ask="y"), done(None, 190, ask="x")
    )[2:] == ["tool.ended call-110-1 40ms", "tool.ended call-100-0 90ms"]


def test_of_identical_calls_without_ids_the_first_to_start_is_the_first_to_end() -> None:
    twice = (
        call(None, 100, ask="x"),
        call(None, 110, ask="x"),
        done(None, 150, ask="x"),
        done(None, 190, ask="x"),
    )
    assert told(*twice)[2:] == ["tool.ended call-100-0 50ms", "tool.ended call-110-1 80ms"]


@pytest.mark.parametrize("other", [{"tool": "Read"}, {"thread": "a1"}])
def test_a_call_without_an_id_is_of_one_tool_and_one_thread(other: dict[str, str]) -> None:
    assert told(call(None, 100, ask="x"), done(None, 130, ask="x", **other))[-1] == "tool.ended call-130-1"


def test_a_call_without_an_id_whose_input_was_rewritten_is_the_only_one_of_its_tool() -> None:
    assert told(call(None, 100, ask="x"), done(None, 130, ask="y"))[-1] == "tool.ended call-100-0 30ms"
    assert told(call(None, 100, ask="x"), call(None, 110, ask="z"), done(None, 130, ask="y"))[-1] == (
        "tool.ended call-130-2"
    )


def test_an_end_without_an_id_is_not_one_of_a_call_that_has_its_own() -> None:
    assert told(call("c1", 100, ask="x"), done(None, 130, ask="x"))[-1] == "tool.ended call-130-1"


def test_an_end_that_is_of_no_call_has_an_id_of_its_own() -> None:
    assert told(done(None, 130, ask="x"), done(None, 140, ask="x")) == [
        "tool.ended call-130-0",
        "tool.ended call-140-1",
    ]


def test_a_minted_id_is_another_one_when_the_sessions_memory_was_lost() -> None:
    assert told(call(None, 100)) != told(call(None, 200))


@pytest.mark.parametrize("between", [[prompt()], [stop(), call(None, 150, ask="z")], [stop(), prompt()]])
def test_a_call_that_never_ended_is_none_of_the_next_turns(between: list[Draft]) -> None:
    """A refused call has no end. The same call in the next turn is another one."""
    again = call(None, 200, ask="x"), done(None, 230, ask="x")
    assert told(prompt(), call(None, 100, ask="x"), *between, *again)[-1].endswith(" 30ms")


def test_a_call_may_end_a_moment_after_its_turn() -> None:
    assert told(prompt(), call(None, 100, ask="x"), stop(at=120), done(None, 121, ask="x"))[-1] == (
        "tool.ended call-100-0 21ms"
    )


def test_a_call_of_another_thread_is_another_call() -> None:
    assert told(call("c1", 100, thread="a1"), done("c1", 130))[-1] == "tool.ended c1"


def test_a_clock_that_steps_back_makes_no_negative_duration() -> None:
    assert told(call("c1", at=100), done("c1", at=60))[-1] == "tool.ended c1 0ms"
    assert told(prompt("t1", at=100), stop("t1", at=60))[-1] == "turn.ended stop t1 0ms"


def test_a_turn_takes_from_its_prompt_to_its_end() -> None:
    assert told(prompt("t1", at=100), stop("t1", at=400))[-1] == "turn.ended stop t1 300ms"
    assert told(prompt(at=100), stop(at=400))[-1] == "turn.ended stop 300ms"


def test_the_harness_knows_better_how_long_a_turn_took() -> None:
    assert told(prompt("t1", at=100), stop("t1", at=400, ms=299))[-1] == "turn.ended stop t1 299ms"


def test_a_turns_prompt_may_not_have_named_it() -> None:
    assert told(prompt(at=100), stop("t1", at=400))[-1] == "turn.ended stop t1 300ms"


def test_a_turn_whose_prompt_was_not_seen_has_no_duration() -> None:
    assert told(call("c1", 100, turn_id="t1"), stop("t1", at=400))[-1] == "turn.ended stop t1"


def test_a_queued_prompt_leaves_the_turn_as_old_as_it_was() -> None:
    assert told(prompt("t1", at=100), prompt("t1", at=300), stop("t1", at=400)) == [
        "turn.started t1",
        "turn.started t1",
        "turn.ended stop t1 300ms",
    ]


def test_without_ids_a_second_prompt_is_another_turn() -> None:
    assert told(prompt(at=100), prompt(at=300), stop(at=400))[-1] == "turn.ended stop 100ms"


def test_a_prompt_under_the_id_of_a_turn_that_ended_starts_it_anew() -> None:
    assert told(prompt("t1", 100), stop("t1", 200), prompt("t1", 300), stop("t1", 350))[-2:] == [
        "turn.started t1",
        "turn.ended stop t1 50ms",
    ]


# --- a turn ends once ---------------------------------------------------------------------------------


def test_a_turn_reported_as_ended_twice_ended_once() -> None:
    assert told(prompt("t1"), stop("t1", 5), stop("t1", 9)) == ["turn.started t1", "turn.ended stop t1 5ms"]


def test_the_second_report_may_come_after_other_news() -> None:
    assert types(prompt("t1"), stop("t1"), needs("i1", kind="idle"), prompt("t2"), stop("t1")) == [
        "turn.started",
        "turn.ended",
        "attention.needed",
        "attention.cleared",
        "turn.started",
    ]


@pytest.mark.parametrize("work", [call("c9", turn_id="t1"), done("c9", turn_id="t1"), call("c9"), done("c9")])
def test_work_of_the_main_thread_after_the_end_shows_that_the_turn_went_on(work: Draft) -> None:
    assert told(prompt("t1"), stop("t1", 5), work, stop("t1", 9))[-1] == "turn.ended stop t1 9ms"


def test_a_call_of_a_turn_long_ended_shows_that_it_went_on() -> None:
    assert types(
        call("c9", turn_id="t1"),
        stop("t1"),
        after=fold({}, [prompt("t1"), stop("t1"), prompt("t2"), stop("t2")])[0],
    ) == ["tool.started", "turn.ended"]


def test_work_of_a_subagent_after_the_end_does_not_show_that() -> None:
    assert "turn.ended" not in types(
        call("c9", turn_id="t1", thread="a1"), stop("t1"), after=fold({}, [prompt("t1"), stop("t1")])[0]
    )


def test_an_end_without_an_id_is_sent_even_when_no_turn_was_known_to_run() -> None:
    assert types(stop()) == ["turn.ended"]


@pytest.mark.parametrize(
    "between",
    [[], [needs("i1", kind="idle")], [call("c1", thread="a1")], [draft("files.changed", paths=["x"])]],
)
def test_an_end_without_an_id_comes_again_only_after_a_prompt_or_work(between: list[Draft]) -> None:
    assert types(stop(), *between, stop()) == ["turn.ended", *(each["type"] for each in between)]


@pytest.mark.parametrize("between", [prompt(), call("c1"), done("c1")])
def test_after_a_prompt_or_work_the_same_end_is_another_one(between: Draft) -> None:
    assert types(stop(), between, stop()) == ["turn.ended", between["type"], "turn.ended"]


@pytest.mark.parametrize("turn", ["t1", None])
def test_an_end_comes_again_when_it_says_that_less_still_runs(turn: str | None) -> None:
    ends = [stop(turn, at, background=left) for at, left in ((5, 2), (6, 2), (9, 1), (12, 0), (13, 0))]
    assert [sent["data"].get("background") for sent in fold({}, [started(), prompt(turn), *ends])[1][2:]] == [
        2,
        1,
        0,
    ]


@pytest.mark.parametrize(("first", "second"), [("t1", None), (None, "t1")])
def test_one_of_two_reports_may_not_name_the_turn(first: str | None, second: str | None) -> None:
    assert types(prompt("t1"), stop(first), stop(second)) == ["turn.started", "turn.ended"]


def test_the_end_of_a_turn_that_began_without_a_prompt_is_sent() -> None:
    assert told(prompt("t1"), stop("t1", 5), stop("t2", 9))[-1] == "turn.ended stop t2"


def test_an_interruption_learnt_after_the_next_prompt_does_not_end_the_next_turn() -> None:
    assert told(
        prompt("t1", 100),
        prompt("t2", 200),
        stop("t1", 210, "interrupt"),
        stop("t1", 220, "interrupt"),
        stop("t2", 300),
    ) == ["turn.started t1", "turn.started t2", "turn.ended interrupt t1", "turn.ended stop t2 100ms"]


def test_after_such_news_an_end_without_an_id_is_the_running_turns() -> None:
    assert types(prompt("t1"), prompt("t2"), stop("t1", reason="interrupt"), stop())[-2:] == [
        "turn.ended",
        "turn.ended",
    ]


def test_a_turn_left_behind_by_one_without_a_prompt_is_past_too() -> None:
    assert told(
        prompt("t1", 100), stop("t2", 150), prompt("t3", 200), stop("t1", 210, "interrupt"), stop("t3", 300)
    )[-1] == ("turn.ended stop t3 100ms")


def test_an_interruption_learnt_after_the_session_was_resumed_does_not_end_its_turn() -> None:
    assert told(
        prompt("t1", 100),
        draft("session.ended", 150, reason="other"),
        prompt("t2", 200),
        stop("t1", 210, "interrupt"),
        stop("t2", 300),
    )[-1] == ("turn.ended stop t2 100ms")


def test_a_late_end_of_a_call_does_not_bring_back_a_turn_that_is_past() -> None:
    assert told(prompt("t1", 100), prompt("t2", 200), done("c1", 210, turn_id="t1"), stop("t2", 300))[-1] == (
        "turn.ended stop t2 100ms"
    )


def test_an_end_that_comes_after_its_sessions_end_is_still_sent_and_once() -> None:
    assert types(prompt("t1"), draft("session.ended", reason="other"), stop("t1"), stop("t1")) == [
        "turn.started",
        "session.ended",
        "turn.ended",
    ]


def test_a_subagents_turn_is_not_the_main_threads() -> None:
    assert told(
        prompt("t1", 100), prompt("t2", 150, thread="a1"), stop("t2", 180, thread="a1"), stop("t1", 400)
    ) == ["turn.started t1", "turn.started t2", "turn.ended stop t2", "turn.ended stop t1 300ms"]


# --- an end that no hook told -------------------------------------------------------------------------


@pytest.mark.parametrize("turn", ["t1", None])
def test_an_interruption_learnt_from_a_file_ends_the_turn_that_runs(turn: str | None) -> None:
    assert told(prompt(turn, 100), learnt(turn, 300))[-1].endswith("200ms")


@pytest.mark.parametrize("turn", ["t1", None])
def test_a_file_says_it_again_at_every_later_hook(turn: str | None) -> None:
    said = learnt(turn, 150)
    later = "t2" if turn else None
    told_once = told(
        *(prompt(turn, 100), call("c1", 120), said, said),
        *(said, needs("i1", 200, kind="idle"), said, prompt(later, 300), said),
        *(call("c2", 310), said, stop(later, 400), said),
    )
    assert [each.split()[0] for each in told_once].count("turn.ended") == 2
    assert told_once[-1].endswith("stop t2 100ms" if turn else "stop 100ms")


@pytest.mark.parametrize("turn", ["t1", None])
def test_a_turn_that_went_on_after_a_learnt_end_is_not_ended_by_it_again(turn: str | None) -> None:
    assert types(prompt(turn, 100), learnt(turn, 150), call("c1", 200), learnt(turn, 150))[1:] == [
        "turn.ended",
        "tool.started",
    ]


@pytest.mark.parametrize("turn", ["t1", None])
def test_what_was_learnt_of_a_turn_whose_end_was_told_is_nothing_new(turn: str | None) -> None:
    assert types(prompt(turn, 100), stop(turn, 200), learnt(turn, 190), learnt(turn, 210)) == [
        "turn.started",
        "turn.ended",
    ]


@pytest.mark.parametrize("turn", ["t1", None])
def test_what_is_told_of_a_turn_whose_end_was_learnt_is_nothing_new(turn: str | None) -> None:
    assert types(prompt(turn, 100), learnt(turn, 190), needs("i1", 195, kind="idle"), stop(turn, 200)) == [
        "turn.started",
        "turn.ended",
        "attention.needed",
    ]


def test_an_interruption_learnt_behind_the_next_prompt_is_of_the_turn_it_names() -> None:
    assert told(prompt("t1", 100), prompt("t2", 200), learnt("t1", 150), learnt("t1", 150))[2:] == [
        "turn.ended interrupt t1"
    ]


def test_without_a_name_it_is_of_no_turn_that_began_later() -> None:
    assert types(prompt(at=100), prompt(at=200), learnt(at=150)) == ["turn.started", "turn.started"]
    assert types(call("c1", 200), learnt(at=150)) == ["tool.started"]


def test_a_learnt_end_opens_no_session() -> None:
    assert fold({}, [learnt("t1")]) == fold({}, [])


def test_where_a_session_ends_without_its_turns_end_the_turn_ends_with_it() -> None:
    """As a headless run does whose harness fires no Stop there, beside one that does."""
    both = stop(None, 300, only_running=True), draft("session.ended", 300, reason="exit")
    assert types(prompt(at=100), *both) == ["turn.started", "turn.ended", "session.ended"]
    assert types(prompt(at=100), stop(at=250), *both) == ["turn.started", "turn.ended", "session.ended"]


# --- a session ends once ------------------------------------------------------------------------------


def ended(reason: str = "exit", at: int = 0) -> Draft:
    return draft("session.ended", at, reason=reason)


def test_a_session_said_to_end_three_times_ended_once() -> None:
    assert told(prompt(), stop(), ended(), ended(), ended("other"))[2:] == ["session.ended exit"]


@pytest.mark.parametrize(
    "late",
    [stop("t1"), done("c1"), draft("subagent.ended", agent_id="a1"), draft("files.changed", paths=["x"])],
)
def test_what_comes_late_does_not_make_it_end_again(late: Draft) -> None:
    assert types(prompt("t1"), ended(), late, ended())[1:] == ["session.ended", late["type"]]


@pytest.mark.parametrize("sign", [started(), prompt("t2"), call("c2"), needs("i1", kind="idle")])
def test_a_session_that_went_on_ends_again(sign: Draft) -> None:
    assert types(ended(), sign, ended()).count("session.ended") == 2


def test_a_session_may_be_opened_and_ended_around_each_prompt() -> None:
    each = started(), prompt(), stop(), ended()
    assert types(*each, *each, after={}) == [one["type"] for one in (*each, *each)]


# --- one event by two entries -------------------------------------------------------------------------


def other(event: Draft, at: int | None = None) -> Draft:
    """The same event as another agent's hook file tells it, by an entry of ours for that agent."""
    memo = {**event["memo"], "foreign": True}
    name = {"name": "claude-code", "event": "AnotherName"}
    return {**event, "at_ms": event["at_ms"] if at is None else at, "harness": name, "memo": memo}


EVENTS = [
    prompt("t1"),
    prompt(prompt_chars=5),
    call("c1", input={"command": "ls"}),
    call(None, ask="x"),
    done("c1", ms=3, output="a"),
    stop("t1"),
    draft("files.changed", paths=["a"]),
    draft("session.ended", reason="exit"),
    needs("p1"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event["type"])
def test_an_event_that_comes_by_two_entries_is_one_whichever_comes_first(event: Draft) -> None:
    for pair in ([event, other(event, 40)], [other(event), {**event, "at_ms": 40}]):
        assert types(*pair) == types(event)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event["type"])
def test_what_comes_by_one_of_two_entries_alone_counts(event: Draft) -> None:
    assert types(other(event)) == types(event)


@pytest.mark.parametrize("by", [lambda event: event, other], ids=["its own", "another's"])
def test_the_same_event_twice_by_the_same_entry_is_two(by: Any) -> None:
    assert types(by(prompt()), by(prompt())) == ["turn.started"] * 2


def test_events_of_two_entries_are_matched_one_for_one() -> None:
    twice = [prompt(at=1, prompt_chars=5), prompt(at=2, prompt_chars=5)]
    assert types(*twice, *map(other, twice)) == ["turn.started"] * 2
    assert types(*map(other, twice), *twice, prompt(at=9, prompt_chars=5)) == ["turn.started"] * 3


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (call("c1"), call("c2")),
        (done("c1"), done("c1", thread="a1")),
        (call(None, ask="x"), call(None, ask="y")),
        (prompt(prompt_chars=1), prompt(prompt_chars=2)),
    ],
)
def test_another_event_by_another_entry_is_another(one: Draft, two: Draft) -> None:
    assert len(types(one, other(two))) == 2


def test_a_notification_is_known_without_the_moment_it_is_named_after() -> None:
    asked = needs("notif-5", 5, kind="question", message="?")
    assert types(asked, {**other(asked, 9), "data": {**asked["data"], "attention_id": "notif-9"}}) == [
        "attention.needed"
    ]


def test_the_other_entry_is_not_waited_for_for_ever() -> None:
    assert types(prompt(at=1), other(prompt(), TWIN_MS + 2)) == ["turn.started"] * 2
    state, _ = fold({}, [call(f"c{n}", n * TWIN_MS * 2) for n in range(9)])
    assert len(state["twins"]) == 1
    state, _ = fold({}, [call(f"c{n}") for n in range(MAX_TWINS * 2)])
    assert len(state["twins"]) == MAX_TWINS


# --- usage limits are told when they are new ----------------------------------------------------------


def limits(used: float, at: int = 0, **more: Any) -> Draft:
    return draft("limits.observed", at, windows=[{"id": "primary", "used_percent": used}], **more)


def test_numbers_told_before_are_not_told_again() -> None:
    assert types(limits(3.5), limits(3.5, 9), limits(4), limits(4, 12)) == ["limits.observed"] * 2


def test_numbers_that_come_back_are_new() -> None:
    assert len(types(limits(90), limits(0), limits(90))) == 3


@pytest.mark.parametrize("other", [{"plan": "pro"}, {"account_id": "a1"}])
def test_another_plan_or_account_is_new(other: dict[str, str]) -> None:
    assert len(types(limits(3), limits(3, **other), limits(3, **other))) == 2


def test_each_account_has_numbers_of_its_own() -> None:
    both = limits(3), limits(50, account_id="pool-1")
    assert len(types(*both, *both, *both)) == 2


def test_of_the_numbers_only_a_digest_is_remembered() -> None:
    many = [{"id": "x" * 900, "used_percent": n, "window_minutes": n} for n in range(8)]
    state, _ = fold({}, [draft("limits.observed", windows=many)])
    assert len(json.dumps(state)) < 400


# --- needing attention: said once ---------------------------------------------------------------------


def test_a_request_repeated_while_it_is_open_is_said_once() -> None:
    assert told(needs("p1"), needs("p1")) == ["attention.needed p1 permission"]


def test_a_request_repeated_after_it_was_cleared_is_said_again() -> None:
    assert told(needs("p1"), says_cleared(attention_id="p1"), needs("p1")) == [
        "attention.needed p1 permission",
        "attention.cleared p1 answered",
        "attention.needed p1 permission",
    ]


def test_the_notification_of_an_open_request_is_the_same_attention() -> None:
    assert told(needs("p1"), needs("n1", echo=True)) == ["attention.needed p1 permission"]


def test_a_notification_is_said_when_nothing_of_its_kind_is_open() -> None:
    assert told(needs("q1", kind="question"), needs("n1", echo=True))[-1] == "attention.needed n1 permission"


def test_a_notification_that_names_no_thread_may_be_a_subagents() -> None:
    assert told(needs("p1", thread="a1"), needs("n1", echo=True)) == ["attention.needed p1 permission"]


def test_a_notification_that_names_a_thread_is_not_another_threads() -> None:
    assert len(told(needs("p1", thread="a1"), needs("n1", echo=True, thread="a2"))) == 2


def test_two_requests_are_two_attentions() -> None:
    assert len(told(needs("p1"), needs("p2"))) == 2


def test_a_session_is_idle_once() -> None:
    assert told(needs("i1", kind="idle"), needs("i2", kind="idle")) == ["attention.needed i1 idle"]


# --- needing attention: cleared by what proves it -----------------------------------------------------


def test_a_cleared_attention_stands_right_before_its_proof_and_at_its_time() -> None:
    request, proof = needs("p1", 10, ask="x"), done("c1", 20, ask="x")
    before, after = fold(fold({}, [call("c1", ask="x"), request])[0], [proof])[1]
    assert before == {
        **proof,
        "type": "attention.cleared",
        "data": {"attention_id": "p1", "how": "answered"},
        "memo": {},
    }
    assert after["type"] == "tool.ended"


def test_the_call_that_was_asked_for_ends_answered() -> None:
    assert told(call("c1", ask="x"), needs("p1", ask="x"), done("c1", ask="x"))[2:] == [
        "attention.cleared p1 answered",
        "tool.ended c1 0ms",
    ]


def test_a_parallel_call_that_ran_before_the_request_proves_nothing() -> None:
    assert told(call("c0", ask="o"), call("c1", ask="x"), needs("p1", ask="x"), done("c0", ask="o"))[3:] == [
        "tool.ended c0 0ms"
    ]


def test_a_call_that_started_after_the_request_proves_an_answer() -> None:
    assert "attention.cleared p1 answered" in told(needs("p1", ask="x"), call("c2"), done("c2"))


def test_a_call_whose_start_was_never_seen_proves_an_answer() -> None:
    assert "attention.cleared p1 answered" in told(needs("p1", ask="x"), done("c2"))


def test_a_request_spelled_otherwise_than_its_call_is_about_the_only_call_of_its_tool() -> None:
    assert "attention.cleared p1 answered" in told(
        call("c1", ask="x"), needs("p1", ask="x described", tool="Bash"), done("c1", ask="x")
    )


def test_a_permission_that_names_no_tool_is_for_the_only_call_that_runs() -> None:
    said = call("c1", ask="x"), needs("n1"), done("c1", ask="x")
    assert "attention.cleared n1 answered" in told(*said)
    other = call("c2", tool="Read", ask="y")
    assert "attention.cleared n1 answered" not in told(other, *said)


def test_a_question_that_names_no_tool_is_for_none() -> None:
    asked = needs("n1", kind="question")
    assert "attention.cleared n1 answered" not in told(call("c1", ask="x"), asked, done("c1", ask="x"))


def test_a_request_the_person_edited_is_answered_by_the_edited_call() -> None:
    assert "attention.cleared p1 answered" in told(
        call("c1", ask="x"), needs("p1", ask="x", tool="Bash"), done("c1", ask="x edited")
    )


def test_with_two_calls_of_its_tool_only_the_same_request_tells_which() -> None:
    running = [call("c1", ask="x"), call("c2", ask="y"), needs("p1", ask="y", tool="Bash")]
    assert "attention.cleared p1 answered" not in told(*running, done("c1", ask="x"))
    assert "attention.cleared p1 answered" in told(*running, done("c2", ask="y"))


def test_a_question_of_a_tool_is_answered_when_its_call_ends() -> None:
    assert "attention.cleared q1 answered" in told(
        call("c1", tool="AskUserQuestion", ask="x"),
        needs("q1", kind="question", tool="AskUserQuestion"),
        done("c1", tool="AskUserQuestion", ask="x"),
    )


@pytest.mark.parametrize("kind", ["permission", "question", "elicitation"])
def test_the_turns_end_cancels_what_the_main_thread_was_asked(kind: str) -> None:
    assert told(prompt("t1"), needs("p1", kind=kind), stop("t1"))[2:] == [
        "attention.cleared p1 cancelled",
        "turn.ended stop t1 0ms",
    ]


@pytest.mark.parametrize("kind", ["permission", "question", "elicitation"])
def test_another_turns_start_cancels_what_the_main_thread_was_asked(kind: str) -> None:
    assert told(prompt("t1"), needs("p1", kind=kind), prompt("t2"))[2:] == [
        "attention.cleared p1 cancelled",
        "turn.started t2",
    ]


def test_a_call_of_another_turn_shows_that_turn_has_started() -> None:
    assert told(prompt("t1"), needs("p1"), call("c2", turn_id="t2"))[2:] == [
        "attention.cleared p1 cancelled",
        "tool.started t2 c2",
    ]


def test_a_call_of_a_turn_that_began_without_a_prompt_answers_what_was_asked_in_it() -> None:
    ended = fold({}, [prompt("t1"), stop("t1")])[0]
    assert told(needs("p1"), done("c2", turn_id="t2"), after=ended)[1:] == [
        "attention.cleared p1 answered",
        "tool.ended t2 c2",
    ]
    assert told(needs("p1"), call("c2", turn_id="t2"), after=ended)[1:] == ["tool.started t2 c2"]


def test_a_prompt_queued_into_the_running_turn_answers_no_request() -> None:
    assert told(prompt("t1"), needs("p1"), prompt("t1"))[2:] == ["turn.started t1"]


@pytest.mark.parametrize("kind", ["idle", "error"])
@pytest.mark.parametrize("turn", ["t1", "t2", None])
def test_a_prompt_answers_a_session_that_waited_for_one(kind: str, turn: str | None) -> None:
    assert "attention.cleared i1 answered" in told(prompt("t1"), needs("i1", kind=kind), prompt(turn))


@pytest.mark.parametrize("kind", ["idle", "error"])
def test_a_turns_end_does_not_end_the_wait_for_a_prompt(kind: str) -> None:
    assert types(prompt("t1"), needs("i1", kind=kind), stop("t1"))[2:] == ["turn.ended"]


def test_the_late_end_of_a_past_turn_cancels_nothing_of_the_running_one() -> None:
    assert types(prompt("t1"), prompt("t2"), needs("p1"), stop("t1", reason="interrupt"))[3:] == [
        "turn.ended"
    ]


def test_the_sessions_end_clears_everything_as_unknown() -> None:
    assert told(needs("p1"), needs("i1", kind="idle"), needs("p2", thread="a1"), draft("session.ended"))[
        3:
    ] == [
        "attention.cleared p1 unknown",
        "attention.cleared i1 unknown",
        "attention.cleared p2 unknown",
        "session.ended",
    ]


def test_a_subagents_end_cancels_what_it_asked() -> None:
    assert told(needs("p1", thread="a1"), needs("p2"), draft("subagent.ended", agent_id="a1"))[2:] == [
        "attention.cleared p1 cancelled",
        "subagent.ended a1",
    ]


@pytest.mark.parametrize(
    "said", [done("c1"), stop("t1"), prompt("t2"), prompt("t1"), draft("subagent.ended", agent_id="a2")]
)
def test_a_subagents_request_is_no_business_of_others(said: Draft) -> None:
    assert "attention.cleared" not in types(prompt("t1"), needs("p1", thread="a1"), said)


def test_a_subagent_that_waits_is_not_answered_by_the_main_threads_prompt() -> None:
    assert "attention.cleared" not in types(needs("i1", kind="idle", thread="a1"), prompt("t1"))


@pytest.mark.parametrize("said", [done("c1", thread="a1"), draft("subagent.ended", agent_id="a1")])
def test_the_main_threads_request_is_no_business_of_a_subagent(said: Draft) -> None:
    assert "attention.cleared" not in types(prompt("t1"), needs("p1"), said)


# --- needing attention: cleared because the harness says so -------------------------------------------


def test_the_harness_may_clear_by_kind() -> None:
    assert told(needs("q1", kind="question"), says_cleared(of="question"))[1:] == [
        "attention.cleared q1 answered"
    ]


def test_the_oldest_of_a_kind_is_cleared_first() -> None:
    assert told(needs("p1"), needs("p2"), says_cleared(of="permission"))[2:] == [
        "attention.cleared p1 answered"
    ]


def test_the_harness_may_clear_by_id() -> None:
    assert told(needs("p1"), needs("p2"), says_cleared(attention_id="p2", how="timeout"))[2:] == [
        "attention.cleared p2 timeout"
    ]


def test_a_repeated_word_of_an_answer_does_not_clear_the_next_prompt() -> None:
    """Two servers ask at once; the notification of the first answer comes behind the answer itself."""
    answered = says_cleared(of="elicitation"), says_cleared(of="elicitation", echo=True)
    asked = needs("e1", kind="elicitation"), needs("e2", kind="elicitation")
    assert told(*asked, *answered)[2:] == ["attention.cleared e1 answered"]
    assert told(*asked, *answered, *answered)[2:] == [
        "attention.cleared e1 answered",
        "attention.cleared e2 answered",
    ]


def test_what_only_a_notification_told_a_notification_clears() -> None:
    asked = needs("n1", kind="elicitation", echo=True)
    assert told(asked, says_cleared(of="elicitation", echo=True))[1:] == ["attention.cleared n1 answered"]


@pytest.mark.parametrize(
    "said",
    [
        says_cleared(of="question"),
        says_cleared(of="permission", thread="a1"),
        says_cleared(attention_id="p9"),
        says_cleared(),
    ],
)
def test_what_was_not_needed_is_not_cleared(said: Draft) -> None:
    assert told(needs("p1"), said) == ["attention.needed p1 permission"]


def test_what_the_harness_cleared_is_not_cleared_again_by_proof() -> None:
    assert types(prompt("t1"), needs("p1"), says_cleared(of="permission"), stop("t1"))[3:] == ["turn.ended"]


# --- heartbeats ---------------------------------------------------------------------------------------


def test_a_turn_that_works_for_a_minute_beats_right_before_the_event_that_shows_it() -> None:
    assert told(prompt("t1"), call("c1", MINUTE - 1), done("c1", MINUTE)) == [
        "turn.started t1",
        "tool.started c1",
        "session.heartbeat",
        "tool.ended c1 1ms",
    ]


def test_a_heartbeat_has_the_time_harness_and_session_of_what_it_precedes() -> None:
    work = call("c1", MINUTE)
    beat = fold(fold({}, [started(), prompt("t1")])[0], [work])[1][0]
    assert beat == {**work, "type": "session.heartbeat", "data": {}, "memo": {}}


def test_it_beats_once_a_minute() -> None:
    times = (MINUTE, MINUTE + 5, 2 * MINUTE - 1, 2 * MINUTE)
    assert types(prompt("t1"), *(call(f"c{at}", at) for at in times)).count("session.heartbeat") == 2


def test_any_tier_0_event_is_as_good_as_a_heartbeat() -> None:
    assert "session.heartbeat" not in types(
        prompt("t1"),
        needs("q1", MINUTE - 1, kind="question"),
        draft("context.compacted", MINUTE, trigger="auto"),
    )


def test_a_cleared_attention_is_as_good_as_a_heartbeat() -> None:
    assert "session.heartbeat" not in types(prompt("t1"), needs("p1", 1), done("c1", 2 * MINUTE))


def test_nothing_beats_between_turns() -> None:
    assert "session.heartbeat" not in types(
        prompt("t1"), stop("t1"), draft("subagent.ended", MINUTE, agent_id="a1")
    )


def test_a_subagents_work_shows_that_the_main_threads_turn_runs() -> None:
    beat, work = fold(fold({}, [started(), prompt("t1")])[0], [call("c1", MINUTE, thread="a1")])[1]
    assert (beat["type"], work["type"]) == ("session.heartbeat", "tool.started")


def test_a_turn_that_began_without_a_prompt_beats() -> None:
    assert types(prompt("t1"), stop("t1"), call("c1", MINUTE, turn_id="t2")) == [
        "turn.started",
        "turn.ended",
        "session.heartbeat",
        "tool.started",
    ]


def test_an_adapters_own_heartbeats_are_one_a_minute_too() -> None:
    beats = [draft("session.heartbeat", at) for at in (1, MINUTE, MINUTE + 1, 2 * MINUTE)]
    assert types(prompt("t1"), *beats) == ["turn.started", "session.heartbeat", "session.heartbeat"]


def test_a_clock_that_steps_back_brings_no_heartbeats_closer() -> None:
    assert (
        types(
            prompt("t1"),
            call("c1", 10 * MINUTE),
            needs("q1", 2 * MINUTE, kind="question"),
            call("c2", 3 * MINUTE),
        ).count("session.heartbeat")
        == 1
    )


# --- the session's end, and bounds --------------------------------------------------------------------


def test_a_session_that_ended_has_nothing_running() -> None:
    state, _ = fold({}, [prompt("t1"), call("c1"), needs("p1"), draft("session.ended", reason="exit")])
    assert (state["turn"], state["calls"], state["open"]) == (None, {}, {})


def test_another_turn_leaves_no_calls_behind() -> None:
    state, _ = fold({}, [prompt("t1"), call("declined"), call("c2", thread="a1"), prompt("t2")])
    assert list(state["calls"]) == ["c2"]


def test_a_subagents_end_leaves_no_calls_behind() -> None:
    state, _ = fold({}, [call("c1"), call("c2", thread="a1"), draft("subagent.ended", agent_id="a1")])
    assert list(state["calls"]) == ["c1"]


def test_of_too_many_calls_the_oldest_is_forgotten() -> None:
    state, _ = fold({}, [call(f"c{n}", n) for n in range(MAX_CALLS + 1)])
    assert len(state["calls"]) == MAX_CALLS
    assert told(done("c0", 900), after=state) == ["tool.ended c0"]
    assert told(done("c1", 900), after=state) == ["tool.ended c1 899ms"]


def test_a_call_that_starts_again_is_no_longer_the_oldest() -> None:
    state, _ = fold({}, [call(f"c{n}") for n in range(MAX_CALLS)] + [call("c0"), call("one more")])
    assert "c0" in state["calls"]


def test_of_too_many_attentions_the_oldest_does_not_stay_needed() -> None:
    state, sent = fold({}, [needs(f"p{n}") for n in range(MAX_OPEN + 1)])
    assert [line(s) for s in sent[-2:]] == [
        "attention.cleared p0 unknown",
        f"attention.needed p{MAX_OPEN} permission",
    ]
    assert len(state["open"]) == MAX_OPEN


def test_of_too_many_past_turns_the_oldest_is_forgotten() -> None:
    state, _ = fold({}, [each for n in range(MAX_PAST + 1) for each in (prompt(f"t{n}"), stop(f"t{n}"))])
    assert list(state["past"]) == [f"t{n}" for n in range(1, MAX_PAST + 1)]


def test_a_very_long_id_does_its_work_without_filling_the_state() -> None:
    long = "x" * 100_000
    state, sent = fold({}, [prompt(long), call(long, thread=long), needs(long, thread=long)])
    assert len(json.dumps(state)) < 1_000
    assert [s["data"].get("turn_id") or s["data"].get("call_id") for s in sent[1:3]] == [long, long]
    assert types(done(long, thread=long), stop(long), stop(long), after=state) == ["tool.ended", "turn.ended"]


def test_a_state_of_an_earlier_version_is_read_for_what_it_has() -> None:
    assert types(prompt("t1"), after={"started": True}) == ["turn.started"]


# --- orders as the programs fire them (recorded, reduced to what matters) ------------------------------


def test_claude_code_asks_and_is_answered_declined_and_answered_again() -> None:
    assert told(
        started(0),
        prompt("27153", 4028),
        call("w", 4319, turn_id="27153", tool="Write", ask="perm-w"),
        needs("perm-w", 4544, ask="perm-w", tool="Write"),
        needs("notif-10584", 10584, echo=True),
        done("w", 14266, turn_id="27153", tool="Write", ask="perm-w", ms=284),
        stop("27153", 14960),
        prompt("15284", 18439),
        call("b", 18539, turn_id="15284", ask="perm-b"),
        needs("perm-b", 18658, ask="perm-b", tool="Bash"),
        needs("notif-24999", 24999, echo=True),
        prompt("7dfc9", 32871),  # declined with Escape: no hook of its own
        call("c", 33092, turn_id="7dfc9", ask="perm-c"),
        needs("perm-c", 33263, ask="perm-c", tool="Bash"),
        done("c", 37249, turn_id="7dfc9", ask="perm-c", ms=404),
        call("d", 37347, turn_id="7dfc9", ask="perm-d"),
        needs("perm-d", 37548, ask="perm-d", tool="Bash"),
        done("d", 41104, turn_id="7dfc9", ask="perm-d", ms=552),
        stop("7dfc9", 41446),
        draft("session.ended", 44985, reason="exit"),
        after={},
    ) == [
        "session.started startup",
        "turn.started 27153",
        "tool.started 27153 w",
        "attention.needed perm-w permission",
        "attention.cleared perm-w answered",
        "tool.ended 27153 w 284ms",
        "turn.ended stop 27153 10932ms",
        "turn.started 15284",
        "tool.started 15284 b",
        "attention.needed perm-b permission",
        "attention.cleared perm-b cancelled",
        "turn.started 7dfc9",
        "tool.started 7dfc9 c",
        "attention.needed perm-c permission",
        "attention.cleared perm-c answered",
        "tool.ended 7dfc9 c 404ms",
        "tool.started 7dfc9 d",
        "attention.needed perm-d permission",
        "attention.cleared perm-d answered",
        "tool.ended 7dfc9 d 552ms",
        "turn.ended stop 7dfc9 8575ms",
        "session.ended exit",
    ]


def test_claude_code_headless_refuses_by_itself() -> None:
    assert told(
        prompt("2526f", 146),
        call("w", 474, turn_id="2526f", tool="Write", ask="perm-w"),
        needs("perm-w", 574, ask="perm-w", tool="Write"),
        call("b", 621, turn_id="2526f", ask="perm-b"),
        needs("perm-b", 680, ask="perm-b", tool="Bash"),
        stop("2526f", 851),
        draft("session.ended", 905, reason="other"),
    )[5:] == [
        "attention.cleared perm-w cancelled",
        "attention.cleared perm-b cancelled",
        "turn.ended stop 2526f 705ms",
        "session.ended other",
    ]


def test_claude_code_absorbs_one_queued_prompt_and_runs_the_other_as_a_turn_without_a_start() -> None:
    assert told(
        prompt("b3c30", 3866),
        call("s", 4067, turn_id="b3c30"),
        prompt("b3c30", 5729),
        done("s", 8209, turn_id="b3c30", ms=4079),
        stop("b3c30", 8418),
        prompt("5db15", 13162),
        prompt("5db15", 15087),
        stop("5db15", 16924),
        stop("8bf63", 17492),
        draft("session.ended", 23497, reason="exit"),
    ) == [
        "turn.started b3c30",
        "tool.started b3c30 s",
        "turn.started b3c30",
        "tool.ended b3c30 s 4079ms",
        "turn.ended stop b3c30 4552ms",
        "turn.started 5db15",
        "turn.started 5db15",
        "turn.ended stop 5db15 3762ms",
        "turn.ended stop 8bf63",
        "session.ended exit",
    ]


def test_claude_code_says_nothing_when_it_is_interrupted() -> None:
    assert told(
        prompt("37cd4", 4026),
        prompt("75e95", 11102),
        call("s", 11222, turn_id="75e95"),
        prompt("30261", 19020),
        stop("30261", 19158),
        draft("session.ended", 23339, reason="exit"),
    ) == [
        "turn.started 37cd4",
        "turn.started 75e95",
        "tool.started 75e95 s",
        "turn.started 30261",
        "turn.ended stop 30261 138ms",
        "session.ended exit",
    ]


def test_claude_codes_background_subagent_works_on_after_the_turn() -> None:
    agent = {"thread": "a9aec"}
    state, sent = fold(
        {},
        [
            started(0),
            prompt("84215", 163),
            call("g", 392, turn_id="84215", tool="Agent"),
            done("g", 658, turn_id="84215", tool="Agent", ms=108),
            draft("subagent.started", 675, agent_id="a9aec", **agent),
            call("l", 953, turn_id="84215", **agent),
            stop("84215", 1161, background=1),
            done("l", 4138, turn_id="84215", ms=3110, **agent),
            draft("subagent.ended", 4230, agent_id="a9aec", background=0, **agent),
            prompt("f9a55", 4354, injected=True),
            stop("f9a55", 4533, background=0),
            draft("session.ended", 4608, reason="other"),
        ],
    )
    assert [line(s) for s in sent] == [
        "session.started startup",
        "turn.started 84215",
        "tool.started 84215 g",
        "tool.ended 84215 g 108ms",
        "subagent.started a9aec",
        "tool.started 84215 l",
        "turn.ended stop 84215 998ms",
        "tool.ended 84215 l 3110ms",
        "subagent.ended a9aec",
        "turn.started f9a55",
        "turn.ended stop f9a55 179ms",
        "session.ended other",
    ]
    assert state["calls"] == {}


def test_claude_codes_parallel_calls_end_in_any_order() -> None:
    assert told(
        prompt("11b7b", 112),
        call("two", 303, turn_id="11b7b"),
        call("one", 303, turn_id="11b7b"),
        done("two", 714, turn_id="11b7b"),
        done("one", 1001, turn_id="11b7b"),
        call("exit", 1047, turn_id="11b7b"),
        done("exit", 1107, turn_id="11b7b"),
        stop("11b7b", 1754),
    )[3:] == [
        "tool.ended 11b7b two 411ms",
        "tool.ended 11b7b one 698ms",
        "tool.started 11b7b exit",
        "tool.ended 11b7b exit 60ms",
        "turn.ended stop 11b7b 1642ms",
    ]


def test_codex_reports_each_turns_end_twice_and_asks_in_other_words_than_it_calls() -> None:
    assert told(
        started(0),
        prompt("c2b1e", 35),
        stop("c2b1e", 232),
        stop("c2b1e", 267, only_known=True),
        prompt("799a0", 3464),
        call("call_3", 3551, turn_id="799a0", ask="perm-call"),
        needs("perm-described", 3605, ask="perm-described", tool="Bash"),
        done("call_3", 6481, turn_id="799a0", ask="perm-call"),
        stop("799a0", 6593),
        stop("799a0", 6621, only_known=True),
        prompt("5585b", 9993),
        call("call_5", 10082, turn_id="5585b", ask="perm-call"),
        needs("perm-declined", 10113, ask="perm-declined", tool="Bash"),
        stop("5585b", 12986, "interrupt"),
        prompt("be1ad", 16521),
        stop("be1ad", 19506, "interrupt"),
        draft("context.compacted", 22013, trigger="manual"),
        started(25539, "compact"),
        prompt("6a061", 25570),
        stop("6a061", 25718),
        stop("6a061", 25750, only_known=True),
        draft("session.ended", 42684, reason="other"),
        after={},
    ) == [
        "session.started startup",
        "turn.started c2b1e",
        "turn.ended stop c2b1e 197ms",
        "turn.started 799a0",
        "tool.started 799a0 call_3",
        "attention.needed perm-described permission",
        "attention.cleared perm-described answered",
        "tool.ended 799a0 call_3 2930ms",
        "turn.ended stop 799a0 3129ms",
        "turn.started 5585b",
        "tool.started 5585b call_5",
        "attention.needed perm-declined permission",
        "attention.cleared perm-declined cancelled",
        "turn.ended interrupt 5585b 2993ms",
        "turn.started be1ad",
        "turn.ended interrupt be1ad 2985ms",
        "context.compacted",
        "session.started compact",
        "turn.started 6a061",
        "turn.ended stop 6a061 148ms",
        "session.ended other",
    ]


def test_codexs_hidden_title_thread_is_a_session_nobody_saw() -> None:
    assert told(stop("f989c", 187, only_known=True), after={}) == []


def test_codexs_report_may_come_before_its_stop() -> None:
    assert types(prompt("af4c0", 39729), stop("af4c0", 40021, only_known=True), stop("af4c0", 40042)) == [
        "turn.started",
        "turn.ended",
    ]


def test_codexs_subagent_works_beside_the_main_thread() -> None:
    assert told(
        prompt("c67e7", 26),
        call("call_1", 124, turn_id="c67e7", tool="spawn_agent"),
        done("call_1", 202, turn_id="c67e7", tool="spawn_agent"),
        draft("subagent.started", 210, agent_id="01a22", thread="01a22"),
        call("call_2", 328, turn_id="c67e7"),
        draft("subagent.ended", 401, agent_id="01a22", thread="01a22"),
        done("call_2", 1959, turn_id="c67e7"),
        stop("c67e7", 2091),
        stop("c67e7", 2121, only_known=True),
        draft("session.ended", 2148, reason="other"),
    )[3:] == [
        "subagent.started 01a22",
        "tool.started c67e7 call_2",
        "subagent.ended 01a22",
        "tool.ended c67e7 call_2 1631ms",
        "turn.ended stop c67e7 2065ms",
        "session.ended other",
    ]


def test_codex_interrupted_ends_the_turn_and_the_session() -> None:
    assert told(
        prompt("0b220", 24), stop("0b220", 3576, "interrupt"), draft("session.ended", 3632, reason="other")
    ) == ["turn.started 0b220", "turn.ended interrupt 0b220 3552ms", "session.ended other"]


def test_pi_has_no_turn_ids_and_says_when_a_dialog_is_over() -> None:
    assert told(
        started(143),
        prompt(at=933),
        call("call_t1", 1080, tool="bash"),
        done("call_t1", 1106, tool="bash", ms=19),
        stop(at=1158),
        needs("notif-1916", 1916),
        says_cleared(2646, of="permission"),
        needs("notif-2929", 2929, kind="question"),
        says_cleared(3472, of="question"),
        prompt(at=4615),
        stop(at=6563, reason="interrupt"),
        prompt(at=8184),
        call("call_t2", 8260, tool="bash"),
        done("call_t2", 9119, tool="bash", ms=858),
        stop(at=9125, reason="interrupt"),
        draft("context.compacted", 10739, trigger="manual"),
        prompt(at=11484),
        stop(at=11532),
        draft("session.ended", 11969, reason="exit"),
        after={},
    ) == [
        "session.started startup",
        "turn.started",
        "tool.started call_t1",
        "tool.ended call_t1 19ms",
        "turn.ended stop 225ms",
        "attention.needed notif-1916 permission",
        "attention.cleared notif-1916 answered",
        "attention.needed notif-2929 question",
        "attention.cleared notif-2929 answered",
        "turn.started",
        "turn.ended interrupt 1948ms",
        "turn.started",
        "tool.started call_t2",
        "tool.ended call_t2 858ms",
        "turn.ended interrupt 941ms",
        "context.compacted",
        "turn.started",
        "turn.ended stop 48ms",
        "session.ended exit",
    ]


# --- laws ---------------------------------------------------------------------------------------------

_turns = st.sampled_from([None, "t1", "t2", "t3", "t" * (MAX_NAME + 1)])
_threads = st.sampled_from([None, None, "a1", "a2"])
_calls = st.sampled_from([None, "c1", "c2", "c3"])
_asks = st.sampled_from([None, "x", "y"])
_tools = st.sampled_from(["Bash", "Read"])
_names = st.sampled_from(["p1", "p2", "p3", "p" * (MAX_NAME + 1)])
_kinds = st.sampled_from(["permission", "question", "elicitation", "idle", "error"])
_rarely = st.sampled_from([False, False, False, True])


def _known(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value is not False}


@st.composite
def _one(draw: st.DrawFn) -> Draft:
    kind = draw(st.sampled_from(_TYPES))
    thread = draw(_threads)
    memo = _known(thread=thread, only_known=draw(_rarely))
    if kind == "turn.ended":
        memo |= _known(only_running=draw(_rarely))
    data: dict[str, Any] = {}
    match kind:
        case "turn.started" | "turn.ended":
            data = _known(turn_id=draw(_turns))
        case "tool.started" | "tool.ended":
            data = _known(tool=draw(_tools), call_id=draw(_calls), turn_id=draw(_turns))
            memo |= _known(ask=draw(_asks))
        case "attention.needed":
            data = _known(attention_id=draw(_names), kind=draw(_kinds), tool=draw(_tools))
            memo |= _known(ask=draw(_asks), echo=draw(_rarely))
        case "attention.cleared":
            data = _known(attention_id=draw(st.none() | _names), how="answered")
            memo |= _known(kind=draw(_kinds))
        case "subagent.started" | "subagent.ended":
            data = {"agent_id": thread or "a1"}
        case "limits.observed":
            data = {"windows": [{"id": "primary", "used_percent": draw(st.sampled_from([1, 2]))}]}
    # Mostly forward, by anything up to some minutes; now and then the clock steps back.
    return draft(kind, draw(st.integers(-MINUTE, 3 * MINUTE)), memo=memo, **data)


_TYPES = [
    "session.started",
    "session.heartbeat",
    "session.ended",
    "turn.started",
    "turn.ended",
    "tool.started",
    "tool.ended",
    "files.changed",
    "attention.needed",
    "attention.cleared",
    "subagent.started",
    "subagent.ended",
    "limits.observed",
]


def _in_time(steps: list[Draft]) -> list[Draft]:
    now = 1_000_000
    for step in steps:
        now += step["at_ms"]
        step["at_ms"] = now
    return steps


_sessions = st.lists(_one(), max_size=40).map(_in_time)


@given(_sessions, st.data())
def test_law_it_does_not_matter_how_drafts_fall_into_batches(
    drafts: list[Draft], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(drafts)))
    middle, first = fold({}, drafts[:cut])
    end, second = fold(middle, drafts[cut:])
    assert (end, first + second) == fold({}, drafts)


@given(_sessions, _sessions)
def test_law_state_and_drafts_are_left_as_they_were(before: list[Draft], after: list[Draft]) -> None:
    state, _ = fold({}, before)
    kept = copy.deepcopy((state, after))
    fold(state, after)
    assert (state, after) == kept


@given(_sessions)
def test_law_what_is_sent_can_be_changed_without_changing_the_state(drafts: list[Draft]) -> None:
    state, sent = fold({}, drafts)
    kept = copy.deepcopy(state)
    for each in sent:
        for part in ("harness", "session", "data", "memo"):
            each[part].clear()
    assert state == kept


@given(_sessions, _sessions)
def test_law_the_state_survives_json(before: list[Draft], after: list[Draft]) -> None:
    state, _ = fold({}, before)
    read = json.loads(json.dumps(state))
    assert read == state
    assert fold(read, after) == fold(state, after)


@given(_sessions)
def test_law_no_attention_is_cleared_unless_it_is_needed_or_needed_twice_at_once(drafts: list[Draft]) -> None:
    needed: set[str] = set()
    for sent in fold({}, drafts)[1]:
        name = sent["data"].get("attention_id", "")
        if len(name) > MAX_NAME:
            assert sent["type"] == "attention.needed"
        elif sent["type"] == "attention.needed":
            assert name not in needed
            needed.add(name)
        elif sent["type"] == "attention.cleared":
            needed.remove(name)
        elif sent["type"] == "session.ended":
            assert not needed


@given(_sessions)
def test_law_nothing_comes_before_the_sessions_start(drafts: list[Draft]) -> None:
    assert [sent["type"] for sent in fold({}, drafts)[1][:1]] in ([], ["session.started"])


@given(_sessions)
def test_law_no_duration_is_negative(drafts: list[Draft]) -> None:
    assert all(sent["data"].get("ms", 0) >= 0 for sent in fold({}, drafts)[1])


@given(_sessions)
def test_law_heartbeats_are_a_minute_apart(drafts: list[Draft]) -> None:
    beats = [sent["at_ms"] for sent in fold({}, drafts)[1] if sent["type"] == "session.heartbeat"]
    assert all(later - earlier >= MINUTE for earlier, later in pairwise(beats))


@given(_sessions)
def test_law_a_tier_0_receiver_is_never_left_a_minute_without_a_sign_of_a_running_turn(
    drafts: list[Draft],
) -> None:
    state: State = {}
    for each in drafts:
        newest = state.get("tier0_ms", 0)
        state, sent = fold(state, [each])
        if sent and each["at_ms"] - newest >= MINUTE and state["turn"] and not state["turn"]["over"]:
            assert any(VOCABULARY[s["type"]].tier == 0 for s in sent)


@given(_sessions)
def test_law_what_is_sent_is_what_came_in_order_and_what_fold_adds(drafts: list[Draft]) -> None:
    _, sent = fold({}, drafts)
    added = {"session.started", "session.heartbeat", "attention.cleared"}
    came = iter(drafts)
    for each in sent:
        if each["type"] in added:
            continue
        assert any(c["type"] == each["type"] and {**each["data"], **c["data"]} == each["data"] for c in came)
    untouchable = {"session.started", "tool.started", "tool.ended", "files.changed", "subagent.started"}
    known = [c for c in drafts if c["type"] in untouchable and not c["memo"].get("only_known")]
    assert len([s for s in sent if s["type"] in untouchable]) >= len(known)


@given(_sessions)
def test_law_no_turn_ends_twice_without_anything_of_it_in_between(drafts: list[Draft]) -> None:
    ended: set[str] = set()
    for sent in fold({}, drafts)[1]:
        turn = sent["data"].get("turn_id")
        if "thread" in sent["memo"]:
            continue
        if sent["type"] == "turn.ended" and turn is not None:
            assert turn not in ended
            ended.add(turn)
        elif sent["type"] == "turn.started":
            ended.discard(turn)
        elif sent["type"] in ("tool.started", "tool.ended"):
            ended = ended - {turn} if turn is not None else set()


@given(_sessions, st.data())
def test_law_an_end_that_a_file_tells_again_changes_nothing(drafts: list[Draft], data: st.DataObject) -> None:
    """However often it does, and wherever among what the hooks tell."""
    repeated: list[Draft] = []
    ends: list[Draft] = []
    for number, each in enumerate(drafts):
        each["at_ms"] = 1_000_000 + number * MINUTE // 4
        repeated.append(each)
        if each["type"] == "turn.ended" and "thread" not in each["memo"]:
            ends.append({**each, "memo": {"only_running": True}})
        if ends:
            repeated += data.draw(st.lists(st.sampled_from(ends), max_size=3))
    assert fold({}, repeated) == fold({}, drafts)


@given(_sessions, st.data())
def test_law_a_session_told_by_two_entries_is_the_session_told_by_one(
    drafts: list[Draft], data: st.DataObject
) -> None:
    """Side by side, in any order of the two, and with whatever one of the two leaves out."""
    both: list[Draft] = []
    own_is_whole = data.draw(st.booleans())
    for each in drafts:
        whole, part = ({**each}, other(each)) if own_is_whole else (other(each), {**each})
        both += data.draw(st.sampled_from([[whole], [whole, part], [part, whole]]))
    once = [line(sent) for sent in fold({}, drafts)[1]]
    assert [line(sent) for sent in fold({}, both)[1]] == once


@given(_sessions)
def test_law_a_session_ends_once(drafts: list[Draft]) -> None:
    over = False
    begins = {"session.started", "session.heartbeat", "turn.started", "tool.started", "attention.needed"}
    for sent in fold({}, drafts)[1]:
        assert not (over and sent["type"] == "session.ended")
        over = (over and sent["type"] not in begins | {"subagent.started"}) or sent["type"] == "session.ended"


@given(_sessions)
def test_law_every_call_has_an_id_and_one_that_we_gave_is_of_one_start_and_one_end(
    drafts: list[Draft],
) -> None:
    known = {each["data"].get("call_id") for each in drafts}
    seen: dict[str, list[str]] = {}
    for sent in fold({}, drafts)[1]:
        if sent["type"] in ("tool.started", "tool.ended"):
            seen.setdefault(sent["data"]["call_id"], []).append(sent["type"])
    ours = [kinds for name, kinds in seen.items() if name not in known]
    assert all(kinds in (["tool.started"], ["tool.ended"], ["tool.started", "tool.ended"]) for kinds in ours)


@given(_sessions)
def test_law_the_state_stays_small(drafts: list[Draft]) -> None:
    state, _ = fold({}, drafts)
    assert len(state["calls"]) <= MAX_CALLS
    assert len(state["open"]) <= MAX_OPEN
    assert len(state["past"]) <= MAX_PAST
    assert all(call["thread"] is None or len(call["thread"]) <= MAX_NAME for call in state["calls"].values())


# --- the session block --------------------------------------------------------------------------------


def test_what_is_learnt_later_is_added() -> None:
    assert merge_block({"cwd": "/a"}, {"model": "m"}) == {"cwd": "/a", "model": "m"}


def test_what_is_learnt_later_replaces() -> None:
    assert merge_block({"model": "m1", "attended": False}, {"model": "m2", "attended": True}) == {
        "model": "m2",
        "attended": True,
    }


@pytest.mark.parametrize("nothing", [{}, {"model": None}, {"model": ""}])
def test_nothing_blanks_nothing(nothing: dict[str, Any]) -> None:
    assert merge_block({"model": "m"}, nothing) == {"model": "m"}


def test_not_attended_is_something() -> None:
    assert merge_block({"attended": True}, {"attended": False}) == {"attended": False}


def test_the_folder_is_the_one_the_session_started_in() -> None:
    assert merge_block({"cwd": "/a"}, {"cwd": "/a/b"}) == {"cwd": "/a"}
    assert merge_block({"cwd": ""}, {"cwd": "/a"}) == {"cwd": "/a"}


def test_a_block_never_has_what_belongs_to_one_event() -> None:
    assert merge_block({"id": "s-1", "seq": 4, "model": "m"}, {"id": "s-1", "seq": 5}) == {"model": "m"}


_SOURCES = ["first-ask", "harness", "custom"]


@pytest.mark.parametrize("old", _SOURCES)
@pytest.mark.parametrize("new", _SOURCES)
def test_a_title_gives_way_to_an_equal_or_better_source_and_takes_its_source_along(
    old: str, new: str
) -> None:
    before, after = {"title": "A", "title_source": old}, {"title": "B", "title_source": new}
    better = _SOURCES.index(new) >= _SOURCES.index(old)
    assert merge_block(before, after) == (after if better else before)


def test_a_title_without_a_source_is_the_least() -> None:
    sourced = {"title": "A", "title_source": "first-ask"}
    assert merge_block(sourced, {"title": "B"}) == sourced
    assert merge_block({"title": "B"}, sourced) == sourced
    assert merge_block({"title": "A"}, {"title": "B"}) == {"title": "B"}


def test_a_source_without_a_title_names_nothing() -> None:
    assert merge_block({"title": "A", "title_source": "harness"}, {"title_source": "custom"}) == {
        "title": "A",
        "title_source": "harness",
    }


_blocks = st.fixed_dictionaries(
    {},
    optional={
        "id": st.just("s-1"),
        "seq": st.integers(0, 3),
        "cwd": st.sampled_from(["/a", "/b", ""]),
        "model": st.sampled_from(["m1", "m2", "", None]),
        "title": st.sampled_from(["A", "B", ""]),
        "title_source": st.sampled_from(_SOURCES),
        "attended": st.booleans(),
    },
)


@given(_blocks, _blocks, _blocks)
def test_law_it_does_not_matter_how_facts_are_grouped(a: Any, b: Any, c: Any) -> None:
    assert merge_block(merge_block(a, b), c) == merge_block(a, merge_block(b, c))


@given(_blocks, _blocks)
def test_law_a_field_once_known_stays_known(old: Any, new: Any) -> None:
    known = {name for name, value in old.items() if value not in (None, "")} - {"id", "seq", "title_source"}
    assert known <= merge_block(old, new).keys()


@given(_blocks, _blocks)
def test_law_merging_leaves_both_blocks_as_they_were(old: Any, new: Any) -> None:
    kept = copy.deepcopy((old, new))
    merge_block(old, new)
    assert (old, new) == kept
