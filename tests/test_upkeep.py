"""Upkeep: what goes when, and what is said of it. tests/e2e has it on a full disk and killed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessionpipe import upkeep as module
from sessionpipe.config import parse
from sessionpipe.liveness import Fifo
from sessionpipe.outbox import Damaged, Outbox
from sessionpipe.outboxfile import release
from sessionpipe.paths import State
from sessionpipe.upkeep import DAY_MS, HOUR_MS, Retention, Upkeep
from tests.delivery.events import record
from tests.patience import PATIENCE_S
from tests.sinkrow import put

NOW = 1_800_000_000_000


class Host:
    """A worker that keeps what it is told."""

    def __init__(self, root: Path) -> None:
        self.state = State(root)
        self.fifo = Fifo(self.state.fifo)
        self.lines: list[str] = []
        self.damages: list[str] = []

    def log(self, level: str, message: str) -> None:
        self.lines.append(message)

    def committed(self) -> None:
        return

    def damaged(self, why: str) -> None:
        self.damages.append(why)

    def rested(self) -> None:
        return


class Bench:
    def __init__(self, root: Path) -> None:
        self.host = Host(root)
        self.outbox = Outbox.open(self.host.state.outbox)
        self.retention: Retention | None = Retention(30, None, frozenset())

    def run(self, now: int = NOW) -> int:
        """Do all there is to do; in how many steps."""
        upkeep = Upkeep(self.host, lambda: self.retention)
        steps = 1
        while upkeep.step(self.outbox, now, False)[0]:
            steps += 1
        return steps

    def kept(self) -> list[int]:
        return [row.position for row in self.outbox.read(0, 100_000, 1 << 40)]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "PAUSE_S", 0)
    (tmp_path / "state").mkdir()
    bench = Bench(tmp_path / "state")
    yield bench
    bench.outbox.close()


class TestDays:
    def test_what_is_older_and_every_live_sink_is_past_goes(self, bench: Bench) -> None:
        record(bench.outbox, at_ms=NOW - 40 * DAY_MS, count=5)
        record(bench.outbox, at_ms=NOW - 20 * DAY_MS, count=5)
        bench.outbox.add_sink("ahead", 10)
        bench.outbox.add_sink("behind", 3)
        bench.retention = Retention(30, None, frozenset({"ahead", "behind"}))
        bench.run()
        assert bench.kept() == [4, 5, 6, 7, 8, 9, 10]
        bench.outbox.change_sink("behind", lambda sink: sink.placed(10))
        bench.run(NOW + HOUR_MS)
        assert bench.kept() == [6, 7, 8, 9, 10]

    def test_a_removed_sink_holds_nothing_and_one_without_a_row_holds_all(self, bench: Bench) -> None:
        record(bench.outbox, at_ms=NOW - 40 * DAY_MS, count=5)
        bench.outbox.add_sink("removed", 0)
        bench.retention = Retention(30, None, frozenset({"new"}))
        bench.run()
        assert len(bench.kept()) == 5
        bench.retention = Retention(30, None, frozenset())
        bench.run(NOW + HOUR_MS)
        assert bench.kept() == []

    def test_with_settings_that_cannot_be_read_nothing_goes(self, bench: Bench) -> None:
        record(bench.outbox, at_ms=NOW - 40 * DAY_MS, count=5)
        bench.retention = None
        bench.run()
        assert len(bench.kept()) == 5

    def test_it_is_done_once_an_hour_whatever_the_number_of_workers(self, bench: Bench) -> None:
        bench.run()
        record(bench.outbox, at_ms=NOW - 40 * DAY_MS)
        bench.run(NOW + HOUR_MS - 1)
        assert len(bench.kept()) == 1
        bench.run(NOW + HOUR_MS)
        assert bench.kept() == []

    def test_a_clock_that_was_set_back_does_not_put_it_off(self, bench: Bench) -> None:
        bench.run(NOW + 300 * DAY_MS)
        record(bench.outbox, at_ms=NOW - 40 * DAY_MS)
        bench.run(NOW)
        assert bench.kept() == []

    def test_old_ones_behind_those_of_a_clock_that_was_ahead_go_too(self, bench: Bench) -> None:
        record(bench.outbox, at_ms=NOW + 400 * DAY_MS, count=700)
        record(bench.outbox, at_ms=NOW - 40 * DAY_MS, count=700)
        bench.run()
        assert bench.kept() == list(range(1, 701))

    def test_it_goes_in_small_transactions(self, bench: Bench) -> None:
        record(bench.outbox, "tool.ended", {"out": "y" * 9000}, at_ms=NOW - 40 * DAY_MS, count=300)
        assert bench.run() > 300 * 9000 // module_slice()
        assert bench.kept() == []


def module_slice() -> int:
    from sessionpipe.outbox import _SLICE_BYTES

    return 2 * _SLICE_BYTES


class TestBound:
    @pytest.fixture(autouse=True)
    def fill(self, bench: Bench) -> None:
        record(bench.outbox, "tool.ended", {"out": "y" * 1000}, at_ms=NOW, count=1500)
        bench.outbox.add_sink("slow", 100)
        bench.outbox.add_sink("done", 1500)
        bench.outbox.add_sink("gone", 0)

    def test_the_oldest_go_until_it_fits_and_each_sink_counts_what_it_lacked(self, bench: Bench) -> None:
        bench.retention = Retention(30, 1 << 20, frozenset({"slow", "done"}))
        bench.run()
        assert bench.outbox.occupied() <= 1 << 20
        first = bench.kept()[0]
        assert bench.kept() == list(range(first, 1501))
        lost = {sink.name: (sink.lost, sink.lost_ms) for sink in bench.outbox.sinks()}
        assert lost == {"slow": (first - 1 - 100, NOW), "done": (0, 0), "gone": (0, 0)}
        assert bench.host.lines == [
            f"sink slow: {first - 101} events it did not have yet were let go, the oldest first:"
            " the outbox had reached max_mb"
        ]

    def test_cursors_stay_where_they_are(self, bench: Bench) -> None:
        bench.retention = Retention(30, 1 << 20, frozenset({"slow"}))
        bench.run()
        assert {sink.name: sink.position for sink in bench.outbox.sinks()} == {
            "slow": 100,
            "done": 1500,
            "gone": 0,
        }

    def test_a_bound_that_nothing_fits_keeps_no_event_and_ends(self, bench: Bench) -> None:
        bench.retention = Retention(30, 0, frozenset())
        bench.run()
        assert bench.kept() == []

    def test_without_one_everything_stays(self, bench: Bench) -> None:
        bench.run()
        assert len(bench.kept()) == 1500

    def test_while_it_is_reached_all_the_time_it_is_not_said_all_the_time(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.retention = Retention(30, 1 << 20, frozenset({"slow"}))
        one = Upkeep(bench.host, lambda: bench.retention)
        for _ in range(3):
            while one.step(bench.outbox, NOW, False)[0]:
                pass
            record(bench.outbox, "tool.ended", {"out": "y" * 1000}, at_ms=NOW, count=200)
        assert len(bench.host.lines) == 1

    def test_what_the_settings_say(self, tmp_path: Path) -> None:
        text = (
            "[retention]\ndays = 3\nmax_mb = 5\n"
            '[[sinks]]\nname = "f"\nkind = "file"\npath = "/x"\npaused = true\n'
            '[[sinks]]\nname = "o"\nkind = "stdout"\n'
        )
        config = parse(text, tmp_path / "config.toml")
        assert Retention.of(config) == Retention(3, 5 << 20, frozenset({"f"}))


class TestFile:
    def test_what_is_more_than_half_empty_is_given_back(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_WORTH", 1 << 20)
        record(bench.outbox, "tool.ended", {"out": "y" * 9000}, at_ms=NOW - 40 * DAY_MS, count=500)
        bench.outbox.checkpoint()
        before = bench.host.state.outbox.stat().st_size
        bench.run()
        bench.outbox.checkpoint()
        assert bench.host.state.outbox.stat().st_size < before // 4
        bench.outbox.check()

    def test_a_little_is_left_to_grow_into(self, bench: Bench) -> None:
        record(bench.outbox, "tool.ended", {"out": "y" * 9000}, at_ms=NOW - 40 * DAY_MS, count=100)
        bench.run()
        assert bench.outbox.returnable() > 500_000

    def test_one_of_an_earlier_version_is_left_as_it_is(self, tmp_path: Path) -> None:
        import sqlite3

        path = tmp_path / "old.db"
        sqlite3.connect(path).execute("CREATE TABLE x (y)").connection.close()
        old = Outbox.open(path)
        assert (old.returnable(), old.shrink()) == (0, False)
        old.close()

    def test_room_is_kept_free_again(self, bench: Bench) -> None:
        assert release(bench.host.state.outbox)
        bench.run()
        assert release(bench.host.state.outbox)


class TestCheck:
    def test_damage_that_nobody_meets_is_found_within_a_day(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.run()
        checked: list[int] = []
        check = Outbox.check
        monkeypatch.setattr(Outbox, "check", lambda outbox, stop: (checked.append(1), check(outbox))[1])
        bench.run(NOW + DAY_MS - 1)
        assert checked == []
        bench.run(NOW + DAY_MS)
        assert checked == [1]

    def test_the_worker_is_told_of_it(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        def damaged(outbox: Outbox, stop: object) -> bool:
            raise Damaged(outbox.path, "page 7 is noise")

        monkeypatch.setattr(Outbox, "check", damaged)
        part = Upkeep(bench.host, lambda: bench.retention)
        part.start()
        told = threading.Event()
        monkeypatch.setattr(bench.host, "damaged", lambda why: (bench.host.damages.append(why), told.set()))
        assert told.wait(PATIENCE_S)
        part.stop()
        part.join(PATIENCE_S)
        assert bench.host.damages[0] == "page 7 is noise"

    def test_looking_ends_when_the_worker_does(self, bench: Bench) -> None:
        record(bench.outbox, at_ms=NOW, count=3000)
        part = Upkeep(bench.host, lambda: bench.retention)
        part.stop()
        while not bench.outbox.note("pruned_ms"):
            part.step(bench.outbox, NOW, False)
        assert part.step(bench.outbox, NOW, False) == (True, NOW + HOUR_MS)
        assert bench.outbox.note("checked_ms") is None


def test_lost_survives_in_a_sinks_row(bench: Bench) -> None:
    row = msgspec.structs.replace(bench.outbox.add_sink("a", 0), lost=3, lost_ms=9)
    put(bench.outbox, row)
    assert bench.outbox.sink("a") == row
