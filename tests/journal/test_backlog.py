"""What waits to be written is bounded, and who adds to it never waits unless it asks to."""

from __future__ import annotations

import threading

from sessionpipe.journal.backlog import Backlog
from sessionpipe.journal.format import QUEUE_BYTES, QUEUE_RECORDS


def nothing() -> None:
    pass


def test_the_limit_of_records() -> None:
    backlog = Backlog()
    assert all(backlog.put(nothing, 1) for _ in range(QUEUE_RECORDS))
    assert not backlog.put(nothing, 1)


def test_the_limit_of_bytes() -> None:
    backlog = Backlog()
    assert backlog.put(nothing, QUEUE_BYTES - 1)
    assert not backlog.put(nothing, 2)
    assert backlog.put(nothing, 1)


def test_what_was_taken_waits_until_it_is_written() -> None:
    backlog = Backlog(records=2)
    backlog.put(nothing, 1)
    backlog.put(nothing, 1)
    assert len(backlog.take(wait=True)) == 2
    assert not backlog.put(nothing, 1)
    backlog.done(1, 1)
    assert backlog.put(nothing, 1)


def test_work_that_is_no_record_s_is_always_taken_on_and_order_is_kept() -> None:
    backlog = Backlog(records=1)
    done: list[str] = []
    backlog.put(lambda: done.append("record"), 1)
    backlog.add(lambda: done.append("end"))
    for work in backlog.take(wait=True):
        work()
    assert done == ["record", "end"]


def test_it_is_crowded_when_half_of_what_may_wait_does() -> None:
    backlog = Backlog(records=4, size=100)
    backlog.put(nothing, 1)
    backlog.put(nothing, 1)
    assert not backlog.crowded
    backlog.put(nothing, 1)
    assert backlog.crowded


def test_whoever_asks_for_room_gets_it_when_work_was_taken() -> None:
    backlog = Backlog(records=8)
    for _ in range(4):
        backlog.put(nothing, 1)
    taker = threading.Thread(target=lambda: backlog.take(wait=True))
    taker.start()
    assert backlog.wait_for_room(30)
    taker.join()


def test_and_is_told_when_nothing_moves() -> None:
    backlog = Backlog(records=8)
    for _ in range(4):
        backlog.put(nothing, 1)
    assert not backlog.wait_for_room(0.01)


def test_bytes_in_line_make_it_wait_too() -> None:
    backlog = Backlog(size=80)
    backlog.put(nothing, 11)
    assert not backlog.wait_for_room(0.01)


def test_a_closed_one_keeps_nothing_and_nobody_waiting() -> None:
    backlog = Backlog(records=8)
    for _ in range(8):
        backlog.put(nothing, 1)
    backlog.close()
    assert backlog.put(nothing, 1)
    assert backlog.wait_for_room(30)
    assert backlog.take(wait=False) == []
