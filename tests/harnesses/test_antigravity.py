"""Antigravity's transcripts: what is marked as the person's, and three places to look for them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.harnesses.antigravity import exchanges, facts, history, transcript
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import Want

NAME = "9c1e77aa-3333-4444-8555-966677788899"


class Home:
    """A home folder with conversations of Antigravity's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = Files()

    def writes(self, data: str, *records: dict[str, Any], name: str = NAME, ms: int = 5_000) -> str:
        file = self.root / ".gemini" / data / "brain" / name / ".system_generated/logs/transcript.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        os.utime(file, ns=(ms * 1_000_000, ms * 1_000_000))
        return str(file)

    @property
    def context(self) -> Context:
        return Context({}, "/", 0, str(self.root))

    def finds(self, name: str = NAME) -> str | None:
        return transcript({"session": {"id": name}}, self.context, self.files)

    def tells(self, kind: str = "turn.ended", **memo: Any) -> dict[str, Any]:
        return facts({"type": kind, "session": {"id": NAME}, "memo": memo}, self.context, self.files)


def asks(text: str, at: object = "2026-11-30T00:00:01Z") -> dict[str, Any]:
    return {
        "type": "USER_INPUT",
        "created_at": at,
        "content": f"<USER_REQUEST>\n{text}\n</USER_REQUEST>\n<X>y</X>",
    }


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


DATA = ["antigravity", "antigravity-cli", "antigravity-ide"]


@pytest.mark.parametrize("data", DATA)
class TestEachDataFolder:
    def test_a_transcript_is_found_in_it(self, home: Home, data: str) -> None:
        assert home.finds() is None
        assert home.writes(data, asks("Fix it")) == home.finds()

    def test_the_first_request_is_the_title(self, home: Home, data: str) -> None:
        file = home.writes(data, {"type": "USER_INPUT", "content": "Rules."}, asks("Fix\nit"), asks("More"))
        assert home.tells() == home.tells(file=file) == {"title": "Fix it", "title_source": "first-ask"}

    def test_a_conversation_is_history(self, home: Home, data: str) -> None:
        home.writes(data, asks("Fix it"), asks("More", "2026-11-30T00:00:05Z"))
        home.writes(data, asks("Old"), name="old", ms=1_000)
        home.writes(data, name="empty")
        (past,) = history(home.context, 5_000, home.files)
        assert (past.session_id, past.turns, past.last_ms - past.started_ms) == (NAME, 2, 4_000)
        assert past.block == {"title": "Fix it", "title_source": "first-ask"}


def test_one_that_two_of_them_have_is_told_once(home: Home) -> None:
    for data in DATA:
        home.writes(data, asks("Fix it"))
    assert len(list(history(home.context, 0, home.files))) == 1


@pytest.mark.parametrize("name", ["..", ".", "a/b", "x" * 129])
def test_a_name_that_is_none_is_not_looked_for(home: Home, name: str) -> None:
    home.writes("antigravity", asks("Fix it"))
    assert home.finds(name) is None


def test_a_call_reads_nothing(home: Home) -> None:
    home.writes("antigravity", asks("Fix it"))
    assert home.tells("tool.ended") == {}


@pytest.mark.parametrize(
    ("records", "assistant"),
    [
        ([], ""),
        ([{"type": "PLANNER_RESPONSE", "content": "Looking.", "tool_calls": [{"name": "ls"}]}], "Looking."),
    ],
)
def test_a_turn_that_was_stopped_is_told_without_last_words(
    home: Home, records: list[dict[str, Any]], assistant: str
) -> None:
    """The conversation may never go on, and nothing tells of its end."""
    file = home.writes("antigravity", asks("Fix it"), *records)
    ended = Want(None, False, None, 1_800_000_000_000)
    waits = exchanges(file, {}, ended, Files())
    assert (waits.exchanges, waits.complete) == ([], False)
    told = exchanges(file, {}, ended._replace(stopped=True), Files())
    assert [(each.user, each.assistant) for each in told.exchanges] == [("Fix it", assistant)]
    assert told.complete
    os.utime(file)
    assert not exchanges(file, {}, ended._replace(stopped=True), Files()).complete, "it may be being written"


def test_words_that_are_not_marked_as_the_persons_are_not_told_as_theirs(tmp_path: Path) -> None:
    file = tmp_path / "transcript.jsonl"
    records = {"type": "USER_INPUT", "content": "Rules."}, {"type": "PLANNER_RESPONSE", "content": "Noted."}
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    (exchange,) = exchanges(file, {}, Want(None, True, None, 1), Files()).exchanges
    assert (exchange.user, exchange.assistant) == ("", "Noted.")
