"""Edits to a JSON text change what they are about and nothing else, and can be undone to the byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.install.jsonedit import MAX_DEPTH, Document, NotPlainJson, parse

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**17), 10**17),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


@st.composite
def documents(draw: st.DrawFn, value: Any = values) -> str:
    """The text of a JSON value in any formatting: every token apart by any white space."""
    plain = draw(value)
    style = draw(st.sampled_from(["dumps", "indented", "tabs", "crlf", "wild"]))
    if style == "dumps":
        return json.dumps(plain)
    if style == "indented":
        return json.dumps(plain, indent=draw(st.integers(0, 5))) + draw(st.sampled_from(["", "\n"]))
    if style == "tabs":
        return json.dumps(plain, indent="\t", ensure_ascii=False)
    if style == "crlf":
        return json.dumps(plain, indent=2).replace("\n", "\r\n") + "\r\n"
    return _wild(draw, plain)


def _wild(draw: st.DrawFn, plain: Any) -> str:
    def space() -> str:
        return draw(st.text(" \t\r\n", max_size=3))

    def text(value: Any) -> str:
        if isinstance(value, dict):
            items = [
                f"{space()}{json.dumps(k)}{space()}:{space()}{text(v)}{space()}" for k, v in value.items()
            ]
            return "{" + (",".join(items) or space()) + "}"
        if isinstance(value, list):
            return "[" + (",".join(space() + text(item) + space() for item in value) or space()) + "]"
        return json.dumps(value)

    return space() + text(plain) + space()


def read(text: str) -> Any:
    """What Python's own reader makes of ``text``; whole numbers of 19 digits and more as floats."""
    return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 19 else float(digits))


@given(documents())
def test_what_is_read_is_what_the_text_says(text: str) -> None:
    assert parse(text).plain() == read(text)


@given(documents(st.dictionaries(st.text(max_size=6), values, max_size=4)), st.text(min_size=7), values)
def test_removing_a_member_just_inserted_gives_the_bytes_back(text: str, key: str, value: Any) -> None:
    document = Document(text)
    blank = document.insert((), key, value)
    assert document.root.plain() == {**read(text), key: value}
    document.remove((key,), blank or "")
    assert document.text == text


@given(documents(st.lists(values, max_size=4)), values)
def test_removing_an_element_just_inserted_gives_the_bytes_back(text: str, value: Any) -> None:
    document = Document(text)
    blank = document.insert((), None, value)
    after = document.root.plain()
    assert after == [*read(text), value]
    document.remove((len(after) - 1,), blank or "")
    assert document.text == text


@given(documents(st.lists(values, min_size=2, max_size=5)), st.data())
def test_a_removal_leaves_the_other_elements(text: str, data: st.DataObject) -> None:
    document, plain = Document(text), read(text)
    index = data.draw(st.integers(0, len(plain) - 1))
    spans = [text[item.at : item.end] for item in document.root.items]
    document.remove((index,))
    kept = [document.text[item.at : item.end] for item in document.root.items]
    assert kept == spans[:index] + spans[index + 1 :]


@given(documents(st.dictionaries(st.just("a") | st.just("b"), values, min_size=1)), values)
def test_a_replacement_touches_one_value(text: str, value: Any) -> None:
    document, plain = Document(text), read(text)
    key = next(iter(plain))
    before = {item.key: text[item.start : item.end] for item in document.root.items}
    document.replace((key,), value)
    assert document.root.plain() == {**plain, key: value}
    after = {item.key: document.text[item.start : item.end] for item in document.root.items}
    assert {name: span for name, span in after.items() if name != key} == {
        name: span for name, span in before.items() if name != key
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "k": [\n    1\n  ]\n}'),
        ("{}\n", '{\n  "k": [\n    1\n  ]\n}\n'),
        ('{"a":1}', '{"a":1,"k":[1]}'),
        ('{"a": 1}\n', '{"a": 1, "k": [1]}\n'),
        ('{\n  "a": 1\n}\n', '{\n  "a": 1,\n  "k": [\n    1\n  ]\n}\n'),
        ('{\n    "a": 1\n}', '{\n    "a": 1,\n    "k": [\n        1\n    ]\n}'),
        ('{\r\n\t"a": 1\r\n}\r\n', '{\r\n\t"a": 1,\r\n\t"k": [\r\n\t\t1\r\n\t]\r\n}\r\n'),
        ('{\n  "a" : 1\n}\n', '{\n  "a" : 1,\n  "k" : [\n    1\n  ]\n}\n'),
    ],
)
def test_an_insertion_takes_over_the_style_of_the_file(before: str, after: str) -> None:
    document = Document(before)
    document.insert((), "k", [1])
    assert document.text == after


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


@given(st.text())
def test_any_text_is_read_or_refused_and_what_is_read_is_json(text: str) -> None:
    try:
        parse(text)
    except NotPlainJson:
        return
    json.loads(text)


def test_numbers_beyond_python_s_limits_are_no_trouble() -> None:
    assert parse("[" + "9" * 5000 + ", 1e999, -0]").plain()[2] == 0
