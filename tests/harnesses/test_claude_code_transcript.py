"""Claude Code's transcripts: every exchange once, whole, in order, whenever the file is looked at."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.harnesses.claude_code_transcript import exchanges, is_ask
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import SIDE_CHARS, Exchange, Reading, Want, digest
from sessionpipe.protocol import rfc3339
from tests.harnesses.growing import Ending, Said, hold, hold_behind, said_in

NEVER = 2**52
NAME = "11111111-2222-4333-8444-555555555555.jsonl"


def whole(file: Path) -> Reading:
    """The file read at once, as when its session has ended."""
    return exchanges(file, {}, Want(None, True, None, NEVER), Files())


# --- a made-up session ------------------------------------------------------------------------------


@dataclass
class Script:
    """A transcript as Claude Code would write it, a record a line, a second between records."""

    now: int = 1_795_975_000_000
    lines: list[bytes] = field(default_factory=list)

    def put(self, **record: Any) -> Script:
        self.now += 1000
        stamped = {"uuid": f"u{len(self.lines)}", "timestamp": rfc3339(self.now), **record}
        self.lines.append(json.dumps(stamped).encode() + b"\n")
        return self

    def asks(self, text: object, **more: Any) -> Script:
        return self.put(type="user", message={"role": "user", "content": text}, **more)

    def says(self, text: str, *, message: str = "", stop: str | None = "end_turn") -> Script:
        return self.answers([{"type": "text", "text": text}], message=message, stop=stop)

    def answers(
        self, blocks: list[dict[str, Any]], *, message: str = "", stop: str | None = "end_turn"
    ) -> Script:
        content = {"role": "assistant", "id": message or f"m{len(self.lines)}", "model": "model-1"}
        return self.put(type="assistant", message=content | {"content": blocks, "stop_reason": stop})

    def uses(self, tool: str = "Bash") -> Script:
        self.answers([{"type": "tool_use", "id": "t", "name": tool, "input": {}}], stop="tool_use")
        return self.asks([{"type": "tool_result", "tool_use_id": "t", "content": "out"}])

    def interrupts(self, suffix: str = "") -> Script:
        return self.asks([{"type": "text", "text": f"[Request interrupted by user{suffix}]"}])

    def fails(self, text: str = "API Error: 500") -> Script:
        content = {"role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": text}]}
        return self.put(type="assistant", isApiErrorMessage=True, message=content)

    def hooks_run(self) -> Script:
        return self.put(type="system", subtype="stop_hook_summary")

    def is_over(self) -> Script:
        return self.put(type="system", subtype="turn_duration", durationMs=5)

    def absorbs(self, prompt: object, **more: Any) -> Script:
        return self.put(type="attachment", attachment={"type": "queued_command", "prompt": prompt, **more})

    def noise(self) -> Script:
        self.put(type="attachment", attachment={"type": "prompt_snapshot", "systemPrompt": ["x" * 500]})
        self.put(type="system", subtype="compact_boundary")
        self.asks("a summary of before", isCompactSummary=True, isVisibleInTranscriptOnly=True)
        self.asks("a caveat", isMeta=True)
        self.asks("somebody else's ask", isSidechain=True)
        self.lines += [b"\n", b"{broken\n", b"[1,2]\n", b'{"type":7,"message":"?","timestamp":[]}\n']
        return self

    def write(self, folder: Path, *, cut: int = 0) -> Path:
        file = folder / NAME
        text = b"".join(self.lines)
        file.write_bytes(text[: len(text) - cut])
        return file


@pytest.fixture
def script() -> Script:
    return Script()


def test_what_is_said_around_tools_is_one_exchange(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("first", stop="tool_use").uses().noise().says("last")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "first\n\nlast")]


def test_the_time_is_that_of_the_last_message(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("answer")
    spoken = rfc3339(script.now)
    assert whole(script.hooks_run().write(tmp_path)).exchanges[0].at == spoken
    alone = Script().asks("ask")
    assert whole(alone.write(tmp_path)).exchanges[0].at == rfc3339(alone.now)


def test_a_prompt_of_blocks_keeps_its_texts(script: Script, tmp_path: Path) -> None:
    script.asks(
        [
            {"type": "text", "text": "<ide_opened_file>a.py</ide_opened_file>"},
            {"type": "text", "text": "what is this"},
            {"type": "image", "source": {"data": "A" * 100}},
            {"type": "text", "text": "and that"},
        ]
    ).says("a picture")
    assert said_in(whole(script.write(tmp_path))) == [("what is this\nand that", "a picture")]


def test_a_picture_alone_is_a_prompt(script: Script, tmp_path: Path) -> None:
    script.asks([{"type": "image", "source": {}}]).says("a picture")
    assert said_in(whole(script.write(tmp_path))) == [("", "a picture")]


def test_what_the_harness_put_in_a_prompts_place_is_no_prompt(script: Script, tmp_path: Path) -> None:
    script.asks("ask").uses().asks("<system-reminder>remember</system-reminder>").says("answer")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "answer")]


@pytest.mark.parametrize(
    "record",
    [
        {"text": "<task-notification>\n<task-id>a</task-id>\n</task-notification>"},
        {"text": "a word from a peer", "origin": {"kind": "peer"}},
        {"text": "go on", "origin": {"kind": "auto-continuation"}},
        {"text": "check the build", "promptSource": "system", "turnOrigin": "scheduled"},
    ],
)
def test_a_turn_nobody_typed_has_no_user_side(script: Script, tmp_path: Path, record: dict[str, Any]) -> None:
    script.asks(record.pop("text"), **record).says("noticed").asks("ask").says("answer")
    assert said_in(whole(script.write(tmp_path))) == [("", "noticed"), ("ask", "answer")]


def test_a_notice_nobody_answered_is_no_exchange(script: Script, tmp_path: Path) -> None:
    script.asks("<task-notification>x</task-notification>").asks("ask").says("answer")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "answer")]


@pytest.mark.parametrize("origin", [None, {"kind": "human"}, {"kind": "unclassified"}, "odd", {}])
def test_a_prompt_is_the_persons_unless_something_says_otherwise(
    script: Script, tmp_path: Path, origin: object
) -> None:
    script.asks("ask", origin=origin).says("answer")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "answer")]


def test_a_command_the_harness_answers_itself_is_no_exchange(script: Script, tmp_path: Path) -> None:
    script.asks("<command-name>/model</command-name>\n<command-args>fast</command-args>")
    script.asks("<local-command-stdout>Set model</local-command-stdout>").asks("ask").says("answer")
    script.asks("<command-name>/clear</command-name>")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "answer")]


def test_a_command_the_assistant_answers_is_what_was_typed(script: Script, tmp_path: Path) -> None:
    script.asks(
        "<command-message>fix</command-message>\n<command-name>/fix</command-name>\n<command-args>a b</command-args>"
    )
    script.asks([{"type": "text", "text": "the command's whole body"}], isMeta=True).says("fixed")
    script.asks("<bash-input>ls</bash-input>").asks(
        "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>"
    ).says("one")
    assert said_in(whole(script.write(tmp_path))) == [("/fix a b", "fixed"), ("! ls", "one")]


def test_a_synthetic_answer_is_nobodys(script: Script, tmp_path: Path) -> None:
    script.asks("ask").put(
        type="assistant",
        message={"model": "<synthetic>", "content": [{"type": "text", "text": "No response requested."}]},
    )
    assert said_in(whole(script.write(tmp_path))) == [("ask", "")]


def test_sides_are_bounded(script: Script, tmp_path: Path) -> None:
    script.asks("a" * (SIDE_CHARS * 2)).says("b" * SIDE_CHARS).says("c" * SIDE_CHARS)
    (exchange,) = whole(script.write(tmp_path)).exchanges
    assert (len(exchange.user), len(exchange.assistant)) == (SIDE_CHARS, SIDE_CHARS)


# --- text typed while a turn runs -------------------------------------------------------------------


def test_words_absorbed_before_anything_was_said_join_the_ask(script: Script, tmp_path: Path) -> None:
    script.asks("ask").uses().absorbs("and also").says("both")
    assert said_in(whole(script.write(tmp_path))) == [("ask\n\nand also", "both")]


def test_words_absorbed_after_something_was_said_are_their_own_exchange(
    script: Script, tmp_path: Path
) -> None:
    script.asks("ask").says("working", stop="tool_use").uses().absorbs("and also").says("both")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "working"), ("and also", "both")]


def test_absorbed_pictures_are_dropped_and_their_words_kept(script: Script, tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image", "source": {}}]
    script.asks("ask").uses().absorbs(parts, commandMode="prompt", origin={"kind": "human"}).says("seen")
    assert said_in(whole(script.write(tmp_path))) == [("ask\n\nlook", "seen")]


@pytest.mark.parametrize(
    "more",
    [
        {"commandMode": "task-notification"},
        {"origin": {"kind": "peer"}},
        {"origin": {"kind": "task-notification"}},
    ],
)
def test_what_nobody_typed_breaks_no_exchange(script: Script, tmp_path: Path, more: dict[str, Any]) -> None:
    script.asks("ask").says("one", stop="tool_use").absorbs("notice", **more).says("two")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "one\n\ntwo")]


def test_where_only_the_queue_has_the_words_they_are_taken_from_it(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("one", stop="tool_use")
    script.put(type="queue-operation", operation="enqueue", content="and also")
    script.put(type="queue-operation", operation="remove", content="and also", reason="absorbed_mid_turn")
    script.put(type="attachment", attachment={"type": "queued_command"}).says("two")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "one"), ("and also", "two")]


# --- ends ---------------------------------------------------------------------------------------------


def at_stop(file: Path, script: Script, said: str | None, cursor: dict[str, Any] | None = None) -> Reading:
    return exchanges(file, cursor or {}, Want(digest(said or ""), False, None, script.now), Files())


def test_the_last_words_are_waited_for(script: Script, tmp_path: Path) -> None:
    script.asks("ask").uses()
    early = at_stop(script.write(tmp_path), script, "answer")
    assert early == Reading([], early.cursor, complete=False)
    script.says("answer")
    late = at_stop(script.write(tmp_path), script, "answer", early.cursor)
    assert (said_in(late), late.complete) == ([("ask", "answer")], True)
    again = at_stop(script.write(tmp_path), script, "answer", late.cursor)
    assert (said_in(again), again.complete) == ([], True)


def test_the_same_words_before_a_tool_are_not_the_last_ones(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("Done.", stop="tool_use")
    assert not at_stop(script.write(tmp_path), script, "Done.").complete
    script.uses()
    assert not at_stop(script.write(tmp_path), script, "Done.").complete
    script.says("Done.")
    assert said_in(at_stop(script.write(tmp_path), script, "Done.")) == [("ask", "Done.\n\nDone.")]


def test_words_with_a_tool_behind_them_are_not_the_last_ones(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("Done.", stop=None).uses()  # an older version, which says no reason
    assert not at_stop(script.write(tmp_path), script, "Done.").complete


def test_the_last_words_may_be_told_as_one_block_or_as_all_of_the_message(
    script: Script, tmp_path: Path
) -> None:
    script.asks("ask").says("part one\n", message="m").says("  part two", message="m")
    for said in ("part two", "part one\npart two", "part one\n\npart two\n"):
        assert at_stop(script.write(tmp_path), script, said).complete
    assert not at_stop(script.write(tmp_path), script, "part one").complete


def test_an_end_that_told_no_words_is_proved_by_the_hooks_summary(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("answer")
    stopped = script.now + 1
    want = Want(None, False, None, stopped)
    assert not exchanges(script.write(tmp_path), {}, want, Files()).complete
    reading = exchanges(script.hooks_run().write(tmp_path), {}, want, Files())
    assert (said_in(reading), reading.complete) == ([("ask", "answer")], True)


def test_another_programs_stop_hook_may_have_sent_the_assistant_on(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("one").hooks_run().asks("Stop hook feedback: no", isMeta=True)
    waiting = at_stop(script.write(tmp_path), script, "two")
    assert waiting == Reading([], waiting.cursor, complete=False)
    script.says("two")
    assert said_in(at_stop(script.write(tmp_path), script, "two", waiting.cursor)) == [("ask", "one\n\ntwo")]


def test_what_comes_behind_a_delivered_end_is_not_lost(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("one")
    first = at_stop(script.write(tmp_path), script, "one")
    script.hooks_run().says("two")
    second = at_stop(script.write(tmp_path), script, "two", first.cursor)
    assert said_in(first) + said_in(second) == [("ask", "one"), ("", "two")]


def test_a_turn_that_is_over_needs_no_end_told(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("answer").hooks_run().is_over()
    assert said_in(exchanges(script.write(tmp_path), {}, Want(None, False, None, 0), Files())) == [
        ("ask", "answer")
    ]


def test_an_end_read_late_is_found_although_the_next_turn_runs(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("Done.")
    stopped = script.now
    script.asks("two").says("Done.")
    reading = exchanges(script.write(tmp_path), {}, Want(digest("Done."), False, None, stopped), Files())
    assert (said_in(reading), reading.complete) == ([("one", "Done.")], True)


def test_words_a_turn_before_said_too_do_not_end_this_one(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("Done.").asks("two").uses()
    reading = at_stop(script.write(tmp_path), script, "Done.")
    assert (said_in(reading), reading.complete) == ([("one", "Done.")], False)


def test_an_interrupted_turn_comes_with_what_was_said(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("half an an", stop=None).interrupts()
    script.asks("two").uses().interrupts(" for tool use")
    reading = exchanges(script.write(tmp_path), {}, Want(None, False, None, 0), Files())
    assert said_in(reading) == [("one", "half an an"), ("two", "")]


def test_an_api_error_ends_a_turn_and_is_not_what_was_said(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("so far", stop="tool_use").uses().fails("API Error: 500")
    for said in (None, "API Error: 500"):
        reading = at_stop(script.write(tmp_path), script, said)
        assert (said_in(reading), reading.complete) == ([("ask", "so far")], True)


def test_an_api_error_that_was_survived_ends_nothing(script: Script, tmp_path: Path) -> None:
    script.asks("ask").fails().says("after all")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "after all")]


def test_the_later_of_two_ends_read_first_answers_the_earlier_too(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("answer")
    file = script.write(tmp_path)
    ended = exchanges(file, {}, Want(None, True, None, script.now + 50), Files())
    stopped = exchanges(file, ended.cursor, Want(digest("answer"), False, None, script.now + 10), Files())
    assert (said_in(ended), said_in(stopped), stopped.complete) == ([("ask", "answer")], [], True)


def test_an_unanswered_prompt_is_kept_for_the_next_read(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("answer").asks("two")
    first = exchanges(
        script.write(tmp_path), {}, Want(digest("answer"), False, None, script.now - 1), Files()
    )
    script.says("and this")
    second = at_stop(script.write(tmp_path), script, "and this", first.cursor)
    assert said_in(first) + said_in(second) == [("one", "answer"), ("two", "and this")]


# --- the file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [None, "", "relative.jsonl", "/nowhere/a.jsonl", "/etc/passwd", "/\0.jsonl", 7]
)
def test_a_transcript_that_is_not_there_holds_nothing(path: Any) -> None:
    for final in (False, True):
        reading = exchanges(path, {"at": 5}, Want(digest("said"), final, None, NEVER), Files())
        assert reading == Reading([], {"at": 5}, complete=final)


def test_a_half_written_line_waits(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("answer")
    early = at_stop(script.write(tmp_path, cut=7), script, "answer")
    assert early == Reading([], early.cursor, complete=False)
    assert said_in(at_stop(script.write(tmp_path), script, "answer", early.cursor)) == [("ask", "answer")]


def test_a_session_seen_from_its_middle_begins_at_the_prompt_being_answered(
    script: Script, tmp_path: Path
) -> None:
    script.asks("one").says("1").hooks_run().asks("two").says("working", stop="tool_use")
    seen = script.now
    script.uses().says("2").hooks_run().asks("three").says("3")
    file = script.write(tmp_path)
    assert said_in(exchanges(file, {}, Want(None, True, seen, NEVER), Files())) == [
        ("two", "working\n\n2"),
        ("three", "3"),
    ]


def test_a_turn_that_was_sent_on_after_its_stop_is_still_being_answered(
    script: Script, tmp_path: Path
) -> None:
    script.asks("one").says("1").hooks_run().says("2", stop="tool_use").uses()
    seen = script.now
    script.says("3")
    assert said_in(exchanges(script.write(tmp_path), {}, Want(None, True, seen, NEVER), Files())) == [
        ("one", "1\n\n2\n\n3")
    ]


def test_what_was_over_before_a_session_was_seen_is_not_ours(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("1").hooks_run().is_over()
    seen = script.now + 1
    script.asks("two").says("2")
    assert said_in(exchanges(script.write(tmp_path), {}, Want(None, True, seen, NEVER), Files())) == [
        ("two", "2")
    ]


def test_a_transcript_that_is_cut_short_gives_nothing_twice(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("1").asks("two").says("2")
    before = exchanges(script.write(tmp_path), {}, Want(None, True, None, script.now), Files())
    kept = Script(script.now, script.lines[:1])
    kept.says("1").asks("three").says("3")
    after = exchanges(kept.write(tmp_path), before.cursor, Want(None, True, None, kept.now), Files())
    assert said_in(before) + said_in(after) == [("one", "1"), ("two", "2"), ("three", "3")]


def test_a_transcript_that_is_written_anew_gives_nothing_twice(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("1").asks("two").says("2")
    before = exchanges(script.write(tmp_path), {}, Want(None, True, None, script.now), Files())
    script.asks("three").says("3")
    script.lines.insert(0, b'{"type":"mode"}\n')
    (tmp_path / NAME).unlink()
    after = exchanges(script.write(tmp_path), before.cursor, Want(None, True, None, script.now), Files())
    assert said_in(before) + said_in(after) == [("one", "1"), ("two", "2"), ("three", "3")]


@pytest.mark.parametrize(
    "cursor",
    [
        {"at": "x"},
        {"at": -1, "mark": "", "done_ms": 0},
        {"at": 2**70, "mark": "x", "done_ms": 0, "sent_ms": "y"},
        {"v": 2},
    ],
)
def test_a_cursor_that_is_none_of_ours_is_a_first_reading(
    script: Script, tmp_path: Path, cursor: dict[str, Any]
) -> None:
    file = script.asks("ask").says("answer").write(tmp_path)
    assert said_in(exchanges(file, cursor, Want(None, True, None, NEVER), Files())) == [("ask", "answer")]


@given(
    st.lists(
        st.binary(max_size=40) | st.sampled_from([b'{"type":"user"', b'"message":{"content":', b"}", b"null"])
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_raise(tmp_path: Path, pieces: list[bytes]) -> None:
    (tmp_path / NAME).write_bytes(b"\n".join(pieces))
    whole(tmp_path / NAME)


@pytest.mark.parametrize(
    "name", ["type", "subtype", "timestamp", "message", "attachment", "origin", "isMeta", "content"]
)
@pytest.mark.parametrize(
    "value", [None, 7, "text", [], [None, 1, "x"], {}, {"content": [{"text": 1}], "id": []}]
)
def test_a_field_of_another_kind_is_as_good_as_absent(
    script: Script, tmp_path: Path, name: str, value: object
) -> None:
    for kind in ("user", "assistant", "system", "attachment", "queue-operation"):
        script.put(**{"type": kind, "message": {"content": "text"}, name: value})
    script.asks("ask").says("answer")
    assert said_in(whole(script.write(tmp_path)))[-1] == ("ask", "answer")


def test_only_the_end_of_a_large_transcript_is_read(
    script: Script, tmp_path: Path, bytes_read: list[int]
) -> None:
    for number in range(400):
        script.asks(f"ask {number}").answers([{"type": "text", "text": "x" * 20_000}]).hooks_run()
    script.asks("now").uses()
    seen = script.now
    file = script.says("answer").write(tmp_path)
    first = exchanges(file, {}, Want(digest("answer"), False, seen, script.now), Files())
    assert said_in(first) == [("now", "answer")]
    assert sum(bytes_read) < file.stat().st_size / 10
    bytes_read.clear()
    script.asks("next").says("answer 2")
    assert said_in(at_stop(script.write(tmp_path), script, "answer 2", first.cursor)) == [
        ("next", "answer 2")
    ]
    assert sum(bytes_read) < 2_000


def test_a_very_long_history_comes_in_several_readings(script: Script, tmp_path: Path) -> None:
    for number in range(110):
        script.asks(f"ask {number}").says("x" * (SIDE_CHARS - 10)).is_over()
    file = script.write(tmp_path)
    found: list[Exchange] = []
    cursor: dict[str, Any] = {}
    readings = 0
    complete = False
    while not complete:
        reading = exchanges(file, cursor, Want(None, True, None, NEVER), Files())
        cursor, complete, readings = reading.cursor, reading.complete, readings + 1
        found += reading.exchanges
    assert [exchange.user for exchange in found] == [f"ask {number}" for number in range(110)]
    assert readings == 2


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Fix the login page", True),
        ("/etc/hosts is wrong", True),
        ("what does <b> mean", True),
        ("/compact", False),
        ("/plugin:fix the page", False),
        ("<task-notification>\nx", False),
        ("<local-command-stdout>x</local-command-stdout>", False),
        ("<bash-input>ls</bash-input>", False),
        ("[Request interrupted by user]", False),
    ],
)
def test_an_ask_is_the_persons_words(text: str, asked: bool) -> None:
    assert is_ask(text) == asked


# --- the law ------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["alpha", "beta", "Done.", "ok", "ü😀", "line\nline"])


@st.composite
def sessions(draw: st.DrawFn) -> tuple[Script, list[Said], list[Ending]]:
    """A session, what was said in it, and the ends its hooks told."""
    script, talk, ends = Script(), [], []
    in_terminal = draw(st.booleans())
    for _ in range(draw(st.integers(1, 5))):
        user = draw(WORDS)
        said: list[str] = []
        script.asks(user)
        for _ in range(draw(st.integers(0, 3))):
            match draw(st.sampled_from(["say", "tool", "noise", "absorb"])):
                case "say":
                    said.append(draw(WORDS))
                    script.says(said[-1], stop="tool_use").uses()
                case "tool":
                    script.uses()
                case "noise":
                    script.noise()
                case "absorb":
                    more = draw(WORDS)
                    script.absorbs(more)
                    if said:
                        talk.append((user, "\n\n".join(said)))
                        user, said = more, []
                    else:
                        user += "\n\n" + more
        match draw(st.sampled_from(["stop", "stop", "interrupt", "error"])):
            case "stop":
                last = draw(WORDS)
                said.append(last)
                script.says(last)
                ends.append(Ending(script.now, last, len(script.lines)))
                script.hooks_run()
                if in_terminal:
                    script.is_over()
            case "interrupt":
                script.interrupts()
            case "error":
                script.fails()
                ends.append(Ending(script.now, None, len(script.lines)))
        talk.append((user, "\n\n".join(said)))
    return script, talk, ends


@given(session=sessions(), data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whenever_it_is_read_every_exchange_comes_once_whole_and_in_order(
    tmp_path: Path, session: tuple[Script, list[Said], list[Ending]], data: st.DataObject
) -> None:
    script, talk, ends = session
    assert said_in(whole(script.write(tmp_path))) == talk
    hold(exchanges, tmp_path / NAME, script.lines, talk, ends, script.now, data)
    hold_behind(exchanges, tmp_path / NAME, script.lines, ends, script.now, data)
