"""``sessionpipe pi``: Pi's own session files, looked at by a person."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sessionpipe.protocol import rfc3339, short_id
from tests.cli.pi_files import START, PiFile

Run = Callable[..., Result]

FIRST, SECOND = "01a22870-0000-7000-8000-000000000001", "01a22870-0000-7000-8000-000000000002"
TOKEN = "ghp_" + "aB3dE6" * 6


@pytest.fixture
def store() -> Path:
    """Where Pi keeps sessions begun in /src/page."""
    return Path(os.environ["HOME"]) / ".pi" / "agent" / "sessions" / "--src-page--"


def listed(run: Run, *more: str) -> list[dict[str, Any]]:
    result = run("pi", "list", "--json", *more)
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


# --- list -------------------------------------------------------------------------------------------


def test_a_machine_without_sessions_is_said_to_have_none(run: Run) -> None:
    result = run("pi", "list")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "no session of Pi's is in ~/.pi/agent/sessions\n"
    assert listed(run) == []


def test_sessions_are_listed_the_latest_first(run: Run, store: Path) -> None:
    PiFile(FIRST).asks("Fix the page").says("Done.").write(store)
    later = (
        PiFile(SECOND).asks("And the other").says("Done.").put("session_info", name="the other").says("Yes.")
    )
    later.write(store)
    result = run("pi", "list")
    assert result.exit_code == 0
    head, first, second = result.stdout.splitlines()
    assert head.split() == ["id", "last", "used", "folder:", "title", "model", "messages", "tokens", "cost"]
    assert first.startswith(short_id("pi", SECOND))
    assert "page: the other" in first
    assert first.split()[-3:] == ["3", "220", "$0.50"]
    assert "page: Fix the page" in second


def test_the_json_of_a_list_is_stable(run: Run, store: Path) -> None:
    file = PiFile(FIRST).asks("Fix the page").says("Done.").write(store)
    (found,) = listed(run)
    assert found == {
        "short_id": short_id("pi", FIRST),
        "id": FIRST,
        "path": str(file),
        "cwd": "/src/page",
        "name": None,
        "title": "Fix the page",
        "title_source": "first-ask",
        "created_at": rfc3339(START),
        "active_at": rfc3339(START + 2000),
        "model": {"provider": "maker", "id": "model-1"},
        "thinking_level": "off",
        "messages": 2,
        "tokens": {"input": 100, "output": 10, "cache_read": 0, "cache_write": 0, "total": 110},
        "cost": 0.25,
        "forked_from": None,
        "copied_entries": 0,
        "skipped_lines": 0,
    }


def test_a_fork_says_of_what_and_counts_its_own(run: Run, store: Path) -> None:
    parent = PiFile(FIRST).asks("Fix").says("Done.")
    file = parent.write(store)
    for name, of in [(SECOND, str(file)), ("third", "/gone/away.jsonl")]:
        fork = PiFile(name, parentSession=of, timestamp=rfc3339(parent.now + 500))
        fork.lines, fork.leaf, fork.now = fork.lines + parent.lines[1:], parent.leaf, parent.now
        fork.asks("Otherwise").says("Done.").write(store)
    assert sorted(found["messages"] for found in listed(run)) == [2, 2, 2]
    assert sum(found["cost"] for found in listed(run)) == 0.75
    shown = run("pi", "list").stdout.splitlines()
    assert [line.split("  ")[-1] for line in shown[1:3]].count(short_id("pi", FIRST)) == 1
    assert "one that is gone" in "\n".join(shown)


def test_only_the_latest_are_shown_unless_all_are_wanted(run: Run, store: Path) -> None:
    for number in range(35):
        file = PiFile(f"session-{number:02}").asks(f"ask {number}").write(store)
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    shown = run("pi", "list").stdout.splitlines()
    assert (len(shown), shown[-1]) == (32, "and older ones; --all lists them")
    assert "ask 34" in shown[1] + shown[30]
    assert len(run("pi", "list", "--all").stdout.splitlines()) == 36
    assert len(listed(run)) == 35


def test_sessions_of_this_folder_only(
    run: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PiFile(FIRST).asks("elsewhere").write(store)
    monkeypatch.chdir(tmp_path)
    assert (
        run("pi", "list", "--here").stdout == "no session of Pi's of this folder is in ~/.pi/agent/sessions\n"
    )
    PiFile(SECOND, cwd=str(tmp_path)).asks("here").write(store)
    assert [found["id"] for found in listed(run, "--here")] == [SECOND]


def test_another_folder_may_be_named(run: Run, store: Path, tmp_path: Path) -> None:
    PiFile(FIRST).asks("there").write(store)
    PiFile(SECOND).asks("here").write(tmp_path / "mine")
    folder = ("--session-dir", str(tmp_path / "mine"))
    assert [found["id"] for found in listed(run, *folder)] == [SECOND]
    assert run("pi", "show", SECOND, *folder).exit_code == 0
    assert run("pi", "show", FIRST, *folder).exit_code == 1


# --- show -------------------------------------------------------------------------------------------


def talk() -> PiFile:
    pi = PiFile(FIRST).asks("Fix the page").calls("bash", {"command": "make"}, isError=False)
    return pi.says("Done.")


def test_a_conversation_is_shown_with_what_it_is_and_what_it_cost(run: Run, store: Path) -> None:
    talk().write(store)
    result = run("pi", "show", FIRST)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.partition(" · 29 Nov")[0] for line in result.stdout.splitlines()]
    assert lines[0] == f"{short_id('pi', FIRST)} Fix the page"
    assert lines[1].startswith(f"{FIRST} · /src/page")
    assert lines[2].startswith("~/.pi/agent/sessions/--src-page--/")
    assert lines[3:] == [
        "",
        "you",
        "  Fix the page",
        "",
        "maker/model-1",
        "  ↳ bash make · ok",
        "  Done.",
        "",
        "3 messages, 220 tokens: 200 in, 20 out; $0.50",
        "maker/model-1, thinking off",
    ]


@pytest.mark.parametrize("by", ["id", "beginning", "short", "harness", "file"])
def test_a_session_is_named_in_any_way_a_person_may_have(run: Run, store: Path, by: str) -> None:
    file = talk().write(store)
    PiFile("other").asks("x").write(store)
    argument = {
        "id": FIRST,
        "beginning": FIRST[:6],
        "short": short_id("pi", FIRST)[:6],
        "harness": f"pi:{FIRST}",
        "file": str(file),
    }[by]
    result = run("pi", "show", argument)
    assert (result.exit_code, "Fix the page" in result.stdout) == (0, True)


def test_of_several_none_is_guessed(run: Run, store: Path) -> None:
    talk().write(store)
    PiFile(SECOND).asks("x").write(store)
    result = run("pi", "show", FIRST[:10])
    assert (result.exit_code, result.stdout) == (1, "")
    assert FIRST in result.stderr
    assert SECOND in result.stderr
    assert result.stderr.splitlines()[-1].endswith(
        "means 2 sessions, the ones above; say more of the id, or the file"
    )
    for number in range(30):
        PiFile(f"01a-{number}").write(store)
    assert "the latest 20 of them above" in run("pi", "tree", "01a").stderr


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("nosuch", "no session of Pi's is called 'nosuch'"),
        ("", "no session of Pi's is called ''"),
        ("/nowhere/x.jsonl", "there is no file /nowhere/x.jsonl that can be read"),
        ("/dev/null", "there is no file /dev/null that can be read"),
        ("/etc/passwd", "/etc/passwd is no session of Pi's"),
        ("\x1b[31m.jsonl", "there is no file  [31m.jsonl"),
    ],
)
def test_what_is_not_there_is_said_in_a_line(run: Run, argument: str, why: str) -> None:
    for command in ("show", "tree"):
        result = run("pi", command, argument)
        assert (result.exit_code, result.stdout) == (1, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"sessionpipe: {why}")


def test_another_branch_may_be_shown(run: Run, store: Path) -> None:
    pi = talk().put("label", targetId="00000001", label="start").asks("More")
    pi.write(store)
    for entry in ("00000001", "start"):
        shown = run("pi", "show", FIRST, "--branch", entry).stdout
        assert "Fix the page" in shown
        assert "Done." not in shown
    assert run("pi", "show", FIRST, "--branch", "zz").stderr.startswith(
        "sessionpipe: no entry is called 'zz'"
    )
    assert "means 6 entries: 00000001, 00000002" in run("pi", "show", FIRST, "--branch", "0000").stderr


def test_the_json_of_a_session_has_its_entries(run: Run, store: Path) -> None:
    talk().write(store)
    found = json.loads(run("pi", "show", FIRST, "--json").stdout)
    assert [entry["type"] for entry in found["entries"]] == ["message"] * 4
    assert (found["leaf"], found["labels"], found["id"]) == ("00000004", {}, FIRST)
    some = json.loads(run("pi", "show", FIRST, "--json", "--branch", "00000001").stdout)
    assert (some["leaf"], len(some["entries"])) == ("00000001", 1)


def test_what_the_model_would_be_given(run: Run, store: Path) -> None:
    pi = talk().message("bashExecution", None, command="ls", output="mine", excludeFromContext=True)
    pi.put("compaction", summary="so far", firstKeptEntryId="00000004", tokensBefore=9).asks("More").write(
        store
    )
    found = json.loads(run("pi", "show", FIRST, "--context", "--json").stdout)
    assert (found["model"], found["thinking_level"]) == ({"provider": "maker", "id": "model-1"}, "off")
    assert [message["role"] for message in found["messages"]] == ["compactionSummary", "assistant", "user"]
    shown = run("pi", "show", FIRST, "--context").stdout
    assert [line for line in shown.splitlines() if line] == [
        "compactionSummary", "  so far", "assistant", "  Done.", "user", "  More",
    ]  # fmt: skip


def test_thoughts_are_shown_when_they_are_wanted(run: Run, store: Path) -> None:
    PiFile(FIRST).says([{"type": "thinking", "thinking": "let me see"}]).write(store)
    assert "let me see" not in run("pi", "show", FIRST).stdout
    assert "let me see" in run("pi", "show", FIRST, "--thinking").stdout


def test_credentials_are_left_out_unless_they_are_wanted(run: Run, store: Path) -> None:
    pi = (
        PiFile(FIRST)
        .asks(f"use {TOKEN}")
        .calls("bash", {"command": f"echo {TOKEN}"}, content=TOKEN, isError=True)
    )
    pi.put("session_info", name=TOKEN).put("label", targetId=pi.leaf, label=TOKEN).write(store)
    ways = [
        ("list",),
        ("list", "--json"),
        ("show", FIRST),
        ("show", FIRST, "--json"),
        ("show", FIRST, "--context"),
        ("show", FIRST, "--context", "--json"),
        ("tree", FIRST),
        ("tree", FIRST, "--json"),
    ]
    for way in ways:
        shown = run("pi", *way)
        assert (shown.exit_code, TOKEN in shown.output) == (0, False)
        assert TOKEN in run("pi", *way, "--verbatim").stdout, "nothing else was lost"


def test_nothing_of_a_session_steers_the_terminal(run: Run, store: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202ea\rb"
    pi = PiFile(FIRST, cwd=f"/{evil}").asks(evil).calls(evil, {"command": evil}, content=evil, isError=True)
    pi.says(evil, model=evil, provider=evil).put("session_info", name=evil).put(evil)
    pi.put("label", targetId=pi.leaf, label=evil).put(
        "custom_message", customType=evil, content=evil, display=True
    )
    file = pi.write(store)
    for way in [
        ("list",),
        ("show", FIRST),
        ("show", str(file)),
        ("show", FIRST, "--context"),
        ("tree", FIRST),
    ]:
        shown = run("pi", *way).stdout
        assert not set(shown) & set("\x1b\x07\r\u202e")
    assert "\x1b" not in run("pi", "show", FIRST, "--branch", evil[:9] + "z").stderr


def test_a_damaged_file_says_so_at_the_end(run: Run, store: Path) -> None:
    file = talk().write(store)
    file.write_bytes(file.read_bytes() + b'broken\n{"type":"custom","id":"torn')
    assert run("pi", "show", FIRST).stdout.splitlines()[-2:] == [
        "1 lines of the file could not be read",
        "the last line of the file is not finished",
    ]


def test_looking_changes_nothing(run: Run, store: Path) -> None:
    talk().write(store)
    before = {path: path.stat().st_mtime_ns for path in Path(os.environ["HOME"]).rglob("*")}
    for way in [("list",), ("show", FIRST), ("tree", FIRST)]:
        assert run("pi", *way).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in Path(os.environ["HOME"]).rglob("*")} == before
    assert not Path(os.environ["SESSIONPIPE_STATE_DIR"]).exists()


# --- tree -------------------------------------------------------------------------------------------


def test_the_tree_is_drawn_below_what_the_session_is(run: Run, store: Path) -> None:
    talk().goes_back("00000001").asks("Otherwise").write(store)
    result = run("pi", "tree", FIRST)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[4:] == [
        "● 00000001 you: Fix the page",
        "├─┆ 1 answer, 1 call",
        "│ ○ 00000004 model: Done.",
        "● 00000005 you: Otherwise ← here",
    ]


def test_the_json_of_a_tree_is_flat(run: Run, store: Path) -> None:
    PiFile(FIRST).asks("a").put("label", targetId="00000001", label="mark").goes_back(None).asks("b").write(
        store
    )
    found = json.loads(run("pi", "tree", FIRST, "--json").stdout)
    assert (found["id"], found["leaf"]) == (FIRST, "00000003")
    assert found["entries"][0] == {
        "id": "00000001", "parent": None, "type": "message", "role": "user",
        "at": rfc3339(START + 1000), "label": "mark", "active": False,
    }  # fmt: skip
    assert [entry["active"] for entry in found["entries"]] == [False, False, True]


def test_an_empty_session_has_no_tree(run: Run, store: Path) -> None:
    PiFile(FIRST).write(store)
    assert run("pi", "tree", FIRST).stdout.splitlines()[-1] == "nothing is in it yet"
    assert run("pi", "show", FIRST).exit_code == 0


@pytest.mark.parametrize("command", ["list", "show", "tree"])
def test_every_command_has_an_example(run: Run, command: str) -> None:
    shown = run("pi", command, "--help").stdout
    assert f"sessionpipe pi {command}" in shown.partition("Examples:")[2]
