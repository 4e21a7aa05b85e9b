"""A Pi session as a person reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.cli import pi_render
from sessionpipe.cli.common import printable
from sessionpipe.cli.pi_render import conversation, cost, tokens, totals, tree
from sessionpipe.harnesses.pi_session import Bytes, Session, Usage
from tests.cli.pi_files import PiFile


def read(pi: PiFile) -> Session:
    session = Session.read(Bytes(pi.text))
    assert session
    return session


def same(value: Any) -> Any:
    return value


def told(pi: PiFile, redact: Any = same, **how: Any) -> list[str]:
    """The lines of a session's branch, without the times, the empty ones left out."""
    session = read(pi)
    lines = conversation(session, session.path(), redact, **how)
    return [line.text.partition(" · 2")[0] for line in lines if line.text]


def drawn(pi: PiFile, redact: Any = same) -> list[str]:
    return [line.text for line in tree(read(pi), redact)]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0k"),
        (12_345, "12.3k"),
        (123_456, "123k"),
        (4_560_000, "4.6M"),
        (2_000_000_000, "2.0G"),
    ],
)
def test_tokens_are_short(count: int, text: str) -> None:
    assert tokens(count) == text


@pytest.mark.parametrize(
    ("dollars", "text"),
    [(0.0, ""), (0.00012, "$0.0001"), (0.05, "$0.05"), (0.1234, "$0.12"), (12.345, "$12.35")],
)
def test_dollars_are_short(dollars: float, text: str) -> None:
    assert cost(dollars) == text


def test_what_was_used_is_said_in_words() -> None:
    assert totals(Usage(1200, 30, 0, 7, 0.5)) == "1.2k tokens: 1.2k in, 30 out, 7 written to cache; $0.50"
    assert totals(Usage()) == "0 tokens"


# --- a conversation -----------------------------------------------------------------------------------


def test_a_run_is_one_paragraph_with_its_calls_on_a_line_each() -> None:
    pi = PiFile().asks("List\nthem").says("I will.", stopReason="toolUse")
    pi.calls("bash", {"command": "ls\n-l"}, durationMs=1500, isError=False).calls(
        "read", {"path": "x"}, isError=True, content="ENOENT: no\nsuch"
    )
    assert told(pi.says("Two files.")) == [
        "you",
        "  List",
        "  them",
        "maker/model-1",
        "  I will.",
        "  ↳ bash ls -l · ok 1.5 s",
        "  ↳ read x · failed: ENOENT: no such",
        "  Two files.",
    ]  # fmt: skip


def test_calls_in_parallel_are_matched_by_their_ids() -> None:
    blocks = [{"type": "toolCall", "id": name, "name": name, "arguments": {"a": name}} for name in "xyz"]
    pi = PiFile().says(blocks, stopReason="toolUse")
    pi.message("toolResult", "", toolCallId="y", toolName="y", isError=False)
    pi.message("toolResult", "", toolCallId="other", toolName="w", isError=False).asks("stop")
    assert told(pi)[1:5] == [
        '  ↳ y {"a":"y"} · ok',
        "  ↳ w · ok",
        '  ↳ x {"a":"x"} · no result',
        '  ↳ z {"a":"z"} · no result',
    ]


def test_how_an_answer_ended() -> None:
    pi = PiFile().says("half", stopReason="aborted").says("long", stopReason="length")
    pi.says([], stopReason="error", errorMessage="529\noverloaded").says([], stopReason="error")
    assert told(pi)[1:] == [
        "  half",
        "  (stopped)",
        "  long",
        "  (cut at the limit of its length)",
        "  failed: 529 overloaded",
        "  failed: no reason given",
    ]


def test_another_model_s_answer_is_headed_by_its_name() -> None:
    pi = PiFile().says("one").put("model_change", provider="maker", modelId="m2").says("two", model="m2")
    assert told(pi) == ["maker/model-1", "  one", "· model: maker/m2", "maker/m2", "  two"]


def test_thoughts_are_folded() -> None:
    pi = PiFile().says([{"type": "thinking", "thinking": "hm\nhm"}, {"type": "text", "text": "4"}])
    assert told(pi)[1:] == ["  (thought, 5 characters)", "  4"]
    assert told(pi, thinking=True)[1:] == ["  hm", "  hm", "  4"]


def test_pictures_are_named() -> None:
    pi = PiFile().asks(
        [{"type": "text", "text": "look"}, {"type": "image", "mimeType": "image/png", "data": "A" * 4096}]
    )
    assert told(pi) == ["you", "  look", "  (picture image/png, 3 KB)"]


def test_what_else_happened_is_a_note() -> None:
    pi = (
        PiFile()
        .asks("hi")
        .put("thinking_level_change", thinkingLevel="high")
        .put("session_info", name="page")
    )
    pi.put("session_info", name="").message("system", "").put(
        "context_edit", targetId="00000001", replacement=None
    )
    pi.put("context_edit", targetId="00000001", replacement={"content": ""}).put(
        "label", targetId="00000001", label="mark"
    )
    pi.put("custom", customType="x", data="y").put("usage", usage={}).put("tomorrow's").message("?", "")
    pi.put("custom_message", customType="notes", content="beside", display=True)
    pi.put("custom_message", customType="notes", content="unseen", display=False)
    pi.message("bashExecution", None, command="ls", exitCode=2, excludeFromContext=True)
    assert told(pi) == [
        "you",
        "  hi",
        "· bookmark: mark",
        "· thinking level: high",
        "· named: page",
        "· its name was taken away",
        "· rules and tools told to the model",
        "· 00000001 was taken out of the context",
        "· 00000001 was changed in the context",
        "· tomorrow's",
        "· a message of ?",
        "notes",
        "  beside",
        "· a message of notes, hidden",
        "you ran",
        "  ! ls · exit 2, kept from the model",
    ]


def test_summaries_stand_out() -> None:
    pi = (
        PiFile()
        .put("compaction", summary="so far", tokensBefore=8233)
        .put("branch_summary", summary="tried", fromId="x")
    )
    assert told(pi) == [
        "── the conversation so far was compacted (8.2k tokens) ──",
        "  so far",
        "── back from another branch ──",
        "  tried",
    ]


def test_paragraphs_are_one_empty_line_apart() -> None:
    session = read(PiFile().asks("a").says("b").asks("c"))
    lines = [line.text for line in conversation(session, session.path(), same)]
    assert [bool(line) for line in lines] == [True, True, False, True, True, False, True, True, False]


def test_what_is_shown_was_redacted_before_it_was_cut() -> None:
    token = "ghp_" + "aB3dE6" * 6

    def redact(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(token, "[redacted]")
        if isinstance(value, dict):
            return {name: redact(inner) for name, inner in value.items()}
        return [redact(inner) for inner in value] if isinstance(value, list) else value

    long = "x" * (pi_render.ONE_LINE - 20) + " " + token
    pi = PiFile().asks(f"use {token}").says(f"with {token}", stopReason="error", errorMessage=long)
    pi.calls("bash", {"command": long}, isError=True, content=long).put("session_info", name=token)
    pi.put("compaction", summary=token).put("label", targetId=pi.leaf, label=token)
    pi.message("bashExecution", None, command=long).put(
        "custom_message", customType="x", content=token, display=True
    )
    for lines in (told(pi, redact, thinking=True), drawn(pi, redact)):
        assert "ghp_" not in "\n".join(lines)


# --- a context ----------------------------------------------------------------------------------------


def test_a_context_is_shown_whole() -> None:
    messages: list[Any] = [
        {"role": "system", "content": "", "sections": {"rules": "be kind", "old": None},
         "toolsAdded": [{"name": "read"}]},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "toolCall", "name": "read", "arguments": {"path": "x"}},
        ]},
        {"role": "toolResult", "toolName": "read", "isError": True, "content": [
            {"type": "text", "text": "a\nb"}, {"type": "image", "data": "AAAA"},
        ]},
        {"role": "bashExecution", "command": "ls", "output": "a\n"},
        {"role": "compactionSummary", "summary": "so far"},
        "nonsense",
    ]  # fmt: skip
    assert [line.text for line in pi_render.context(messages) if line.text] == [
        "system",
        "  [rules] be kind",
        "  [old] (taken back)",
        "  tools: read",
        "user",
        "  hi",
        "assistant",
        "  (thinking) hm",
        '  → read {"path":"x"}',
        "toolResult read failed",
        "  a",
        "  b",
        "  (picture, 0 KB)",
        "bashExecution",
        "  $ ls",
        "  a",
        "compactionSummary",
        "  so far",
    ]


# --- the tree -----------------------------------------------------------------------------------------


def test_a_conversation_without_branches_is_a_trunk() -> None:
    pi = (
        PiFile()
        .put("model_change", provider="p", modelId="m")
        .asks("one")
        .calls("ls", {}, isError=False)
        .says("1")
        .asks("two")
        .says("2")
    )
    assert drawn(pi) == [
        "┆ 1 other",
        "● 00000002 you: one  (2 answers, 1 call)",
        "● 00000006 you: two",
        "● 00000007 model: 2 ← here",
    ]


def test_branches_stand_beside_the_trunk_where_they_left_it() -> None:
    pi = PiFile().asks("one").says("1")
    fork = pi.leaf
    pi.asks("two").says("2")
    inner = pi.leaf
    pi.asks("three").says("3").put("label", targetId=pi.leaf, label="good")
    pi.goes_back(inner).asks("four").says("4").goes_back(fork).put(
        "branch_summary", summary="tried", fromId="x"
    ).asks("five")
    assert drawn(pi) == [
        "● 00000001 you: one  (1 answer)",
        "├─○ 00000003 you: two  (1 answer)",
        "│ ├─○ 00000005 you: three",
        "│ │ ○ 00000006 model: 3 [good]",
        "│ │ ○ 00000007 label",
        "│ ○ 00000008 you: four",
        "│ ○ 00000009 model: 4",
        "● 0000000a summary of another branch: tried",
        "● 0000000b you: five ← here",
    ]


def test_the_active_branch_is_the_trunk_although_a_newer_one_is_there() -> None:
    pi = PiFile().asks("one")
    pi.goes_back(None).asks("another")
    pi.goes_back("00000001").says("1")
    assert drawn(pi) == [
        "├─○ 00000002 you: another",
        "● 00000001 you: one",
        "● 00000003 model: 1 ← here",
    ]


def test_a_long_chain_shows_its_ends() -> None:
    pi = PiFile()
    for number in range(30):
        pi.asks(f"ask {number}").says(f"answer {number}")
        if number == 15:
            pi.put("label", targetId=f"{2 * number + 1:08x}", label="mark")
    lines = drawn(pi)
    assert len(lines) == 12
    assert lines[3:7] == [
        "● 00000007 you: ask 3",
        "┆ 11 asks, 12 answers",
        "● 0000001f you: ask 15 [mark]",
        "┆ 10 asks, 11 answers, 1 other",
    ]


def test_what_else_may_be_marked_has_a_name() -> None:
    ends: list[tuple[str, Callable[[PiFile], PiFile]]] = [
        ("thinking level: high", lambda pi: pi.put("thinking_level_change", thinkingLevel="high")),
        ("model: p/m", lambda pi: pi.put("model_change", provider="p", modelId="m")),
        ("named: page", lambda pi: pi.put("session_info", name="page")),
        ("compacted: so far", lambda pi: pi.put("compaction", summary="so far")),
        ("you ran: ls", lambda pi: pi.message("bashExecution", None, command="ls")),
        ("notes: beside", lambda pi: pi.put("custom_message", customType="notes", content="beside")),
        ("call: bash", lambda pi: pi.message("toolResult", "out", toolName="bash", isError=False)),
        ("model: bash ls", lambda pi: pi.calls("bash", {"command": "ls"})),
        ("model: 529", lambda pi: pi.says([], stopReason="error", errorMessage="529")),
        ("model: (nothing)", lambda pi: pi.says([], stopReason="aborted")),
        ("you: (a picture)", lambda pi: pi.asks([{"type": "image"}])),
    ]
    for said, end in ends:
        assert drawn(end(PiFile())) == [f"● 00000001 {said} ← here"]


def test_branches_within_branches_are_drawn_to_a_depth() -> None:
    pi = PiFile().asks("root")
    for number in range(40):
        at = pi.leaf
        pi.asks(f"left {number}").goes_back(at).asks(f"right {number}")
        # The newest is the trunk: going on in the older one is what nests.
        pi.goes_back(f"{len(pi.lines) - 2:08x}")
    pi.goes_back("00000001").asks("end")
    lines = drawn(pi)
    assert max(map(len, lines)) < 100
    assert any("entries in branches of this branch" in line for line in lines)


def test_a_very_long_and_a_very_broad_tree_are_no_matter() -> None:
    deep = PiFile()
    for number in range(20_000):
        deep.asks(f"{number}")
    assert len(drawn(deep)) == 10
    broad = PiFile().asks("root")
    for number in range(5_000):
        broad.goes_back("00000001").asks(f"{number}")
    assert len(drawn(broad)) == 5_001


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        *("role", "content", "type", "text", "id", "name", "arguments"),
        *("stopReason", "errorMessage", "toolCallId", "toolName", "isError"),
    ]
)
MESSAGES = st.dictionaries(
    NAMES, JSON | st.lists(st.dictionaries(NAMES, JSON, max_size=4), max_size=3), max_size=6
)
ROLES = st.sampled_from(["user", "assistant", "toolResult", "bashExecution", "custom", "system"])
KINDS = st.sampled_from(
    ["compaction", "branch_summary", "custom_message", "session_info", "context_edit", "label", "x"]
)


@given(st.lists(st.tuples(st.booleans(), ROLES, KINDS, MESSAGES), max_size=8))
def test_no_entry_is_too_strange_and_every_line_is_safe(odd: list[Any]) -> None:
    pi = PiFile()
    for is_message, role, kind, more in odd:
        if is_message:
            pi.put("message", message={**more, "role": role})
        else:
            pi.put(kind, **{name: value for name, value in more.items() if name not in ("type", "id")})
    session = read(pi)
    lines = [*conversation(session, session.path(), same, thinking=True), *tree(session, same)]
    lines += pi_render.context(session.build_session_context().messages)
    assert all(line.text == printable(line.text) for line in lines)
