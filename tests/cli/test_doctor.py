"""What doctor finds, on real files and with the real hook."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessionpipe.cli import doctor
from sessionpipe.clock import now_ms
from sessionpipe.install import launcher, native
from sessionpipe.liveness import Lock
from sessionpipe.outboxfile import those_set_aside
from sessionpipe.paths import State, config_dir, make_private, state_dir
from sessionpipe.places import identity
from sessionpipe.salvage import set_aside
from tests.sinkrow import put


@pytest.fixture
def place() -> State:
    state = State(state_dir())
    make_private(state.root)
    return state


def look(run: Any, *options: str) -> dict[str, list[dict[str, Any]]]:
    """The findings by check; the exit status says whether one fails."""
    done = run("doctor", "--json", *options)
    told = json.loads(done.stdout)
    failed = any(finding["level"] == "fail" for finding in told["findings"])
    assert (done.exit_code, told["ok"]) == (int(failed), not failed)
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in told["findings"]:
        found.setdefault(finding["check"], []).append(finding)
    return found


def test_nothing_yet_is_no_failure(run: Any) -> None:
    found = look(run)
    assert found["hook"][0]["mend"] == "sessionpipe install"
    assert found["state"][0]["level"] == "ok"
    assert not state_dir().exists()


def test_every_check_is_made(run: Any, place: State) -> None:
    assert set(look(run)) == {"state", "settings", "outbox", "worker", "jobs", "hook", "hooks", "sinks"}


def test_a_folder_others_can_read_fails_and_says_how_to_mend_it(run: Any, place: State) -> None:
    place.spool.mkdir()
    place.spool.chmod(0o755)
    (finding,) = [one for one in look(run)["state"] if one["level"] == "fail"]
    assert str(place.spool) in finding["message"]
    assert finding["mend"] == f"chmod -R go-rwx {place.root}"


def test_what_was_put_aside_is_told(run: Any, place: State) -> None:
    place.lock.symlink_to("/etc/passwd")
    Lock(place).acquire()
    (aside,) = place.root.glob("worker.lock.aside-*")
    told = [one["message"] for one in look(run)["state"] if one["level"] == "warn"]
    assert any(one.endswith(f"and was renamed to {aside}") and one.startswith("a link") for one in told)


def test_a_damaged_outbox_that_is_kept_is_told_with_how_to_be_rid_of_it(run: Any, recorder: Any) -> None:
    path = recorder.state.outbox
    for _ in range(3):
        recorder.add("one", "turn.started")
    recorder.outbox.add_sink("board", 1)
    recorder.outbox.close()
    set_aside(path, "a page is noise", now_ms(), file=identity(path))
    (aside,) = those_set_aside(path)
    kept, carried, whole = look(run)["outbox"]
    assert kept["level"] == "warn" and str(aside) in kept["message"]
    assert kept["mend"] == f"once you do not want it any more: rm {aside}"
    assert "(a page is noise): 3 events of 1 session" in carried["message"]
    assert whole["message"] == "whole: 3 events of 1 session"


@pytest.mark.parametrize("page", [1, 5])
def test_a_damaged_outbox_fails_and_says_what_mends_it(run: Any, recorder: Any, page: int) -> None:
    recorder.add("one", "turn.started")
    recorder.outbox.close()
    content = bytearray(recorder.state.outbox.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = os.urandom(4096)
    recorder.state.outbox.write_bytes(content)
    (finding,) = look(run)["outbox"]
    assert (finding["level"], finding["mend"]) == ("fail", "sessionpipe flush")
    assert f"{recorder.state.outbox} is damaged: " in finding["message"]


def test_a_large_outbox_is_looked_through_when_asked_to(
    run: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LOOK_BYTES", 0)
    recorder.add("one", "turn.started")
    (finding,) = look(run)["outbox"]
    assert "never yet" in finding["message"] and "doctor --whole" in finding["message"]
    recorder.outbox.remember("checked_ms", now_ms() - 3 * 3_600_000)
    (finding,) = look(run)["outbox"]
    assert "looked through 3 h ago by the worker" in finding["message"]
    (finding,) = look(run, "--whole")["outbox"]
    assert finding["message"] == "whole: 1 event of 1 session"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_state_directory_that_is_not_writable_fails(run: Any, place: State) -> None:
    place.root.chmod(0o500)
    assert any("not writable" in one["message"] for one in look(run)["state"])
    place.root.chmod(0o700)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_state_directory_of_somebody_else_fails(run: Any, place: State) -> None:
    os.chown(place.root, 12_345, -1)
    assert "belongs to user 12345" in look(run)["state"][0]["message"]


def test_a_config_that_does_not_parse_fails_with_its_line(run: Any, config_file: Path) -> None:
    config_file.write_text("[[sinks]]\nname = \n")
    (finding,) = look(run)["settings"]
    assert finding["level"] == "fail"
    assert f"{config_file} line 2" in finding["message"]


def test_a_config_others_can_read_fails(run: Any, config_file: Path) -> None:
    config_file.write_text("")
    config_file.chmod(0o644)
    assert look(run)["settings"][0]["mend"] == f"chmod go-rwx {config_file}"


def test_jobs_left_lying_fail(run: Any, place: State) -> None:
    make_private(place.spool / "new")
    job = place.spool / "new" / "1.job"
    job.write_bytes(b"")
    os.utime(job, (1, 1))
    (finding,) = look(run)["worker"]
    assert finding["level"] == "fail"
    assert finding["mend"].startswith("sessionpipe flush")


def test_the_newest_jobs_set_aside_are_shown_with_their_reasons(run: Any, place: State) -> None:
    make_private(place.spool / "rejected")
    for number in range(5):
        record = {"harness": "codex", "event": "Stop", "at_ms": number, "reason": f"because {number}\x1b[2J"}
        (place.spool / "rejected" / f"{number}.json").write_bytes(msgspec.json.encode(record))
    (place.spool / "rejected" / "9.json").write_bytes(b"torn")
    jobs = look(run)["jobs"]
    assert jobs[0]["message"].startswith("6 jobs set aside")
    assert "9.json: cannot be read" in jobs[1]["message"]
    assert "codex Stop" in jobs[2]["message"] and "because 4" in jobs[2]["message"]
    assert len(jobs) == 4
    assert "\x1b" not in run("doctor").output


def test_the_installed_hook_is_run_and_leaves_no_trace(run: Any, place: State) -> None:
    launcher.write(place, config_dir(), {})
    (finding,) = look(run)["hook"]
    assert "an agent waits" in finding["message"]
    assert not (place.spool / "new").exists()


def test_a_hook_that_records_nothing_fails(run: Any, place: State) -> None:
    launcher.write(place, config_dir(), {})
    text = place.launcher.read_text()
    place.launcher.write_text(text.replace("hook.py", "gone.py"))
    (finding,) = look(run)["hook"]
    assert (finding["level"], finding["mend"]) == ("fail", "sessionpipe install")
    assert f"0 of {doctor.RUNS} runs left a job" in finding["message"]


@pytest.mark.parametrize("mode", [0o700, 0o600], ids=["mounted noexec", "not executable"])
def test_a_launcher_no_agent_can_run_fails_and_says_what_mends_it(
    run: Any, place: State, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    launcher.write(place, config_dir(), {})
    place.launcher.chmod(mode)
    able = os.access
    monkeypatch.setattr(os, "access", lambda path, how: path != place.launcher and able(path, how))
    (finding,) = look(run)["hook"]
    assert finding["level"] == "fail"
    assert ("mount it without noexec" in finding["mend"]) == (mode == 0o700)


@pytest.mark.parametrize(
    ("ends", "said"), [('exec {real} "$@"', "compiled for this machine"), ("exit 1", "does not run here")]
)
def test_of_a_compiled_hook_it_is_told_whether_that_runs(
    run: Any, place: State, monkeypatch: pytest.MonkeyPatch, ends: str, said: str
) -> None:
    monkeypatch.setattr(native, "machine", lambda: "0" * 32)
    launcher.write(place, config_dir(), {})
    # In its place something that hands on to hook.py, as far as that goes.
    real = shlex.join([sys.executable, "-I", "-S"])
    program = native.program(place)
    program.write_text(f"#!/bin/sh\nshift\n{ends.format(real=real)}\n")
    program.chmod(0o700)
    (finding,) = look(run)["hook"]
    assert finding["message"].endswith(said)


def test_a_launcher_that_is_not_ours_is_not_run(run: Any, place: State) -> None:
    place.bin.mkdir()
    place.launcher.write_text("#!/bin/sh\ntouch /tmp/should-not-happen\n")
    (finding,) = look(run)["hook"]
    assert "is not what `install` writes" in finding["message"]


SINK = """
[[sinks]]
name = "board"
kind = "http"
url = "https://board.example/in"
"""


def sinks(run: Any, config_file: Path, more: str) -> list[tuple[str, str]]:
    config_file.write_text(SINK + more)
    config_file.chmod(0o600)
    return [(one["level"], one["message"]) for one in look(run)["sinks"]]


def test_a_token_that_is_not_in_the_environment_is_told(run: Any, config_file: Path) -> None:
    assert sinks(run, config_file, 'token_env = "BOARD_TOKEN"')[1] == (
        "warn",
        "board: BOARD_TOKEN is not set here; whatever starts your agent must set it",
    )


def test_a_token_file_that_is_not_there_fails(run: Any, config_file: Path) -> None:
    assert sinks(run, config_file, 'token_file = "~/gone"')[1] == ("fail", "board: ~/gone is not there")


def test_a_sink_its_receiver_paused_fails_and_one_the_person_paused_does_not(
    run: Any, recorder: Any, config_file: Path
) -> None:
    put(recorder.outbox, msgspec.structs.replace(recorder.outbox.add_sink("board", 0), paused="HTTP 401"))
    assert sinks(run, config_file, "")[0] == ("fail", "board: up to date; paused: HTTP 401")
    assert sinks(run, config_file, "paused = true")[0] == ("ok", "board: up to date; paused by you")


def test_people_get_a_line_a_finding_and_what_to_do(run: Any, place: State) -> None:
    shown = run("doctor").output
    assert "warn  hook      nothing is installed\n                mend: sessionpipe install\n" in shown
    assert shown.endswith("\n0 to mend, 1 to know about\n")
