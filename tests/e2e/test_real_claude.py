"""The real Claude Code accepts what ``install`` wrote, fires it, and what it does not fire is learnt."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.e2e import agents
from tests.e2e.machine import Machine, wait_for
from tests.e2e.model import Held, Model, model
from tests.patience import PATIENCE_S


@pytest.fixture
def claude(machine: Machine) -> str:
    program = agents.program("SESSIONPIPE_TEST_CLAUDE", "claude")
    (machine.home / ".claude").mkdir()
    machine.sessionpipe("install", "claude-code")
    return program


def environment(server: Model) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "made up",
        "ANTHROPIC_BASE_URL": server.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_AUTOUPDATER": "1",
        "SESSIONPIPE_NO_WORKER": "1",
    }


def ends(machine: Machine) -> list[tuple[str, object, object]]:
    """How turns and sessions ended, and what was said in them."""
    found = []
    for event in agents.told(machine):
        data = event["data"]
        if event["type"] in ("turn.ended", "session.ended"):
            found.append((event["type"], data["reason"], data.get("error")))
        elif event["type"] == "turn.transcript":
            found.append((event["type"], data["user"], data["assistant"]))
    return found


@pytest.mark.parametrize(
    "settings", ["", '\ufeff{"env": {"A": "b"}}'], ids=["none", "with a byte order mark"]
)
def test_claude_code_fires_the_installed_hooks(machine: Machine, settings: str) -> None:
    claude = agents.program("SESSIONPIPE_TEST_CLAUDE", "claude")
    (machine.home / ".claude").mkdir()
    if settings:
        (machine.home / ".claude" / "settings.json").write_text(settings, "utf-8")
    machine.sessionpipe("install", "claude-code")
    with model(("Bash", {"command": "exit 3", "description": "Fail"}), "All done.") as server:
        done = agents.run(
            machine,
            claude,
            *("-p", "Fail once", "--allowedTools", "Bash"),
            **environment(server),
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "All done.\n", "")
    assert agents.events(machine) == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUseFailure",
        "Stop",
        "SessionEnd",
    ]


def test_a_run_that_an_overloaded_api_stopped_ends_in_an_error(machine: Machine, claude: str) -> None:
    with model(*[529] * 4) as server:
        done = agents.run(machine, claude, "-p", "Say it", **environment(server))
    assert done.returncode == 1
    # Claude Code may tell it itself before it ends, and may not.
    assert ends(machine) == [
        ("turn.ended", "error", "server_error"),
        ("session.ended", "other", None),
        ("turn.transcript", "Say it", ""),
    ]


def test_an_interruption_is_learnt_from_the_transcript(machine: Machine, claude: str) -> None:
    with model(Held("never"), Held("never")) as server:
        run = subprocess.Popen(
            [claude, "-p", "Talk long"],
            env=machine.environment(**agents.OFFLINE, **environment(server)),
            cwd=agents.work(machine),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(lambda: server.asked, "the model to be asked")
            run.send_signal(signal.SIGINT)
            run.wait(PATIENCE_S)
        finally:
            run.kill()
            run.wait()
    assert agents.events(machine) == ["SessionStart", "UserPromptSubmit", "SessionEnd"]
    assert ends(machine) == [
        ("turn.ended", "interrupt", None),
        ("session.ended", "other", None),
        ("turn.transcript", "Talk long", ""),
    ]
