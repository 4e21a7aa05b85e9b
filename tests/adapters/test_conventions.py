"""What holds for every harness, asked of every table there is (the adapters' conventions)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.adapters import Refused, map_hook, registry
from sessionpipe.adapters.fold import fold
from sessionpipe.protocol.vocabulary import ERROR, MESSAGE
from sessionpipe.seal import seal, session_block
from tests.laws import FEW
from tests.recorded import Hook, hooks, scenarios
from tests.schema import assert_valid

NAMES = [name for name in registry.names() if any(path.parent.name == name for path in scenarios())]
EVENTS = [(name, event) for name in NAMES for event in registry.table(name)["events"]]


def paths(spec: Any) -> Iterator[tuple[str, ...]]:
    """Every path into the payload that stands somewhere in a table, and some that don't: words do no harm."""
    if isinstance(spec, str) and not spec.startswith(("=", "$")):
        steps = tuple(spec.split("."))
        if all(step.isidentifier() or step == "*" or step.isdecimal() or "-" in step for step in steps):
            yield steps
    elif isinstance(spec, Mapping):
        for key, inner in spec.items():
            yield from paths(key)
            yield from paths(inner)
    elif isinstance(spec, list):
        for inner in spec:
            yield from paths(inner)


def words(spec: Any) -> set[str]:
    """The words a table compares with: those that its conditions ask for, and its maps know."""
    if isinstance(spec, Mapping):
        found = {word for inner in spec.values() for word in words(inner)}
        for key in ("is", "map"):
            asked = spec.get(key, {})
            if isinstance(asked, Mapping):
                found |= {str(word) for word in asked} if key == "map" else set()
                found |= {
                    each for value in asked.values() for each in _listed(value) if isinstance(each, str)
                }
        return found
    if isinstance(spec, list):
        return {word for inner in spec for word in words(inner)}
    return set()


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def put(payload: Any, steps: tuple[str, ...], value: Any) -> Any:
    """``payload`` with ``value`` at a path, lists and objects made where there is nothing yet."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if step == "*" or step.isdecimal():
        items = payload if isinstance(payload, list) else []
        index = int(step) if step.isdecimal() else 0
        if index > 3:
            return payload
        items += [None] * (index + 1 - len(items))
        items[index] = put(items[index], rest, value)
        return items
    members = payload if isinstance(payload, dict) else {}
    members[step] = put(members.get(step), rest, value)
    return members


@cache
def recorded(name: str) -> dict[str, Hook]:
    """One hook of each event that the harness's scenarios have."""
    found: dict[str, Hook] = {}
    for scenario in scenarios():
        if scenario.parent.name == name:
            for hook in hooks(scenario):
                found.setdefault(hook.event, hook)
    return found


def body(hook: Hook) -> dict[str, Any]:
    data = hook.args[-1].encode() if hook.args else hook.stdin
    found: dict[str, Any] = json.loads(data.removeprefix(b"\xef\xbb\xbf"))
    return found


def sound(name: str, event: str) -> dict[str, Any]:
    """A payload that is claimed: the event's own from the scenarios, else what all of its others have."""
    told = recorded(name)
    if event in told:
        return body(told[event])
    others = [body(hook) for hook in told.values() if not hook.args]
    return {key: value for key, value in others[0].items() if all(key in other for other in others)}


def shapes(name: str, event: str) -> list[tuple[str, ...]]:
    table = registry.table(name)
    parts = [table.get(key) for key in ("session", "fields", "transcript", "claim", "at", "version")]
    found = set(paths([*parts, table["events"][event]]))
    # The number of a table of words is no place in a payload, which is an object.
    return sorted(steps for steps in found if steps[0] != "*" and not steps[0].isdecimal())


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 3.0, 2.5, 1e300, 10**30, 1_791_000_000_123, "2026-11-29T18:14:41Z"]),
    st.sampled_from(
        ["", " ", "\ud800", "a\udc00b", "\x1b[31m", "two words", "x" * 5000, "file:///a%20b", "C:\\x"]
    ),
    st.text(max_size=12),
    st.lists(st.none() | st.text(max_size=5) | st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)


@st.composite
def payloads(draw: st.DrawFn, name: str, event: str) -> dict[str, Any]:
    table = registry.table(name)
    known = sorted(words(table["events"][event])) or ["word"]
    payload = sound(name, event)
    for steps in draw(st.lists(st.sampled_from(shapes(name, event)), max_size=14)):
        payload = put(payload, steps, draw(st.sampled_from(known) | ODD))
    if draw(st.booleans()):
        # Most of what is put would else make the payload nobody's.
        asked = list(paths([table["session"]["id"], table.get("claim", {}).get("has", [])]))
        payload |= {steps[0]: there for steps in asked if (there := sound(name, event).get(steps[0]))}
    return payload


def mapped(name: str, event: str, data: bytes, **env: str) -> list[dict[str, Any]]:
    argument = registry.table(name)["events"][event].get("payload") == "argument"
    args = (data.decode("utf-8", "surrogateescape"),) if argument else ()
    base = recorded(name)[event].env if event in recorded(name) else {}
    at_ms = 1_795_976_081_342
    stdin = b"" if argument else data
    return map_hook(name, event, stdin, args=args, env={**base, **env}, cwd="/hook", at_ms=at_ms)


def check(drafts: list[dict[str, Any]]) -> None:
    """That each is an event we may send, once memory and intake have had their say."""
    for draft in fold({}, drafts)[1]:
        block = session_block(draft["session"], "/home/dev")
        event = seal(draft, block, 0, root=None, home="/home/dev")
        assert_valid(event)
        assert len(event["data"].get("error", "")) <= ERROR
        assert len(event["data"].get("message", "")) <= MESSAGE
        json.dumps(event, ensure_ascii=False).encode()


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=FEW, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_whatever_a_payload_holds_what_is_made_of_it_may_be_sent(name: str, data: st.DataObject) -> None:
    event = data.draw(st.sampled_from(sorted(registry.table(name)["events"])))
    payload = data.draw(payloads(name, event))
    try:
        drafts = mapped(name, event, json.dumps(payload).encode())
    except Refused:
        return
    check(drafts)


@pytest.mark.parametrize(("name", "event"), EVENTS)
def test_a_byte_order_mark_is_no_part_of_a_payload(name: str, event: str) -> None:
    data = json.dumps(sound(name, event)).encode()
    assert mapped(name, event, b"\xef\xbb\xbf" + data) == mapped(name, event, data)


@pytest.mark.parametrize("data", [b"null", b"[]", b'"x"', b"7", b"", b"{", b"\xff\xfe", b"[" * 5_000])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_object_is_refused_with_a_reason(name: str, data: bytes) -> None:
    for event in registry.table(name)["events"]:
        with pytest.raises(Refused) as refused:
            mapped(name, event, data)
        assert refused.value.reason
        assert refused.value.belongs_to is None


@pytest.mark.parametrize("name", NAMES)
def test_nesting_without_end_is_survived(name: str) -> None:
    deep = '{"a":' * 5_000 + "1" + "}" * 5_000
    for event in registry.table(name)["events"]:
        payload = json.dumps({**sound(name, event), "deep": "@"}).replace('"@"', deep)
        check(mapped(name, event, payload.encode()))


def emissions(name: str, wanted: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for event, said in registry.table(name)["events"].items():
        for emission in said["emit"]:
            if emission["type"] in wanted:
                yield event, emission


def _strings(spec: Any) -> list[str]:
    return [spec] if isinstance(spec, str) else [spec["from"]] if isinstance(spec, dict) else []


ENUMERATED = {"session.started": "source", "session.ended": "reason"}
#: What each says of a word it doesn't have.
OTHERWISE = {"session.started": "unknown", "session.ended": "other"}


@pytest.mark.parametrize("name", NAMES)
def test_a_word_nobody_knows_costs_no_event(name: str) -> None:
    """An enumeration that reads the payload ends with a word of ours."""
    for _, emission in emissions(name, set(ENUMERATED)):
        said = _listed(emission[ENUMERATED[emission["type"]]])
        assert isinstance(said[-1], str)
        assert said[-1].startswith("=")
        if any(isinstance(word, str) and not word.startswith("=") for word in said):
            assert said[-1] == f"={OTHERWISE[emission['type']]}"


@pytest.mark.parametrize("name", NAMES)
def test_leaving_at_the_prompt_is_an_exit(name: str) -> None:
    for event, emission in emissions(name, {"session.ended"}):
        if "reason" in [word for value in _listed(emission["reason"]) for word in _strings(value)]:
            ends = mapped(
                name, event, json.dumps({**sound(name, event), "reason": "prompt_input_exit"}).encode()
            )
            assert "exit" in [draft["data"].get("reason") for draft in ends]


@pytest.mark.parametrize("name", NAMES)
def test_lineage_is_read_and_the_malformed_is_not(name: str) -> None:
    for event in registry.table(name)["events"]:
        data = json.dumps(sound(name, event)).encode()
        for draft in mapped(name, event, data):
            itself = f"{name}:{draft['session']['id']}"
            for said, kept in (("codex:another", True), (itself, False), ("nobody", False)):
                (again, *_) = mapped(name, event, data, SESSIONPIPE_LAUNCHED_BY=said)
                assert ("launched_by" in again["session"]) is (kept and "parent_id" not in again["session"])


@pytest.mark.parametrize("name", NAMES)
def test_an_improper_tool_name_makes_no_tool_event(name: str) -> None:
    where = list(paths(registry.table(name).get("fields", {}).get("tool", [])))
    for event in registry.table(name)["events"]:
        payload = sound(name, event)
        for steps in where:
            payload = put(payload, steps, "two words")
        drafts = mapped(name, event, json.dumps(payload).encode())
        for draft in drafts:
            assert draft["data"].get("tool") != "two words"
