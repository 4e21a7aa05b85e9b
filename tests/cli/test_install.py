"""The two commands as a person types them: what they print, and how they exit."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.paths import State, state_dir
from tests.e2e.machine import SESSIONPIPE


@pytest.fixture
def claude() -> Path:
    folder = Path.home() / ".claude"
    folder.mkdir()
    return folder / "settings.json"


def call(*words: str, stdin: str = "") -> str:
    """A command in a process of its own, which has compiled nothing yet; what it prints."""
    return subprocess.run(
        [*SESSIONPIPE, *words], input=stdin, capture_output=True, text=True, check=True
    ).stdout


def lines(result: Any) -> list[list[str]]:
    """The lines printed, each split at its columns."""
    return [[cell for cell in line.split("  ") if cell] for line in result.stdout.splitlines()]


def test_each_file_has_a_line_and_the_home_is_a_tilde(run: Any, claude: Path) -> None:
    done = run("install")
    assert done.exit_code == 0, done.output
    launcher, *files, absent, now = [[cell.strip() for cell in line] for line in lines(done)]
    assert launcher == ["sessionpipe", str(State(state_dir()).launcher), "created"]
    assert files == [["claude-code", "~/.claude/settings.json", "created"]]
    assert absent[0].startswith("not on this machine: antigravity, codex, ")
    assert "`sessionpipe tail`" in now[0]
    again = run("install", "claude-code")
    assert again.exit_code == 0
    assert [line[-1].strip() for line in lines(again)] == ["unchanged", "unchanged"]


def test_rules_are_kept_compiled_for_whoever_redacts_until_it_is_uninstalled(claude: Path) -> None:
    pytest.importorskip("hyperscan")
    state = State(state_dir())

    def kept() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in state.compiled.iterdir()}

    call("install", "claude-code")
    compiled = kept()
    assert len(compiled) > 1
    gone = min(compiled)
    (state.compiled / gone).unlink()
    token = "ghp_" + "aB3dE6" * 6
    assert call("redact", stdin=token) == "[redacted]"
    assert kept() == {name: when for name, when in compiled.items() if name != gone}
    call("uninstall")
    assert not state.compiled.exists()


def test_uninstalling_says_what_went_and_then_that_nothing_is_there(run: Any, claude: Path) -> None:
    run("install", "claude-code")
    done = run("uninstall")
    assert done.exit_code == 0
    assert [line[-1].strip() for line in lines(done)] == ["deleted", "deleted"]
    again = run("uninstall")
    assert (again.exit_code, again.stdout) == (0, "nothing is installed\n")


def test_a_note_for_the_person_stands_at_the_end(run: Any) -> None:
    done = run("install", "codex")
    assert "/hooks" in done.stdout.splitlines()[-2]


def test_a_file_left_alone_fails_in_one_line_after_its_reason(run: Any, claude: Path) -> None:
    claude.write_text('{\n  // mine\n  "a": 1\n}')
    for command in (["install"], ["install", "--dry-run"]):
        done = run(*command)
        assert done.exit_code == 1
        assert "left alone: not plain JSON: a comment at line 2" in done.stdout
        assert done.stderr.count("\n") == 1


def test_a_place_that_another_makes_good_for_is_said_and_is_no_failure(run: Any) -> None:
    folder = Path.home() / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text('notify = ["bell"]\n')
    done = run("install")
    assert (done.exit_code, done.stderr) == (0, "")
    assert 'skipped: its "notify" is taken' in done.stdout
    assert (folder / "config.toml").read_text() == 'notify = ["bell"]\n'


def test_a_dry_run_prints_the_diff_and_says_so(run: Any, claude: Path) -> None:
    claude.write_text('{"a": "\\u001b[31m"}\n')
    done = run("install", "--dry-run", "claude-code")
    assert done.exit_code == 0
    assert '-{"a": "\\u001b[31m"}' in done.stdout.splitlines()
    assert "dry run" in done.stdout.splitlines()[-1]
    assert claude.read_text() == '{"a": "\\u001b[31m"}\n'
    assert not state_dir().exists()


def test_what_stands_in_a_file_cannot_speak_to_the_terminal(run: Any, claude: Path) -> None:
    claude.write_text('{"a": "\u202e\u009b31m"}\n')
    done = run("install", "--dry-run", "claude-code")
    assert done.exit_code == 0
    assert not {"\u202e", "\u009b"} & set(done.stdout)


def test_with_no_agent_here_it_says_what_to_do(run: Any) -> None:
    done = run("install")
    assert done.exit_code == 1
    assert "sessionpipe install claude-code" in done.stderr


def test_one_whose_folder_cannot_be_told_says_why(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", "not/absolute")
    done = run("install", "codex")
    assert done.exit_code == 1
    assert "codex was not found: the variable that names its folder is no full path" in done.stderr


def test_an_unknown_harness_is_a_usage_error_that_lists_the_known(run: Any) -> None:
    for command in ("install", "uninstall"):
        done = run(command, "vim")
        assert done.exit_code == 2
        assert "known are antigravity, claude-code, codex" in done.stderr


def test_a_mixed_home_is_refused_as_usage(run: Any, claude: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionpipe.install.account_home", Path.home)
    run("install", "claude-code")
    monkeypatch.setenv("CODEX_HOME", "/elsewhere")
    assert run("uninstall").exit_code == 2
    assert run("uninstall", "--everywhere").exit_code == 0


def test_a_state_directory_that_cannot_be_made_is_one_line(
    run: Any, claude: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude.with_name("file").touch()
    monkeypatch.setenv("SESSIONPIPE_STATE_DIR", str(claude.with_name("file") / "state"))
    done = run("install")
    assert done.exit_code == 1
    assert done.stderr.startswith("sessionpipe: ")
    assert done.stderr.count("\n") == 1
    assert "Errno" not in done.stderr and "SESSIONPIPE_STATE_DIR" in done.stderr
    assert not claude.exists()


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_help_has_examples(run: Any, command: str) -> None:
    done = run(command, "--help")
    assert done.exit_code == 0
    assert f"sessionpipe {command}" in done.stdout
    assert "Examples:" in done.stdout
