"""Pi's messages become exchanges, whichever source tells them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.harnesses.pi_exchanges import Conversation, texts
from sessionpipe.harnesses.transcripts import SIDE_CHARS

Said = tuple[str, str]


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def model(*said: str, stop: str = "stop", **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in said]
    return {"role": "assistant", "content": content, "stopReason": stop, **more}


WORKS = model(stop="toolUse")
RESULT = {"role": "toolResult", "content": [{"type": "text", "text": "out"}]}
CUSTOM = {"role": "custom", "content": "an extension's words", "display": True}
END = None


def exchanged(*messages: dict[str, Any] | None) -> list[Said]:
    """The exchanges of messages; an END among them is the end of a run."""
    talk = Conversation()
    for message in messages:
        if message is END:
            talk.close()
        talk.take(message)
    talk.close()
    return [(exchange.user, exchange.assistant) for exchange in talk.over]


def test_what_is_said_around_tools_is_one_exchange() -> None:
    assert exchanged(user("ask"), model("first", stop="toolUse"), RESULT, WORKS, RESULT, model("last")) == [
        ("ask", "first\n\nlast")
    ]


def test_a_message_s_texts_are_joined_and_its_pictures_left_out() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "image", "data": "A"}, {"type": "text", "text": "b"}]
    assert exchanged(user(content), model(" one ", " ", "two\n")) == [("a\nb", "one\n\ntwo")]


def test_a_picture_alone_is_an_ask() -> None:
    assert exchanged(user([{"type": "image", "data": "A"}])) == [("", "")]


SKILL = '<skill name="review" location="/s/SKILL.md">\nReferences are relative to /s.\n\nLook.\n</skill>'


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (SKILL, "/skill:review"),
        (SKILL + "\n\nthe page\n", "/skill:review the page"),
        (SKILL[:60] + "\n</skill> inside\n" + SKILL[60:] + "\n\nit", "/skill:review it"),
        (SKILL[:-9], "/skill:review"),
        ("look: " + SKILL, "look: " + SKILL),
        ("<skill name=", "<skill name="),
    ],
)
def test_a_skill_s_text_is_what_was_typed(text: str, asked: str) -> None:
    assert exchanged(user(text), model("ok")) == [(asked, "ok")]


def test_thinking_calls_and_an_error_s_text_are_not_said() -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "toolCall", "name": "bash", "arguments": {}}]
    message = {"role": "assistant", "content": blocks, "stopReason": "error", "errorMessage": "500"}
    assert exchanged(user("ask"), message) == [("ask", "")]


def test_a_message_sent_before_anything_was_said_belongs_to_the_ask() -> None:
    assert exchanged(user("ask"), user("and"), WORKS, RESULT, user("also"), model("answer")) == [
        ("ask\n\nand\n\nalso", "answer")
    ]


@pytest.mark.parametrize("stop", ["stop", "toolUse", "length", "aborted", "error"])
def test_a_message_sent_after_something_was_said_opens_the_next(stop: str) -> None:
    assert exchanged(user("ask"), model("answer", stop=stop), user("next"), model("more")) == [
        ("ask", "answer"),
        ("next", "more"),
    ]


@pytest.mark.parametrize("stop", ["aborted", "error"])
def test_what_had_been_said_when_it_stopped_was_said(stop: str) -> None:
    assert exchanged(user("ask"), model("half", stop=stop)) == [("ask", "half")]
    assert exchanged(user("ask"), model(stop=stop), END, user("next")) == [("ask", ""), ("next", "")]
    assert exchanged(user("ask"), model(stop=stop), user("next")) == [("ask", ""), ("next", "")]


def test_an_abort_in_a_tool_ends_the_ask() -> None:
    assert exchanged(user("ask"), WORKS, RESULT, model(stop="aborted"), user("next")) == [
        ("ask", ""),
        ("next", ""),
    ]


def test_a_retry_says_anew_what_an_error_cut_short() -> None:
    failed = model("half of", stop="error", errorMessage="529")
    assert exchanged(user("ask"), model("first", stop="toolUse"), RESULT, failed, failed, model("all")) == [
        ("ask", "first\n\nall")
    ]


def test_a_run_that_goes_on_past_its_limit_said_both() -> None:
    cut = model("cut", stop="length")
    assert exchanged(user("ask"), cut, RESULT, model("again")) == [("ask", "cut\n\nagain")]


def test_what_an_extension_puts_there_is_nobody_s_ask() -> None:
    assert exchanged(user("ask"), CUSTOM, model("answer"), END, CUSTOM, model("noticed"), user("next")) == [
        ("ask", "answer"),
        ("", "noticed"),
        ("next", ""),
    ]
    assert exchanged(user("ask"), model("answer"), CUSTOM, model("noticed")) == [
        ("ask", "answer"),
        ("", "noticed"),
    ]
    assert exchanged(CUSTOM, user("ask"), model("answer")) == [("ask", "answer")]
    assert exchanged(CUSTOM, CUSTOM) == []


def test_the_end_of_a_run_completes_what_was_asked() -> None:
    assert exchanged(user("ask"), END, user("next"), model("answer")) == [("ask", ""), ("next", "answer")]


def test_words_nobody_asked_for_are_an_exchange() -> None:
    assert exchanged(model("hello"), user("ask")) == [("", "hello"), ("ask", "")]


@pytest.mark.parametrize("role", ["system", "bashExecution", "branchSummary", "compactionSummary", "?", None])
def test_other_messages_say_nothing(role: object) -> None:
    other = {"role": role, "content": "text", "summary": "text", "command": "ls", "output": "text"}
    assert exchanged(user("ask"), other, model("answer", stop="toolUse"), other, RESULT, model("more")) == [
        ("ask", "answer\n\nmore")
    ]


def test_a_side_is_bounded() -> None:
    ((asked, answer),) = exchanged(user("a" * 300_000), model("b" * 150_000, "c" * 150_000))
    assert (len(asked), len(answer)) == (SIDE_CHARS, SIDE_CHARS)


def test_the_times_are_those_of_the_first_and_the_last_message() -> None:
    talk = Conversation()
    talk.take(user("ask"), ms=5, start=100)
    talk.take(model("answer"), ms=9, message_id="a1")
    talk.take(RESULT, ms=11)
    assert talk.open
    assert (talk.open.asked_ms, talk.open.at_ms, talk.open.start) == (5, 9, 100)
    assert (talk.open.last_id, talk.open.last_words) == ("a1", "answer")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text"]), inner),
    max_leaves=8,
)
ROLES = st.sampled_from(["user", "assistant", "custom", "toolResult", "system"])
MESSAGES = st.fixed_dictionaries({"role": ROLES | JSON, "content": JSON, "stopReason": JSON}) | JSON


@given(st.lists(MESSAGES, max_size=12))
def test_no_message_is_too_strange(messages: list[Any]) -> None:
    assert all(isinstance(side, str) for exchange in exchanged(*messages) for side in exchange)


@given(JSON)
def test_texts_are_texts(content: Any) -> None:
    assert all(isinstance(text, str) for text in texts(content))
