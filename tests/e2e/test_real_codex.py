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
from tests.e2e.machine import Machine
from tests.e2e.model import Model, model


@pytest.fixture
def codex(machine: Machine) -> Path:
    """Codex's folder, with our hooks in it."""
    folder = machine.home / ".codex"
    folder.mkdir()
    machine.sessionpipe("install", "codex")
    return folder


def run(machine: Machine, folder: Path, server: Model, trust: str = "") -> str:
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
        {trust}
        """
    )
    program = agents.program("SESSIONPIPE_TEST_CODEX", "codex")
    done = agents.run(
        machine,
        program,
        *("exec", "--skip-git-repo-check", "Say it"),
        MADE_UP_KEY="made up",
        SHELL="/bin/sh",
        SESSIONPIPE_NO_WORKER="1",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def state(machine: Machine) -> str:
    (harness,) = json.loads(machine.sessionpipe("status", "--json").stdout)["harnesses"]
    return str(harness["files"][0]["state"])


def test_untrusted_hooks_are_skipped_and_status_says_so(machine: Machine, codex: Path) -> None:
    with model("All done.") as server:
        assert run(machine, codex, server) == "All done.\n"
    assert agents.events(machine) == []
    assert state(machine) == "needs trust"


def test_trusted_hooks_fire(machine: Machine, codex: Path) -> None:
    hooks = codex / "hooks.json"
    document, target = Document(hooks.read_text()), targets()["codex"][0]
    # What Codex writes when the person trusts them.
    trust = "".join(
        f"[hooks.state.{json.dumps(f'{os.path.realpath(hooks)}:{key(event, place)}')}]\n"
        f'trusted_hash = "{handler_hash(document, event, place)}"\n'
        for event, place in places(document, target)
    )
    with model(("exec_command", {"cmd": "echo hello"}), "All done.") as server:
        assert run(machine, codex, server, trust) == "All done.\n"
    assert agents.events(machine) == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "SessionEnd",
    ]
    assert state(machine) == "installed"
