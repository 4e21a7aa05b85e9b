"""The journal's group, and verify as a person or a script runs it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from sessionpipe.cli.journal import JournalCommands
from tests.journal.making import failure, write
from tests.journal.recipes import edit, sound

Run = Callable[..., Result]


@pytest.mark.parametrize("command", JournalCommands.modules)
def test_every_command_of_it_is_explained_with_an_example(run: Run, command: str) -> None:
    done = run("journal", command, "--help")
    assert done.exit_code == 0
    assert re.search("Examples?:", done.output)
    assert f"sessionpipe journal {command}" in done.output


def test_each_is_one_line_of_the_groups_help(run: Run) -> None:
    shown = run("journal", "--help", terminal_width=80).stdout.partition("Commands:")[2].splitlines()[1:]
    assert [line.split()[0] for line in shown] == list(JournalCommands.modules)
    assert all(line.endswith(".") and not line.endswith("...") for line in shown)


# --- verify -------------------------------------------------------------------------------------


def test_a_sound_journal_exits_0_and_says_what_it_is(run: Run, tmp_path: Path) -> None:
    done = run("journal", "verify", str(sound(tmp_path / "bundle")))
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        ["session: complete; 27 events, 3 entries", "no rule is broken"],
    )


def test_a_failed_one_that_says_so_exits_0_too(run: Run, tmp_path: Path) -> None:
    root = sound(tmp_path / "bundle")
    edit(root, {"file": "session/capture.json", "set": {"status": "failed", **failure("queue_limit")}})
    done = run("journal", "verify", str(root))
    assert done.exit_code == 0
    assert done.stdout.startswith("session: failed (queue_limit: no space left); 27 events")


def test_a_violation_is_a_line_with_its_place_and_exits_1(run: Run, tmp_path: Path) -> None:
    root = sound(tmp_path / "bundle")
    edit(root, {"file": "session/events.ndjson", "line": 6, "drop": True})
    edit(root, {"file": "session/capture.json", "set": {"eventCount": 26}})
    done = run("journal", "verify", str(root))
    assert (done.exit_code, done.stdout.splitlines()) == (
        1,
        [
            "session/events.ndjson:6: seq-gap: seq 7 comes after 5",
            "session: unverified: events.ndjson, line 6: seq 7 comes after 5; 26 events, 3 entries",
            "1 violation",
        ],
    )


def test_json_is_the_report(run: Run, tmp_path: Path) -> None:
    root = sound(tmp_path / "bundle")
    edit(root, {"file": "session/capture.json", "remove": True})
    done = run("journal", "verify", str(root), "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 1
    assert [item["rule"] for item in report["violations"]] == ["capture-missing"]
    assert (report["ok"], report["status"], report["reason"]) == (
        False,
        "unverified",
        "there is no capture.json",
    )


def test_no_folder_is_one_line_on_stderr(run: Run, tmp_path: Path) -> None:
    done = run("journal", "verify", str(tmp_path / "no\x1b[2Jwhere"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.endswith("no [2Jwhere: there is no such folder\n")


def test_no_argument_is_a_matter_of_usage(run: Run) -> None:
    assert run("journal", "verify").exit_code == 2


def test_what_a_stranger_wrote_reaches_no_terminal(run: Run, tmp_path: Path) -> None:
    root = write(tmp_path / "bundle")
    evil = "\x1b]0;owned\x07\x9b2J\r\u202e"
    edit(root, {"file": "session/events.ndjson", "line": 2, "set": {"messageId": evil, "nodeId": evil}})
    edit(root, {"file": "session/capture.json", "set": {"eventSchema": "v2" + evil}})
    edit(root, {"file": "session/binding.json", "set": {"runId": evil}})
    for options in ((), ("--json",)):
        done = run("journal", "verify", str(root), *options)
        assert done.exit_code == 1
        assert re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.stdout + done.stderr) == []
    assert any(evil in item["message"] for item in json.loads(done.stdout)["violations"])


def test_a_report_may_hold_half_a_surrogate_pair(run: Run, tmp_path: Path) -> None:
    root = sound(tmp_path / "bundle")
    edit(root, {"file": "session/events.ndjson", "line": 12, "text": '{"\\ud83d":1,"\\ud83d":2}'})
    (repeated, _) = json.loads(run("journal", "verify", str(root), "--json").stdout)["violations"]
    assert repeated["message"] == "an object has the key \ud83d twice"
    assert "an object has the key ? twice" in run("journal", "verify", str(root)).stdout
