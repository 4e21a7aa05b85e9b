"""Kiro's session file, as far as anything is known of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.kiro import exchanges, facts, find, transcript
from sessionpipe.harnesses.transcripts import Want, digest
from tests.harnesses.growing import said_in

SESSION = "0b9a9c1e-6a51-4d7b-9a55-0d3c5f1f5a10"
T = 1_795_977_000_000


def row(kind: str, *blocks: dict[str, Any]) -> str:
    return json.dumps({"kind": kind, "data": {"message_id": "m", "content": list(blocks)}}) + "\n"


def text(words: str) -> dict[str, Any]:
    return {"kind": "text", "data": words}


CALL = {"kind": "toolUse", "data": {"name": "fs_read"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / ".kiro" / "sessions" / "cli" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    return path


def want(said: str | None = None, *, final: bool = False) -> Want:
    return Want(digest(said or ""), final, None, T, SESSION)


def test_what_was_said_is_read_and_what_was_asked_may_be_empty(file: Path) -> None:
    rows = [row("Prompt"), row("AssistantMessage", text("Let me see."), CALL), row("ToolResults", text("a"))]
    file.write_text("".join(rows))
    waiting = exchanges(file, {}, want("One file."), Files())
    assert (waiting.exchanges, waiting.complete) == ([], False)
    with file.open("a") as grown:
        grown.write(row("AssistantMessage", text("One file.")))
    done = exchanges(file, waiting.cursor, want("One file."), Files())
    assert (said_in(done), done.complete) == ([("", "Let me see.\n\nOne file.")], True)


def test_where_the_prompt_stands_there_it_is_told(file: Path) -> None:
    file.write_text(row("Prompt", text("Count")) + row("AssistantMessage", text("One.")))
    assert said_in(exchanges(file, {}, want("One."), Files())) == [("Count", "One.")]


def test_without_the_last_words_a_file_left_alone_is_done(file: Path) -> None:
    """In some versions the end of a turn does not say what was said."""
    file.write_text(row("Prompt", text("Count")) + row("AssistantMessage", text("One.")))
    os.utime(file, (0, 0))
    assert said_in(exchanges(file, {}, want(), Files())) == [("Count", "One.")]


ODD = '{"kind":"AssistantMessage","data":{"content":[7,{"kind":"text","data":{}}]}}'


@pytest.mark.parametrize("line", ["", "null", "[]", "{", '{"kind":7}', '{"kind":"Prompt","data":[1]}', ODD])
def test_lines_of_any_shape_are_survived(file: Path, line: str) -> None:
    file.write_text(f"{line}\n" + row("Prompt", text("Count")) + row("AssistantMessage", text("One.")))
    assert said_in(exchanges(file, {}, want(final=True), Files()))[-1] == ("Count", "One.")


def test_the_file_is_waited_for_only_where_there_is_one(file: Path, tmp_path: Path) -> None:
    context = Context({}, "/", T, str(tmp_path))
    for there in (False, True):
        if there:
            file.touch()
        told = transcript({"session": {"id": SESSION}}, context, Files())
        assert told == (str(file) if there else None)
    assert transcript({"session": {"id": "a:b"}}, context, Files()) is None
    assert transcript({"session": {"id": SESSION}}, Context({}, "/", T, None), Files()) is None


@pytest.mark.parametrize("claimed", [None, 7, "/x/../passwd", "/x/.jsonl", "x.jsonl", "/x/a b.jsonl"])
def test_anything_else_is_no_file_of_its(claimed: object) -> None:
    assert find(claimed, Files()) is None


def test_a_session_is_called_by_its_first_prompt() -> None:
    told = {"session": {"id": SESSION}, "memo": {"prompt": "Count my\nfiles"}}
    assert facts(told, Context({}, "/", T, None), Files()) == {
        "title": "Count my files",
        "title_source": "first-ask",
    }
    assert facts({"session": {"id": SESSION}, "memo": {}}, Context({}, "/", T, None), Files()) == {}
