"""Compiled rules are believed only where they are whole and nobody else's."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sessionpipe import compiled
from sessionpipe.compiled import Compiled, Looking
from sessionpipe.paths import State
from sessionpipe.privacy import keeping, prefilter, rules
from sessionpipe.privacy.sought import Word

NAME, OTHER = (hashlib.sha256(word).hexdigest() for word in (b"one", b"other"))
DATA = bytes(range(256)) * 20

pytest.importorskip("hyperscan")


@pytest.fixture
def state(tmp_path: Path) -> State:
    state = State(tmp_path / "state")
    state.root.mkdir(mode=0o700)
    return state


@pytest.fixture
def kept(state: State) -> Iterator[Compiled]:
    kept = Compiled(state)
    keeping.keep_in(kept)
    yield kept
    keeping._kept = None


class TestKeeping:
    def test_what_was_kept_is_there(self, state: State, kept: Compiled) -> None:
        assert kept.get(NAME) is None
        kept.put(NAME, DATA)
        assert Compiled(state).get(NAME) == DATA

    def test_it_is_private_and_the_only_file(self, state: State, kept: Compiled) -> None:
        kept.put(NAME, DATA)
        assert [path.name for path in state.compiled.iterdir()] == [NAME]
        assert stat.S_IMODE((state.compiled / NAME).stat().st_mode) == 0o600
        assert stat.S_IMODE(state.compiled.stat().st_mode) == 0o700

    def test_many_at_once_leave_whole_files(self, state: State, kept: Compiled) -> None:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: kept.put(NAME, DATA), range(64)))
        assert kept.get(NAME) == DATA
        assert [path.name for path in state.compiled.iterdir()] == [NAME]

    def test_the_oldest_go_beyond_a_bound(self, state: State, kept: Compiled) -> None:
        names = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(compiled._AT_MOST + 3)]
        for age, name in enumerate(names):
            kept.put(name, DATA)
            os.utime(state.compiled / name, ns=(age, age))
        kept.put(NAME, DATA)
        assert kept.get(names[0]) is None
        assert kept.get(names[-1]) == DATA
        assert len(list(state.compiled.iterdir())) == compiled._AT_MOST

    def test_who_only_looks_takes_what_is_kept_and_writes_nothing(self, state: State, kept: Compiled) -> None:
        looking = Looking(state)
        looking.put(NAME, DATA)
        assert list(state.root.iterdir()) == []
        kept.put(NAME, DATA)
        assert looking.get(NAME) == DATA

    def test_removed_leaves_no_trace(self, state: State, kept: Compiled) -> None:
        kept.put(NAME, DATA)
        compiled.remove(state)
        assert list(state.root.iterdir()) == []

    def test_removing_never_follows_a_link(self, state: State, kept: Compiled, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "theirs").touch()
        state.compiled.symlink_to(elsewhere)
        compiled.remove(state)
        assert (elsewhere / "theirs").exists()

    def test_a_removed_state_directory_stays_removed(self, state: State, kept: Compiled) -> None:
        state.root.rmdir()
        kept.put(NAME, DATA)
        assert not state.root.exists()


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _link(path: Path) -> None:
    elsewhere = path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(elsewhere)


def _folder_link(path: Path) -> None:
    elsewhere = path.parent.rename(path.parent.parent / "elsewhere")
    path.parent.symlink_to(elsewhere)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


FAULTS: dict[str, Callable[[Path], object]] = {
    "a flipped bit": _flip,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "empty": lambda path: path.write_bytes(b""),
    "of another name": lambda path: path.write_bytes(path.with_name(OTHER).read_bytes()),
    "a link": _link,
    "in a linked folder": _folder_link,
    "a FIFO": _pipe,
    "writable by others": lambda path: path.chmod(0o602),
    "in a folder others may write to": lambda path: path.parent.chmod(0o770),
}


class TestNotAsItShouldBe:
    @pytest.mark.parametrize("spoil", FAULTS.values(), ids=FAULTS)
    def test_it_is_not_there_and_can_be_kept_again(
        self, state: State, kept: Compiled, spoil: Callable[[Path], object]
    ) -> None:
        kept.put(OTHER, DATA[::-1])
        kept.put(NAME, DATA)
        spoil(state.compiled / NAME)
        assert kept.get(NAME) is None
        kept.put(NAME, DATA)
        assert kept.get(NAME) == DATA


class TestOfWords:
    WORDS = (Word("alpha"), Word("beta"))

    def found(self) -> list[int]:
        return sorted(prefilter.occurring(self.WORDS)(b"an alpha, and a beta"))

    def test_they_find_the_same_made_and_kept(self, state: State, kept: Compiled) -> None:
        assert self.found() == [0, 1]
        (path,) = state.compiled.iterdir()
        written = path.stat().st_mtime_ns
        assert self.found() == [0, 1]
        assert path.stat().st_mtime_ns == written

    def test_other_words_are_other_files(self, state: State, kept: Compiled) -> None:
        self.found()
        prefilter.occurring([Word("gamma")])
        assert len(list(state.compiled.iterdir())) == 2

    def test_what_the_matcher_refuses_is_compiled(self, state: State, kept: Compiled) -> None:
        self.found()
        (path,) = state.compiled.iterdir()
        kept.put(path.name, b"whole, and no database")
        assert self.found() == [0, 1]


@pytest.mark.parametrize("name", ["secrets@1", "pii@1"])
def test_a_ruleset_is_the_same_read_and_kept(state: State, kept: Compiled, name: str) -> None:
    read, again = (rules.load.__wrapped__(name) for _ in range(2))
    assert list(state.compiled.iterdir()) != []
    assert read == again == rules.load(name)
