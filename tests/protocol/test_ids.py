"""Names, times and hashes, as every implementation of the protocol computes them."""

from __future__ import annotations

import json
import math
import os
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from sessionpipe.protocol import ids


@pytest.mark.parametrize(
    ("harness", "session", "short"),
    [
        ("claude-code", "8c132906-8c3f-4814-870a-afc3d05e1d2e", "58ab6602"),
        ("codex", "01a10860-a43f-7ce2-b12f-a7911ae8a880", "ae08c6ab"),
    ],
)
def test_short_id_is_the_protocol_s(harness: str, session: str, short: str) -> None:
    assert ids.short_id(harness, session) == short


@given(st.text(), st.text())
def test_short_id_takes_any_text(harness: str, session: str) -> None:
    assert len(ids.short_id(harness, session)) == 8


@pytest.mark.parametrize("good", ["a", "8c132906-8c3f-4814", "ses_1.2:3", "x" * 128])
def test_a_session_id(good: str) -> None:
    assert ids.is_session_id(good)


@pytest.mark.parametrize("bad", ["", "x" * 129, "a b", "a/b", "a\n", "é", None, 7, ["a"], b"a"])
def test_not_a_session_id(bad: object) -> None:
    assert not ids.is_session_id(bad)


@pytest.mark.parametrize("good", ["Bash", "mcp__github__create_issue", "a.b:c-d", "x" * 120])
def test_a_tool_name(good: str) -> None:
    assert ids.is_tool_name(good)


@pytest.mark.parametrize("bad", ["", "x" * 121, "a tool", "Bash\n", None, {}])
def test_not_a_tool_name(bad: object) -> None:
    assert not ids.is_tool_name(bad)


def test_lineage_names_a_harness_and_a_session() -> None:
    assert ids.is_lineage("claude-code:8c132906-8c3f")
    assert not any(map(ids.is_lineage, ["8c132906", ":8c", "Claude:8c", "codex:", "codex:a b", None]))


def test_harness_names() -> None:
    assert ids.is_harness_name("claude-code")
    assert not any(map(ids.is_harness_name, ["", "Claude", "a_b", "a" * 65, None]))


def test_ids_are_ulids_of_now_and_differ() -> None:
    before = time.time_ns() // 1_000_000
    made = {ids.new_id() for _ in range(100)}
    after = time.time_ns() // 1_000_000
    assert len(made) == 100
    # What another implementation reads in it, and writes again.
    read = [ULID.from_str(one) for one in made]
    assert all(before <= one.milliseconds <= after for one in read)
    assert {str(one) for one in read} == made


@pytest.mark.parametrize("ns", [0, 1, 1_790_000_000_007_123_456, ((1 << 48) - 1) * 1_000_000 + 999_999])
@pytest.mark.parametrize("chance", [bytes(8), b"\x01\x23\x45\x67\x89\xab\xcd\xef", b"\xff" * 8])
def test_an_id_is_written_as_ulids_are(ns: int, chance: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: ns)
    monkeypatch.setattr(os, "urandom", lambda _: chance)
    ms, rest = divmod(ns, 1_000_000)
    number = ms << 80 | rest << 60 | int.from_bytes(chance) >> 4
    assert ids.new_id() == str(ULID.from_bytes(number.to_bytes(16)))


def test_ids_stand_in_the_order_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1_790_000_000_000_999_990, 1_790_000_000_001_000_010))
    monkeypatch.setattr(time, "time_ns", lambda: next(ticks))
    made = [ids.new_id() for _ in range(20)]
    assert made == sorted(made)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_790_000_000_007, "2026-09-21T14:13:20.007Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (10**30, "1970-01-01T00:00:00.000Z"),
    ],
)
def test_times_are_utc_with_milliseconds(ms: int, text: str) -> None:
    assert ids.rfc3339(ms) == text


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_time_that_can_be_said_is_said_as_python_says_it(moment: datetime) -> None:
    ms = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert ids.rfc3339(ms) == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (None, "null"),
        (True, "true"),
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e21, "1e+21"),
        (123456789012345680000, "123456789012345680000"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (-1.25e30, "-1.25e+30"),
        (2**53 + 1, "9007199254740992"),
        (math.nan, "null"),
        (math.inf, "null"),
        (10**400, "null"),
        ('é\n"\\\x01\ud800', '"é\\n\\"\\\\\\u0001\\ud800"'),
        ({"b": [1, {}], "a": []}, '{"b":[1,{}],"a":[]}'),
        ((1, 2), "[1,2]"),
        # An object's array indices come first and ascending, whatever order they were written in.
        ({"b": 0, "2": 1, "10": 2, "1": {"a": 0, "0": 0}}, '{"1":{"0":0,"a":0},"2":1,"10":2,"b":0}'),
        ({"-1": 0, "01": 1, "1.5": 2, "٣": 3, "0": 4}, '{"0":4,"-1":0,"01":1,"1.5":2,"٣":3}'),
        ({"4294967295": 0, "4294967294": 1}, '{"4294967294":1,"4294967295":0}'),
    ],
)
def test_json_is_printed_as_javascript_prints_it(value: object, printed: str) -> None:
    assert ids.javascript_json(value) == printed


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**1000), 2**1000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_printed_json_reads_back_as_what_was_meant(value: object) -> None:
    printed = json.loads(ids.javascript_json(value), parse_int=float)
    assert printed == json.loads(json.dumps(value), parse_int=float)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_number_is_the_same_number(number: float) -> None:
    assert float(ids.javascript_json(number)) == number


def test_depth_is_no_limit() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert ids.javascript_json(deep).startswith("[[[")


def test_attention_id_is_a_hash_of_the_request() -> None:
    one = ids.attention_id("turn-1", "Bash", {"command": "ls"})
    # perm- and the first 16 hex digits of: printf '%s' 'turn-1|Bash|{"command":"ls"}' | sha256sum
    assert one == "perm-7f8ed461c4b3ea55"
    assert one != ids.attention_id("turn-1", "Bash", {"command": "rm"})
    assert ids.attention_id(None, None, None).startswith("perm-")
    assert ids.attention_id("a\ud800", None, None) == ids.attention_id("a\ufffd", None, None)
