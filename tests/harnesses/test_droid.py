"""Droid's session files: messages that are written again while they stream, and no word of an end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.droid import exchanges, facts, find, history
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import Want
from tests.harnesses import recorded_transcripts

FIXTURES = recorded_transcripts.fixtures("droid")
NAME = "0d3b6c1e-2222-4333-8444-955566677788"


def test_a_resumed_sessions_past_is_not_told(tmp_path: Path) -> None:
    file = tmp_path / f"{NAME}.jsonl"
    file.write_bytes(FIXTURES[0].with_suffix(".jsonl").read_bytes())
    resumed_ms = 1_796_000_010_000
    reading = exchanges(file, {}, Want(None, True, resumed_ms, 2**52), Files())
    assert [each.user for each in reading.exchanges] == ["And test it"]
    # Within the second of its last words it may still have been at it.
    reading = exchanges(file, {}, Want(None, True, 1_796_000_006_500, 2**52), Files())
    assert [each.user for each in reading.exchanges] == ["Build it", "And test it"]


def test_while_it_is_written_nothing_is_over(tmp_path: Path) -> None:
    file = tmp_path / f"{NAME}.jsonl"
    file.write_bytes(b"".join(FIXTURES[0].with_suffix(".jsonl").read_bytes().splitlines(keepends=True)[:8]))
    os.utime(file, (2**33, 2**33))
    assert not exchanges(file, {}, Want(None, False, None, 2**52), Files()).complete


class Home:
    """A home folder with Droid's sessions."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = Files()
        self.env: dict[str, str] = {}

    def writes(self, place: str, *records: dict[str, Any], ms: int = 5_000, under: Path | None = None) -> str:
        file = (under or self.root) / ".factory" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        os.utime(file, ns=(ms * 1_000_000, ms * 1_000_000))
        return str(file)

    @property
    def context(self) -> Context:
        return Context(self.env, "/", 0, str(self.root))

    def tells(self, kind: str = "turn.started", *, model: str | None = None, **memo: Any) -> dict[str, Any]:
        session = {"id": NAME, **({"model": model} if model else {})}
        return facts({"type": kind, "session": session, "memo": memo}, self.context, self.files)


START = {"type": "session_start", "id": NAME, "cwd": "/home/dev/src"}


def asks(text: object, at: str | None = None, name: str = "r1") -> dict[str, Any]:
    stamp = {"timestamp": at} if at else {}
    return {"type": "message", "id": name, **stamp, "message": {"role": "user", "content": text}}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


class TestFacts:
    def test_the_first_thing_that_was_asked_is_the_title_and_no_reminder(self, home: Home) -> None:
        reminder = {"type": "text", "text": "<system-reminder>Be short.</system-reminder>"}
        blocks = [reminder, {"type": "text", "text": "Build\nit"}]
        file = home.writes(f"sessions/-src/{NAME}.jsonl", START, asks([reminder]), asks(blocks, name="r2"))
        assert home.tells(file=file, prompt="More") == {"title": "Build it", "title_source": "first-ask"}

    def test_without_a_file_it_is_the_prompt(self, home: Home) -> None:
        assert home.tells(prompt="Build it")["title"] == "Build it"
        assert home.tells() == {}

    @pytest.mark.parametrize(
        ("settings", "model"),
        [
            ({"model": "m-1"}, "m-1"),
            ({"model": "custom:m-1"}, "m-1"),
            ({"model": "custom:"}, None),
            ({"model": 7}, None),
            ([], None),
        ],
    )
    def test_the_model_is_in_the_settings_beside_it(
        self, home: Home, settings: Any, model: str | None
    ) -> None:
        file = home.writes(f"sessions/-src/{NAME}.jsonl", START)
        home.writes(f"sessions/-src/{NAME}.settings.json", settings)
        assert home.tells(file=file).get("model") == model
        assert "model" not in home.tells(file=file, model="m-2")

    def test_a_subagent_tells_nothing_of_the_session(self, home: Home) -> None:
        assert home.tells(thread="77aa", prompt="x") == {}

    @pytest.mark.parametrize("name", ["agent-77aa.jsonl", "notes.txt", f"{NAME}.settings.json"])
    def test_only_a_sessions_own_file_is_read(self, name: str) -> None:
        assert find(f"/home/dev/.factory/sessions/-src/{name}", Files()) is None


class TestHistory:
    def test_a_session_is_there_once_with_what_its_files_say(self, home: Home) -> None:
        lines = START, asks("Build it", "2026-11-30T00:00:01Z"), asks("More", "2026-11-30T00:00:09Z", "r2")
        home.writes(f"sessions/-src/{NAME}.jsonl", *lines)
        home.writes(f"sessions/-src/{NAME}.settings.json", {"model": "custom:m-1"})
        home.writes(f"projects/-src/{NAME}.jsonl", *lines)
        home.writes("sessions/-src/agent-77aa.jsonl", *lines)
        home.writes("sessions/-src/empty.jsonl", START)
        home.writes("sessions/-src/old.jsonl", *lines, ms=1_000)
        (past,) = history(home.context, 5_000, home.files)
        assert (past.session_id, past.turns) == (NAME, 2)
        assert past.last_ms - past.started_ms == 8_000
        assert past.block == {
            "cwd": "/home/dev/src",
            "model": "m-1",
            "title": "Build it",
            "title_source": "first-ask",
        }

    def test_without_times_it_is_the_files(self, home: Home) -> None:
        home.writes(f"sessions/-src/{NAME}.jsonl", asks("Build it"))
        (past,) = history(home.context, 0, home.files)
        assert (past.started_ms, past.last_ms, past.block.get("cwd")) == (5_000, 5_000, None)

    def test_its_home_may_be_elsewhere(self, home: Home, tmp_path: Path) -> None:
        home.writes(f"sessions/-src/{NAME}.jsonl", asks("Build it"), under=tmp_path / "other")
        assert list(history(home.context, 0, home.files)) == []
        home.env["FACTORY_HOME_OVERRIDE"] = str(tmp_path / "other")
        assert [past.session_id for past in history(home.context, 0, home.files)] == [NAME]
