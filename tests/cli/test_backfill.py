"""`sessionpipe backfill`, and what `install` does of it the first time, on made-up files of Pi's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.clock import now_ms
from sessionpipe.outbox import Outbox
from sessionpipe.paths import State, state_dir
from sessionpipe.protocol import rfc3339

DAY = 24 * 3_600_000


@pytest.fixture(autouse=True)
def _no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONPIPE_NO_WORKER", "1")


def pi_session(name: str, days_ago: float, asked: str = "mend the lamp") -> Path:
    """A session of Pi's that was active so long ago; its file."""
    at = now_ms() - int(days_ago * DAY)
    folder = Path(os.environ["HOME"]) / ".pi" / "agent" / "sessions" / "--src--"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"type": "session", "version": 3, "id": name, "timestamp": rfc3339(at), "cwd": "/src"},
        {
            "type": "message",
            "id": "a",
            "timestamp": rfc3339(at + 5),
            "message": {"role": "user", "content": asked},
        },
    ]
    file = folder / f"2026_{name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(file, (at / 1000, at / 1000))
    return file


def recorded() -> list[tuple[str, str, int]]:
    outbox = Outbox.look(State(state_dir()).outbox)
    if outbox is None:
        return []
    try:
        rows = [json.loads(row.body) for row in outbox.read(0, 1000)]
    finally:
        outbox.close()
    return [(row["type"], row["session"]["id"], row["session"]["seq"]) for row in rows]


def test_the_sessions_of_a_month_are_recorded_newest_first(run: Any) -> None:
    for name, days in (("s-1", 20), ("s-2", 1), ("s-3", 40)):
        pi_session(name, days)
    done = run("backfill")
    assert done.exit_code == 0
    assert done.stdout == "2 sessions recorded (pi 2)\n"
    assert recorded() == [("session.backfill", "s-2", 0), ("session.backfill", "s-1", 0)]


def test_done_again_it_records_what_is_new(run: Any) -> None:
    pi_session("s-1", 2)
    run("backfill")
    assert run("backfill").stdout == "all 1 session of the last 30 days are known already\n"
    pi_session("s-2", 50)
    assert run("backfill", "--days", "60").stdout == "1 session recorded (pi 1); 1 more known already\n"
    assert len(recorded()) == 2


def test_a_dry_run_shows_them_and_records_nothing(run: Any) -> None:
    pi_session("s-1", 2, "mend the \x1b[31mlamp")
    done = run("backfill", "--dry-run")
    first, last = done.stdout.splitlines()
    assert "pi" in first and "1 prompt" in first and "src: mend the" in first and "\x1b" not in first
    assert last == "1 session would be recorded (pi 1)"
    assert not state_dir().exists()


def test_where_there_is_none_it_says_so(run: Any) -> None:
    done = run("backfill", "--days", "1")
    assert (done.exit_code, done.stdout) == (
        0,
        "no session of the last 1 day was found in the agents' files\n",
    )
    assert not state_dir().exists()


def test_one_agents_alone(run: Any) -> None:
    pi_session("s-1", 2)
    assert "no session" in run("backfill", "--harness", "codex").stdout
    assert "1 session recorded" in run("backfill", "--harness", "pi").stdout
    assert run("backfill", "--harness", "vim").exit_code == 2


@pytest.mark.parametrize("days", ["0", "-3", "4000", "x"])
def test_days_that_are_none_are_a_usage_error(run: Any, days: str) -> None:
    assert run("backfill", "--days", days).exit_code == 2


def test_json_says_what_was_found_and_done(run: Any) -> None:
    pi_session("s-1", 2)
    told = json.loads(run("backfill", "--json").stdout)
    assert {name: told[name] for name in ("days", "found", "known", "recorded", "late", "failed")} == {
        "days": 30,
        "found": 1,
        "known": 0,
        "recorded": 1,
        "late": False,
        "failed": {},
    }
    (session,) = told["sessions"]
    assert (session["harness"], session["id"], session["turns"]) == ("pi", "s-1", 1)


def test_such_a_session_is_listed_as_one_of_before(run: Any) -> None:
    pi_session("s-1", 2)
    run("backfill")
    assert "before" in run("sessions").stdout
    (session,) = json.loads(run("sessions", "--json").stdout)
    assert (session["state"], session["title"]) == ("before", "mend the lamp")
    assert "from history" in run("tail", "--all", "--no-follow").stdout


def test_a_state_directory_that_can_not_be_had_is_one_line(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pi_session("s-1", 2)
    monkeypatch.setenv("SESSIONPIPE_STATE_DIR", "/dev/null/state")
    done = run("backfill")
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1


class TestFirstInstall:
    def test_it_records_what_was_there_before(self, run: Any) -> None:
        pi_session("s-1", 2)
        done = run("install", "pi")
        assert "1 session of the last 30 days that were there before the hooks" in done.stdout
        assert recorded() == [("session.backfill", "s-1", 0)]

    def test_of_the_agents_that_were_hooked(self, run: Any) -> None:
        pi_session("s-1", 2)
        (Path(os.environ["HOME"]) / ".claude").mkdir()
        run("install", "claude-code")
        assert recorded() == []

    def test_not_where_the_person_says_so(self, run: Any) -> None:
        pi_session("s-1", 2)
        run("install", "pi", "--no-backfill")
        assert recorded() == []

    def test_not_on_a_dry_run(self, run: Any) -> None:
        pi_session("s-1", 2)
        run("install", "pi", "--dry-run")
        assert recorded() == []

    def test_not_where_sessions_are_known_already(self, run: Any, recorder: Any) -> None:
        recorder.add("one", "turn.started")
        pi_session("s-1", 2)
        run("install", "pi")
        assert [kind for kind, *_ in recorded()] == ["turn.started"]

    def test_who_does_not_wait_for_it_has_the_hooks_all_the_same(
        self, run: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pi_session("s-1", 2)

        def interrupted(*_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

        monkeypatch.setattr("sessionpipe.backfill.search", interrupted)
        done = run("install", "pi")
        assert done.exit_code == 0
        assert "earlier sessions are left out" in done.stderr
        assert recorded() == []

    def test_not_the_second_time(self, run: Any) -> None:
        run("install", "pi")
        pi_session("s-1", 2)
        run("install", "pi")
        assert recorded() == []
