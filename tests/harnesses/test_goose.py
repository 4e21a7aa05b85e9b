"""Goose's store: what was said and what a session is called, beside its own writer."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.goose import exchanges, facts, history, transcript
from sessionpipe.harnesses.history import Past
from sessionpipe.harnesses.transcripts import Reading, Want, digest
from tests.harnesses.growing import said_in

SESSION = "20261129_3"
S = 1_795_977_000  # a second

SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', user_set_name BOOLEAN DEFAULT FALSE,
  session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL, created_at TIMESTAMP,
  updated_at TIMESTAMP, model_config_json TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
  content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, metadata_json TEXT);
"""


class Store:
    """Goose's own connection to its store."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.executescript(SCHEMA)

    def close(self) -> None:
        self._connection.close()

    def execute(self, sql: str, *parameters: object) -> None:
        self._connection.execute(sql, parameters)

    def session(self, id_: str = SESSION, **columns: Any) -> None:
        row = {
            "id": id_,
            "name": "CLI Session",
            "working_dir": "/src",
            "created_at": "2026-11-29 18:30:00",
            "updated_at": "2026-11-29 18:40:00",
            **columns,
        }
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        self.execute(f"INSERT INTO sessions ({names}) VALUES ({marks})", *row.values())

    def write(
        self, role: str, at: int, *content: str | dict[str, Any], session: str = SESSION, **metadata: Any
    ) -> None:
        blocks = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content]
        self.execute(
            "INSERT INTO messages (session_id, role, content_json, created_timestamp, metadata_json)"
            " VALUES (?, ?, ?, ?, ?)",
            *(session, role, json.dumps(blocks), at, json.dumps(metadata)),
        )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "data" / "goose" / "sessions" / "sessions.db")
    yield opened
    opened.close()


def read(store: Store, cursor: dict[str, Any] | None = None, said: str | None = None, **want: Any) -> Reading:
    known = {"final": False, "since_ms": None, "ended_ms": (S + 900) * 1000, "session": SESSION, **want}
    return exchanges(str(store.path), cursor or {}, Want(said=digest(said or ""), **known), Files())


def context(store: Store) -> Context:
    return Context({"XDG_DATA_HOME": str(store.path.parents[2])}, "/hook", S * 1000, "/home/dev")


def draft(kind: str = "turn.started", prompt: str | None = None) -> dict[str, Any]:
    memo = {"prompt": prompt} if prompt else {}
    return {"type": kind, "session": {"id": SESSION}, "memo": memo, "data": {}}


CALL = {"type": "toolRequest", "id": "call_1"}
RESULT = {"type": "toolResponse", "id": "call_1"}


# --- transcripts ----------------------------------------------------------------------------------


def test_an_exchange_with_a_call_in_it(store: Store) -> None:
    store.session()
    store.write("user", S, "Count my files")
    store.write("assistant", S + 1, "Let me see.", CALL)
    store.write("user", S + 2, RESULT)
    waiting = read(store, said="One.")
    assert (waiting.exchanges, waiting.complete) == ([], False)
    store.write("assistant", S + 3, "One.")
    done = read(store, waiting.cursor, said="One.")
    assert (said_in(done), done.complete) == ([("Count my files", "Let me see.\n\nOne.")], True)
    assert done.exchanges[0].at == "2026-11-29T18:30:03.000Z"
    again = read(store, done.cursor, said="One.")
    assert (again.exchanges, again.complete) == ([], True)


def test_what_the_model_alone_sees_was_not_said(store: Store) -> None:
    store.session()
    store.write("user", S, "Go")
    store.write("assistant", S + 1, "The summary so far", userVisible=False)
    store.write("user", S + 1, "Continue", userVisible=False)
    store.write("assistant", S + 2, "Done.")
    assert said_in(read(store, said="Done.")) == [("Go", "Done.")]


def test_a_compaction_that_writes_all_messages_anew_tells_none_twice(store: Store) -> None:
    store.session()
    talk = [
        ("user", S, "One"),
        ("assistant", S + 1, "1"),
        ("user", S + 10, "Two"),
        ("assistant", S + 11, "2"),
    ]
    for role, at, text in talk:
        store.write(role, at, text)
    first = read(store, said="2")
    assert len(first.exchanges) == 2
    store.execute("DELETE FROM messages")
    for role, at, text in [*talk, ("user", S + 20, "Three"), ("assistant", S + 21, "3")]:
        store.write(role, at, text)
    assert said_in(read(store, first.cursor, said="3")) == [("Three", "3")]


def test_a_session_seen_from_its_middle_begins_at_the_prompt_that_was_being_answered(store: Store) -> None:
    store.session()
    for n in range(3):
        store.write("user", S + 10 * n, f"Ask {n}")
        store.write("assistant", S + 10 * n + 1, f"Answer {n}")
    told = read(store, said="Answer 2", since_ms=(S + 10) * 1000 + 400)
    assert [user for user, _ in said_in(told)] == ["Ask 1", "Ask 2"]


def test_another_session_s_words_are_not_this_one_s(store: Store) -> None:
    for name in (SESSION, "20261129_4"):
        store.session(name)
        store.write("user", S, f"Ask in {name}", session=name)
        store.write("assistant", S + 1, "Yes", session=name)
    assert said_in(read(store, said="Yes")) == [(f"Ask in {SESSION}", "Yes")]


def test_a_message_too_large_to_be_one_is_passed_over(store: Store) -> None:
    store.session()
    store.write("user", S, "Go")
    store.write("assistant", S + 1, "x" * (5 << 20))
    store.write("assistant", S + 2, "Done.")
    assert said_in(read(store, said="Done.")) == [("Go", "Done.")]


@pytest.mark.parametrize("path", [None, "/nowhere/sessions.db", "sessions.db", "/etc/passwd"])
def test_without_a_store_there_is_nothing_yet(path: str | None) -> None:
    want = Want(None, False, None, S * 1000, SESSION)
    assert exchanges(path, {}, want, Files()) == Reading([], {}, complete=False)


def test_a_store_of_another_shape_says_nothing(store: Store) -> None:
    store.execute("DROP TABLE messages")
    store.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, body TEXT)")
    store.session()
    assert read(store) == Reading([], {}, complete=False)
    assert facts(draft(prompt="Count"), context(store), Files()) == {
        "title": "Count",
        "title_source": "first-ask",
    }
    assert list(history(context(store), 0, Files())) == []


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["user", "assistant", "", "7"]),
            st.sampled_from(
                ["[]", "{}", "null", "", "[1]", '[{"type":7}]', '[{"type":"text","text":{}}]', "[[", '"x"']
            )
            | st.text(max_size=5),
            st.integers(-1, 1 << 62) | st.text(max_size=2),
            st.sampled_from(["", "{}", "[]", "{", '{"userVisible":7}', None]),
        ),
        max_size=5,
    )
)
def test_rows_of_any_shape_are_survived(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    store = Store(tmp_path_factory.mktemp("odd") / "goose" / "sessions" / "sessions.db")
    try:
        store.session(name="New Chat", model_config_json="{")
        for role, content, at, metadata in rows:
            store.execute(
                "INSERT INTO messages (session_id, role, content_json, created_timestamp, metadata_json)"
                " VALUES (?, ?, ?, ?, ?)",
                *(SESSION, role, content.encode("utf-8", "replace").decode(), at, metadata),
            )  # fmt: skip
        read(store, final=True)
        where = Context({"XDG_DATA_HOME": str(store.path.parents[2])}, "/", 0, None)
        facts(draft(), where, Files())
        list(history(where, 0, Files()))
    finally:
        store.close()


# --- facts and history ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"name": "Counting files"}, {"title": "Counting files", "title_source": "harness"}),
        ({"name": "Mine", "user_set_name": 1}, {"title": "Mine", "title_source": "custom"}),
        ({"name": "CLI Session"}, {"title": "Count my files", "title_source": "first-ask"}),
        ({"name": "New session 4"}, {"title": "Count my files", "title_source": "first-ask"}),
        ({"name": ""}, {"title": "Count my files", "title_source": "first-ask"}),
    ],
)
def test_what_a_session_is_called(store: Store, columns: dict[str, Any], told: dict[str, str]) -> None:
    store.session(**columns)
    store.write("user", S, "Count my files")
    assert facts(draft(prompt="Another"), context(store), Files()) == told


@pytest.mark.parametrize(
    ("config", "model"),
    [
        ('{"model_name": "m-1", "temperature": 1}', "m-1"),
        ('{"model_name": 7}', None),
        ("{", None),
        (None, None),
    ],
)
def test_which_model_it_is(store: Store, config: str | None, model: str | None) -> None:
    store.session(name="Named", model_config_json=config)
    assert facts(draft(), context(store), Files()).get("model") == model


def test_a_store_that_has_fewer_columns_says_less(store: Store) -> None:
    store.session(name="Named")
    for column in ("user_set_name", "session_type", "model_config_json"):
        store.execute(f"ALTER TABLE sessions DROP COLUMN {column}")
    assert facts(draft(), context(store), Files()) == {"title": "Named", "title_source": "harness"}


def test_what_was_there_before(store: Store) -> None:
    store.session(name="Counting files", model_config_json='{"model_name": "m-1"}')
    store.write("user", S, "Count")
    store.write("user", S + 1, RESULT)
    others = {
        "hidden": {"session_type": "hidden"},
        "old": {"updated_at": "2026-11-01 00:00:00"},
        "odd": {"created_at": "x"},
    }
    for other, columns in others.items():
        store.session(other, **columns)
        store.write("user", S, "Count", session=other)
    store.session("empty")
    block = {"title": "Counting files", "title_source": "harness", "model": "m-1", "cwd": "/src"}
    assert list(history(context(store), (S - 86_400) * 1000, Files())) == [
        Past(SESSION, S * 1000, (S + 600) * 1000, 1, block)
    ]


def test_where_the_store_is() -> None:
    assert transcript({}, Context({}, "/", 0, "/home/dev"), Files()) == (
        "/home/dev/.local/share/goose/sessions/sessions.db"
    )
    assert transcript({}, Context({}, "/", 0, None), Files()) is None
