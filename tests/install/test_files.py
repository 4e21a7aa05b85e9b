"""Other people's files are written whole, keep what they are, and are left alone when in doubt."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from sessionpipe import faults
from sessionpipe.install import files
from sessionpipe.install.leftalone import LeftAlone

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and links are POSIX ones")


def write(path: Path, data: bytes) -> None:
    files.write(files.read(path), data)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(b"before")
    path.chmod(0o640)
    return path


def test_a_write_keeps_mode_and_owner_and_leaves_nothing_beside(file: Path) -> None:
    if os.getuid() == 0:
        os.chown(file, 12345, 54321)
    owner = file.stat().st_uid, file.stat().st_gid
    write(file, b"after")
    assert file.read_bytes() == b"after"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert (file.stat().st_uid, file.stat().st_gid) == owner
    assert names(file.parent) == ["settings.json"]


def test_a_reader_has_the_old_file_or_the_new_one(file: Path) -> None:
    with file.open("rb") as reader:
        write(file, b"after, and longer than it was")
        assert reader.read() == b"before"


def test_a_symbolic_link_stays_one(file: Path) -> None:
    link = file.parent.parent / "link.json"
    link.symlink_to("folder/settings.json")
    write(link, b"after")
    assert link.readlink() == Path("folder/settings.json")
    assert file.read_bytes() == b"after"


def test_hard_links_stay_together(file: Path) -> None:
    other = file.with_name("other")
    other.hardlink_to(file)
    write(file, b"x")
    assert other.read_bytes() == b"x"
    assert other.samefile(file)


@pytest.mark.parametrize("size", [3, 5000])
def test_a_file_with_links_that_has_no_room_keeps_what_it_held(file: Path, size: int) -> None:
    resource = pytest.importorskip("resource")
    file.with_name("other").hardlink_to(file)
    file.write_bytes(b"before" * size)
    held = file.read_bytes()
    seen, limits = files.read(file), resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(held) + 100, limits[1]))
    try:
        with pytest.raises(LeftAlone, match="it cannot be written"):
            files.write(seen, b"after" * size * 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert file.read_bytes() == held


def test_a_file_with_links_is_whole_if_we_are_killed_before_it_is_cut(file: Path) -> None:
    file.with_name("other").hardlink_to(file)
    file.write_text(json.dumps({"hooks": {"Stop": []}, "model": "opus"}))
    seen = files.read(file)
    faults.arm("install.overwritten=error")
    try:
        with pytest.raises(LeftAlone):
            files.write(seen, b'{"model": "opus"}')
    finally:
        faults.arm("")
    assert json.loads(file.read_text()) == {"model": "opus"}


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="extended attributes are Linux's")
def test_extended_attributes_are_kept(file: Path) -> None:
    try:
        os.setxattr(file, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has none")
    write(file, b"after")
    assert os.getxattr(file, "user.note") == b"kept"


def test_a_file_that_changed_since_it_was_read_is_left_alone(file: Path) -> None:
    seen = files.read(file)
    file.write_bytes(b"by another")
    for change in (lambda: files.write(seen, b"after"), lambda: files.delete(seen)):
        with pytest.raises(LeftAlone, match="it changed"):
            change()
    assert file.read_bytes() == b"by another"


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_file_that_went_since_it_was_read_is_no_read_only_one(file: Path, what: str) -> None:
    seen = files.read(file)
    file.unlink()
    if what == "folder":
        file.parent.rmdir()
    for change in (lambda: files.write(seen, b"after"), lambda: files.delete(seen)):
        with pytest.raises(LeftAlone, match="it changed while we were at it"):
            change()
    assert not file.exists()


def test_what_the_person_made_read_only_is_left_alone_even_by_root(file: Path) -> None:
    file.chmod(0o444)
    with pytest.raises(LeftAlone, match="it is read-only"):
        write(file, b"after")
    file.chmod(0o644)
    file.parent.chmod(0o555)
    try:
        with pytest.raises(LeftAlone, match="its folder is read-only"):
            write(file, b"after")
    finally:
        file.parent.chmod(0o755)
    assert file.read_bytes() == b"before"


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "circle").symlink_to("circle")
    reasons = {
        "fifo": "not a regular file",
        "folder": "a folder|not a regular file",
        "dangling": "a link to a file that does not exist",
        "circle": "cannot be read",
    }
    for name, reason in reasons.items():
        with pytest.raises(LeftAlone, match=reason):
            files.read(tmp_path / name)


def test_a_file_too_large_for_settings_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(files.MAX_BYTES + 1)
    with pytest.raises(LeftAlone, match="larger than 16 MiB"):
        files.read(path)


def test_a_new_file_and_its_folders_are_private_and_can_be_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    folders = files.missing_folders(path)
    assert folders == [tmp_path / "a", tmp_path / "a" / "b"]
    files.create(path, b"new")
    assert [stat.S_IMODE(made.stat().st_mode) for made in (*folders, path)] == [0o700, 0o700, 0o600]
    files.delete(files.read(path))
    files.remove_folders(folders)
    assert names(tmp_path) == ["home"]


def test_a_folder_somebody_uses_stays(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    folders = files.missing_folders(path)
    files.create(path, b"new")
    (tmp_path / "a" / "theirs").touch()
    files.delete(files.read(path))
    files.remove_folders(folders)
    assert names(tmp_path / "a") == ["theirs"]


def test_a_file_that_cannot_be_created_leaves_no_folder_behind(tmp_path: Path) -> None:
    (tmp_path / "blocked").touch()
    with pytest.raises(LeftAlone, match="it cannot be created"):
        files.create(tmp_path / "blocked" / "file", b"new")
    with pytest.raises(LeftAlone, match="it cannot be created"):
        files.create(tmp_path / "new" / ("n" * 300), b"new")
    assert names(tmp_path) == ["blocked", "home"]


def test_what_appeared_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"theirs")
    with pytest.raises(LeftAlone, match="it appeared"):
        files.create(tmp_path / "file", b"ours")
    assert (tmp_path / "file").read_bytes() == b"theirs"
