"""harnesses.pi_stream: a stream as normalized events, and nothing of it lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.harnesses.pi_stream import (
    AgentMessage,
    Command,
    Event,
    List,
    Normalizer,
    Read,
    Reasoning,
    Search,
    Session,
    Unknown,
    Write,
    parse,
    success,
)
from tests import streams


def line(kind: str, **fields: Any) -> bytes:
    return json.dumps({"type": kind, **fields}, separators=(",", ":")).encode()


def start(tool: str, args: Any = None, **fields: Any) -> bytes:
    return line("tool_execution_start", toolCallId="c", toolName=tool, args=args or {}, **fields)


def end(**fields: Any) -> bytes:
    return line("tool_execution_end", **{"toolCallId": "c", "isError": False, **fields})


def only(lines: list[bytes]) -> Event:
    (event,) = parse(lines)
    return event


def text(*words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": word} for word in words]}


# --- recordings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", streams.scenarios(), ids=lambda path: path.name)
def test_a_recorded_stream_becomes_what_is_expected(folder: Path) -> None:
    assert streams.normalized(streams.load(folder)) == streams.expected(folder, "normalized.ndjson")


def test_a_file_may_be_parsed_as_it_is_opened() -> None:
    folder = next(path for path in streams.scenarios() if path.name == "i-long-unicode")
    with (folder / "stdout.ndjson").open("rb") as file:
        assert list(parse(file)) == list(parse(streams.load(folder).lines))


def test_a_stream_may_be_text_or_bytes_in_lines_or_in_one_piece() -> None:
    content = b"\n".join([line("message_end", message={"role": "assistant", "content": "a\u2028b"}), b""])
    whole = list(parse([content]))
    assert len(whole) == 1
    for stream in (content, content.decode(), [content.decode()]):
        assert list(parse(stream)) == whole


# --- the session ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["id", "sessionId", "session_id"])
def test_the_session_is_named_under_any_of_its_names(name: str) -> None:
    normalizer = Normalizer()
    assert normalizer.feed(line("session", **{name: "s-1", "cwd": "/src", "timestamp": "t"})) == [
        Session(session_id="s-1", cwd="/src", started_at="t")
    ]
    assert normalizer.session_id == "s-1"


@pytest.mark.parametrize("value", [None, 7, "", ["s"]])
def test_a_session_without_a_name_is_nothing_known(value: Any) -> None:
    normalizer = Normalizer()
    header = line("session", id=value)
    assert normalizer.feed(header) == [Unknown(reason="no id", raw=header)]
    assert normalizer.session_id is None


# --- messages ---------------------------------------------------------------------------------------


def said(content: Any, role: str = "assistant", **fields: Any) -> list[Event]:
    return Normalizer().feed(line("message_end", message={"role": role, "content": content, **fields}))


def test_what_the_agent_says_is_its_text_parts_and_its_thinking_comes_first() -> None:
    content = [
        {"type": "text", "text": "First."},
        {"type": "thinking", "thinking": "Hm."},
        {"type": "toolCall", "id": "c", "name": "bash", "arguments": {}},
        {"type": "text", "text": "Second."},
        {"type": "thinking", "thinking": "Well."},
    ]
    assert said(content, model="m", stopReason="stop") == [
        Reasoning(text="Hm.\n\nWell.", model="m"),
        AgentMessage(text="First.\n\nSecond.", model="m", stop_reason="stop"),
    ]
    assert said("A string.") == [AgentMessage(text="A string.")]


@pytest.mark.parametrize(
    "content", [[], "", " ", None, 7, [None, "x", {"type": "image"}, {"type": "text"}], {"type": "text"}]
)
def test_a_message_that_says_nothing_is_no_event(content: Any) -> None:
    assert said(content) == []


@pytest.mark.parametrize("role", ["user", "system", "toolResult", "custom", None, 7])
def test_what_others_say_is_no_event(role: Any) -> None:
    assert said("words", role) == []
    assert Normalizer().feed(line("message_end")) == []


# --- tools ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "args", "kind", "of"),
    [
        ("read", {"path": "a"}, Read, {"path": "a"}),
        ("READ", {"file_path": "a"}, Read, {"path": "a"}),
        ("read", {"wrong": 1}, Read, {"path": None}),
        ("write", {"path": "a", "content": "x"}, Write, {"path": "a"}),
        ("Edit", {"path": "a", "edits": []}, Write, {"path": "a"}),
        ("search", {"query": "q", "path": "src"}, Search, {"pattern": "q", "path": "src"}),
        ("grep", {"pattern": "q"}, Search, {"pattern": "q", "path": None}),
        ("glob", {"pattern": "*.py"}, Search, {"pattern": "*.py", "path": None}),
        ("list", {"path": "src"}, List, {"path": "src"}),
        ("bash", {"command": "make"}, Command, {"command": "make"}),
        ("Shell", {"command": "make"}, Command, {"command": "make"}),
        ("bash", {}, Command, {"command": None}),
        ("bash", {"command": "cat a"}, Read, {"path": "a", "command": "cat a"}),
        ("bash", {"command": "ls"}, List, {"path": ".", "command": "ls"}),
        ("bash", {"command": "rg q"}, Search, {"pattern": "q", "command": "rg q"}),
        ("bash", {"command": "echo x > a"}, Write, {"path": "a", "command": "echo x > a"}),
    ],
)
def test_a_tool_is_what_it_does(tool: str, args: Any, kind: type[Event], of: dict[str, Any]) -> None:
    event = only([start(tool, args), end(result=text("done"))])
    assert type(event) is kind
    found = {name: getattr(event, name) for name in of}
    assert found == of
    told = event.to_dict()
    assert (told["tool"], told["ok"], told["call_id"], told["output"]) == (tool, True, "c", "done")
    assert told["input"] == args if args else True


@pytest.mark.parametrize("tool", ["ls", "find", "codemode", "mcp__a__b", "7"])
def test_a_tool_that_is_none_of_these_is_unknown_and_keeps_its_arguments(tool: str) -> None:
    ended = end(result=text("done"))
    assert only([start(tool, {"a": 1}), ended]) == Unknown(
        reason="tool", raw=ended, tool=tool, input={"a": 1}
    )


@pytest.mark.parametrize("name", ["toolName", "tool_name", "tool", "name"])
@pytest.mark.parametrize("args", ["args", "input", "arguments", "toolInput"])
def test_a_start_is_read_under_any_of_its_names(name: str, args: str) -> None:
    started = line("tool_execution_start", toolCallId="c", **{name: "read", args: {"path": "a"}})
    assert only([started, end(result=text("x"))]).to_dict() == {
        "type": "read",
        "tool": "read",
        "path": "a",
        "ok": True,
        "call_id": "c",
        "input": {"path": "a"},
        "output": "x",
    }


@pytest.mark.parametrize(
    ("fields", "ok"),
    [
        ({"isError": False}, True),
        ({"isError": True, "result": {}}, False),
        ({"isError": "true", "result": {}}, True),
        ({"result": {"content": []}}, True),
        ({"result": "text"}, True),
        ({"error": "no", "result": {}}, False),
        ({"error": None, "result": {}}, True),
        ({"error": False, "result": {}}, True),
        ({"status": "error", "result": {}}, False),
        ({"status": "Completed"}, True),
        ({"status": "exited", "result": {}}, True),
        ({"status": "exited"}, None),
        ({"status": 7}, None),
        ({}, None),
    ],
)
def test_how_it_went_is_said_in_one_way_or_another(fields: dict[str, Any], ok: bool | None) -> None:
    assert success(fields) is ok


def test_a_failure_says_why_and_a_command_its_status() -> None:
    result = text("made", "nothing") | {"structuredContent": {"exit_code": 2}, "details": {"a": 1}}
    event = only(
        [start("bash", {"command": "make"}), end(isError=True, result=result, durationMs=12.5)]
    ).to_dict()
    assert event["output"] == event["error"] == "made\nnothing"
    assert (event["exit_code"], event["ms"], event["ok"]) == (2, 12.5, False)
    # Nothing of the result is lost.
    assert event["extra"] == {"structuredContent": {"exit_code": 2}, "details": {"a": 1}}
    named = only([start("read"), end(isError=True, error="gone", result={"content": "x"})]).to_dict()
    assert (named["error"], named["output"]) == ("gone", "x")


@pytest.mark.parametrize(
    "result", [None, 7, [1], "text", {"content": 7}, {"content": [7, {"type": "image"}]}, {}]
)
def test_any_result_is_kept(result: Any) -> None:
    told = only([start("bash", {"command": "make"}), end(result=result)]).to_dict()
    kept = told.get("extra") if told.get("output") in (None, "") else told["output"]
    assert kept == result


def test_calls_inside_a_call_name_it() -> None:
    started = start("read", {"path": "a"}, parentToolCallId="p")
    assert only([started, end()]).to_dict()["parent_call_id"] == "p"


def test_calls_are_paired_by_their_id_whatever_the_order() -> None:
    def one(kind: str, number: int, **fields: Any) -> bytes:
        return line(f"tool_execution_{kind}", toolCallId=f"c{number}", **fields)

    lines = [one("start", n, toolName="read", args={"path": f"f{n}"}) for n in range(3)]
    lines += [one("end", n, isError=False) for n in (2, 0, 1)]
    assert [event.to_dict()["path"] for event in parse(lines)] == ["f2", "f0", "f1"]


# --- nothing is lost --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lost",
    [
        b"no json",
        b'{"type":"message_update","usage":{"inp',
        b'{"type":"message_end","message":{"role":"assi',
        b"[1]",
        b"null",
        b'{"kind":"other"}',
        b'{"type":"message_end","bad":"\xff"}',
        b"\xef\xbb\xbf\xff",
    ],
)
def test_what_cannot_be_read_is_kept_as_it_came(lost: bytes) -> None:
    assert only([lost]) == Unknown(reason="unreadable", raw=lost)


@pytest.mark.parametrize(
    "kind", ["agent_settled", "auto_retry_start", "queue_update", "response", "Session", "x"]
)
def test_another_type_is_unknown(kind: str) -> None:
    other = line(kind, a=1)
    assert only([other]) == Unknown(reason="type", raw=other)


@pytest.mark.parametrize("kind", sorted(Normalizer.CONSUMED))
def test_what_carries_no_activity_is_no_event(kind: str) -> None:
    assert list(parse([line(kind, message={"role": "assistant"}), b"", b"\r\n", b"  "])) == []


def test_a_start_and_an_end_without_each_other_are_kept() -> None:
    ended, started = end(result=text("x")), start("read", {"path": "a"})
    assert only([ended]) == Unknown(reason="no start", raw=ended)
    assert only([started]) == Unknown(reason="unfinished", raw=started, tool="read")
    again = start("bash", {"command": "make"})
    first, second = parse([started, again, end()])
    assert first == Unknown(reason="unfinished", raw=started, tool="read")
    assert isinstance(second, Command)
    nameless = line("tool_execution_start", toolName="read")
    assert only([nameless]) == Unknown(reason="no id", raw=nameless)


def test_a_raw_line_is_told_as_text_that_any_reader_can_have() -> None:
    told = Unknown(reason="unreadable", raw=b"a\xff\xe2\x80\xa8\0").to_dict()
    assert told == {"type": "unknown", "reason": "unreadable", "raw": "a\\xff\u2028\0"}
    assert json.loads(json.dumps(told)) == told


TYPES = st.sampled_from(
    [
        "session",
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "turn_end",
        "message_update",
        "x",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["content", "text", "type", "usage", "role", "command"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["id", "toolCallId", "toolName", "args", "result", "isError", "error", "status", "message", "durationMs"]
)
OBJECTS = st.builds(lambda kind, rest: {**rest, "type": kind}, TYPES, st.dictionaries(NAMES, VALUES))


@given(st.lists(st.binary(max_size=20) | OBJECTS.map(lambda value: json.dumps(value).encode())))
def test_any_stream_is_read_and_each_of_its_events_is_json(lines: list[bytes]) -> None:
    for event in parse(lines):
        assert json.loads(json.dumps(event.to_dict()))["type"]


# --- what was used ----------------------------------------------------------------------------------


def test_what_the_model_used_is_added_up() -> None:
    normalizer = Normalizer()
    used = {"input": 10, "output": 5, "cacheRead": 2, "cacheWrite": 1, "reasoning": 3, "totalTokens": 18}
    for usage in (used | {"cost": {"total": 0.25}}, used | {"cost": 0.5}, {"input": "many"}, None, 7):
        assert normalizer.feed(line("turn_end", message={"role": "assistant", "usage": usage})) == []
    assert normalizer.feed(line("turn_end", message=None)) == []
    assert normalizer.usage.to_dict() == {
        "turns": 6,
        "input": 20,
        "output": 10,
        "reasoning": 6,
        "cache_read": 4,
        "cache_write": 2,
        "total_tokens": 36,
        "cost": 0.75,
    }


def test_a_recorded_run_used_what_its_messages_say() -> None:
    folder = next(path for path in streams.scenarios() if path.name == "c-tools")
    normalizer = Normalizer()
    for one in streams.load(folder).lines:
        normalizer.feed(one)
    assert (normalizer.usage.turns, normalizer.usage.input, normalizer.usage.output) == (5, 4780, 102)
