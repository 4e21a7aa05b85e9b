"""Deltas wait until what they add up to can be redacted, and not longer than they must."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.journal.blocks import LOOKAHEAD, Blocks
from sessionpipe.journal.normalize import Owner, Record
from sessionpipe.privacy.secrets import redact, redact_value
from sessionpipe.privacy.values import MARK
from tests.privacy.recipes import expand, generated

TOKEN = expand("ghp_<36>")


def event(kind: str, index: int = 0, message: str = "m1", **fields: Any) -> Record:
    payload = {"type": kind, "contentIndex": index, **fields}
    return Record(0.0, Owner("pi", "a1"), "assistant_event", payload, "t1", message)


def finished(message: str = "m1") -> Record:
    return Record(0.0, Owner("pi", "a1"), "message_finished", {}, "t1", message)


def deltas(kind: str, *texts: str, index: int = 0) -> list[Record]:
    return [event(f"{kind}_delta", index, delta=text) for text in texts]


def take(blocks: Blocks, *records: Record) -> None:
    for record in records:
        blocks.take(record)


def told(records: list[Record]) -> str:
    return "".join(record.payload["delta"] for record in records)


def ready(records: list[Record]) -> list[Record]:
    return [record for record in records if not record.waiting]


def in_pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def test_deltas_wait_for_the_end_of_their_block() -> None:
    blocks = Blocks()
    parts = deltas("text", "the token is ", TOKEN[:10], TOKEN[10:], " and that is all")
    take(blocks, event("text_start"), *parts)
    assert ready(parts) == []
    take(blocks, event("text_end", content=""))
    assert [part.payload["delta"] for part in ready(parts)] == ["the token is ", MARK, "", " and that is all"]


def test_blocks_of_one_message_are_apart() -> None:
    blocks = Blocks()
    thinking, text = deltas("thinking", TOKEN[:20], index=0), deltas("text", TOKEN[20:], index=1)
    take(blocks, *thinking, *text, event("thinking_end", 0))
    assert (ready(thinking), ready(text)) == (thinking, [])


def test_a_tool_call_s_deltas_say_what_its_redacted_arguments_are() -> None:
    arguments = {"command": f"curl -H 'authorization: bearer {TOKEN}'", "password": "correct horse", "n": 1}
    blocks = Blocks()
    parts = deltas("toolcall", *in_pieces(json.dumps(arguments), 3))
    take(blocks, *parts, event("toolcall_end"))
    assert json.loads(told(ready(parts))) == redact_value(arguments)
    assert TOKEN not in told(parts)


def test_a_message_that_ends_ends_its_blocks() -> None:
    blocks = Blocks()
    parts = deltas("text", "half of ", TOKEN)
    take(blocks, *parts, finished("m2"))
    assert ready(parts) == []
    take(blocks, finished())
    assert told(ready(parts)) == f"half of {MARK}"


def test_a_recording_that_ends_ends_all_blocks() -> None:
    blocks = Blocks()
    parts = deltas("text", TOKEN[:30])
    take(blocks, *parts)
    blocks.finish()
    assert told(ready(parts)) == redact(TOKEN[:30])


def test_a_long_block_is_let_go_of_up_to_a_line_with_enough_behind_it() -> None:
    blocks = Blocks()
    text = f"one {TOKEN} line\n" * 200
    parts = deltas("text", *in_pieces(text, 5))
    take(blocks, *parts)
    blocks.relieve()
    early = ready(parts)
    assert told(early) == redact(text)[: len(told(early))]
    assert len(text) - LOOKAHEAD - 200 < 5 * len(early) <= len(text) - LOOKAHEAD
    take(blocks, event("text_end"))
    assert told(ready(parts)) == redact(text)
    assert not blocks.late


def test_so_is_a_tool_call_whose_lines_are_escaped() -> None:
    blocks = Blocks()
    arguments = {"path": "x", "content": f"one {TOKEN} line\n" * 300}
    parts = deltas("toolcall", *in_pieces(json.dumps(arguments), 7))
    take(blocks, *parts)
    blocks.relieve()
    assert ready(parts)
    take(blocks, event("toolcall_end"))
    assert json.loads(told(parts)) == redact_value(arguments)


def test_a_private_key_that_has_not_ended_is_kept_whole() -> None:
    blocks = Blocks()
    lines = "".join(f"{generated(64)}\n" for _ in range(300))
    text = f"before\n-----BEGIN RSA PRIVATE KEY-----\n{lines}"
    parts = deltas("text", *in_pieces(text, 50))
    take(blocks, *parts)
    blocks.relieve()
    assert told(ready(parts)) in ("", "before\n")


def test_nothing_is_let_go_of_without_a_place_to_cut() -> None:
    blocks = Blocks()
    parts = deltas("text", *in_pieces(generated(3 * LOOKAHEAD), 50))
    take(blocks, *parts)
    blocks.relieve()
    assert ready(parts) == []


def test_a_secret_known_too_late_is_said_to_be() -> None:
    blocks = Blocks()
    parts = deltas("text", *in_pieces("so it goes\n" * (LOOKAHEAD // 5), 11))
    take(blocks, *parts)
    blocks.relieve()
    # As if what was written had been half of one.
    (block,) = blocks._open.values()
    block.written = "so it went" + block.written[10:]
    take(blocks, event("text_end"))
    assert blocks.late
    assert ready(parts) == parts


words = st.lists(
    st.sampled_from(["so ", "\n", TOKEN, f"password={TOKEN}\n", "x" * 900 + "\n", "é "]), max_size=40
)


@given(words, st.lists(st.integers(1, 40), min_size=1, max_size=5), st.booleans())
def test_however_often_it_is_relieved_the_whole_is_the_redacted_whole(
    pieces: list[str], sizes: list[int], as_json: bool
) -> None:
    text = json.dumps({"content": "".join(pieces)}) if as_json else "".join(pieces)
    kind, blocks = ("toolcall" if as_json else "text"), Blocks()
    parts: list[Record] = []
    at = 0
    while at < len(text):
        size = sizes[len(parts) % len(sizes)]
        part = event(f"{kind}_delta", delta=text[at : at + size])
        at += size
        blocks.take(part)
        parts.append(part)
        if len(parts) % 50 == 0:
            blocks.relieve()
    take(blocks, event(f"{kind}_end"))
    assert not blocks.late
    if as_json:
        assert json.loads(told(parts)) == redact_value({"content": "".join(pieces)})
    else:
        assert told(parts) == redact(text)
