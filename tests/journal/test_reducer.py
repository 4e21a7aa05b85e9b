"""The fold, held against the published fixtures and against its own laws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.journal import reduce
from sessionpipe.journal.format import FIXTURE_SCHEMA
from sessionpipe.journal.reducer import DIAGNOSTICS, Reducer
from sessionpipe.paths import data_dir
from tests.journal.making import Story, conversation

FIXTURES = sorted((data_dir("conformance") / "journal").glob("*.json"))


def said(state: dict[str, Any]) -> dict[str, Any]:
    """A state with its diagnostics' words left out, which are anyone's own."""
    return {**state, "diagnostics": [{"seq": d["seq"], "code": d["code"]} for d in state["diagnostics"]]}


# --- the fixtures -------------------------------------------------------------------------------


def test_there_are_fixtures() -> None:
    assert len(FIXTURES) >= 20


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_fixture(path: Path) -> None:
    fixture = json.loads(path.read_bytes())
    assert fixture["schema"] == FIXTURE_SCHEMA
    for position in fixture["positions"]:
        state = reduce(fixture["entries"], fixture["events"], position["throughSeq"])
        assert said(state) == position["expected"], f"through {position['throughSeq']}"


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_fixture_goes_to_the_end_of_its_events(path: Path) -> None:
    fixture = json.loads(path.read_bytes())
    assert fixture["positions"][-1]["throughSeq"] == max(event["seq"] for event in fixture["events"])


def test_every_diagnostic_is_in_a_fixture() -> None:
    found = {
        item["code"]
        for path in FIXTURES
        for position in json.loads(path.read_bytes())["positions"]
        for item in position["expected"]["diagnostics"]
    }
    assert found == set(DIAGNOSTICS)


# --- laws ---------------------------------------------------------------------------------------

_scalars = st.none() | st.booleans() | st.integers(-3, 40) | st.floats(allow_nan=False) | st.text(max_size=3)
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_TYPES = [
    "turn_started", "turn_finished", "message_started", "message_finished", "assistant_event", "assistant_event",
    "tool_execution_started", "tool_execution_updated", "tool_execution_finished", "unknown",
]  # fmt: skip
_KINDS = [
    f"{about}_{step}" for about in ("text", "thinking", "toolcall") for step in ("start", "delta", "end")
]


def _or(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly ``value``, now and then anything."""
    return st.one_of(value, value, value, value, value, _json)


_payloads = st.fixed_dictionaries(
    {},
    optional={
        "turnIndex": _or(st.integers(0, 2)),
        "toolCallIds": _or(st.just([])),
        "role": _or(st.just("assistant")),
        "settled": _or(st.booleans()),
        "entryId": _or(st.sampled_from(["e1", "e2"])),
        "type": _or(st.sampled_from([*_KINDS, "done", "error", "start", "later"])),
        "contentIndex": _or(st.integers(0, 2)),
        "delta": _or(st.sampled_from(["a", "b", "\ud83d", "\ude00"])),
        "content": _or(st.sampled_from(["", "a", "ab"])),
        "reason": _or(st.sampled_from(["stop", "aborted"])),
        "toolName": _or(st.just("ls")),
        "isError": _or(st.booleans()),
        "result": _json,
        "args": _json,
        "toolCall": _json,
    },
)


@st.composite
def _events(draw: st.DrawFn) -> list[Any]:
    """A journal in the order of its ``seq``, mostly sound; its gaps, repeats and junk are drawn too."""
    events: list[Any] = []
    for seq in sorted(draw(st.lists(st.integers(1, 25), max_size=25))):
        event: dict[str, Any] = {
            "seq": seq,
            "type": draw(_or(st.sampled_from(_TYPES))),
            "payload": draw(_or(_payloads)),
        }
        for name, ids in (("turnId", "tu"), ("messageId", "mn"), ("toolCallId", "cd")):
            if draw(st.integers(0, 9)):
                event[name] = draw(_or(st.sampled_from(ids)))
        events.append(draw(_or(st.just(event))))
    return events


_entries = st.lists(st.builds(lambda id_: {"seq": 1, "entry": {"id": id_}}, st.sampled_from(["e1", "e2"])))


def _seq(event: Any) -> int:
    seq = event.get("seq") if isinstance(event, dict) else None
    return seq if type(seq) is int and seq > 0 else 0


@given(st.lists(_json) | _json.map(lambda value: [value]), st.lists(_json))
def test_nothing_whatever_raises(events: list[Any], entries: list[Any]) -> None:
    state = reduce(entries, events)
    assert set(state) == {"throughSeq", "messages", "tools", "settledEntryIds", "diagnostics"}
    json.dumps(state)


@given(_events(), _entries)
def test_the_state_at_a_position_is_the_state_after_its_events(events: list[Any], entries: list[Any]) -> None:
    known = {record["entry"]["id"] for record in entries}
    last = max(map(_seq, events), default=0)
    for through in range(last + 2):
        reducer = Reducer(known)
        for event in events:
            if _seq(event) > through:
                break
            reducer.apply(event)
        assert reduce(entries, events, through) == reducer.state()
    assert reduce(entries, events) == reduce(entries, events, last)


@given(_events(), _entries, st.integers(0, 25))
def test_going_on_from_a_snapshot_is_as_having_come_all_the_way(
    events: list[Any], entries: list[Any], cut: int
) -> None:
    straight = Reducer({record["entry"]["id"] for record in entries})
    for event in events[:cut]:
        straight.apply(event)
    snapshot, before = straight.snapshot(), straight.state()
    first, second = Reducer.restore(snapshot), Reducer.restore(snapshot)
    assert first.state() == before
    for event in events[cut:]:
        for reducer in (straight, first):
            reducer.apply(event)
            assert Reducer.restore(reducer.snapshot()).state() == reducer.state()
        assert first.state() == straight.state()
    # What one did with a snapshot is nothing to another, nor to the snapshot.
    assert second.state() == before == Reducer.restore(snapshot).state()


@given(_events(), st.randoms())
def test_events_count_in_the_order_of_their_numbers(events: list[Any], random: Any) -> None:
    sound = list({_seq(event): event for event in events if _seq(event)}.values())
    shuffled = sound.copy()
    random.shuffle(shuffled)
    assert reduce([], shuffled) == reduce([], sound)


@given(_events())
def test_a_state_handed_out_is_not_changed_by_what_comes(events: list[Any]) -> None:
    reducer = Reducer()
    kept = []
    for event in events:
        reducer.apply(event)
        state = reducer.state()
        kept.append((state, json.dumps(state)))
    assert all(json.dumps(state) == text for state, text in kept)


# --- what the fixtures don't say -----------------------------------------------------------------


def test_a_missing_entry_is_missing_until_it_is_there() -> None:
    story = conversation()
    known: set[str] = set()
    reducer = Reducer(known)
    for event in story.events:
        reducer.apply(event)
    assert [item["code"] for item in reducer.diagnostics()] == ["entry_missing"] * 4
    known.update(record["entry"]["id"] for record in story.entries)
    assert reducer.diagnostics() == []
    assert reducer.state() == reduce(story.entries, story.events)


def test_entries_may_be_given_as_pi_has_them() -> None:
    story = conversation()
    bare = [record["entry"] for record in story.entries]
    assert reduce(bare, story.events) == reduce(story.entries, story.events)


@pytest.mark.parametrize("seq", [True, 1.0, "1", None, 0, -1, 2**53])
def test_only_a_positive_integer_is_a_place_in_the_order(seq: object) -> None:
    state = reduce([], [{"seq": seq, "type": "turn_started", "turnId": "t", "payload": {"turnIndex": 0}}])
    assert (state["throughSeq"], said(state)["diagnostics"]) == (0, [{"seq": 0, "code": "record_invalid"}])


def test_a_text_of_many_deltas_is_whole_at_any_snapshot() -> None:
    story = Story()
    story.begin("t", "m")
    story.said("t", "m", "text_start")
    reducer, snapshots = Reducer(), []
    deltas = [f"{n}," for n in range(9000)]
    for event in story.events:
        reducer.apply(event)
    for n, delta in enumerate(deltas):
        reducer.apply(
            {
                **story.events[-1],
                "seq": 3 + n,
                "payload": {"type": "text_delta", "contentIndex": 0, "delta": delta},
            }
        )
        if n % 1000 == 500:
            snapshots.append((n + 1, reducer.snapshot()))
    for count, snapshot in snapshots:
        (message,) = Reducer.restore(snapshot).state()["messages"]
        assert message["blocks"][0]["text"] == "".join(deltas[:count])
