"""What Pi's events become: ids, owners, and nothing that repeats itself."""

from __future__ import annotations

from typing import Any

import pytest

from sessionpipe.journal.format import EVENT_TYPES, misfits
from sessionpipe.journal.normalize import Mismatch, Normalizer, Owner, Record

PI = Owner("pi", "a1")


def fold(*events: dict[str, Any], normalizer: Normalizer | None = None, owner: Owner = PI) -> list[Record]:
    fold = normalizer or Normalizer()
    return [record for event in events for record in fold.feed(event, 1.0, owner)]


def message(kind: str, role: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"message_{kind}", "message": {"role": role, **fields}}


def update(kind: str, **fields: Any) -> dict[str, Any]:
    told = {"type": kind, "partial": {"content": ["so far"]}, "message": {}, "error": {}, **fields}
    return {"type": "message_update", "message": {"role": "assistant"}, "assistantMessageEvent": told}


def tool(kind: str, call: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"tool_execution_{kind}", "toolCallId": call, "toolName": "bash", **fields}


def called(*calls: str) -> list[dict[str, Any]]:
    """A turn begins, and its assistant message calls tools."""
    content = [{"type": "toolCall", "id": call, "name": "bash", "arguments": {}} for call in calls]
    return [
        {"type": "turn_start"},
        message("start", "assistant"),
        message("end", "assistant", content=content),
    ]


def test_a_turn_s_events_carry_its_ids() -> None:
    records = fold(
        {"type": "agent_start"},
        {"type": "turn_start", "turnIndex": 4},
        message("start", "user"),
        message("end", "user"),
        *called("call_1")[1:],
        tool("start", "call_1", args={"command": "ls"}),
        tool("update", "call_1", args={}, partialResult={"content": ["so far"]}),
        tool("end", "call_1", result={"content": []}, isError=True, durationMs=5),
        message("start", "toolResult"),
        message("end", "toolResult"),
        {"type": "turn_end", "message": {}, "toolResults": [{"toolCallId": "call_1", "content": []}]},
        {"type": "agent_end", "messages": []},
    )
    assert [(record.type, record.turn, record.message, record.tool) for record in records] == [
        ("turn_started", "t1", None, None),
        ("message_started", "t1", "m1", None),
        ("message_finished", "t1", "m1", None),
        ("message_started", "t1", "m2", None),
        ("message_finished", "t1", "m2", None),
        ("tool_execution_started", "t1", "m2", "call_1"),
        ("tool_execution_updated", "t1", "m2", "call_1"),
        ("tool_execution_finished", "t1", "m2", "call_1"),
        ("message_started", "t1", "m3", None),
        ("message_finished", "t1", "m3", None),
        ("turn_finished", "t1", None, None),
    ]
    assert records[0].payload == {"turnIndex": 4}
    assert records[5].payload == {"toolName": "bash", "args": {"command": "ls"}}
    assert records[6].payload == {}
    assert records[7].payload == {"toolName": "bash", "isError": True, "result": {"content": []}}
    assert records[-1].payload == {"turnIndex": 4, "messageId": "m2", "toolCallIds": ["call_1"]}
    for record in records:
        assert misfits(EVENT_TYPES[record.type].payload, record.payload) == []


@pytest.mark.parametrize(
    "told",
    [
        {"type": "start"},
        {"type": "text_start", "contentIndex": 0},
        {"type": "thinking_delta", "contentIndex": 0, "delta": "a"},
        {"type": "text_end", "contentIndex": 1, "content": "ab"},
        {"type": "toolcall_end", "contentIndex": 2, "toolCall": {"id": "x"}},
        {"type": "done", "reason": "stop"},
        {"type": "error", "reason": "aborted"},
    ],
)
def test_an_update_keeps_what_the_format_names_and_nothing_cumulative(told: dict[str, Any]) -> None:
    *_, record = fold({"type": "turn_start"}, message("start", "assistant"), update(told["type"], **told))
    assert (record.type, record.payload) == ("assistant_event", told)


def test_of_an_update_nobody_knows_only_that_it_happened_is_kept() -> None:
    *_, record = fold(
        {"type": "turn_start"}, message("start", "assistant"), update("image_delta", all="so far")
    )
    assert record.payload == {"type": "image_delta"}


def test_adjacent_deltas_stay_apart_and_keep_their_times() -> None:
    normalizer = Normalizer()
    fold({"type": "turn_start"}, message("start", "assistant"), normalizer=normalizer)
    deltas = [
        record
        for at in (1.25, 1.5)
        for record in normalizer.feed(update("text_delta", contentIndex=0, delta="a"), at, PI)
    ]
    assert [record.at for record in deltas] == [1.25, 1.5]


def test_a_stream_without_indices_counts_turns_as_pi_does() -> None:
    turn = [{"type": "turn_start"}, {"type": "turn_end", "toolResults": []}]
    run = [{"type": "agent_start"}, *turn, *turn, {"type": "agent_end"}]
    started = [record for record in fold(*run, *run) if record.type == "turn_started"]
    assert [record.payload["turnIndex"] for record in started] == [0, 1, 0, 1]
    assert [record.turn for record in started] == ["t1", "t2", "t3", "t4"]


def test_what_has_begun_keeps_its_owner() -> None:
    normalizer = Normalizer()
    later = Owner("fix", "a2")
    begun = [*called("call_1"), tool("start", "call_1")]
    fold(*begun[:2], normalizer=normalizer)
    records = fold(*begun[2:], normalizer=normalizer, owner=later)
    assert [(record.type, record.owner) for record in records] == [
        ("message_finished", PI),
        ("tool_execution_started", later),
    ]
    ends = fold(
        tool("end", "call_1"),
        message("start", "toolResult"),
        {"type": "turn_end"},
        normalizer=normalizer,
    )
    assert [(record.type, record.owner) for record in ends] == [
        ("tool_execution_finished", later),
        ("message_started", PI),
        ("turn_finished", PI),
    ]


def test_parallel_tools_belong_to_the_message_that_called_them() -> None:
    records = fold(
        *called("call_1", "call_2"),
        tool("start", "call_1"),
        tool("start", "call_2"),
        tool("end", "call_2"),
        tool("end", "call_1"),
    )
    assert {record.message for record in records if record.tool} == {"m1"}


def test_a_nested_call_belongs_where_its_parent_does() -> None:
    records = fold(
        *called("call_1"),
        tool("start", "call_1"),
        tool("start", "call_1/1", parentToolCallId="call_1"),
        tool("end", "call_1/1"),
    )
    assert [record.message for record in records[-2:]] == ["m1", "m1"]


def test_a_tool_may_end_in_a_later_turn_under_the_turn_it_began_in() -> None:
    records = fold(
        *called("call_1"),
        tool("start", "call_1"),
        {"type": "turn_end"},
        {"type": "turn_start"},
        tool("end", "call_1"),
    )
    assert (records[-1].turn, records[-1].message) == ("t1", "m1")


def test_a_steered_message_is_one_more_of_its_turn() -> None:
    records = fold(
        {"type": "turn_start"},
        message("start", "user"),
        message("end", "user"),
        message("start", "assistant"),
    )
    assert [record.message for record in records[1:]] == ["m1", "m1", "m2"]


def test_a_message_outside_of_any_turn_has_no_event() -> None:
    assert fold(message("start", "custom"), message("end", "custom")) == []


def test_a_provider_may_use_a_tool_call_s_id_again() -> None:
    records = fold(
        *called("call_1"),
        tool("start", "call_1"),
        tool("end", "call_1"),
        *called("call_1"),
        tool("start", "call_1"),
    )
    assert [record.message for record in records if record.type == "tool_execution_started"] == ["m1", "m2"]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "turn_end"},
        message("end", "assistant"),
        update("text_delta", contentIndex=0, delta="x"),
        tool("start", "call_1"),
        tool("update", "call_1"),
        tool("end", "call_1"),
        {"type": "message_start"},
        {"type": "tool_execution_start"},
    ],
    ids=lambda event: event["type"],
)
def test_an_end_without_its_start_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(Mismatch):
        fold(event)


@pytest.mark.parametrize("fields", [{}, {"contentIndex": -1, "delta": "x"}, {"contentIndex": 0, "delta": 7}])
def test_an_update_that_the_format_can_t_hold_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Mismatch):
        fold({"type": "turn_start"}, message("start", "assistant"), update("text_delta", **fields))


def test_a_call_that_runs_can_t_begin_again() -> None:
    with pytest.raises(Mismatch):
        fold(*called("call_1"), tool("start", "call_1"), tool("start", "call_1"))


def test_it_is_unfinished_until_the_run_ends() -> None:
    normalizer = Normalizer()
    seen = []
    for event in (
        {"type": "agent_start"},
        {"type": "turn_start"},
        {"type": "turn_end"},
        {"type": "agent_end"},
    ):
        fold(event, normalizer=normalizer)
        seen.append((normalizer.in_turn, normalizer.unfinished))
    assert seen == [(False, True), (True, True), (False, True), (False, False)]
