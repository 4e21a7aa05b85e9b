"""Looking at the outbox leaves it, and everything around it, as it was."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from sessionpipe.cli.common import Fail
from sessionpipe.cli.store import look, looking, unreadable
from sessionpipe.outbox import SCHEMA_VERSION
from sessionpipe.paths import State, make_private, state_dir


@pytest.fixture
def place() -> State:
    state = State(state_dir())
    make_private(state.root)
    return state


def names(place: State) -> list[str]:
    return sorted(path.name for path in place.root.iterdir() if not path.name.endswith(".reserve"))


def test_a_state_directory_one_may_not_look_into_is_not_taken_for_an_empty_one(
    place: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionpipe.cli.store.os.access", lambda *_: False)  # as for anyone but root
    with pytest.raises(Fail, match="cannot be read by you; `sessionpipe doctor`"):
        look(place)


def test_only_a_damaged_outbox_is_set_aside(place: State) -> None:
    place.outbox.write_bytes(b"no database" * 1000)
    with pytest.raises(sqlite3.DatabaseError) as damaged:
        sqlite3.connect(place.outbox).execute("PRAGMA journal_mode")
    locked = sqlite3.OperationalError("database is locked")
    assert "sets it aside" in unreadable(place, damaged.value).message
    assert "set" not in unreadable(place, locked).message.replace(str(place.outbox), "")


def test_where_nothing_is_nothing_is_made(place: State) -> None:
    with looking(place) as outbox:
        assert outbox is None
    assert names(place) == []


def test_an_outbox_at_rest_gets_no_companions(recorder: Any) -> None:
    recorder.add("one", "session.started")
    recorder.outbox.close()
    with looking(recorder.state) as outbox:
        assert outbox is not None and outbox.count() == (1, 1)
    assert names(recorder.state) == ["outbox.db"]


def test_what_a_worker_has_only_in_its_log_is_seen(recorder: Any) -> None:
    recorder.add("one", "session.started")
    with looking(recorder.state) as outbox:
        assert outbox is not None and outbox.count() == (1, 1)


def test_a_follower_sees_what_comes_later(recorder: Any) -> None:
    with looking(recorder.state, follow=True) as outbox:
        assert outbox is not None and outbox.last_position() == 0
        recorder.add("one", "session.started")
        assert outbox.last_position() == 1


def test_it_cannot_be_written_through(recorder: Any) -> None:
    with pytest.raises(Fail, match="readonly"), looking(recorder.state) as outbox:
        assert outbox is not None
        outbox.add_sink("x", 0)


def test_a_stump_is_damaged(place: State) -> None:
    place.outbox.touch()
    with pytest.raises(Fail, match=r"damaged \(it is no whole database\)"):
        look(place)


def test_what_is_no_database_is_said_in_one_line(place: State) -> None:
    place.outbox.write_bytes(b"no database" * 1000)
    with pytest.raises(Fail, match=r"damaged \(it is no whole database\)"):
        look(place)


def test_one_of_a_newer_version_is_left_alone(recorder: Any) -> None:
    import sqlite3

    recorder.outbox.close()
    raw = sqlite3.connect(recorder.state.outbox)
    raw.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    raw.close()
    with pytest.raises(Fail, match="newer sessionpipe"):
        look(recorder.state)


@pytest.mark.parametrize("name", ["with space", "with?question#hash", "mit-Ümlaut%20"])
def test_any_folder_name_will_do(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from tests.cli.conftest import Recorder

    monkeypatch.setenv("SESSIONPIPE_STATE_DIR", str(tmp_path / name))
    recorder = Recorder()
    recorder.add("one", "session.started")
    with looking(recorder.state) as outbox:
        assert outbox is not None and outbox.count() == (1, 1)
    recorder.outbox.close()
