"""``sessionpipe ingest pi`` as a person runs it: in a pipe, and around a command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sessionpipe.clock import now_ms
from sessionpipe.protocol import rfc3339
from tests import streams
from tests.e2e.machine import SESSIONPIPE, Machine, wait_for
from tests.harnesses.test_pi_runs import HEADER, SESSION, SETTLED, START, delta, said, user
from tests.harnesses.test_pi_stream import line
from tests.patience import PATIENCE_S
from tests.streams import told

ODD = b'\xff\xfe\0{"type":"\xe2\x80\xa8"}\r\n\n\r\nno json\n' + bytes(range(256)) * 40
QUIET = {"SESSIONPIPE_NO_WORKER": "1"}


def live(*more: bytes) -> list[bytes]:
    """A run of a session that begins now."""
    now = now_ms()
    header = json.loads(HEADER) | {"timestamp": rfc3339(now)}
    system = line("message_end", message={"role": "system", "content": "", "timestamp": now})
    return [json.dumps(header).encode(), START, system, user("Go", now), *more]


def joined(lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


RUN_TOLD = [
    "session.started startup",
    "turn.started",
    "turn.ended stop",
    "turn.transcript Go",
    "session.ended exit",
]
CUT_TOLD = [*RUN_TOLD[:2], "turn.ended interrupt", "turn.transcript Go", "session.ended other"]


class Pipe:
    """The command, on a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def argv(self, *words: str) -> list[str]:
        return [*SESSIONPIPE, "ingest", "pi", *words]

    def run(self, *words: str, data: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.argv(*words),
            env=self.machine.environment(**{**QUIET, **env}),
            input=data,
            capture_output=True,
            timeout=120,
            cwd=self.machine.home,
            check=False,
        )

    def start(self, *words: str, **env: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv(*words),
            env=self.machine.environment(**{**QUIET, **env}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.machine.home,
            start_new_session=True,
            bufsize=0,
        )

    def told(self) -> list[str]:
        return told(self.machine.events())

    def wait_told(self, count: int) -> list[str]:
        """What was recorded, once it is so many events."""
        found: list[str] = wait_for(
            lambda: (t := self.told()) if len(self.told()) >= count else None, "events"
        )
        return found or self.told()


@pytest.fixture
def pipe(machine: Machine) -> Pipe:
    return Pipe(machine)


@pytest.fixture
def pi(machine: Machine) -> Callable[..., list[str]]:
    """A stand-in for Pi: a script that prints lines and ends as it is told."""

    def script(lines: Sequence[bytes], end: str = "") -> list[str]:
        path = machine.root / "pi.py"
        path.write_text(
            "import os, signal, sys, time\n"
            f"for line in {list(lines)!r}:\n"
            "    os.write(1, line + b'\\n')\n"
            f"{end}\n"
        )
        return ["--", sys.executable, str(path)]

    return script


# --- in a pipe --------------------------------------------------------------------------------------


def test_a_run_is_recorded_and_nothing_is_printed(pipe: Pipe) -> None:
    done = pipe.run(data=joined(live(said(), SETTLED)))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert pipe.told() == RUN_TOLD
    assert [event["session"]["seq"] for event in pipe.machine.events()] == list(range(5))


def test_odd_bytes_go_on_and_what_is_between_them_is_recorded(pipe: Pipe) -> None:
    data = ODD + b"\n" + b"\r\n".join(live(said(), SETTLED)) + b"\r\n" + ODD
    done = pipe.run("--tee", data=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")
    assert pipe.told() == RUN_TOLD


def test_a_line_of_more_than_64_mib_goes_on_and_is_said(pipe: Pipe) -> None:
    long = line("message_start", message={"role": "user", "content": "x" * (65 << 20)})
    data = joined(live(long, said(), SETTLED))
    done = pipe.run("--tee", data=data)
    assert done.stdout == data
    assert done.stderr == b"sessionpipe: 1 line longer than 64 MiB could not be read\n"
    assert pipe.told() == RUN_TOLD


def test_what_happens_is_delivered_while_the_stream_goes_on(pipe: Pipe) -> None:
    file = pipe.machine.root / "events.ndjson"
    pipe.machine.sessionpipe("sinks", "add", f"file:{file}", "--tier", "1")
    environment = pipe.machine.environment()
    argv = pipe.argv("--tee")
    with subprocess.Popen(
        argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0
    ) as process:
        assert process.stdin
        process.stdin.write(joined(live()))
        wait_for(
            lambda: file.exists() and file.read_text().count("\n") == 2, "the turn's start to be delivered"
        )
        process.stdin.write(joined([said(), SETTLED]))
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
    # Tier 1 has no words.
    wait_for(lambda: file.read_text().count("\n") == 4, "the rest to be delivered")
    assert told(json.loads(each) for each in file.read_text().splitlines()) == [
        *RUN_TOLD[:3],
        "session.ended exit",
    ]


def test_text_that_is_no_stream_is_said_in_a_line(pipe: Pipe) -> None:
    done = pipe.run("--tee", data=b"Hello, this is an answer.\n")
    assert (done.returncode, done.stdout) == (0, b"Hello, this is an answer.\n")
    assert done.stderr.startswith(b"sessionpipe: nothing was recorded: ")
    assert done.stderr.count(b"\n") == 1
    assert pipe.run().stderr == b""


# --- where nothing can be recorded ------------------------------------------------------------------


def test_the_stream_goes_on_where_nothing_can_be_recorded(pipe: Pipe) -> None:
    pipe.machine.state.root.write_text("a file where the folder would be")
    data = joined(live(said(), SETTLED))
    begun = time.monotonic()
    with pipe.start("--tee") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(data)
        process.stdin.close()
        assert process.stdout.read() == data
        copied = time.monotonic() - begun
        assert process.wait(PATIENCE_S) == 0
        error = process.stderr.read()
    assert error.startswith(b"sessionpipe: 5 events not recorded: ")
    assert error.count(b"\n") == 1
    # Whoever reads the stream had its end before the last try.
    assert copied < time.monotonic() - begun


def test_a_damaged_outbox_is_mended_by_a_worker_and_nothing_is_missing(pipe: Pipe) -> None:
    state = pipe.machine.state
    state.root.mkdir(mode=0o700)
    state.outbox.write_bytes(b"no database" * 1000)
    data = joined(live(said(), SETTLED))
    done = subprocess.run(
        pipe.argv("--tee"), env=pipe.machine.environment(), input=data, capture_output=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")
    assert pipe.told() == RUN_TOLD


def test_a_reader_that_is_killed_stops_nothing_and_what_it_recorded_is_whole(pipe: Pipe) -> None:
    with pipe.start("--tee", SESSIONPIPE_FAULT="outbox.committed:2=kill") as process:
        assert process.stdin and process.stdout and process.stderr
        data = joined(live())
        process.stdin.write(data)
        pipe.wait_told(2)
        rest = joined([said(), SETTLED])
        process.stdin.write(rest)
        process.stdin.close()
        assert process.stdout.read() == data + rest
        assert process.wait(PATIENCE_S) == 0
        assert b"the recording failed" in process.stderr.read()
    before = pipe.told()
    assert before == RUN_TOLD[: len(before)]
    # The session goes on later, and its numbers with it.
    pipe.run(data=joined(live(said(), SETTLED)))
    seqs = [event["session"]["seq"] for event in pipe.machine.events()]
    assert seqs == list(range(len(seqs)))


# --- how it ends ------------------------------------------------------------------------------------


def test_a_killed_ingest_still_ends_what_it_was_telling(pipe: Pipe) -> None:
    with pipe.start("--tee") as process:
        assert process.stdin
        process.stdin.write(joined(live(delta("Hal"), delta("f"))))
        pipe.wait_told(2)
        process.kill()
    assert pipe.wait_told(5) == CUT_TOLD
    assert pipe.machine.events()[3]["data"]["assistant"] == "Half"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_turn_as_interrupted(pipe: Pipe, number: int) -> None:
    with pipe.start("--tee") as process:
        assert process.stdin
        process.stdin.write(joined(live()))
        pipe.wait_told(2)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == -number
    assert pipe.told() == CUT_TOLD


def test_a_stream_that_stops_short_ends_the_turn_in_error(pipe: Pipe) -> None:
    pipe.run(data=joined(live())[:-1] + b'\n{"type":"mess')
    assert pipe.told() == [*RUN_TOLD[:2], "turn.ended error", "turn.transcript Go", "session.ended other"]


def test_a_closed_output_ends_the_pipeline_and_the_turn(pipe: Pipe) -> None:
    with pipe.start("--tee") as process:
        assert process.stdin and process.stdout
        process.stdin.write(joined(live()))
        pipe.wait_told(2)
        process.stdout.close()
        with pytest.raises(BrokenPipeError):
            while True:
                process.stdin.write(joined([delta("x" * 1000)]))
        assert process.wait(PATIENCE_S) == -signal.SIGPIPE
    assert pipe.wait_told(5) == CUT_TOLD


# --- around a command -------------------------------------------------------------------------------


def test_a_command_s_run_is_recorded_and_its_status_returned(
    pipe: Pipe, pi: Callable[..., list[str]]
) -> None:
    lines = live(said(), SETTLED)
    done = pipe.run(*pi(lines, "sys.exit(3)"))
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")
    assert pipe.told() == RUN_TOLD
    assert pipe.run("--tee", *pi(lines)).stdout == joined(lines)


def test_a_command_is_told_whose_parent_ingest_is(pipe: Pipe, pi: Callable[..., list[str]]) -> None:
    words = pi([], "print(os.environ['SESSIONPIPE_INGEST'] == str(os.getppid()))")
    assert pipe.run("--tee", *words).stdout == b"True\n"


def test_a_command_that_a_signal_ends_was_interrupted(pipe: Pipe, pi: Callable[..., list[str]]) -> None:
    done = pipe.run(*pi(live(delta("Half")), "os.kill(os.getpid(), signal.SIGKILL)"))
    assert done.returncode == 128 + signal.SIGKILL
    assert pipe.told() == CUT_TOLD


def test_a_command_that_says_a_signal_ended_it_was_interrupted(
    pipe: Pipe, pi: Callable[..., list[str]]
) -> None:
    assert pipe.run(*pi(live(), "sys.exit(143)")).returncode == 143
    assert pipe.told() == CUT_TOLD


def test_a_command_that_fails_in_the_middle_of_a_turn_ends_it_in_error(
    pipe: Pipe, pi: Callable[..., list[str]]
) -> None:
    assert pipe.run(*pi(live(), "sys.exit(1)")).returncode == 1
    assert pipe.told()[2:] == ["turn.ended error", "turn.transcript Go", "session.ended other"]


def test_a_signal_reaches_the_command_and_what_it_says_last_is_recorded(
    pipe: Pipe, pi: Callable[..., list[str]]
) -> None:
    last = joined([said("Half", "aborted"), line("agent_settled", aborted=True)])
    handler = f"signal.signal(signal.SIGTERM, lambda *_: (os.write(1, {last!r}), os._exit(143)))\n"
    with pipe.start("--tee", *pi(live(), handler + "os.write(1, b'\\n')\ntime.sleep(60)")) as process:
        assert process.stdout
        pipe.wait_told(2)
        while process.stdout.readline() != b"\n":
            continue
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 143
    assert pipe.told() == [*CUT_TOLD[:4], "session.ended exit"]


def test_a_command_that_is_not_there(pipe: Pipe) -> None:
    done = pipe.run("--", "no-such-\x1b[31mprogram")
    assert done.returncode == 127
    assert done.stderr == b"sessionpipe: no-such- [31mprogram cannot be run: command not found\n"
    assert pipe.run("--", str(pipe.machine.home)).returncode == 126
    assert pipe.told() == []


def test_a_command_runs_as_if_ingest_were_not_there(pipe: Pipe, pi: Callable[..., list[str]]) -> None:
    """Its folder, its input, its arguments, its umask, and no credentials of ours."""
    script = "print(os.getcwd(), sys.argv[1:], oct(os.umask(0)), sys.stdin.read(), sep='|')"
    argv = [
        "/bin/sh",
        "-c",
        'umask 022; exec "$@"',
        "sh",
        *pipe.argv("--tee", *pi([], script), "--tee", "a b"),
    ]
    done = subprocess.run(
        argv, env=pipe.machine.environment(**QUIET), input=b"in", capture_output=True, cwd=pipe.machine.home
    )
    assert done.stdout == f"{pipe.machine.home}|['--tee', 'a b']|0o22|in\n".encode()


# --- as normalized events ---------------------------------------------------------------------------


def test_normalized_events_are_printed_as_they_happen_and_recorded_as_well(pipe: Pipe) -> None:
    with pipe.start("--normalized") as process:
        assert process.stdin and process.stdout
        process.stdin.write(joined(live(said("One."))))
        first = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert [event["type"] for event in first] == ["session", "agent_message"]
        process.stdin.write(joined([SETTLED]))
        process.stdin.close()
        (last,) = process.stdout.read().splitlines()
        assert process.wait(PATIENCE_S) == 0
    assert json.loads(last) == {"type": "unknown", "reason": "type", "raw": SETTLED.decode()}
    assert pipe.told() == RUN_TOLD


def test_printing_alone_touches_no_state(pipe: Pipe) -> None:
    folder = streams.data_dir("conformance") / "ingest" / "pi" / "c-tools"
    done = pipe.run("--normalized", "--no-record", data=(folder / "stdout.ndjson").read_bytes())
    found = [json.loads(each) for each in done.stdout.splitlines()]
    assert found == streams.expected(folder, "normalized.ndjson")
    assert not pipe.machine.state.root.exists()


def test_nobody_reads_the_normalized_events_any_more(pipe: Pipe) -> None:
    with pipe.start("--normalized") as process:
        assert process.stdin and process.stdout
        process.stdin.write(joined(live(said("One.", "toolUse"))))
        process.stdout.readline()
        pipe.wait_told(2)
        process.stdout.close()
        with pytest.raises(BrokenPipeError):
            while True:
                process.stdin.write(b"no json\n" * 100)
        assert process.wait(PATIENCE_S) == -signal.SIGPIPE
    assert pipe.wait_told(5)[2:] == CUT_TOLD[2:]


# --- beside hooks -----------------------------------------------------------------------------------


def test_beside_hooks_that_tell_the_session_nothing_is_told_twice(pipe: Pipe) -> None:
    """The extension's mark is there before the first message; its hooks come when they come."""
    machine = pipe.machine
    lines = live(said(), SETTLED)
    now = now_ms()
    (machine.state.live).mkdir(parents=True, mode=0o700)
    (machine.state.live / f"pi-{SESSION}").write_text(json.dumps({"pid": os.getpid(), "since": now - 1000}))
    ctx = {"mode": "json", "cwd": "/src", "sessionId": SESSION, "messages": 0}
    post: dict[str, dict[str, Any]] = {
        "session_start": {"ev": {"reason": "startup"}},
        "agent_start": {"ev": {}, "run": {"id": "run-1"}},
        "agent_settled": {"ev": {"aborted": False}, "run": {"id": "run-1"}},
        "session_shutdown": {"ev": {"reason": "quit"}},
    }
    for number, (event, more) in enumerate(post.items()):
        if number == 2:
            assert pipe.run("--tee", data=joined(lines)).stdout == joined(lines)
        machine.hook("pi", event, {"event": event, "t": now + number, "ctx": ctx, **more}, **QUIET)
    machine.sessionpipe("flush")
    assert pipe.told() == [
        "session.started startup",
        "turn.started",
        "turn.ended stop",
        "session.ended exit",
    ]
