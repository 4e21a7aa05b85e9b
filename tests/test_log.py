"""The log: redacted, one line an entry, bounded."""

from __future__ import annotations

import os
from pathlib import Path

from sessionpipe.log import drop, last_error, log, older
from sessionpipe.paths import State


def test_a_line_cannot_be_forged_and_holds_no_secret(tmp_path: Path) -> None:
    state = State(tmp_path)
    token = "ghp_" + "a1B2c3D4e5" * 4
    log(state, "warning", f"first\n2026 error forged \x1b[2J {token[:40]}")
    (line,) = state.log.read_text().splitlines()
    assert " warning first 2026 error forged" in line
    assert "\x1b" not in line
    assert token[:40] not in line


def test_it_is_private_and_bounded(tmp_path: Path) -> None:
    state = State(tmp_path)
    for _ in range(600):
        log(state, "info", "x y " * 1000)
    assert state.log.stat().st_mode & 0o777 == 0o600
    assert sum(path.stat().st_size for path in state.log.parent.iterdir()) < 3 << 20


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("in the way")
    log(State(tmp_path), "error", "lost")


def test_a_link_planted_in_its_place_is_not_followed(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.log.parent.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    state.log.symlink_to(victim)
    log(state, "info", "hello")
    assert victim.read_text() == "precious"


def test_a_fifo_in_its_place_is_not_waited_at(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.log.parent.mkdir()
    os.mkfifo(state.log)
    reading = os.open(state.log, os.O_RDONLY | os.O_NONBLOCK)
    log(state, "error", "x")
    assert os.read(reading, 10) == b""
    os.close(reading)
    log(state, "error", "nobody reads")


def test_a_long_message_is_redacted_before_it_is_cut(tmp_path: Path) -> None:
    state = State(tmp_path)
    token = "ghp_" + "a1B2c3D4e5" * 4
    # The cut falls inside the token: cut first, and no rule would know the half that is left.
    for before in range(3960, 4000, 7):
        log(state, "error", "x " * (before // 2) + token[:40])
    assert token[:8] not in state.log.read_text()


def test_a_state_directory_that_was_removed_is_not_made_again(tmp_path: Path) -> None:
    log(State(tmp_path / "gone"), "error", "a last word")
    assert not (tmp_path / "gone").exists()


def test_the_newest_error_is_told_with_its_time(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert last_error(state) is None
    for level, message in (("error", "the first"), ("error", "the second"), ("warning", "error of no kind")):
        log(state, level, message)
    assert (last_error(state) or "").startswith("the second (")


def test_lines_that_name_something_are_taken_out_of_both_files(tmp_path: Path) -> None:
    state = State(tmp_path)
    log(state, "info", "session 3f0c is late")
    state.log.rename(older(state))
    for message in ("session 3f0c2f is another's", "session 3f0c: late", "nothing"):
        log(state, "info", message)
    drop(state, "3f0c")
    assert older(state).read_text() == ""
    assert [line.split(" ", 2)[2] for line in state.log.read_text().splitlines()] == [
        "session 3f0c2f is another's",
        "nothing",
    ]
    assert state.log.stat().st_mode & 0o077 == 0


def test_where_there_is_no_log_nothing_is_taken_out(tmp_path: Path) -> None:
    drop(State(tmp_path / "state"), "3f0c")
    assert not (tmp_path / "state").exists()
