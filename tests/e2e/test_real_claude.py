"""The real Claude Code accepts what ``install`` wrote, and fires it."""

from __future__ import annotations

import pytest

from tests.e2e import agents
from tests.e2e.machine import Machine
from tests.e2e.model import model


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
            ANTHROPIC_API_KEY="made up",
            ANTHROPIC_BASE_URL=server.url,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
            SESSIONPIPE_NO_WORKER="1",
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
