"""``journal record`` as a person runs it: a stream in, a bundle out, and whoever is recorded none the wiser."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sessionpipe.journal import verify
from tests.e2e.machine import SESSIONPIPE, Machine, wait_for
from tests.journal.recordings import RECORDINGS, capture, events, lines
from tests.patience import PATIENCE_S

STREAM = RECORDINGS / "c-tools" / "stdout.ndjson"
SESSION = RECORDINGS / "c-tools" / "session.jsonl"
HEADER = '{"type":"session","version":3,"id":"s-1","timestamp":"2026-11-29T17:52:21.453Z","cwd":"/src"}\n'
FIRST = HEADER + '{"type":"turn_start"}\n'
LAST = '{"type":"turn_end","message":{"role":"assistant"},"toolResults":[]}\n'


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


def command(out: Path, *options: object) -> list[str]:
    return [*SESSIONPIPE, "journal", "record", "--out", str(out), *map(str, options)]


def run(
    machine: Machine, out: Path, *options: object, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(out, *options),
        env=machine.environment(),
        input=stdin,
        capture_output=True,
        timeout=60,
        cwd=machine.home,
    )


def python(*script: str) -> list[str]:
    """A command that is a script."""
    return ["--", sys.executable, "-c", textwrap.dedent("\n".join(script))]


def test_a_stream_on_standard_input(machine: Machine, out: Path) -> None:
    done = run(machine, out, "--session-file", SESSION, stdin=STREAM.read_bytes())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert verify(out).status == "complete"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (out, out / "session" / "events.ndjson")] == [
        0o700,
        0o600,
    ]


def test_tee_passes_it_on_to_the_byte(machine: Machine, out: Path) -> None:
    odd = STREAM.read_bytes() + b"no json \xff\xfe\n\ntorn"
    done = run(machine, out, "--tee", "--session-file", SESSION, stdin=odd)
    assert done.stdout == odd
    assert len(events(out)) > 50


def test_a_command_s_stream(machine: Machine, out: Path) -> None:
    script = python("import sys", f"sys.stdout.write(open({str(STREAM)!r}).read())", "sys.exit(3)")
    done = run(machine, out, "--tee", "--session-file", SESSION, *script)
    assert (done.returncode, done.stdout, done.stderr) == (3, STREAM.read_bytes(), b"")
    assert verify(out).status == "complete"
    assert lines(out / "manifest.json")[0]["status"] == "failed"


def test_names_are_those_that_were_given(machine: Machine, out: Path) -> None:
    run(machine, out, "--node", "review", "--attempt", "a7", "--name", "Nightly", stdin=STREAM.read_bytes())
    assert {(event["nodeId"], event["attemptId"]) for event in events(out)} == {("review", "a7")}
    assert lines(out / "manifest.json")[0]["workflowName"] == "Nightly"


def test_a_stream_that_is_cut_off_is_said_to_be(machine: Machine, out: Path) -> None:
    done = run(machine, out, stdin=FIRST.encode())
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"sessionpipe: the journal in {out} is not complete: the source ended while Pi was at work\n"
    )
    assert verify(out).status == "failed"


def test_but_a_command_has_its_own_exit_status(machine: Machine, out: Path) -> None:
    done = run(machine, out, *python(f"print({FIRST!r})"))
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"not complete" in done.stderr


def test_what_is_no_stream_of_pi_s(machine: Machine, out: Path) -> None:
    done = run(machine, out, stdin=b"hello\n")
    assert (done.returncode, capture(out)["failure"]["code"]) == (1, "not_bound")


def test_a_folder_with_something_in_it_is_refused_before_anything_runs(machine: Machine, out: Path) -> None:
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    mark = machine.root / "ran"
    done = run(machine, out, *python(f"open({str(mark)!r}, 'w')"))
    assert (done.returncode, done.stderr.decode()) == (
        1,
        f"sessionpipe: {out} holds something already; name a folder that isn't there yet\n",
    )
    assert not mark.exists()


def test_one_that_can_t_be_made_is_refused(machine: Machine, out: Path) -> None:
    out.write_text("a file")
    done = run(machine, out / "run", stdin=b"")
    assert done.returncode == 1
    assert b"can't be made" in done.stderr and done.stderr.count(b"\n") == 1


def test_a_command_that_isn_t_there_leaves_the_folder_to_be_used(machine: Machine, out: Path) -> None:
    for options in ((), ("--extension",)):
        done = run(machine, out, *options, "--", "no-such-program", "--mode", "json")
        assert done.returncode == 127
        assert done.stderr.decode() == "sessionpipe: no-such-program cannot be run: command not found\n"
        assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        ["--extension"],
        ["--extension", "--tee", "--", "pi"],
        ["--extension", "--session-file", "x", "--", "pi"],
        ["--node", "../x"],
        ["--attempt", ""],
    ],
)
def test_what_makes_no_sense_is_refused(machine: Machine, out: Path, options: list[str]) -> None:
    assert run(machine, out, *options).returncode == 2
    assert not out.exists()


def test_a_full_disk_is_not_the_command_s_trouble(machine: Machine, out: Path) -> None:
    # The limit is for one file, so the journal meets it and the stream does not.
    limited = ["sh", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$@"', "sh"]
    done = subprocess.run(
        [*limited, *command(out, "--tee", "--", "cat", STREAM)],
        env=machine.environment(),
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, STREAM.read_bytes())
    assert b"not complete: could not append a batch of session events" in done.stderr
    assert verify(out).status == "failed"


def test_the_command_has_the_person_s_umask(machine: Machine, out: Path) -> None:
    made = machine.root / "made"
    subprocess.run(
        ["sh", "-c", 'umask 022; exec "$@"', "sh", *command(out, *python(f"open({str(made)!r}, 'w')"))],
        env=machine.environment(),
        capture_output=True,
        timeout=60,
    )
    assert stat.S_IMODE(made.stat().st_mode) == 0o644
    assert stat.S_IMODE(out.stat().st_mode) == 0o700


def started(process: subprocess.Popen[bytes], out: Path) -> None:
    wait_for(lambda: (out / "session" / "capture.json").exists(), "the capture")


def test_asked_to_stop_it_waits_for_the_turn_that_goes_on(machine: Machine, out: Path) -> None:
    with subprocess.Popen(command(out), env=machine.environment(), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(FIRST.encode())
        process.stdin.flush()
        started(process, out)
        process.send_signal(signal.SIGTERM)
        process.stdin.write(LAST.encode())
        process.stdin.flush()
        assert process.wait(PATIENCE_S) == -signal.SIGTERM
    assert capture(out)["status"] == "complete"


def test_asked_twice_it_doesn_t(machine: Machine, out: Path) -> None:
    with subprocess.Popen(
        command(out), env=machine.environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(FIRST.encode())
        process.stdin.flush()
        started(process, out)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) in (-signal.SIGTERM, -signal.SIGINT)
    assert capture(out)["failure"]["code"] == "turn_unfinished"


def test_asked_while_nothing_goes_on_it_leaves(machine: Machine, out: Path) -> None:
    with subprocess.Popen(command(out), env=machine.environment(), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write((FIRST + LAST).encode())
        process.stdin.flush()
        wait_for(lambda: (out / "session" / "events.ndjson").exists() and len(events(out)) == 2, "the events")
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    assert capture(out)["status"] == "complete"


def test_a_signal_reaches_the_command_and_its_end_is_recorded(machine: Machine, out: Path) -> None:
    script = python(
        "import signal, sys, time",
        f"signal.signal(signal.SIGTERM, lambda *_: (sys.stdout.write({LAST!r}), sys.stdout.flush(), sys.exit(143)))",
        f"sys.stdout.write({FIRST!r})",
        "sys.stdout.flush()",
        "time.sleep(60)",
    )
    with subprocess.Popen(command(out, *script), env=machine.environment()) as process:
        started(process, out)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 143
    assert (capture(out)["status"], len(events(out))) == ("complete", 2)
    assert lines(out / "manifest.json")[0]["status"] == "failed"


def test_killed_it_leaves_a_journal_of_what_came(machine: Machine, out: Path) -> None:
    with subprocess.Popen(command(out), env=machine.environment(), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(FIRST.encode())
        process.stdin.flush()
        started(process, out)
        process.kill()
        process.wait()
    # What reads along outlives the one that copies, and says how the stream ended.
    wait_for(lambda: capture(out)["status"] == "failed", "the end")
    assert verify(out).status == "failed"


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in found.stdout.split()]


@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps to find the recording process with")
def test_where_the_recording_process_was_killed_the_journal_is_not_relied_on(
    machine: Machine, out: Path
) -> None:
    with subprocess.Popen(
        command(out, "--tee"),
        env=machine.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(FIRST.encode())
        process.stdin.flush()
        started(process, out)
        (recording,) = children(process.pid)
        os.kill(recording, signal.SIGKILL)
        process.stdin.write(LAST.encode())
        process.stdin.close()
        # The stream goes on.
        assert process.stdout.read().decode() == FIRST + LAST
        assert process.wait(PATIENCE_S) == 1
        assert b"the recording failed" in process.stderr.read()
    assert capture(out)["status"] == "recording"
    assert verify(out).status == "unverified"


PI = """\
#!/usr/bin/env python3
# Stands in for Pi: says through the extension's pipe what the extension would.
import json, os, sys
pipe = open(os.environ["SESSIONPIPE_JOURNAL"], "w")
def tell(**line):
    pipe.write(json.dumps(line) + "\\n")
    pipe.flush()
tell(type="session_start", t=1, sessionId="s-1", cwd="/src")
tell(type="turn_start", t=1795974741250, turnIndex=0)
print("words:", *sys.argv[1:])
print("asked:", sys.stdin.read())
tell(type="turn_end", t=1795974741500, turnIndex=0, toolResults=[])
sys.exit(4)
"""


def test_with_the_extension_pi_keeps_its_input_and_its_output(machine: Machine, out: Path) -> None:
    pi = machine.root / "pi"
    pi.write_text(PI)
    done = run(machine, out, "--extension", "--", sys.executable, pi, "-p", "Hi", stdin=b"more")
    words, asked = done.stdout.decode().splitlines()
    assert words.startswith("words: -p Hi --extension ") and words.endswith("journal.js")
    assert (done.returncode, asked, done.stderr) == (4, "asked: more", b"")
    assert [event["at"] for event in events(out)] == ["2026-11-29T17:52:21.250Z", "2026-11-29T17:52:21.500Z"]
    assert verify(out).status == "complete"


def test_a_program_that_is_not_pi_is_recorded_as_nothing(machine: Machine, out: Path) -> None:
    done = run(machine, out, "--extension", "--", "sh", "-c", "exit 5")
    assert (done.returncode, capture(out)["failure"]["code"]) == (5, "not_bound")
    assert done.stderr.decode() == f"sessionpipe: the journal in {out} is not complete: no Pi session came\n"


def test_no_pipe_is_left_behind(machine: Machine, out: Path, tmp_path: Path) -> None:
    places = tmp_path / "places"
    places.mkdir()
    subprocess.run(
        command(out, "--extension", "--", "true"),
        env={**machine.environment(), "TMPDIR": str(places)},
        capture_output=True,
        timeout=60,
    )
    assert list(places.iterdir()) == []
