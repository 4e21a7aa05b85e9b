"""The vocabulary: which type and field belongs to which tier, and how long a field may be."""

from __future__ import annotations

from typing import Annotated

import pytest

from sessionpipe.protocol import vocabulary
from sessionpipe.protocol.vocabulary import VOCABULARY

# Protocol §4, column "tier", restated here by hand: a slip in the table must not go unseen.
TIERS = {
    0: {
        "session.started",
        "session.heartbeat",
        "session.ended",
        "session.backfill",
        "session.forgotten",
        "turn.started",
        "turn.ended",
        "attention.needed",
        "attention.cleared",
        "delegation.started",
        "delegation.ended",
    },
    1: {
        "tool.started",
        "tool.ended",
        "files.changed",
        "subagent.started",
        "subagent.ended",
        "context.compacted",
        "limits.observed",
    },
    2: {"turn.transcript", "turn.progress"},
}

#: Every field that needs a higher tier than its type.
RAISED = {
    ("turn.started", "prompt_chars"): 1,
    ("turn.ended", "error"): 1,
    ("attention.needed", "tool"): 1,
    ("attention.needed", "message"): 1,
    ("attention.needed", "agent_id"): 1,
    ("delegation.started", "text"): 1,
    ("delegation.ended", "reply"): 2,
    ("tool.started", "input"): 3,
    ("tool.ended", "input"): 3,
    ("tool.ended", "output"): 3,
}


def test_each_type_has_the_tier_the_protocol_gives_it() -> None:
    assert {name: row.tier for name, row in VOCABULARY.items()} == {
        name: tier for tier, names in TIERS.items() for name in names
    }


def test_each_field_has_its_type_s_tier_unless_the_protocol_raises_it() -> None:
    raised = {
        (name, field): rule.tier
        for name, row in VOCABULARY.items()
        for field, rule in row.fields.items()
        if rule.tier != row.tier
    }
    assert raised == RAISED


def test_native_is_never_ours_to_send() -> None:
    assert "native" not in VOCABULARY


def test_free_text_is_bounded() -> None:
    caps = {(n, f): rule.cap for n, row in VOCABULARY.items() for f, rule in row.fields.items() if rule.cap}
    assert caps == {
        ("turn.ended", "error"): 2_000,
        ("turn.transcript", "user"): 20_000,
        ("turn.transcript", "assistant"): 20_000,
        ("turn.progress", "user"): 20_000,
        ("turn.progress", "assistant"): 20_000,
        ("tool.ended", "error"): 2_000,
        ("attention.needed", "message"): 200,
        ("delegation.started", "text"): 200,
        ("delegation.ended", "error"): 200,
        ("delegation.ended", "reply"): 20_000,
    }


def test_what_a_tool_got_and_gave_is_bounded_in_bytes() -> None:
    blobs = {(n, f) for n, row in VOCABULARY.items() for f, rule in row.fields.items() if rule.blob}
    assert blobs == {("tool.started", "input"), ("tool.ended", "input"), ("tool.ended", "output")}


def test_a_field_that_forgot_its_tier_is_an_error_and_not_a_leak() -> None:
    class Forgetful(vocabulary.Data):
        named: Annotated[str, vocabulary.at(0)]
        forgotten: str

    Forgetful.__annotations__["named"] = Annotated[str, vocabulary.at(0)]
    Forgetful.__annotations__["forgotten"] = str
    with pytest.raises(TypeError, match="forgotten must say its tier"):
        vocabulary._fields(Forgetful)
