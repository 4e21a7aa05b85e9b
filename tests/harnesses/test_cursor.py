"""Cursor's transcripts, which say no times, and where they are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.cursor import amend, exchanges, facts, find, history, slugs, transcript, typed
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import Want
from tests.harnesses import recorded_transcripts

FIXTURES = recorded_transcripts.fixtures("cursor")
NAME = "7f1c0de4-0000-4000-8000-0000000000c1"
OTHER = "7f1c0de4-0000-4000-8000-0000000000c2"


def test_a_session_first_seen_in_its_middle_begins_at_the_last_prompt(tmp_path: Path) -> None:
    file = tmp_path / f"{NAME}.jsonl"
    lines = FIXTURES[-1].with_name("turns.jsonl").read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:8]))
    reading = exchanges(file, {}, Want(None, True, 5, 10), Files())
    assert [each.user for each in reading.exchanges] == ["Again"]


def test_a_file_that_was_made_anew_tells_nothing_again(tmp_path: Path) -> None:
    file = tmp_path / f"{NAME}.jsonl"
    lines = FIXTURES[-1].with_name("turns.jsonl").read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:4]))
    cursor = exchanges(file, {}, Want(None, False, 5, 10), Files()).cursor
    file.write_bytes(b"".join(lines[2:4]))
    again = exchanges(file, cursor, Want(None, True, 5, 20), Files())
    assert again.exchanges == []
    file.write_bytes(b"".join([lines[0], *lines[2:4], *lines[6:]]))
    reading = exchanges(file, cursor, Want(None, True, None, 20), Files())
    assert [each.user for each in reading.exchanges] == ["Again"]


@pytest.mark.parametrize("name", ["notes.txt", "a b.jsonl", "-x.jsonl", f"{'x' * 200}.jsonl"])
def test_only_a_file_that_it_would_write_is_opened(name: str, tmp_path: Path) -> None:
    assert find(str(tmp_path / name), Files()) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Fix it", "Fix it"),
        ("<user_query>\nFix it\n</user_query>", "Fix it"),
        ("<attached>x</attached>\n<user_query>Fix it</user_query>", "Fix it"),
        ("What is <user_query>?", "What is <user_query>?"),
    ],
)
def test_what_was_typed_is_told_without_what_was_put_around_it(text: str, words: str) -> None:
    assert typed(text) == words


class Home:
    """A home folder with transcripts of Cursor's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = Files()

    def writes(self, place: str, *texts: str, ms: int = 5_000) -> str:
        file = self.root / ".cursor/projects" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        records = [
            {"role": "user", "message": {"content": [{"type": "text", "text": text}]}} for text in texts
        ]
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        os.utime(file, ns=(ms * 1_000_000, ms * 1_000_000))
        return str(file)

    @property
    def context(self) -> Context:
        return Context({}, "/", 0, str(self.root))

    def finds(self, cwd: str | None = "/home/dev/src", name: str = NAME) -> str | None:
        return transcript(
            {"session": {"id": name, **({"cwd": cwd} if cwd else {})}}, self.context, self.files
        )

    def tells(self, kind: str = "turn.started", **memo: Any) -> dict[str, Any]:
        return facts({"type": kind, "session": {"id": NAME}, "memo": memo}, self.context, self.files)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


class TestWhereTheTranscriptIs:
    @pytest.mark.parametrize("place", [f"{NAME}/{NAME}.jsonl", f"{NAME}.jsonl"])
    @pytest.mark.parametrize("slug", ["home-dev-src", "-home-dev-src", "some-hash"])
    def test_it_is_found_by_the_conversations_name_in_whichever_folder(
        self, home: Home, slug: str, place: str
    ) -> None:
        file = home.writes(f"{slug}/agent-transcripts/{place}", "Fix it")
        home.writes(f"{slug}/agent-transcripts/{OTHER}/{OTHER}.jsonl", "Other")
        assert home.finds() == file
        assert home.finds(None) == file

    def test_one_that_is_not_there_is_nowhere(self, home: Home) -> None:
        assert home.finds() is None

    @pytest.mark.parametrize("name", ["..", "a/b", ".*", "x" * 129])
    def test_a_name_that_is_none_is_not_looked_for(self, home: Home, name: str) -> None:
        home.writes(f"home-dev-src/agent-transcripts/{NAME}.jsonl", "Fix it")
        assert home.finds(name=name) is None

    @pytest.mark.parametrize(
        ("cwd", "slug"),
        [
            ("/home/dev/my src", "home-dev-my-src"),
            ("/home/dév/src", "home-dv-src"),
            ("C:\\Users\\dev\\src", "c-Users-dev-src"),
            ("/a//b.c", "a-b-c"),
        ],
    )
    def test_a_workspace_is_called_after_its_path(self, cwd: str, slug: str) -> None:
        assert slug in slugs(cwd)


class TestFacts:
    def test_the_first_thing_that_was_asked_is_the_title(self, home: Home) -> None:
        file = home.writes(f"p/agent-transcripts/{NAME}.jsonl", "<user_query>Fix\nit</user_query>", "More")
        assert home.tells(file=file, prompt="More") == {"title": "Fix it", "title_source": "first-ask"}

    def test_without_a_transcript_it_is_the_prompt(self, home: Home) -> None:
        assert home.tells(prompt="Fix it") == {"title": "Fix it", "title_source": "first-ask"}
        assert home.tells() == {}

    @pytest.mark.parametrize("kind", ["turn.ended", "session.ended"])
    def test_a_headless_run_whose_hooks_name_no_transcript_is_called_by_it_in_the_end(
        self, home: Home, kind: str
    ) -> None:
        home.writes(f"p/agent-transcripts/{NAME}/{NAME}.jsonl", "Fix it")
        assert home.tells(kind) == {"title": "Fix it", "title_source": "first-ask"}
        assert home.tells("session.started") == {}

    def test_a_call_reads_nothing(self, home: Home) -> None:
        assert home.tells("tool.ended", prompt="Fix it") == {}

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            ({"ok": False, "output": {"exitCode": 2}}, "Exit code 2"),
            ({"ok": False, "output": {"exitCode": "2"}}, None),
            ({"ok": False, "output": {"exitCode": True}}, None),
            ({"ok": False, "output": "plain"}, None),
            ({"ok": False, "error": "Timed out", "output": {"exitCode": 2}}, "Timed out"),
            ({"ok": True, "output": {"exitCode": 0}}, None),
        ],
    )
    def test_a_command_that_failed_says_its_exit_code(self, home: Home, data: Any, error: str | None) -> None:
        (draft,) = amend([{"type": "tool.ended", "data": data}], home.context, home.files)
        assert draft["data"].get("error") == error

    @pytest.mark.parametrize(
        ("last", "reason", "error"),
        [
            ({"type": "turn_ended", "status": "error", "error": "no model"}, "error", "no model"),
            ({"type": "turn_ended", "status": "error", "error": "no model"}, "stop", None),
            ({"type": "turn_ended", "status": "error", "error": {}}, "error", None),
            ({"type": "turn_ended", "status": "success", "error": "x"}, "error", None),
            ({"role": "assistant", "error": "x"}, "error", None),
        ],
    )
    def test_a_turn_that_failed_says_why_where_its_transcript_does(
        self, home: Home, last: dict[str, Any], reason: str, error: str | None
    ) -> None:
        file = home.writes(f"p/agent-transcripts/{NAME}.jsonl", "Fix it")
        with Path(file).open("a") as opened:
            opened.write(json.dumps(last) + "\n")
        ended = {"type": "turn.ended", "session": {"id": NAME}, "data": {"reason": reason}}
        for named in ({"file": file}, {}):
            (draft,) = amend([{**ended, "memo": named}], home.context, home.files)
            assert draft["data"].get("error") == error


class TestHistory:
    def test_each_conversation_that_somebody_asked_something_in_is_there_once(self, home: Home) -> None:
        home.writes(f"a/agent-transcripts/{NAME}/{NAME}.jsonl", "Fix it", "More", ms=9_000)
        home.writes(f"a/agent-transcripts/{NAME}.jsonl", "Fix it", ms=8_000)
        home.writes(f"a/agent-transcripts/{NAME}/{OTHER}.jsonl", "A subagent's", ms=9_000)
        home.writes("b/agent-transcripts/old.jsonl", "Before", ms=1_000)
        home.writes("b/agent-transcripts/empty.jsonl", ms=9_000)
        (past,) = history(home.context, 5_000, home.files)
        assert past.session_id == NAME
        assert (past.started_ms, past.last_ms, past.turns) == (9_000, 9_000, 2)
        assert past.block == {"title": "Fix it", "title_source": "first-ask"}

    def test_where_there_is_no_cursor_there_is_no_history(self, home: Home) -> None:
        assert list(history(home.context, 0, home.files)) == []
        assert list(history(Context({}, "/", 0, None), 0, home.files)) == []
