"""Devin's store: the main chain of a session, read without a trace, and what it says of sessions."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.harnesses import devin
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.devin import exchanges, facts, history, transcript
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import Reading, Want, digest
from tests.harnesses.devin_store import START, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path).session()


class Reader:
    """Looks at a store again and again, from the cursor of the look before."""

    def __init__(self, store: Store, *, since: int | None = None, session: str = "amber-otter") -> None:
        self.store = store
        self.cursor: dict[str, Any] = {}
        self.since = None if since is None else (START + since) * 1000
        self.session = session

    def look(self, said: str | None = None, ended: float = 1_000, *, final: bool = False) -> Reading:
        want = Want(digest(said or ""), final, self.since, int((START + ended) * 1000), self.session)
        reading = exchanges(str(self.store.path), self.cursor, want, Files())
        self.cursor = json.loads(json.dumps(reading.cursor))
        return reading

    def said(
        self, said: str | None = None, ended: float = 1_000, *, final: bool = False
    ) -> list[tuple[str, str]]:
        return [(each.user, each.assistant) for each in self.look(said, ended, final=final).exchanges]


class TestExchanges:
    def test_a_turn_is_told_when_its_last_words_are_in_the_store(self, store: Store) -> None:
        reader = Reader(store)
        store.node("system", "You are Devin.", 0)
        store.asks("Fix it", 1)
        store.says("I look.", 2, calls=True)
        assert not reader.look("Done.", 9).complete
        store.node("tool", "ok", 3)
        store.says([{"type": "text", "text": "Done."}], 4)
        reading = reader.look("Done.", 9)
        assert reading.complete
        (exchange,) = reading.exchanges
        assert (exchange.user, exchange.assistant) == ("Fix it", "I look.\n\nDone.")
        # The message's own time; its row was written again later.
        assert exchange.at == "2026-11-30T00:53:24.000Z"
        assert reader.said("Done.", 9) == []

    def test_the_next_one_costs_only_what_is_new(self, store: Store) -> None:
        reader = Reader(store)
        store.asks("Fix it", 1)
        store.says("Done.", 2)
        reader.look("Done.", 3)
        store.asks("And more", 11)
        store.says("Sure.", 12)
        assert reader.said("Sure.", 13) == [("And more", "Sure.")]

    def test_what_is_generated_in_the_persons_name_is_not_theirs(self, store: Store) -> None:
        store.asks("Fix it", 1)
        store.node("user", "<reminder>be short</reminder>", 2)
        store.node("user", "<x>", 2, metadata={"is_user_input": "yes"})
        store.says("Done.", 3)
        assert Reader(store).said(final=True) == [("Fix it", "Done.")]

    def test_an_abandoned_branch_is_not_told(self, store: Store) -> None:
        root = store.asks("Fix it", 1)
        store.says("Wrong.", 2)
        store.says("Right.", 3, parent=root)
        assert Reader(store).said(final=True) == [("Fix it", "Right.")]

    def test_of_the_sessions_in_the_store_one_is_meant(self, store: Store) -> None:
        store.session("blue-fox")
        store.asks("Fix it", 1)
        store.asks("Other", 1, session="blue-fox")
        assert Reader(store, session="blue-fox").said(final=True) == [("Other", "")]

    def test_a_session_seen_from_its_middle_begins_at_the_prompt_that_was_being_answered(
        self, store: Store
    ) -> None:
        store.asks("Before", 1)
        store.says("Was.", 2)
        store.asks("Now", 11)
        store.says("I look.", 12, calls=True)
        store.says("Is.", 22)
        assert Reader(store, since=15).said(final=True) == [("Now", "I look.\n\nIs.")]
        assert Reader(store, since=5).said(final=True) == [("Now", "I look.\n\nIs.")]
        assert Reader(store, since=0).said(final=True) == [("Before", "Was."), ("Now", "I look.\n\nIs.")]

    def test_a_hidden_session_is_left_alone(self, store: Store) -> None:
        store.session("gray-owl", hidden=1)
        store.asks("Secret", 1, session="gray-owl")
        reading = Reader(store, session="gray-owl").look(final=True)
        assert (reading.exchanges, reading.complete) == ([], True)

    def test_of_a_long_session_the_newest_is_kept(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(devin, "_NODES", 4)
        for number in range(5):
            store.asks(f"a{number}", 2 * number)
            store.says(f"b{number}", 2 * number + 1)
        assert Reader(store).said(final=True) == [("a3", "b3"), ("a4", "b4")]

    def test_one_that_is_too_much_for_a_look_is_read_from_its_end(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(devin, "_MESSAGES", 1_000)
        store.asks("x" * 900, 1)
        store.says("y", 2)
        store.asks("Now", 3)
        store.says("Is.", 4)
        assert Reader(store).said(final=True)[-1] == ("Now", "Is.")

    def test_a_message_that_is_too_large_is_passed_over(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(devin, "_MESSAGE", 500)
        store.asks("Fix it", 1)
        store.says("y" * 600, 2)
        store.says("Done.", 3)
        assert Reader(store).said(final=True) == [("Fix it", "Done.")]

    def test_a_chain_that_goes_round_in_a_circle_ends(self, store: Store) -> None:
        first = store.asks("Fix it", 1)
        last = store.says("Done.", 2)
        store.run("UPDATE message_nodes SET parent_node_id = ? WHERE node_id = ?", last, first)
        assert Reader(store).said(final=True) == [("Fix it", "Done.")]

    @pytest.mark.parametrize("head", [None, "x", -1, 99, 1.5])
    def test_a_chain_that_begins_nowhere_is_empty(self, store: Store, head: object) -> None:
        store.asks("Fix it", 1)
        store.run("UPDATE sessions SET main_chain_id = ?", head)
        assert Reader(store).said(final=True) == []

    @pytest.mark.parametrize(
        "message",
        ["", "{", "[]", "7", "null", '{"role":7}', '{"role":"user","metadata":[]}', '{"role":"assistant"}'],
    )
    def test_a_message_of_another_shape_is_none(self, store: Store, message: str) -> None:
        broken = store.asks("?", 1)
        store.asks("Fix it", 2)
        store.run("UPDATE message_nodes SET chat_message = ? WHERE node_id = ?", message, broken)
        assert Reader(store).said(final=True) == [("Fix it", "")]

    def test_a_store_that_was_made_anew_is_read_by_its_times(self, store: Store, tmp_path: Path) -> None:
        reader = Reader(store)
        for number in range(3):
            store.asks(f"a{number}", number)
            store.says("b", number)
        reader.look(final=True)
        fresh = Store(tmp_path / "fresh").session()
        fresh.asks("a2", 2)
        fresh.says("b", 2)
        fresh.asks("new", 20)
        fresh.says("b", 21)
        reader.store = fresh
        assert reader.said(final=True) == [("new", "b")]


class TestTheStore:
    @pytest.mark.parametrize("name", ["..", "../x", "a/b", "", "x" * 129, "a b", "%"])
    def test_a_session_that_is_called_like_a_path_is_not_looked_for(self, store: Store, name: str) -> None:
        store.session(name or "x")
        store.asks("Fix it", 1, session=name or "x")
        assert Reader(store, session=name).said(final=True) == []

    @pytest.mark.parametrize("name", ["other.db", "sessions.db-wal", "config.json"])
    def test_only_the_store_is_opened(self, store: Store, name: str) -> None:
        path = store.path.rename(store.path.with_name(name))
        assert exchanges(str(path), {}, Want(None, True, None, 1, "amber-otter"), Files()).exchanges == []

    @pytest.mark.parametrize("content", [None, b"", b"SQLite format 3\0" + b"\xff" * 4_000, b"x" * 9_000])
    def test_one_that_is_missing_or_damaged_holds_nothing(self, store: Store, content: bytes | None) -> None:
        store.asks("Fix it", 1)
        store.path.unlink()
        if content is not None:
            store.path.write_bytes(content)
            os.utime(store.path, (1, 1))
        reading = Reader(store).look()
        assert (reading.exchanges, reading.cursor, reading.complete) == ([], {}, False)
        context = Context({}, "/", 0, str(store.root))
        assert list(history(context, 0, Files())) == []

    def test_one_with_other_tables_holds_nothing(self, store: Store) -> None:
        store.run("DROP TABLE sessions")
        assert Reader(store).look().exchanges == []

    def test_one_that_is_being_written_is_read_as_it_was_and_its_writer_is_not_held_up(
        self, store: Store
    ) -> None:
        store.asks("Fix it", 1)
        with closing(sqlite3.connect(store.path, isolation_level=None, timeout=0)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE message_nodes SET chat_message = 'x'")
            assert Reader(store).said(final=True) == [("Fix it", "")]
            connection.execute("COMMIT")

    def test_nothing_is_left_beside_it(self, store: Store) -> None:
        store.asks("Fix it", 1)
        before = sorted(store.path.parent.iterdir()), store.path.read_bytes()
        Reader(store).look(final=True)
        assert (sorted(store.path.parent.iterdir()), store.path.read_bytes()) == before


class Person:
    """A person's folders beside a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.files = Files()
        self.env: dict[str, str] = {}

    @property
    def context(self) -> Context:
        return Context(self.env, "/", 0, str(self.store.root))

    def configures(self, text: str, base: str = ".config") -> None:
        file = self.store.root / base / "devin/config.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def tells(self, kind: str = "turn.started", **memo: Any) -> dict[str, Any]:
        return facts({"type": kind, "session": {"id": "amber-otter"}, "memo": memo}, self.context, self.files)


@pytest.fixture
def person(store: Store) -> Person:
    return Person(store)


class TestFacts:
    def test_the_title_is_the_first_ask_that_is_no_command(self, person: Person) -> None:
        person.store.typed("ls -la", 1, shell=1).typed("Fix\nit", 2).typed("More", 3).typed(
            "z", 0, session="blue-fox"
        )
        found = person.tells(prompt="More")
        assert found == {"model": "m-1", "title": "Fix it", "title_source": "first-ask"}

    def test_before_the_store_has_it_it_is_the_prompt(self, person: Person) -> None:
        assert person.tells(prompt="Fix it")["title"] == "Fix it"
        assert "title" not in person.tells()

    @pytest.mark.parametrize(
        ("org", "account"),
        [
            ("org-1234", "org-1234"),
            ("dev@example.com", None),
            (7, None),
            ("", None),
            ("a b", None),
            (None, None),
        ],
    )
    def test_the_account_is_the_organizations_id_and_never_an_address(
        self, person: Person, org: object, account: str | None
    ) -> None:
        person.configures(json.dumps({"devin": {"org_id": org}}))
        assert person.tells().get("account_id") == account

    @pytest.mark.parametrize(
        ("text", "account"),
        [
            ('{ // a comment\n "devin": {"org_id": "org-1",}, }', "org-1"),
            ('{ /* "devin": */ "devin": {"org_id": "org-1"}} /* to the end', "org-1"),
            ('{ "a": "// no comment", "devin": {"org_id": "org-1"}, "b": "/*" }', "org-1"),
            ('{ "a": "\\"", // "\n "devin": {"org_id": "org-1"} }', "org-1"),
            ('{ "devin": {"org_id": "org-1" }', None),
            ('{ "devin', None),
            ("", None),
        ],
    )
    def test_settings_may_have_comments(self, person: Person, text: str, account: str | None) -> None:
        person.configures(text)
        assert person.tells().get("account_id") == account

    @pytest.mark.parametrize(
        ("target", "version"),
        [("3000.6.14", "3000.6.14"), ("../v3.1", "v3.1"), ("latest", None), ("3 0", None)],
    )
    @pytest.mark.parametrize("place", ["cli/_versions/current", "_versions/current"])
    def test_the_version_is_the_name_of_the_one_that_is_current(
        self, person: Person, place: str, target: str, version: str | None
    ) -> None:
        link = person.store.path.parents[1] / place
        link.parent.mkdir()
        link.symlink_to(target)
        assert person.tells().get("version") == version

    def test_a_call_reads_nothing(self, person: Person) -> None:
        assert person.tells("tool.ended") == {}

    @pytest.mark.parametrize(
        ("env", "base"),
        [
            ({}, "/home/dev/.local/share"),
            ({"XDG_DATA_HOME": "/data"}, "/data"),
            ({"XDG_DATA_HOME": "data"}, "/home/dev/.local/share"),
            ({"APPDATA": "/roaming"}, "/roaming"),
        ],
    )
    def test_the_store_is_where_data_is_kept(self, env: dict[str, str], base: str) -> None:
        context = Context(env, "/", 0, "/home/dev")
        assert transcript({"session": {"id": "x"}}, context, Files()) == f"{base}/devin/cli/sessions.db"
        assert transcript({"session": {"id": "x"}}, Context({}, "/", 0, None), Files()) is None


class TestHistory:
    def test_the_visible_sessions_are_there_in_milliseconds(self, person: Person) -> None:
        store = person.store.typed("make", 1, shell=1).typed("Fix it", 2).typed("More", 3, shell=None)
        store.session("gray-owl", 0, hidden=1).typed("Secret", 1, session="gray-owl")
        store.session("red-elk", -500).typed("Old", -500, session="red-elk")
        store.session("no-words", 10)
        store.session("a/b", 10).typed("x", 10, session="a/b")
        store.run("UPDATE sessions SET last_activity_at = ? WHERE id = 'amber-otter'", START + 60)
        (past,) = history(person.context, START * 1000 - 1, person.files)
        assert (past.session_id, past.started_ms, past.last_ms) == (
            "amber-otter",
            START * 1000,
            (START + 60) * 1000,
        )
        assert past.turns == 2
        assert past.block == {
            "title": "Fix it",
            "title_source": "first-ask",
            "model": "m-1",
            "cwd": "/home/dev/src",
        }
