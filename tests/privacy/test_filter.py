"""The filter: an allowlist by type and tier, and nothing else ever leaves."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionpipe.privacy.filter import filter_event
from sessionpipe.protocol.vocabulary import ENVELOPE, HARNESS_FIELDS, SESSION_FIELDS, VOCABULARY
from tests.laws import MANY
from tests.privacy.recipes import generated
from tests.schema import assert_valid

TOKEN = "ghp_" + generated(36)
ULID = "01K6ABCXYZ0123456789ABCDEF"
TIME = "2026-09-28T01:03:11.204Z"

#: Every field of every type, filled.
FULL: dict[str, dict[str, Any]] = {
    "session.started": {"source": "startup"},
    "session.heartbeat": {},
    "session.ended": {"reason": "exit"},
    "session.backfill": {"started_at": TIME, "last_at": TIME, "turns": 3},
    "session.forgotten": {},
    "turn.started": {"turn_id": "t1", "submitted_by": "user", "injected": True, "prompt_chars": 12},
    "turn.ended": {"turn_id": "t1", "reason": "error", "ms": 5, "background": 0, "error": "rate limit"},
    "turn.transcript": {"turn": 1, "user": "hi", "assistant": "hello", "at": TIME},
    "turn.progress": {"turn": 1, "user": "hi", "assistant": "hel", "at": TIME},
    "tool.started": {
        "tool": "Bash",
        "call_id": "c",
        "turn_id": "t",
        "agent_id": "a",
        "input": {"command": "ls"},
    },
    "tool.ended": {
        "tool": "Bash",
        "ok": False,
        "call_id": "c",
        "turn_id": "t",
        "agent_id": "a",
        "ms": 1,
        "error": "no",
        "input": {"command": "ls"},
        "output": ["x", {"y": 1}],
    },
    "files.changed": {"paths": ["src/a.py", "~/b.py"]},
    "attention.needed": {
        "attention_id": "p1",
        "kind": "permission",
        "tool": "Bash",
        "message": "Bash: ls",
        "agent_id": "a",
    },
    "attention.cleared": {"attention_id": "p1", "how": "answered"},
    "subagent.started": {"agent_id": "a", "agent_type": "Explore"},
    "subagent.ended": {"agent_id": "a", "agent_type": "Explore", "background": 1},
    "context.compacted": {"trigger": "auto"},
    "limits.observed": {
        "windows": [{"id": "five_hour", "used_percent": 42, "resets_at": TIME, "window_minutes": 300}],
        "plan": "max",
        "account_id": "acc",
    },
    "delegation.started": {
        "ask_id": ULID,
        "via": "ask",
        "harness": "codex",
        "to": "codex:s2",
        "text": "review",
    },
    "delegation.ended": {
        "ask_id": ULID,
        "ok": False,
        "ms": 9,
        "to": "codex:s2",
        "error": "gone",
        "relayed": "failed",
        "reply": "no",
    },
}
SESSION: dict[str, Any] = {
    "id": "8c132906-8c3f-4814-870a-afc3d05e1d2e",
    "seq": 412,
    "machine": "janes-desk",
    "cwd": "~/src/app",
    "repo": "github.com/jane/app",
    "branch": "main",
    "model": "claude-opus-4-5",
    "title": "Fix it",
    "title_source": "harness",
    "url": "https://example.com/s/1",
    "account_id": "acc-1",
    "attended": True,
    "parent_id": None,
    "launched_by": "codex:s0",
    "delegated_by": "codex:s1",
}


def event(name: str, data: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "protocol": 1,
        "id": ULID,
        "type": name,
        "time": TIME,
        "tier": 3,
        "harness": {"name": "claude-code", "version": "2.1.290", "event": "PostToolUse"},
        "session": dict(SESSION),
        "privacy": {"rulesets": ["secrets@1"], "pii": False},
        "data": copy.deepcopy(FULL[name] if data is None else data),
        **changes,
    }


def data_of(name: str, data: dict[str, Any], tier: int = 3, pii: bool = False) -> dict[str, Any]:
    filtered = filter_event(event(name, data), tier, pii)
    assert filtered is not None
    kept: dict[str, Any] = filtered["data"]
    return kept


def test_the_filled_events_fill_every_field() -> None:
    assert {name: set(data) for name, data in FULL.items()} == {
        n: set(row.fields) for n, row in VOCABULARY.items()
    }


@pytest.mark.parametrize("tier", range(4))
@pytest.mark.parametrize("name", VOCABULARY)
def test_each_tier_carries_what_the_vocabulary_says_and_no_more(name: str, tier: int) -> None:
    filtered = filter_event(event(name), tier, False)
    row = VOCABULARY[name]
    if tier < row.tier:
        assert filtered is None
        return
    assert filtered is not None
    assert_valid(filtered)
    assert filtered["data"] == {f: v for f, v in FULL[name].items() if row.fields[f].tier <= tier}
    assert filtered["session"] == SESSION
    assert filtered["tier"] == tier


@pytest.mark.parametrize("name", ["native", "tool.pondered", "", "Tool.Ended", None, 7, ["tool.ended"], {}])
@pytest.mark.parametrize("tier", [0, 3])
def test_a_type_that_is_not_ours_leaves_at_no_tier(name: Any, tier: int) -> None:
    assert filter_event(event("tool.ended") | {"type": name}, tier, False) is None


def test_what_no_table_names_does_not_leave() -> None:
    full = event("limits.observed", extra=1)
    full["harness"]["path"] = full["session"]["transcript_path"] = full["data"]["prompt"] = "x"
    full["privacy"]["by"] = full["data"]["windows"][0]["label"] = "x"
    assert filter_event(full, 3, False) == filter_event(event("limits.observed"), 3, False)


def test_the_tier_is_never_raised() -> None:
    low = filter_event(event("tool.ended"), 1, False)
    assert low is not None
    again = filter_event(low, 3, False)
    assert again == low
    assert filter_event(event("tool.ended", tier=0), 3, False) is None


@pytest.mark.parametrize(
    ("name", "field", "wrong"),
    [
        ("tool.ended", "ok", "yes"),
        ("tool.ended", "ms", True),
        ("tool.ended", "ms", -1),
        ("tool.ended", "ms", 1.5),
        ("tool.ended", "tool", "rm -rf /"),
        ("tool.ended", "tool", "Bash\n"),
        ("tool.ended", "call_id", ""),
        ("tool.ended", "call_id", None),
        ("tool.ended", "error", {"text": "x"}),
        ("turn.started", "submitted_by", "please do this"),
        ("turn.started", "injected", "true"),
        ("turn.ended", "reason", "because"),
        ("files.changed", "paths", "a.py"),
        ("files.changed", "paths", []),
        ("delegation.started", "to", "nobody"),
        ("limits.observed", "windows", {"id": "x"}),
        ("limits.observed", "windows", []),
        ("session.backfill", "turns", "3"),
    ],
)
def test_a_value_that_is_not_what_its_field_holds_does_not_leave(name: str, field: str, wrong: Any) -> None:
    others = {f: v for f, v in FULL[name].items() if f != field}
    assert data_of(name, {**FULL[name], field: wrong}) == others


def test_a_list_keeps_its_sound_items() -> None:
    sound = {"id": "a", "used_percent": 1.5}
    windows = [
        sound,
        {"id": "b"},
        "c",
        {"id": "d", "used_percent": math.inf},
        {"id": "e", "used_percent": -1},
    ]
    assert data_of("limits.observed", {"windows": windows}) == {"windows": [sound]}
    assert data_of("files.changed", {"paths": ["a", 1, "", "b"]}) == {"paths": ["a", "b"]}


@pytest.mark.parametrize("block", ["session", "harness", "data", "privacy"])
@pytest.mark.parametrize("wrong", [None, "text", 7, ["a"], True])
def test_a_block_that_is_none_is_empty(block: str, wrong: Any) -> None:
    filtered = filter_event(event("tool.ended") | {block: wrong}, 3, False)
    assert filtered is not None
    assert block == "privacy" or filtered[block] == {}


def test_texts_stay_within_their_caps_and_progress_keeps_its_end() -> None:
    assert (
        data_of("attention.needed", {**FULL["attention.needed"], "message": "x" * 300})["message"]
        == "x" * 200
    )
    long = {"turn": 1, "user": "u" * 20_001 + "!", "assistant": "a" * 20_001 + "!", "at": TIME}
    assert data_of("turn.transcript", long)["assistant"] == "a" * 20_000
    assert data_of("turn.progress", long)["assistant"] == "a" * 19_999 + "!"
    assert data_of("turn.progress", long)["user"] == "u" * 20_000


def test_reduced_texts_stay_within_their_caps() -> None:
    message = "a@b.co " * 28 + "a@b."
    assert len(message) == 200
    assert (
        len(
            data_of("attention.needed", {**FULL["attention.needed"], "message": message}, pii=True)["message"]
        )
        == 200
    )


def test_what_ran_is_said() -> None:
    plain, reduced = (filter_event(event("session.ended"), 0, pii) for pii in (False, True))
    assert plain is not None
    assert reduced is not None
    assert plain["privacy"] == {"rulesets": ["secrets@1"], "pii": False}
    assert reduced["privacy"] == {"rulesets": ["secrets@1", "pii@1"], "pii": True}


@pytest.mark.parametrize("privacy", [{"rulesets": [], "pii": False}, {}, None, {"rulesets": "secrets@1"}])
def test_an_event_that_was_not_redacted_is(privacy: Any) -> None:
    raw = event("tool.ended", {**FULL["tool.ended"], "input": {"command": f"echo {TOKEN}"}}, privacy=privacy)
    raw["session"]["title"] = f"Use {TOKEN}"
    filtered = filter_event(raw, 3, False)
    assert filtered is not None
    assert_valid(filtered)
    assert filtered["data"]["input"] == {"command": "echo [redacted]"}
    assert filtered["session"]["title"] == "Use [redacted]"
    assert filtered["session"]["id"] == SESSION["id"]


def test_persons_are_reduced_in_every_string_and_key() -> None:
    data = {
        **FULL["tool.ended"],
        "error": "mail jane@example.com",
        "input": {"to": ["jane@example.com"], "jane@example.com": "/home/jane/x"},
        "output": "call +1 (555) 234-5678",
    }
    kept = data_of("tool.ended", data, pii=True)
    assert kept["error"] == "mail [email]"
    assert kept["input"] == {"to": ["[email]"], "[email]": "~/x"}
    assert kept["output"] == "call [phone]"


def test_persons_are_reduced_in_the_session() -> None:
    full = event("session.ended")
    full["session"] |= {
        "cwd": "/home/jane/src",
        "title": "for jane@example.com",
        "branch": "jane@example.com/fix",
    }
    filtered = filter_event(full, 0, True)
    assert filtered is not None
    assert_valid(filtered)
    session = filtered["session"]
    assert "account_id" not in session
    assert session["machine"] == "917717f4"  # printf %s janes-desk | sha256sum
    assert (session["cwd"], session["title"], session["branch"]) == ("~/src", "for [email]", "[email]/fix")
    assert session["id"] == SESSION["id"]


def test_the_account_of_limits_is_dropped_with_persons() -> None:
    assert "account_id" in data_of("limits.observed", FULL["limits.observed"])
    assert "account_id" not in data_of("limits.observed", FULL["limits.observed"], pii=True)


def test_one_s_own_home_is_shortened_wherever_it_is() -> None:
    full = event("files.changed", {"paths": ["/data/people/jane/x"]})
    filtered = filter_event(full, 1, True, home="/data/people/jane")
    assert filtered is not None
    assert filtered["data"] == {"paths": ["~/x"]}


def test_ids_are_never_reduced() -> None:
    full = event("session.ended")
    full["session"] |= {
        "id": "555-234-5678",
        "parent_id": "555-234-5678",
        "launched_by": "codex:555-234-5678",
    }
    filtered = filter_event(full, 0, True)
    assert filtered is not None
    assert {
        full["session"][name] == filtered["session"][name] for name in ("id", "parent_id", "launched_by")
    } == {True}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """Events with anything anywhere: some fields replaced, some added."""
    full = event(draw(st.sampled_from(list(FULL))))
    for block in (full, full["session"], full["harness"], full["data"], full["privacy"]):
        names = st.sampled_from([*block, "extra"]) if block else st.just("extra")
        for name in draw(st.lists(names, max_size=2)):
            if name != "type":
                block[name] = draw(json_values)
    return full


@given(events(), st.integers(0, 3), st.booleans())
@settings(max_examples=MANY)
def test_whatever_comes_in_only_named_fields_go_out(full: dict[str, Any], tier: int, pii: bool) -> None:
    filtered = filter_event(full, tier, pii)
    if filtered is None:
        return
    row = VOCABULARY[filtered["type"]]
    assert filtered.keys() <= ENVELOPE
    assert filtered["session"].keys() <= SESSION_FIELDS
    assert filtered["harness"].keys() <= HARNESS_FIELDS
    assert filtered["tier"] <= tier
    assert all(row.fields[name].tier <= filtered["tier"] for name in filtered["data"])


@given(events(), st.integers(0, 3), st.booleans())
@settings(max_examples=MANY)
def test_filtering_twice_is_filtering_once_and_the_event_stays(
    full: dict[str, Any], tier: int, pii: bool
) -> None:
    before = repr(full)
    once = filter_event(full, tier, pii)
    assert repr(full) == before
    if once is not None:
        assert repr(filter_event(once, tier, pii)) == repr(once)


@given(events(), st.integers(0, 3))
@settings(max_examples=MANY)
def test_a_lower_tier_is_a_part_of_a_higher_one(full: dict[str, Any], tier: int) -> None:
    low, high = filter_event(full, tier, False), filter_event(full, 3, False)
    if low is not None and high is not None:
        assert low["data"].keys() <= high["data"].keys()
        assert repr(low["session"]) == repr(high["session"])
