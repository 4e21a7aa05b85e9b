"""An agent nobody ever heard of: a table of the person's own, installed, run, changed and taken out again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.e2e.machine import Machine, wait_for
from tests.schema import assert_valid

ACME = """
harness = "acme"

[session]
id = "sid"
cwd = "$cwd"

[fields]
tool = "tool"

[events.Begin]
standing = "documented"
emit = [{ type = "session.started", source = "=startup" }]

[events.Cut]
standing = "documented"
emit = [{ type = "tool.ended", ok = true }]

[install]
kind = "entries"
dirs = ["~/.acme"]
file = "hooks.json"
at = ["hooks"]
entry = { run = "{command}" }
"""


def run(machine: Machine, event: str, payload: dict[str, str]) -> None:
    """The hook as the agent's file has it, run as the agent would."""
    entries = json.loads((machine.home / ".acme" / "hooks.json").read_text())["hooks"]
    done = subprocess.run(
        ["/bin/sh", "-c", entries[event][0]["run"]],
        env={"PATH": os.environ["PATH"], "HOME": str(machine.home)},
        input=json.dumps(payload).encode(),
        capture_output=True,
        cwd=machine.home,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def told(machine: Machine) -> list[str]:
    return [event["type"] for event in machine.events()]


def test_from_a_file_in_the_config_directory_to_events(machine: Machine) -> None:
    folder = machine.config / "adapters"
    folder.mkdir(parents=True)
    file = folder / "acme.toml"
    file.write_text(ACME)
    (folder / "broken.toml").write_text("harness = ")
    settings = machine.home / ".acme" / "hooks.json"
    settings.parent.mkdir()
    before = '{ "theme": "dark" }'
    settings.write_text(before)

    machine.sessionpipe("install", "acme")
    run(machine, "Begin", {"sid": "s-1"})
    wait_for(lambda: told(machine) == ["session.started"], "the session is recorded")

    # Changed while the worker, which waits for more, still runs.
    file.write_text(ACME.replace('type = "tool.ended", ok = true', 'type = "tool.ended", ok = false'))
    run(machine, "Cut", {"sid": "s-1", "tool": "Saw"})
    wait_for(lambda: len(told(machine)) == 2, "the call is recorded")
    last = machine.events()[-1]
    assert_valid(last)
    assert (last["harness"]["name"], last["data"]["tool"], last["data"]["ok"]) == ("acme", "Saw", False)

    doctor = machine.sessionpipe("doctor", check=False).stdout
    assert "acme is an adapter of your own, 2 events" in doctor
    assert "own adapter broken.toml: it is no TOML" in doctor
    assert str(Path("~/.acme/hooks.json")) in doctor
    mapped = machine.sessionpipe("map", "acme", "Begin", stdin='{"sid": "s-2"}')
    assert json.loads(mapped.stdout)["type"] == "session.started"

    machine.sessionpipe("uninstall", "acme")
    assert settings.read_text() == before


def test_one_that_was_refused_is_not_installed_and_says_why(machine: Machine) -> None:
    folder = machine.config / "adapters"
    folder.mkdir(parents=True)
    (folder / "acme.toml").write_text(ACME.replace('kind = "entries"', 'kind = "file"'))
    (folder / "other.toml").write_text("harness = ")
    for name, why in (("acme", "install.kind"), ("other", "it is no TOML")):
        done = machine.sessionpipe("install", name, check=False)
        assert done.returncode == 1
        assert why in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_the_hooks_of_one_whose_file_is_gone_are_not_forgotten_silently(machine: Machine) -> None:
    file = machine.config / "adapters" / "acme.toml"
    file.parent.mkdir(parents=True)
    file.write_text(ACME)
    machine.sessionpipe("install", "acme")
    file.unlink()
    done = machine.sessionpipe("uninstall", check=False)
    assert done.returncode == 1
    assert "left alone: its adapter is gone: put acme.toml back" in done.stdout
    file.write_text(ACME)
    machine.sessionpipe("uninstall")
    assert not (machine.home / ".acme").exists()
