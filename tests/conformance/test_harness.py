"""``sessionpipe-conformance harness``: our adapters and other people's programs held to recorded hooks."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sessionpipe.conformance import main
from sessionpipe.conformance.harness import ANY, fits, hooks

SESSION = "01a10860-a43f-4ce2-812f-a7911ae8a880"
EVENT: dict[str, Any] = {
    "v": 1,
    "id": ANY,
    "type": "turn.ended",
    "tier": 3,
    "time": "1970-01-01T00:00:01.000Z",
    "harness": {"name": "claude-code", "event": "Stop"},
    "session": {"id": SESSION, "short": ANY, "seq": 0, "cwd": "/src"},
    "data": {"reason": "stop"},
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["harness", *arguments])


def scenario(
    root: Path, *events: dict[str, Any], payload: object = None, made: bool = False, name: str = "one"
) -> Path:
    folder = root / "claude-code" / name
    folder.mkdir(parents=True)
    stop = {
        "session_id": SESSION,
        "transcript_path": f"/home/dev/{SESSION}.jsonl",
        "cwd": "/src",
        "hook_event_name": "Stop",
    }
    hook: dict[str, Any] = {"argv": ["hook", "Stop"], "env": {}, "stdin": payload or stop, "at_ms": 1000}
    (folder / "01-Stop.json").write_text(json.dumps(hook | ({"made": True} if made else {})))
    (folder / "expected.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
    return folder


@pytest.fixture
def mapped(tmp_path: Path) -> dict[str, Any]:
    """What ours makes of the scenario's one hook."""
    (hook,) = hooks(scenario(tmp_path / "probe"))
    from sessionpipe.conformance.harness import ours

    event: dict[str, Any] = json.loads(ours(hook))
    return event


def program(tmp_path: Path, body: str) -> str:
    path = tmp_path / "mapper.py"
    path.write_text(f"import json, sys\npayload = json.loads(sys.stdin.read())\n{body}\n")
    return f"{shlex.quote(sys.executable)} -I {shlex.quote(str(path))}"


def test_ours_holds_what_ships() -> None:
    done = run("codex")
    assert done.exit_code == 0
    assert done.output.startswith("codex: ")


def test_a_scenario_holds_when_every_event_is_the_expected_one(
    tmp_path: Path, mapped: dict[str, Any]
) -> None:
    scenario(tmp_path, {**mapped, "id": ANY})
    done = run("--from", str(tmp_path), "claude-code")
    assert (done.exit_code, done.output) == (0, "claude-code: 1/1 recorded, 1 events\n")


def test_scenarios_that_nobody_recorded_are_counted_by_themselves(
    tmp_path: Path, mapped: dict[str, Any]
) -> None:
    scenario(tmp_path, {**mapped, "id": ANY}, made=True)
    scenario(tmp_path, {**mapped, "id": ANY}, name="two")
    assert run("--from", str(tmp_path)).output == "claude-code: 1/1 recorded, 1/1 documented, 2 events\n"


def test_a_different_event_is_shown_beside_the_expected_one(tmp_path: Path, mapped: dict[str, Any]) -> None:
    scenario(tmp_path, {**mapped, "id": ANY, "type": "turn.started"})
    done = run("--from", str(tmp_path))
    assert done.exit_code == 1
    assert "claude-code/one fails: event 1, of 01-Stop.json" in done.output
    assert '"type": "turn.started"' in done.output
    assert '"type": "turn.ended"' in done.output


@pytest.mark.parametrize("times", [0, 2])
def test_a_missing_event_and_one_too_many_fail(tmp_path: Path, mapped: dict[str, Any], times: int) -> None:
    scenario(tmp_path, *[{**mapped, "id": ANY}] * times)
    done = run("--from", str(tmp_path), "--json")
    (report,) = json.loads(done.output)
    assert (done.exit_code, report["passed"], report["failed"][0]["scenario"]) == (1, 0, "one")
    assert report["failed"][0]["why"] == f"1 events, and {times} are expected"


def test_a_program_is_called_as_map_is(tmp_path: Path) -> None:
    says = "print(json.dumps({'argv': sys.argv[1:], 'of': payload['hook_event_name']}))"
    words = ["claude-code", "Stop", "--cwd", "/", "--at", "1000", "--"]
    scenario(tmp_path, {"argv": words, "of": "Stop"})
    assert run("--from", str(tmp_path), "--command", program(tmp_path, says)).exit_code == 0


@pytest.mark.parametrize(
    ("body", "why"), [("sys.exit(3)", "01-Stop.json: exit status 3"), ("print('x')", "01-Stop.json: ")]
)
def test_a_program_that_fails_fails_its_scenario(tmp_path: Path, body: str, why: str) -> None:
    scenario(tmp_path, EVENT)
    done = run("--from", str(tmp_path), "--command", program(tmp_path, body))
    assert done.exit_code == 1
    assert why in done.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("nobody",), "no scenario of nobody"),
        (("--command", "no-such-program-here"), "no program 'no-such-program-here'"),
    ],
)
def test_what_cannot_be_run_is_a_usage_error(arguments: tuple[str, ...], why: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert why in done.output


def test_a_file_that_is_no_hook_is_named(tmp_path: Path) -> None:
    (scenario(tmp_path, EVENT) / "02-Stop.json").write_text("{}")
    done = run("--from", str(tmp_path))
    assert done.exit_code == 2
    assert "02-Stop.json is no hook" in done.output


@pytest.mark.parametrize(
    ("value", "wanted", "fitting"),
    [
        ({"a": 1}, {"a": ANY}, True),
        ({}, {"a": ANY}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ([1, 2], [1, ANY], True),
        ([1], [1, ANY], False),
        (True, 1, False),
        (None, None, True),
        ("x", "y", False),
    ],
)
def test_a_star_stands_for_any_value_that_is_there(value: object, wanted: object, fitting: bool) -> None:
    assert fits(value, wanted) is fitting
