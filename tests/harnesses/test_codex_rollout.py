"""Codex's rollouts: every exchange once, whole, in order, whichever version wrote it and whose copy is in it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.harnesses.codex_rollout import exchanges, find, is_visible
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import Reading, Want, digest
from sessionpipe.protocol import rfc3339
from tests.harnesses.growing import Ending, Said, hold, hold_behind, said_in
from tests.harnesses.packing import compress

NEVER = 2**52
ID = "01a22870-962b-7d32-ab36-110ef2c62105"
PARENT = "01a22870-0000-7d32-ab36-110ef2c62105"
NAME = f"rollout-2026-11-29T17-53-16-{ID}.jsonl"


def whole(file: Path) -> Reading:
    """The file read at once, as when its session has ended."""
    return exchanges(file, {}, Want(None, True, None, NEVER), Files())


# --- a made-up rollout ------------------------------------------------------------------------------


@dataclass
class Script:
    """A rollout as Codex would write it, a second between lines. ``numbered``: as this version does."""

    now: int = 1_795_975_000_000
    lines: list[bytes] = field(default_factory=list)
    thread: str = ID
    numbered: bool = True

    def put(self, kind: str, /, **payload: Any) -> Script:
        self.now += 1000
        line: dict[str, Any] = {"timestamp": rfc3339(self.now), "type": kind, "payload": payload}
        if self.numbered:
            line["ordinal"] = len(self.lines)
        self.lines.append(json.dumps(line).encode() + b"\n")
        return self

    def begins(self, **more: Any) -> Script:
        return self.put("session_meta", id=ID, session_id=ID, cli_version="0.171.0", **more)

    def event(self, name: str, /, **more: Any) -> Script:
        return self.put("event_msg", type=name, **more)

    def completes(self, kind: str, **item: Any) -> Script:
        return self.event("item_completed", thread_id=self.thread, item={"type": kind, **item})

    def starts(self) -> Script:
        return self.event("task_started", turn_id=f"t{len(self.lines)}")

    def asks(self, text: str) -> Script:
        self.messages("user", text)
        return self.completes("UserMessage", content=[{"type": "text", "text": text}])

    def says(self, *texts: str) -> Script:
        self.completes("AgentMessage", id="m", content=[{"type": "Text", "text": text} for text in texts])
        return self.messages("assistant", *texts)

    def messages(self, role: str, *texts: str) -> Script:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": text} for text in texts]
        return self.put("response_item", type="message", role=role, content=content)

    def calls(self) -> Script:
        self.put("response_item", type="function_call", name="exec_command", call_id="c")
        self.completes("CommandExecution", id="c", status="completed")
        return self.put("response_item", type="function_call_output", call_id="c", output="Output:\nx")

    def is_over(self, **more: Any) -> Script:
        return self.event("task_complete", turn_id="t", **more)

    def is_aborted(self) -> Script:
        return self.event("turn_aborted", turn_id="t", reason="interrupted")

    def turn(self, ask: str, answer: str) -> Script:
        return self.starts().asks(ask).says(answer).is_over()

    def noise(self) -> Script:
        self.messages("developer", "<permissions instructions>x</permissions instructions>")
        self.messages("user", "<environment_context>x</environment_context>")
        self.event("token_count", info=None).put("world_state", full=True).put("turn_context", model="m")
        self.completes("Reasoning", summary_text=["thinking"])
        self.lines += [b"\n", b"{broken\n", b"[1,2]\n", b'{"type":7,"payload":"?","timestamp":[]}\n']
        return self

    def write(self, folder: Path, *, cut: int = 0) -> Path:
        file = folder / NAME
        text = b"".join(self.lines)
        file.write_bytes(text[: len(text) - cut])
        return file


@pytest.fixture
def script() -> Script:
    return Script().begins()


class TestTurns:
    def test_what_is_said_around_calls_is_one_exchange(self, script: Script, tmp_path: Path) -> None:
        script.starts().noise().asks("ask").says("first").calls().noise().says("last").is_over()
        assert said_in(whole(script.write(tmp_path))) == [("ask", "first\n\nlast")]

    def test_what_is_typed_into_a_turn_belongs_to_the_ask_until_something_was_said(
        self, script: Script, tmp_path: Path
    ) -> None:
        script.starts().asks("one").asks("two").says("answer").asks("three").says("more").is_over()
        assert said_in(whole(script.write(tmp_path))) == [("one\n\ntwo", "answer"), ("three", "more")]

    def test_an_interrupted_turn_comes_with_what_was_said(self, script: Script, tmp_path: Path) -> None:
        script.starts().asks("ask").says("so far").is_aborted()
        script.messages("user", "<turn_aborted>\nThe user interrupted\n</turn_aborted>").turn("next", "yes")
        assert said_in(whole(script.write(tmp_path))) == [("ask", "so far"), ("next", "yes")]

    def test_an_errors_words_are_nobodys(self, script: Script, tmp_path: Path) -> None:
        script.starts().asks("ask").is_over(error={"message": "No more", "codex_error_info": "x"})
        assert said_in(whole(script.write(tmp_path))) == [("ask", "")]

    def test_a_turn_that_was_killed_is_over_when_the_next_one_begins(
        self, script: Script, tmp_path: Path
    ) -> None:
        script.starts().asks("killed").turn("next", "answer")
        assert said_in(whole(script.write(tmp_path))) == [("killed", ""), ("next", "answer")]

    def test_a_compaction_says_nothing(self, script: Script, tmp_path: Path) -> None:
        script.starts().asks("ask").messages("assistant", "SUMMARY").put("compacted", message="SUMMARY")
        script.completes("ContextCompaction").says("answer").is_over()
        script.starts().messages("assistant", "SUMMARY").put("compacted", message="SUMMARY").is_over()
        assert said_in(whole(script.write(tmp_path))) == [("ask", "answer")]

    def test_a_turn_nobody_typed_has_no_users_side(self, script: Script, tmp_path: Path) -> None:
        script.starts().asks("<subagent_notification>done</subagent_notification>").says("noticed").is_over()
        assert said_in(whole(script.write(tmp_path))) == [("", "noticed")]

    def test_a_sentence_about_an_instruction_file_is_the_persons(
        self, script: Script, tmp_path: Path
    ) -> None:
        script.starts().asks("# AGENTS.md instructions for /src\n<INSTRUCTIONS>x</INSTRUCTIONS>")
        script.asks("Read the # AGENTS.md instructions and <INSTRUCTIONS>").says("yes").is_over()
        assert said_in(whole(script.write(tmp_path))) == [
            ("Read the # AGENTS.md instructions and <INSTRUCTIONS>", "yes")
        ]


class TestEarlierVersions:
    @pytest.fixture
    def script(self) -> Script:
        return Script(numbered=False).begins()

    def test_messages_alone(self, script: Script, tmp_path: Path) -> None:
        script.noise().messages("user", "ask").messages("assistant", "answer").messages("user", "next")
        assert said_in(whole(script.write(tmp_path))) == [("ask", "answer"), ("next", "")]

    def test_events_beside_the_messages(self, script: Script, tmp_path: Path) -> None:
        script.starts().messages("user", "ask").event("user_message", message="ask", kind="plain")
        script.messages("assistant", "answer").event("agent_message", message="answer").is_over()
        script.event("user_message", message="<x>y</x>", kind="environment_context")
        assert said_in(whole(script.write(tmp_path))) == [("ask", "answer")]

    def test_items_without_numbers(self, script: Script, tmp_path: Path) -> None:
        script.turn("ask", "answer")
        assert said_in(whole(script.write(tmp_path))) == [("ask", "answer")]

    def test_a_later_version_goes_on_with_the_file(self, script: Script, tmp_path: Path) -> None:
        script.messages("user", "old").messages("assistant", "answer")
        script.numbered = True
        script.turn("new", "answer too")
        assert said_in(whole(script.write(tmp_path))) == [("old", "answer"), ("new", "answer too")]


class TestForks:
    @pytest.fixture
    def fork(self) -> Script:
        """A fork whose file begins with a copy of its parent's."""
        script = Script(thread=PARENT).begins(forked_from_id=PARENT)
        script.put("session_meta", id=PARENT, cli_version="0.1.0").turn("the parent's", "answer")
        script.thread = ID
        return script

    @pytest.mark.parametrize("field", ["thread_id", "conversation_id"])
    def test_the_copy_is_skipped_until_an_event_names_the_thread(
        self, fork: Script, tmp_path: Path, field: str
    ) -> None:
        fork.event("thread_settings_applied", **{field: ID}).turn("my own", "mine")
        assert said_in(whole(fork.write(tmp_path))) == [("my own", "mine")]

    def test_reading_waits_until_the_copy_has_ended(self, fork: Script, tmp_path: Path) -> None:
        file = fork.write(tmp_path)
        reading = exchanges(file, {}, Want(None, False, None, fork.now), Files())
        assert reading == Reading([], {}, complete=False)
        fork.turn("my own", "mine").write(tmp_path)
        reading = exchanges(file, reading.cursor, Want(digest("mine"), False, None, fork.now), Files())
        assert (said_in(reading), reading.complete) == ([("my own", "mine")], True)

    def test_a_file_whose_beginning_is_not_written_yet_is_no_conversation(
        self, fork: Script, tmp_path: Path
    ) -> None:
        file = tmp_path / NAME
        file.write_bytes(fork.lines[0][:40])
        reading = exchanges(file, {}, Want(None, False, None, fork.now), Files())
        assert reading == Reading([], {}, complete=False)
        fork.turn("my own", "mine").write(tmp_path)
        assert said_in(exchanges(file, reading.cursor, Want(None, True, None, NEVER), Files())) == [
            ("my own", "mine")
        ]

    def test_a_session_seen_from_its_middle_does_not_reach_into_the_copy(
        self, fork: Script, tmp_path: Path
    ) -> None:
        since = fork.now + 500
        fork.event("thread_settings_applied", thread_id=ID).starts().asks("my own").says("mine")
        reading = exchanges(fork.write(tmp_path), {}, Want(digest("mine"), False, since, fork.now), Files())
        assert said_in(reading) == [("my own", "mine")]

    def test_times_stay_as_they_were(self, fork: Script, tmp_path: Path) -> None:
        fork.event("thread_settings_applied", thread_id=ID).starts().asks("my own").says("mine")
        spoken = rfc3339(fork.now - 1000)  # The item; the message beside it came a second later.
        assert whole(fork.write(tmp_path)).exchanges[0].at == spoken

    def test_what_another_thread_says_in_the_file_does_not_count(
        self, script: Script, tmp_path: Path
    ) -> None:
        script.turn("ask", "answer")
        script.thread = PARENT
        script.completes("UserMessage", content=[{"type": "text", "text": "another's"}])
        assert said_in(whole(script.write(tmp_path))) == [("ask", "answer")]


@pytest.mark.parametrize(
    "mangle",
    [
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.replace(b"\n", b"\n\n"),
    ],
    ids=["byte order mark", "CRLF", "empty lines"],
)
def test_a_rollout_that_looks_a_little_different_is_read(script: Script, tmp_path: Path, mangle: Any) -> None:
    file = script.turn("ask", "answer").write(tmp_path)
    file.write_bytes(mangle(file.read_bytes()))
    assert said_in(whole(file)) == [("ask", "answer")]


# --- the end that is awaited --------------------------------------------------------------------------


class TestTheEnd:
    def test_the_last_words_are_waited_for(self, script: Script, tmp_path: Path) -> None:
        file = script.starts().asks("ask").says("first").calls().write(tmp_path)
        want = Want(digest("last"), False, None, script.now + 5000)
        reading = exchanges(file, {}, want, Files())
        assert (said_in(reading), reading.complete) == ([], False)
        script.says("last").write(tmp_path)
        reading = exchanges(file, reading.cursor, want, Files())
        assert (said_in(reading), reading.complete) == ([("ask", "first\n\nlast")], True)

    def test_an_interruption_is_told_just_before_its_hook_runs_or_just_behind(
        self, script: Script, tmp_path: Path
    ) -> None:
        file = script.starts().asks("ask").is_aborted().write(tmp_path)
        for hook_ms in (script.now + 50, script.now - 50):
            reading = exchanges(file, {}, Want(None, False, None, hook_ms), Files())
            assert (said_in(reading), reading.complete) == ([("ask", "")], True)

    def test_a_turn_that_said_nothing_is_over_when_it_is_complete(
        self, script: Script, tmp_path: Path
    ) -> None:
        file = script.starts().asks("ask").write(tmp_path)
        stop_ms = script.now + 100
        reading = exchanges(file, {}, Want(None, False, None, stop_ms), Files())
        assert not reading.complete
        script.is_over().write(tmp_path)
        assert exchanges(file, reading.cursor, Want(None, False, None, stop_ms), Files()).complete

    def test_what_was_over_before_a_session_was_seen_is_not_ours(
        self, script: Script, tmp_path: Path
    ) -> None:
        script.turn("old", "answer")
        since = script.now + 500
        script.turn("new", "answer too")
        reading = exchanges(script.write(tmp_path), {}, Want(None, True, since, NEVER), Files())
        assert said_in(reading) == [("new", "answer too")]

    def test_of_a_session_first_seen_by_an_end_that_turn_is_told(
        self, script: Script, tmp_path: Path
    ) -> None:
        script.turn("old", "answer")
        script.now += 60_000
        script.turn("new", "answer too")
        notified = script.now + 30
        want = Want(digest("answer too"), False, notified, notified)
        assert said_in(exchanges(script.write(tmp_path), {}, want, Files())) == [("new", "answer too")]

    def test_a_session_seen_in_the_middle_of_a_turn_begins_at_its_prompt(
        self, script: Script, tmp_path: Path
    ) -> None:
        script.turn("old", "answer").starts().asks("new").says("first")
        since = script.now + 500
        script.calls().says("last").is_over()
        reading = exchanges(script.write(tmp_path), {}, Want(None, True, since, NEVER), Files())
        assert said_in(reading) == [("new", "first\n\nlast")]

    def test_only_the_end_of_a_large_rollout_is_read(
        self, script: Script, tmp_path: Path, bytes_read: list[int]
    ) -> None:
        padding = json.dumps({"type": "world_state", "payload": {"x": "y" * 100_000}}).encode() + b"\n"
        script.lines += [padding] * 200
        script.turn("old", "answer")
        since = script.now + 500
        file = script.turn("new", "answer").write(tmp_path)
        bytes_read.clear()
        reading = exchanges(file, {}, Want(digest("answer"), False, since, script.now), Files())
        assert said_in(reading) == [("new", "answer")]
        assert sum(bytes_read) < 3 << 20
        bytes_read.clear()
        exchanges(file, reading.cursor, Want(digest("answer"), False, since, script.now), Files())
        assert sum(bytes_read) < 1 << 20


# --- compressed ---------------------------------------------------------------------------------------


class TestCompressed:
    def test_a_rollout_that_was_compressed_meanwhile_is_gone_on_with(
        self, script: Script, tmp_path: Path
    ) -> None:
        file = script.turn("one", "answer").write(tmp_path)
        first = exchanges(file, {}, Want(None, False, None, script.now), Files())
        text = b"".join(script.turn("two", "answer").lines)
        file.unlink()
        (tmp_path / f"{NAME}.zst").write_bytes(compress(text))
        rest = exchanges(file, first.cursor, Want(None, True, None, NEVER), Files())
        assert said_in(first) + said_in(rest) == [("one", "answer"), ("two", "answer")]

    def test_a_session_seen_from_its_middle(self, script: Script, tmp_path: Path) -> None:
        script.turn("old", "answer").starts().asks("new").says("first")
        since = script.now + 500
        script.calls().says("last")
        packed = tmp_path / f"{NAME}.zst"
        packed.write_bytes(compress(b"".join(script.lines)))
        reading = exchanges(packed, {}, Want(None, True, since, NEVER), Files())
        assert said_in(reading) == [("new", "first\n\nlast")]

    def test_of_one_that_is_cut_off_the_rest_is_read(self, script: Script, tmp_path: Path) -> None:
        for nth in range(50):
            # Nothing that could be compressed much, so that there are several blocks of it.
            noise = b"".join(hashlib.sha256(b"%d %d" % (nth, i)).digest() for i in range(300)).hex()
            script.turn(f"ask {nth}", noise)
        packed = compress(b"".join(script.lines))
        (tmp_path / f"{NAME}.zst").write_bytes(packed[: len(packed) * 3 // 4])
        found = said_in(whole(tmp_path / NAME))
        assert 0 < len(found) < 50
        assert [ask for ask, _ in found] == [f"ask {nth}" for nth in range(len(found))]

    def test_one_that_is_none_holds_nothing(self, tmp_path: Path) -> None:
        (tmp_path / f"{NAME}.zst").write_bytes(b"not compressed at all")
        assert said_in(whole(tmp_path / NAME)) == []


# --- whose file it is ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("meta", "visible"),
    [
        ({"id": ID, "session_id": ID, "source": "cli", "thread_source": "user"}, True),
        ({"id": ID, "source": "exec"}, True),
        ({"id": ID, "session_id": PARENT, "thread_source": "subagent"}, False),
        ({"id": ID, "session_id": PARENT, "thread_source": "user"}, False),
        ({"id": ID, "session_id": ID, "thread_source": "guardian_review"}, False),
        ({"id": ID, "session_id": ID, "parent_thread_id": PARENT}, False),
        ({"id": ID, "session_id": ID, "source": {"subagent": "review"}}, False),
    ],
)
def test_a_person_sees_the_root_threads_they_began(meta: dict[str, Any], visible: bool) -> None:
    assert is_visible(meta) == visible


@pytest.mark.parametrize(
    "path",
    [None, 7, "", "relative/" + NAME, "/x/notes.jsonl", "/x/rollout-1.jsonl\0", "/x/rollout-../a.jsonl"],
)
def test_no_other_file_is_a_rollout(path: object) -> None:
    assert find(path, Files()) is None


@pytest.mark.parametrize("suffix", ["", ".zst"])
def test_a_rollout_that_is_not_there_holds_nothing(tmp_path: Path, suffix: str) -> None:
    want = Want(None, False, None, NEVER)
    assert exchanges(tmp_path / (NAME + suffix), {}, want, Files()) == Reading([], {}, complete=False)


# --- laws ---------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.binary(max_size=200) | st.just(b"\n") | st.just(b'{"type":"event_msg"}\n')))
def test_no_bytes_raise(tmp_path: Path, pieces: list[bytes]) -> None:
    (tmp_path / NAME).write_bytes(b"".join(pieces))
    whole(tmp_path / NAME)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.sampled_from([None, 7, 1.5, True, "x", [], [[]], {}, {"type": "text"}]), data=st.data())
def test_a_field_of_another_kind_is_as_good_as_absent(
    tmp_path: Path, value: Any, data: st.DataObject
) -> None:
    script = Script().begins().turn("ask", "answer")
    record = json.loads(data.draw(st.sampled_from(script.lines)))
    place = data.draw(st.sampled_from([record, record["payload"], record["payload"].get("item") or record]))
    place[data.draw(st.sampled_from(sorted(place)))] = value
    (tmp_path / NAME).write_bytes(json.dumps(record).encode() + b"\n" + b"".join(script.lines))
    whole(tmp_path / NAME)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Script, list[Said], list[Ending]]:
    """A session: its lines, what was said in it, the ends its hooks told."""
    script, talk, ends = Script().begins(), list[Said](), list[Ending]()
    for nth in range(draw(st.integers(1, 4))):
        said: list[str] = []
        script.starts().noise().asks(f"ask {nth}")
        for piece in range(draw(st.integers(0, 3))):
            said.append(f"answer {nth} {piece}")
            script.says(said[-1])
            if draw(st.booleans()):
                script.calls().noise()
        if draw(st.booleans()):
            said.append(f"last words {nth}")
            script.says(said[-1])
            ends.append(Ending(script.now + 10, said[-1], len(script.lines)))
            script.is_over(last_agent_message=said[-1])
        else:
            script.is_aborted()
            ends.append(Ending(script.now + 10, None, len(script.lines)))
        talk.append((f"ask {nth}", "\n\n".join(said)))
    return script, talk, ends


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(session=conversations(), data=st.data())
def test_whenever_it_is_read_every_exchange_comes_once_whole_and_in_order(
    tmp_path: Path, session: tuple[Script, list[Said], list[Ending]], data: st.DataObject
) -> None:
    script, talk, ends = session
    hold(exchanges, tmp_path / NAME, script.lines, talk, ends, NEVER, data)
    hold_behind(exchanges, tmp_path / NAME, script.lines, ends, NEVER, data)
