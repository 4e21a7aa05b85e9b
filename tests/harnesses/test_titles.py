"""Titles: one line, cut late, and cut before a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.harnesses.titles import cut_title, first_ask, one_line, titled


def test_white_space_is_collapsed() -> None:
    assert one_line("  Fix\r\n\tthe   login\u2028page \n") == "Fix the login page"


def test_a_title_is_cut_before_a_word() -> None:
    assert cut_title("Fix the login page", 12) == "Fix the"
    assert cut_title("Fix the login page", 13) == "Fix the login"
    assert cut_title("Fix the login page", 18) == "Fix the login page"


def test_a_word_that_does_not_fit_is_cut_itself() -> None:
    assert cut_title("x" * 90, 80) == "x" * 80


@given(st.text(), st.integers(1, 90))
def test_a_cut_is_a_beginning_within_its_limit(text: str, limit: int) -> None:
    assert text.startswith(cut_title(text, limit)) and len(cut_title(text, limit)) <= limit


def test_a_line_is_left_long_enough_to_be_redacted_before_it_is_cut() -> None:
    line = one_line("word " * 1000)
    assert 1900 < len(line) <= 2000 and line.endswith("word")


@pytest.mark.parametrize("text", ["", "  \n", None, 7, ["title"]])
def test_nothing_gives_no_title(text: object) -> None:
    assert titled(text, "custom") == {}


def test_a_title_and_its_source_go_together() -> None:
    assert first_ask("Fix\nit") == {"title": "Fix it", "title_source": "first-ask"}
    assert titled("My name", "custom") == {"title": "My name", "title_source": "custom"}
