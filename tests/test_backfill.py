"""Backfill: sessions that were there before us, each recorded once and none that is known."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.backfill import BATCH, Found, context_of, record, search, unknown
from sessionpipe.harnesses import Context, Harness, Past
from sessionpipe.intake import Intake
from sessionpipe.outbox import Outbox
from sessionpipe.spool import Spool
from tests.schema import assert_valid

DAY = 24 * 3_600_000
NOW = 1_795_976_000_000


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    outbox = Outbox.open(tmp_path / "outbox.db")
    yield outbox
    outbox.close()


def past(name: str, last_ms: int = NOW - DAY, started_ms: int = NOW - 2 * DAY, **block: Any) -> Past:
    turns, version = block.pop("turns", 3), block.pop("version", None)
    return Past(name, started_ms, last_ms, turns, block, version)


def found(*names: str) -> list[Found]:
    return [Found("codex", past(name, NOW - at)) for at, name in enumerate(names)]


def events(outbox: Outbox) -> list[dict[str, Any]]:
    told = [json.loads(row.body) for row in outbox.read(0, 10_000)]
    for event in told:
        assert_valid(event)
    return told


class TestSearch:
    @staticmethod
    def of(monkeypatch: pytest.MonkeyPatch, **pasts: Any) -> Any:
        """A search over harnesses whose files tell these."""

        def get(name: str) -> Harness:
            def history(context: Context, since_ms: int, files: Any) -> Iterator[Past]:
                for one in pasts[name]:
                    if isinstance(one, Exception):
                        raise one
                    yield one

            return Harness(history=history)

        monkeypatch.setattr("sessionpipe.harnesses.get", get)
        return search(pasts, Context({}, "/", NOW, None), NOW - 30 * DAY)

    def test_all_are_found_newest_first_whatever_their_agent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        result = self.of(
            monkeypatch,
            a=[past("1", NOW - 5), past("2", NOW - 1)],
            b=[past("3", NOW - 3), past("4", NOW - 9)],
        )
        assert [(one.harness, one.past.session_id) for one in result.found] == [
            ("a", "2"),
            ("b", "3"),
            ("a", "1"),
            ("b", "4"),
        ]
        assert (result.failed, result.late) == ({}, False)

    def test_one_that_lies_in_two_places_is_the_later_of_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        result = self.of(monkeypatch, a=[past("1", NOW - 9), past("1", NOW - 5), past("1", NOW - 7)])
        assert [one.past.last_ms for one in result.found] == [NOW - 5]

    @pytest.mark.parametrize(
        "odd",
        [past("two words"), past(""), past("x" * 129), past("s", 0), past("s", -5), past("s", 10**18)],
    )
    def test_what_can_not_be_a_session_is_none(self, monkeypatch: pytest.MonkeyPatch, odd: Past) -> None:
        assert [one.past.session_id for one in self.of(monkeypatch, a=[odd, past("ok")]).found] == ["ok"]

    def test_a_file_that_was_touched_and_says_nothing_new_is_none(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.of(monkeypatch, a=[past("1", NOW - 31 * DAY)]).found == []

    @pytest.mark.parametrize(
        ("started", "last", "expected"),
        [
            (NOW - 9, NOW - 5, (NOW - 9, NOW - 5)),
            (NOW - 5, NOW - 9, (NOW - 9, NOW - 9)),
            (0, NOW - 9, (NOW - 9, NOW - 9)),
            (NOW - 9, NOW + DAY, (NOW - 9, NOW)),
        ],
    )
    def test_times_that_can_not_be_are_made_ones_that_can(
        self, monkeypatch: pytest.MonkeyPatch, started: int, last: int, expected: tuple[int, int]
    ) -> None:
        (one,) = self.of(monkeypatch, a=[past("1", last, started)]).found
        assert (one.past.started_ms, one.past.last_ms) == expected

    def test_an_agent_whose_files_break_us_keeps_nobody_from_the_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        result = self.of(monkeypatch, a=[past("1"), ValueError("odd")], b=[past("2")])
        assert {one.past.session_id for one in result.found} == {"1", "2"}
        assert result.failed == {"a": "ValueError('odd')"}

    def test_it_ends_when_its_time_is_over_with_what_it_has(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = iter([0.0, 1.0, 3.0])
        monkeypatch.setattr("sessionpipe.backfill.time.monotonic", lambda: next(clock))
        self.of(monkeypatch, a=[])
        monkeypatch.setattr(
            "sessionpipe.harnesses.get",
            lambda name: Harness(history=lambda *_: iter([past("1"), past("2"), past("3")])),
        )
        result = search(["a", "b"], Context({}, "/", NOW, None), 0, until=2.0)
        assert [one.past.session_id for one in result.found] == ["1", "2"]
        assert result.late

    def test_files_are_looked_for_by_what_a_hook_would_hand_on(self) -> None:
        context = context_of({"HOME": "/home/dev", "CODEX_HOME": "/c", "AWS_SECRET": "x"}, "/")
        assert context.env == {"HOME": "/home/dev", "CODEX_HOME": "/c"}
        assert context.home == "/home/dev"


class TestRecord:
    def test_each_is_one_event_with_number_nought(self, outbox: Outbox) -> None:
        facts = {"cwd": "/home/dev/src", "model": "m-1", "title": "Mend it", "title_source": "first-ask"}
        one = Found("codex", past("s-1", version="0.171.0", branch="main", account_id="a-1", **facts))
        assert record(outbox, [one], machine="studio", home="/home/dev") == 1
        (event,) = events(outbox)
        assert event["type"] == "session.backfill"
        assert event["data"] == {
            "started_at": "2026-11-27T18:13:20.000Z",
            "last_at": "2026-11-28T18:13:20.000Z",
            "turns": 3,
        }
        assert event["harness"] == {"name": "codex", "version": "0.171.0"}
        assert event["session"] == {
            "id": "s-1",
            "seq": 0,
            "machine": "studio",
            "cwd": "~/src",
            "branch": "main",
            "model": "m-1",
            "title": "Mend it",
            "title_source": "first-ask",
            "account_id": "a-1",
        }

    def test_what_is_not_said_is_absent(self, outbox: Outbox) -> None:
        record(outbox, [Found("codex", past("s-1", turns=None))], machine=None, home=None)
        (event,) = events(outbox)
        assert event["data"].keys() == {"started_at", "last_at"}
        assert event["session"] == {"id": "s-1", "seq": 0}

    def test_what_a_person_asked_is_redacted_and_cut_as_any_title(self, outbox: Outbox) -> None:
        token = "ghp_" + "".join("abcdefghijABCDEFGHIJ0123456789"[(i * 7 + 3) % 30] for i in range(36))
        title = {"title": f"use {token} " + "word " * 60, "title_source": "first-ask"}
        record(outbox, [Found("codex", past("s-1", **title))], machine=None, home=None)
        (event,) = events(outbox)
        assert token not in json.dumps(event)
        assert len(event["session"]["title"]) <= 80

    def test_the_folders_origin_is_its_repository_and_its_branch_of_today_is_nobodys(
        self, outbox: Outbox, tmp_path: Path
    ) -> None:
        git = tmp_path / "src" / ".git"
        (git / "objects").mkdir(parents=True)
        (git / "refs").mkdir()
        (git / "HEAD").write_text("ref: refs/heads/today\n")
        (git / "config").write_text('[remote "origin"]\n\turl = https://example.org/lamp.git\n')
        record(outbox, [Found("codex", past("s-1", cwd=str(git.parent)))], machine=None, home=None)
        (event,) = events(outbox)
        assert event["session"]["repo"] == "example.org/lamp"
        assert "branch" not in event["session"]

    def test_a_session_that_is_known_is_left_alone(self, outbox: Outbox) -> None:
        record(outbox, found("s-1"), machine=None, home=None)
        before = events(outbox)
        assert record(outbox, found("s-1", "s-2"), machine="m", home=None) == 1
        assert events(outbox)[:1] == before
        assert [one.past.session_id for one in unknown(outbox, found("s-1", "s-2", "s-3"))] == ["s-3"]

    def test_one_that_was_forgotten_stays_forgotten(self, outbox: Outbox) -> None:
        record(outbox, found("s-1"), machine=None, home=None)
        outbox.forget("codex", "s-1", NOW, 1, lambda seq: b'{"type": "session.forgotten"}')
        assert unknown(outbox, found("s-1")) == []
        assert record(outbox, found("s-1"), machine=None, home=None) == 0
        assert [row.type for row in outbox.read(0, 10)] == ["session.forgotten"]

    def test_the_same_id_of_another_agent_is_another_session(self, outbox: Outbox) -> None:
        record(outbox, found("s-1"), machine=None, home=None)
        assert record(outbox, [Found("pi", past("s-1"))], machine=None, home=None) == 1

    def test_when_it_was_active_is_what_the_files_say(self, outbox: Outbox) -> None:
        record(outbox, [Found("codex", past("s-1"))], machine=None, home=None)
        (row,) = outbox.sessions()
        assert (row.first_ms, row.last_ms, row.last_type) == (NOW - 2 * DAY, NOW - DAY, "session.backfill")

    def test_interrupted_it_goes_on_where_it_was(
        self, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        many = found(*(f"s-{n}" for n in range(BATCH * 2 + 5)))
        told: list[int] = []

        def interrupt(seen: int) -> None:
            told.append(seen)
            if seen > BATCH:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            record(outbox, many, machine=None, home=None, told=interrupt)
        assert outbox.count() == (BATCH * 2, BATCH * 2)
        assert record(outbox, unknown(outbox, many), machine=None, home=None) == 5
        assert [row.seq for row in outbox.read(0, 10_000)] == [0] * (BATCH * 2 + 5)
        assert told == [BATCH, BATCH * 2]

    def test_a_disk_that_fails_leaves_whole_batches(
        self, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        many = found(*(f"s-{n}" for n in range(BATCH + 5)))
        count = [0]

        def failing(name: str) -> None:
            count[0] += name == "backfill.inserted"
            if count[0] == 2:
                raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr("sessionpipe.backfill.faults.point", failing)
        with pytest.raises(sqlite3.OperationalError):
            record(outbox, many, machine=None, home=None)
        assert outbox.count() == (BATCH, BATCH)


class TestGoingOn:
    """A hook of a session that was known from files alone."""

    SESSION = "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10"

    @pytest.fixture
    def go_on(self, outbox: Outbox, tmp_path: Path) -> Any:
        spool = Spool(tmp_path / "spool")
        spool.prepare()
        record(
            outbox,
            [Found("codex", past(self.SESSION, title="Old", title_source="custom"))],
            machine=None,
            home=None,
        )

        def go_on(event: str, at_ms: int, **payload: Any) -> None:
            body = {"session_id": self.SESSION, "cwd": "/w", "turn_id": "t-1", **payload}
            header = f"v=1\0harness=codex\0event={event}\0at_ms={at_ms}\0cwd=/\0ppid=1\0\0"
            (spool.new / f"{at_ms:020d}.job").write_bytes(header.encode() + json.dumps(body).encode())
            Intake(outbox, spool, machine=lambda: "m", log=lambda level, message: None).run()

        return go_on

    def test_its_numbers_go_on_and_no_start_is_made_up(self, outbox: Outbox, go_on: Any) -> None:
        go_on("UserPromptSubmit", NOW + 5, prompt="again")
        assert [(e["type"], e["session"]["seq"]) for e in events(outbox)] == [
            ("session.backfill", 0),
            ("turn.started", 1),
        ]
        assert events(outbox)[-1]["session"]["title"] == "Old"

    def test_a_start_that_its_agent_tells_is_told(self, outbox: Outbox, go_on: Any) -> None:
        go_on("SessionStart", NOW + 5, source="resume")
        assert [(e["type"], e["data"].get("source")) for e in events(outbox)][1:] == [
            ("session.started", "resume")
        ]

    def test_what_was_said_before_is_not_told_as_if_we_had_been_there(
        self, outbox: Outbox, go_on: Any
    ) -> None:
        go_on("UserPromptSubmit", NOW + 5, prompt="again")
        go_on("Stop", NOW + 9, transcript_path="/nowhere/rollout-1.jsonl")
        (pending,) = outbox.pending_reads()
        assert pending.first_ms == NOW + 5

    def test_it_is_a_session_like_any_from_then_on(self, outbox: Outbox, go_on: Any) -> None:
        go_on("UserPromptSubmit", NOW + 5, prompt="again")
        (row,) = outbox.sessions()
        assert (row.last_ms, row.last_type) == (NOW + 5, "turn.started")
