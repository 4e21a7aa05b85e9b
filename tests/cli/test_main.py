"""The command line as a whole: what holds for every command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sessionpipe.cli import MODULES, cli
from tests.e2e.machine import SESSIONPIPE


@pytest.mark.parametrize("command", MODULES)
def test_every_command_says_how_it_is_used_with_an_example_and_does_nothing_else(
    command: str, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    done = CliRunner().invoke(cli, [command, "--help"], prog_name="sessionpipe")
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"sessionpipe {command}" in done.stdout
    assert "xample" in done.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_the_help_of_all_names_every_command() -> None:
    done = subprocess.run([*SESSIONPIPE, "-h"], capture_output=True, text=True)
    assert done.returncode == 0
    assert all(f"  {name} " in done.stdout for name in cli.list_commands(None))  # type: ignore[arg-type]


@pytest.mark.parametrize("arguments", [[], ["sinks"]])
def test_what_a_command_does_is_said_on_one_line_of_a_terminal(arguments: list[str]) -> None:
    shown = CliRunner().invoke(cli, [*arguments, "--help"], terminal_width=80).stdout
    commands = shown.partition("Commands:")[2].splitlines()[1:]
    assert len(commands) > 5
    assert [line for line in commands if not line.endswith(".") or line.endswith("...")] == []


def test_an_unknown_command_is_a_matter_of_usage() -> None:
    done = subprocess.run([*SESSIONPIPE, "frobnicate"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "frobnicate" in done.stderr


def test_a_fault_of_ours_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    script = (
        "import sessionpipe.cli.version as version, sessionpipe.__main__ as main, sys, click\n"
        "version.version.callback = lambda: {}['nowhere']\n"
        "sys.argv = ['sessionpipe', 'version']\n"
        "main.main()\n"
    )
    env = {"HOME": str(tmp_path), "SESSIONPIPE_STATE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "KeyError" in line
    assert "KeyError" in (tmp_path / "log" / "sessionpipe.log").read_text()


def test_a_character_the_terminal_cannot_show_fails_nothing(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"}
    payload = '{"session_id":"ü"}'
    done = subprocess.run(
        [*SESSIONPIPE, "map", "claude-code", "Stop"], env=env, input=payload.encode(), capture_output=True
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
@pytest.mark.parametrize("command", ["version", "status", "sessions --json", "redact"])
def test_what_could_not_be_printed_is_no_success(command: str, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*SESSIONPIPE, *command.split()], env=env, input=b"text", stdout=full)
    assert done.returncode != 0
