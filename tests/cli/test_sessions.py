"""The sessions and where they stand, by what was heard of them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from sessionpipe.cli.sessions import standing
from sessionpipe.outbox import SessionRow, encode
from sessionpipe.protocol import rfc3339, short_id
from tests.cli.conftest import START


def row(last_type: str, **memory: Any) -> SessionRow:
    state = encode({"started": True, "turn": None, "open": {}, **memory})
    return SessionRow("pi", "s", 1, 0, 0, last_type, b"{}", state)


RUNNING = {"id": "t", "since": 1, "over": False}
OVER = {"id": "t", "since": 1, "over": True}


@pytest.mark.parametrize(
    ("expected", "seen"),
    [
        ("idle", row("session.started")),
        ("working", row("tool.ended", turn=RUNNING)),
        ("idle", row("turn.ended", turn=OVER)),
        ("idle", row("turn.transcript", turn=OVER)),
        ("needs you", row("attention.needed", turn=RUNNING, open={"a": {"kind": "permission"}})),
        ("idle", row("attention.needed", turn=OVER, open={"a": {"kind": "idle"}})),
        ("ended", row("session.ended")),
        ("ended", row("turn.transcript")),
    ],
)
def test_where_a_session_stands(expected: str, seen: SessionRow) -> None:
    assert standing(seen) == expected


def test_fold_remembers_what_standing_reads() -> None:
    from sessionpipe.adapters.fold import fold

    def draft(type_: str, **data: Any) -> dict[str, Any]:
        return {
            "type": type_, "at_ms": 1, "harness": {"name": "pi"}, "session": {"id": "s"}, "data": data, "memo": {},
        }  # fmt: skip

    memory: dict[str, Any] = {}
    stood = []
    for said in (
        draft("session.started", source="startup"),
        draft("turn.started", turn_id="t"),
        draft("attention.needed", attention_id="a", kind="permission"),
        draft("turn.ended", turn_id="t", reason="stop"),
        draft("session.ended", reason="exit"),
    ):
        memory, _ = fold(memory, [said])
        stood.append(standing(SessionRow("pi", "s", 1, 0, 0, said["type"], b"{}", encode(memory))))
    assert stood == ["idle", "working", "needs you", "idle", "ended"]


def test_nothing_recorded_is_said_and_is_no_error(run: Any, tmp_path: Any) -> None:
    done = run("sessions")
    assert (done.exit_code, done.output) == (
        0,
        "no session is recorded yet; `sessionpipe install` hooks your agents\n",
    )
    assert json.loads(run("sessions", "--json").output) == []
    assert not (tmp_path / "state").exists()


def test_a_line_a_session_newest_first(run: Any, recorder: Any) -> None:
    recorder.add("one", "session.started", cwd="~/src/app", title="Fix\x1b[31m it", branch="main")
    recorder.add("two", "turn.started", harness="codex", memory={"turn": RUNNING})
    head, first, second = run("sessions").output.splitlines()
    assert head.split()[:3] == ["id", "harness", "state"]
    assert "codex" in first and "working" in first and "turn.started" in first
    assert "app: Fix [31m it  main" in second


def test_who_waits_for_the_person_stands_on_top_for_a_day(run: Any, recorder: Any) -> None:
    def shown() -> list[str]:
        return [line.split("  ")[0] for line in run("sessions").output.splitlines()[1:]]

    asks = {"turn": RUNNING, "open": {"a": {"kind": "permission"}}}
    recorder.now = time.time_ns() // 1_000_000 - 2 * 86_400_000
    recorder.add("old", "attention.needed", memory=asks)
    recorder.now += 2 * 86_400_000 - 60_000
    recorder.add("new", "attention.needed", memory=asks)
    recorder.add("works", "turn.started", memory={"turn": RUNNING})
    assert shown() == [short_id("claude-code", name) for name in ("new", "works", "old")]


def test_a_column_that_nothing_stands_in_is_left_out(run: Any, recorder: Any) -> None:
    recorder.add("one", "session.started", cwd="~/src/app", model="opus")
    assert run("sessions").output.splitlines()[0].split("  ")[-1] == "model"
    assert "branch" not in run("sessions").output


def test_json_has_every_fact(run: Any, recorder: Any) -> None:
    recorder.add("one", "session.started", cwd="~/src/app", title="Fix it", title_source="custom")
    assert json.loads(run("sessions", "--json").output) == [
        {
            "short_id": short_id("claude-code", "one"),
            "harness": "claude-code",
            "id": "one",
            "state": "idle",
            "first_at": rfc3339(START + 1000),
            "last_at": rfc3339(START + 1000),
            "last_type": "session.started",
            "events": 1,
            "cwd": "~/src/app",
            "title": "Fix it",
            "title_source": "custom",
        }
    ]


@pytest.mark.parametrize("control", ["\x00", "\x1b[2J", "\x7f", "\x9b", "\u202e"])
def test_no_title_commands_the_terminal_and_json_has_it_whole(control: str, run: Any, recorder: Any) -> None:
    recorder.add("one", "session.started", title=f"a{control}b")
    done = run("sessions", "--json")
    assert control not in done.stdout
    assert json.loads(done.stdout)[0]["title"] == f"a{control}b"
    assert control not in run("sessions").stdout
