"""Whether an agent runs our hooks, from what its own settings say: with the reason, and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.install import FileState, inspect, standing

from .person import Person, did


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def state(person: Person, harness: str, index: int = 0) -> FileState:
    return dict(inspect(env=person.env, state=person.state))[harness][index]


SWITCHES = [
    ("claude-code", ".claude/settings.json", {"disableAllHooks": True}, "disableAllHooks"),
    ("gemini-cli", ".gemini/settings.json", {"hooksConfig": {"enabled": False}}, "hooksConfig.enabled"),
    (
        "gemini-cli",
        ".gemini/settings.json",
        {"hooksConfig": {"disabled": ["sessionpipe"]}},
        "hooksConfig.disabled",
    ),
    ("gemini-cli", ".gemini/settings.json", {"tools": {"enableHooks": False}}, "before 0.46"),
    ("antigravity", ".gemini/config/hooks.json", {"enabled": True}, "enabled at the top level"),
    ("copilot-cli", ".copilot/hooks/sessionpipe.json", {"disableAllHooks": True}, "disableAllHooks"),
    ("cursor", ".cursor/hooks.json", {"version": "1"}, "version"),
    ("cursor", ".cursor/hooks.json", {"version": 2}, "version"),
    ("cursor", ".cursor/hooks.json", {"hooks": {"beforeCoffee": []}}, "beforeCoffee"),
    ("devin", ".config/devin/config.json", {"hooks": {"Notification": []}}, "Notification"),
]


@pytest.mark.parametrize(("harness", "file", "settings", "why"), SWITCHES)
def test_what_switches_hooks_off_is_named(
    person: Person, harness: str, file: str, settings: dict[str, Any], why: str
) -> None:
    path = person.home / file
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(settings))
    person.install(harness)
    found = state(person, harness)
    assert (found.path, found.state) == (path, "inactive")
    assert why in found.why and found.mend


HANDLER = {"type": "command", "command": "x", "timeout": 9}


@pytest.mark.parametrize(
    "spoilt",
    [
        {"timeout": 1.5},
        {"timeout": "9"},
        {"timeout": 1 << 31},
        {"timeout": True},
        {"type": "http"},
        {"type": 1},
    ],
)
@pytest.mark.parametrize("grouped", [False, True], ids=["flat", "in a group"])
def test_a_handler_of_anybody_s_that_spoils_antigravity_s_file_is_named(
    person: Person, spoilt: dict[str, Any], grouped: bool
) -> None:
    path = person.home / ".gemini/config/hooks.json"
    path.parent.mkdir(parents=True)
    handler = {**HANDLER, **spoilt}
    theirs = {"PostToolUse": [{"hooks": [HANDLER, handler]}]} if grouped else {"Stop": [handler]}
    path.write_text(json.dumps({"timeout": {}, "theirs": theirs}, indent=1))
    person.install("antigravity")
    found = state(person, "antigravity")
    (name,) = spoilt
    line = next(
        at for at, text in enumerate(path.read_text().split("\n"), 1) if json.dumps(spoilt)[1:-1] in text
    )
    assert (found.state, found.mend) == ("inactive", f'mend a "{name}" at line {line}')


@pytest.mark.parametrize(
    ("harness", "file", "settings"),
    [
        ("antigravity", ".gemini/config/hooks.json", {"type": {"timeout": {}, "Stop": [HANDLER]}}),
        ("claude-code", ".claude/settings.json", {"disableAllHooks": False}),
        ("gemini-cli", ".gemini/settings.json", {"hooksConfig": {"enabled": True, "disabled": ["bell"]}}),
        ("gemini-cli", ".gemini/settings.json", {"tools": {"enableHooks": True}}),
        ("cursor", ".cursor/hooks.json", {"version": 1, "hooks": {"beforeReadFile": [{"command": "x"}]}}),
        ("devin", ".config/devin/config.json", {"hooks": {"Stop": []}, "Notification": []}),
        ("goose", ".config/goose/settings.json", {"disabledPlugins": ["other"]}),
        ("codex", ".codex/hooks.json", {"hooks": {"Anything": []}}),
    ],
)
def test_what_switches_nothing_off_is_no_reason(
    person: Person, harness: str, file: str, settings: dict[str, Any]
) -> None:
    path = person.home / file
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(settings))
    person.install(harness)
    assert state(person, harness).state in ("installed", "needs trust")


@pytest.mark.parametrize(
    ("harness", "file", "settings", "why"),
    [
        (
            "claude-code",
            ".claude/settings.json",
            {"disableAllHooks": True},
            "take disableAllHooks out of it.",
        ),
        ("devin", ".config/devin/config.json", {"hooks": {"Notification": []}}, '"Notification"'),
        ("goose", ".config/goose/settings.json", {"disabledPlugins": ["sessionpipe"]}, "disabledPlugins"),
    ],
)
def test_install_says_at_once_that_the_agent_will_not_run_them(
    person: Person, harness: str, file: str, settings: dict[str, Any], why: str
) -> None:
    path = person.home / file
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(settings))
    notes = [report.note for report in person.install(harness)]
    assert any(note.startswith(f"{harness} will not run them: ") and why in note for note in notes)


def test_without_ours_in_it_a_file_is_missing_whatever_it_switches(person: Person) -> None:
    path = person.home / ".config" / "devin" / "config.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"hooks": {"Notification": []}}')
    assert state(person, "devin").state == "missing"


def test_a_switch_may_stand_in_another_file(person: Person) -> None:
    person.has(person.home / ".config" / "goose", person.codex)
    person.install()
    (person.home / ".config" / "goose" / "settings.json").write_text(
        '{"disabledPlugins": ["a", "sessionpipe"]}'
    )
    assert [state(person, "goose", index).state for index in (0, 1)] == ["inactive", "inactive"]
    config = person.codex / "config.toml"
    for name in ("hooks", "codex_hooks"):
        config.write_text(f"{config.read_text().splitlines()[0]}\n[features]\n{name} = false\n")
        assert f"features.{name}" in state(person, "codex").why
    assert state(person, "codex", 1).state == "installed"


@pytest.mark.parametrize("settings", ["", "{", "[]", "\xff", '{"disabledPlugins": "sessionpipe"}'])
def test_settings_that_say_nothing_switch_nothing_off(person: Person, settings: str) -> None:
    person.has(person.home / ".config" / "goose")
    person.install()
    (person.home / ".config" / "goose" / "settings.json").write_bytes(settings.encode("latin-1"))
    assert state(person, "goose").state == "installed"


def test_a_group_of_ours_that_is_switched_off_is_inactive_until_it_is_switched_on(person: Person) -> None:
    person.install("antigravity")
    path = person.home / ".gemini" / "config" / "hooks.json"
    path.write_text(path.read_text().replace('"enabled": true', '"enabled": false'))
    assert state(person, "antigravity").state == "inactive"
    assert did(person.install("antigravity")) == [("antigravity", "unchanged")]


def test_a_hooks_file_that_appears_makes_droid_s_settings_inactive_and_install_moves_over(
    person: Person,
) -> None:
    folder = person.home / ".factory"
    person.has(folder)
    settings, hooks = folder / "settings.json", folder / "hooks.json"
    settings.write_text('{"model": "made up"}')
    person.install()
    assert state(person, "droid").state == "installed"
    hooks.write_text('{"Stop": []}')
    assert [
        (file.path.name, file.state) for file in dict(inspect(env=person.env, state=person.state))["droid"]
    ] == [
        ("hooks.json", "missing"),
        ("settings.json", "inactive"),
    ]
    assert did(person.install()) == [("droid", "added"), ("droid", "restored")]
    assert settings.read_text() == '{"model": "made up"}'
    assert person.states() == {"droid": ["installed"]}
    person.uninstall()
    assert hooks.read_text() == '{"Stop": []}'


def test_a_program_of_the_person_s_is_no_fault(person: Person) -> None:
    person.has(person.codex)
    (person.codex / "config.toml").write_text('notify = ["bell"]\n')
    reports = {report.path.name: report for report in person.install() if report.path}
    assert reports["config.toml"].did == "skipped"
    assert "yours stays" in reports["config.toml"].why
    assert [state(person, "codex", index).state for index in (0, 1)] == ["needs trust", "skipped"]


def test_a_variable_may_say_where_the_machine_s_settings_are(person: Person, tmp_path: Path) -> None:
    (tmp_path / "system.json").write_text('{"hooksConfig": {"enabled": false}}')
    person.env["GEMINI_CLI_SYSTEM_SETTINGS_PATH"] = str(tmp_path / "system.json")
    person.install("gemini-cli")
    assert "this machine's own settings" in state(person, "gemini-cli").why


def test_a_switch_that_a_machine_s_manager_set_is_found(
    person: Person, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    person.has(person.claude)
    person.install()
    managed = tmp_path / "managed-settings.json"
    monkeypatch.setattr(standing, "_settings", lambda *_: [tmp_path / "none.json", managed])
    assert state(person, "claude-code").state == "installed"
    managed.write_text('{"allowManagedHooksOnly": true}')
    assert "allowManagedHooksOnly" in state(person, "claude-code").why
