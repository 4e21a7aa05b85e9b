"""Each harness end to end: what `install` wrote is run as the harness runs it, over a recorded session."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.cli import playback
from sessionpipe.paths import data_dir
from tests.e2e.agents import node
from tests.e2e.machine import Machine
from tests.recorded import Hook, hooks
from tests.schema import assert_valid

RECORDED_HOME = "/home/dev"
PLAYER = Path(__file__).resolve().parents[1] / "install" / "player.mjs"


def scenario(harness: str, name: str) -> Path:
    return data_dir("conformance") / "harness" / harness / name


class Delivered:
    """What the file sink got, checked for what holds for every session."""

    def __init__(self, path: Path) -> None:
        self.events: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
        by_session: dict[str, list[int]] = {}
        for event in self.events:
            assert_valid(event)
            by_session.setdefault(event["session"]["id"], []).append(event["session"]["seq"])
        for seqs in by_session.values():
            assert seqs == list(range(len(seqs)))
        assert len({event["id"] for event in self.events}) == len(self.events)

    def told(self) -> list[str]:
        """Each event in a word or two: its type, and the word that tells it from others of its type."""
        telling = ("tool", "source", "reason", "kind", "how", "trigger", "agent_id")
        return [
            " ".join([e["type"], *(str(e["data"][name]) for name in telling if name in e["data"])][:2])
            for e in self.events
        ]


@pytest.fixture
def installed(machine: Machine) -> Machine:
    machine.sessionpipe("install", "claude-code", "codex", "pi")
    machine.sessionpipe("sinks", "add", f"file:{machine.root / 'events.ndjson'}", "--tier", "3")
    return machine


def at_home(machine: Machine, text: str) -> str:
    return text.replace(RECORDED_HOME, str(machine.home))


def run(machine: Machine, command: str, hook: Hook) -> None:
    """Run a hook command as the harness does: by the shell, with its environment and its payload."""
    env = {name: at_home(machine, value) for name, value in hook.env.items()}
    done = subprocess.run(
        ["/bin/sh", "-c", command, *hook.args],
        env={**env, "PATH": os.environ["PATH"], "HOME": str(machine.home)},
        input=at_home(machine, hook.stdin.decode()).encode(),
        capture_output=True,
        cwd=machine.home,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def commands(path: Path) -> dict[str, str]:
    """The command per event, from a file of Claude Code's shape."""
    entries = json.loads(path.read_text())["hooks"]
    return {event: group[-1]["hooks"][0]["command"] for event, group in entries.items()}


def play(
    machine: Machine,
    settings: Path,
    recorded: Path,
    before: Callable[[Hook | None], None] = lambda hook: None,
) -> Delivered:
    registered = commands(settings)
    for hook in hooks(recorded):
        if hook.event in registered:
            before(hook)
            run(machine, registered[hook.event], hook)
    before(None)
    machine.sessionpipe("flush")
    return Delivered(machine.root / "events.ndjson")


def test_claude_code(installed: Machine) -> None:
    recorded = scenario("claude-code", "tui-permission")
    recording = playback.load(recorded, installed.home, {})
    written = [0] * len(recording.transcripts)

    def grow(hook: Hook | None) -> None:
        playback.grow(recording.transcripts, written, sys.maxsize if hook is None else hook.at_ms)

    delivered = play(installed, installed.home / ".claude" / "settings.json", recorded, grow)
    assert [told for told in delivered.told() if told != "turn.transcript"] == [
        "session.started startup",
        "turn.started",
        "tool.started Write",
        "attention.needed Write",
        "attention.cleared answered",
        "tool.ended Write",
        "files.changed",
        "turn.ended stop",
        "turn.started",
        "tool.started Bash",
        "attention.needed Bash",
        # Declined, of which no hook tells: the transcript does, at the next hook.
        "attention.cleared cancelled",
        "turn.ended interrupt",
        "turn.started",
        "tool.started Bash",
        "attention.needed Bash",
        "attention.cleared answered",
        "tool.ended Bash",
        "tool.started Bash",
        "attention.needed Bash",
        "attention.cleared answered",
        "tool.ended Bash",
        "turn.ended stop",
        "session.ended exit",
    ]
    said = [
        (e["data"]["turn"], e["data"]["user"]) for e in delivered.events if e["type"] == "turn.transcript"
    ]
    assert said == [(1, "Try write"), (2, "Try touch"), (3, "Try both")]
    session = delivered.events[-1]["session"]
    assert (session["cwd"], session["attended"], session["model"]) == ("~/src", True, "claude-opus-5-5")
    assert (session["title"], session["title_source"]) == ("Try write", "first-ask")


def test_codex(installed: Machine) -> None:
    delivered = play(installed, installed.home / ".codex" / "hooks.json", scenario("codex", "apply_patch"))
    # The second patch fails its verification, the fourth goes through the shell: Codex fires no end for either.
    assert delivered.told() == [
        "session.started startup",
        "turn.started",
        "tool.started apply_patch",
        "tool.ended apply_patch",
        "files.changed",
        "tool.started apply_patch",
        "tool.started apply_patch",
        "tool.ended apply_patch",
        "files.changed",
        "tool.started Bash",
        "turn.ended stop",
        "session.ended other",
    ]
    assert {e["session"]["model"] for e in delivered.events} == {"gpt-5.5"}
    assert [e["data"]["paths"] for e in delivered.events if e["type"] == "files.changed"]


def test_pi(installed: Machine) -> None:
    extension = installed.home / ".pi" / "agent" / "extensions" / "sessionpipe.js"
    module = installed.root / "extension.mjs"  # a bare node tells modules by their ending
    module.write_text(extension.read_text())
    recorded = (data_dir("conformance") / "extension" / "pi" / "c-tools.ndjson").read_text()
    recording = installed.root / "recording.ndjson"
    recording.write_text(at_home(installed, recorded))
    place = Path(at_home(installed, json.loads(recorded.split("\n")[0])["ctx"]["sessionFile"]))
    place.parent.mkdir(parents=True)
    shutil.copy(scenario("pi", "c-tools") / "files" / place.name, place)
    done = subprocess.run(
        [node(18), PLAYER, module, recording],
        env={"PATH": os.environ["PATH"], "HOME": str(installed.home)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    installed.sessionpipe("flush")
    told = Delivered(installed.root / "events.ndjson").told()
    # Read from the session's file, which may be before or after its end was told.
    told.remove("turn.transcript")
    assert told == [
        "session.started startup",
        "turn.started",
        "tool.started bash",
        "tool.ended bash",
        "tool.started read",
        "tool.ended read",
        "tool.started write",
        "tool.ended write",
        "files.changed",
        "tool.started edit",
        "tool.ended edit",
        "files.changed",
        "turn.ended stop",
        "session.ended exit",
    ]


def test_what_was_said_in_pi(installed: Machine) -> None:
    recorded = scenario("pi", "l-two-prompts")
    first = next(hooks(recorded))
    place = Path(at_home(installed, json.loads(first.stdin)["ctx"]["sessionFile"]))
    place.parent.mkdir(parents=True)
    shutil.copy(recorded / "files" / place.name, place)
    for hook in hooks(recorded):
        run(installed, f'"{installed.state.launcher}" pi {hook.event}', hook)
    installed.sessionpipe("flush")
    delivered = Delivered(installed.root / "events.ndjson")
    said = [e["data"] for e in delivered.events if e["type"] == "turn.transcript"]
    assert [(one["turn"], one["user"], one["assistant"]) for one in said] == [
        (1, "First prompt", "Answer to prompt one."),
        (2, "Second prompt", "Answer to prompt two."),
    ]
    assert delivered.events[-1]["session"]["title"] == "Named run"


def test_uninstalled_while_an_agent_still_has_the_hooks_loaded(installed: Machine) -> None:
    registered = commands(installed.home / ".claude" / "settings.json")
    installed.sessionpipe("uninstall")
    shutil.rmtree(installed.state.root, ignore_errors=True)
    for hook in list(hooks(scenario("claude-code", "tui-permission")))[:2]:
        run(installed, registered[hook.event], hook)
    assert not installed.state.root.exists()
