"""stream.front: nobody in a pipe notices that somebody reads along."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.machine import wait_for
from tests.patience import PATIENCE_S

PROGRAM = Path(__file__).with_name("along.py")
ODD = b'\xff\xfe{"a":"\xe2\x80\xa8"}\r\n\0\0\n\n' + bytes(range(256)) * 3000 + b"no end"
MUCH = 64 << 20


class Along:
    """The program, and what its reader noted."""

    def __init__(self, folder: Path) -> None:
        self.notes = folder / "notes"

    def argv(self, *command: str, reader: str = "note", tee: bool = True, queue: int = MUCH) -> list[str]:
        words = [str(self.notes), reader, "tee" if tee else "no", str(queue), *command]
        return [sys.executable, str(PROGRAM), *words]

    def run(self, *command: str, data: bytes | None = None, **how: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.argv(*command, **how), input=data, capture_output=True, timeout=60, check=False
        )

    def start(self, *command: str, **how: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv(*command, **how),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Or a terminal the tests are run from would take SIGINT for its own.
            start_new_session=True,
        )

    def frames(self) -> list[list[Any]]:
        """The frames that were no chunks, once the end was noted, and then how many bytes there were."""
        noted = wait_for(lambda: self.notes.exists() and self.notes.read_text(), "the reader's notes")
        wait_for(lambda: '"read"' in self.notes.read_text(), "the end of the reader's notes")
        noted = self.notes.read_text()
        return [json.loads(line) for line in noted.split("\n") if line]


@pytest.fixture
def along(tmp_path: Path) -> Along:
    return Along(tmp_path)


def test_every_byte_goes_on_as_it_came_and_is_read_along(along: Along) -> None:
    done = along.run(data=ODD)
    assert (done.returncode, done.stdout, done.stderr) == (0, ODD, b"that was all\n")
    assert along.frames() == [["End", False, None], ["read", len(ODD)]]


def test_without_a_tee_nothing_is_printed(along: Along) -> None:
    assert along.run(data=ODD, tee=False).stdout == b""
    assert along.frames()[-1] == ["read", len(ODD)]


def test_nothing_at_all_is_a_stream_too(along: Along) -> None:
    assert along.run(data=b"").returncode == 0
    assert along.frames() == [["End", False, None], ["read", 0]]


# --- a reader that fails, or is late --------------------------------------------------------------


def test_a_reader_that_dies_stops_nothing(along: Along) -> None:
    data = ODD * 4
    done = along.run(data=data, reader="die")
    assert (done.returncode, done.stdout) == (0, data)
    assert b"the recording failed" in done.stderr


def test_a_reader_that_takes_nothing_holds_nothing_up_and_is_told_what_is_missing(along: Along) -> None:
    data = bytes(6 << 20)
    with along.start(reader="stuck", queue=2 << 20) as process:
        assert process.stdin and process.stdout and process.stderr
        pid = os.fork()
        if pid == 0:
            process.stdin.write(data)
            process.stdin.flush()
            os._exit(0)
        got = b""
        while len(got) < len(data):
            got += process.stdout.read1(1 << 20)
        os.waitpid(pid, 0)
        # All of it was copied while the reader had not read a byte.
        Path(f"{along.notes}.go").touch()
        process.stdin.write(b"more")
        process.stdin.close()
        process.wait(PATIENCE_S)
        said = process.stderr.read()
    frames = along.frames()
    (lost,) = [frame[1] for frame in frames if frame[0] == "Gap"]
    assert lost > 1 << 20
    assert frames[-1] == ["read", len(data) + 4 - lost]
    assert f"{lost} bytes of the stream were not recorded".encode() in said


def test_a_reader_at_work_is_waited_for_by_a_stream_that_is_faster_than_any_agent(along: Along) -> None:
    data = bytes(8 << 20)
    assert along.run(data=data, queue=1 << 20).stdout == data
    assert along.frames() == [["End", False, None], ["read", len(data)]]


def test_a_reader_at_work_is_waited_for_at_the_end_however_much_is_left(along: Along) -> None:
    data = bytes(4 << 20)
    assert along.run(data=data, reader="slow").stderr == b"that was all\n"
    assert along.frames() == [["End", False, None], ["read", len(data)]]


# --- standard output that nobody reads any more -----------------------------------------------------


def test_a_closed_output_ends_it_as_it_ends_any_filter(along: Along) -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as yes:
        assert yes.stdout
        with subprocess.Popen(along.argv(), stdin=yes.stdout, stdout=subprocess.PIPE) as process:
            yes.stdout.close()
            assert process.stdout
            process.stdout.read(10)
            process.stdout.close()
            assert process.wait(PATIENCE_S) == -signal.SIGPIPE
        assert yes.wait(PATIENCE_S) == -signal.SIGPIPE
    assert along.frames()[0] == ["End", True, None]


def test_a_closed_output_closes_the_commands(along: Along) -> None:
    with along.start("yes") as process:
        assert process.stdout
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE
    assert along.frames()[0] == ["End", True, 128 + signal.SIGPIPE]


def test_a_reader_that_prints_is_a_filter_too(along: Along) -> None:
    assert along.run(data=ODD, reader="prints", tee=False).stdout == ODD
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as yes:
        assert yes.stdout
        argv = along.argv(reader="prints", tee=False)
        with subprocess.Popen(argv, stdin=yes.stdout, stdout=subprocess.PIPE) as process:
            yes.stdout.close()
            assert process.stdout
            process.stdout.read(10)
            process.stdout.close()
            assert process.wait(PATIENCE_S) == -signal.SIGPIPE
        assert yes.wait(PATIENCE_S) == -signal.SIGPIPE


def test_an_output_without_room_is_said_and_the_stream_is_read_to_its_end(along: Along) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(along.argv(), input=ODD, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1
    assert b"could not be copied: No space left on device" in done.stderr
    assert along.frames()[-1] == ["read", len(ODD)]


def test_standard_descriptors_that_are_closed_are_no_trouble(along: Along) -> None:
    line = 'exec "$@" <&- >&- 2>&-'
    done = subprocess.run(["/bin/sh", "-c", line, "sh", *along.argv()], timeout=60, check=False)
    assert done.returncode == 0
    assert along.frames()[-1] == ["read", 0]


# --- a command --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["sh", "-c", "echo out; exit 7"], 7),
        (["sh", "-c", "echo out; kill -KILL $$"], 128 + signal.SIGKILL),
        (["sh", "-c", "echo out; kill -TERM $$"], 128 + signal.SIGTERM),
    ],
)
def test_a_commands_exit_status_is_ours(along: Along, command: list[str], status: int) -> None:
    done = along.run(*command)
    assert (done.returncode, done.stdout) == (status, b"out\n")
    assert along.frames()[0] == ["End", status > 128, status]


def test_a_command_that_is_not_there_or_none(along: Along, tmp_path: Path) -> None:
    assert along.run("no-such-command-here").returncode == 127
    plain = tmp_path / "plain"
    plain.write_text("text")
    assert along.run(str(plain)).returncode == 126
    assert along.frames() == [["End", False, 126], ["read", 0]]


def test_a_command_has_what_it_would_have_had(along: Along) -> None:
    """Our standard input and error, our umask, SIGPIPE's default, its words as they are, and what is added."""
    script = 'cat; echo "$ADDED $2"; umask; echo err >&2; kill -s PIPE $$'
    shell = 'umask 027; exec "$@"'
    argv = ["/bin/sh", "-c", shell, "sh", *along.argv("sh", "-c", script, "sh", "a", "$HOME; b")]
    done = subprocess.run(argv, input=b"in\n", capture_output=True, timeout=60, check=False)
    assert done.stdout == b"in\nyes $HOME; b\n0027\n"
    assert done.stderr == b"err\nthat was all\n"
    assert done.returncode == 128 + signal.SIGPIPE


def test_what_a_command_leaves_behind_with_its_output_open_is_not_waited_for(along: Along) -> None:
    done = along.run("sh", "-c", "sleep 60 2>/dev/null & echo $!")
    os.kill(int(done.stdout), signal.SIGKILL)
    assert done.returncode == 0


# --- signals ----------------------------------------------------------------------------------------

# Says which it got, and ends when it has had what it waits for.
TRAPS = 'for s in TERM HUP INT QUIT USR1 USR2 WINCH; do trap "echo $s" $s; done; echo ready; '
WAITS = "i=0; while [ $i -lt $1 ]; do sleep 0.05 & wait $!; i=$((i+1)); done; exit 3"


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT", "QUIT", "USR1", "USR2", "WINCH"])
def test_a_signal_to_us_reaches_the_command_once(along: Along, name: str) -> None:
    with along.start("sh", "-c", f"{TRAPS}{WAITS}", "sh", "10") as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.stdout.read() == f"{name}\n".encode()
        assert process.wait(PATIENCE_S) == 3


@pytest.mark.parametrize("reader", ["patient", "late"])
def test_a_signal_to_the_whole_group_reaches_the_command_once_and_never_the_reader(
    along: Along, reader: str
) -> None:
    argv = along.argv(
        "sh", "-c", f"trap 'echo TERM; exit 3' TERM; echo ready; {WAITS}", "sh", "200", reader=reader
    )
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        os.killpg(process.pid, signal.SIGTERM)
        assert process.stdout.read() == b"TERM\n"
        # Only now the late one leaves the group.
        along.notes.with_name("notes.go").touch()
        assert process.wait(PATIENCE_S) == 3
    assert [frame[0] for frame in along.frames()] == ["Signal", "End", "read"]


def test_a_key_at_the_terminal_reaches_the_command_once(along: Along) -> None:
    ours, theirs = pty.openpty()
    argv = along.argv("sh", "-c", f"trap 'echo got-it' INT; echo ready; {WAITS}", "sh", "10")
    with subprocess.Popen(
        argv,
        stdin=theirs,
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        os.close(theirs)
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        os.write(ours, b"\x03")
        assert process.stdout.read() == b"got-it\n"
        assert process.wait(PATIENCE_S) == 3
    os.close(ours)


def test_a_command_ended_by_a_signal_ends_us_with_its_status(along: Along) -> None:
    with along.start("sh", "-c", "echo ready; exec sleep 60") as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert along.frames()[-2][:2] == ["End", True]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_reading_from_standard_input_with_what_had_come(along: Along, number: int) -> None:
    with along.start() as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"half a line")
        process.stdin.flush()
        assert process.stdout.read(11) == b"half a line"
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == -number
    assert along.frames() == [["Signal", number], ["End", True, None], ["read", 11]]


def test_a_signal_that_was_ignored_stays_so(along: Along) -> None:
    argv = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *along.argv()]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"a")
        process.stdin.flush()
        process.stdout.read(1)
        process.send_signal(signal.SIGHUP)
        process.stdin.write(b"b")
        process.stdin.close()
        assert process.stdout.read() == b"b"
        assert process.wait(PATIENCE_S) == 0


def test_a_killed_front_leaves_the_end_to_the_reader(along: Along) -> None:
    with along.start() as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"half")
        process.stdin.flush()
        wait_for(Path(f"{along.notes}.seen").exists, "the reader to have seen it")
        process.kill()
        process.wait(PATIENCE_S)
    assert along.frames() == [["End", True, None], ["read", 4]]
