"""What an HTTP answer that took nothing means, and how it is said."""

from __future__ import annotations

import pytest

from sessionpipe.config import SinkConfig
from sessionpipe.delivery.outcome import Drop, Outcome, Pause, Retry, Split
from sessionpipe.sinks import answers
from sessionpipe.sinks.wire import Answer


def refused(status: int, reason: str = "", **headers: str) -> Outcome:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answers.refused(
        Answer(status, named, b""),
        reason,
        name="board",
        url="https://b.example/in?key=7",
        now_s=0.0,
        shown="the token",
        throttled=frozenset({429, 503}),
    )


def test_no_status_is_without_a_meaning_and_few_give_anything_up() -> None:
    kinds: dict[int, type] = {400: Drop, 401: Pause, 403: Pause, 413: Split}
    for status in range(300, 600):
        found = refused(status, "why")
        assert type(found) is (Pause if status < 400 else kinds.get(status, Retry)), status
        assert "key=7" not in repr(found) and ("why" in repr(found) or status < 400)


def test_retry_after_is_heeded_of_the_statuses_that_are_named() -> None:
    assert refused(503, retry_after="7") == Retry("HTTP 503", 7.0)
    assert refused(502, retry_after="7") == Retry("HTTP 502")


@pytest.mark.parametrize(
    ("config", "token", "signed", "words"),
    [
        ({}, False, False, ""),
        ({}, True, True, "the token or the signature"),
        ({"token_env": "T"}, True, False, "the token that T held when the worker was started"),
        ({"headers": {"x-key": "hush"}}, False, False, "the header x-key"),
        ({"headers": {"a": "hush", "b": "hush"}}, True, False, "the token or the headers a, b"),
    ],
)
def test_what_was_shown_is_said_without_showing_it(
    config: dict[str, str], token: bool, signed: bool, words: str
) -> None:
    sink = SinkConfig(name="s", kind="otlp", url="x", **config)  # type: ignore[arg-type]
    assert answers.shown(sink, token=token, signed=signed) == words


@pytest.mark.parametrize(
    ("value", "line"), [(7, ""), (None, ""), ("a\nb\x1b", "a b"), ("x" * 500, "x" * 200)]
)
def test_a_receivers_words_are_one_bounded_line(value: object, line: str) -> None:
    assert answers.line(value) == line
