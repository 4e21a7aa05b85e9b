"""A journal told as it came about: again, at its pace, or while it is written."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sessionpipe.cli import journal_play
from tests.e2e.machine import wait_for
from tests.journal.making import (
    Story,
    at,
    binding,
    capture,
    conversation,
    failure,
    line,
    lines,
    manifest,
    put,
    write,
)
from tests.journal.recipes import edit
from tests.patience import PATIENCE_S

Run = Callable[..., Result]
COMMAND = [sys.executable, "-m", "sessionpipe", "journal"]


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def told(run: Run, root: Path, *options: str) -> str:
    """What a replay prints below the heading."""
    done = run("journal", "replay", str(root), "--speed", "inf", *options)
    assert done.exit_code == 0, done.output
    return done.stdout.partition(" · 0.3 s\n")[2]


# --- what is told -------------------------------------------------------------------------------

WHOLE = """
turn 0 · review/a1 · 10:00:00.010
user · 10:00:00.020
  What is in README.md?
assistant · 10:00:00.040
  thinking
    I should read it.
    {"path":"README.md"}
  → read
  ← read README.md · 30 ms
    # Hello
    A greeting.

turn 1 · review/a1 · 10:00:00.230
assistant · 10:00:00.240
  It says hello.

complete · 31 events, 4 entries
"""


def test_a_conversation_as_it_appeared(run: Run, tmp_path: Path) -> None:
    assert told(run, write(tmp_path / "bundle")) == WHOLE


@pytest.mark.parametrize("where", ["8", "+0.075s", "10:00:00.085"])
def test_from_a_position_on_with_what_was_unfinished_there(run: Run, tmp_path: Path, where: str) -> None:
    out = told(run, write(tmp_path / "bundle"), "--from", where)
    assert out.startswith("assistant · 10:00:00.040\n  thinking\n    I should read it.\n    {")
    assert out.endswith(WHOLE.partition('{"path":"READ')[2])


def test_a_tool_that_runs_at_the_position_is_named(run: Run, tmp_path: Path) -> None:
    out = told(run, write(tmp_path / "bundle"), "--from", "17")
    assert out.startswith('  → read {"path":"README.md"}\n  ← read README.md · 30 ms\n')


def test_text_is_printed_piece_by_piece_and_none_of_it_twice(tmp_path: Path) -> None:
    """On a pipe as on a terminal: each event is written out when it is told."""

    class Out:
        def __init__(self) -> None:
            self.pieces = [""]

        def write(self, text: str) -> None:
            self.pieces[-1] += text

        def flush(self) -> None:
            self.pieces.append("")

        def isatty(self) -> bool:
            return False

    from sessionpipe.journal.bundle import find
    from sessionpipe.journal.index import Journal

    bundle = find(write(tmp_path / "bundle"))
    journal = Journal(bundle, bundle.sessions[0]).read_all()
    out: Any = Out()
    with journal_play.Teller(journal, out) as teller:
        reducer = teller.begin_at(0)
        for event in journal.events(0):
            teller.tell(reducer.apply(event))
    assert [piece for piece in out.pieces if "should" in piece or "read it" in piece] == [
        "  thinking\n    I should ",
        "read it.",
    ]


def test_blocks_and_messages_that_alternate_are_kept_apart(run: Run, tmp_path: Path) -> None:
    story = Story()
    story.begin("t1", "m1")
    story.said("t1", "m1", "text_start", 0)
    story.said("t1", "m1", "thinking_start", 1)
    for index, kind, delta in (
        (0, "text", "one\ntw"),
        (1, "thinking", "hm"),
        (0, "text", "o"),
        (0, "text", "\nthree"),
    ):
        story.said("t1", "m1", f"{kind}_delta", index, delta=delta)
    done = run("journal", "replay", str(write(tmp_path / "bundle", story)), "--speed", "inf")
    assert "\n  one\n  tw\n  thinking\n    hm\n  o\n  three\n" in done.stdout


def test_what_came_only_at_the_end_is_told_then(run: Run, tmp_path: Path) -> None:
    story = Story()
    story.begin("t1", "m1")
    story.said("t1", "m1", "text_start")
    story.said("t1", "m1", "text_end", content="All at once.")
    call = {"id": "c1", "name": "ls", "arguments": {"n": 1}}
    story.said("t1", "m1", "toolcall_start", 1)
    story.said("t1", "m1", "toolcall_end", 1, toolCall=call)
    story.said("t1", "m1", "error", reason="aborted")
    story.settle("t1", "m1", None)
    story.tool("t1", "m1", "c1", "ls", {"n": 1}, {"content": []}, error=True)
    story.begin("t1", "m2")
    story.entry("e2", {"role": "assistant", "content": "From Pi alone."})
    story.settle("t1", "m2", "e2")
    done = run("journal", "replay", str(write(tmp_path / "bundle", story)), "--speed", "inf")
    assert done.stdout.partition("10:00:00.010\n")[2].splitlines()[:8] == [
        "  All at once.",
        '  → ls {"n":1}',
        "  broke off",
        "  unsettled: Pi kept no entry of this",
        "  ← ls · failed · 10 ms",
        "assistant · 10:00:00.100",
        "  From Pi alone.",
        "",
    ]


def test_what_a_stranger_wrote_is_text_to_a_terminal_however_it_was_cut(run: Run, tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x9b2J\r\u202e\r\n\ud83d\ude00"
    story = Story()
    story.begin("t1", evil)
    story.text("t1", evil, *evil)
    story.tool("t1", evil, evil, evil, {evil: evil}, {"content": evil})
    story.begin("t1", "m2", evil)
    story.entry("e1", {"role": evil, "content": evil})
    story.settle("t1", "m2", "e1", evil)
    root = write(tmp_path / "bundle", story)
    done = run("journal", "replay", str(root), "--speed", "inf")
    assert done.exit_code == 0
    assert re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.stdout) == []
    assert "\n  �]0;owned��2J��\n  😀\n" in done.stdout


# --- when ---------------------------------------------------------------------------------------


class Clock:
    """A clock that only sleeping moves on."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(journal_play, "time", clock)
    return clock


def pauses(clock: Clock, times: list[Any], speed: float = 1.0, most: float | None = None) -> list[float]:
    events = [{"at": at(when) if isinstance(when, int) else when} for when in times]
    assert list(journal_play._paced(iter(events), speed, most)) == events
    return clock.slept


def test_pauses_are_those_between_the_events(clock: Clock) -> None:
    assert pauses(clock, [500, 700, 700, 1700]) == [0.2, 1.0]


def test_speed_shortens_them_and_a_bound_cuts_them_first(clock: Clock) -> None:
    assert pauses(clock, [0, 1000, 61_000], speed=4, most=2) == [0.25, 0.5]


def test_without_waiting_is_without_waiting(clock: Clock) -> None:
    assert pauses(clock, [0, 1000, 61_000], speed=float("inf")) == []


def test_a_clock_set_back_makes_no_pause_and_none_twice(clock: Clock) -> None:
    assert pauses(clock, [0, 1000, 400, 900, 1100]) == [1.0, 0.1]


def test_an_event_without_a_time_comes_with_the_one_before(clock: Clock) -> None:
    assert pauses(clock, [0, "noon", None, 1000]) == [1.0]


def test_a_pause_of_years_is_no_fault(clock: Clock) -> None:
    events = [{"at": "0001-01-01T00:00:00Z"}, {"at": "9999-12-31T23:59:59Z"}]
    assert list(journal_play._paced(iter(events), 1e6, None)) == events
    assert sum(clock.slept) == pytest.approx(315_537.9, rel=1e-3)
    assert max(clock.slept) <= 3600


def test_what_printing_took_is_made_up_for(clock: Clock) -> None:
    events = journal_play._paced(iter([{"at": at(0)}, {"at": at(1000)}, {"at": at(2000)}]), 1.0, None)
    next(events)
    clock.now += 1.5
    assert len(list(events)) == 2
    assert clock.slept == [0.5]


@pytest.mark.parametrize(
    "options", [("--speed", "0"), ("--speed", "-1"), ("--max-gap", "-1"), ("--from", "x")]
)
def test_a_pace_that_is_none_is_a_matter_of_usage(run: Run, tmp_path: Path, options: tuple[str, str]) -> None:
    assert run("journal", "replay", str(write(tmp_path / "bundle")), *options).exit_code == 2


def test_ctrl_c_ends_a_replay_at_once_and_on_a_line_of_its_own(tmp_path: Path) -> None:
    story = Story()
    story.begin("t1", "m1")
    story.said("t1", "m1", "text_start")
    story.said("t1", "m1", "text_delta", delta="and then")
    story.ms += 3_600_000
    story.said("t1", "m1", "text_delta", delta=" never")
    with Watching("replay", str(write(tmp_path / "bundle", story))) as watching:
        watching.until("and then")
        watching.process.send_signal(signal.SIGINT)
        assert watching.process.wait(PATIENCE_S) == 130
        assert watching.all().endswith("and then\n")
        assert watching.errors() == ""


def test_a_terminal_is_shown_colour(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle")
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"}
    command = [*COMMAND, "replay", str(root), "--speed", "inf"]
    with subprocess.Popen(command, stdout=theirs, env=env) as playing:
        os.close(theirs)
        shown = b""
        while part := _some(ours):
            shown += part
        assert playing.wait() == 0
    os.close(ours)
    assert b"\x1b[2mI should \x1b[0m\x1b[2mread it.\x1b[0m" in shown
    assert b"\r\n  It says hello.\r\n" in shown


def _some(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # Linux says so of a terminal that the other side closed.
        return b""


# --- while it is written ------------------------------------------------------------------------


class Watching:
    """A command that runs, and what it has printed so far."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"TZ": "UTC"},
        )
        self._seen = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while part := os.read(self.process.stdout.fileno(), 65536):
            self._seen += part

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    @property
    def seen(self) -> str:
        return self._seen.decode()

    def until(self, text: str) -> str:
        """Wait until ``text`` was printed."""
        wait_for(lambda: text in self.seen, repr(text))
        return self.seen

    def all(self) -> str:
        """Everything, once the process is gone."""
        self._thread.join(PATIENCE_S)
        return self.seen

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()


def begin(root: Path, story: Story) -> Path:
    """A bundle whose recording has just begun; its events file."""
    running = {key: value for key, value in manifest(status="running").items() if key != "finishedAt"}
    put(root / "manifest.json", running)
    put(root / "session/binding.json", binding())
    put(root / "session/entries.ndjson", lines(story.entries))
    put(root / "session/capture.json", capture(Story(), "recording"))
    return put(root / "session/events.ndjson", b"")


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_follow_waits_tells_what_comes_and_ends_with_the_recording(tmp_path: Path) -> None:
    root, story = tmp_path / "bundle", conversation()
    rows = [line(event) for event in story.events]
    with Watching("follow", str(root)) as watching:
        assert watching.process.stderr is not None
        assert watching.process.stderr.readline().startswith(b"waiting for a journal in ")
        events = begin(root, story)
        append(events, b"".join(rows[:6]) + rows[6][:-30])
        watching.until("assistant")
        append(events, rows[6][-30:])
        watching.until("  thinking\n    I should ")
        append(events, rows[7])
        watching.until("I should read it.")
        append(events, b"".join(rows[8:]))
        watching.until("It says hello.")
        assert watching.process.poll() is None
        put(root / "session/capture.json", capture(story))
        assert watching.process.wait(PATIENCE_S) == 0
        assert watching.all().endswith(WHOLE[1:])
        assert watching.errors() == ""


def test_follow_of_what_is_recorded_already_tells_it_and_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "follow", str(write(tmp_path / "bundle"))], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\n\ncomplete · 31 events, 4 entries\n")


def test_follow_from_the_end_tells_only_what_comes(tmp_path: Path) -> None:
    root, story = tmp_path / "bundle", conversation()
    events = begin(root, story)
    append(events, lines(story.events[:22]))
    with Watching("follow", str(root), "--from", "end") as watching:
        watching.until("22 events")
        append(events, lines(story.events[22:]))
        put(root / "session/capture.json", capture(story))
        assert watching.process.wait(PATIENCE_S) == 0
        shown = watching.all()
    assert "I should read it" not in shown
    assert "It says hello." in shown


def test_follow_outlives_its_writer_and_tells_the_whole_lines_of_what_it_left(tmp_path: Path) -> None:
    root, story = tmp_path / "bundle", conversation()
    events = begin(root, story)
    writer = (
        "import os, sys, time\n"
        "rows = open(sys.argv[2], 'rb').read()\n"
        "with open(sys.argv[1], 'ab', buffering=0) as file:\n"
        "    file.write(rows[:-30])\n"
        "    print('written', flush=True)\n"
        "    time.sleep(600)\n"
    )
    source = put(tmp_path / "rows", lines(story.events[:8]))
    with (
        Watching("follow", str(root)) as watching,
        subprocess.Popen([sys.executable, "-c", writer, events, source], stdout=subprocess.PIPE) as writing,
    ):
        assert writing.stdout is not None
        writing.stdout.readline()
        writing.kill()
        writing.wait()
        watching.until("    I should ")
        assert watching.process.poll() is None
        put(
            root / "session/capture.json",
            capture(Story(), "failed", eventCount=7, lastEventSeq=7, entryCount=4, **failure()),
        )
        assert watching.process.wait(PATIENCE_S) == 0
        shown = watching.all()
    assert "read it" not in shown
    assert shown.endswith("failed · 7 events, 4 entries\n")


def test_follow_says_that_a_journal_was_cut_and_begins_anew(tmp_path: Path) -> None:
    root, story = tmp_path / "bundle", conversation()
    events = begin(root, story)
    append(events, lines(story.events[:10]))
    with Watching("follow", str(root)) as watching:
        watching.until("I should read it.")
        os.truncate(events, len(lines(story.events[:3])))
        watching.until("the journal was cut or replaced")
        append(events, lines(story.events[3:]))
        put(root / "session/capture.json", capture(story))
        assert watching.process.wait(PATIENCE_S) == 0
        assert watching.all().count("I should read it.") == 2


def test_follow_goes_on_with_the_next_conversation_of_the_run(tmp_path: Path) -> None:
    root, story = tmp_path / "bundle", conversation()
    events = begin(root, story)
    append(events, lines(story.events))
    with Watching("follow", str(root)) as watching:
        watching.until("It says hello.")
        write(root, folder="session/segments/a2")
        put(root / "session/capture.json", capture(story))
        assert watching.process.wait(PATIENCE_S) == 0
        assert watching.all().count("It says hello.") == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"file": "session/capture.json", "set": {"eventSchema": "v9"}}, "schema v9"),
        ({"file": "session/capture.json", "set": {"eventCount": 32}}, "says eventCount 32"),
        ({"file": "session/capture.json", "set": {"status": "recording"}}, "still says recording"),
        ({"file": "session/capture.json", "remove": True}, "there is no capture.json"),
        ({"file": "session/capture.json", "become": "fifo"}, "not a regular file"),
    ],
)
def test_follow_of_what_will_never_be_whole_fails_with_why(
    run: Run, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    root = write(tmp_path / "bundle")
    edit(root, change)
    done = run("journal", "follow", str(root))
    assert done.exit_code == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_ctrl_c_ends_follow_quietly(tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    begin(root, Story())
    with Watching("follow", str(root)) as watching:
        watching.until("recording")
        watching.process.send_signal(signal.SIGINT)
        assert watching.process.wait(PATIENCE_S) == 130
        assert watching.errors() == ""
