"""The stream as a person or a pipe sees it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click
import pytest

from sessionpipe.adapters import registry
from sessionpipe.paths import state_dir
from tests.patience import PATIENCE_S

BASH = {"tool": "Bash", "call_id": "c1", "ok": True, "ms": 1830, "input": {"command": "make"}}
COMMAND = [sys.executable, "-m", "sessionpipe", "tail"]


def shown(run: Any, *options: str) -> list[str]:
    done = run("tail", "--no-follow", *options)
    assert done.exit_code == 0, done.output
    return list(done.stdout.splitlines())


def events(run: Any, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown(run, "--json", *options)]


def test_one_readable_line_an_event(run: Any, recorder: Any) -> None:
    recorder.add("one", "session.started", {"source": "startup"}, cwd="~/src", title="Fix it")
    recorder.add("one", "tool.ended", BASH)
    first, second = shown(run)
    assert first.endswith("src: Fix it              session started")
    assert second.endswith("Bash ok 1.8 s make")


def test_nothing_recorded_is_nothing(run: Any, tmp_path: Path) -> None:
    assert shown(run) == []
    assert not state_dir().exists()


@pytest.mark.parametrize(("tier", "words"), [("1", "Bash ok 1.8 s"), ("3", "Bash ok 1.8 s make")])
def test_a_tier_shows_what_a_sink_at_it_gets(run: Any, recorder: Any, tier: str, words: str) -> None:
    recorder.add("one", "tool.ended", BASH)
    (line,) = shown(run, "--tier", tier)
    assert line.endswith(words)


def test_below_its_tier_an_event_is_not_there(run: Any, recorder: Any) -> None:
    recorder.add("one", "tool.ended", BASH)
    assert shown(run, "--tier", "0") == []


def test_heartbeats_are_for_tier_0(run: Any, recorder: Any) -> None:
    recorder.add("one", "session.heartbeat")
    assert len(shown(run, "--tier", "0")) == 1
    assert shown(run, "--tier", "1") == shown(run) == []


def test_json_is_the_filtered_event_itself(run: Any, recorder: Any) -> None:
    sent = recorder.add("one", "tool.ended", BASH)
    assert events(run) == [sent]
    (reduced,) = events(run, "--tier", "1")
    assert reduced["tier"] == 1
    assert "input" not in reduced["data"]


def test_json_holds_nothing_that_a_terminal_obeys(run: Any, recorder: Any) -> None:
    evil = "\x9b2J\x7f\u202e"
    recorder.add("one", "tool.ended", {**BASH, "error": evil})
    (printed,) = shown(run, "--json")
    assert printed.isascii()
    assert json.loads(printed)["data"]["error"] == evil


def test_the_last_twenty_are_shown_and_all_on_request(run: Any, recorder: Any) -> None:
    for _ in range(30):
        recorder.add("one", "session.started", {"source": "startup"})
    assert [event["session"]["seq"] for event in events(run)] == list(range(10, 30))
    assert [event["session"]["seq"] for event in events(run, "--all")] == list(range(30))


def test_the_last_twenty_are_counted_after_filtering(run: Any, recorder: Any) -> None:
    for _ in range(30):
        recorder.add("one", "session.started", {"source": "startup"})
        for _ in range(5):
            recorder.add("one", "tool.ended", BASH)
    assert len(events(run, "--tier", "0")) == 20


def test_one_harness_or_one_session(run: Any, recorder: Any) -> None:
    recorder.add("one", "session.started")
    recorder.add("two", "session.started", harness="codex")
    assert [e["harness"]["name"] for e in events(run, "--harness", "codex")] == ["codex"]
    assert [e["session"]["id"] for e in events(run, "--session", "claude-code:one")] == ["one"]
    assert [e["session"]["id"] for e in events(run, "--session", "two", "--all")] == ["two"]


def test_a_session_nobody_knows_is_an_error_in_one_line(run: Any, recorder: Any) -> None:
    done = run("tail", "--session", "nobody")
    assert done.exit_code == 1
    assert done.stderr == "sessionpipe: no session is called 'nobody'; `sessionpipe sessions` lists them\n"


def test_a_harness_nobody_knows_is_a_matter_of_usage(run: Any, recorder: Any) -> None:
    done = run("tail", "--no-follow", "--harness", "claude")
    assert done.exit_code == 2
    assert f"there are {', '.join(registry.names())}" in done.stderr


def test_what_a_session_says_cannot_move_the_cursor(run: Any, recorder: Any) -> None:
    recorder.add(
        "one",
        "turn.transcript",
        {"turn": 0, "user": "\x1b[2J\r", "assistant": "\x9b5n\u202e", "at": ""},
        title="\x07",
    )
    (line,) = shown(run)
    assert not set(line) & set("\x1b\r\x9b\x07\u202e")


# --- as processes: following, terminals, pipes that close ---------------------------------------


@contextmanager
def tailing(*options: str, **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*COMMAND, *options], stderr=subprocess.PIPE, **how)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


def read_line(stream: IO[bytes]) -> bytes:
    ready, _, _ = select.select([stream], [], [], 20)
    assert ready, "nothing came"
    return stream.readline()


def test_it_follows_and_flushes_each_line(recorder: Any) -> None:
    recorder.add("one", "session.started", {"source": "startup"})
    with tailing(stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"session started" in read_line(process.stdout)
        recorder.add("one", "turn.started", {"prompt_chars": 9})
        assert b"prompt (9 characters)" in read_line(process.stdout)


def test_it_waits_for_the_first_event_ever_and_creates_nothing(request: pytest.FixtureRequest) -> None:
    with tailing(stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert b"waiting" in read_line(process.stderr)
        assert not state_dir().exists()
        recorder = request.getfixturevalue("recorder")
        recorder.add("one", "session.started", {"source": "startup"})
        assert b"session started" in read_line(process.stdout)


def test_it_holds_no_read_transaction(recorder: Any) -> None:
    recorder.add("one", "session.started", {"source": "startup"})
    with tailing(stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        read_line(process.stdout)
        assert recorder.outbox.checkpoint()
        recorder.add("one", "turn.started")
        read_line(process.stdout)


def test_control_c_ends_it_quietly(recorder: Any) -> None:
    recorder.add("one", "session.started", {"source": "startup"})
    with tailing(stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        read_line(process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr.read() == b""


@pytest.mark.parametrize("options", [["--all"], ["--all", "--json"]], ids=["lines", "json"])
def test_a_reader_that_has_seen_enough_ends_it_quietly(recorder: Any, options: list[str]) -> None:
    for _ in range(300):
        recorder.add("one", "tool.ended", {**BASH, "input": {"command": "x" * 500}})
    with tailing(*options, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        read_line(process.stdout)
        process.stdout.close()
        recorder.add("one", "tool.ended", BASH)
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b""
        process.stdout = None


def on_a_terminal(**environment: str) -> str:
    """What `tail --no-follow` writes to a terminal of 80 columns."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    chunks: list[bytes] = []

    def drain() -> None:
        try:
            while chunk := os.read(controller, 4096):
                chunks.append(chunk)
        except OSError:
            return  # The last writer closed it.

    reader = threading.Thread(target=drain)
    reader.start()
    env = {**os.environ, "TERM": "xterm", **environment}
    subprocess.run([*COMMAND, "--no-follow"], stdout=terminal, env=env, check=True, timeout=60)
    os.close(terminal)
    reader.join(PATIENCE_S)
    os.close(controller)
    return b"".join(chunks).decode()


def test_a_terminal_gets_colour_and_lines_of_its_width(recorder: Any) -> None:
    recorder.add("one", "turn.transcript", {"turn": 0, "user": "u" * 100, "assistant": "a" * 100, "at": ""})
    written = on_a_terminal()
    assert "\x1b[" in written
    assert [len(line) for line in click.unstyle(written).splitlines()] == [80]


def test_no_color_is_honoured(recorder: Any) -> None:
    recorder.add("one", "session.started", {"source": "startup"})
    assert "\x1b" not in on_a_terminal(NO_COLOR="1")
