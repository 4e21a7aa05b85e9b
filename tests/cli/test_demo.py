"""The demo as a person runs it, and that its own check would find a leak."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from sessionpipe.cli import demo
from sessionpipe.cli.playback import Stage, load
from sessionpipe.paths import data_dir

FIXTURE = data_dir("conformance") / "harness" / demo.HARNESS / demo.SCENARIO


def test_a_reader_that_has_seen_enough_ends_it_quietly() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "sessionpipe", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as playing:
        assert playing.stdout is not None and playing.stderr is not None
        playing.stdout.close()
        assert playing.stderr.read() == b""


class Played(NamedTuple):
    """What the demo printed, and the machine it was played on: ``home``, ``tmp``, ``state`` and ``config``."""

    done: subprocess.CompletedProcess[str]
    machine: Path


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The whole demo, its temporary files in a folder that can be looked into afterwards."""
    machine = tmp_path_factory.mktemp("machine")
    for name in ("home", "tmp"):
        (machine / name).mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "sessionpipe", "demo"],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(machine / "home"),
            "TMPDIR": str(machine / "tmp"),
            "SESSIONPIPE_STATE_DIR": str(machine / "state"),
            "SESSIONPIPE_CONFIG_DIR": str(machine / "config"),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Played(done, machine)


def section(output: str, heading: str) -> str:
    return output.partition(f"\n{heading}")[2].partition("\n\n")[0]


def test_it_shows_each_tier_and_the_credential_gone(played: Played) -> None:
    done, machine = played
    assert (done.returncode, done.stderr) == (0, "")
    told = [section(done.stdout, f"tier {tier}: ") for tier in range(4)]
    assert "needs you: permission\n" in told[0]
    assert "Bash" not in told[0]
    assert "needs you: permission Bash GITHUB_TOKEN=[redacted] curl -V" in told[1]
    assert "the token is [redacted]” → “Both?”" in told[2]
    assert re.search(r"Bash ok .* GITHUB_TOKEN=\[redacted\] curl -V", told[3])
    assert "gone: it is in none of the four outputs" in section(done.stdout, "the planted credential")
    assert not re.search(r"ghp_[A-Za-z0-9]{5}", done.stdout)
    # Nothing of the person's was touched, and nothing was left behind.
    assert list((machine / "home").iterdir()) == []
    assert not (machine / "state").exists() and not (machine / "config").exists()
    assert list((machine / "tmp").iterdir()) == []


def test_it_fits_a_plain_terminal(played: Played) -> None:
    assert max(len(line) for line in played.done.stdout.splitlines()) <= demo.COLUMNS
    assert "\x1b" not in played.done.stdout


def test_one_tier_is_shown_in_full(run: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sessionpipe", "demo", "--tier", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "tier 0: " not in done.stdout and "tier 2: " not in done.stdout
    told = section(done.stdout, "tier 1: ")
    assert "session started" in told and "needs you: permission Bash curl --version" in told


def test_a_terminal_gets_colour_and_the_same_words() -> None:
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "sessionpipe", "demo", "--tier", "0"],
        stdout=terminal,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(terminal)
        chunks = []
        while True:
            try:
                chunk = os.read(controller, 4096)
            except OSError:
                break  # The last writer closed it.
            if not chunk:
                break
            chunks.append(chunk)
    os.close(controller)
    written = b"".join(chunks).decode()
    assert process.returncode == 0
    assert "\x1b[" in written
    assert "needs you: permission" in click.unstyle(written)


# --- that it really checks ----------------------------------------------------------------------


@pytest.mark.parametrize("where", ["output", "spool/rejected/1.json", "log/sessionpipe.log"])
def test_a_credential_anywhere_is_found(where: str) -> None:
    token = demo.credential()
    with Stage() as stage:
        if where != "output":
            file = stage.state.root / where
            file.parent.mkdir(parents=True)
            file.write_text(f"x{token}x")
        found = demo.found_in(token, token.encode() if where == "output" else b"", stage.state)
    assert found == ["a sink's output" if where == "output" else where]


def test_a_credential_in_a_row_longer_than_a_page_is_found(recorder: Any) -> None:
    token = demo.credential()
    recorder.add("one", "tool.ended", {"tool": "x", "ok": True, "output": "y" * 3900 + token + "y" * 9000})
    assert "an event in the outbox" in demo.found_in(token, b"", recorder.state)


def test_each_credential_is_new_and_opens_nothing() -> None:
    assert len({demo.credential() for _ in range(20)}) == 20


def test_events_that_did_not_come_are_no_success() -> None:
    assert not demo.arrived([])


# --- playing ------------------------------------------------------------------------------------


def test_a_recording_moves_to_another_home_and_its_strings_are_swapped(tmp_path: Path) -> None:
    home = tmp_path / 'a "home"'
    recording = load(FIXTURE, home, {demo.PROMPT: "planted"})
    assert [hook.event for hook in recording.hooks][:2] == ["SessionStart", "UserPromptSubmit"]
    payloads = b"".join(hook.payload for hook in recording.hooks)
    assert b'"prompt":"planted"' in payloads
    assert b"/home/dev" not in payloads
    (transcript,) = recording.transcripts
    assert transcript.path.is_relative_to(home / ".claude" / "projects")
    times = [at for at, _ in transcript.lines]
    assert times == sorted(times)


def test_a_stage_leaves_nothing_and_ends_its_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Stage() as stage:
        recording = load(FIXTURE, stage.home, {})
        stage.fire(demo.HARNESS, recording.hooks[0])
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
