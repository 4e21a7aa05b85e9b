"""sessionpipe.adapters.values: the language in which adapters say where a value is found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.adapters.values import Mistake, Scope, condition, value

PAYLOAD: dict[str, Any] = {
    "name": "Write",
    "empty": "",
    "none": None,
    "flag": True,
    "off": False,
    "count": 3,
    "text": "Exit code: 4\nall wrong",
    "tool": {"file": "/a", "content": [{"type": "image"}, {"type": "text", "text": "first"}, {"text": "second"}]},
    "packed": '{"exitCode": 2}',
    "half": '{"output": "\\ud800", "ms": NaN}',
    "uri": "file:///home/dev/a%20b",
    "id": "01a22871-9832-75a7-be73-f037762926a1",
    "tasks": [
        {"id": "one", "status": "running"},
        {"id": "two", "status": "completed"},
        {"id": "three"},
        "not a task",
    ],
    "agent": "one",
    "words": ["a", "b"],
}  # fmt: skip


def scope(payload: dict[str, Any] | None = None) -> Scope:
    return Scope(
        PAYLOAD if payload is None else payload,
        env={"SET": "1", "EMPTY": ""},
        args=["first", "last"],
        cwd="/work",
        ask=lambda _scope, name: f"made {name}",
    )


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("name", "Write"),
        ("nowhere", None),
        ("none", None),
        ("tool.file", "/a"),
        ("tool.content.1.text", "first"),
        ("tool.content.9.text", None),
        ("tool.content.*.text", "first"),
        ("tool.content.text", None),
        ("name.length", None),
        ("$env.SET", "1"),
        ("$env.EMPTY", None),
        ("$env.UNSET", None),
        ("$args.1", "last"),
        ("$args.5", None),
        ("$cwd", "/work"),
        ("$ask.id", "made id"),
        ("$ask.message", "made message"),
        ("=word", "word"),
        (True, True),
        (3, 3),
        (["nowhere", "none", "name"], "Write"),
        ([], None),
        ({"from": "name", "map": {"Write": "w"}}, "w"),
        ({"from": "name", "map": {"Read": "r"}}, None),
        ({"from": "name", "map": {"Read": "r", "*": "other"}}, "other"),
        ({"from": "flag", "map": {"true": False}}, False),
        ({"from": "count", "map": {"3": "three"}}, "three"),
        ({"from": "tool", "map": {"*": "never"}}, None),
        ({"from": "text", "find": r"^Exit code: (\d+)"}, "4"),
        ({"from": "text", "find": "wrong$"}, "wrong"),
        ({"from": "text", "find": "right"}, None),
        ({"from": "count", "find": "3"}, None),
        ({"from": "text", "find": r"^Exit code: (\d+)", "map": {"0": True, "*": False}}, False),
        ({"from": "text", "find_all": r"(\w)r"}, ["w"]),
        ({"from": "text", "last": 3}, "ong"),
        ({"from": "text", "last": 3, "find": "w.*"}, None),
        ({"from": "number", "last": 3}, None),
        ({"from": "name", "starts": ["Wr"]}, True),
        ({"from": "name", "starts": ["wr"]}, None),
        ({"from": "text", "chars": True}, 22),
        ({"from": "count", "scaled": 1000}, 3000),
        ({"from": "flag", "scaled": 1000}, None),
        ({"from": "packed", "json": True, "at": "exitCode"}, 2),
        ({"from": "text", "json": True, "at": "exitCode"}, None),
        ({"from": "half", "json": True}, {"output": "\ufffd", "ms": None}),
        ({"from": "uri", "local": True}, "/home/dev/a b"),
        ({"from": "name", "local": True}, "Write"),
        ({"from": "id", "time": "uuid7"}, 1_795_974_862_898),
        ({"from": "name", "time": "uuid7"}, None),
        ({"from": "=2026-11-29T17:54:22.899Z", "time": "rfc3339"}, 1_795_974_862_899),
        ({"from": "=2026-11-29T17:54:22.899", "time": "rfc3339"}, None),
        ({"from": "=yesterday", "time": "rfc3339"}, None),
        ({"all": ["name", "nowhere", "tool.file"]}, ["Write", "/a"]),
        ({"all": ["nowhere"]}, None),
        ({"record": {"a": "name", "b": "nowhere", "c": 3}}, {"a": "Write", "c": 3}),
        ({"record": {"a": "nowhere"}}, None),
        ({"from": "count", "scaled": 1000, "moment": True}, "1970-01-01T00:00:03.000Z"),
        ({"from": "name", "moment": True}, None),
        ({"from": 1e15, "moment": True}, None),
        ({"count": "tasks"}, 3),
        ({"count": "tasks", "not": {"is": {"status": ["completed"]}}}, 2),
        ({"count": "tasks", "only": {"is": {"status": "running"}}}, 1),
        ({"count": "tasks", "only": {"is": {"status": "running"}}, "except": {"id": "agent"}}, 0),
        ({"count": "name"}, None),
        ({"from": "name", "when": {"has": "flag"}}, "Write"),
        ({"from": "name", "when": {"has": "nowhere"}}, None),
        ({"from": "name", "unless": {"has": "flag"}}, None),
    ],
)
def test_what_a_value_finds(spec: Any, found: Any) -> None:
    assert value(spec, "here")(scope()) == found


@pytest.mark.parametrize(
    ("spec", "holds"),
    [
        ({"has": "name"}, True),
        ({"has": ["name", "nowhere"]}, False),
        ({"has": "empty"}, False),
        ({"has": "off"}, True),
        ({"any": ["nowhere", "name"]}, True),
        ({"any": ["nowhere", "none"]}, False),
        ({"lacks": ["nowhere", "empty"]}, True),
        ({"lacks": "name"}, False),
        ({"is": {"name": "Write"}}, True),
        ({"is": {"name": ["Read", "Write"]}}, True),
        ({"is": {"name": "Write", "count": 4}}, False),
        ({"is": {"empty": ""}}, True),
        ({"is": {"flag": True}}, True),
        ({"is": {"flag": 1}}, False),
        ({"is": {"count": 3}}, True),
        ({"matches": {"text": "^Exit"}}, True),
        ({"matches": {"count": "3"}}, False),
        ({"holds": {"words": "b"}}, True),
        ({"holds": {"words": "c"}}, False),
        ({"holds": {"count": 3}}, False),
        ({"above": {"count": 2}}, True),
        ({"above": {"count": 3}}, False),
        ({"above": {"flag": 0}}, False),
        ({"close": {"of": ["count", 5], "within": 2}}, True),
        ({"close": {"of": ["count", 6], "within": 2}}, False),
        ({"close": {"of": ["count", "nowhere"], "within": 2}}, False),
        ({"has": "name", "lacks": "flag"}, False),
    ],
)
def test_when_a_condition_holds(spec: Any, holds: bool) -> None:
    assert condition(spec, "here")(scope()) is holds


@pytest.mark.parametrize(
    "spec",
    [
        None,
        "a..b",
        "$nothing",
        "$env",
        "$ask.other",
        {"find": "no source"},
        {"from": "a", "count": "b"},
        {"from": "a", "shout": True},
        {"from": "a", "when": {"sometimes": True}},
        {"from": "a", "when": {}},
    ],
)
def test_what_the_language_does_not_have_is_a_mistake_that_says_where(spec: Any) -> None:
    with pytest.raises(Mistake, match=r"^the table"):
        value(spec, "the table")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc*0"), inner, max_size=3),
    max_leaves=12,
)
TRANSFORMED = [
    {"from": "a", "json": True, "at": "b"},
    {"from": "a.*.b", "find": "(.)"},
    {"from": "a", "find_all": "(.)"},
    {"from": "a", "starts": ["x"]},
    {"from": "a", "local": True},
    {"from": "a", "time": "rfc3339"},
    {"from": "a", "time": "uuid7"},
    {"from": "a", "scaled": 1.5},
    {"from": "a", "chars": True},
    {"from": "a", "map": {"*": 1}},
    {"count": "a", "not": {"matches": {"b": "x"}}, "except": {"b": "c"}},
    {
        "from": "a",
        "when": {"is": {"a": [1, "x"]}, "above": {"b": 1}, "close": {"of": ["a", "b"], "within": 1}},
    },
]


@given(st.dictionaries(st.sampled_from("abc"), ANYTHING), st.sampled_from(TRANSFORMED))
def test_no_payload_makes_a_value_fail(payload: dict[str, Any], spec: dict[str, Any]) -> None:
    value(spec, "here")(scope(payload))
