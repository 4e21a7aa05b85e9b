"""Pi's session files as transcripts: every exchange once, whole, in order, whenever the file is looked at."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.pi_exchanges import Conversation
from sessionpipe.harnesses.pi_transcript import exchanges
from sessionpipe.harnesses.transcripts import SIDE_CHARS, Exchange, Reading, Want, digest
from sessionpipe.protocol import rfc3339
from tests.harnesses.growing import Ending, Said, hold, hold_behind, said_in

NEVER = 2**52
NAME = "2026-11-29T17-52-21-453Z_01a2286f-bdcc-769a-97df-6455faa08385.jsonl"


def whole(file: Path, since_ms: int | None = None) -> Reading:
    """The file read at once, as when its session has ended."""
    return exchanges(file, {}, Want(None, True, since_ms, NEVER), Files())


# --- recordings -------------------------------------------------------------------------------------


STREAMED = [
    "a-text",
    "b-thinking",
    "c-tools",
    "d-parallel",
    "e-failing",
    "f-http400",
    "f-http500",
    "h1-first",
    "h2-continue",
    "h4-fork",
    "i-long-unicode",
    "j-compact-threshold",
    "l-two-prompts",
    "n-codemode-nested",
    "q-length",
]


@pytest.mark.parametrize("scenario", STREAMED)
def test_the_stream_of_the_same_run_holds_the_same_exchanges(shared: Path, scenario: str) -> None:
    folder = shared / "recordings" / "pi" / scenario
    talk = Conversation()
    for line in (folder / "stdout.ndjson").read_text("utf-8").split("\n")[:-1]:
        told = json.loads(line)
        if told["type"] == "message_end":
            talk.take(told["message"])
        elif told["type"] == "agent_settled":
            talk.close()
    (first,) = (folder / "extension-events.ndjson").read_text("utf-8").split("\n")[1:2]
    since = int(json.loads(first)["t"])
    assert said_in(whole(folder / "session.jsonl", since)) == [(one.user, one.assistant) for one in talk.over]


# --- a made-up session ------------------------------------------------------------------------------


@dataclass
class Script:
    """A session file as Pi would write it, an entry a line, a second between entries."""

    now: int = 1_795_975_000_000
    lines: list[bytes] = field(default_factory=list)
    leaf: str | None = None

    def __post_init__(self) -> None:
        self.put_line(
            {"type": "session", "version": 3, "id": "s", "timestamp": rfc3339(self.now), "cwd": "/"}
        )

    def put_line(self, line: dict[str, Any]) -> Script:
        self.lines.append(json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        return self

    def put(self, kind: str, **more: Any) -> Script:
        self.now += 1000
        parent, self.leaf = self.leaf, f"{len(self.lines):08x}"
        entry = {"type": kind, "id": self.leaf, "parentId": parent, "timestamp": rfc3339(self.now), **more}
        return self.put_line(entry)

    def message(self, role: str, content: object, **more: Any) -> Script:
        return self.put("message", message={"role": role, "content": content, **more})

    def asks(self, text: object) -> Script:
        return self.message("user", [{"type": "text", "text": text}] if isinstance(text, str) else text)

    def says(self, *texts: str, stop: str = "stop", **more: Any) -> Script:
        blocks = [{"type": "text", "text": text} for text in texts]
        return self.message("assistant", blocks, stopReason=stop, **more)

    def uses(self, *texts: str) -> Script:
        return self.says(*texts, stop="toolUse").message("toolResult", [{"type": "text", "text": "out"}])

    def fails(self, *texts: str, retried: bool = False) -> Script:
        self.says(*texts, stop="error", errorMessage="529 overloaded")
        return self.put("context_edit", targetId=self.leaf, replacement=None) if retried else self

    def noise(self) -> Script:
        self.put("session_info", name="a name").put("custom", customType="x", data={"text": "state"})
        self.put("compaction", summary="a summary", firstKeptEntryId="x", tokensBefore=1)
        self.message("bashExecution", None, command="ls", output="a")
        self.put("model_change", provider="p", modelId="m").message("system", "rules")
        return self

    def goes_back(self, entry: str | None) -> Script:
        """/tree: what is written next goes on from another entry."""
        self.leaf = entry
        return self

    def write(self, folder: Path, *, cut: int = 0) -> Path:
        file = folder / NAME
        text = b"".join(self.lines)
        file.write_bytes(text[: len(text) - cut])
        return file


@pytest.fixture
def script() -> Script:
    return Script()


def settled(
    file: Path,
    script: Script,
    said: str | None = None,
    cursor: dict[str, Any] | None = None,
    since: Any = None,
) -> Reading:
    """The file read when a run has settled just now, its last message being the last entry, or that one."""
    said = script.leaf if said is None else said
    return exchanges(file, cursor or {}, Want(digest(said or ""), False, since, script.now), Files())


def test_the_time_is_that_of_the_last_message(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("answer")
    spoken = rfc3339(script.now)
    assert whole(script.noise().write(tmp_path)).exchanges == [Exchange("ask", "answer", spoken)]


def test_nothing_else_in_the_file_is_said(script: Script, tmp_path: Path) -> None:
    script.noise().asks("ask").noise().uses("one").noise().says("two").noise()
    assert said_in(whole(script.write(tmp_path))) == [("ask", "one\n\ntwo")]


def test_an_extensions_message_is_nobodys_ask(script: Script, tmp_path: Path) -> None:
    script.asks("ask").put("custom_message", customType="x", content="beside it", display=True).says("answer")
    script.put("custom_message", customType="x", content="wake up", display=False).says("noticed")
    script.message("hookMessage", "an older version's").says("this, too")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "answer"), ("", "noticed"), ("", "this, too")]


def test_a_retry_is_one_exchange(script: Script, tmp_path: Path) -> None:
    script.asks("ask").uses("first").fails("half", retried=True).fails(retried=True).says("all")
    assert said_in(whole(script.write(tmp_path))) == [("ask", "first\n\nall")]


# --- the tree -----------------------------------------------------------------------------------------


def test_an_abandoned_branch_was_said_too_and_once(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("1")
    fork = script.leaf
    script.asks("two").says("2").goes_back(fork)
    first = settled(script.write(tmp_path), script, "00000004")
    script.put("branch_summary", fromId="00000004", summary="they tried").asks("three").says("3")
    second = settled(script.write(tmp_path), script, cursor=first.cursor)
    assert said_in(first) + said_in(second) == [("one", "1"), ("two", "2"), ("three", "3")]
    assert said_in(whole(tmp_path / NAME)) == [("one", "1"), ("two", "2"), ("three", "3")]


def test_an_ask_on_another_branch_is_another_ask(script: Script, tmp_path: Path) -> None:
    script.asks("one").goes_back(None).asks("one, better said").says("1")
    assert said_in(whole(script.write(tmp_path))) == [("one", ""), ("one, better said", "1")]


def test_a_line_that_cannot_be_read_ends_no_run(script: Script, tmp_path: Path) -> None:
    script.asks("ask").put("custom", customType="x", data="y").asks("and")
    script.lines[-2] = b'{"type":"custom","id":"torn'
    script.lines[-2] += b"\n"
    assert said_in(whole(script.says("answer").write(tmp_path))) == [("ask\n\nand", "answer")]


def test_entries_without_ids_are_one_conversation(tmp_path: Path) -> None:
    script = Script()
    script.lines.clear()
    script.put_line({"type": "session", "id": "s", "timestamp": rfc3339(script.now)})
    for role, text in [("user", "ask"), ("user", "and"), ("assistant", "answer")]:
        message = {"role": role, "content": [{"type": "text", "text": text}], "stopReason": "stop"}
        script.put_line({"type": "message", "timestamp": rfc3339(script.now + 1), "message": message})
    assert said_in(whole(script.write(tmp_path))) == [("ask\n\nand", "answer")]


def forked(parent: Script, later_ms: int = 5000) -> Script:
    fork = Script(parent.now + later_ms, leaf=parent.leaf)
    fork.lines.clear()
    fork.put_line({"type": "session", "id": "f", "timestamp": rfc3339(fork.now), "parentSession": "/p.jsonl"})
    fork.lines += parent.lines[1:]
    return fork


@pytest.mark.parametrize("seen", [True, False])
def test_what_a_fork_copied_is_not_told_again(script: Script, tmp_path: Path, seen: bool) -> None:
    script.asks("one").says("1").asks("unanswered")
    fork = forked(script)
    since = fork.now + 100 if seen else None
    first = settled(fork.write(tmp_path), fork, "", since=since)
    fork.asks("two").says("2")
    second = settled(fork.write(tmp_path), fork, cursor=first.cursor, since=since)
    assert said_in(first) + said_in(second) == [("two", "2")]


def test_a_fork_by_a_clock_that_went_back_is_known_by_its_parent(script: Script, tmp_path: Path) -> None:
    parent = script.asks("one").says("1").write(tmp_path)
    named = json.dumps(str(parent.rename(tmp_path / "parent.jsonl"))).encode()
    fork = forked(script, later_ms=-60_000)
    fork.lines[0] = fork.lines[0].replace(b'"/p.jsonl"', named)
    first = settled(fork.asks("two").says("2").write(tmp_path), fork, since=fork.now - 2500)
    fork.asks("three").says("3")
    second = settled(fork.write(tmp_path), fork, cursor=first.cursor)
    assert said_in(first) + said_in(second) == [("two", "2"), ("three", "3")]


def test_a_session_that_names_itself_its_parent_is_told(tmp_path: Path) -> None:
    script = Script().asks("one").says("1")
    named = json.dumps(str(tmp_path / NAME)).encode()
    script.lines[0] = script.lines[0].replace(b'"cwd"', b'"parentSession": ' + named + b', "cwd"')
    assert said_in(whole(script.write(tmp_path))) == [("one", "1")]


def test_a_fork_of_a_fork_and_a_new_session_with_a_parent(script: Script, tmp_path: Path) -> None:
    once = forked(script.asks("one").says("1")).asks("two").says("2")
    assert said_in(whole(forked(once).asks("three").says("3").write(tmp_path))) == [("three", "3")]
    empty = Script()
    assert said_in(whole(forked(empty).asks("one").says("1").write(tmp_path))) == [("one", "1")]


# --- ends ---------------------------------------------------------------------------------------------


def test_the_last_entry_is_waited_for(script: Script, tmp_path: Path) -> None:
    script.asks("ask").uses("Done.")
    early = settled(script.write(tmp_path), script, "00000004")
    assert early == Reading([], early.cursor, complete=False)
    script.says("Done.")
    late = settled(script.write(tmp_path), script, "00000004", early.cursor)
    assert (said_in(late), late.complete) == ([("ask", "Done.\n\nDone.")], True)
    again = settled(script.write(tmp_path), script, "00000004", late.cursor)
    assert (said_in(again), again.complete) == ([], True)


@pytest.mark.parametrize("said", ["part one\npart two", "part onepart two"])
def test_without_an_id_the_last_words_are_waited_for(script: Script, tmp_path: Path, said: str) -> None:
    script.asks("ask").uses("part one", "part two")
    assert not settled(script.write(tmp_path), script, said).complete, "those words came with a call"
    script.says("part one\n", "part two")
    reading = settled(script.write(tmp_path), script, said)
    assert (len(reading.exchanges), reading.complete) == (1, True)


def test_words_longer_than_the_extension_tells_are_found_all_the_same(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("a\U0001f600" * 30_000)
    # 20 000 UTF-16 units, never through a character.
    assert settled(script.write(tmp_path), script, ("a\U0001f600" * 30_000)[:13_333]).complete
    assert not settled(script.write(tmp_path), script, "a" * 20_000).complete


def test_a_run_that_ends_in_a_tool_is_over_all_the_same(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("Running.", stop="toolUse")
    last = script.leaf
    script.message("toolResult", [{"type": "text", "text": "out"}])
    reading = settled(script.write(tmp_path), script, last)
    assert (said_in(reading), reading.complete) == ([("ask", "Running.")], True)


def test_a_run_that_said_nothing_at_all_is_over_when_it_has_settled(script: Script, tmp_path: Path) -> None:
    script.asks("ask")
    reading = settled(script.write(tmp_path), script, "")
    assert (said_in(reading), reading.complete) == ([("ask", "")], True)


def test_an_end_read_late_is_found_although_the_next_run_goes_on(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("Done.")
    ended, entry = script.now, script.leaf
    script.asks("two").says("Done.")
    for said in (entry, "Done.", "words nobody said"):
        want = Want(digest(said or ""), False, None, ended)
        reading = exchanges(script.write(tmp_path), {}, want, Files())
        assert (said_in(reading), reading.complete) == ([("one", "Done.")], True)


def test_two_ends_recorded_at_once_are_one_reading(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("1").asks("two").says("2")
    reading = settled(script.write(tmp_path), script)
    assert (said_in(reading), reading.complete) == ([("one", "1"), ("two", "2")], True)


def test_the_later_of_two_ends_read_first_answers_the_earlier_too(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("answer")
    file = script.write(tmp_path)
    ended = exchanges(file, {}, Want(None, True, None, script.now + 50), Files())
    late = exchanges(file, ended.cursor, Want(digest("00000002"), False, None, script.now + 10), Files())
    assert (said_in(ended), said_in(late), late.complete) == ([("ask", "answer")], [], True)


def test_an_aborted_run_comes_with_what_was_said(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("half an an", stop="aborted", errorMessage="Operation aborted")
    first = settled(script.write(tmp_path), script)
    script.asks("two").uses().says(stop="aborted")
    second = settled(script.write(tmp_path), script, cursor=first.cursor)
    assert said_in(first) + said_in(second) == [("one", "half an an"), ("two", "")]


# --- the file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [None, "", "relative.jsonl", "/nowhere/a.jsonl", "/etc/passwd", "/\0.jsonl", 7]
)
def test_a_file_that_is_not_there_holds_nothing(path: Any) -> None:
    for final in (False, True):
        reading = exchanges(path, {"at": 5}, Want(digest("said"), final, None, NEVER), Files())
        assert reading == Reading([], {"at": 5}, complete=final)


def test_a_link_is_not_followed(script: Script, tmp_path: Path) -> None:
    file = script.asks("ask").says("answer").write(tmp_path)
    link = tmp_path / "link.jsonl"
    link.symlink_to(file)
    assert whole(link).exchanges == []


def test_a_half_written_line_waits(script: Script, tmp_path: Path) -> None:
    script.asks("ask").says("answer")
    early = settled(script.write(tmp_path, cut=7), script)
    assert early == Reading([], early.cursor, complete=False)
    assert said_in(settled(script.write(tmp_path), script, cursor=early.cursor)) == [("ask", "answer")]


def test_a_session_seen_from_its_middle_begins_at_the_prompt_being_answered(
    script: Script, tmp_path: Path
) -> None:
    script.asks("one").says("1").asks("two").put("custom_message", customType="x", content="beside").uses(
        "so"
    )
    seen = script.now
    script.says("2").asks("three").says("3")
    assert said_in(whole(script.write(tmp_path), seen)) == [("two", "so\n\n2"), ("three", "3")]


def test_a_session_seen_while_a_run_tries_again_begins_at_its_prompt(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("1").asks("two").uses("so").fails(retried=True)
    seen = script.now
    assert said_in(whole(script.says("2").write(tmp_path), seen)) == [("two", "so\n\n2")]


@pytest.mark.parametrize("stop", ["stop", "length", "error", "aborted"])
def test_what_was_over_before_a_session_was_seen_is_not_ours(
    script: Script, tmp_path: Path, stop: str
) -> None:
    script.asks("one").says("1", stop=stop).noise()
    seen = script.now
    script.asks("two").says("2")
    assert said_in(whole(script.write(tmp_path), seen)) == [("two", "2")]


def test_a_file_that_is_cut_short_gives_nothing_twice(script: Script, tmp_path: Path) -> None:
    script.asks("one").says("1").asks("two").says("2")
    before = settled(script.write(tmp_path), script)
    kept = Script(script.now, script.lines[:2], "00000001")
    kept.lines.pop()
    kept.says("1").asks("three").says("3")
    after = settled(kept.write(tmp_path), kept, cursor=before.cursor)
    assert said_in(before) + said_in(after) == [("one", "1"), ("two", "2"), ("three", "3")]


def test_a_file_that_is_written_anew_gives_nothing_twice(script: Script, tmp_path: Path) -> None:
    # As Pi does with a file of an older version.
    script.asks("one").says("1").asks("two").says("2")
    before = settled(script.write(tmp_path), script)
    script.lines = [line.replace(b'"version": 3', b'"version": 4') for line in script.lines]
    script.lines = [line.replace(b'"type"', b'"v":3,"type"') for line in script.lines]
    script.asks("three").says("3")
    after = settled(script.write(tmp_path), script, cursor=before.cursor)
    assert said_in(before) + said_in(after) == [("one", "1"), ("two", "2"), ("three", "3")]


@pytest.mark.parametrize(
    "mangle",
    [
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: b"\n\n" + text.replace(b"\n", b"\n\n \n"),
        lambda text: text.replace(b'"/"', b'"\\ud800"'),
        lambda text: text.replace(b'"/"', b'"\xff"'),
        lambda text: text.replace(b'"stop"', b'"stop","x":"\\ud800\xe2\x80\xa8"'),
    ],
    ids=["BOM", "CRLF", "empty lines", "half a pair", "no UTF-8", "odd text in a message"],
)
def test_a_file_that_looks_a_little_different_is_read(script: Script, tmp_path: Path, mangle: Any) -> None:
    file = forked(script.asks("one").says("1")).asks("two").says("2").write(tmp_path)
    file.write_bytes(mangle(file.read_bytes()))
    assert said_in(whole(file)) == [("two", "2")]


def test_letters_that_end_lines_elsewhere_do_not_here(script: Script, tmp_path: Path) -> None:
    script.asks("a\u2028b\x85c").says("d\u2029e")
    assert said_in(whole(script.write(tmp_path))) == [("a\u2028b\x85c", "d\u2029e")]


def test_a_line_beyond_all_measure_is_passed_over(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE", 5_000)
    script.asks("ask").message("toolResult", "x" * 6_000).asks("and").says("answer")
    assert said_in(whole(script.write(tmp_path))) == [("ask\n\nand", "answer")]


@given(
    st.lists(
        st.binary(max_size=40)
        | st.sampled_from([b'{"type":"message"', b'"message":{"content":', b"}", b"null"])
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_raise(tmp_path: Path, pieces: list[bytes]) -> None:
    (tmp_path / NAME).write_bytes(b"\n".join(pieces))
    whole(tmp_path / NAME)
    whole(tmp_path / NAME, 5)


@pytest.mark.parametrize(
    "name", ["type", "id", "timestamp", "message", "parentId", "targetId", "replacement"]
)
@pytest.mark.parametrize(
    "value", [None, 7, 1e400, "text", [], [None, 1, "x"], {}, {"role": [], "content": 1}]
)
def test_a_field_of_another_kind_is_as_good_as_absent(
    script: Script, tmp_path: Path, name: str, value: object
) -> None:
    for kind in ("message", "session", "context_edit", "custom_message"):
        odd: dict[str, Any] = {"kind": kind, "message": {"role": "toolResult"}, name: value}
        script.put(**odd)
    script.asks("ask").says("answer")
    for since in (None, 5):
        assert said_in(whole(script.write(tmp_path), since))[-1] == ("ask", "answer")


@pytest.mark.parametrize(
    "cursor",
    [{"at": "x"}, {"at": -1, "mark": "", "done_ms": 0}, {"at": 2**70, "mark": "x", "done_ms": 0}, {"v": 2}],
)
def test_a_cursor_that_is_none_of_ours_is_a_first_reading(
    script: Script, tmp_path: Path, cursor: dict[str, Any]
) -> None:
    file = script.asks("ask").says("answer").write(tmp_path)
    assert said_in(exchanges(file, cursor, Want(None, True, None, NEVER), Files())) == [("ask", "answer")]


def test_only_the_end_of_a_large_file_is_read(script: Script, tmp_path: Path, bytes_read: list[int]) -> None:
    for number in range(400):
        script.asks(f"ask {number}").says("x" * 20_000)
    script.asks("now").uses()
    seen = script.now
    file = script.says("answer").write(tmp_path)
    first = settled(file, script, since=seen)
    assert said_in(first) == [("now", "answer")]
    # The header, the end backwards, the new part forwards.
    assert sum(bytes_read) < file.stat().st_size / 10
    bytes_read.clear()
    script.asks("next").says("answer 2")
    assert said_in(settled(script.write(tmp_path), script, cursor=first.cursor)) == [("next", "answer 2")]
    assert sum(bytes_read) < file.stat().st_size / 20


def test_a_very_long_history_comes_in_several_readings(script: Script, tmp_path: Path) -> None:
    for number in range(110):
        script.asks(f"ask {number}").says("x" * (SIDE_CHARS - 10))
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


# --- the law ------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["alpha", "beta", "Done.", "ok", "ü😀", "line\nline"])


@st.composite
def sessions(draw: st.DrawFn) -> tuple[Script, list[Said], list[Ending]]:
    """A session, what was said in it, and its runs' ends."""
    script, talk, ends = Script(), [], []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            script.goes_back(
                draw(st.sampled_from([None, *(f"{n:08x}" for n in range(1, len(script.lines)))]))
            )
        user = draw(WORDS)
        said: list[str] = []
        script.asks(user)
        for _ in range(draw(st.integers(0, 3))):
            match draw(st.sampled_from(["say", "tool", "noise", "retry", "steer"])):
                case "say":
                    said.append(draw(WORDS))
                    script.uses(said[-1])
                case "tool":
                    script.uses()
                case "noise":
                    script.noise()
                case "retry":
                    script.fails("half", retried=True).uses()
                case "steer":
                    more = draw(WORDS)
                    script.asks(more)
                    if said:
                        talk.append((user, "\n\n".join(said)))
                        user, said = more, []
                    else:
                        user += "\n\n" + more
        stop = draw(st.sampled_from(["stop", "length", "aborted", "error"]))
        said += (last := draw(st.lists(WORDS, max_size=2)))
        script.says(*last, stop=stop)
        ends.append(Ending(script.now, script.leaf, len(script.lines)))
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
