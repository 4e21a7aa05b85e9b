"""The only door to a harness's files: what it opens, what it refuses, what it remembers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessionpipe.harnesses.files import Files, Opened


def any_name(name: str) -> bool:
    return True


@pytest.fixture
def files() -> Files:
    return Files()


# --- resolving ------------------------------------------------------------------------------------


def test_an_absolute_path_with_the_right_name_is_taken(files: Files) -> None:
    assert files.resolve("/a/b.jsonl", suffix=".jsonl", name_ok=any_name) == Path("/a/b.jsonl")


@pytest.mark.parametrize(
    "claimed",
    [None, 7, "", [], {"path": "/a/b.jsonl"}, "b.jsonl", "../b.jsonl", "/a/b.json", "/a/\0.jsonl", "/" + "a" * 5000],
)  # fmt: skip
def test_anything_else_a_payload_may_claim_is_no_path(files: Files, claimed: object) -> None:
    assert files.resolve(claimed, suffix=".jsonl", name_ok=any_name) is None


def test_a_name_the_harness_would_not_write_is_refused(files: Files) -> None:
    def is_numbered(name: str) -> bool:
        return name[0].isdigit()

    assert files.resolve("/a/1.jsonl", suffix=".jsonl", name_ok=is_numbered)
    assert files.resolve("/a/x.jsonl", suffix=".jsonl", name_ok=is_numbered) is None


# --- opening --------------------------------------------------------------------------------------


def test_a_regular_file_is_read_within_bounds(files: Files, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    opened = files.open(tmp_path / "file")
    assert opened
    with opened:
        assert (opened.size, opened.head(4), opened.head(99)) == (10, b"0123", b"0123456789")
        assert (opened.read_at(3, 4), opened.read_at(8, 9), opened.read_at(20, 3)) == (b"3456", b"89", b"")


def test_a_reading_is_of_the_file_as_it_was_opened(files: Files, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"before")
    opened = files.open(tmp_path / "file")
    assert opened
    with opened, (tmp_path / "file").open("ab") as more:
        more.write(b" and after")
        more.flush()
        assert opened.head(99) == b"before"


def test_what_is_no_regular_file_is_not_opened(files: Files, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    for name in ("pipe", "folder", "loop", "gone", "nowhere", "nul\0"):
        assert files.open(tmp_path / name) is None
        assert files.open(tmp_path / name, follow=True) is None
        assert files.learn(tmp_path / name, "all", lambda opened: opened.head(9), follow=True) is None
    assert files.open("/dev/null", follow=True) is None


def test_a_link_is_followed_only_for_a_persons_settings(files: Files, tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"text")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert files.open(tmp_path / "link") is None
    assert files.learn(tmp_path / "link", "all", lambda opened: opened.head(9)) is None
    assert files.learn(tmp_path / "link", "all", lambda opened: opened.head(9), follow=True) == b"text"


def test_a_file_that_may_not_be_read_is_absent(files: Files, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read anything")
    (tmp_path / "locked").write_bytes(b"text")
    (tmp_path / "locked").chmod(0)
    assert files.open(tmp_path / "locked") is None


# --- remembering ----------------------------------------------------------------------------------


class Counting:
    """A computation that says how often it ran."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, opened: Opened) -> bytes | None:
        self.runs += 1
        return opened.head(99) or None


def test_what_was_learnt_is_remembered_until_the_file_changes(files: Files, tmp_path: Path) -> None:
    file, read = tmp_path / "file", Counting()
    file.write_bytes(b"one")
    assert [files.learn(file, "all", read) for _ in range(3)] == [b"one"] * 3
    assert read.runs == 1
    file.write_bytes(b"other")
    assert files.learn(file, "all", read) == b"other"
    file.unlink()
    assert files.learn(file, "all", read) is None


def test_that_there_is_nothing_to_learn_is_remembered_too(files: Files, tmp_path: Path) -> None:
    file, read = tmp_path / "file", Counting()
    file.write_bytes(b"")
    assert [files.learn(file, "all", read) for _ in range(3)] == [None] * 3
    assert read.runs == 1


def test_what_a_logs_beginning_says_holds_for_good(files: Files, tmp_path: Path) -> None:
    file, read = tmp_path / "log", Counting()
    file.write_bytes(b"")
    assert files.learn(file, "head", read, per="file") is None
    file.write_bytes(b"first")
    assert files.learn(file, "head", read, per="file") == b"first"
    file.write_bytes(b"first and more")
    assert files.learn(file, "head", read, per="file") == b"first"
    assert read.runs == 2


def test_two_questions_about_one_file_do_not_meet(files: Files, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    assert files.learn(tmp_path / "file", "size", lambda opened: opened.size) == 4
    assert files.learn(tmp_path / "file", "head", lambda opened: opened.head(1)) == b"t"


def test_memory_of_many_files_is_bounded(files: Files, tmp_path: Path) -> None:
    read = Counting()
    for number in range(600):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
        files.learn(tmp_path / str(number), "all", read)
    files.learn(tmp_path / "599", "all", read)
    assert read.runs == 600
    files.learn(tmp_path / "0", "all", read)
    assert read.runs == 601


# --- recordings -----------------------------------------------------------------------------------


def test_a_recordings_files_are_found_by_name_below_its_folder(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "a.jsonl").write_bytes(b"text")
    files = Files(tmp_path)
    found = files.resolve("/elsewhere/a.jsonl", suffix=".jsonl", name_ok=any_name)
    assert found == tmp_path / "deep" / "er" / "a.jsonl"
    assert files.resolve("C:\\elsewhere\\a.jsonl", suffix=".jsonl", name_ok=any_name) == found
    assert files.resolve("/elsewhere/b.jsonl", suffix=".jsonl", name_ok=any_name) is None
    assert files.learn(found, "all", lambda opened: opened.head(9)) == b"text"


def test_a_recording_never_opens_a_file_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "recording").mkdir()
    (tmp_path / "settings.json").write_bytes(b"mine")
    files = Files(tmp_path / "recording")
    assert files.open(tmp_path / "settings.json") is None
    assert files.learn(tmp_path / "settings.json", "all", lambda opened: opened.head(9)) is None


def test_what_is_in_a_folder_is_listed_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "c").mkdir(parents=True)
    for name in ("b", "a"):
        (folder / name).touch()
    assert Files().names(folder) == ["a", "b", "c"]
    assert Files().names(folder / "a") == Files().names(folder / "nothing") == []
    assert Files().names("\0") == []


def test_of_a_recording_all_names_are_in_any_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").touch()
    assert Files(tmp_path).names("/elsewhere") == ["file"]


def test_whether_something_is_there_is_no_matter_of_its_kind(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    assert Files().is_there(tmp_path / "link")
    assert not Files().is_there(tmp_path / "nothing")
    assert not Files().is_there("\0")
