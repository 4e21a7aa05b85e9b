"""Steps put together into turns: what holds whichever harness wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sessionpipe.harnesses.conversation import (
    Absorbed,
    Begun,
    Conversation,
    Ended,
    Failed,
    Interrupted,
    Meaning,
    Prompt,
    Said,
    Step,
    Worked,
)
from sessionpipe.harnesses.jsonl import Line
from sessionpipe.harnesses.transcripts import Want, digest


class Script(Meaning):
    """Line n of a file is what step n says."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps

    def steps(self, line: Line) -> Iterable[Step]:
        return [self._steps[line.start]]


def talk(*steps: Step, told: Iterable[str] = ()) -> Conversation:
    conversation = Conversation(Script(steps), told=frozenset(told))
    for at in range(len(steps)):
        conversation.feed(Line(at, at + 1, b""))
    return conversation


def said(conversation: Conversation) -> list[tuple[str, str]]:
    """Every turn so far, the open one too, as (asked, answered)."""
    turns = [*conversation.over, *([conversation.open] if conversation.open else [])]
    return [(str(turn.user), str(turn.assistant)) for turn in turns]


def ask(text: str, ms: int | None = None) -> Prompt:
    return Prompt("ask", text, ms)


def say(text: str, ms: int | None = None, *, message: str | None = None, again: bool = False) -> Said:
    return Said(message, [text] if text else [], False, ms, again)


class TestPrompts:
    def test_a_prompt_ends_the_turn_before(self) -> None:
        assert said(talk(ask("a"), say("b"), ask("c"), say("d"))) == [("a", "b"), ("c", "d")]

    def test_words_typed_before_anything_was_said_are_part_of_the_ask(self) -> None:
        assert said(talk(ask("a"), Absorbed("b", 2), say("c"))) == [("a\n\nb", "c")]

    def test_words_typed_behind_what_was_said_open_the_next_turn(self) -> None:
        assert said(talk(ask("a"), say("b"), Absorbed("c", 3))) == [("a", "b"), ("c", "")]

    def test_a_turn_that_begins_before_its_prompt_ends_the_one_before(self) -> None:
        steps: list[Step] = [Begun(1), Absorbed("a", 2), Begun(3), Absorbed("b", 4), say("c")]
        assert said(talk(*steps)) == [("a", ""), ("b", "c")]

    def test_what_is_said_without_a_prompt_is_a_turn_nobody_typed(self) -> None:
        assert said(talk(Begun(1), say("a"), Ended(True, 3))) == [("", "a")]

    def test_a_turn_in_which_nobody_asked_and_nothing_was_said_is_none(self) -> None:
        assert said(talk(Prompt("injected", "", 1), Worked(2), Ended(True, 3))) == []


class TestMessagesToldAgain:
    def test_the_last_record_of_a_message_counts(self) -> None:
        told_twice = [say("draft", message="m", again=True), say("final", message="m", again=True)]
        assert said(talk(ask("a"), *told_twice)) == [("a", "final")]

    def test_it_keeps_its_place(self) -> None:
        steps: list[Step] = [
            say("one", message="m", again=True),
            say("two", message="n", again=True),
            say("ONE", message="m", again=True),
        ]
        assert said(talk(ask("a"), *steps)) == [("a", "ONE\n\ntwo")]

    def test_one_that_is_told_again_behind_its_turns_end_is_no_other_turn(self) -> None:
        steps: list[Step] = [
            ask("a"),
            say("b", message="m", again=True),
            Ended(True, 3),
            say("B", message="m", again=True),
        ]
        assert said(talk(*steps)) == [("a", "B")]

    def test_one_whose_turn_was_delivered_is_passed_over(self) -> None:
        conversation = talk(say("b", message="m", again=True), told=[digest("m") or ""])
        assert said(conversation) == []

    def test_blocks_of_one_message_are_gone_on_from(self) -> None:
        conversation = talk(ask("a"), say("b", message="m"), say("c", message="m"))
        assert said(conversation) == [("a", "b\n\nc")]
        assert conversation.open and conversation.open.last_words == ("c", "bc")


class TestTheEnd:
    def want(self, ended_ms: int, said: str | None = None) -> Want:
        return Want(digest(said or ""), False, None, ended_ms)

    def test_a_turn_is_over_when_the_awaited_words_are_its_last(self) -> None:
        conversation = talk(ask("a", 1), say("b", 2))
        assert conversation.open
        assert conversation.is_over(conversation.open, self.want(5, "b"))
        assert not conversation.is_over(conversation.open, self.want(5, "other"))

    def test_an_end_without_words_is_the_one_told_of_just_before(self) -> None:
        conversation = talk(ask("a", 1_000), Interrupted(9_000))
        assert conversation.has_passed(self.want(9_100))
        assert not conversation.has_passed(self.want(12_000))
        assert not conversation.has_passed(self.want(9_100, "b"))

    def test_where_no_time_is_told_any_end_is_the_awaited_one(self) -> None:
        assert talk(ask("a"), Failed("broken", None), Ended(True, None)).has_passed(self.want(9_100))
        assert not talk(ask("a"), say("b")).has_passed(self.want(9_100))


def test_reading_goes_on_before_a_passage_that_is_not_understood_yet() -> None:
    meaning = Script([ask("a"), say("b"), Ended(True, 3)])
    conversation = Conversation(meaning)
    for at in range(3):
        conversation.feed(Line(at, at + 1, b""))
    assert conversation.resume == 3
    meaning.held = 1
    assert conversation.resume == 1
