"""Installing and uninstalling over a home like people's: what is written, left alone, and given back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sessionpipe import faults
from sessionpipe.install import Elsewhere, UnknownHarness, install
from sessionpipe.install.launcher import recognise
from sessionpipe.install.targets import targets
from sessionpipe.paths import State

from .person import Person, did

#: Three that are installed in three ways: entries, entries and a setting, a file of ours.
HARNESSES = ["claude-code", "codex", "pi"]


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def commands(path: Path) -> list[tuple[str, str]]:
    """Our commands in a hooks file: harness and event of each, found under its own event."""
    found = []
    for event, groups in json.loads(path.read_text())["hooks"].items():
        for group in groups:
            for handler in group["hooks"]:
                if ours := recognise(handler["command"]):
                    assert ours.event == event
                    found.append((ours.harness, ours.event))
    return found


# What is written


def test_every_harness_that_is_there_is_hooked(person: Person) -> None:
    person.has(person.claude, person.codex, person.pi)
    assert did(person.install()) == [(name, "created") for name in HARNESSES]
    assert commands(person.claude / "settings.json") == [
        ("claude-code", event) for event in targets()["claude-code"][0].events
    ]
    assert commands(person.codex / "hooks.json") == [
        ("codex", event) for event in targets()["codex"][0].events
    ]
    assert str(person.state.launcher) in (person.pi / "extensions" / "sessionpipe.js").read_text()
    assert person.states() == {
        "claude-code": ["installed"],
        "codex": ["needs trust", "installed"],
        "pi": ["installed"],
    }


def test_one_that_is_not_there_is_not_made(person: Person) -> None:
    person.has(person.codex)
    reports = person.install()
    assert did(reports) == [("codex", "created")]
    assert {report.harness for report in reports if report.did == "not found"} == targets().keys() - {"codex"}
    assert list(person.home.iterdir()) == [person.codex]


def test_one_that_is_named_is_made_and_goes_again(person: Person) -> None:
    person.has()
    before = person.everything()
    assert did(person.install(*targets())) == [(name, "created") for name in targets()]
    person.uninstall()
    assert person.everything() == before


def test_folders_made_for_one_go_with_the_last_that_needs_them(person: Person) -> None:
    person.has()
    person.install("antigravity", "gemini-cli", "goose")
    assert did(person.uninstall("antigravity"))[0] == ("antigravity", "deleted")
    assert (person.home / ".gemini" / "settings.json").exists()
    person.uninstall("gemini-cli")
    assert not (person.home / ".gemini").exists()
    (person.home / ".agents" / "plugins" / "sessionpipe" / "plugin.json").unlink()
    person.uninstall()
    assert person.everything() == {}


def test_a_folder_made_for_it_stays_once_somebody_uses_it(person: Person) -> None:
    person.install("codex")
    (person.codex / "auth.json").touch()
    person.uninstall()
    assert list(person.everything()) == [".codex", ".codex/auth.json"]


def test_folders_made_for_it_go_even_when_our_file_was_deleted_by_hand(person: Person) -> None:
    person.has(person.pi)
    before = person.everything()
    for _ in range(2):
        person.install("pi")
        (person.pi / "extensions" / "sessionpipe.js").unlink()
    person.uninstall()
    assert person.everything() == before


@pytest.mark.parametrize("harness", ["claude-code", "codex"])
def test_matchers_stand_on_tool_and_permission_events_only(person: Person, harness: str) -> None:
    entries = targets()[harness][0].entries(person.state.launcher)
    matched = {event for event, entry in entries.items() if "matcher" in entry}
    assert matched == {event for event in entries if "Tool" in event or "Permission" in event}


def test_every_timeout_is_one_the_harness_keeps(person: Person) -> None:
    def timeouts(harness: str) -> dict[str, int]:
        entries = targets()[harness][0].entries(person.state.launcher)
        return {event: entry["hooks"][0]["timeout"] for event, entry in entries.items()}

    assert timeouts("claude-code")["SessionEnd"] == 5
    assert {event for event, timeout in timeouts("codex").items() if timeout == 3} == {
        "Interrupt",
        "SessionEnd",
    }


def test_each_of_several_accounts_is_hooked_once(person: Person) -> None:
    work, other, alias = (person.home / name for name in (".claude-work", ".claude-other", ".claude-alias"))
    person.has(person.claude, work / "projects", other, person.root / "moved")
    (other / ".claude.json").touch()
    alias.symlink_to(".claude-work")
    (person.home / ".claude-notes").mkdir()
    (person.home / ".claude-file").touch()
    reports = person.install(CLAUDE_CONFIG_DIR=str(person.root / "moved"))
    paths = [report.path and report.path.parent for report in reports if report.harness == "claude-code"]
    assert paths == [person.root / "moved", person.claude, alias, other]


def test_a_folder_that_a_variable_names_is_made_when_the_harness_is_named(person: Person) -> None:
    person.has(person.claude, person.codex)
    places = {"CLAUDE_CONFIG_DIR": str(person.root / "c"), "CODEX_HOME": str(person.root / "x")}
    assert did(person.install(**places)) == [("claude-code", "created")]
    assert did(person.install("claude-code", "codex", **places)) == [
        ("claude-code", "created"),
        ("claude-code", "unchanged"),
        ("codex", "created"),
    ]
    assert person.states(**places) == {
        "claude-code": ["installed", "installed"],
        "codex": ["needs trust", "installed"],
    }
    assert (person.root / "x" / "hooks.json").exists()
    assert not (person.codex / "hooks.json").exists()


def test_what_must_be_done_by_hand_is_said_when_it_must_be(person: Person) -> None:
    person.has(person.claude, person.codex)
    notes = {report.harness: report.note for report in person.install()}
    assert "/hooks" in notes["codex"]
    assert not notes["claude-code"]
    assert not any(report.note for report in person.install())


# Again, and after a move


def test_a_second_time_changes_nothing(person: Person) -> None:
    person.has(person.claude, person.codex, person.pi)
    person.install()
    before = person.everything()
    assert did(person.install()) == [(name, "unchanged") for name in HARNESSES]
    assert person.everything() == before


def test_after_the_state_directory_moved_entries_are_replaced_where_they_stand(person: Person) -> None:
    person.has(person.claude, person.codex, person.pi)
    (person.claude / "settings.json").write_text('{"hooks": {"Stop": [{"hooks": []}]}, "model": "opus"}')
    before = person.everything()
    person.install()
    shutil.move(person.state.root, person.root / "moved")
    person.state = State(person.root / "moved")
    assert {state for states in person.states().values() for state in states} == {"stale"}
    assert did(person.install()) == [(name, "updated") for name in HARNESSES]
    assert commands(person.claude / "settings.json").count(("claude-code", "Stop")) == 1
    assert person.states()["claude-code"] == ["installed"]
    person.uninstall()
    assert person.everything() == before


def test_without_its_launcher_what_is_installed_is_stale(person: Person) -> None:
    person.has(person.claude)
    person.install()
    person.state.launcher.unlink()
    assert person.states() == {"claude-code": ["stale: the launcher that it runs is gone"]}
    person.install()
    assert person.states() == {"claude-code": ["installed"]}
    person.state.launcher.chmod(0o600)
    assert person.states() == {"claude-code": ["stale: the launcher that it runs is not executable"]}
    person.install()
    assert person.states() == {"claude-code": ["installed"]}


def test_where_nothing_can_be_run_install_says_so(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.has(person.claude)
    able = os.access
    monkeypatch.setattr(os, "access", lambda path, how: path != person.state.launcher and able(path, how))
    report = install([], dry_run=False, env=person.env, state=person.state, config=person.config)[0]
    assert "mounted noexec" in report.note
    assert "SESSIONPIPE_STATE_DIR" in report.note
    assert person.states()["claude-code"][0].startswith("stale: nothing in ")


def test_entries_taken_out_by_hand_are_missing_and_put_in_anew(person: Person) -> None:
    person.has(person.claude)
    settings = person.claude / "settings.json"
    person.install()
    settings.write_text("{}")
    assert person.states() == {"claude-code": ["missing"]}
    assert did(person.install("claude-code")) == [("claude-code", "added")]
    # The file is the person's by now.
    assert did(person.uninstall("claude-code"))[0] == ("claude-code", "restored")
    assert settings.read_text() == "{}"


def test_a_gate_of_ours_that_an_older_version_registered_goes_and_another_group_s_stays(
    person: Person,
) -> None:
    person.install("antigravity")
    path = person.home / ".gemini" / "config" / "hooks.json"
    content = json.loads(path.read_text())
    gate = {"matcher": "*", "hooks": [{"type": "command", "command": "guard"}]}
    ours = json.loads(json.dumps(content["sessionpipe"]["PostToolUse"]).replace("PostToolUse", "PreToolUse"))
    content["sessionpipe"]["PreToolUse"] = ours
    content["guard"] = {"PreToolUse": [gate]}
    path.write_text(json.dumps(content))
    assert person.states() == {"antigravity": ["stale"]}
    assert did(person.install("antigravity")) == [("antigravity", "updated")]
    content = json.loads(path.read_text())
    assert content["sessionpipe"].get("PreToolUse", []) == []
    assert content["guard"] == {"PreToolUse": [gate]}
    person.uninstall()
    assert json.loads(path.read_text())["guard"] == {"PreToolUse": [gate]}


# Files as people have them

GROUP = '{"matcher": "Bash", "hooks": [{"type": "command", "command": "theirs"}]}'
PLAIN = {
    "empty": "",
    "blank lines": "\n\n \n",
    "empty object": "{}",
    "spread empty object": "{\n}\n",
    "padded empty object": " { } \n",
    "one line": '{"model":"opus","env":{"A":"b"}}',
    "one line with spaces": '{"model": "opus", "env": {"A": "b"}}\n',
    "two spaces": '{\n  "model": "opus"\n}\n',
    "four spaces": '{\n    "model": "opus",\n    "env": {\n        "A": "b"\n    }\n}\n',
    "tabs": '{\n\t"model": "opus"\n}\n',
    "no final newline": '{\n  "model": "opus"\n}',
    "many final newlines": '{\n  "model": "opus"\n}\n\n\n',
    "carriage returns": '{\r\n  "model": "opus"\r\n}\r\n',
    "mixed line ends": '{\n  "model": "opus",\r\n  "x": 1\n}\r\n',
    "no indentation": '{\n"model": "opus"\n}\n',
    "commas first": '{ "model": "opus"\n, "x": 1\n}\n',
    "spaced colons": '{\n  "model" : "opus"\n}\n',
    "not ASCII": '{\n  "name": "Zoë \U0001f600 \u2028"\n}\n',
    "escapes": '{"a\\u0062": "\\ud83d\\ude00 \\ud83d \\/ \\n"}',
    "numbers": '{"a": 1e400, "b": -0.0, "c": 123456789012345678901234567890, "d": 1E+2}',
    "empty hooks": '{\n  "hooks": {}\n}\n',
    "padded empty hooks": '{"hooks": {  \t}, "x": 1}',
    "empty event": '{"hooks": {"Stop": []}}',
    "padded empty event": '{\n  "hooks": {\n    "Stop": [\n\n    ]\n  }\n}\n',
    "foreign hooks": '{\n  "hooks": {\n    "Stop": [\n      ' + GROUP + '\n    ],\n    "Other": []\n  }\n}\n',
    "foreign hooks on one line": '{"hooks": {"Stop": [' + GROUP + '], "PreToolUse": [' + GROUP + ", {}]}}",
    "a group without hooks": '{"hooks": {"Stop": [{"matcher": "x"}, {"hooks": []}, null, 3, "s"]}}',
    "hooks first": '{\n  "hooks": {"Stop": [' + GROUP + ']},\n  "model": "opus"\n}\n',
    "deep": '{"a": ' + "[" * 150 + "]" * 150 + "}",
    "odd keys": '{"": 0, "hooks ": 1, "Hooks": [], "a/b": {"hooks": {}}}',
    "long": json.dumps({"permissions": {"allow": [f"Bash(tool-{n}:*)" for n in range(300)]}}, indent=2),
}
REFUSED = {
    "line comment": ('{\n  // mine\n  "model": "opus"\n}\n', "not plain JSON: a comment at line 2"),
    "block comment": ('{"model": "opus" /* mine */}', "not plain JSON: a comment at line 1"),
    "trailing comma": ('{\n  "model": "opus",\n}\n', "not plain JSON: a trailing comma at line 2"),
    "key twice": ('{"hooks": {},\n"hooks": {}}', "not plain JSON: a key given twice at line 2"),
    "NaN": ('{"x": NaN}', "not plain JSON: a word that is no JSON at line 1"),
    "cut off": ('{"model": "op', "not plain JSON: a broken string at line 1"),
    "single quotes": ("{'model': 'opus'}", "not plain JSON: something unexpected at line 1"),
    "an array": ("[]", "the top level is no object at line 1"),
    "hooks of another shape": ('{\n"hooks": []}', '"hooks" is no object at line 2'),
    "an event of another shape": ('{"hooks": {"Stop": {}}}', '"Stop" is no array at line 1'),
    "too deep": ("[" * 300 + "]" * 300, "not plain JSON: nesting deeper than 200 levels at line 1"),
    "another encoding": ('{"name": "Zo\udceb"}', "a byte that is no UTF-8 at line 1"),
}


def bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN)
def test_a_file_comes_back_to_the_byte(person: Person, content: str) -> None:
    person.has(person.claude, person.codex)
    files = [person.claude / "settings.json", person.codex / "hooks.json"]
    for file in files:
        file.write_bytes(bytes_of(content))
        file.chmod(0o644)
    before = person.everything()
    assert did(person.install("claude-code", "codex"))[:2] == [("claude-code", "added"), ("codex", "added")]
    for file in files:
        json.loads(file.read_text())
    assert {("claude-code", "restored"), ("codex", "restored")} <= set(did(person.uninstall()))
    assert person.everything() == before


@pytest.mark.parametrize(("content", "why"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_is_not_understood_is_left_alone(person: Person, content: str, why: str) -> None:
    person.has(person.claude)
    (person.claude / "settings.json").write_bytes(bytes_of(content))
    before = person.everything()
    (report,) = person.install("claude-code")
    assert (report.did, report.why) == ("left alone", why)
    assert person.states() == {"claude-code": [f"left alone: {why}"]}
    assert did(person.uninstall()) == [("sessionpipe", "deleted")]
    assert person.everything() == before


def test_a_file_that_became_unreadable_with_ours_in_it_is_left_alone_and_keeps_the_launcher(
    person: Person,
) -> None:
    person.has(person.claude)
    settings = person.claude / "settings.json"
    person.install()
    commented = settings.read_text().replace("{", "{ // mine", 1)
    settings.write_text(commented)
    (report,) = person.uninstall()
    assert (report.did, report.why) == ("left alone", "not plain JSON: a comment at line 1")
    assert settings.read_text() == commented
    assert person.state.launcher.exists()


@pytest.mark.parametrize("what", ["dangling link", "circle", "folder", "fifo"])
def test_what_can_hold_nothing_of_ours_is_no_matter_for_uninstall(person: Person, what: str) -> None:
    person.has(person.claude)
    settings = person.claude / "settings.json"
    if what == "dangling link":
        settings.symlink_to("/nowhere/settings.json")
    elif what == "circle":
        settings.symlink_to("settings.json")
    elif what == "folder":
        settings.mkdir()
    else:
        os.mkfifo(settings)
    assert did(person.install())[:1] == [("claude-code", "left alone")]
    assert did(person.uninstall()) == [("sessionpipe", "deleted")]


def test_where_a_file_of_ours_was_something_else_is_now_and_that_is_said(person: Person) -> None:
    person.has(person.claude)
    settings = person.claude / "settings.json"
    person.install()
    settings.rename(person.home / "away.json")
    settings.symlink_to("/nowhere/settings.json")
    assert did(person.uninstall())[0] == ("claude-code", "left alone")


@pytest.mark.parametrize("name", ["settings.json", "folder"])
def test_what_is_read_only_is_left_alone(person: Person, name: str) -> None:
    person.has(person.claude)
    settings = person.claude / "settings.json"
    settings.write_text("{}")
    locked = settings if name == "settings.json" else person.claude
    mode = locked.stat().st_mode
    locked.chmod(mode & ~0o222)
    try:
        (report,) = person.install("claude-code")
        states = person.states()
    finally:
        locked.chmod(mode)
    assert report.did == "left alone"
    assert "read-only" in report.why
    assert states == {"claude-code": [f"left alone: {report.why}"]}
    assert settings.read_text() == "{}"


@pytest.mark.parametrize("made", ["read-only", "a file"])
def test_where_no_file_can_be_made_none_is_and_a_dry_run_says_so_too(person: Person, made: str) -> None:
    folder = person.pi / "extensions"
    person.has(person.pi)
    if made == "a file":
        folder.touch()
    else:
        folder.mkdir(0o555)
    dry = person.install("pi", dry_run=True)
    (report,) = person.install("pi")
    assert dry == [report]
    assert report.did == "left alone"
    assert person.states() == {"pi": [f"left alone: {report.why}"]}
    assert did(person.uninstall()) == [("sessionpipe", "deleted")]
    folder.chmod(0o755)


def test_a_linked_settings_file_stays_a_link(person: Person) -> None:
    person.has(person.claude, person.home / "dotfiles")
    (person.home / "dotfiles" / "claude.json").write_text('{\n  "model": "opus"\n}\n')
    (person.claude / "settings.json").symlink_to("../dotfiles/claude.json")
    before = person.everything()
    assert did(person.install("claude-code")) == [("claude-code", "added")]
    assert "hooks" in (person.home / "dotfiles" / "claude.json").read_text()
    person.uninstall()
    assert person.everything() == before


def test_what_a_write_that_was_killed_left_behind_goes(person: Person) -> None:
    person.has(person.claude)
    (person.claude / "settings.json").write_text('{"model": "opus"}')
    (person.claude / ".settings.json.0123456789ab.tmp.mine").touch()
    before = person.everything()
    person.install("claude-code", "goose")
    plugin = person.home / ".agents" / "plugins" / "sessionpipe"
    # Killed before the rename, and at goose before there was a file at all.
    (person.claude / ".settings.json.0123456789ab.tmp").write_text('{"model": "op')
    (plugin / "plugin.json").rename(plugin / ".plugin.json.ba9876543210.tmp")
    (person.claude / ".settings.json.000000000000.tmp").touch()
    person.uninstall()
    assert person.everything() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("point", ["install.written", "install.renamed"])
@pytest.mark.parametrize("step", ["install", "uninstall"])
def test_killed_anywhere_it_goes_on_the_next_time_and_all_comes_back(
    person: Person, step: str, point: str
) -> None:
    person.has(person.claude, person.codex)
    (person.claude / "settings.json").write_text('{"model": "opus"}')
    (person.codex / "config.toml").write_text('model = "x"\n[tui]\n')
    (person.home / "linked").hardlink_to(person.codex / "config.toml")
    before, count = person.everything(), 0
    killed = True
    while killed:
        count += 1
        if step == "uninstall":
            person.install()
        killed = killed_at(f"{point}:{count}", getattr(person, step))
        if step == "install":
            person.install()
            assert {state for states in person.states().values() for state in states} <= {
                "installed",
                "needs trust",
            }
        person.uninstall()
        assert person.everything() == before
        assert [path.name for path in person.state.root.iterdir()] == ["install.lock"]
    assert count > 1


def killed_at(point: str, do: Callable[[], object]) -> bool:
    """Whether ``do`` came to that fault point, where it was killed."""
    if not (child := os.fork()):
        faults.arm(point)
        do()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


# Somebody else's changes meanwhile


def test_what_others_wrote_meanwhile_stays(person: Person) -> None:
    person.has(person.claude)
    settings = person.claude / "settings.json"
    person.install()
    content = json.loads(settings.read_text())
    theirs = {"hooks": [{"type": "command", "command": "theirs"}]}
    content["hooks"]["Stop"].insert(0, theirs)
    content["hooks"]["Notification"].append(theirs)
    content["model"] = "opus"
    settings.write_text(json.dumps(content, indent=4))
    assert person.states()["claude-code"] == ["installed"]
    assert did(person.uninstall("claude-code"))[0] == ("claude-code", "removed")
    assert json.loads(settings.read_text()) == {
        "hooks": {"Notification": [theirs], "Stop": [theirs]},
        "model": "opus",
    }


def test_a_file_of_that_name_that_is_not_ours_is_left_alone(person: Person) -> None:
    person.has(person.pi / "extensions")
    extension = person.pi / "extensions" / "sessionpipe.js"
    extension.write_text("export default () => {};\n")
    (report,) = person.install("pi")
    assert (report.did, report.why) == ("left alone", "another file has the name of ours")
    assert did(person.uninstall()) == [("sessionpipe", "deleted")]
    assert extension.read_text() == "export default () => {};\n"


@pytest.mark.parametrize(
    "name", [".pi/agent/extensions/sessionpipe.js", ".config/opencode/plugin/sessionpipe.js"]
)
def test_an_empty_file_of_that_name_is_the_person_s_and_comes_back(person: Person, name: str) -> None:
    file = person.home / name
    person.has(file.parent)
    file.touch(0o640)
    before = person.everything()
    assert "added" in [report.did for report in person.install()]
    assert "restored" in [report.did for report in person.uninstall()]
    assert person.everything() == before


@pytest.mark.parametrize("manifest", [None, "", "[]", '{"files": {"x": 3}}', '{"files": []}'])
def test_without_what_was_remembered_ours_still_goes(person: Person, manifest: str | None) -> None:
    person.has(person.claude, person.codex, person.pi)
    (person.claude / "settings.json").write_text('{\n  "model": "opus"\n}\n')
    before = person.everything()
    person.install()
    if manifest is None:
        person.state.manifest.unlink()
    else:
        person.state.manifest.write_text(manifest)
    person.uninstall()
    after = person.everything()
    # Whether the file and the folder were there before us cannot be known any more, so they stay.
    assert (person.codex / "hooks.json").read_text() == "{}\n"
    assert (person.codex / "config.toml").read_text() == ""
    del after[".codex/hooks.json"], after[".codex/config.toml"]
    del after[".pi/agent/extensions"]
    assert after == before


def test_what_was_remembered_holds_nothing_of_the_files(person: Person) -> None:
    person.has(person.claude)
    (person.claude / "settings.json").write_text('{"env": {"NAME": "a private word"}, "hooks": { }}')
    person.install()
    manifest = person.state.manifest
    assert "private" not in manifest.read_text()
    assert stat.S_IMODE(manifest.stat().st_mode) == 0o600
    person.uninstall()
    assert not manifest.exists()


# Uninstalling some, and other installations


def test_the_launcher_goes_with_the_last(person: Person) -> None:
    person.has(person.claude, person.codex)
    person.install()
    reports = person.uninstall("codex")
    assert did(reports) == [("codex", "deleted"), ("sessionpipe", "kept")]
    assert reports[-1].why == "for claude-code"
    assert person.states() == {"claude-code": ["installed"], "codex": ["missing", "missing"]}
    assert did(person.uninstall()) == [("claude-code", "deleted"), ("sessionpipe", "deleted")]
    assert not person.state.bin.exists()
    assert person.uninstall() == []


def test_a_file_whose_folder_is_no_longer_pointed_at_is_found_again(person: Person) -> None:
    moved = person.root / "moved"
    person.has(moved)
    person.install("codex", CODEX_HOME=str(moved))
    assert did(person.uninstall()) == [("codex", "deleted"), ("sessionpipe", "deleted")]
    assert not list(moved.iterdir())


def test_entries_of_another_installation_that_works_are_not_taken_by_the_way(person: Person) -> None:
    person.install(*targets())
    before = person.everything()
    other = Person(person.root)
    other.state = State(person.root / "another")
    reports = other.uninstall()
    assert did(reports) == [(name, "left alone") for name in targets()]
    assert all(str(person.state.root) in report.why for report in reports)
    assert person.everything() == before
    done = {report.did for report in other.uninstall(*targets())}
    assert done <= {"removed", "deleted"}
    assert not any(
        b"sessionpipe-hook" in path.read_bytes() for path in person.home.rglob("*") if path.is_file()
    )


def test_of_two_installations_the_latter_runs_and_its_going_leaves_nothing(person: Person) -> None:
    person.has(person.claude, person.codex)
    (person.codex / "config.toml").write_text('model = "x"\n[tui]\n')
    before = person.everything()
    person.install()
    second = Person(person.root)
    second.state = State(person.root / "another")
    assert did(second.install()) == [("claude-code", "updated"), ("codex", "updated")]
    assert person.states() == {"claude-code": ["stale"], "codex": ["stale", "stale"]}
    assert did(person.uninstall()) == [
        ("claude-code", "left alone"),
        ("codex", "left alone"),
        ("sessionpipe", "deleted"),
    ]
    # What the first had to make for them, the second knows from it.
    second.uninstall()
    assert person.everything() == before


def test_what_an_installation_that_is_gone_had_made_stays_until_it_is_asked(person: Person) -> None:
    person.has(person.claude)
    before = person.everything()
    person.install()
    manifest = person.state.manifest.read_bytes()
    person.state.manifest.unlink()
    second = Person(person.root)
    second.state = State(person.root / "another")
    second.install()
    second.uninstall()
    assert (person.claude / "settings.json").read_text() == "{}\n"
    person.state.manifest.write_bytes(manifest)
    assert did(person.uninstall())[0] == ("claude-code", "deleted")
    assert person.everything() == before


@pytest.mark.parametrize("blank", ["x", '{"a": 1}', "\u00a0"])
def test_what_another_installation_remembers_puts_no_text_into_a_file(person: Person, blank: str) -> None:
    person.has(person.claude)
    settings = person.claude / "settings.json"
    settings.write_text('{"hooks": {}}')
    person.install()
    known = json.loads(person.state.manifest.read_text())
    (record,) = known["files"].values()
    record["memory"]["blanks"]["hooks"] = blank
    person.state.manifest.write_text(json.dumps(known))
    second = Person(person.root)
    second.state = State(person.root / "another")
    second.install()
    second.uninstall()
    assert settings.read_text() == "{}"


@pytest.fixture
def account(person: Person, monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    """A person whose home is that of the account, as it is outside of tests."""
    monkeypatch.setattr("sessionpipe.install.account_home", lambda: person.home)
    yield person


def test_with_one_agent_pointed_out_of_the_home_the_others_are_not_touched(account: Person) -> None:
    account.has(account.claude, account.root / "isolated")
    account.install("claude-code")
    isolated = {"CODEX_HOME": str(account.root / "isolated")}
    account.install("codex", **isolated)
    before = account.everything()
    with pytest.raises(Elsewhere, match=r"CODEX_HOME .* claude-code .* --everywhere"):
        account.uninstall(**isolated)
    assert account.everything() == before
    assert did(account.uninstall("codex", **isolated))[0] == ("codex", "deleted")
    assert did(account.uninstall(everywhere=True, **isolated))[0] == ("claude-code", "deleted")


def test_an_account_within_the_home_is_no_isolation(account: Person) -> None:
    account.has(account.claude, account.home / ".claude-work", account.codex)
    work = {"CLAUDE_CONFIG_DIR": str(account.home / ".claude-work")}
    account.install(**work)
    assert did(account.uninstall(**work)) == [
        ("claude-code", "deleted"),
        ("codex", "deleted"),
        ("sessionpipe", "deleted"),
    ]


# Everything else


def test_a_dry_run_shows_and_writes_nothing(person: Person) -> None:
    person.has(person.claude, person.pi)
    (person.claude / "settings.json").write_text('{\n  "model": "opus"\n}\n')
    before = person.everything()
    claude, pi = (report for report in person.install(dry_run=True) if report.path)
    assert (claude.did, pi.did) == ("added", "created")
    assert '-  "model": "opus"\n+  "model": "opus",\n+  "hooks": {' in claude.diff
    assert "+export default function" in pi.diff
    assert person.everything() == before
    assert not person.state.root.exists()
    person.install()
    before = person.everything()
    assert did(person.uninstall(dry_run=True)) == [
        ("claude-code", "restored"),
        ("pi", "deleted"),
        ("sessionpipe", "deleted"),
    ]
    assert person.everything() == before
    assert person.state.launcher.exists()


def test_uninstalling_where_nothing_was_installed_makes_nothing(person: Person) -> None:
    person.has(person.claude)
    assert person.uninstall() == []
    assert not person.state.root.exists()


def test_two_at_once_take_turns(person: Person) -> None:
    from filelock import FileLock

    person.has(person.claude)
    person.state.root.mkdir(parents=True)
    other = FileLock(person.state.root / "install.lock")
    with ThreadPoolExecutor() as pool:
        other.acquire()
        waiting = pool.submit(person.install)
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        assert not (person.claude / "settings.json").exists()
        other.release()
    assert did(waiting.result())[0] == ("claude-code", "created")


def test_an_unknown_harness_is_refused_before_anything_is_written(person: Person) -> None:
    for command in (person.install, person.uninstall):
        with pytest.raises(UnknownHarness, match="no harness called vim; known are antigravity, claude-code"):
            command("codex", "vim")
    assert not person.state.root.exists()


def test_a_state_directory_that_no_settings_file_could_name_is_refused(person: Person) -> None:
    if sys.platform == "darwin":
        pytest.skip("this file system takes no such name")
    person.has(person.claude)
    person.state = State(person.root / os.fsdecode(b"\xff"))
    with pytest.raises(ValueError, match="not UTF-8"):
        person.install()
    assert not list(person.claude.iterdir())


def test_a_relative_state_directory_is_named_in_full(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.has(person.claude)
    monkeypatch.chdir(person.root)
    person.state = State(Path("relative"))
    person.install()
    assert (
        f'"{person.root}/relative/bin/sessionpipe-hook'
        in json.loads((person.claude / "settings.json").read_text())["hooks"]["Stop"][0]["hooks"][0][
            "command"
        ]
    )
    assert person.states() == {"claude-code": ["installed"]}


def test_the_network_is_no_place_for_state_and_install_says_so(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionpipe.install.network_file_system", lambda folder: "nfs4")
    reports = install([], dry_run=True, env=person.env, state=person.state, config=person.config)
    assert "nfs4, a network file system" in reports[0].why
