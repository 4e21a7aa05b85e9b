"""Pieces of a redacted text: as many as before, and together nothing but that text."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.journal.recut import recut, redact_json
from sessionpipe.privacy.secrets import redact, redact_value
from sessionpipe.privacy.values import MARK
from tests.privacy.recipes import expand

TOKEN = expand("ghp_<36>")


def cut(text: str, *places: int) -> list[str]:
    """``text`` cut at ``places``."""
    ends = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


places = st.lists(st.integers(0, 80), max_size=12)
texts = st.lists(st.sampled_from([TOKEN, " ", "\n", "so ", "x=", MARK, "é\u2028", f"token {TOKEN}."])).map(
    "".join
)


@given(texts, places)
def test_the_pieces_join_to_the_redacted_whole(text: str, where: list[int]) -> None:
    pieces = cut(text, *where)
    again = recut(pieces, redact(text))
    assert len(again) == len(pieces)
    assert "".join(again) == redact(text)


@given(st.text(), st.text(), places)
def test_whatever_the_new_text_is(old: str, new: str, where: list[int]) -> None:
    pieces = cut(old, *where)
    again = recut(pieces, new)
    assert (len(again), "".join(again)) == (len(pieces), new)


def test_a_secret_split_over_pieces_becomes_one_mark_in_the_first() -> None:
    pieces = ["the to", "ken is " + TOKEN[:9], TOKEN[9:20], TOKEN[20:] + " and", " more"]
    assert recut(pieces, redact("".join(pieces))) == ["the to", f"ken is {MARK}", "", " and", " more"]


def test_two_secrets_leave_what_is_between_them_where_it_was() -> None:
    pieces = [TOKEN, " or ", TOKEN, "."]
    assert recut(pieces, redact("".join(pieces))) == [MARK, " or ", MARK, "."]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([TOKEN, "", 'a\n"\\é😀', f"x {TOKEN}", "hunter2horse9"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "password", "command", "name", "value", "é"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@given(values, st.booleans(), st.sampled_from([None, 2]))
def test_a_json_text_says_what_the_redacted_value_is(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert json.loads(redact_json(text)) == redact_value(value)


@given(values, st.booleans(), st.integers(0, 300))
def test_a_json_text_that_was_cut_off_tells_no_more(value: Any, ascii_only: bool, at: int) -> None:
    text = json.dumps({"command": value}, ensure_ascii=ascii_only)[:at]
    redacted = redact_json(text)
    assert TOKEN not in redacted
    # Nothing but secrets goes.
    assert redacted == text or MARK in redacted


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ('{"password": "hunter2horse', '{"password": "[redacted]'),
        (f'{{"command": "\\n{TOKEN}\\', '{"command": "\\n[redacted]\\'),
        (f'{{"command": "\\n{TOKEN}\\u00', '{"command": "\\n[redacted]\\u00'),
        ('{"a": tru', '{"a": tru'),
        (f"not JSON but {TOKEN}", "not JSON but [redacted]"),
        (f'{{"a": "{TOKEN}", "a": 1}}', '{"a": "[redacted]", "a": 1}'),
        (f'{{"{TOKEN}": 1.50}}', '{"[redacted]": 1.50}'),
    ],
)
def test_texts_that_are_not_quite_json(text: str, redacted: str) -> None:
    assert redact_json(text) == redacted


def test_a_text_nested_deeper_than_can_be_read_is_redacted_as_a_text() -> None:
    assert redact_json("[" * 100_000 + f'"{TOKEN}') == "[" * 100_000 + '"[redacted]'
