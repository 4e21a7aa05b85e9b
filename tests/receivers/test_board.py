"""What a session's events come to, and how it stands: facts as they were told, silence read as silence."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.protocol import rfc3339
from sessionpipe.protocol.vocabulary import VOCABULARY
from sessionpipe.receiver import board
from sessionpipe.receiver.board import (
    GONE_MS,
    HOUR,
    MINUTE,
    QUIET_MS,
    UNANSWERED_MS,
    Memory,
    Standing,
    folded,
    standing,
)
from tests.receivers.served import NOON, story

Told = tuple[str, dict[str, Any]]


def told(type_: str, **data: Any) -> Told:
    return type_, data


def memory(*events: Told) -> Memory:
    return folded((event, event.at_ms) for event in story(*events))


def stands(*events: Told, after: int = 0) -> Standing:
    """How a session of these events stands, so many ms after the last of them."""
    found = memory(*events)
    return standing(found, found.last + after)


STARTED = told("session.started", source="startup")
PROMPT = told("turn.started", turn_id="t1", prompt_chars=12)
DONE = told("turn.ended", turn_id="t1", reason="stop", ms=4200)
BASH = told("tool.started", tool="Bash", call_id="c1")
BASHED = told("tool.ended", tool="Bash", call_id="c1", ok=True)
ASK = told("attention.needed", attention_id="a1", kind="permission", tool="Bash", message="Bash npm test")


# --- working --------------------------------------------------------------------------------------


def test_a_session_that_was_only_started_is_not_at_work() -> None:
    assert stands(STARTED)[:2] == ("recent", "Started, no prompt yet")


def test_a_prompt_puts_it_to_work() -> None:
    found = stands(STARTED, PROMPT)
    assert found == Standing("working", "Working", NOON + 1000, "working")


def test_it_does_the_tool_that_runs_since_that_began() -> None:
    found = stands(STARTED, PROMPT, BASH)
    assert (found.text, found.since) == ("Bash", NOON + 2000)


def test_what_a_tool_is_about_is_said_where_the_tier_carries_it() -> None:
    ran = told("tool.started", tool="Bash", call_id="c1", input={"command": "npm\n test"})
    assert stands(PROMPT, ran).text == "Bash npm test"


def test_of_several_tools_the_last_is_named_and_the_others_counted() -> None:
    assert stands(PROMPT, BASH, told("tool.started", tool="Read", call_id="c2")).text == "Read (and 1 more)"


def test_between_tools_it_thinks() -> None:
    found = stands(PROMPT, BASH, BASHED)
    assert (found.text, found.since) == ("Thinking", NOON + 2000)


def test_below_tier_1_nobody_knows_what_it_does() -> None:
    assert stands(STARTED, PROMPT, told("session.heartbeat")).text == "Working"


def test_a_tool_shows_a_turn_nobody_told_of() -> None:
    assert stands(PROMPT, DONE, BASH).group == "working"


def test_a_late_end_of_a_tool_is_not_another_turn() -> None:
    assert stands(PROMPT, BASH, DONE, BASHED).group == "recent"


def test_a_compaction_in_the_middle_of_a_turn_ends_nothing() -> None:
    assert stands(PROMPT, told("session.started", source="compact")).group == "working"


def test_a_session_that_is_resumed_is_not_at_what_it_was_at() -> None:
    assert stands(PROMPT, BASH, told("session.started", source="resume")).group == "recent"


def test_background_work_after_the_turn_is_work() -> None:
    found = stands(PROMPT, told("turn.ended", turn_id="t1", reason="stop", background=2))
    assert (found.group, found.text) == ("working", "Waits for 2 things in the background")


def test_that_works_own_events_are_not_the_next_turn() -> None:
    found = stands(
        PROMPT,
        told("turn.ended", turn_id="t1", reason="stop", background=1),
        told("tool.started", tool="Grep", call_id="c9", agent_id="g"),
        told("tool.ended", tool="Grep", call_id="c9", agent_id="g", ok=True),
    )
    assert found.text == "Waits for 1 thing in the background"


@pytest.mark.parametrize(("left", "group"), [(1, "working"), (0, "recent")])
def test_a_subagents_end_restates_what_is_left(left: int, group: str) -> None:
    ended = told("turn.ended", turn_id="t1", reason="stop", background=2)
    assert stands(PROMPT, ended, told("subagent.ended", agent_id="g", background=left)).group == group


def test_subagents_at_work_are_counted() -> None:
    two = [told("subagent.started", agent_id=name, agent_type="explore") for name in "gh"]
    assert stands(PROMPT, *two).text == "2 subagents at work"
    assert stands(PROMPT, *two, told("subagent.ended", agent_id="g")).text == "1 subagent at work"


# --- needing somebody -----------------------------------------------------------------------------


def test_a_question_needs_the_person_since_it_was_asked() -> None:
    found = stands(PROMPT, BASH, ASK, told("session.heartbeat"))
    assert found == Standing("needs", "Permission: Bash npm test", NOON + 2000, "needs")


def test_at_tier_0_it_is_known_that_it_does_and_not_why() -> None:
    assert stands(PROMPT, told("attention.needed", attention_id="a", kind="question")).text == "A question"


def test_several_questions_are_counted() -> None:
    second = told("attention.needed", attention_id="a2", kind="question", message="Which?")
    assert stands(PROMPT, ASK, second).text == "Permission: Bash npm test (and 1 more)"


PROOFS: dict[str, tuple[Told, ...]] = {
    "it says so": (told("attention.cleared", attention_id="a1", how="answered"),),
    "the tool asked about ended": (BASHED,),
    "a tool begun since ended": (
        told("tool.started", tool="Read", call_id="c2"),
        told("tool.ended", tool="Read", call_id="c2", ok=True),
    ),
    "a tool nobody saw begin ended": (told("tool.ended", tool="Read", call_id="c7", ok=True),),
    "its turn ended": (DONE,),
    "another turn began": (told("turn.started", turn_id="t2"),),
    "the session ended": (told("session.ended", reason="exit"),),
    "the session began anew": (told("session.started", source="resume"),),
}


@pytest.mark.parametrize("proof", PROOFS)
def test_a_question_is_answered_when(proof: str) -> None:
    assert stands(PROMPT, BASH, ASK, *PROOFS[proof]).group != "needs"


OTHERS: dict[str, tuple[Told, ...]] = {
    "another's question is cleared": (told("attention.cleared", attention_id="a2", how="answered"),),
    "a subagent's tool ended": (told("tool.ended", tool="Bash", call_id="c9", agent_id="g", ok=True),),
    "a tool begun since still runs": (told("tool.started", tool="Read", call_id="c2"),),
    "a tool that ran beside it ended": (told("tool.ended", tool="Read", call_id="c0", ok=True),),
    "a subagent ended": (told("subagent.ended", agent_id="g"),),
    "time passes": (told("session.heartbeat"),),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_question_stands_when(other: str) -> None:
    beside = told("tool.started", tool="Read", call_id="c0")
    assert stands(PROMPT, beside, BASH, ASK, *OTHERS[other]).group == "needs"


def test_of_two_like_tools_the_first_to_end_may_be_the_other() -> None:
    two = [told("tool.started", tool="Bash", call_id=name) for name in ("c1", "c2")]
    assert stands(PROMPT, *two, ASK, BASHED).group == "needs"
    assert (
        stands(PROMPT, *two, ASK, BASHED, told("tool.ended", tool="Bash", call_id="c2", ok=True)).group
        == "working"
    )


def test_a_subagents_question_is_answered_by_its_own_tools() -> None:
    asked = told("attention.needed", attention_id="a", kind="permission", agent_id="g")
    assert stands(PROMPT, asked, BASH, BASHED).group == "needs"
    assert stands(PROMPT, asked, DONE).group == "needs"
    assert (
        stands(PROMPT, asked, told("tool.ended", tool="Bash", call_id="x", agent_id="g", ok=True)).group
        == "working"
    )
    assert stands(PROMPT, asked, told("subagent.ended", agent_id="g")).group == "working"


def test_waiting_for_the_next_prompt_needs_nobody() -> None:
    found = stands(PROMPT, DONE, told("attention.needed", attention_id="a", kind="idle"))
    assert (found.group, found.text, found.note) == (
        "recent",
        "Turn done in 4.2 s",
        "waits for your next prompt",
    )


# --- over -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ended", "text", "tone"),
    [
        (DONE, "Turn done in 4.2 s", "good"),
        (told("turn.ended", turn_id="t1", reason="stop"), "Turn done in 1.0 s", "good"),
        (told("turn.ended", turn_id="t1", reason="interrupt"), "Interrupted", "bad"),
        (told("turn.ended", turn_id="t1", reason="error", error="rate_limit"), "Failed: rate_limit", "bad"),
        (told("turn.ended", turn_id="t1", reason="error"), "Failed", "bad"),
        (told("session.ended", reason="logout"), "Ended (logout)", "quiet"),
        (told("session.ended", reason="exit"), "Ended", "quiet"),
    ],
)
def test_what_is_over_says_how_and_is_no_reading(ended: Told, text: str, tone: str) -> None:
    assert stands(PROMPT, ended) == Standing(
        "recent", text, NOON + 1000, tone, note="waits for your next prompt" if tone == "good" else ""
    )  # type: ignore[arg-type]


def test_an_end_that_comes_long_after_its_turn_leaves_the_one_that_runs() -> None:
    late = told("turn.ended", turn_id="t1", reason="interrupt")
    found = memory(PROMPT, told("turn.started", turn_id="t2"), late)
    assert [(turn.id, turn.reason) for turn in found.turns] == [("t1", "interrupt"), ("t2", "")]
    assert found.running


def test_an_end_without_a_name_is_of_the_turn_that_runs() -> None:
    assert memory(PROMPT, told("turn.ended", reason="stop")).turns[-1].reason == "stop"


def test_an_end_whose_turn_nobody_told_of_is_a_turn() -> None:
    found = memory(told("turn.ended", turn_id="t9", reason="stop", ms=10))
    assert (found.count, found.turns[-1].ms, found.running) == (1, 10, False)


def test_a_prompt_taken_into_the_turn_is_no_turn() -> None:
    found = memory(told("turn.started", turn_id="t1"), told("turn.started", turn_id="t1", injected=True))
    assert (found.count, found.turns[-1].injected) == (1, False)


def test_a_session_from_history_is_as_old_as_its_files_say() -> None:
    backfill = told(
        "session.backfill", started_at="2026-11-01T10:00:00.000Z", last_at="2026-11-01T11:00:00.000Z"
    )
    found = memory(backfill)
    assert standing(found, NOON) == Standing("recent", "From history", found.last, "quiet")
    assert found.last == 1_793_530_800_000


def test_a_better_name_sent_again_is_no_sign_of_life() -> None:
    backfill = told(
        "session.backfill",
        started_at="2026-11-01T10:00:00.000Z",
        last_at="2026-11-01T11:00:00.000Z",
        _after=HOUR,
    )
    assert memory(PROMPT, DONE, backfill).last == NOON + 1000


# --- silence --------------------------------------------------------------------------------------


def test_one_at_work_that_is_quiet_says_for_how_long() -> None:
    assert stands(PROMPT, after=QUIET_MS - 1).note == ""
    found = stands(PROMPT, after=25 * MINUTE)
    assert (found.group, found.note, found.reading) == ("working", "nothing heard for 25 min", False)


def test_one_at_work_that_is_silent_is_read_as_over() -> None:
    found = stands(PROMPT, after=GONE_MS)
    assert (found.group, found.text, found.reading) == ("recent", "Probably over", True)
    assert found.note == "was in the middle of a turn"
    assert stands(PROMPT, BASH, after=GONE_MS).note == "was at: Bash"


def test_one_that_never_said_goodbye_is_read_as_done() -> None:
    assert stands(PROMPT, DONE, after=GONE_MS - 1).reading is False
    found = stands(PROMPT, DONE, after=GONE_MS)
    assert (found.group, found.text, found.reading) == ("recent", "Probably done", True)


def test_a_question_is_not_asked_for_ever() -> None:
    assert stands(PROMPT, ASK, after=UNANSWERED_MS - 1).group == "needs"
    found = stands(PROMPT, ASK, after=UNANSWERED_MS)
    assert (found.group, found.text, found.reading) == (
        "recent",
        "Unanswered: Permission: Bash npm test",
        True,
    )


def test_a_clock_that_is_ahead_is_not_believed() -> None:
    [event] = story(PROMPT, start=NOON + HOUR)
    found = folded([(event, NOON)])
    assert (found.last, standing(found, NOON).since) == (NOON, NOON)


# --- what was said --------------------------------------------------------------------------------


def exchange(turn: int, at: int, user: str, assistant: str = "") -> Told:
    return told("turn.transcript", turn=turn, user=user, assistant=assistant, at=rfc3339(at))


def test_an_exchange_is_of_the_turn_that_had_begun_by_its_last_word() -> None:
    late = (
        PROMPT,
        DONE,
        told("turn.started", turn_id="t2"),
        exchange(1, NOON + 900, "First?", "First."),
        told("turn.ended", turn_id="t2", reason="stop"),
        exchange(2, NOON + 3900, "Second?", "Second."),
    )
    assert [(turn.user, turn.assistant) for turn in memory(*late).turns] == [
        ("First?", "First."),
        ("Second?", "Second."),
    ]


def test_a_prompt_that_was_written_down_before_its_hook_fired_is_of_its_own_turn() -> None:
    found = memory(
        PROMPT,
        exchange(1, NOON + 500, "First?", "First."),
        told("turn.started", turn_id="t2"),
        told("turn.started", turn_id="t3"),
        exchange(2, NOON + 1990, "Second?"),
        exchange(3, NOON + 9000, "Third?", "Third."),
    )
    assert [turn.user for turn in found.turns] == ["First?", "Second?", "Third?"]


def test_an_exchange_of_a_turn_nobody_told_of_is_put_into_no_others_mouth() -> None:
    assert memory(PROMPT, exchange(1, NOON - 60_000, "Before?")).turns[0].user == ""


def test_progress_is_kept_until_its_exchange_or_the_turns_end() -> None:
    progress = told("turn.progress", turn=2, user="u", assistant="so far", at="x")
    kept = memory(PROMPT, progress)
    assert kept.progress is not None and kept.progress.assistant == "so far"
    assert memory(PROMPT, progress, exchange(1, NOON, "before")).progress is not None
    assert memory(PROMPT, progress, exchange(2, NOON, "u")).progress is None
    assert memory(PROMPT, progress, DONE).progress is None


# --- laws -----------------------------------------------------------------------------------------

ids = st.sampled_from(["", "a", "b", "c", "x" * 500])
data = st.fixed_dictionaries(
    {},
    optional={
        "turn_id": ids,
        "call_id": ids,
        "agent_id": ids,
        "attention_id": ids,
        "tool": st.sampled_from(["Bash", "Read", ""]),
        "kind": st.sampled_from(["permission", "idle", "error", "of-2031"]) | st.integers(),
        "reason": st.sampled_from(["stop", "interrupt", "error", "exit"]) | st.none(),
        "source": st.sampled_from(["startup", "compact", "resume"]),
        "background": st.integers(-3, 3) | st.text(max_size=2),
        "ms": st.integers() | st.text(max_size=2),
        "turn": st.integers(-2, 5) | st.none(),
        "user": st.text(max_size=9) | st.integers(),
        "at": st.text(max_size=5) | st.just("2026-11-30T12:00:00Z"),
        "last_at": st.text(max_size=5) | st.just("2026-11-30T12:00:00Z"),
        "injected": st.booleans() | st.none(),
        "ok": st.booleans(),
    },
)
events = st.lists(st.tuples(st.sampled_from([*VOCABULARY, "x.y"]), data), min_size=1, max_size=40)


@given(events, st.integers(0, 30 * 24 * HOUR))
def test_whatever_is_told_it_stands_somehow_and_survives_its_storage(found: list[Told], after: int) -> None:
    remembered = memory(*found)
    again = msgspec.json.decode(msgspec.json.encode(remembered), type=Memory)
    assert again == remembered
    assert standing(remembered, NOON + after).group in ("needs", "working", "recent")
    if standing(remembered, remembered.last).group in ("needs", "working"):
        assert remembered.open


def test_what_is_remembered_is_bounded() -> None:
    many: list[Told] = []
    for n in range(2000):
        many += [
            told("turn.started", turn_id=f"t{n}"),
            told("subagent.started", agent_id=f"g{n}"),
            told("tool.started", tool="Bash", call_id=f"c{n}", agent_id=f"g{n}"),
            told(
                "attention.needed",
                attention_id=f"a{n}",
                kind="permission",
                agent_id=f"g{n}",
                message="m" * 200,
            ),
        ]
    remembered = memory(*many)
    assert len(msgspec.json.encode(remembered)) < 40_000
    assert (len(remembered.turns), len(remembered.calls)) == (board.TURNS, board.CALLS)
