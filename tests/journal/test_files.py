"""Reading what may be anything: the types of files, lines, and JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.journal import files
from sessionpipe.journal.files import Line, Malformed, Strict, Unusable, dump, lines, open_beneath, parse

# --- files --------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_bytes(b"text")
    (tmp_path / "a/link").symlink_to("file")
    (tmp_path / "b").symlink_to("a")
    os.mkfifo(tmp_path / "a/fifo")
    return tmp_path


def test_a_regular_file_is_opened(root: Path) -> None:
    with open_beneath(root, ("a", "file")) as file:
        assert (file.size, file.read_at(1, 10), list(file.blocks())) == (4, b"ext", [b"text"])


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (("a", "link"), "type"),
        (("b", "file"), "type"),
        (("a", "fifo"), "type"),
        (("a",), "type"),
        (("a", "file", "x"), "type"),
        (("a", "none"), "missing"),
        (("none", "file"), "missing"),
        (("a", "x" * 300), "unreadable"),
        (("a", "x\0y"), "unreadable"),
    ],
)
def test_nothing_else_is_and_nothing_waits(root: Path, parts: tuple[str, ...], why: str) -> None:
    with pytest.raises(Unusable) as raised:
        open_beneath(root, parts)
    assert raised.value.why == why


def test_the_root_is_the_persons_word_and_may_be_a_link(root: Path) -> None:
    with open_beneath(root / "b", ("file",)) as file:
        assert file.size == 4


def test_a_file_is_as_large_as_it_was_when_it_was_opened(root: Path) -> None:
    with open_beneath(root, ("a", "file")) as file:
        with (root / "a/file").open("ab") as more:
            more.write(b" and more")
        assert file.read_at(0, 100) == b"text"


def test_no_descriptor_is_left_open(root: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    for parts in (("a", "file"), ("a", "link"), ("b", "file"), ("a", "none"), ("none", "x"), ("a", "fifo")):
        try:
            with open_beneath(root, parts):
                pass
        except Unusable:
            pass
    assert len(list(Path("/dev/fd").iterdir())) == before


# --- lines --------------------------------------------------------------------------------------


def read(path: Path, offset: int = 0, number: int = 1) -> list[Line]:
    with open_beneath(path.parent, (path.name,)) as file:
        return list(lines(file, offset, number))


@given(
    data=st.lists(st.sampled_from([b"", b"a", b"bc", b"\r", b"\xe2\x80\xa8", b"long" * 9])),
    torn=st.booleans(),
)
def test_lines_are_what_line_feeds_end_wherever_blocks_do(
    tmp_path_factory: pytest.TempPathFactory, data: list[bytes], torn: bool
) -> None:
    path = tmp_path_factory.mktemp("lines") / "f"
    whole = b"".join(row + b"\n" for row in data) + b"rest" * torn
    path.write_bytes(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCK", 4)
        found = read(path)
    assert [line.data for line in found if line.complete] == data
    assert [line.data for line in found if not line.complete] == [b"rest"] * torn
    assert [line.number for line in found] == list(range(1, len(found) + 1))
    for line in found:
        assert whole[line.start : line.start + line.size] == line.data
        assert read(path, line.start, line.number)[0] == line


def test_a_line_too_long_is_empty_and_the_next_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 10)
    monkeypatch.setattr(files, "_BLOCK", 4)
    (tmp_path / "f").write_bytes(b"x" * 11 + b"\n" + b"y" * 10 + b"\n" + b"z" * 50)
    assert [(line.size, line.data, line.complete) for line in read(tmp_path / "f")] == [
        (11, b"", True),
        (10, b"y" * 10, True),
        (50, b"", False),
    ]


# --- JSON ---------------------------------------------------------------------------------------

_GOOD = {
    b'{"a":[1,true,null,"\\u0000",1.5e3]}': {"a": [1, True, None, "\0", 1500.0]},
    b' {"a":1}\r': {"a": 1},
    b'{"a":"\\ud83d"}': {"a": "\ud83d"},
    b'{"a":1,"a":2}': {"a": 2},
    b'{"a":123456789012345678901234567890}': {"a": 123456789012345678901234567890},
    '{"a":"\u2028\x7f"}'.encode(): {"a": "\u2028\x7f"},
}
_BAD = [
    b"", b" ", b"{", b"[]", b"1", b'"a"', b"null", b"{}{}", b"{'a':1}", b'{"a":NaN}', b'{"a":-Infinity}',
    b'{"a":1e999}', b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\x01"}', b"\xef\xbb\xbf{}", b'{"a":01}',
    b'{"a":1,}', b"[" * 100_000, b'{"a":' * 100_000, b'{"a":' + b"9" * 10_000 + b"}", b"\x00", b'{"a":"\n"}',
]  # fmt: skip


@pytest.mark.parametrize("data", _GOOD)
def test_json_is_read_alike_in_haste_and_with_care(data: bytes) -> None:
    assert parse(data) == Strict().parse(data) == _GOOD[data]


@pytest.mark.parametrize("data", _BAD, ids=lambda data: repr(data[:20]))
def test_what_is_no_json_object_is_refused_alike(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse(data)
    with pytest.raises(Malformed):
        Strict().parse(data)


@given(st.binary(max_size=30))
def test_haste_and_care_agree_on_any_bytes(data: bytes) -> None:
    def outcome(reader: object) -> object:
        try:
            return reader(data)  # type: ignore[operator]
        except Malformed:
            return "malformed"

    assert outcome(parse) == outcome(Strict().parse)


def test_a_repeated_key_is_noticed_at_any_depth_and_forgotten_by_the_next_line() -> None:
    strict = Strict()
    strict.parse(b'{"a":[{"b":1,"c":2,"b":3}],"d":1,"d":2}')
    assert strict.repeated == "b"
    strict.parse(b"{}")
    assert strict.repeated is None


@pytest.mark.parametrize("value", [{"a": "é\u2028"}, {"a": "\ud83d"}, {"\udc00": [1.5, None]}])
def test_any_string_can_be_written_again_on_one_line(value: object) -> None:
    assert json.loads(dump(value)) == value
    assert b"\n" not in dump(value)
