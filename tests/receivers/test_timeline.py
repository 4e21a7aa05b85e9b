"""A session's events as its turns."""

from __future__ import annotations

from sessionpipe.receiver.timeline import Part, parts
from tests.receivers.served import NOON, story
from tests.receivers.test_board import Told, exchange, told


def turns(*events: Told) -> list[Part]:
    return parts((event, event.at_ms) for event in story(*events))


def said(part: Part) -> list[str]:
    return [step.words.text for step in part.steps]


def test_what_comes_before_the_first_prompt_stands_by_itself() -> None:
    before, turn = turns(told("session.started", source="startup"), told("turn.started", prompt_chars=3))
    assert (before.at, said(before)) == (None, ["session started"])
    assert turn.opening is not None and turn.opening.text == "prompt (3 characters)"
    assert (turn.key, turn.at) == (1, NOON + 1000)


def test_a_call_is_one_step_where_it_began() -> None:
    [turn] = turns(
        told("turn.started"),
        told("tool.started", tool="Bash", call_id="c1"),
        told("tool.started", tool="Read", call_id="c2"),
        told("tool.ended", tool="Bash", call_id="c1", ok=True, ms=1500),
    )
    assert said(turn) == ["Bash ok 1.5 s", "Read …"]
    assert [step.running for step in turn.steps] == [False, True]
    assert turn.steps[0].at == NOON + 1000


def test_a_call_whose_start_nobody_told_of_is_a_step() -> None:
    [turn] = turns(
        told("turn.started"), told("tool.ended", tool="Bash", call_id="c1", ok=False, error="exit 1")
    )
    assert said(turn) == ["Bash failed: exit 1"]


def test_what_was_said_stands_with_its_turn_though_it_comes_late() -> None:
    first, second = turns(
        told("turn.started", turn_id="a"),
        told("turn.ended", turn_id="a", reason="stop"),
        told("turn.started", turn_id="b"),
        exchange(1, NOON + 500, "First?", "First."),
    )
    assert (first.user, first.assistant, second.user) == ("First?", "First.", "")
    assert first.closing is not None and first.closing.text == "done"


def test_what_was_said_in_a_turn_that_is_not_shown_stands_by_itself() -> None:
    said_before, turn = turns(
        told("turn.started", turn_id="a"), exchange(1, NOON - 60_000, "Before?", "Before.")
    )
    assert (said_before.user, said_before.at, turn.id, turn.user) == ("Before?", None, "a", "")


def test_an_end_learnt_late_stands_with_its_turn() -> None:
    first, second = turns(
        told("turn.started", turn_id="a"),
        told("turn.started", turn_id="b"),
        told("turn.ended", turn_id="a", reason="interrupt"),
    )
    assert first.closing is not None and second.closing is None


def test_a_prompt_taken_into_a_turn_is_no_new_one() -> None:
    assert len(turns(told("turn.started", turn_id="a"), told("turn.started", turn_id="a"))) == 1


def test_progress_shows_in_the_turn_that_runs() -> None:
    [turn] = turns(told("turn.started"), told("turn.progress", turn=1, user="u", assistant="so far", at="x"))
    assert (turn.user, turn.progress) == ("u", "so far")


def test_what_is_unknown_is_called_by_its_name_and_heartbeats_are_not_shown() -> None:
    [part] = turns(told("x.y", some="thing"), told("session.heartbeat"))
    assert said(part) == ["x.y"]
