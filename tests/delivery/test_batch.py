"""Packing: what goes, how much of it at once, and what the cursor may then forget."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionpipe.config import Tools
from sessionpipe.delivery.batch import Limits, Packed, Policy, pack
from sessionpipe.outbox import Outbox, Row, encode
from sessionpipe.privacy import secrets
from sessionpipe.redaction import Redaction
from tests.delivery.events import opened, record
from tests.delivery.test_thinning import SETTINGS, Event, model
from tests.laws import MANY

WIDE = Limits(1000, 1 << 20)


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    with opened(tmp_path / "outbox.db") as box:
        yield box


def packed(outbox: Outbox, policy: Policy, limits: Limits = WIDE, **options: Any) -> Packed:
    after = options.pop("after", 0)
    given = {"until": 0, "thinning": {}, **options}
    return pack("board", outbox.read(after, 10_000), after=after, policy=policy, limits=limits, **given)


def types(found: Packed) -> list[str]:
    return [json.loads(event)["type"] for event in found.batch.events] if found.batch else []


# --- what goes --------------------------------------------------------------------------------------


def test_a_sink_gets_the_types_of_its_tier_filtered_to_it(outbox: Outbox) -> None:
    record(outbox, "turn.started", {"turn_id": "t", "prompt_chars": 5})
    record(outbox, "tool.ended", {"tool": "Bash", "ok": True, "output": "x"})
    record(
        outbox, "turn.transcript", {"turn": 0, "user": "u", "assistant": "a", "at": "2026-01-01T00:00:00Z"}
    )
    assert [types(packed(outbox, Policy(tier))) for tier in range(4)] == [
        ["turn.started"],
        ["turn.started", "tool.ended"],
        ["turn.started", "tool.ended", "turn.transcript"],
        ["turn.started", "tool.ended", "turn.transcript"],
    ]
    found = packed(outbox, Policy(0)).batch
    assert found is not None
    event = json.loads(found.events[0])
    assert (event["tier"], event["data"]) == (0, {"turn_id": "t"})


def test_the_cursor_passes_what_the_tier_leaves_out(outbox: Outbox) -> None:
    record(outbox, "tool.ended", {"tool": "Bash", "ok": True}, count=3)
    assert packed(outbox, Policy(0)) == Packed(None, 3, {})


def test_heartbeats_are_for_those_who_get_no_tool_events(outbox: Outbox) -> None:
    record(outbox, "session.heartbeat")
    assert types(packed(outbox, Policy(0))) == ["session.heartbeat"]
    assert types(packed(outbox, Policy(1))) == []


def test_a_type_the_receiver_does_not_take_or_the_protocol_does_not_have_stays(outbox: Outbox) -> None:
    record(outbox, "session.backfill", {"started_at": "x", "last_at": "y"})
    record(outbox, "native", {"raw": 1})
    assert types(packed(outbox, Policy(3))) == ["session.backfill"]
    without = packed(outbox, Policy(3, without=frozenset({"session.backfill"})))
    assert (types(without), without.position, without.withheld) == ([], 2, 1)


def test_events_of_many_sessions_share_a_batch_in_the_order_they_were_recorded(outbox: Outbox) -> None:
    sent = [record(outbox, session=f"s{number % 30}")[0]["id"] for number in range(120)]
    found: list[tuple[str, ...]] = []
    after = 0
    while (part := packed(outbox, Policy(0), Limits(50, 1 << 20), after=after)).batch:
        found.append(part.batch.ids)
        after = part.position
    assert [len(ids) for ids in found] == [50, 50, 20]
    assert [id_ for ids in found for id_ in ids] == sent


def test_a_row_of_an_older_ruleset_is_redacted_again(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "RULESET_VERSION", 7)
    monkeypatch.setattr(secrets, "redact", lambda text: text.replace("hush", "[redacted]"))
    monkeypatch.setattr(
        secrets, "redact_value", lambda value: json.loads(json.dumps(value).replace("hush", "[redacted]"))
    )
    for ruleset in (6, 7):
        record(
            outbox,
            "turn.ended",
            {"reason": "error", "error": "hush"},
            ruleset=ruleset,
            title="hush",
            session="hush",
        )
    found = packed(outbox, Policy(1, rules=Redaction())).batch
    assert found is not None
    old, current = (json.loads(event) for event in found.events)
    assert (old["data"]["error"], old["session"]["title"]) == ("[redacted]", "[redacted]")
    assert (old["session"]["id"], current["data"]["error"]) == ("hush", "hush")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"id": 7}', b'{"data": 3}', b"\xff"])
def test_a_row_that_cannot_be_read_does_not_stand_in_the_way(outbox: Outbox, body: bytes) -> None:
    (good,) = record(outbox)
    bad = Row(1, "claude-code", "s", 0, "tool.ended", 0, 1, body)
    (row,) = outbox.read(0, 1)
    found = pack(
        "b", [bad, row._replace(position=2)], after=0, until=0, policy=Policy(1), limits=WIDE, thinning={}
    )
    assert found.batch is not None and found.batch.ids == (good["id"],)
    assert [given.position for given in found.given_up] == [1]


# --- how much at once -------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=30),
    max_events=st.integers(1, 10),
    max_bytes=st.integers(700, 3_000),
    envelope=st.integers(0, 20),
)
def test_no_batch_passes_a_bound_and_none_is_smaller_than_it_could_be(
    sizes: list[int], max_events: int, max_bytes: int, envelope: int
) -> None:
    rows = [_row(number, size) for number, size in enumerate(sizes, 1)]
    limits = Limits(max_events, max_bytes, envelope, strict=True)
    after, sent = 0, []
    while after < len(rows):
        found = pack("b", rows[after:], after=after, until=0, policy=Policy(1), limits=limits, thinning={})
        assert found.position > after and not found.given_up and found.batch is not None
        total = envelope + len(b",".join(found.batch.events))
        assert len(found.batch.events) <= max_events and total <= max_bytes
        if found.position < len(rows) and len(found.batch.events) < max_events:
            following = pack(
                "b", [rows[found.position]], after=0, until=0, policy=Policy(1), limits=limits, thinning={}
            )
            assert following.batch is not None
            assert total + 1 + len(following.batch.events[0]) > max_bytes
        sent += found.batch.ids
        after = found.position
    assert sent == [msgspec.json.decode(row.body)["id"] for row in rows]


def _row(position: int, size: int) -> Row:
    event = {
        "protocol": 1,
        "id": f"{position:026}",
        "type": "turn.ended",
        "time": "2026-01-01T00:00:00.000Z",
        "tier": 3,
        "harness": {"name": "x"},
        "session": {"id": "s", "seq": position},
        "privacy": {"rulesets": ["secrets@1"], "pii": False},
        "data": {"reason": "error", "error": "é" * (size // 2)},
    }
    return Row(position, "x", "s", position, "turn.ended", 0, secrets.RULESET_VERSION, encode(event))


def test_an_event_too_big_for_the_receiver_alone_is_given_up_and_the_rest_goes() -> None:
    rows = [_row(1, 10), _row(2, 3_000), _row(3, 10)]
    found = pack(
        "b", rows, after=0, until=0, policy=Policy(1), limits=Limits(50, 2_000, 13, strict=True), thinning={}
    )
    assert found.batch is not None and len(found.batch.events) == 2 and found.position == 3
    ((position, reason),) = [(given.position, given.reason) for given in found.given_up]
    assert position == 2 and "2000" in reason


@pytest.mark.parametrize(("room", "first"), [(0, 2), (-1, 1)])
def test_a_body_may_have_exactly_the_bytes_of_the_bound(room: int, first: int) -> None:
    rows = [_row(1, 10), _row(2, 60)]
    wide = Limits(50, 10_000, envelope=13, strict=True)
    whole = pack("b", rows, after=0, until=0, policy=Policy(1), limits=wide, thinning={}).batch
    assert whole is not None
    exact = len(b'{"events":[' + b",".join(whole.events) + b"]}")
    limits = Limits(50, exact + room, envelope=13, strict=True)
    found = pack("b", rows, after=0, until=0, policy=Policy(1), limits=limits, thinning={})
    assert found.batch is not None and len(found.batch.events) == first and not found.given_up


@pytest.mark.parametrize(("room", "given_up"), [(0, 0), (-1, 1)])
def test_an_event_alone_too(room: int, given_up: int) -> None:
    rows = [_row(1, 10)]
    wide = Limits(50, 10_000, envelope=13, strict=True)
    whole = pack("b", rows, after=0, until=0, policy=Policy(1), limits=wide, thinning={}).batch
    assert whole is not None
    limits = Limits(50, 13 + len(whole.events[0]) + room, envelope=13, strict=True)
    found = pack("b", rows, after=0, until=0, policy=Policy(1), limits=limits, thinning={})
    assert len(found.given_up) == given_up


def test_a_sink_without_such_a_bound_takes_it_alone() -> None:
    rows = [_row(1, 10), _row(2, 3_000), _row(3, 10)]
    limits = Limits(50, 2_000)
    first = pack("b", rows, after=0, until=0, policy=Policy(1), limits=limits, thinning={})
    second = pack("b", rows[1:], after=1, until=0, policy=Policy(1), limits=limits, thinning={})
    assert (first.position, second.position) == (1, 2) and second.batch is not None and not second.given_up


# --- the same again ---------------------------------------------------------------------------------


def test_a_batch_that_is_tried_again_does_not_grow_and_keeps_its_id(outbox: Outbox) -> None:
    record(outbox, count=3)
    first = packed(outbox, Policy(0))
    record(outbox, count=3)
    assert packed(outbox, Policy(0), until=first.position) == first
    grown = packed(outbox, Policy(0)).batch
    assert first.batch is not None and grown is not None and grown.id != first.batch.id


def test_the_same_events_in_another_series_are_another_message(outbox: Outbox) -> None:
    record(outbox)
    rows = outbox.read(0, 9)
    ids = {
        found.batch.id
        for series in ("a", "b")
        if (found := pack(series, rows, after=0, until=0, policy=Policy(0), limits=WIDE, thinning={})).batch
    }
    assert len(ids) == 2


def test_what_the_sink_holds_already_is_passed_over(outbox: Outbox) -> None:
    events = record(outbox, count=4)
    found = packed(outbox, Policy(0), held=2)
    assert found.batch is not None and found.batch.ids == tuple(event["id"] for event in events[2:])
    assert packed(outbox, Policy(0), held=4) == Packed(None, 4, {}, last_id=events[3]["id"])


# --- thinning ---------------------------------------------------------------------------------------


def tool(outbox: Outbox, at_s: int, agent: str | None = None) -> None:
    data = {"tool": "Bash", "ok": True, **({"agent_id": agent} if agent else {})}
    record(outbox, "tool.ended", data, at_ms=at_s * 1000)


def times(found: Packed) -> list[int]:
    return [int(json.loads(event)["time"][17:19]) for event in found.batch.events] if found.batch else []


def test_the_window_goes_with_the_cursor_from_batch_to_batch(outbox: Outbox) -> None:
    for second in (0, 5, 59, 60, 61):
        tool(outbox, second)
    first = packed(outbox, Policy(1, tools="beat"), Limits(1, 1 << 20))
    assert (first.position, times(first)) == (1, [0])
    second_ = packed(outbox, Policy(1, tools="beat"), after=1, thinning=first.thinning)
    assert (second_.position, times(second_)) == (5, [0])
    assert json.loads(json.dumps(second_.thinning)) == second_.thinning


def test_an_event_that_does_not_fit_opens_the_next_batch_unthinned(outbox: Outbox) -> None:
    record(outbox, "turn.started")
    tool(outbox, 0)
    (row,) = outbox.read(0, 1)
    first = packed(outbox, Policy(1, tools="beat"), Limits(50, len(row.body) + 10))
    assert first.position == 1
    assert times(packed(outbox, Policy(1, tools="beat"), after=1, thinning=first.thinning)) == [0]


def test_a_prompt_is_remembered_though_its_batch_is_long_sent(outbox: Outbox) -> None:
    tool(outbox, 0, "agent")
    record(
        outbox,
        "attention.needed",
        {"attention_id": "a", "kind": "permission", "agent_id": "agent"},
        at_ms=1_000,
    )
    first = packed(outbox, Policy(1, tools="main"))
    tool(outbox, 2, "other")
    tool(outbox, 3, "agent")
    assert times(packed(outbox, Policy(1, tools="main"), after=2, thinning=first.thinning)) == [3]


@given(
    tools=st.sampled_from(SETTINGS),
    events=st.lists(
        st.builds(
            Event,
            session=st.sampled_from("ab"),
            type=st.sampled_from(["tool.started", "tool.ended", "attention.needed", "turn.ended"]),
            thread=st.sampled_from(["", "x", "y"]),
            at=st.integers(0, 200).map(lambda second: second * 1_000),
        ),
        max_size=30,
    ),
    sizes=st.lists(st.integers(1, 5), min_size=1),
)
@settings(max_examples=MANY)
def test_however_the_batches_fall_what_goes_is_what_the_model_of_thinning_says(
    tools: Tools, events: list[Event], sizes: list[int]
) -> None:
    rows = [_thread_row(number, event) for number, event in enumerate(events, 1)]
    after, thinning, sent = 0, {}, []
    for size in itertools.cycle(sizes):
        found = pack(
            "b",
            rows[after:],
            after=after,
            until=0,
            policy=Policy(1, tools=tools),
            limits=Limits(size, 1 << 20),
            thinning=thinning,
        )
        sent += list(found.batch.ids) if found.batch else []
        # As it is written down with the cursor, and read by another process.
        after, thinning = found.position, json.loads(json.dumps(found.thinning))
        if after >= len(rows):
            break
    assert [events[int(id_) - 1] for id_ in sent] == model(tools, events)


def _thread_row(position: int, event: Event) -> Row:
    row = _row(position, 0)
    data: dict[str, Any] = {
        "tool.started": {"tool": "Bash"},
        "tool.ended": {"tool": "Bash", "ok": True},
        "attention.needed": {"attention_id": "p", "kind": "permission"},
        "turn.ended": {"reason": "stop"},
    }[event.type]
    if event.thread:
        data = {**data, "agent_id": event.thread}
    body = {**msgspec.json.decode(row.body), "type": event.type, "data": data}
    return row._replace(session=event.session, type=event.type, time_ms=event.at, body=encode(body))
