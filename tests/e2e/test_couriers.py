"""Couriers in a worker process: independent of each other, and changed without a restart."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from sessionpipe.liveness import send
from tests.e2e.machine import Machine, wait_for
from tests.e2e.test_worker import tool
from tests.receiver import Answer, Receiver

WELL_KNOWN = {"protocol": [1], "capabilities": ["events", "forget"]}


class Stuck:
    """A receiver that answers nothing until it is let go."""

    def __init__(self) -> None:
        self.holds = threading.Event()
        self._go = threading.Event()

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        self.holds.set()
        self._go.wait()

    def let_go(self) -> None:
        self._go.set()


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    made = Stuck()
    yield made
    made.let_go()


def add(machine: Machine, name: str, url: str, *options: str) -> None:
    machine.sessionpipe(
        "sinks", "add", url, "--name", name, "--tier", "1", *options, SESSIONPIPE_NO_WORKER="1"
    )


def calls(receiver: Receiver) -> list[str]:
    return [e["data"]["call_id"] for e in receiver.events if e["type"] == "tool.ended"]


def has(receiver: Receiver, *names: str) -> Callable[[], bool]:
    return lambda: calls(receiver) == list(names)


def paused(machine: Machine, name: str) -> bool:
    with machine.outbox() as outbox:
        row = outbox.sink(name)
    return row is not None and row.paused is not None


def test_one_that_hangs_and_one_that_fails_delay_no_other(machine: Machine, stuck: Stuck) -> None:
    with (
        Receiver(Answer(raw=stuck), well_known=WELL_KNOWN) as hangs,
        Receiver(*[Answer(500)] * 9, well_known=WELL_KNOWN) as fails,
        Receiver(well_known=WELL_KNOWN) as fast,
    ):
        for name, receiver in (("hangs", hangs), ("fails", fails), ("fast", fast)):
            add(machine, name, receiver.url)
        add(machine, "away", "http://127.0.0.1:9")
        machine.hook("claude-code", "PostToolUse", tool("one"))
        wait_for(has(fast, "one"), "the first event")
        wait_for(stuck.holds.is_set, "the other to hang")
        machine.hook("claude-code", "PostToolUse", tool("two"))
        wait_for(has(fast, "one", "two"), "the second event")
        wait_for(lambda: calls(fails)[:1] == ["one"], "the other to be refused")
        # All that while the first request of the one that hangs was unanswered.
        assert len(hangs.requests) == 1


def test_what_a_person_changes_takes_effect_in_the_worker_that_runs(machine: Machine) -> None:
    with Receiver(well_known=WELL_KNOWN) as board, Receiver(well_known=WELL_KNOWN) as other:
        # It owes this one a retry, so it stays.
        add(machine, "away", "http://127.0.0.1:9")
        add(machine, "board", board.url)
        machine.hook("claude-code", "PostToolUse", tool("one"))
        wait_for(has(board, "one"), "the first event")
        pid = machine.worker()

        # Added: it gets what was recorded before, and no hook is needed.
        add(machine, "other", other.url)
        wait_for(has(other, "one"), "the new sink's event")

        # Paused: the next event, which the other has, is not for it.
        machine.sessionpipe("sinks", "pause", "board")
        machine.hook("claude-code", "PostToolUse", tool("two"))
        wait_for(has(other, "one", "two"), "the event while one is paused")
        assert calls(board) == ["one"]
        machine.sessionpipe("sinks", "resume", "board")
        wait_for(has(board, "one", "two"), "what waited")

        # Another tier, by command and by hand.
        machine.sessionpipe("sinks", "set", "board", "--tier", "0")
        machine.hook("claude-code", "UserPromptSubmit", {**tool("x"), "prompt": "hello"})
        wait_for(lambda: board.events[-1]["type"] == "turn.started", "the event of a lower tier")
        assert board.events[-1]["tier"] == 0
        config = machine.config / "config.toml"
        text = config.read_text()
        config.write_text(text.replace("tier = 0", "tier = 1"))
        machine.hook("claude-code", "PostToolUse", tool("three"))
        wait_for(has(board, "one", "two", "three"), "the event of the tier set by hand")

        # Once more, and then no more.
        machine.sessionpipe("replay", "board")
        wait_for(has(board, "one", "two", "three", "one", "two", "three"), "the replay")
        machine.sessionpipe("sinks", "remove", "board")
        machine.hook("claude-code", "PostToolUse", tool("four"))
        wait_for(has(other, "one", "two", "three", "four"), "the event without it")
        assert calls(board)[-1] == "three"
        assert machine.worker() == pid


def test_a_worker_without_a_token_makes_room_for_one_that_has_it(machine: Machine) -> None:
    with Receiver(well_known=WELL_KNOWN) as board:
        add(machine, "board", board.url, "--token-env", "BOARD_TOKEN")
        for name in ("one", "two"):
            machine.hook("claude-code", "PostToolUse", tool(name))
        wait_for(lambda: len(machine.events()) >= 3, "both to be recorded")
        wait_for(lambda: machine.worker() is None, "the worker that can't send them to leave")
        assert "BOARD_TOKEN is not set" in machine.sessionpipe("status").stdout
        machine.hook("claude-code", "PostToolUse", tool("three"), BOARD_TOKEN="of-the-board")
        wait_for(has(board, "one", "two", "three"), "all of them")
        assert {request.headers["authorization"] for request in board.requests} == {"Bearer of-the-board"}


def test_a_pause_by_the_receiver_is_said_and_ends_when_the_person_resumes(machine: Machine) -> None:
    with Receiver(Answer(401, {"reason": "expired"}), well_known=WELL_KNOWN) as board:
        add(machine, "away", "http://127.0.0.1:9")
        add(machine, "board", board.url)
        machine.hook("claude-code", "PostToolUse", tool("one"))
        wait_for(lambda: paused(machine, "board"), "the pause")
        shown = machine.sessionpipe("status").stdout
        assert "HTTP 401: the receiver wants a token (expired); once that is mended" in shown
        assert "`sessionpipe sinks resume board`" in shown
        pid = machine.worker()
        machine.sessionpipe("sinks", "resume", "board")
        wait_for(has(board, "one", "one"), "the batch again")
        assert machine.worker() == pid
        assert board.requests[0].body == board.requests[1].body


def test_what_waited_goes_at_the_tier_the_person_has_lowered_to(machine: Machine) -> None:
    """Not by the courier of before, which the same command wakes."""
    with Receiver(Answer(403, {"reason": "too much"}), well_known=WELL_KNOWN) as board:
        add(machine, "away", "http://127.0.0.1:9")
        add(machine, "board", board.url)
        machine.hook("claude-code", "UserPromptSubmit", {**tool("x"), "prompt": "hello"})
        wait_for(lambda: paused(machine, "board"), "the pause")
        machine.sessionpipe("sinks", "set", "board", "--tier", "0")
        wait_for(lambda: len(board.requests) > 1, "what waited")
    assert [{event["tier"] for event in request.events} for request in board.requests] == [{1}, {0}]


def test_a_worker_ends_though_a_receiver_hangs_and_the_next_sends_the_same_message(
    machine: Machine, stuck: Stuck
) -> None:
    secret = machine.root / "secret"
    secret.write_text("whsec_" + "QUJD" * 8)
    secret.chmod(0o600)
    with Receiver(Answer(raw=stuck), well_known=WELL_KNOWN) as board:
        add(machine, "board", board.url, "--secret-file", str(secret))
        machine.hook("claude-code", "PostToolUse", tool("one"))
        wait_for(stuck.holds.is_set, "it to hang")
        pid = machine.worker()
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: pid not in machine.workers(), "the worker to end")
        machine.hook("claude-code", "PostToolUse", tool("two"))
        wait_for(lambda: calls(board)[-1] == "two", "everything")
    first, second, *_ = board.requests
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
    assert calls(board) == ["one", "one", "two"]


@pytest.mark.parametrize("close", [True, False], ids=["as it leaves", "as it is told to"])
def test_a_hook_that_fires_as_a_worker_is_told_to_end_waits_for_no_other(
    machine: Machine, stuck: Stuck, close: bool
) -> None:
    with Receiver(Answer(raw=stuck), well_known=WELL_KNOWN) as board:
        add(machine, "board", board.url)
        machine.hook("claude-code", "PostToolUse", tool("one"))
        wait_for(stuck.holds.is_set, "it to hang")
        pid = machine.worker()
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        if close:
            wait_for(lambda: not send(machine.state.fifo, b"i"), "it to listen no more")
        machine.hook("claude-code", "PostToolUse", tool("two"))
        wait_for(lambda: calls(board)[-1] == "two", "both, with no other hook")
        assert pid not in machine.workers()


def test_a_sink_that_is_removed_while_it_hangs_holds_nothing_up(machine: Machine, stuck: Stuck) -> None:
    with Receiver(Answer(raw=stuck), well_known=WELL_KNOWN) as hangs, Receiver(well_known=WELL_KNOWN) as fast:
        add(machine, "hangs", hangs.url)
        add(machine, "fast", fast.url)
        machine.hook("claude-code", "PostToolUse", tool("one"))
        wait_for(stuck.holds.is_set, "it to hang")
        machine.sessionpipe("sinks", "remove", "hangs")
        machine.hook("claude-code", "PostToolUse", tool("two"))
        wait_for(has(fast, "one", "two"), "the second event")
        stuck.let_go()
        wait_for(lambda: not send(machine.state.fifo, b"i"), "the worker to have nothing more to do")
        assert len(hangs.requests) == 1
        with machine.outbox() as outbox:
            assert [sink.name for sink in outbox.sinks()] == ["fast"]
