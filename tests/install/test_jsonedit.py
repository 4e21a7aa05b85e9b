"""Edits to a JSON text change what they are about and nothing else, and can be undone to the byte."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.install.jsonedit import Document

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


TOLERANT = ("comments", "commas", "mark")
asides = st.sampled_from(
    [" ", "\t", "\n", "\r\n", '// why, ["x\n', "//\r\n", "/* so, */", "/**/", "/* a\n // b */"]
)


@st.composite
def commented(draw: st.DrawFn, value: Any, *, marks: Collection[str] = TOLERANT) -> str:
    """The text of a value with comments, and what else ``marks`` names, and any white space."""

    def space() -> str:
        return draw(st.lists(asides, max_size=2).map("".join))

    def text(value: Any) -> str:
        if isinstance(value, dict):
            items = [
                f"{space()}{json.dumps(k)}{space()}:{space()}{text(v)}{space()}" for k, v in value.items()
            ]
        elif isinstance(value, list):
            items = [space() + text(item) + space() for item in value]
        else:
            return json.dumps(value)
        last = "," + space() if items and "commas" in marks and draw(st.booleans()) else ""
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return opening + (",".join(items) + last or space()) + closing

    return (
        draw(st.sampled_from(["", "\ufeff"] if "mark" in marks else [""]))
        + space()
        + text(draw(value))
        + space()
    )


def read(text: str) -> Any:
    """What Python's own reader makes of ``text``; whole numbers of 19 digits and more as floats."""
    return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 19 else float(digits))


@contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """How many calls, of Python and of C functions, are made within: a clock that a busy machine leaves alone."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield lambda: count
    finally:
        sys.setprofile(before)


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


@given(commented(st.dictionaries(st.text(max_size=3), scalars, max_size=3)), scalars)
def test_beside_comments_a_member_comes_and_goes_without_a_trace(text: str, value: Any) -> None:
    document = Document(text, TOLERANT)
    before = document.root.plain()
    blank = document.insert((), "a new one", value)
    assert Document(document.text, TOLERANT).root.plain() == {**before, "a new one": value}
    document.remove(("a new one",), blank or "")
    assert document.text == text


@given(commented(st.lists(scalars, min_size=1, max_size=4)), st.data())
def test_beside_comments_a_removal_leaves_the_other_elements_and_every_comment(
    text: str, data: st.DataObject
) -> None:
    document = Document(text, TOLERANT)
    plain = document.root.plain()
    index = data.draw(st.integers(0, len(plain) - 1))
    document.remove((index,))
    left = Document(document.text, TOLERANT).root.plain()
    assert left == document.root.plain() == plain[:index] + plain[index + 1 :]


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


@given(documents(st.dictionaries(st.text(max_size=3), values, max_size=4)), st.data())
def test_after_any_edits_the_tree_is_the_one_that_the_new_text_gives(text: str, data: st.DataObject) -> None:
    document = Document(text)
    for _ in range(data.draw(st.integers(1, 5))):
        places = list(document.walk(()))  # reads all there is, so that all of it must follow
        path, node = data.draw(st.sampled_from(places))
        edit = data.draw(st.sampled_from(["insert", "remove", "replace"]))
        value = data.draw(values)
        if edit == "insert" and node.kind != "value":
            key = data.draw(st.text(min_size=4, max_size=6)) if node.kind == "object" else None
            if key is None or node.child(key) is None:
                document.insert(path, key, value)
        elif edit == "remove" and path:
            document.remove(path)
        elif edit == "replace":
            document.replace(path, value)
        assert spans(document) == spans(Document(document.text))


def spans(document: Document) -> list[tuple[Any, ...]]:
    """Where everything stands, and what it is."""
    return [
        (path, node.kind, node.at, node.start, node.end, node.key, node.colon, node.value)
        for path, node in document.walk(())
    ]


def test_many_edits_of_a_large_file_read_it_once() -> None:
    elsewhere = {f"k{number}": {"allow": ["a", 1, None, {"b": []}]} for number in range(10_000)}
    document = Document(json.dumps({"elsewhere": elsewhere, "hooks": {}}, indent=2))
    with counted() as calls:
        for number in range(50):
            document.insert(("hooks",), f"e{number}", [{"command": "c"}])
        for number in range(50):
            document.remove(("hooks", f"e{number}"))
    assert calls() < 100_000  # as many as the file has values: reading it at every edit takes millions


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
    ("before", "after"),
    [
        ('{\n  "a": 1 // mine\n}\n', '{\n  "a": 1, // mine\n  "k": 1\n}\n'),
        ('{\n  "a": 1,\n  // the end\n}\n', '{\n  "a": 1,\n  // the end\n  "k": 1,\n}\n'),
        ('{"a": 1 /* mine */}', '{"a": 1, /* mine */ "k": 1}'),
        ("{ // nothing yet\n}", '{ // nothing yet\n  "k": 1\n}'),
        ('{"a": "// no comment",}', '{"a": "// no comment", "k": 1,}'),
        ('\ufeff{"a": 1}', '\ufeff{"a": 1, "k": 1}'),
    ],
)
def test_an_insertion_stands_behind_the_comments_and_takes_no_other_s_comma(before: str, after: str) -> None:
    document = Document(before, TOLERANT)
    blank = document.insert((), "k", 1)
    assert document.text == after
    document.remove(("k",), blank or "")
    assert document.text == before
