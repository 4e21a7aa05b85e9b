"""The courier: every event once and in order, whatever the sink answers and whenever it is killed."""

from __future__ import annotations

import json
import multiprocessing
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessionpipe import faults
from sessionpipe.config import SinkConfig, Tools
from sessionpipe.delivery.batch import Batch, Limits
from sessionpipe.delivery.courier import Courier, Step
from sessionpipe.delivery.outcome import Acked, Drop, LowerTier, Outcome, Pause, Retry, Split
from sessionpipe.outbox import Outbox, SinkState
from sessionpipe.sinks import file
from sessionpipe.sinks.base import Learned, Sink
from tests.delivery.events import keys, lines, opened, record
from tests.receiver import Answer, Receiver

NOW = 1_790_000_000_000
HOUR = 3_600_000


class Scripted(Sink):
    """Answers with ``outcomes`` in turn, then takes everything; ``before`` runs as a batch arrives."""

    knows_messages = True

    def __init__(self, *outcomes: Outcome, limits: Limits | None = None) -> None:
        self.outcomes = list(outcomes)
        self.batches: list[Batch] = []
        self.taken: list[dict[str, Any]] = []
        self.before: Callable[[], None] = lambda: None
        self.learnt: Learned | Retry | Pause | None = None
        self._limits = limits or Limits(50, 262_144, 13, strict=True)

    def limits(self) -> Limits:
        return self._limits

    def learn(self, now_ms: int) -> Learned | Retry | Pause | None:
        learnt, self.learnt = self.learnt, None
        return learnt

    def send(self, batch: Batch) -> Outcome:
        self.batches.append(batch)
        self.before()
        outcome = self.outcomes.pop(0) if self.outcomes else Acked()
        if isinstance(outcome, Acked):
            self.taken += [json.loads(event) for event in batch.events]
        return outcome


class Desk:
    """One courier, its outbox, its sink and its log."""

    def __init__(self, outbox: Outbox, sink: Sink | None, config: SinkConfig) -> None:
        self.outbox = outbox
        self.lines: list[str] = []
        self.seconds = 0.0
        outbox.add_sink(config.name, 0)
        made: dict[str, Any] = {} if sink is None else {"make": lambda *_args, **_options: sink}
        self.courier = Courier(
            config,
            outbox,
            stop=threading.Event(),
            log=lambda _level, line: self.lines.append(line),
            env={},
            timer=lambda: self.seconds,
            **made,
        )
        self.name = config.name

    @property
    def state(self) -> SinkState:
        state = self.outbox.sink(self.name)
        assert state is not None
        return state

    def drain(self, now_ms: int = NOW) -> Step:
        """Step until nothing more can be done at once."""
        while (step := self.courier.step(now_ms)).progress:
            continue
        return step


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    with opened(tmp_path / "outbox.db") as box:
        yield box


def desk(outbox: Outbox, sink: Scripted, **config: Any) -> Desk:
    return Desk(
        outbox, sink, SinkConfig(**{"name": "board", "kind": "http", "url": "https://b.example", **config})
    )


def test_what_a_sink_logs_stands_behind_its_name(outbox: Outbox) -> None:
    lines: list[str] = []

    def make(*_args: Any, log: Callable[[str, str], None], **_options: Any) -> Sink:
        log("info", "hello")
        return Scripted()

    outbox.add_sink("board", 0)
    config = SinkConfig(name="board", kind="paper", url="x")
    Courier(
        config,
        outbox,
        stop=threading.Event(),
        log=lambda level, line: lines.append(f"{level} {line}"),
        make=make,
    ).step(NOW)
    assert lines == ["info sink board: hello"]


# --- the straight way -------------------------------------------------------------------------------


def test_everything_goes_once_and_in_order(outbox: Outbox) -> None:
    sent = [record(outbox, session=f"s{n % 30}")[0] for n in range(120)]
    sink = Scripted()
    here = desk(outbox, sink)
    assert here.drain() == Step(False)
    assert [event["id"] for event in sink.taken] == [event["id"] for event in sent]
    assert len(sink.batches) == 3
    assert (here.state.position, here.state.sent) == (120, 120)
    assert here.drain() == Step(False) and len(sink.batches) == 3


def test_what_comes_later_goes_later(outbox: Outbox) -> None:
    sink = Scripted()
    here = desk(outbox, sink)
    assert here.drain() == Step(False)
    record(outbox)
    here.drain()
    record(outbox)
    here.drain()
    assert keys(sink.taken) == [("s", 0), ("s", 1)]


def test_rows_filtered_to_nothing_move_the_cursor_without_a_request(outbox: Outbox) -> None:
    record(outbox, "tool.ended", {"tool": "Bash", "ok": True}, count=1_200)
    sink = Scripted()
    here = desk(outbox, sink)
    assert here.drain() == Step(False)
    assert (here.state.position, sink.batches) == (1_200, [])


def test_a_cursor_far_behind_moves_in_bounded_steps(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionpipe.delivery.courier.SCAN", 1_000)
    record(outbox, "tool.ended", {"tool": "Bash", "ok": True}, count=2_500)
    here = desk(outbox, Scripted())
    positions = []
    while here.courier.step(NOW).progress:
        positions.append(here.state.position)
    assert positions == [1_000, 2_000, 2_500]


def test_a_sink_without_a_row_is_idle(outbox: Outbox) -> None:
    record(outbox)
    here = desk(outbox, Scripted())
    outbox.remove_sink("board")
    assert here.drain() == Step(False)


def test_no_transaction_is_open_while_the_sink_is_spoken_to(outbox: Outbox, tmp_path: Path) -> None:
    record(outbox)
    sink = Scripted()
    here = desk(outbox, sink)

    def write_and_truncate() -> None:
        with opened(tmp_path / "outbox.db") as other:
            record(other)
            assert other.checkpoint()

    sink.before = write_and_truncate
    here.courier.step(NOW)
    assert len(sink.taken) == 1


# --- what an answer does ----------------------------------------------------------------------------


def test_a_failure_climbs_the_ladder_and_survives_restarts(outbox: Outbox) -> None:
    record(outbox)
    sink = Scripted(*[Retry("HTTP 500")] * 6)
    now, waits = NOW, []
    for _ in range(6):
        # Each attempt by a courier of its own, as after a restart.
        here = desk(outbox, sink)
        step = here.courier.step(now)
        assert step.wait_until_ms is not None
        assert here.courier.step(step.wait_until_ms - 1) == Step(False, step.wait_until_ms)
        waits.append((step.wait_until_ms - now) // 1000)
        now = step.wait_until_ms
    assert waits == [2, 10, 60, 300, 1800, 1800]
    assert (here.state.failures, here.state.last_error) == (6, "HTTP 500")
    assert here.drain(now) == Step(False)
    state = here.state
    assert (state.failures, state.next_attempt_ms, state.last_error, state.sent) == (0, 0, None, 1)
    assert len({batch.id for batch in sink.batches}) == 1


def test_a_wait_that_was_asked_for_is_kept_and_climbs_nothing(outbox: Outbox) -> None:
    record(outbox)
    here = desk(outbox, Scripted(Retry("HTTP 429", after_s=90)))
    assert here.courier.step(NOW) == Step(False, NOW + 90_000, False)
    assert here.state.failures == 0
    assert here.drain(NOW + 90_000) == Step(False)
    assert here.state.sent == 1


def test_a_retry_is_the_same_batch_though_more_was_recorded(outbox: Outbox) -> None:
    record(outbox, count=2)
    sink = Scripted(Retry("HTTP 500"))
    desk(outbox, sink).courier.step(NOW)
    record(outbox, count=2)
    here = desk(outbox, sink)
    here.drain(NOW + HOUR)
    first, second, rest = sink.batches
    assert first == second and len(rest.events) == 2
    assert here.state.batch_end == 0


def test_a_retry_does_not_send_what_was_forgotten_meanwhile(outbox: Outbox) -> None:
    record(outbox, session="keep")
    record(outbox, session="gone", count=2)
    sink = Scripted(Retry("HTTP 500"))
    here = desk(outbox, sink)
    here.courier.step(NOW)
    outbox.forget("claude-code", "gone", NOW, 1, _forgotten)
    here.drain(NOW + HOUR)
    assert [(e["session"]["id"], e["type"]) for e in sink.taken] == [
        ("keep", "turn.started"),
        ("gone", "session.forgotten"),
    ]


def test_a_batch_that_was_wholly_forgotten_holds_nothing_up(outbox: Outbox) -> None:
    record(outbox, session="gone", count=2)
    sink = Scripted(Retry("HTTP 500"))
    here = desk(outbox, sink)
    here.courier.step(NOW)
    outbox.forget("claude-code", "gone", NOW, 1, _forgotten)
    record(outbox, session="keep")
    assert here.drain(NOW + HOUR) == Step(False)
    assert [e["type"] for e in sink.taken] == ["session.forgotten", "turn.started"]


def _forgotten(seq: int) -> bytes:
    return msgspec.json.encode(
        {
            "protocol": 1,
            "id": "01K6ABCXYZ0123456789ABCDEF",
            "type": "session.forgotten",
            "time": "2026-01-01T00:00:00.000Z",
            "tier": 3,
            "harness": {"name": "claude-code"},
            "session": {"id": "gone", "seq": seq},
            "privacy": {"rulesets": ["secrets@1"], "pii": False},
            "data": {},
        }
    )


def test_a_clock_set_back_does_not_freeze_a_sink(outbox: Outbox) -> None:
    record(outbox)
    sink = Scripted(Retry("HTTP 500"), Retry("HTTP 429", after_s=600))
    here = desk(outbox, sink)
    here.courier.step(NOW)
    here.courier.step(NOW - HOUR)
    assert len(sink.batches) == 2
    here.courier.step(NOW - 2 * HOUR)
    assert here.state.sent == 1


@pytest.mark.parametrize(
    "answer, wait_ms", [(Retry("no answer within 15 s"), 2_000), (Retry("429", 10), 10_000)]
)
def test_a_wait_begins_when_the_attempt_is_over(outbox: Outbox, answer: Retry, wait_ms: int) -> None:
    record(outbox)
    sink = Scripted(answer)
    here = desk(outbox, sink)

    def slow() -> None:
        here.seconds += 15

    sink.before = slow
    assert here.courier.step(NOW).wait_until_ms == NOW + 15_000 + wait_ms
    assert here.state.next_attempt_ms == NOW + 15_000 + wait_ms


def test_force_tries_now_but_never_against_a_pause(outbox: Outbox) -> None:
    record(outbox)
    sink = Scripted(Retry("HTTP 500"), Pause("HTTP 401"))
    here = desk(outbox, sink)
    here.courier.step(NOW)
    here.courier.step(NOW, force=True)
    assert len(sink.batches) == 2
    assert here.courier.step(NOW, force=True) == Step(False)
    assert len(sink.batches) == 2


def test_attempts_out_of_turn_do_not_climb_the_ladder(outbox: Outbox) -> None:
    record(outbox)
    here = desk(outbox, Scripted(*[Retry("HTTP 500")] * 5))
    here.courier.step(NOW)
    for second in range(4):
        here.courier.step(NOW + 100 * second, force=True)
    assert here.state.failures == 1
    assert here.state.next_attempt_ms == NOW + 300 + 2_000


def test_a_pause_waits_for_the_person_and_says_why(outbox: Outbox) -> None:
    record(outbox)
    sink = Scripted(Pause("HTTP 401: the receiver refused the token"))
    here = desk(outbox, sink)
    assert here.drain() == Step(False)
    assert here.state.paused == "HTTP 401: the receiver refused the token"
    assert any("paused: HTTP 401" in line for line in here.lines)
    assert desk(outbox, sink).drain(NOW + 100 * HOUR) == Step(False)
    outbox.change_sink("board", lambda state: msgspec.structs.replace(state, paused=None))
    # The courier of a living worker goes on by itself.
    assert here.drain() == Step(False)
    assert here.state.sent == 1


@pytest.mark.parametrize("outcome", [Retry, Pause])
def test_what_a_receiver_quotes_back_is_redacted_before_it_is_kept(
    outbox: Outbox, outcome: type[Retry] | type[Pause]
) -> None:
    token = "ghp_" + "".join("abcdefghijABCDEFGHIJ0123456789"[(i * 7 + 3) % 30] for i in range(36))
    record(outbox)
    here = desk(outbox, Scripted(outcome(f"bad event: {token}")))
    here.drain()
    assert token not in repr(here.state)
    assert "bad event" in repr(here.state)
    assert token not in "".join(here.lines)


def test_a_pause_that_ends_with_the_process_is_not_kept(outbox: Outbox) -> None:
    record(outbox)
    sink = Scripted(Pause("stdout is closed", lasting=False))
    here = desk(outbox, sink)
    here.drain()
    assert here.drain() == Step(False) and here.state.paused is None
    assert desk(outbox, sink).drain() == Step(False)
    assert len(sink.taken) == 1


def test_the_persons_own_pause_holds_everything(outbox: Outbox) -> None:
    record(outbox)
    sink = Scripted()
    assert desk(outbox, sink, paused=True).courier.step(NOW, force=True) == Step(False)
    assert sink.batches == []


def test_a_batch_that_is_too_big_is_halved_until_it_fits_and_nothing_is_lost(outbox: Outbox) -> None:
    sent = record(outbox, count=20)
    sink = Scripted(Split("HTTP 413"), Split("HTTP 413"))
    here = desk(outbox, sink)
    here.drain()
    # Nine and not ten: what was too much once is not tried again.
    assert [len(batch.events) for batch in sink.batches] == [20, 10, 5, 9, 6]
    assert [event["id"] for event in sink.taken] == [event["id"] for event in sent]
    assert here.state.dropped == 0


def test_one_event_that_is_too_big_alone_is_given_up_and_the_next_one_goes(outbox: Outbox) -> None:
    record(outbox, count=2)
    sink = Scripted(Split("HTTP 413"), Split("HTTP 413"))
    here = desk(outbox, sink)
    here.drain()
    assert keys(sink.taken) == [("s", 1)]
    assert (here.state.sent, here.state.dropped) == (1, 1)
    assert any("gave up event" in line for line in here.lines)


def test_a_batch_the_receiver_can_never_take_is_given_up_with_its_reason(outbox: Outbox) -> None:
    record(outbox, count=2)
    sink = Scripted(Drop("HTTP 400 (bad_event)"))
    here = desk(outbox, sink)
    here.drain()
    record(outbox)
    here.courier.step(NOW)
    assert keys(sink.taken) == [("s", 2)]
    assert (here.state.sent, here.state.dropped) == (1, 2)
    assert any("HTTP 400 (bad_event): gave up 2 events" in line for line in here.lines)


def test_a_lower_tier_is_taken_at_once_and_kept(outbox: Outbox) -> None:
    record(outbox, "turn.started", {"prompt_chars": 4})
    record(outbox, "tool.ended", {"tool": "Bash", "ok": True})
    sink = Scripted(LowerTier(0))
    here = desk(outbox, sink, tier=2)
    here.drain()
    assert [(event["type"], event["tier"], event["data"]) for event in sink.taken] == [
        ("turn.started", 0, {})
    ]
    assert here.state.max_tier == 0


def test_a_receiver_that_refuses_the_tier_it_asked_for_stops_the_sink(outbox: Outbox) -> None:
    record(outbox)
    here = desk(outbox, Scripted(LowerTier(2)), tier=2)
    assert here.drain() == Step(False)
    assert "refuses tier 2" in str(here.state.paused)


def test_a_tier_learnt_from_an_answer_holds_from_the_next_batch_on(outbox: Outbox) -> None:
    record(outbox, "tool.ended", {"tool": "Bash", "ok": True}, count=2)
    sink = Scripted(Acked(max_tier=0), limits=Limits(1, 9_999, 13, strict=True))
    here = desk(outbox, sink, tier=1)
    here.drain()
    assert (len(sink.taken), here.state.position, here.state.max_tier) == (1, 2, 0)


def test_events_the_receiver_will_not_store_are_logged_and_passed(outbox: Outbox) -> None:
    first, _ = record(outbox, count=2)
    here = desk(outbox, Scripted(Acked(((first["id"], "tier_type"),))))
    here.drain()
    assert (here.state.position, here.state.sent, here.state.dropped) == (2, 1, 1)
    assert any(first["id"] in line and "tier_type" in line for line in here.lines)


def test_a_process_that_lacks_what_a_sink_needs_does_not_stay_for_it(outbox: Outbox) -> None:
    record(outbox)
    lacking = Retry("TOKEN is not set", after_s=0, connect=True, elsewhere=True)
    here = desk(outbox, Scripted(lacking, lacking))
    assert here.courier.step(NOW) == Step(False, None, True)
    assert here.courier.step(NOW + 10) == Step(False)
    # It is told of each event that comes, and has nothing new to say of it.
    assert here.courier.step(NOW + 1_000) == Step(False, None, True)
    assert here.lines == ["sink board: TOKEN is not set"]
    # One that was started from somewhere else takes it up at once.
    assert desk(outbox, Scripted()).drain(NOW + 2_000) == Step(False)
    assert here.state.sent == 1


def test_a_receiver_that_cannot_be_reached_is_told_apart(outbox: Outbox) -> None:
    record(outbox)
    here = desk(outbox, Scripted(Retry("no connection", connect=True), Retry("HTTP 500")))
    first = here.courier.step(NOW)
    assert first.connect_failed and first.wait_until_ms == NOW + 2_000
    assert here.courier.step(NOW + 1_000).connect_failed is None
    assert here.courier.step(NOW + 2_000).connect_failed is False


def test_a_failure_that_repeats_is_logged_once(outbox: Outbox) -> None:
    record(outbox)
    here = desk(outbox, Scripted(Retry("HTTP 500"), Retry("HTTP 500"), Retry("HTTP 502")))
    for _ in range(3):
        here.courier.step(NOW, force=True)
    assert len(here.lines) == 2


def test_what_is_odd_about_an_answer_is_logged_once(outbox: Outbox) -> None:
    record(outbox, count=4)
    outcomes = [Acked(odd="it answers for 2 events")] * 3
    here = desk(outbox, Scripted(*outcomes, limits=Limits(1, 9_999, 13, strict=True)))
    here.drain()
    assert [line for line in here.lines if "answers for" in line] == ["sink board: it answers for 2 events"]
    assert (here.state.sent, here.state.dropped) == (4, 0)


def test_what_is_refused_without_a_name_is_counted(outbox: Outbox) -> None:
    record(outbox, count=4)
    here = desk(outbox, Scripted(Acked(unnamed=3, odd="it will not store 3 of 4 events")))
    here.drain()
    assert (here.state.position, here.state.sent, here.state.dropped) == (4, 1, 3)
    assert here.lines == ["sink board: it will not store 3 of 4 events"]


def test_since_when_a_sink_fails_or_is_paused_is_kept_until_it_works(outbox: Outbox) -> None:
    record(outbox)
    here = desk(outbox, Scripted(Retry("HTTP 500"), Retry("HTTP 429", after_s=5), Pause("HTTP 401")))
    since = []
    for now in (NOW, NOW + HOUR, NOW + 2 * HOUR):
        here.courier.step(now)
        since.append(here.state.since_ms)
    assert since == [NOW, NOW, NOW + 2 * HOUR]
    outbox.change_sink("board", lambda state: msgspec.structs.replace(state, paused=None))
    here.drain(NOW + 3 * HOUR)
    assert here.state.since_ms == 0


def test_a_sink_that_works_again_is_said_to(outbox: Outbox) -> None:
    record(outbox)
    here = desk(outbox, Scripted(Retry("HTTP 500")))
    here.courier.step(NOW)
    here.drain(NOW + HOUR)
    record(outbox)
    here.drain(NOW + HOUR)
    assert here.lines[1:] == ["sink board: it takes events again"]


def test_a_courier_that_is_told_to_stop_sends_nothing_more(outbox: Outbox) -> None:
    record(outbox)
    sink = Scripted()
    here = desk(outbox, sink)
    here.courier._stop.set()
    assert here.courier.step(NOW) == Step(False)
    assert sink.batches == []


def test_what_was_too_big_once_is_forgotten_with_the_event_that_was(outbox: Outbox) -> None:
    record(outbox, count=9)
    sink = Scripted(Split("HTTP 413"), Split("HTTP 413"), Split("HTTP 413"), Split("HTTP 413"))
    here = desk(outbox, sink)
    here.drain()
    assert [len(batch.events) for batch in sink.batches] == [9, 4, 2, 1, 8]


# --- learning ---------------------------------------------------------------------------------------


def test_what_is_learnt_is_kept_and_its_tier_holds(outbox: Outbox) -> None:
    record(outbox, "turn.started")
    sink = Scripted()
    sink.learnt = Learned({"url": "x"}, 0)
    here = desk(outbox, sink, tier=3)
    here.drain()
    assert (here.state.discovery, here.state.max_tier, sink.taken[0]["tier"]) == ({"url": "x"}, 0, 0)


@pytest.mark.parametrize("learnt", [Pause("speaks protocol 2"), Retry("no connection", connect=True)])
def test_a_receiver_that_cannot_be_learnt_about_is_sent_nothing(
    outbox: Outbox, learnt: Pause | Retry
) -> None:
    record(outbox)
    sink = Scripted()
    sink.learnt = learnt
    here = desk(outbox, sink)
    here.courier.step(NOW)
    assert sink.batches == [] and here.state.position == 0
    assert (here.state.paused is not None) == isinstance(learnt, Pause)


def test_a_tier_that_an_answer_lowered_ends_when_the_file_is_read_anew(outbox: Outbox) -> None:
    record(outbox)
    sink = Scripted(LowerTier(0))
    here = desk(outbox, sink, tier=2)
    here.drain()
    assert here.state.max_tier == 0
    sink.learnt = Learned({"url": "x"}, None)
    record(outbox)
    here.drain()
    assert (here.state.max_tier, sink.taken[-1]["tier"]) == (None, 2)


def test_a_tier_that_an_answer_lowered_stays_when_the_file_cannot_be_read(outbox: Outbox) -> None:
    record(outbox)
    sink = Scripted(LowerTier(0))
    here = desk(outbox, sink, tier=2)
    here.drain()
    sink.learnt = Learned({"url": "x"}, 3, anew=False)
    record(outbox)
    here.drain()
    assert (here.state.max_tier, sink.taken[-1]["tier"]) == (0, 0)


# --- others write meanwhile -------------------------------------------------------------------------


def test_a_cursor_that_somebody_moved_meanwhile_stays_where_they_put_it(outbox: Outbox) -> None:
    record(outbox, count=3)
    sink = Scripted()
    here = desk(outbox, sink)
    here.drain()
    record(outbox)

    def replay() -> None:
        sink.before = lambda: None
        outbox.change_sink("board", lambda state: msgspec.structs.replace(state, position=0))

    sink.before = replay
    here.drain()
    assert [seq for _, seq in keys(sink.taken)] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_what_others_write_into_the_row_meanwhile_stays(outbox: Outbox) -> None:
    record(outbox)
    sink = Scripted()
    here = desk(outbox, sink)

    def add_again() -> None:
        outbox.change_sink("board", lambda state: msgspec.structs.replace(state, discovery={"new": 1}))

    sink.before = add_again
    here.drain()
    assert (here.state.position, here.state.discovery) == (1, {"new": 1})


@pytest.mark.parametrize("outcome", [Pause("HTTP 401"), Retry("HTTP 500")])
def test_an_answer_to_what_the_person_has_changed_since_is_void(outbox: Outbox, outcome: Outcome) -> None:
    record(outbox)
    sink = Scripted(outcome)
    here = desk(outbox, sink)
    outbox.change_sink("board", lambda state: msgspec.structs.replace(state, discovery={"old": 1}))

    def resume() -> None:
        sink.before = lambda: None
        outbox.change_sink("board", lambda state: msgspec.structs.replace(state, discovery={}))

    sink.before = resume
    here.drain()
    assert (here.state.paused, here.state.failures, here.state.sent) == (None, 0, 1)
    assert sink.batches[0] == sink.batches[1]


def test_a_sink_removed_and_added_again_while_a_request_is_under_way_begins_at_its_beginning(
    outbox: Outbox,
) -> None:
    record(outbox, count=2)
    sink = Scripted()
    here = desk(outbox, sink)

    def again() -> None:
        sink.before = lambda: None
        outbox.remove_sink("board")
        outbox.add_sink("board", 0)

    sink.before = again
    here.drain()
    first, second = sink.batches
    assert first.ids == second.ids and first.id != second.id


def test_a_sink_removed_while_a_request_is_under_way_stays_removed(outbox: Outbox) -> None:
    record(outbox)
    sink = Scripted()
    here = desk(outbox, sink)
    sink.before = lambda: outbox.remove_sink("board")
    here.drain()
    assert outbox.sink("board") is None


# --- through a real receiver ------------------------------------------------------------------------


def test_a_real_receiver_that_fails_twice_gets_the_same_message_three_times(outbox: Outbox) -> None:
    record(outbox, count=3)
    with Receiver(
        Answer(503), Answer(429, None, {"retry-after": "5"}), well_known={"protocol": [1]}
    ) as receiver:
        config = SinkConfig(name="board", kind="http", url=receiver.url, secret="whsec_" + "QUJD" * 8)
        here = Desk(outbox, None, config)
        first = here.courier.step(NOW)
        assert first.wait_until_ms == NOW + 2_000
        second = here.courier.step(NOW + 2_000)
        assert second.wait_until_ms == NOW + 7_000
        here.drain(NOW + 7_000)
        here.courier.close()
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    assert len({request.body for request in receiver.requests}) == 1
    assert (len(receiver.requests), receiver.asked, here.state.sent) == (3, 1, 3)


def test_a_sink_whose_receiver_was_never_asked_asks_before_it_sends(outbox: Outbox) -> None:
    record(outbox, "turn.started")
    said = {"protocol": [1], "capabilities": ["events"], "max_tier": 0, "endpoints": {"events": "/in"}}
    with Receiver(well_known=said) as receiver:
        here = Desk(outbox, None, SinkConfig(name="board", kind="http", url=receiver.url, tier=2))
        here.drain()
        here.courier.close()
    assert [(request.path, request.events[0]["tier"]) for request in receiver.requests] == [("/in", 0)]


def test_a_sink_that_is_added_again_goes_by_what_its_receiver_says_then(outbox: Outbox) -> None:
    with Receiver(well_known={"protocol": [1], "batch": {"max_events": 2}}) as receiver:
        here = Desk(outbox, None, SinkConfig(name="board", kind="http", url=receiver.url))
        record(outbox, count=4)
        here.drain()
        assert (here.drain(), receiver.asked) == (Step(False), 1)
        outbox.change_sink("board", lambda row: msgspec.structs.replace(row, discovery={}))
        receiver.well_known = {"protocol": [1], "batch": {"max_events": 4}}
        record(outbox, count=4)
        here.drain()
        here.courier.close()
    assert [len(request.events) for request in receiver.requests] == [2, 2, 4]
    first, second, third = (request.port for request in receiver.requests)
    assert first == second != third


# --- files, and being killed ------------------------------------------------------------------------


def file_sink(outbox: Outbox, path: Path, **config: Any) -> Desk:
    return Desk(outbox, None, SinkConfig(**{"name": "log", "kind": "file", "path": str(path), **config}))


def test_a_file_gets_every_event_once(outbox: Outbox, tmp_path: Path) -> None:
    record(outbox, count=2_500)
    here = file_sink(outbox, tmp_path / "log")
    here.drain()
    here.courier.close()
    assert [seq for _, seq in keys(lines(tmp_path / "log"))] == list(range(2_500))


# Processes that cost no imports: forked from one that has done them and has no database open.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__, "sessionpipe.sinks.file", "sessionpipe.sinks.http"])


def _deliver(outbox: Path, sink: SinkConfig, fault: str, at_once: int) -> None:
    file._LIMITS = Limits(max_events=at_once, max_bytes=1 << 20)
    faults.arm(fault)
    with opened(outbox) as box:
        box.add_sink(sink.name, 0)
        courier = Courier(sink, box, stop=threading.Event(), log=lambda level, line: None)
        while courier.step(NOW).progress:
            continue


def courier_process(folder: Path, sink: SinkConfig, fault: str, at_once: int = 4) -> int | None:
    """Deliver to ``sink`` in a process of its own, which dies at the fault point; its exit status."""
    process = PROCESSES.Process(target=_deliver, args=(folder / "outbox.db", sink, fault, at_once))
    process.start()
    process.join()
    return process.exitcode


def deliver(
    folder: Path, fault: str = "", *, at_once: int = 4, tier: int = 1, tools: Tools = "all"
) -> int | None:
    """Deliver to a file in a process of its own."""
    path = str(folder / "log")
    return courier_process(
        folder, SinkConfig(name="log", kind="file", path=path, tier=tier, tools=tools), fault, at_once
    )


FAULTS = [
    f"{name}:{count}"
    for name in (
        "courier.read",
        "courier.filtered",
        "courier.before_send",
        "file.written",
        "file.synced",
        "courier.sent",
        "outbox.commit",
        "outbox.committed",
        "courier.committed",
    )
    for count in (1, 2)
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_has_every_event_exactly_once_wherever_its_courier_is_killed(
    outbox: Outbox, tmp_path: Path, fault: str
) -> None:
    for _ in range(5):
        record(outbox, "turn.started")
        record(outbox, "turn.transcript", {"turn": 0, "user": "u", "assistant": "a", "at": "x"})
        record(outbox, "tool.ended", {"tool": "Bash", "ok": True})
    assert deliver(tmp_path, fault) == -signal.SIGKILL
    record(outbox, "turn.started")
    assert deliver(tmp_path) == 0
    assert [seq for _, seq in keys(lines(tmp_path / "log"))] == [n for n in range(16) if n % 3 != 1]


@pytest.mark.parametrize("fault", ["file.written", "file.synced", "courier.sent"])
def test_so_has_one_whose_tier_was_raised_or_whose_session_was_forgotten_in_between(
    outbox: Outbox, tmp_path: Path, fault: str
) -> None:
    record(outbox, "turn.started", {"prompt_chars": 1}, session="keep", count=5)
    record(outbox, "turn.started", {"prompt_chars": 1}, session="gone", count=3)
    assert deliver(tmp_path, fault, at_once=8, tier=0) == -signal.SIGKILL
    outbox.forget("claude-code", "gone", NOW, 1, _forgotten)
    assert deliver(tmp_path, at_once=2, tier=1) == 0
    kept = [key for key in keys(lines(tmp_path / "log")) if key[0] == "keep"]
    assert kept == [("keep", seq) for seq in range(5)]


def test_thinning_goes_on_where_it_was_after_a_kill(outbox: Outbox, tmp_path: Path) -> None:
    for second in range(0, 300, 20):
        record(outbox, "tool.ended", {"tool": "Bash", "ok": True}, at_ms=NOW + second * 1000)
    assert deliver(tmp_path, "courier.sent:2", at_once=1, tools="beat") == -signal.SIGKILL
    assert deliver(tmp_path, at_once=1, tools="beat") == 0
    assert [seq for _, seq in keys(lines(tmp_path / "log"))] == [0, 3, 6, 9, 12]


LOADED = """
import sys, threading
from pathlib import Path
from sessionpipe.config import SinkConfig
from sessionpipe.delivery.courier import Courier
from sessionpipe.outbox import Outbox
config = SinkConfig(name="log", kind="file", path=sys.argv[2])
outbox = Outbox.open(Path(sys.argv[1]))
outbox.add_sink("log", 0)
Courier(config, outbox, stop=threading.Event(), log=lambda level, line: None).step(1_790_000_000_000)
print(*{"click", "filelock", "httpcore", "httpx", "rich", "ssl", "tomlkit"} & set(sys.modules))
"""


def test_a_file_is_delivered_to_without_loading_what_only_others_need(outbox: Outbox, tmp_path: Path) -> None:
    record(outbox)
    command = [sys.executable, "-c", LOADED, str(tmp_path / "outbox.db"), str(tmp_path / "log")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "\n"
    assert keys(lines(tmp_path / "log")) == [("s", 0)]


def test_a_torn_line_left_by_a_power_cut_is_written_whole(outbox: Outbox, tmp_path: Path) -> None:
    record(outbox, count=10)
    assert deliver(tmp_path) == 0
    whole = (tmp_path / "log").read_bytes()
    (tmp_path / "log").write_bytes(whole[:-30])
    record(outbox)
    assert deliver(tmp_path) == 0
    assert [seq for _, seq in keys(lines(tmp_path / "log"))] == list(range(11))


def test_an_outbox_that_fails_after_a_file_was_written_makes_no_second_copy(
    outbox: Outbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(outbox, count=3)
    here = file_sink(outbox, tmp_path / "log")

    def full(*_args: object, **_how: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(outbox, "change_sink", full)
        with pytest.raises(sqlite3.OperationalError):
            here.courier.step(NOW)
    here.drain()
    here.courier.close()
    assert keys(lines(tmp_path / "log")) == [("s", 0), ("s", 1), ("s", 2)]


def test_a_file_that_cannot_be_opened_is_tried_again(outbox: Outbox, tmp_path: Path) -> None:
    record(outbox)
    (tmp_path / "log").mkdir()
    here = file_sink(outbox, tmp_path / "log")
    assert here.courier.step(NOW).wait_until_ms == NOW + 2_000
    assert "Is a directory" in str(here.state.last_error)
    (tmp_path / "log").rmdir()
    here.drain(NOW + 2_000)
    here.courier.close()
    assert here.state.sent == 1


# The courier's commits here: the sink's row, what the receiver says of itself, where the batch ends,
# and that it was taken.
@pytest.mark.parametrize(
    ("fault", "repeated"),
    [
        ("outbox.commit:3", 0),
        ("courier.before_send:1", 0),
        ("courier.sent:1", 1),
        ("outbox.commit:4", 1),
        ("outbox.committed:4", 0),
    ],
)
def test_killed_anywhere_a_receiver_gets_the_same_message_again_or_the_next(
    outbox: Outbox, tmp_path: Path, fault: str, repeated: int
) -> None:
    record(outbox, count=3)
    with Receiver(well_known={"protocol": [1], "batch": {"max_events": 5}}) as receiver:
        sink = SinkConfig(name="board", kind="http", url=receiver.url, secret="whsec_" + "QUJD" * 8)
        assert courier_process(tmp_path, sink, fault) == -signal.SIGKILL
        record(outbox, count=4)
        assert courier_process(tmp_path, sink, "") == 0
    messages = [(request.headers["webhook-id"], request.body) for request in receiver.requests]
    assert len(messages) - len(set(messages)) == repeated
    assert len({id_ for id_, _ in messages}) == len(set(messages))
    assert list(dict.fromkeys(keys(receiver.events))) == [("s", seq) for seq in range(7)]


def replayed(outbox: Outbox) -> None:
    outbox.change_sink("log", lambda row: row.placed(0))


def test_a_replay_writes_every_line_of_a_file_once_more(outbox: Outbox, tmp_path: Path) -> None:
    record(outbox, count=3)
    here = file_sink(outbox, tmp_path / "log")
    here.drain()
    replayed(outbox)
    record(outbox)
    here.drain()
    # By the same courier, and by one that has only the file to go by.
    here.courier.close()
    replayed(outbox)
    again = file_sink(outbox, tmp_path / "log")
    again.drain()
    again.courier.close()
    assert [seq for _, seq in keys(lines(tmp_path / "log"))] == [0, 1, 2, *range(4), *range(4)]


@pytest.mark.parametrize(
    "fault", ["file.written:1", "file.synced:2", "courier.sent:1", "courier.committed:2"]
)
def test_killed_during_a_replay_the_file_has_every_line_once_more_and_not_twice(
    outbox: Outbox, tmp_path: Path, fault: str
) -> None:
    record(outbox, count=6)
    assert deliver(tmp_path) == 0
    replayed(outbox)
    assert deliver(tmp_path, fault) == -signal.SIGKILL
    assert deliver(tmp_path) == 0
    assert [seq for _, seq in keys(lines(tmp_path / "log"))] == [*range(6), *range(6)]


def test_a_sink_over_a_file_that_holds_events_goes_on_behind_them(outbox: Outbox, tmp_path: Path) -> None:
    record(outbox, count=3)
    first = file_sink(outbox, tmp_path / "log")
    first.drain()
    first.courier.close()
    outbox.remove_sink("log")
    record(outbox, count=2)
    second = file_sink(outbox, tmp_path / "log")
    second.drain()
    second.courier.close()
    assert [seq for _, seq in keys(lines(tmp_path / "log"))] == list(range(5))
    assert second.state.sent == 2


def test_the_numbers_of_another_outbox_are_not_taken_for_its_own(outbox: Outbox, tmp_path: Path) -> None:
    record(outbox, count=3)
    first = file_sink(outbox, tmp_path / "log")
    first.drain()
    first.courier.close()
    with opened(tmp_path / "another.db") as fresh:
        record(fresh, count=2)
        second = file_sink(fresh, tmp_path / "log")
        second.drain()
        second.courier.close()
    assert [seq for _, seq in keys(lines(tmp_path / "log"))] == [0, 1, 2, 0, 1]


def test_a_batch_whose_acknowledgement_was_lost_in_a_kill_is_the_same_message_again(outbox: Outbox) -> None:
    record(outbox, count=3)
    sink = Scripted()
    here = desk(outbox, sink)

    def killed() -> None:
        raise KeyboardInterrupt

    sink.before = killed
    with pytest.raises(KeyboardInterrupt):
        here.courier.step(NOW)
    # Nothing of the answer was written down, and more is recorded before the next courier begins.
    record(outbox, count=3)
    sink.before = lambda: None
    desk(outbox, sink).drain()
    first, second, rest = sink.batches
    assert first == second and len(rest.events) == 3
