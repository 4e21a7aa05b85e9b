"""The real Codex accepts what ``install`` wrote, fires it once trusted, and we know when that is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sessionpipe.install.entries import places
from sessionpipe.install.jsonedit import Document
from sessionpipe.install.targets import targets
from sessionpipe.install.trust import handler_hash, key
from tests.e2e import agents
from tests.e2e.machine import Machine, wait_for
from tests.e2e.model import Model, model


@pytest.fixture
def codex(machine: Machine) -> Path:
    """Codex's folder."""
    folder = machine.home / ".codex"
    folder.mkdir()
    return folder


def configure(machine: Machine, folder: Path, server: Model) -> None:
    """A person's settings, and then our hooks and our line in them."""
    (folder / "config.toml").write_text(
        f"""
model = "made-up"
model_provider = "loopback"
[model_providers.loopback]
name = "loopback"
base_url = "{server.url}/v1"
env_key = "MADE_UP_KEY"
wire_api = "responses"
[analytics]
enabled = false
"""
    )
    machine.sessionpipe("install", "codex")


def trust(folder: Path) -> None:
    """What Codex writes when the person trusts the hooks."""
    hooks = folder / "hooks.json"
    document, target = Document(hooks.read_text()), targets()["codex"][0]
    with (folder / "config.toml").open("a") as file:
        for event, place in places(document, target):
            name = json.dumps(f"{os.path.realpath(hooks)}:{key(event, place)}")
            digest = handler_hash(document, event, place)
            file.write(f'[hooks.state.{name}]\ntrusted_hash = "{digest}"\n')


def run(machine: Machine, *, fails: bool = False, **env: str) -> str:
    program = agents.program("SESSIONPIPE_TEST_CODEX", "codex")
    done = agents.run(
        machine,
        program,
        *("exec", "--skip-git-repo-check", "Say it"),
        MADE_UP_KEY="made up",
        SHELL="/bin/sh",
        **env,
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stdout


def states(machine: Machine) -> list[str]:
    (harness,) = json.loads(machine.sessionpipe("status", "--json").stdout)["harnesses"]
    return [file["state"] for file in harness["files"]]


def test_untrusted_hooks_are_skipped_and_status_says_so_but_the_turn_s_end_is_told(
    machine: Machine, codex: Path
) -> None:
    with model("All done.") as server:
        configure(machine, codex, server)
        assert run(machine, SESSIONPIPE_NO_WORKER="1") == "All done.\n"
    wait_for(lambda: agents.events(machine) == ["notify"], "the notify program's job")
    assert states(machine) == ["needs trust", "installed"]


def test_trusted_hooks_fire(machine: Machine, codex: Path) -> None:
    with model(("exec_command", {"cmd": "echo hello"}), "All done.") as server:
        configure(machine, codex, server)
        trust(codex)
        assert run(machine, SESSIONPIPE_NO_WORKER="1") == "All done.\n"
    wait_for(lambda: "notify" in agents.events(machine), "the notify program's job")
    assert [event for event in agents.events(machine) if event != "notify"] == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "SessionEnd",
    ]
    assert states(machine) == ["installed", "installed"]


@pytest.mark.parametrize("trusted", [True, False])
def test_a_turn_ends_once_whether_the_hooks_or_only_notify_told(
    machine: Machine, codex: Path, trusted: bool
) -> None:
    with model("All done.") as server:
        configure(machine, codex, server)
        if trusted:
            trust(codex)
        assert run(machine) == "All done.\n"
    last = "session.ended" if trusted else "turn.ended"
    wait_for(lambda: last in [event["type"] for event in machine.events()], last)
    told = ["session.started", "turn.started", "turn.ended", "session.ended"]
    wanted = told if trusted else ["session.started", "turn.ended"]
    assert [event["type"] for event in machine.events() if event["type"] in told] == wanted


def test_what_codex_made_of_its_settings_stays_and_ours_goes(machine: Machine, codex: Path) -> None:
    with model("All done.") as server:
        configure(machine, codex, server)
        trust(codex)
        before = (codex / "config.toml").read_text()
        run(machine, SESSIONPIPE_NO_WORKER="1")
    after = (codex / "config.toml").read_text()
    (ours,) = [line for line in after.splitlines(keepends=True) if line.startswith("notify = ")]
    assert ours in before
    machine.sessionpipe("uninstall", "codex")
    assert (codex / "config.toml").read_text() == after.replace(ours, "")
    assert not (codex / "hooks.json").exists()


def summary(machine: Machine) -> list[tuple[object, ...]]:
    """How turns ended, and what was said in them."""
    found: list[tuple[object, ...]] = []
    for event in agents.told(machine):
        data = event["data"]
        if event["type"] == "turn.ended":
            found.append((event["type"], data["reason"], data.get("error")))
        elif event["type"] == "turn.transcript":
            found.append((event["type"], data["user"], data["assistant"]))
    return found


@pytest.mark.parametrize("trusted", [True, False])
def test_what_was_said_is_told_from_the_rollout(machine: Machine, codex: Path, trusted: bool) -> None:
    with model(("exec_command", {"cmd": "echo hello"}), "All done.") as server:
        configure(machine, codex, server)
        if trusted:
            trust(codex)
        run(machine, SESSIONPIPE_NO_WORKER="1")
    wait_for(lambda: "notify" in agents.events(machine), "the notify program's job")
    assert summary(machine) == [("turn.ended", "stop", None), ("turn.transcript", "Say it", "All done.")]
    session = machine.events()[0]["session"]
    assert (session["title"], session["attended"]) == ("Say it", False)


def test_a_turn_that_the_api_refused_is_learnt_from_the_rollout(machine: Machine, codex: Path) -> None:
    with model(400, 400) as server:
        configure(machine, codex, server)
        trust(codex)
        run(machine, fails=True, SESSIONPIPE_NO_WORKER="1")
    assert agents.events(machine) == ["SessionStart", "UserPromptSubmit", "SessionEnd"]
    (ended, said) = summary(machine)
    assert ended[:2] == ("turn.ended", "error")
    assert said == ("turn.transcript", "Say it", "")
