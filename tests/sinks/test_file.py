"""The file sink: whole lines on the disk, in a file that is really a file."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from sessionpipe.delivery.batch import Batch
from sessionpipe.delivery.outcome import Acked, Retry
from sessionpipe.sinks.base import Held, Tail
from sessionpipe.sinks.file import FileSink, expand


def line(id_: str) -> bytes:
    event = {"protocol": 1, "id": id_, "harness": {"name": "pi"}, "session": {"id": "s", "seq": 0}}
    return json.dumps(event).encode()


def batch(*ids: str) -> Batch:
    return Batch("msg", tuple(line(id_) for id_ in ids), ids)


def text(*ids: str) -> bytes:
    return b"".join(line(id_) + b"\n" for id_ in ids)


def ids(tail: Tail) -> tuple[str, ...]:
    return tuple(event.id for event in tail.events)


def deliver(path: Path, *ids: str) -> None:
    sink = FileSink(str(path))
    assert sink.send(batch(*ids)) == Acked()
    sink.close()


def test_one_event_a_line_appended(tmp_path: Path) -> None:
    deliver(tmp_path / "log", "a", "b")
    deliver(tmp_path / "log", "c")
    assert (tmp_path / "log").read_bytes() == text("a", "b", "c")


def test_a_new_file_and_its_folder_are_the_owners_alone(tmp_path: Path) -> None:
    deliver(tmp_path / "new" / "log", "a")
    assert stat.S_IMODE((tmp_path / "new" / "log").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_a_file_that_is_there_keeps_the_mode_its_owner_gave_it(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.touch(0o640)
    file.chmod(0o640)
    deliver(file, "a")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_the_home_directory_is_the_one_of_the_environment(tmp_path: Path) -> None:
    assert expand("~/x/../log", {"HOME": str(tmp_path)}) == tmp_path / "log"
    assert expand("/a/log", {}) == Path("/a/log")


# --- opening ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "torn", [b"{", b'{"protocol":1,"id":"c', line("c")[:-1], b"\0\0\0\0", line("c")[:9] + b"\0\0"]
)
def test_a_half_written_last_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    file = tmp_path / "log"
    file.write_bytes(text("a", "b") + torn)
    sink = FileSink(str(file))
    tail = sink.tail()
    assert (ids(tail), tail.torn) == (("a", "b"), True)
    assert not sink.tail().torn
    sink.send(batch("c"))
    sink.close()
    assert file.read_bytes() == text("a", "b", "c")


def test_a_file_of_nothing_but_a_torn_line_is_empty_again(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b'{"protocol":1')
    sink = FileSink(str(file))
    assert (ids(sink.tail()), file.read_bytes()) == ((), b"")
    sink.close()


def test_an_event_that_lacks_only_its_line_end_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(text("a", "b")[:-1])
    sink = FileSink(str(file))
    tail = sink.tail()
    sink.close()
    assert (ids(tail), tail.torn, file.read_bytes()) == (("a", "b"), False, text("a", "b"))


@pytest.mark.parametrize("foreign", [b"a note of mine", b'{"not": "ours"}', b"[1, 2", b"x" * (5 << 20)])
def test_what_is_not_ours_is_never_cut(tmp_path: Path, foreign: bytes) -> None:
    file = tmp_path / "log"
    file.write_bytes(foreign)
    deliver(file, "a")
    assert file.read_bytes() == foreign + b"\n" + text("a")


def test_the_tail_of_a_long_file_is_its_last_batches(tmp_path: Path) -> None:
    file = tmp_path / "log"
    names = [f"{number:0250}" for number in range(20_000)]
    file.write_bytes(text(*names))
    sink = FileSink(str(file))
    tail = sink.tail()
    sink.close()
    assert 1_000 < len(tail.events) < len(names) and list(ids(tail)) == names[-len(tail.events) :]


def test_lines_of_somebody_else_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"# mine\n" + text("a") + b"[]\n\n{}\n")
    sink = FileSink(str(file))
    assert sink.tail().events == (Held("a", "pi", "s", 0),)
    sink.close()


# --- what is not a file -----------------------------------------------------------------------------


def refused(path: Path) -> str:
    sink = FileSink(str(path))
    found = sink.send(batch("a"))
    sink.close()
    assert isinstance(found, Retry)
    return found.error


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"")
    (tmp_path / "log").symlink_to(tmp_path / "real")
    assert "symbolic link" in refused(tmp_path / "log")
    (tmp_path / "log").unlink()
    (tmp_path / "log").symlink_to(tmp_path / "nothing")
    assert "symbolic link" in refused(tmp_path / "log")
    assert (tmp_path / "real").read_bytes() == b"" and not (tmp_path / "nothing").exists()


def test_a_fifo_a_folder_and_a_file_in_the_way_are_said_to_be_so(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert "not a regular file" in refused(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    assert "Is a directory" in refused(tmp_path / "folder")
    (tmp_path / "file").write_bytes(b"")
    assert "Not a directory" in refused(tmp_path / "file" / "log") or "File exists" in refused(
        tmp_path / "file" / "log"
    )


def test_a_sink_goes_on_once_what_stood_in_its_way_is_gone(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    sink = FileSink(str(tmp_path / "log"))
    assert isinstance(sink.send(batch("a")), Retry)
    (tmp_path / "log").rmdir()
    assert sink.send(batch("a")) == Acked()
    sink.close()


def test_a_rotated_file_is_left_and_a_new_one_begun(tmp_path: Path) -> None:
    sink = FileSink(str(tmp_path / "log"))
    sink.send(batch("a"))
    (tmp_path / "log").rename(tmp_path / "log.1")
    sink.send(batch("b"))
    sink.close()
    assert (tmp_path / "log.1").read_bytes() == text("a")
    assert (tmp_path / "log").read_bytes() == text("b")


def test_a_disk_that_fills_up_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "log"
    sink = FileSink(str(file))
    sink.send(batch("a"))
    really = os.write

    def half(fd: int, data: bytes) -> int:
        if len(data) > 10:
            return really(fd, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        found = sink.send(batch("b"))
    assert isinstance(found, Retry) and "No space left" in found.error
    assert file.read_bytes() == text("a")
    assert sink.send(batch("b")) == Acked()
    sink.close()
    assert file.read_bytes() == text("a", "b")
