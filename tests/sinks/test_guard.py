"""Between the courier and a sink's code: whatever goes wrong there is an outcome of that sink."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sessionpipe.config import SinkConfig
from sessionpipe.delivery.batch import Batch, Limits
from sessionpipe.delivery.outcome import Acked, Drop, LowerTier, Outcome, Pause, Retry, Split
from sessionpipe.sinks.base import Held, Learned, NotReady, Setup, Sink, Tail
from sessionpipe.sinks.guard import Guarded

BATCH = Batch("msg_1", (b"{}", b"{}"), ("a", "b"))
SETUP = Setup(SinkConfig(name="mine", kind="mine", url="x"), {}, {}, lambda _level, _line: None)


class Mine(Sink):
    """Does what a test says, method by method: a value to return, or an exception to raise."""

    def __init__(self, **does: Any) -> None:
        self._does = does

    def _do(self, name: str, usual: Any) -> Any:
        does = self._does.get(name, usual)
        if isinstance(does, BaseException):
            raise does
        return does

    def limits(self) -> Limits:
        return self._do("limits", Limits(10, 1000))  # type: ignore[no-any-return]

    def send(self, batch: Batch) -> Outcome:
        return self._do("send", Acked())  # type: ignore[no-any-return]

    def learn(self, now_ms: int) -> Any:
        return self._do("learn", None)

    def tools(self) -> Any:
        return self._do("tools", "all")

    def without(self) -> Any:
        return self._do("without", frozenset())

    def tail(self) -> Tail | None:
        return self._do("tail", None)  # type: ignore[no-any-return]

    def forgets(self) -> bool:
        return self._do("forgets", True)  # type: ignore[no-any-return]

    def close(self) -> None:
        self._do("close", None)


def guarded(**does: Any) -> Guarded:
    return Guarded(SETUP, lambda _kind: lambda _setup: Mine(**does))


def waits(outcome: object) -> str:
    """Why it waits, in one line that can be printed."""
    assert isinstance(outcome, Retry)
    assert outcome.error.isprintable() and len(outcome.error) <= 1000
    return outcome.error


def test_what_is_sound_passes_through() -> None:
    sink = guarded(limits=Limits(7, 77), tools="beat", without=frozenset({"session.backfill"}))
    assert sink.learn(0) is None
    assert (sink.limits(), sink.tools(), sink.without()) == (
        Limits(7, 77),
        "beat",
        frozenset({"session.backfill"}),
    )
    assert sink.send(BATCH) == Acked() and sink.forgets() and sink.tail() is None


@pytest.mark.parametrize(
    "outcome",
    [
        Acked((("a", "no"),), 2, "odd", 1),
        Retry("later", 7.5, connect=True, elsewhere=True),
        Split("big"),
        Drop("bad"),
        Pause("no", lasting=False),
        LowerTier(1),
    ],
)
def test_each_outcome_stays_what_it_is(outcome: Outcome) -> None:
    assert guarded(send=outcome).send(BATCH) == outcome


@pytest.mark.parametrize("where", ["learn", "limits", "tools", "without"])
@pytest.mark.parametrize(
    "error", [KeyError("x"), RecursionError(), SystemExit(3), CancelledError(), ValueError("two\nlines")]
)
def test_what_raises_before_a_batch_makes_its_sink_wait(where: str, error: BaseException) -> None:
    said = waits(guarded(**{where: error}).learn(0))
    assert "the sink kind mine failed with" in said and type(error).__name__ in said
    assert "test_guard.py:" in said


def test_what_raises_with_a_batch_keeps_it() -> None:
    assert "ZeroDivisionError: x" in waits(guarded(send=ZeroDivisionError("x")).send(BATCH))


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("where", ["learn", "limits", "send"])
def test_an_error_without_words_has_a_name(where: str) -> None:
    sink = guarded(**{where: Mute()})
    said = waits(sink.send(BATCH) if where == "send" else sink.learn(0))
    assert "failed with Mute (test_guard.py:" in said


def test_an_interrupt_is_nobodys_fault() -> None:
    for call in (guarded(send=KeyboardInterrupt()).send, guarded(tail=KeyboardInterrupt()).tail):
        with pytest.raises(KeyboardInterrupt):
            call(*([BATCH] if call.__name__ == "send" else []))


def test_but_in_a_couriers_thread_nobody_interrupts() -> None:
    with ThreadPoolExecutor(1) as courier:
        assert "failed with KeyboardInterrupt" in waits(
            courier.submit(guarded(send=KeyboardInterrupt()).send, BATCH).result()
        )
        with pytest.raises(OSError, match="failed with KeyboardInterrupt"):
            courier.submit(guarded(tail=KeyboardInterrupt()).tail).result()


def test_what_is_not_there_is_waited_for() -> None:
    assert guarded(send=NotReady("no socket")).send(BATCH) == Retry("no socket", after_s=60.0)
    elsewhere = guarded(send=NotReady("no KEY", elsewhere=True)).send(BATCH)
    assert elsewhere == Retry("no KEY", after_s=0, connect=True, elsewhere=True)


@pytest.mark.parametrize("answer", [None, True, "ok", Acked, {"acked": 1}, Learned({})])
def test_an_answer_that_is_none_makes_it_wait(answer: Any) -> None:
    assert "no outcome" in waits(guarded(send=answer).send(BATCH))


@pytest.mark.parametrize(
    "answer",
    [
        Acked(rejected=7),  # type: ignore[arg-type]
        Acked(rejected=(("a",),)),  # type: ignore[arg-type]
        Acked(unnamed="x"),  # type: ignore[arg-type]
        Retry(None),  # type: ignore[arg-type]
        Retry("x", after_s="soon"),  # type: ignore[arg-type]
        Pause(b"x"),  # type: ignore[arg-type]
        LowerTier(4),
        LowerTier(-1),
        Acked(max_tier=9),
    ],
)
def test_an_outcome_that_can_not_be_meant_makes_it_wait(answer: Any) -> None:
    assert "the code of the sink kind mine is at fault" in waits(guarded(send=answer).send(BATCH))


def test_only_what_was_sent_can_be_rejected_and_once() -> None:
    said = Acked((("a", "1"), ("a", "2"), ("z", "3")), unnamed=50)
    assert guarded(send=said).send(BATCH) == Acked((("a", "2"),), unnamed=1)


def test_fewer_than_none_can_not_be_rejected() -> None:
    assert guarded(send=Acked(unnamed=-3)).send(BATCH) == Acked()


def test_what_a_sink_says_of_messages_is_known_before_its_first_batch() -> None:
    class Knowing(Mine):
        knows_messages = True

    for made, knows in ((Knowing, True), (Mine, False)):
        sink = Guarded(SETUP, lambda _kind, made=made: lambda _setup: made())  # type: ignore[misc]
        sink.learn(0)
        assert sink.knows_messages is knows


@pytest.mark.parametrize("after", [float("nan"), float("inf"), float("-inf")])
def test_a_wait_of_no_length_is_the_ladders(after: float) -> None:
    assert guarded(send=Retry("x", after_s=after)).send(BATCH) == Retry("x")


def test_words_are_one_bounded_line() -> None:
    said = waits(guarded(send=Retry("a\x1b[31m\nb" + "x" * 5000)).send(BATCH))
    assert said.startswith("a [31m b") and len(said) == 1000


@pytest.mark.parametrize(
    "limits",
    [
        None,
        Limits(0, 1000),
        Limits(10, 0),
        Limits(10, 10, envelope=-5),
        Limits("9", 9),
        Limits(9, 600, envelope=100, strict=True),
    ],  # type: ignore[arg-type]
)
def test_limits_without_room_make_it_wait(limits: Any) -> None:
    assert "limits" in waits(guarded(limits=limits).learn(0))


def test_limits_without_end_are_bounded() -> None:
    sink = guarded(limits=Limits(1 << 60, 1 << 60))
    sink.learn(0)
    assert sink.limits().max_events == 10_000 and sink.limits().max_bytes == 64 << 20


def test_what_is_learnt_is_kept_as_it_comes_back() -> None:
    assert guarded(learn=Learned({"a": (1, 2)}, 2)).learn(0) == Learned({"a": [1, 2]}, 2)


@pytest.mark.parametrize(
    "learned",
    [7, Acked(), Learned({"a": object()}), Learned({"a": "x" * 70_000}), Learned({}, 4), Learned([])],  # type: ignore[arg-type]
)
def test_what_can_not_be_learnt_makes_it_wait(learned: Any) -> None:
    waits(guarded(learn=learned).learn(0))


@pytest.mark.parametrize("learned", [Retry("later"), Pause("no")])
def test_learning_may_find_that_it_has_to_wait(learned: Any) -> None:
    assert guarded(learn=learned).learn(0) == learned


def test_a_tail_that_raises_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="failed with KeyError"):
        guarded(tail=KeyError("x")).tail()
    with pytest.raises(FileNotFoundError):
        guarded(tail=FileNotFoundError(2, "gone")).tail()
    tail = Tail((Held("a", "pi", "s", 0),), False)
    assert guarded(tail=tail).tail() == tail


@pytest.mark.parametrize("tail", [7, Tail((("a", "pi"),), False), Tail(None, False)])  # type: ignore[arg-type]
def test_a_tail_that_is_none_is_one_too(tail: Any) -> None:
    with pytest.raises(OSError, match="at fault"):
        guarded(tail=tail).tail()


def test_after_it_was_closed_a_sink_is_made_anew() -> None:
    made: list[Mine] = []

    def make(_setup: Setup) -> Sink:
        made.append(Mine())
        return made[-1]

    sink = Guarded(SETUP, lambda _kind: make)
    sink.send(BATCH)
    sink.close()
    sink.close()
    assert len(made) == 1
    sink.send(BATCH)
    assert len(made) == 2


def test_closing_never_fails() -> None:
    sink = guarded(close=OSError(5, "x"))
    sink.close()
    sink.learn(0)
    sink.close()


# --- its code ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "load",
    [
        lambda _kind: (_ for _ in ()).throw(ModuleNotFoundError("No module named 'redis'")),
        lambda _kind: lambda _setup: None,
        lambda _kind: lambda _setup: Mine,
        lambda _kind: lambda: Mine(),
        lambda _kind: 7,
    ],
)
def test_code_that_makes_no_sink_makes_it_wait(load: Callable[[str], Any]) -> None:
    sink = Guarded(SETUP, load)
    assert "the sink kind mine" in waits(sink.learn(0))
    assert "the sink kind mine" in waits(sink.send(BATCH))
    assert not sink.forgets()


def test_code_that_comes_later_is_used_then() -> None:
    there = False

    def load(_kind: str) -> Any:
        if not there:
            raise NotReady("not installed")
        return lambda _setup: Mine()

    sink = Guarded(SETUP, load)
    assert waits(sink.learn(0)) == "not installed"
    there = True
    assert sink.learn(0) is None and sink.send(BATCH) == Acked()


def test_code_is_loaded_once_and_not_before_it_is_needed() -> None:
    loads: list[str] = []

    def load(kind: str) -> Any:
        loads.append(kind)
        return lambda _setup: Mine()

    sink = Guarded(SETUP, load)
    assert loads == []
    for _ in range(3):
        sink.learn(0)
        sink.send(BATCH)
    assert loads == ["mine"]
