"""sessionpipe.harnesses.packed: a compressed file reads as what it was compressed from."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.harnesses import jsonl, packed
from sessionpipe.harnesses.files import Files, Opened
from tests.harnesses.packing import compress


def noise(length: int) -> bytes:
    """Nothing that could be compressed."""
    return b"".join(hashlib.sha256(b"%d" % nth).digest() for nth in range(length // 32 + 1))[:length]


def opened(folder: Path, data: bytes) -> Opened:
    (folder / "file.zst").write_bytes(data)
    source = Files().open(folder / "file.zst")
    assert source is not None
    reading = packed.unpacked(source)
    assert reading is not None
    return reading


def test_its_size_is_that_of_what_it_holds(tmp_path: Path) -> None:
    with opened(tmp_path, compress(b"x" * 1_000_000)) as source:
        assert source.size == 1_000_000


def test_frames_behind_one_another_are_one_file(tmp_path: Path) -> None:
    with opened(tmp_path, compress(b"one\n") + compress(b"two\n")) as source:
        assert source.head(100) == b"one\ntwo\n"


def test_lines_are_read_forwards_and_backwards(tmp_path: Path) -> None:
    text = b"".join(b"%06d\n" % nth for nth in range(100_000))
    with opened(tmp_path, compress(text)) as source:
        assert [line.data for line in jsonl.forward(source)] == text.split()
        assert next(iter(jsonl.backward(source, 1 << 20))).data == b"099999"


@pytest.mark.parametrize("kept", [0, 1, 5, 400_000])
def test_one_that_is_cut_off_is_as_long_as_what_can_be_unpacked(tmp_path: Path, kept: int) -> None:
    text = noise(1_000_000)
    with opened(tmp_path, compress(text)[:kept]) as source:
        assert source.size < len(text)
        assert source.read_at(0, len(text)) == text[: source.size]
        assert source.size > 0 or kept < 100


def test_a_damaged_one_is_read_up_to_the_damage(tmp_path: Path) -> None:
    data = bytearray(compress(noise(1_000_000)))
    data[500_000:500_100] = b"\xff" * 100
    with opened(tmp_path, bytes(data)) as source:
        assert source.read_at(0, 100_000) == noise(100_000)


def test_a_file_that_stands_for_endless_nothing_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MOST", 1 << 20)
    with opened(tmp_path, compress(b"\0" * (8 << 20))) as source:
        assert source.size == 1 << 20


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reads=st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 3_000)), max_size=6))
def test_any_part_is_read_in_any_order(tmp_path: Path, reads: list[tuple[int, int]]) -> None:
    text = noise(2_500)
    with opened(tmp_path, compress(text)) as source:
        for offset, length in reads:
            assert source.read_at(offset, length) == text[offset : offset + length]
