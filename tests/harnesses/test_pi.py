"""What Pi's session file says where the extension's context didn't."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.history import Past
from sessionpipe.harnesses.pi import amend, facts, history
from sessionpipe.protocol import rfc3339

START = 1_795_975_000_000
CONTEXT = Context({}, "/src", START, None)


class Session:
    """A session file, and the hooks of its extension. Times are milliseconds after the header's."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.files = Files()

    def writes(self, kind: str, at: int, **more: Any) -> Session:
        with self.file.open("a") as file:
            file.write(
                json.dumps({"type": kind, "id": "0a1b2c3d", "timestamp": rfc3339(START + at), **more}) + "\n"
            )
        return self

    def begins(self, **more: Any) -> Session:
        return self.writes("session", 0, version=3, **more).writes(
            "model_change", 1, provider="p", modelId="model-1"
        )

    def asks(self, text: object, at: int) -> Session:
        return self.writes("message", at, message={"role": "user", "content": text})

    def answers(self, at: int, model: str = "model-1") -> Session:
        return self.writes("message", at, message={"role": "assistant", "content": [], "model": model})

    def tells(
        self, kind: str = "turn.ended", *, session: dict[str, Any] | None = None, **memo: Any
    ) -> dict[str, Any]:
        draft = {
            "type": kind,
            "session": {"id": "x", **(session or {})},
            "data": {},
            "memo": {"file": str(self.file), **memo},
        }
        return facts(draft, CONTEXT, self.files)

    def started(self, at: int, source: str = "startup") -> str:
        draft = {
            "type": "session.started",
            "at_ms": START + at,
            "session": {"id": "x"},
            "data": {"source": source},
            "memo": {"file": str(self.file)},
        }
        (amended,) = amend([draft], CONTEXT, self.files)
        assert draft["data"] == {"source": source}, "a draft is never changed"
        found: str = amended["data"]["source"]
        return found


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "2026-11-29T17-52-21-453Z_x.jsonl")


TEXT = [{"type": "text", "text": "Fix\nthe page"}, {"type": "image", "data": "A"}]


def test_the_first_text_of_the_users_is_the_title(session: Session) -> None:
    session.begins().writes("message", 2, message={"role": "system", "content": "rules"})
    session.asks([{"type": "image", "data": "A"}], 3).asks(TEXT, 4).asks("Second", 5)
    assert session.tells() == {"model": "model-1", "title": "Fix the page", "title_source": "first-ask"}


def test_the_last_name_the_person_gave_is_the_title(session: Session) -> None:
    session.begins().asks("Fix", 2).writes("session_info", 3, name="one").writes(
        "session_info", 4, name="two"
    )
    assert session.tells()["title"] == "two"
    assert session.tells()["title_source"] == "custom"


def test_what_the_hook_said_itself_stays(session: Session) -> None:
    session.begins().asks("Fix", 2).writes("session_info", 3, name="one")
    assert session.tells(session={"title": "named", "model": "model-0"}) == {}
    assert session.tells(session={"title": "named"}) == {"model": "model-1"}


def test_the_model_is_the_last_one(session: Session) -> None:
    session.begins().asks("Fix", 2).answers(3, "model-2")
    assert session.tells()["model"] == "model-2"
    session.writes("model_change", 4, modelId="model-3")
    assert session.tells()["model"] == "model-3"


def test_before_there_is_a_file_the_prompt_is_the_first_ask(session: Session) -> None:
    assert session.tells("turn.started", prompt="Fix") == {"title": "Fix", "title_source": "first-ask"}
    assert session.tells("turn.started", prompt=None) == {}
    session.begins().asks("First", 2)
    assert session.tells("turn.started", prompt="Second")["title"] == "First"


def test_a_session_begun_with_a_skill_is_named_as_it_was_typed(session: Session) -> None:
    text = '<skill name="review" location="/s/SKILL.md">\nLook.\n</skill>\n\nthe page'
    assert session.tells("turn.started", prompt=text)["title"] == "/skill:review the page"
    session.begins().asks(text, 2)
    assert session.tells()["title"] == "/skill:review the page"


def test_a_fork_is_named_by_its_own_first_ask(session: Session) -> None:
    session.begins(parentSession="/p.jsonl").asks("The parent's", -500).answers(-400)
    assert "title" not in session.tells()
    session.asks("My own", 100)
    assert session.tells()["title"] == "My own"


def test_a_tools_hook_reads_nothing(session: Session) -> None:
    session.begins().asks("Fix", 2)
    assert session.tells("tool.ended") == {}


def test_a_startup_with_nothing_said_yet_is_a_startup(session: Session) -> None:
    assert session.started(50) == "startup"
    session.begins().asks("Fix", 100)
    assert session.started(50) == "startup"


def test_a_startup_with_older_messages_is_a_resume(session: Session) -> None:
    session.begins().asks("Fix", 100)
    assert session.started(5000) == "resume"


def test_a_startup_on_a_fresh_copy_is_a_fork(session: Session) -> None:
    session.begins(parentSession="/p.jsonl").asks("The parent's", -500)
    assert session.started(200) == "fork"


def test_a_startup_on_a_fork_that_went_on_is_a_resume(session: Session) -> None:
    session.begins(parentSession="/p.jsonl").asks("The parent's", -500).asks("My own", 100)
    assert session.started(200) == "resume"
    assert session.started(50) == "fork"


def test_a_startup_on_an_old_fork_is_a_resume(session: Session) -> None:
    session.begins(parentSession="/p.jsonl").asks("The parent's", -500)
    assert session.started(3_600_000) == "resume"


@pytest.mark.parametrize("source", ["resume", "fork", "unknown"])
def test_what_the_hook_knew_stays(session: Session, source: str) -> None:
    session.begins().asks("Fix", 100)
    assert session.started(5000, source) == source


def test_only_the_beginning_of_a_long_file_is_read(session: Session) -> None:
    session.begins()
    for number in range(60):
        session.writes("message", 10 + number, message={"role": "system", "content": "x" * 10_000})
    session.asks("Out of sight", 100)
    assert "title" not in session.tells("turn.started", prompt="A later prompt")


@pytest.mark.parametrize(
    "junk", [b"", b"\0" * 99, b"{}\n", b"[]\n", b'{"type":"message","message":{"role":"user"}}\n']
)
def test_a_file_that_is_no_session_tells_nothing(session: Session, junk: bytes) -> None:
    session.file.write_bytes(junk)
    assert session.tells() == {}
    assert session.started(50) == "startup"


@pytest.mark.parametrize(
    "message", [None, 7, [], {"role": "user"}, {"role": "user", "content": [1, {"type": "text"}]}]
)
def test_a_message_of_another_shape_is_no_ask(session: Session, message: object) -> None:
    session.begins().writes("message", 5, message=message).asks("Fix", 6)
    assert session.tells()["title"] == "Fix"


@pytest.mark.parametrize(
    ("scenario", "name", "title", "source"),
    [
        ("a-text", "session", "Say hello in plain text", "first-ask"),
        ("h4-fork", "session", "first name", "custom"),
        ("t1-tui", "session", "my tui session", "custom"),
        ("t2-tui-sessions", "session-3", "Prompt in the clone", "first-ask"),
    ],
)
def test_recorded_sessions(shared: Path, scenario: str, name: str, title: str, source: str) -> None:
    session = Session(shared / "recordings" / "pi" / scenario / f"{name}.jsonl")
    found = session.tells()
    assert (found["title"], found["title_source"]) == (title, source)
    assert found["model"].startswith("fake-")


class TestHistory:
    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        folder = tmp_path / ".pi" / "agent" / "sessions" / "--src--"
        folder.mkdir(parents=True)
        return tmp_path

    def session(self, home: Path, name: str, **header: Any) -> Session:
        file = home / ".pi" / "agent" / "sessions" / "--src--" / f"2026_{name}.jsonl"
        made = Session(file)
        header = {"version": 3, "cwd": "/home/dev/src", **header}
        made.writes("session", 0, **header)
        # A header's id is the session's.
        text = file.read_text().replace('"0a1b2c3d"', f'"{name}"')
        file.write_text(text)
        return made.writes("model_change", 1, provider="p", modelId="model-1")

    @staticmethod
    def found(home: Path, since_ms: int = 0) -> dict[str, Past]:
        context = Context({"HOME": str(home)}, "/", START, str(home))
        return {past.session_id: past for past in history(context, since_ms, Files())}

    def test_a_session_of_before_is_what_its_file_says(self, home: Path) -> None:
        self.session(home, "s-1").asks("mend the\nlamp", 10).answers(20).asks("and the door", 30).answers(40)
        assert self.found(home) == {
            "s-1": Past(
                "s-1",
                START,
                START + 40,
                2,
                {
                    "cwd": "/home/dev/src",
                    "model": "model-1",
                    "title": "mend the lamp",
                    "title_source": "first-ask",
                },
            )
        }

    def test_a_persons_own_name_for_it_goes_before_what_was_asked(self, home: Path) -> None:
        self.session(home, "s-1").asks("mend it", 10).writes("session_info", 20, name="Lamp")
        block = self.found(home)["s-1"].block
        assert (block["title"], block["title_source"]) == ("Lamp", "custom")

    def test_where_nothing_was_asked_there_was_no_session(self, home: Path) -> None:
        self.session(home, "s-1")
        self.session(home, "s-2").answers(10)
        assert self.found(home) == {}

    def test_what_a_fork_copied_is_its_parents(self, home: Path) -> None:
        self.session(home, "s-2", parentSession="/x/s-1.jsonl").asks("of the parent", -500).asks(
            "its own", 10
        )
        past = self.found(home)["s-2"]
        assert (past.turns, past.block["title"], past.last_ms) == (1, "its own", START + 10)

    def test_a_large_file_is_looked_at_at_both_ends(self, home: Path) -> None:
        made = self.session(home, "s-1").asks("mend it", 10)
        for at in range(20, 120):
            made.answers(at).writes("custom", at, data="x" * 60_000)
        made.asks("and that", 200)
        past = self.found(home)["s-1"]
        assert (past.turns, past.last_ms, past.block["title"]) == (None, START + 200, "mend it")

    def test_files_that_were_not_touched_since_are_not_opened(self, home: Path) -> None:
        made = self.session(home, "s-1").asks("mend it", 10)
        os.utime(made.file, (1_000, 1_000))
        assert self.found(home, since_ms=2_000_000) == {}

    def test_what_is_no_session_is_none(self, home: Path) -> None:
        folder = home / ".pi" / "agent" / "sessions" / "--src--"
        (folder / "a.jsonl").write_text("")
        (folder / "b.jsonl").write_text('{"type": "message"}\n')
        (folder / "c.jsonl").write_bytes(b"\xff\xfe\n{\n")
        (folder / "d.jsonl").mkdir()
        assert self.found(home) == {}
