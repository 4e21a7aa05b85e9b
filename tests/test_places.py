"""What stands where something of ours should be; tests/e2e/test_obstacles.py has what comes of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sessionpipe import places
from sessionpipe.paths import State
from sessionpipe.places import NO_ROOM, describe, identity, kinds, make_ours, open_file, put_aside, read_file


@pytest.fixture
def state(tmp_path: Path) -> State:
    state = State(tmp_path / "state")
    state.root.mkdir(mode=0o700)
    return state


def test_nothing_yet_is_nothing_wrong(state: State, tmp_path: Path) -> None:
    assert list(places.wrong(state)) == []
    assert list(places.wrong(State(tmp_path / "none"))) == []


def test_each_name_that_is_something_else_is_said_with_what_fails(state: State) -> None:
    state.outbox.mkdir()
    state.log.parent.symlink_to("/tmp")
    said = [one.what for one in places.wrong(state)]
    assert said == [
        f"{state.outbox} is a folder, not a file: nothing is recorded, and jobs wait in the spool",
        f"{state.log.parent} is a link, not a folder: nothing is logged",
    ]


def test_a_root_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    (one,) = places.wrong(State(tmp_path / "state"))
    assert one.what == f"{tmp_path}/state is a file, not a folder"


def test_every_name_of_a_state_directory_is_in_the_table(state: State) -> None:
    named = {path for path, _, _ in kinds(state)}
    fixed = {value for value in vars(state).values() if isinstance(value, Path)} - {state.root}
    assert named >= fixed


def test_what_has_a_folders_name_is_kept_beside_it(state: State, tmp_path: Path) -> None:
    (tmp_path / "victims").mkdir()
    (tmp_path / "victims").chmod(0o755)
    (state.root / "spool").symlink_to(tmp_path / "victims")
    make_ours(state.root / "spool")
    assert stat.S_IMODE((state.root / "spool").lstat().st_mode) == 0o700
    (aside,) = state.root.glob("spool.aside-*")
    assert aside.readlink() == tmp_path / "victims"
    assert stat.S_IMODE((tmp_path / "victims").stat().st_mode) == 0o755


def test_a_folder_of_ours_is_made_private_and_its_parents_are_not_made(state: State) -> None:
    wide = state.root / "wide"
    wide.mkdir()
    wide.chmod(0o755)
    make_ours(wide)
    assert stat.S_IMODE(wide.stat().st_mode) == 0o700
    with pytest.raises(FileNotFoundError):
        make_ours(state.root / "none" / "below")


def test_two_things_put_aside_are_both_kept(state: State) -> None:
    for content in ("one", "two"):
        (state.root / "x").write_text(content)
        put_aside(state.root / "x")
    assert sorted(path.read_text() for path in state.root.glob("x.aside-*")) == ["one", "two"]


@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
def test_a_file_of_ours_is_opened_whatever_has_its_name(state: State, tmp_path: Path, kind: str) -> None:
    path, victim = state.root / "x", tmp_path / "victim"
    victim.write_text("precious")
    {"fifo": lambda: os.mkfifo(path), "folder": path.mkdir, "link": lambda: path.symlink_to(victim)}[kind]()
    fd = open_file(path, os.O_WRONLY | os.O_CREAT)
    os.write(fd, b"ours")
    os.close(fd)
    assert path.read_text() == "ours"
    assert victim.read_text() == "precious"


def test_only_files_are_read_and_a_link_only_where_it_may_be(state: State) -> None:
    file, link, fifo = (state.root / name for name in ("file", "link", "fifo"))
    file.write_bytes(b"content")
    link.symlink_to(file)
    os.mkfifo(fifo)
    assert read_file(file) == read_file(link, follow=True) == b"content"
    with pytest.raises(OSError, match="symbolic link"):
        read_file(link)
    with pytest.raises(OSError, match="it is a FIFO, not a file"):
        read_file(fifo, follow=True)


def test_a_name_tells_one_file_from_another(state: State) -> None:
    one, two = state.root / "one", state.root / "two"
    one.touch()
    two.symlink_to(one)
    assert identity(one) not in (None, identity(two))
    assert identity(state.root / "none") is None


def test_words_for_what_is_there(state: State) -> None:
    assert [describe(mode) for mode in (stat.S_IFSOCK, stat.S_IFBLK, 0)] == [
        "a socket",
        "a device",
        "something else",
    ]


def test_room_is_what_this_person_can_still_write(state: State, tmp_path: Path) -> None:
    assert (places.room(state.root) or 0) > NO_ROOM
    assert places.room(tmp_path / "none") is None
