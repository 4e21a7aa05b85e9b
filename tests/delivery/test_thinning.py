"""Thinned tool events: protocol §4, against a slow and obvious model of the same sentences."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionpipe.config import Tools
from sessionpipe.delivery.thinning import Window
from tests.laws import MANY

MINUTE = 60_000


class Event(NamedTuple):
    """What thinning looks at: a session, a type, a thread ("" is the main one), a time in ms."""

    session: str
    type: str
    thread: str
    at: int


def thinned(tools: Tools, events: list[Event], *, restart_every: int = 0) -> list[Event]:
    """What goes, by the code under test; its window stored and loaded again on the way."""
    window = Window.load(tools, {})
    sent = []
    for number, event in enumerate(events):
        goes, seen = window.admit(event.session, event.type, event.thread, event.at)
        if goes:
            sent.append(event)
            if seen is not None:
                window.keep(event.session, seen, event.at)
        if restart_every and number % restart_every == 0:
            window = Window.load(tools, json.loads(json.dumps(window.dump())))
    return sent


def model(tools: Tools, events: list[Event]) -> list[Event]:
    """The rules of protocol §4 word for word, looking at the whole past each time."""
    sent: list[Event] = []
    for number, event in enumerate(events):
        is_thinned = tools == "beat" or (tools == "main" and event.thread != "")
        if not is_thinned or event.type not in ("tool.started", "tool.ended"):
            sent.append(event)
            continue
        if event.type == "tool.started":
            continue
        ends_sent = [e for e in sent if e.session == event.session and e.type == "tool.ended"]
        apart = not ends_sent or abs(event.at - ends_sent[-1].at) >= MINUTE
        if apart or proves_an_answer(events, number):
            sent.append(event)
    return sent


def proves_an_answer(events: list[Event], number: int) -> bool:
    """Whether the event is its thread's first end at or after one of its thread's prompts."""
    event = events[number]
    same = [e for e in events[:number] if (e.session, e.thread) == (event.session, event.thread)]
    for position, prompt in enumerate(same):
        if prompt.type == "attention.needed" and prompt.at <= event.at:
            between = same[position + 1 :]
            if not any(e.type == "tool.ended" and e.at >= prompt.at for e in between):
                return True
    return False


SETTINGS: list[Tools] = ["all", "main", "beat"]


@pytest.mark.parametrize("tools", SETTINGS)
@pytest.mark.parametrize("seed", range(5))
def test_a_thousand_rows_go_as_the_model_says(tools: Tools, seed: int) -> None:
    dice = random.Random(seed)
    at, events = 0, []
    for _ in range(1_000):
        at += dice.choice([0, 10, 500, 3_000, 20_000, 45_000])
        events.append(
            Event(
                session=dice.choice("ab"),
                type=dice.choices(
                    ["tool.started", "tool.ended", "attention.needed", "turn.ended"], [4, 6, 1, 1]
                )[0],
                thread=dice.choice(["", "", "x", "y"]),
                # A little out of order now and then, and the clock set back an hour once in a while.
                at=at - dice.choice([0, 0, 0, 900, 70_000]) - (3_600_000 if dice.random() < 0.01 else 0),
            )
        )
    expected = model(tools, events)
    assert thinned(tools, events) == expected
    assert thinned(tools, events, restart_every=7) == expected
    assert (len(expected) == 1_000) == (tools == "all")


@given(
    tools=st.sampled_from(SETTINGS),
    events=st.lists(
        st.builds(
            Event,
            session=st.sampled_from("ab"),
            type=st.sampled_from(["tool.started", "tool.ended", "attention.needed", "subagent.ended"]),
            thread=st.sampled_from(["", "x", "y"]),
            at=st.integers(0, 300).map(lambda second: second * 1_000),
        ),
        max_size=60,
    ),
)
@settings(max_examples=MANY)
def test_any_rows_go_as_the_model_says(tools: Tools, events: list[Event]) -> None:
    assert thinned(tools, events) == model(tools, events)


def ends(*moments: tuple[str, int]) -> list[Event]:
    return [Event("s", "tool.ended", thread, at) for thread, at in moments]


def test_main_lets_every_call_of_the_main_thread_through() -> None:
    events = ends(("", 0), ("", 1), ("", 2))
    assert thinned("main", events) == events


def test_the_window_is_the_sessions_whichever_thread_was_sent_last() -> None:
    events = ends(("x", 0), ("y", 59_999), ("y", 60_000), ("x", 119_999))
    assert [e.at for e in thinned("beat", events)] == [0, 60_000]
    assert [e.at for e in thinned("main", ends(("", 0), ("x", 10_000)))] == [0]


def test_time_that_ran_backwards_opens_the_window_too() -> None:
    assert [e.at for e in thinned("beat", ends(("", 0), ("", -59_999), ("", -60_000)))] == [0, -60_000]


def test_the_first_end_after_a_prompt_always_goes_and_only_its_own_threads() -> None:
    events = [
        *ends(("x", 0)),
        Event("s", "attention.needed", "x", 5_000),
        *ends(("y", 6_000), ("x", 4_999), ("x", 5_000), ("x", 5_001)),
    ]
    assert [(e.type, e.thread, e.at) for e in thinned("main", events)] == [
        ("tool.ended", "x", 0),
        ("attention.needed", "x", 5_000),
        ("tool.ended", "x", 5_000),
    ]


def test_an_event_that_found_no_room_is_not_remembered_as_sent() -> None:
    window = Window.load("beat", {})
    assert window.admit("s", "tool.ended", "", 0)[0]
    assert window.admit("s", "tool.ended", "", 1)[0]


def test_a_window_of_another_setting_is_forgotten() -> None:
    window = Window.load("beat", {})
    _, seen = window.admit("s", "tool.ended", "x", 0)
    assert seen is not None
    window.keep("s", seen, 0)
    stored = window.dump()
    assert not Window.load("beat", stored).admit("s", "tool.ended", "x", 1)[0]
    assert Window.load("main", stored).admit("s", "tool.ended", "x", 1)[0]
    assert Window.load("all", stored).dump() == {}


def test_what_is_remembered_is_bounded_and_an_open_prompt_outlives_idle_sessions() -> None:
    window = Window.load("beat", {})

    def pass_(session: str, type_: str, at: int) -> bool:
        goes, seen = window.admit(session, type_, "", at)
        if goes and seen is not None:
            window.keep(session, seen, at)
        return goes

    pass_("asked", "attention.needed", 0)
    for number in range(200):
        pass_(f"idle-{number}", "tool.ended", number)
    for number in range(100):
        pass_(f"busy-{number}", "tool.ended", 7_200_000 + number)
    stored: dict[str, Any] = window.dump()["sessions"]
    assert "asked" in stored and not any(name.startswith("idle") for name in stored)
    for number in range(300):
        pass_(f"more-{number}", "tool.ended", 7_200_000)
    assert "asked" in window.dump()["sessions"]
    for number in range(1_000):
        pass_(f"more-{number}", "attention.needed", 7_200_000)
    assert len(window.dump()["sessions"]) <= 256
