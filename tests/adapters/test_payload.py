"""sessionpipe.adapters.payload: whatever a pipe delivers is read, or refused with a reason."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.adapters.payload import ABSURD, DEPTH, Unreadable, read, smooth

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(max_size=8), JSON, max_size=6)


@given(OBJECTS)
def test_sound_json_is_read_as_it_is(value: dict[str, Any]) -> None:
    assert read(json.dumps(value).encode()).value == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "an empty payload"),
        (b" \r\n", "an empty payload"),
        (b"\xef\xbb\xbf", "an empty payload"),
        (b"null", "a JSON null, not an object"),
        (b'[{"session_id":"x"}]', "a JSON array, not an object"),
        (b'"text"', "a JSON string, not an object"),
        (b"12", "a JSON number, not an object"),
        (b"true", "a JSON boolean, not an object"),
        (b"hello", "not JSON"),
        (b'{"a":1} {"b":2}', "not JSON"),
        (b'{"a":1,}', "not JSON"),
        (b'{"a":1', "not JSON"),
        (b"}{", "not JSON"),
    ],
)
def test_what_is_no_object_is_refused_by_name(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=f"^{reason}$"):
        read(data)


def test_a_byte_order_mark_and_white_space_around_are_skipped() -> None:
    assert read(b'\xef\xbb\xbf \n{"a":1}\r\n').value == {"a": 1}


def test_the_last_of_duplicate_keys_counts() -> None:
    assert read(b'{"a":1,"a":2}').value == {"a": 2}


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    assert read(b'{"a":"x\xffy"}').value == {"a": "x\ufffdy"}


def test_a_lone_surrogate_is_kept_until_it_is_smoothed() -> None:
    value, rough = read(rb'{"a":"\ud800x","\udfff":["\ud83d\ude00"]}')
    assert rough
    assert value["a"] == "\ud800x"
    assert smooth(value) == {"a": "\ufffdx", "\ufffd": ["😀"]}


def test_numbers_that_json_does_not_have_become_null_when_smoothed() -> None:
    value, rough = read(b'{"nan":NaN,"inf":-Infinity,"big":1e999,"n":[1.5]}')
    assert rough
    assert math.isnan(value["nan"])
    assert smooth(value) == {"nan": None, "inf": None, "big": None, "n": [1.5]}


def test_an_integer_of_thousands_of_digits_is_survived() -> None:
    assert smooth(read(b'{"n":' + b"1" * 10_000 + b"}").value) == {"n": None}


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"k":', b"}")])
@pytest.mark.parametrize("levels", [DEPTH + 1, 10_000, 300_000])
def test_deep_nesting_is_read_down_to_a_depth_that_nobody_behind_has_to_mind(
    opening: bytes, closing: bytes, levels: int
) -> None:
    data = b'{"id":"x","deep":' + opening * levels + b"1" + closing * levels + b',"after":[2]}'
    value = read(data).value
    assert (value["id"], value["after"]) == ("x", [2])
    depth = 1
    inner = value["deep"]
    while isinstance(inner, (list, dict)):
        depth += 1
        inner = next(iter(inner.values() if isinstance(inner, dict) else inner))
    assert (depth, inner) == (DEPTH, None)


def test_nesting_beyond_reason_is_refused() -> None:
    with pytest.raises(Unreadable, match="nested too deeply"):
        read(b"[" * (ABSURD + 1))


@pytest.mark.parametrize(
    ("cut", "kept"),
    [
        ('{"id":"x","tool_input":{"file_path":"/a","content":"half of', {"id": "x", "tool_input": {"file_path": "/a"}}),
        ('{"id":"x","prompt":"a \\"quoted\\" wor', {"id": "x"}),
        ('{"id":"x","prompt":"ends in a backslash\\', {"id": "x"}),
        ('{"id":"x","prompt":"ends in a quote\\"', {"id": "x"}),
        ('{"id":"x","prompt":"ends like a value}', {"id": "x"}),
        ('{"id":"x","duration_ms":12', {"id": "x"}),
        ('{"id":"x","ok":tru', {"id": "x"}),
        ('{"id":"x","ok":true', {"id": "x", "ok": True}),
        ('{"id":"x","name":"whole"', {"id": "x", "name": "whole"}),
        ('{"id":"x","name":"whole",', {"id": "x", "name": "whole"}),
        ('{"id":"x","name"', {"id": "x"}),
        ('{"id":"x","name":', {"id": "x"}),
        ('{"id":"x","list":[1,2,3', {"id": "x", "list": [1, 2]}),
        ('{"id":"x","list":[1,[2,{"a":3}', {"id": "x", "list": [1, [2, {"a": 3}]]}),
        ('{"id":"x","list":[', {"id": "x", "list": []}),
        ('{"id":"x","text":"with , and { and [ and \\\\', {"id": "x"}),
        ("{", {}),
    ],
)  # fmt: skip
def test_of_a_cut_payload_what_is_complete_is_kept(cut: str, kept: dict[str, Any]) -> None:
    assert read(cut.encode(), cut=True).value == kept


def test_a_cut_below_the_depth_that_is_read_keeps_what_is_above() -> None:
    value = read(b'{"id":"x","deep":' + b"[" * 5_000 + b'"half', cut=True).value
    assert value["id"] == "x"


def test_a_cut_inside_a_character_is_survived() -> None:
    assert read('{"id":"x","text":"h\u00e9'.encode()[:-1], cut=True).value == {"id": "x"}


def test_a_whole_payload_that_is_said_to_be_cut_stays_whole() -> None:
    assert read(b'{"a":[1,2]}\n', cut=True).value == {"a": [1, 2]}


@given(OBJECTS, st.data())
def test_a_cut_anywhere_keeps_only_what_was_there(value: dict[str, Any], data: st.DataObject) -> None:
    whole = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode()
    end = data.draw(st.integers(1, len(whole)))
    kept = read(whole[:end], cut=True).value
    assert _within(kept, json.loads(whole))


def _within(part: Any, whole: Any) -> bool:
    """Whether ``part`` is ``whole`` without some of its last members."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and _within(part[key], whole[key]) for key in part
        )
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) <= len(whole) and all(map(_within, part, whole))
    return bool(part == whole)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_or_refused(data: bytes, cut: bool) -> None:
    try:
        value = read(data, cut=cut).value
    except Unreadable:
        return
    assert isinstance(value, dict)
