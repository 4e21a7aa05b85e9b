"""A JSON text is read as it is meant, and what is no plain JSON is refused with its line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.install.jsontree import MAX_DEPTH, TOLERANCES, Node, NotPlainJson, Source
from sessionpipe.install.jsontree import read as read_tree

from .test_jsonedit import documents, read


def parse(text: str) -> Node:
    return read_tree(Source(text))


@given(documents())
def test_what_is_read_is_what_the_text_says(text: str) -> None:
    assert parse(text).plain() == read(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{\n  // why\n  "a": 1\n}', "a comment at line 2"),
        ('{"a": 1 /* why */}', "a comment at line 1"),
        ('# why\n{"a": 1}', "a comment at line 1"),
        ('{\n  "a": [1,\n2,],\n}', "a trailing comma at line 3"),
        ('{"a": 1,}', "a trailing comma at line 1"),
        ('\ufeff{"a": 1}', "a byte order mark at line 1"),
        ('{"a": 1,\n"a": 2}', "a key given twice at line 2"),
        ('{"a": NaN}', "a word that is no JSON at line 1"),
        ('{"a": Infinity}', "a word that is no JSON at line 1"),
        ('{"a": -Infinity}', "something unexpected at line 1"),
        ("{'a': 1}", "something unexpected at line 1"),
        ('{"a": 01}', "something unexpected at line 1"),
        ('{"a": .5}', "something unexpected at line 1"),
        ('{"a": "\t"}', "a broken string at line 1"),
        ('{"a": "\\x41"}', "a broken string at line 1"),
        ('{\n"a": "unended', "a broken string at line 2"),
        ('{"a": 1', "the end of the file at line 1"),
        ('{"a" 1}', "something unexpected at line 1"),
        ('{"a": 1} {}', "something unexpected at line 1"),
        ("\n\n", "the end of the file at line 3"),
        ("\v{}", "something unexpected at line 1"),
        ("[" * (MAX_DEPTH + 1), f"nesting deeper than {MAX_DEPTH} levels at line 1"),
    ],
)
def test_what_is_not_plain_json_is_refused_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(NotPlainJson, match=f"^not plain JSON: {complaint}$"):
        parse(text)


@pytest.mark.parametrize(
    ("reads", "text"),
    [
        ("comments", '{\n  // why\n  "a": 1 /* {"b": 2} */\n}'),
        ("commas", '{"a": 1,\n}'),
        ("mark", '\ufeff{"a": 1}'),
    ],
)
def test_what_a_harness_reads_beside_plain_json_is_read_and_nothing_more(reads: str, text: str) -> None:
    assert read_tree(Source(text, [reads])).plain() == {"a": 1}
    with pytest.raises(NotPlainJson):
        read_tree(Source(text, TOLERANCES - {reads}))


@pytest.mark.parametrize(
    "text", ['{"a": 1 // why\r}\n', '{"a": 1 /* why', '{"a": 1 # why\n}', '{"a": 1, /* why */,}']
)
def test_what_no_two_readers_agree_on_is_refused_whatever_is_tolerated(text: str) -> None:
    with pytest.raises(NotPlainJson):
        read_tree(Source(text, TOLERANCES))


@pytest.mark.parametrize("piece", ["/*", '"\\"', "//", "/", ",", ", ", '"', "*/", "//\r", "[,"])
def test_a_hostile_text_is_looked_through_once(piece: str) -> None:
    text = piece * 200_000  # minutes, if it were looked through anew at every piece
    with pytest.raises(NotPlainJson):
        read_tree(Source(text, TOLERANCES))


@pytest.mark.parametrize("text", ['{"a": "// /* ,}"}', '{"a//": ["/*", "*/,]"]}', '{"a\\"//": 1}'])
def test_what_looks_like_a_comment_in_a_string_is_none(text: str) -> None:
    assert read_tree(Source(text, TOLERANCES)).plain() == json.loads(text)


@given(st.text())
def test_any_text_is_read_or_refused_and_what_is_read_is_json(text: str) -> None:
    try:
        parse(text)
    except NotPlainJson:
        return
    json.loads(text)


def test_numbers_beyond_python_s_limits_are_no_trouble() -> None:
    assert parse("[" + "9" * 5000 + ", 1e999, -0]").plain()[2] == 0


@pytest.mark.parametrize("brackets", ["[]", '{"a":}'])
def test_the_deepest_nesting_that_is_read_can_be_walked(brackets: str) -> None:
    left, right = brackets[:-1], brackets[-1]
    node = parse(left * (MAX_DEPTH - 1) + "[]" + right * (MAX_DEPTH - 1))
    assert isinstance(node.plain(), list | dict)
    with pytest.raises(NotPlainJson, match="nesting deeper"):
        parse(left * MAX_DEPTH + "[]" + right * MAX_DEPTH)


def test_brackets_within_strings_are_no_nesting() -> None:
    text = json.dumps({"a": "[" * 1000 + '"\\' + "{" * 1000})
    assert parse(text).plain() == json.loads(text)


@given(st.text('[]{}":,\\u0a1-.e \n', max_size=12))
def test_text_of_json_s_own_characters_is_read_exactly_when_python_reads_it(text: str) -> None:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        expected = json.loads(text, object_pairs_hook=unique)
    except ValueError:
        with pytest.raises(NotPlainJson):
            parse(text)
    else:
        assert parse(text).plain() == expected
