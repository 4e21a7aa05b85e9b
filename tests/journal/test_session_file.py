"""Reading on in a session file that Pi appends to."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.journal.session_file import Lost, SessionFile, TooLarge, place

HEADER = {
    "type": "session",
    "version": 3,
    "id": "s-1",
    "timestamp": "2026-11-29T17:52:21.453Z",
    "cwd": "/src",
}


def said(text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"id-{text}",
        "message": {"role": "user", "content": text, "timestamp": 1},
    }


class Session:
    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, *values: dict[str, Any]) -> None:
        with self.path.open("a") as out:
            out.writelines(json.dumps(value) + "\n" for value in values)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "session.jsonl")


def ids(file: SessionFile) -> list[str]:
    return [entry.value["id"] for entry in file.appended()]


def test_a_session_that_begins_is_read_whole_when_its_file_is_made(session: Session) -> None:
    file = SessionFile(session.path, "s-1")
    assert not file.begin()
    assert ids(file) == []
    session.add(HEADER, said("a"), said("b"))
    assert ids(file) == ["id-a", "id-b"]
    session.add(said("c"))
    assert ids(file) == ["id-c"]
    assert ids(file) == []


def test_of_one_that_goes_on_only_what_is_new_is_read(session: Session) -> None:
    session.add(HEADER, said("a"))
    file = SessionFile(session.path, "s-1")
    assert file.begin()
    session.add(said("b"))
    assert ids(file) == ["id-b"]


def test_a_line_that_is_being_written_is_read_when_it_is(session: Session) -> None:
    session.add(HEADER)
    with session.path.open("a") as out:
        out.write('{"type":"message","id":')
    file = SessionFile(session.path, "s-1")
    file.begin()
    assert ids(file) == []
    with session.path.open("a") as out:
        out.write('"e1"}\n')
    assert ids(file) == ["e1"]


def test_the_bytes_are_pi_s(session: Session) -> None:
    session.add(HEADER)
    file = SessionFile(session.path, "s-1")
    file.begin()
    line = '{"type": "custom",  "id":"e1","n":1.50,"text":"\u2028 \\ud83d"}'
    with session.path.open("a") as out:
        out.write(line + "\n")
    (entry,) = file.appended()
    assert entry.raw == line.encode()
    assert entry.value["text"] == "\u2028 \ud83d"


@pytest.mark.parametrize("header", [{**HEADER, "id": "s-2"}, {"type": "message", "id": "s-1"}])
def test_another_session_s_file_is_not_read(session: Session, header: dict[str, Any]) -> None:
    session.add(header, said("a"))
    file = SessionFile(session.path, "s-1")
    assert not file.begin()
    assert ids(file) == []


def test_a_link_is_not_followed(session: Session, tmp_path: Path) -> None:
    session.add(HEADER, said("a"))
    link = tmp_path / "link.jsonl"
    link.symlink_to(session.path)
    file = SessionFile(link, "s-1")
    assert not file.begin()
    assert ids(file) == []


@pytest.mark.parametrize("how", ["gone", "replaced", "cut"])
def test_a_file_that_is_no_longer_the_one_it_was_is_lost(session: Session, how: str) -> None:
    session.add(HEADER, said("a"))
    file = SessionFile(session.path, "s-1")
    file.begin()
    if how == "cut":
        os.truncate(session.path, 10)
    else:
        session.path.unlink()
    if how == "replaced":
        session.add(HEADER, said("a"), said("b"))
    with pytest.raises(Lost):
        ids(file)


def test_an_entry_that_is_too_large_to_be_read_is_not_skipped(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionpipe.harnesses.jsonl.MAX_LINE", 200)
    session.add(HEADER)
    file = SessionFile(session.path, "s-1")
    file.begin()
    session.add(said("x" * 300))
    with pytest.raises(TooLarge):
        ids(file)


def test_a_stream_read_later_finds_where_it_began(session: Session) -> None:
    session.add(HEADER, said("old"), said("a"), said("b"))
    file = SessionFile(session.path, "s-1")
    file.begin()
    assert file.rewind(said("a")["message"])
    assert ids(file) == ["id-a", "id-b"]


def test_what_a_new_session_began_with_belongs_to_its_first_message(session: Session) -> None:
    session.add(HEADER, {"type": "model_change", "id": "m"}, said("a"))
    file = SessionFile(session.path, "s-1")
    file.begin()
    assert file.rewind(said("a")["message"])
    assert ids(file) == ["m", "id-a"]


@pytest.mark.parametrize("before", [[said("a"), said("a")], [said("b")]], ids=["twice", "never"])
def test_it_does_not_guess_where_that_was(session: Session, before: list[dict[str, Any]]) -> None:
    session.add(HEADER, *before)
    file = SessionFile(session.path, "s-1")
    file.begin()
    assert not file.rewind(said("a")["message"])
    assert ids(file) == []


def test_where_pi_keeps_a_session() -> None:
    header = {**HEADER, "cwd": "/home/dev/src/a:b"}
    name = "2026-11-29T17-52-21-453Z_s-1.jsonl"
    assert (
        place(header, {"PI_CODING_AGENT_DIR": "/agent"})
        == Path("/agent/sessions/--home-dev-src-a-b--") / name
    )
    assert place(header, {"PI_CODING_AGENT_SESSION_DIR": "/sessions"}) == Path("/sessions") / name
    assert place(header, {}) == Path.home() / ".pi/agent/sessions/--home-dev-src-a-b--" / name


@pytest.mark.parametrize(
    "odd", [{"id": "../../x"}, {"timestamp": "../x"}, {"id": 7}, {"cwd": None}, {"id": ""}]
)
def test_a_header_does_not_name_a_file_elsewhere(odd: dict[str, Any]) -> None:
    assert place({**HEADER, **odd}, {}) is None
