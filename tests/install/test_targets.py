"""The ``[install]`` tables say where hooks go, and a person's folder names are only ever names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessionpipe.adapters import registry
from sessionpipe.adapters.values import conditions
from sessionpipe.hook import ANSWERS
from sessionpipe.install.jsontree import TOLERANCES
from sessionpipe.install.targets import SYSTEM, Target, answers, expand, home, places, targets

ENV = {"HOME": "/home/dev", "PLACE": "/srv/place", "EMPTY": "", "RELATIVE": "place"}


@pytest.mark.parametrize(
    ("pattern", "expanded"),
    [
        ("~/.claude", "/home/dev/.claude"),
        ("~", "/home/dev"),
        ("~other/x", None),
        ("${PLACE}", "/srv/place"),
        ("${PLACE}/x", "/srv/place/x"),
        ("${ABSENT}", None),
        ("${EMPTY}", None),
        ("${RELATIVE}", None),
        ("${PLACE:-~/.codex}", "/srv/place"),
        ("${ABSENT:-~/.codex}/x", "/home/dev/.codex/x"),
        ("${EMPTY:-~/.codex}", "/home/dev/.codex"),
    ],
)
def test_patterns_become_absolute_folders_or_nothing(pattern: str, expanded: str | None) -> None:
    assert expand(pattern, ENV) == expanded


def test_a_star_in_somebody_s_name_is_no_pattern(tmp_path: Path) -> None:
    odd = tmp_path / "a*[b]"
    for name in (odd, tmp_path / "axb"):
        (name / ".claude-work").mkdir(parents=True)
        (name / ".claude-work" / "settings.json").touch()
    target = Target("x", (), {"dirs": ["~/.claude-*"], "marks": ["settings.json"], "file": "settings.json"})
    assert target.files({"HOME": str(odd)}) == [odd / ".claude-work" / "settings.json"]


def test_a_folder_that_may_not_be_looked_into_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = Target("x", (), {"dirs": ["${PLACE}", "~/file"], "file": "f"})
    assert target.files({"HOME": str(tmp_path), "PLACE": "/proc/1/root/x"}) == []


def test_the_home_is_the_environment_s_before_the_account_s() -> None:
    assert home({"HOME": "/home/dev"}) == Path("/home/dev")
    assert home({"HOME": "", "USERPROFILE": "/users/dev"}) == Path("/users/dev")
    assert home({}).is_absolute()


EVERY = [target for places in targets().values() for target in places]


@pytest.mark.parametrize("target", EVERY, ids=lambda target: f"{target.harness} {target.table['file']}")
def test_every_table_is_whole(target: Target) -> None:
    known = {
        "entries": {
            *("allowed", "at", "beside", "entry", "listed", "matched", "matcher", "own"),
            *("plain", "reads", "strict", "timeout", "timeouts", "trust"),
        },
        "file": {"source"},
        "setting": {"key", "event", "taken"},
    }
    shared = {
        *(
            "kind",
            "dirs",
            "marks",
            "others",
            "there",
            "file",
            "exists",
            "unless_beside",
            "events",
            "optional",
        ),
        *("inactive", "note", "never", "answer", "unanswered", "windows", "macos", "linux"),
    }
    table = target.table
    assert set(table) <= shared | known[target.kind]
    assert target.events
    assert set(target.events) <= registry.adapter(target.harness).events.keys()
    assert set(table.get("matched", ())) | set(table.get("timeouts", ())) <= set(target.events)
    assert set(target.reads) <= TOLERANCES
    assert isinstance(table.get("answer", ""), str)
    for switch in table.get("inactive", ()):
        assert set(switch) <= {"file", "when", "unless", "why", "mend"}
        assert switch["why"] and switch["mend"]
        assert conditions({key: switch[key] for key in switch.keys() & {"when", "unless"}}, "here")


def test_every_harness_with_an_install_table_is_a_target() -> None:
    assert set(targets()) == {name for name in registry.names() if "install" in registry.table(name)}


#: What a harness must never be asked to run for us: gates, what replaces its own work, what runs all the time.
NEVER = {
    "antigravity": {"PreToolUse"},
    "claude-code": {
        *("WorktreeCreate", "MessageDisplay", "PreSkillShellCommand", "PreModelSwitch", "FileChanged"),
    },
    "codex": {"PreModelRequest", "PostModelRequest"},
    "copilot-cli": {"permissionRequest", "PermissionRequest", "userPromptTransformed", "preMcpToolCall"},
    "cursor": {
        *("beforeShellExecution", "beforeMCPExecution", "beforeReadFile"),
        *("beforeTabFileRead", "afterTabFileEdit", "workspaceOpen"),
    },
    "gemini-cli": {"AfterModel", "BeforeModel", "BeforeToolSelection"},
}
#: Where one name that the harness does not know disables the whole file: all that it knows.
STRICT = {
    "devin": {
        *("PreToolUse", "PostToolUse", "PermissionRequest", "UserPromptSubmit"),
        *("Stop", "PostCompaction", "SessionStart", "SessionEnd"),
    },
}


def test_what_must_never_be_registered_is_not_whatever_the_adapter_makes_of_it() -> None:
    for name, events in NEVER.items():
        assert events <= set(registry.table(name)["install"]["never"])
    for target in EVERY:
        assert not set(target.events) & NEVER.get(target.harness, set())
    table = {"events": {"a": {"emit": [1]}, "b": {"emit": [1]}}}
    (made,) = places("made-up", {"kind": "file", "never": ["a"]}, lambda: table, SYSTEM)
    assert made.events == ("b",)
    (asked,) = places("made-up", {"never": ["a"], "events": ["a", "b"]}, lambda: table, SYSTEM)
    assert asked.events == ("b",)


@pytest.mark.parametrize("harness", registry.names())
def test_what_is_read_of_a_file_alone_is_what_it_says_of_installing(harness: str) -> None:
    assert registry.install_table(harness) == registry.table(harness)["install"]


def test_where_an_unknown_name_disables_the_file_only_known_ones_are_written() -> None:
    assert {target.harness for target in EVERY if target.allowed} == {"cursor", "devin"}
    for target in EVERY:
        if target.allowed:
            assert set(target.events) <= set(target.allowed)
            assert set(target.allowed) == STRICT.get(target.harness, set(target.allowed))


@pytest.mark.parametrize(
    ("harness", "unit", "timeout"),
    [
        ("antigravity", "timeout", 5),
        ("claude-code", "timeout", 5),
        ("codex", "timeout", 5),
        ("copilot-cli", "timeoutSec", 5),
        ("cursor", "timeout", 5),
        ("devin", "timeout", 5),
        ("droid", "timeout", 5),
        ("gemini-cli", "timeout", 5000),
        ("goose", "timeout", 5),
    ],
)
def test_a_timeout_is_in_the_harness_s_own_unit(harness: str, unit: str, timeout: int) -> None:
    for target in targets()[harness]:
        if target.kind == "entries":
            found = {str(entry) for entry in target.entries(Path("/x/bin/sessionpipe-hook")).values()}
            assert any(f"'{unit}': {timeout}" in entry for entry in found)
            assert not any(f"'{unit}': '" in entry for entry in found)


def test_kiro_s_two_formats_count_their_timeouts_in_two_units() -> None:
    files, agents = (target.entries(Path("/x/bin/sessionpipe-hook")) for target in targets()["kiro"])
    assert {entry["timeout"] for entry in files.values()} == {5}
    assert {entry["timeout_ms"] for entry in agents.values()} == {5000}


@pytest.mark.parametrize(
    ("system", "harness", "folder"),
    [
        ("linux", "devin", "/home/dev/.config/devin"),
        ("macos", "devin", "/home/dev/.config/devin"),
        ("windows", "devin", "/app/data/devin"),
        *((system, "cursor", "/home/dev/.cursor") for system in ("linux", "macos", "windows")),
        *((system, "antigravity", "/home/dev/.gemini/config") for system in ("linux", "macos", "windows")),
    ],
)
def test_each_system_has_its_folders(system: str, harness: str, folder: str) -> None:
    env = {"HOME": "/home/dev", "APPDATA": "/app/data"}
    (target,) = targets(system)[harness]
    assert [str(path.parent) for path in target.files(env, missing=True)] == [folder]


def test_another_harness_s_folder_beside_is_no_sign_of_one(tmp_path: Path) -> None:
    (tmp_path / ".gemini").mkdir()
    (antigravity,) = targets()["antigravity"]
    env = {"HOME": str(tmp_path)}
    assert not antigravity.files(env)
    (tmp_path / ".gemini" / "antigravity-cli").mkdir()
    assert antigravity.files(env) == [tmp_path / ".gemini" / "config" / "hooks.json"]
    (gemini,) = targets()["gemini-cli"]
    assert not gemini.files(env)
    (tmp_path / ".gemini" / "oauth_creds.json").touch()
    assert gemini.files(env) == [tmp_path / ".gemini" / "settings.json"]


def test_what_comes_as_an_argument_is_no_hook() -> None:
    assert registry.table("codex")["events"]["notify"]["payload"] == "argument"
    assert "notify" not in targets()["codex"][0].events


def test_nobody_is_answered_who_does_not_want_it() -> None:
    assert {
        name: dict.fromkeys(answer.silent, b"") | {"*": answer.text.encode()}
        for name, answer in answers().items()
    } == ANSWERS
