"""The receiver's database: once each, in order whatever the order, and gone when it is to be gone."""

from __future__ import annotations

import json
import random
import sqlite3
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.receiver import incoming
from sessionpipe.receiver.store import Store, Taken, Unusable
from tests.receivers.served import NOON, event, story, taken
from tests.receivers.test_board import Told, told

DAY = 86_400_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "receiver.db")
    yield made
    made.close()


def seqs(store: Store, harness: str = "claude-code", session: str = "s-1") -> list[int]:
    row = store.session(harness, session)
    return [seq for seq, _, _ in store.events(row.key)] if row else []


# --- once each ------------------------------------------------------------------------------------


def test_an_event_is_taken_once_whoever_sends_it_again(store: Store) -> None:
    batch = taken(event(seq=0), event(seq=1))
    assert store.take(batch, NOON) == Taken(2, 0, {"claude-code:s-1"})
    assert store.take(batch, NOON) == Taken(0, 2, set())
    assert store.take(taken(event(seq=1, at=NOON + 9), event(seq=2)), NOON) == Taken(
        1, 1, {"claude-code:s-1"}
    )
    assert seqs(store) == [0, 1, 2]


def test_twice_in_one_batch_is_once(store: Store) -> None:
    assert store.take(taken(event(seq=4), event(seq=4)), NOON)[:2] == (1, 1)


def test_two_agents_sessions_of_one_id_are_two(store: Store) -> None:
    store.take(taken(event(seq=0), event(seq=0, harness="codex")), NOON)
    assert seqs(store) == seqs(store, "codex") == [0]


def test_nothing_of_a_batch_is_kept_when_its_transaction_fails(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object, **_named: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("sessionpipe.receiver.store._save", full)
        with pytest.raises(sqlite3.OperationalError):
            store.take(taken(event(seq=0)), NOON)
    assert store.count() == 0
    assert store.take(taken(event(seq=0)), NOON).accepted == 1


def test_what_was_taken_is_there_after_a_restart(store: Store, tmp_path: Path) -> None:
    store.take(taken(event(seq=0, block={"title": "T"})), NOON)
    other = Store(tmp_path / "receiver.db")
    assert other.session("claude-code", "s-1") == store.session("claude-code", "s-1")
    assert other.take(taken(event(seq=0)), NOON).duplicates == 1
    other.close()


# --- in order -------------------------------------------------------------------------------------

LIFE: list[Told] = [
    told("session.started", source="startup"),
    told("turn.started", turn_id="t1"),
    told("tool.started", tool="Bash", call_id="c1"),
    told("attention.needed", attention_id="a1", kind="permission"),
    told("attention.cleared", attention_id="a1", how="answered"),
    told("tool.ended", tool="Bash", call_id="c1", ok=True),
    told("turn.progress", turn=1, user="u", assistant="one", at="x"),
    told("turn.ended", turn_id="t1", reason="stop", background=1),
    told("turn.transcript", turn=1, user="u", assistant="a", at="2026-11-30T12:00:05.000Z"),
    told("turn.started", turn_id="t2"),
    told("turn.progress", turn=2, user="u2", assistant="two", at="x"),
    told("subagent.started", agent_id="g"),
]


@given(st.randoms(use_true_random=False), st.integers(1, 4), st.integers(0, len(LIFE) - 1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_order_of_arrival_makes_no_difference(
    tmp_path: Path, random_: random.Random, size: int, saying: int
) -> None:
    events = taken(
        *(
            json.loads(e.raw)
            # What every event says of the session, and what one of them alone says.
            | {"session": e.block | {"title": f"T{e.seq}", "branch": "b" if e.seq == saying else ""}}
            for e in story(*LIFE)
        )
    )
    mixed = list(events)
    random_.shuffle(mixed)
    rows = []
    for number, sent in enumerate((events, mixed)):
        store = Store(tmp_path / f"{number}.db")
        for start in range(0, len(sent), size):
            store.take(sent[start : start + size], NOON + DAY)
        row = store.session("claude-code", "s-1")
        assert row is not None
        rows.append((row._replace(key=0), [seq for seq, _, _ in store.events(row.key)]))
        store.forget("claude-code", "s-1", NOON)
        store.close()
        (tmp_path / f"{number}.db").unlink()
    assert rows[0] == rows[1]


def test_a_gap_is_no_lost_event(store: Store) -> None:
    store.take(taken(event("session.started", 0), event("turn.started", 90)), NOON)
    row = store.session("claude-code", "s-1")
    assert row is not None and row.memory.running and row.events == 2


# --- progress -------------------------------------------------------------------------------------


def test_of_a_turn_that_runs_the_latest_progress_is_kept_and_after_it_none(store: Store) -> None:
    events = story(*LIFE[:7], told("turn.progress", turn=1, user="u", assistant="two", at="x"), *LIFE[7:9])
    store.take(events[:7], NOON)
    assert 6 in seqs(store)
    store.take(events[7:8], NOON)
    assert 6 not in seqs(store) and 7 in seqs(store)
    store.take(events[8:], NOON)
    assert not {6, 7} & set(seqs(store))
    assert store.take(events, NOON)[:2] == (0, 10)


def test_what_an_overtaken_progress_said_of_its_session_is_known_whatever_comes_late(
    store: Store, tmp_path: Path
) -> None:
    word = "unmistakable-" + "word"
    said = event("turn.progress", 2, turn=1, user=word, assistant=word, block={"title": "Told here alone"})
    store.take(taken(event(seq=0), said, event("turn.progress", 3, turn=1, user="u", assistant="a")), NOON)
    store.take(taken(event("files.changed", 1, paths=["a"])), NOON)
    row = store.session("claude-code", "s-1")
    assert row is not None and row.block["title"] == "Told here alone"
    assert seqs(store) == [0, 1, 3]
    store.close()
    assert word.encode() not in everything(tmp_path / "receiver.db")


# --- forgetting -----------------------------------------------------------------------------------


def everything(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


@pytest.mark.parametrize("how", ["by the sender", "by the button"])
def test_what_is_forgotten_is_gone_from_the_files_too(how: str, store: Store, tmp_path: Path) -> None:
    word = "unmistakable-" + "word"
    store.take(
        taken(event("turn.transcript", 0, tier=2, user=word, block={"title": word, "cwd": f"~/{word}"})), NOON
    )
    store.take(taken(event(seq=0, session="s-2")), NOON)
    assert word.encode() in everything(tmp_path / "receiver.db")
    if how == "by the sender":
        assert store.take(taken(event("session.forgotten", 1)), NOON) == Taken(1, 0, {"claude-code:s-1"})
    else:
        store.forget("claude-code", "s-1", NOON)
    left = everything(tmp_path / "receiver.db")
    assert word.encode() not in left and b"s-1" not in left
    assert seqs(store, session="s-2") == [0]


def test_what_was_forgotten_does_not_come_back_and_what_follows_does(store: Store) -> None:
    store.take(taken(event(seq=0), event(seq=1), event("session.forgotten", 2)), NOON)
    assert store.take(taken(event(seq=0), event(seq=1), event("session.forgotten", 2)), NOON)[:2] == (0, 3)
    assert store.session("claude-code", "s-1") is None
    assert store.take(taken(event(seq=3)), NOON)[:2] == (1, 0)
    assert seqs(store) == [3]


def test_one_forgotten_here_stays_gone_as_far_as_it_had_come(store: Store) -> None:
    store.take(taken(event(seq=0), event(seq=7)), NOON)
    store.forget("claude-code", "s-1", NOON)
    assert store.take(taken(event(seq=3), event(seq=7), event(seq=8)), NOON)[:2] == (1, 2)


def test_one_nobody_heard_of_can_be_forgotten(store: Store) -> None:
    assert store.take(taken(event("session.forgotten", 5)), NOON)[:2] == (1, 0)
    store.forget("pi", "nobody", NOON)
    assert store.count() == 0


# --- finding --------------------------------------------------------------------------------------


def test_a_session_is_found_by_all_it_may_be_called(store: Store) -> None:
    store.take(
        taken(
            event(
                harness="claude-code",
                session="8c132906-8c3f-4814-870a-afc3d05e1d2e",
                block={"title": "Fix the Äußeres Thing"},
            )
        ),
        NOON,
    )
    store.take(taken(event(session="other", at=NOON - DAY)), NOON)
    for said in (
        "8c132906-8c3f-4814-870a-afc3d05e1d2e",
        "58ab6602",
        "58AB",
        "fix the",
        "äußeres THING",
        "ÄUSSERES",
        "claude-code:8c132906-8c3f-4814-870a-afc3d05e1d2e",
    ):
        assert [row.id for row in store.find(said)] == ["8c132906-8c3f-4814-870a-afc3d05e1d2e"], said
    assert store.find("%") == store.find("nothing") == store.find("title") == []


def test_the_newest_come_first_in_pages(store: Store) -> None:
    for n in range(5):
        store.take(taken(event(session=f"s{n}", at=NOON + n // 2)), NOON + DAY)
    first = store.sessions(before=None, most=2)
    second = store.sessions(before=(first[-1].last_ms, first[-1].key), most=9)
    assert [row.id for row in (*first, *second)] == ["s4", "s3", "s2", "s1", "s0"]


def test_the_board_has_those_at_work_however_many_came_since(store: Store) -> None:
    store.take(taken(event("turn.started", session="works", at=NOON)), NOON + DAY)
    for n in range(6):
        store.take(taken(event("session.ended", session=f"s{n}", at=NOON + n + 1, reason="exit")), NOON + DAY)
    rows = store.board(NOON, open_since_ms=NOON - DAY, most_open=10, most=2)
    assert [row.id for row in rows] == ["s5", "s4", "works"]
    assert [row.id for row in store.board(NOON, open_since_ms=NOON + 1, most_open=10, most=1)] == ["s5"]


def test_what_was_not_heard_of_for_long_is_dropped(store: Store, tmp_path: Path) -> None:
    word = "unmistakable-" + "word"
    store.take(taken(event(session="old", block={"title": word})), NOON)
    store.take(taken(event(session="new")), NOON + DAY)
    assert store.prune(NOON + DAY) == 1
    assert store.session("claude-code", "old") is None and seqs(store, session="new") == [0]
    assert word.encode() not in everything(tmp_path / "receiver.db")


def test_events_come_in_pages(store: Store) -> None:
    store.take(taken(*(event(seq=n) for n in range(9))), NOON)
    row = store.session("claude-code", "s-1")
    assert row is not None
    assert [seq for seq, _, _ in store.events(row.key, after=3, most=3)] == [4, 5, 6]
    assert [seq for seq, _, _ in store.latest(row.key, before=8, most=3)] == [5, 6, 7]
    assert incoming.stored(store.events(row.key)[0][1].encode()).seq == 0


# --- the file -------------------------------------------------------------------------------------


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "receiver.db"
    Store(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()


def of_version(version: int, path: Path) -> None:
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {version}")
    db.close()


newer, older = partial(of_version, 99), partial(of_version, 1)


def garbage(path: Path) -> None:
    path.write_bytes(b"not a database at all, " * 200)


@pytest.mark.parametrize(
    ("make", "says"),
    [(foreign, "another program's"), (newer, "a newer"), (older, "an older"), (garbage, "move it away")],
)
def test_what_is_not_its_own_is_left_as_it_is(make: object, says: str, tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    make(path)  # type: ignore[operator]
    before = path.read_bytes()
    with pytest.raises(Unusable, match=says):
        Store(path)
    assert path.read_bytes() == before
