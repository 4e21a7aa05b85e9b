"""Gemini CLI's chats: every exchange once, whole, in order, however often its history is written anew."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.gemini_cli_chat import exchanges, find, is_ask
from sessionpipe.harnesses.transcripts import Reading, Want, digest
from sessionpipe.protocol import rfc3339
from tests.harnesses.growing import Ending, Said, hold, hold_behind, said_in

NEVER = 2**52
ID = "eed896d3-792c-4ee6-a314-5a833a6ccd37"
NAME = "session-2026-11-29T18-19-eed896d3.jsonl"


def whole(file: Path) -> Reading:
    """The file read at once, as when its session has ended."""
    return exchanges(file, {}, Want(None, True, None, NEVER), Files())


# --- a made-up chat ---------------------------------------------------------------------------------


@dataclass
class Script:
    """A chat as Gemini CLI would write it, a second between messages."""

    now: int = 1_795_975_000_120
    lines: list[bytes] = field(default_factory=list)
    said: list[tuple[str, str]] = field(default_factory=list)

    def put(self, **record: Any) -> Script:
        self.lines.append(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        return self

    def starts(self) -> Script:
        self.now += 1000
        at = rfc3339(self.now)
        self.put(sessionId=ID, projectHash="x", startTime=at, lastUpdated=at, kind="main")
        return self.sets(messages=[self.context()])

    def sets(self, **change: Any) -> Script:
        return self.put(**{"$set": change})

    def context(self) -> dict[str, Any]:
        text = "<session_context>\nThis is the Gemini CLI.\n</session_context>"
        return {"id": "c", "timestamp": rfc3339(self.now), "type": "user", "content": [{"text": text}]}

    def message(self, kind: str, content: object, **more: Any) -> Script:
        self.now += 1000
        name = more.pop("id", f"m{len(self.lines)}")
        self.put(id=name, timestamp=rfc3339(self.now), type=kind, content=content, **more)
        return self.sets(lastUpdated=rfc3339(self.now))

    def asks(self, text: str, **more: Any) -> Script:
        self.said.append(("user", text))
        return self.message("user", [{"text": text}], **more)

    def says(self, text: str) -> Script:
        self.said.append(("gemini", text))
        return self.message("gemini", text, thoughts=[], model="gemini-2.5-pro")

    def calls(self, text: str = "") -> Script:
        """A message, again with its call, and what came of it."""
        name = f"m{len(self.lines)}"
        self.message("gemini", text, id=name, model="gemini-2.5-pro")
        call = {"id": "x", "name": "run_shell_command", "status": "success"}
        at = rfc3339(self.now)
        self.put(id=name, timestamp=at, type="gemini", content=text, model="gemini-2.5-pro", toolCalls=[call])
        return self.message("user", [{"functionResponse": {"id": "x", "response": {"output": "out"}}}])

    def is_cancelled(self) -> Script:
        return self.message("info", "Request cancelled.")

    def writes_history_anew(self) -> Script:
        """All that was said, under other ids, within a moment."""
        self.now += 1
        anew = [self.context()]
        for nth, (kind, text) in enumerate(self.said):
            at = rfc3339(self.now + nth % 2)
            anew.append(
                {"id": f"h{len(self.lines)}{nth}", "timestamp": at, "type": kind, "content": [{"text": text}]}
            )
        for message in anew:
            self.put(**message)
        return self.sets(messages=anew)

    def noise(self) -> Script:
        self.message("info", "").sets(memoryScratchpad={"x": 1}).put(**{"$rewindTo": "nowhere"})
        self.lines += [b"\n", b"{broken\n", b"[1,2]\n", b'{"type":7,"id":{},"content":3,"timestamp":[]}\n']
        return self

    def write(self, folder: Path, *, cut: int = 0) -> Path:
        file = folder / NAME
        text = b"".join(self.lines)
        file.write_bytes(text[: len(text) - cut])
        return file


@pytest.fixture
def script() -> Script:
    return Script().starts()


def test_what_is_said_around_calls_is_one_exchange(script: Script, tmp_path: Path) -> None:
    script.asks("ask").calls("first").noise().calls().says("last")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "first\n\nlast")]


def test_the_sessions_context_is_nobodys_ask(script: Script, tmp_path: Path) -> None:
    assert said_in(whole(script.write(tmp_path))) == []


def test_what_was_typed_is_told_where_something_else_was_sent(script: Script, tmp_path: Path) -> None:
    script.asks("the file's whole content", displayContent=[{"text": "@file explain"}]).says("answer")
    assert said_in(whole(script.write(tmp_path))) == [("@file explain", "answer")]


def test_what_a_hook_of_the_persons_adds_is_not_the_persons(script: Script, tmp_path: Path) -> None:
    script.message("user", [{"text": "ask"}, {"text": "<hook_context>more</hook_context>"}]).says("answer")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "answer")]


@pytest.mark.parametrize(
    "text",
    ["Please continue.", "System: Potential loop detected. Details: x", "[System: You returned nothing.]"],
)
def test_what_the_model_is_told_in_the_middle_of_a_turn_is_no_ask(
    script: Script, tmp_path: Path, text: str
) -> None:
    script.asks("ask").calls("first").asks(text).says("last")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "first\n\nlast")]


def test_what_the_person_types_into_a_running_turn_is_theirs(script: Script, tmp_path: Path) -> None:
    def steering(kind: str, words: str) -> str:
        return f"User {kind}:\n<user_input>\n{words}\n</user_input>\nInternal instruction: Re-evaluate."

    script.asks("ask").asks(steering("steering update", "and that")).says("answer")
    script.message("user", [{"functionResponse": {"id": "x"}}, {"text": steering("hints", "no, this")}])
    script.says("done")
    assert said_in(whole(script.write(tmp_path))) == [("ask\n\nand that", "answer"), ("no, this", "done")]


def test_words_beside_what_a_call_gave_are_no_ask(script: Script, tmp_path: Path) -> None:
    script.asks("ask").message("user", [{"functionResponse": {"id": "x"}}, {"text": "of a file"}]).says("yes")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "yes")]


@pytest.mark.parametrize(
    "text",
    ["Background execution update:\nx", "I ran the following shell command:\n```sh\nls\n```"],
)
def test_a_turn_nobody_typed_has_no_users_side(script: Script, tmp_path: Path, text: str) -> None:
    script.asks(text).says("noticed").asks(text).asks("ask").says("answer")
    assert said_in(whole(script.write(tmp_path))) == [("", "noticed"), ("ask", "answer")]


def test_thoughts_are_not_said(script: Script, tmp_path: Path) -> None:
    script.asks("ask").message("gemini", [{"text": "hm", "thought": True}, {"text": "answer"}])
    assert said_in(whole(script.write(tmp_path))) == [("ask", "answer")]


def test_an_interrupted_turn_comes_without_what_was_said(script: Script, tmp_path: Path) -> None:
    script.asks("ask").is_cancelled().asks("next").says("answer")
    assert said_in(whole(script.write(tmp_path))) == [("ask", ""), ("next", "answer")]


def test_a_history_that_is_written_anew_was_not_said_again(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("answer").asks("two").is_cancelled()
    script.writes_history_anew().asks("three").says("answer too")
    assert said_in(whole(script.write(tmp_path))) == [("one", "answer"), ("two", ""), ("three", "answer too")]


def test_a_history_without_its_end_ends_when_time_goes_on(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("answer").writes_history_anew().lines.pop()
    script.asks("two").says("answer too")
    assert said_in(whole(script.write(tmp_path))) == [("one", "answer"), ("two", "answer too")]


def test_reading_goes_on_before_a_history_that_is_being_written(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("answer").writes_history_anew()
    text = b"".join(script.lines)
    file, cursor, found = tmp_path / NAME, dict[str, Any](), list[Said]()
    for cut in (len(script.lines[-1]) + 3, len(script.lines[-1]), 0):
        file.write_bytes(text[: len(text) - cut])
        reading = exchanges(file, cursor, Want(None, False, None, NEVER), Files())
        cursor, found = reading.cursor, found + said_in(reading)
    script.asks("two").says("answer too").write(tmp_path)
    reading = exchanges(file, cursor, Want(None, True, None, NEVER), Files())
    assert found + said_in(reading) == [("one", "answer"), ("two", "answer too")]


def test_a_run_that_was_killed_is_over_when_the_next_one_begins(script: Script, tmp_path: Path) -> None:
    script.asks("killed").starts().asks("next").says("answer")
    assert said_in(whole(script.write(tmp_path))) == [("killed", ""), ("next", "answer")]


def test_the_hook_may_tell_all_that_was_said_at_once(script: Script, tmp_path: Path) -> None:
    file = script.asks("ask").calls("Let me look. ").says("Done.").write(tmp_path)
    want = Want(digest("Let me look. \nDone."), False, None, script.now + 10)
    assert exchanges(file, {}, want, Files()).complete


def test_a_message_written_again_behind_its_delivery_says_nothing_new(script: Script, tmp_path: Path) -> None:
    file = script.asks("ask").says("answer").write(tmp_path)
    want = Want(digest("answer"), False, None, script.now + 10)
    first = exchanges(file, {}, want, Files())
    script.lines.append(script.lines[-2])
    script.write(tmp_path)
    rest = exchanges(file, first.cursor, Want(None, True, None, NEVER), Files())
    assert (said_in(first), said_in(rest)) == ([("ask", "answer")], [])


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        (True, [("new", "answer too")]),
        (False, [("old", "first\n\nlast"), ("new", "answer too")]),
    ],
)
def test_a_session_seen_from_its_middle_begins_at_the_prompt_being_answered(
    script: Script, tmp_path: Path, finish: bool, expected: list[Said]
) -> None:
    script.asks("older").says("answer").asks("old").calls("first")
    script = script.says("last") if finish else script
    since = script.now + 500
    script = script if finish else script.says("last")
    script.asks("new").says("answer too")
    reading = exchanges(script.write(tmp_path), {}, Want(None, True, since, NEVER), Files())
    assert said_in(reading) == expected


def test_a_resumed_session_begins_behind_its_past(script: Script, tmp_path: Path) -> None:
    script.asks("old").calls("first")  # Killed in the middle.
    script.starts()
    since = script.now - 10
    script.asks("new").says("answer")
    reading = exchanges(script.write(tmp_path), {}, Want(None, True, since, NEVER), Files())
    assert said_in(reading)[-1] == ("new", "answer")


def test_of_a_large_chat_that_is_resumed_only_the_end_is_read(
    script: Script, tmp_path: Path, bytes_read: list[int]
) -> None:
    for _ in range(40):
        script.asks("old").message("info", "x" * (256 << 10)).says("answer")
    script.starts()
    since = script.now + 10
    file = script.asks("new").says("answer too").write(tmp_path)
    reading = exchanges(file, {}, Want(digest("answer too"), False, since, script.now + 10), Files())
    assert said_in(reading) == [("new", "answer too")]
    assert sum(bytes_read) < 3 << 20


@pytest.mark.parametrize(
    "mangle",
    [
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.replace(b"\n", b"\n\n"),
    ],
    ids=["byte order mark", "CRLF", "empty lines"],
)
def test_a_chat_that_looks_a_little_different_is_read(script: Script, tmp_path: Path, mangle: Any) -> None:
    file = script.asks("ask").says("answer").write(tmp_path)
    file.write_bytes(mangle(file.read_bytes()))
    assert said_in(whole(file)) == [("ask", "answer")]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("fix it", True),
        ("what is <session_context>?", True),
        ("/compress", False),
        ("?", False),
        ("", False),
        (" <hook_context>x", False),
        ("<session_context>x", False),
    ],
)
def test_an_ask_is_the_persons_words(text: str, is_one: bool) -> None:
    assert is_ask(text) == is_one


@pytest.mark.parametrize(
    "path", [None, 7, "", NAME, "/x/logs.json", "/x/chats/x/agent.jsonl", "/x/session-\0.jsonl"]
)
def test_no_other_file_is_a_chat(path: object) -> None:
    assert find(path, Files()) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.binary(max_size=200) | st.sampled_from([b"\n", b'{"$set":7}\n', b'{"type":"user"}\n']))
)
def test_no_bytes_raise(tmp_path: Path, pieces: list[bytes]) -> None:
    (tmp_path / NAME).write_bytes(b"".join(pieces))
    whole(tmp_path / NAME)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.sampled_from([None, 7, 1.5, True, "x", [], [[]], {}, {"text": 3}]), data=st.data())
def test_a_field_of_another_kind_is_as_good_as_absent(
    tmp_path: Path, value: Any, data: st.DataObject
) -> None:
    script = Script().starts().asks("ask").calls("first").is_cancelled().says("answer")
    record = json.loads(data.draw(st.sampled_from(script.lines)))
    place = data.draw(st.sampled_from([record, record.get("$set") or record]))
    place[data.draw(st.sampled_from(sorted(place)))] = value
    (tmp_path / NAME).write_bytes(json.dumps(record).encode() + b"\n" + b"".join(script.lines))
    whole(tmp_path / NAME)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Script, list[Said], list[Ending]]:
    """A session: its lines, what was said in it, the ends its hooks told."""
    script, talk, ends = Script().starts(), list[Said](), list[Ending]()
    for nth in range(draw(st.integers(1, 5))):
        said: list[str] = []
        script.asks(f"ask {nth}")
        for piece in range(draw(st.integers(0, 3))):
            said.append(draw(st.sampled_from(["", f"answer {nth} {piece}"])))
            script.calls(said[-1]).noise()
        if draw(st.booleans()):
            said.append(f"last words {nth}")
            script.says(said[-1])
            ends.append(Ending(script.now + 10, " ".join(said), len(script.lines)))
        else:
            script.is_cancelled()
            ends.append(Ending(script.now + 10, None, len(script.lines)))
            if draw(st.booleans()):
                script.writes_history_anew()
        if draw(st.booleans()):
            script.starts()
        talk.append((f"ask {nth}", "\n\n".join(filter(None, said))))
    return script, talk, ends


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(session=conversations(), data=st.data())
def test_whenever_it_is_read_every_exchange_comes_once_whole_and_in_order(
    tmp_path: Path, session: tuple[Script, list[Said], list[Ending]], data: st.DataObject
) -> None:
    script, talk, ends = session
    hold(exchanges, tmp_path / NAME, script.lines, talk, ends, NEVER, data)
    hold_behind(exchanges, tmp_path / NAME, script.lines, ends, NEVER, data)
