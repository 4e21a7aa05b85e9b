"""OpenCode's store: what was said, what a session is called, what was there before, beside its own writer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.adapters.fold import fold
from sessionpipe.harnesses import opencode
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.history import Past
from sessionpipe.harnesses.opencode import asked, exchanges, facts, history, missed, transcript
from sessionpipe.harnesses.transcripts import Reading, Want, digest
from tests.harnesses.growing import said_in
from tests.harnesses.opencode_store import Store

SESSION = "ses_1"
T = 1_795_977_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "data" / "opencode" / "opencode.db")
    yield opened
    opened.close()


def read(store: Store, cursor: dict[str, Any] | None = None, said: str | None = None, **want: Any) -> Reading:
    known = {"final": False, "since_ms": None, "ended_ms": T + 10**9, "session": SESSION, **want}
    return exchanges(str(store.path), cursor or {}, Want(said=digest(said or ""), **known), Files())


def context(store: Store) -> Context:
    return Context({"XDG_DATA_HOME": str(store.path.parents[1])}, "/hook", T, "/home/dev")


def draft(kind: str, at_ms: int = T, prompt: str | None = None, **session: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "at_ms": at_ms,
        "harness": {"name": "opencode", "event": "chat.message"},
        "session": {"id": SESSION, **session},
        "data": {"source": "resume"} if kind == "session.started" else {},
        "memo": {"prompt": prompt} if prompt else {},
    }


# --- transcripts ----------------------------------------------------------------------------------


def test_an_answer_that_is_not_complete_is_waited_for(store: Store) -> None:
    store.session(SESSION, T)
    ask = store.ask(SESSION, T + 1, "Go")
    answer = store.say(SESSION, T + 2, ask, "Half", time={"created": T + 2})
    waiting = read(store, said=answer)
    assert (waiting.exchanges, waiting.complete) == ([], False)
    store.execute(
        "UPDATE message SET data = json_set(data, '$.time.completed', ?) WHERE id = ?", T + 3, answer
    )
    done = read(store, waiting.cursor, said=answer)
    assert (said_in(done), done.complete) == ([("Go", "Half")], True)
    assert read(store, done.cursor, said=answer) == Reading([], done.cursor, complete=True)


def test_an_answer_in_several_messages_is_one(store: Store) -> None:
    store.session(SESSION, T)
    ask = store.ask(SESSION, T + 1, "Go", {"type": "file", "url": "x"}, {"type": "text", "text": "and on"})
    store.say(SESSION, T + 2, ask, "First.", {"type": "reasoning", "text": "hm"}, {"type": "tool"})
    last = store.say(SESSION, T + 3, ask, "Second.")
    (exchange,) = read(store, said=last).exchanges
    assert (exchange.user, exchange.assistant) == ("Go\n\nand on", "First.\n\nSecond.")
    assert exchange.at == "2026-11-29T18:30:00.008Z"


def test_what_the_harness_put_there_is_nobody_s_words(store: Store) -> None:
    store.session(SESSION, T)
    added = {"type": "text", "text": "Called the Read tool", "synthetic": True}
    dropped = {"type": "text", "text": "stale", "ignored": True}
    ask = store.ask(SESSION, T + 1, "Go", added, dropped)
    last = store.say(SESSION, T + 2, ask, "Done.", dropped)
    assert said_in(read(store, said=last)) == [("Go", "Done.")]


def test_a_compaction_in_the_middle_of_an_answer_is_no_part_of_it(store: Store) -> None:
    store.session(SESSION, T)
    ask = store.ask(SESSION, T + 1, "Go")
    store.say(SESSION, T + 2, ask, "Before.")
    compaction = store.ask(SESSION, T + 3, {"type": "compaction", "auto": True})
    store.say(SESSION, T + 4, compaction, "The summary", mode="compaction", summary=True)
    goes_on = store.ask(SESSION, T + 5, {"type": "text", "text": "Continue", "synthetic": True})
    last = store.say(SESSION, T + 6, goes_on, "After.")
    assert said_in(read(store, said=last)) == [("Go", "Before.\n\nAfter.")]


def test_a_prompt_of_nothing_but_a_file_is_one(store: Store) -> None:
    store.session(SESSION, T)
    ask = store.ask(SESSION, T + 1, {"type": "file", "url": "x"})
    assert said_in(read(store, said=store.say(SESSION, T + 2, ask, "A cat."))) == [("", "A cat.")]


def test_a_prompt_without_an_answer_comes_when_the_next_one_does(store: Store) -> None:
    store.session(SESSION, T)
    first = store.say(SESSION, T + 2, store.ask(SESSION, T + 1, "One"), "1")
    store.ask(SESSION, T + 3, "Typed meanwhile")
    reading = read(store, said=first)
    assert (said_in(reading), reading.complete) == ([("One", "1")], True)
    last = store.say(SESSION, T + 5, store.ask(SESSION, T + 4, "Two"), "2")
    assert said_in(read(store, reading.cursor, said=last)) == [("Typed meanwhile", ""), ("Two", "2")]


def test_of_turns_whose_hooks_are_not_recorded_yet_nothing_is_told(store: Store) -> None:
    store.session(SESSION, T)
    ends = [
        (at + 20, store.say(SESSION, T + at + 5, store.ask(SESSION, T + at, str(at)), "Done"))
        for at in (1, 100, 200)
    ]
    cursor: dict[str, Any] = {}
    told = []
    for ended, said in ends:
        reading = read(store, cursor, said, ended_ms=T + ended, now_ms=T + 1_000)
        assert reading.complete
        cursor = reading.cursor
        told.append(said_in(reading))
    assert told == [[("1", "Done")], [("100", "Done")], [("200", "Done")]]


def test_a_turn_that_failed_before_anything_was_said_is_told(store: Store) -> None:
    store.session(SESSION, T)
    store.ask(SESSION, T + 1, "Go")
    reading = read(store)
    assert (said_in(reading), reading.complete) == ([("Go", "")], True)


def test_the_last_answer_of_a_session_that_ends_is_told_as_it_is(store: Store) -> None:
    store.session(SESSION, T)
    store.say(SESSION, T + 2, store.ask(SESSION, T + 1, "Go"), "Half", time={"created": T + 2})
    assert said_in(read(store, final=True)) == [("Go", "Half")]


def test_a_session_seen_from_its_middle_begins_at_the_prompt_that_was_being_answered(store: Store) -> None:
    store.session(SESSION, T)
    for n in range(3):
        last = store.say(
            SESSION, T + 10 * n + 5, store.ask(SESSION, T + 10 * n + 1, f"Ask {n}"), f"Answer {n}"
        )
    assert [user for user, _ in said_in(read(store, said=last, since_ms=T + 12))] == ["Ask 1", "Ask 2"]
    assert len(read(store, said=last, since_ms=T).exchanges) == 3


def test_what_a_fork_copied_is_not_its_own(store: Store) -> None:
    store.session(SESSION, T)
    store.say(SESSION, T - 5, store.ask(SESSION, T - 9, "Copied"), "Copied, too")
    last = store.say(SESSION, T + 2, store.ask(SESSION, T + 1, "Own"), "Yes")
    assert said_in(read(store, said=last, since_ms=T)) == [("Own", "Yes")]


def test_what_is_reverted_is_not_read(store: Store) -> None:
    store.session(SESSION, T)
    store.say(SESSION, T + 2, store.ask(SESSION, T + 1, "Stays"), "Yes")
    gone = store.ask(SESSION, T + 3, "Goes")
    store.say(SESSION, T + 4, gone, "No")
    store.execute("UPDATE session SET revert = ?", json.dumps({"messageID": gone}))
    reading = read(store)
    assert said_in(reading) == [("Stays", "Yes")]
    # The next prompt takes them away.
    store.execute("UPDATE session SET revert = NULL")
    store.execute("DELETE FROM message WHERE id >= ?", gone)
    last = store.say(SESSION, T + 6, store.ask(SESSION, T + 5, "Instead"), "Fine")
    assert said_in(read(store, reading.cursor, said=last)) == [("Instead", "Fine")]


def test_another_session_s_words_are_not_this_one_s(store: Store) -> None:
    for name in ("ses_0", SESSION):
        store.session(name, T)
        last = store.say(name, T + 2, store.ask(name, T + 1, f"Ask in {name}"), "Yes")
    assert said_in(read(store, said=last)) == [(f"Ask in {SESSION}", "Yes")]


@pytest.mark.parametrize("cursor", [{"ms": "x"}, {"ms": 1}, {"at": 7, "mark": ""}, {"ms": None, "id": None}])
def test_a_cursor_that_is_none_of_ours_begins_anew(store: Store, cursor: dict[str, Any]) -> None:
    store.session(SESSION, T)
    last = store.say(SESSION, T + 2, store.ask(SESSION, T + 1, "Go"), "Yes")
    assert said_in(read(store, cursor, said=last)) == [("Go", "Yes")]


def test_more_than_one_look_takes_comes_in_several_readings(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opencode, "READING_CHARS", 30)
    store.session(SESSION, T)
    for n in range(6):
        last = store.say(SESSION, T + 10 * n + 5, store.ask(SESSION, T + 10 * n, f"Ask {n}"), f"Answer {n}")
    cursor: dict[str, Any] = {}
    asks: list[str] = []
    readings = 0
    while True:
        reading = read(store, cursor, said=last)
        asks += [user for user, _ in said_in(reading)]
        cursor = reading.cursor
        readings += 1
        if reading.complete:
            break
        assert reading.exchanges
    assert (asks, readings > 1) == ([f"Ask {n}" for n in range(6)], True)


@pytest.mark.parametrize("path", [None, "/nowhere/opencode.db", "relative.db", "", "/"])
def test_without_a_store_there_is_nothing_yet(path: str | None) -> None:
    want = Want(None, False, None, T, SESSION)
    assert exchanges(path, {}, want, Files()) == Reading([], {}, complete=False)
    assert exchanges(path, {}, want._replace(final=True), Files()).complete


def test_a_session_the_store_does_not_know_says_nothing(store: Store) -> None:
    assert read(store) == Reading([], {}, complete=False)


ODD = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.none(), max_size=1) | st.just({"a": 1})


@given(data=st.data())
def test_rows_of_any_shape_are_survived(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = Store(tmp_path_factory.mktemp("odd") / "opencode.db")
    keys = st.sampled_from(["role", "parentID", "time", "mode", "summary", "type", "text", "synthetic"])
    made = st.dictionaries(keys, ODD | st.sampled_from(["user", "assistant", "text"]), max_size=5)
    try:
        store.session(
            SESSION, T, model=data.draw(st.none() | st.just('{"id": 7}')), title=data.draw(st.text())
        )
        for n in range(data.draw(st.integers(0, 4))):
            times = {"session_id": SESSION, "time_created": T + n, "time_updated": T}
            store.put({"table": "message", "id": f"m{n}", "data": data.draw(made), **times})
            store.put(
                {"table": "part", "id": f"p{n}", "message_id": f"m{n}", "data": data.draw(made), **times}
            )
        where = Context({}, "/", T, None)
        read(store, final=data.draw(st.booleans()))
        told = {**draft("session.started", T + 50), "memo": {"file": str(store.path)}}
        facts(told, where, Files())
        missed([told], where, Files())
    finally:
        store.close()


# --- where it is ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "home", "place"),
    [
        ({}, "/home/dev", "/home/dev/.local/share/opencode/opencode.db"),
        ({"XDG_DATA_HOME": "/data"}, "/home/dev", "/data/opencode/opencode.db"),
        ({"XDG_DATA_HOME": "data"}, "/home/dev", "/home/dev/.local/share/opencode/opencode.db"),
        ({}, None, None),
    ],
)
def test_where_the_store_is(env: dict[str, str], home: str | None, place: str | None) -> None:
    assert transcript({}, Context(env, "/", T, home), Files()) == place


# --- titles ---------------------------------------------------------------------------------------


def test_a_title_the_plugin_did_not_hear_is_in_the_store(store: Store) -> None:
    store.session(SESSION, T, title="Count the files")
    assert facts(draft("turn.started"), context(store), Files()) == {
        "title": "Count the files",
        "title_source": "harness",
    }
    assert facts(draft("turn.started", title="Heard"), context(store), Files()) == {}
    assert facts(draft("tool.ended"), context(store), Files()) == {}


def test_without_a_title_it_is_the_first_ask(store: Store) -> None:
    store.session(SESSION, T)
    store.ask(SESSION, T - 9, "What the fork copied")
    store.ask(SESSION, T + 1, {"type": "text", "text": "put there", "synthetic": True})
    store.ask(SESSION, T + 2, '"Count my files"')
    store.ask(SESSION, T + 3, "Another")
    told = facts(draft("turn.started", prompt="Another"), context(store), Files())
    assert told == {"title": "Count my files", "title_source": "first-ask"}


def test_before_the_store_has_it_the_first_ask_is_the_prompt(store: Store) -> None:
    told = facts(draft("turn.started", prompt='"Count my files"'), context(store), Files())
    assert told == {"title": "Count my files", "title_source": "first-ask"}
    assert facts(draft("turn.started"), context(store), Files()) == {}


@pytest.mark.parametrize(
    ("prompt", "typed"),
    [('"Say hello"', "Say hello"), ('"One" or "two"', '"One" or "two"'), ("plain", "plain"), ('"', '"')],
)
def test_the_quotes_that_run_puts_around_a_prompt(prompt: str, typed: str) -> None:
    assert asked(prompt) == typed


# --- what no hook told ----------------------------------------------------------------------------


def test_a_turn_whose_process_was_ended_is_told_when_its_session_goes_on(store: Store) -> None:
    store.session(SESSION, T)
    ask = store.ask(SESSION, T + 1, "Go")
    store.say(SESSION, T + 2, ask, "Half", time={"created": T + 2})
    started = {**draft("turn.started", T + 1), "data": {"turn_id": ask}}
    state, _ = fold({}, [started])
    end, *rest = missed([draft("session.started", T + 60)], context(store), Files())
    assert (end["type"], end["data"]) == ("turn.ended", {"turn_id": ask, "reason": "interrupt"})
    assert (end["at_ms"], [one["type"] for one in rest]) == (T + 2, ["session.started"])
    _, told = fold(state, [end])
    assert [one["type"] for one in told] == ["turn.ended"]


@pytest.mark.parametrize("source", ["startup", "fork", "unknown"])
def test_only_a_session_that_goes_on_is_looked_at(store: Store, source: str) -> None:
    store.session(SESSION, T)
    store.say(SESSION, T + 2, store.ask(SESSION, T + 1, "Go"), "Half", time={"created": T + 2})
    drafts = [{**draft("session.started", T + 60), "data": {"source": source}}]
    assert missed(drafts, context(store), Files()) == drafts


def test_a_turn_that_ended_is_not_ended_again(store: Store) -> None:
    store.session(SESSION, T)
    drafts = [draft("session.started", T + 60)]
    assert missed(drafts, context(store), Files()) == drafts
    store.say(SESSION, T + 2, store.ask(SESSION, T + 1, "Go"), "Whole")
    assert missed(drafts, context(store), Files()) == drafts


# --- history --------------------------------------------------------------------------------------


def test_what_was_there_before(store: Store) -> None:
    model = json.dumps({"id": "m-1", "providerID": "p"})
    store.session("ses_named", T, title="A title", model=model, time_updated=T + 90)
    store.ask("ses_named", T - 5, "Copied")
    store.ask("ses_named", T + 1, "One")
    store.ask("ses_named", T + 2, {"type": "compaction", "auto": True})
    store.ask("ses_named", T + 3, "Two")
    store.session("ses_unnamed", T, time_updated=T + 80)
    store.ask("ses_unnamed", T + 1, "Count my files")
    assert list(history(context(store), T, Files())) == [
        Past(
            "ses_named",
            T,
            T + 90,
            2,
            {"cwd": "/src", "model": "m-1", "title": "A title", "title_source": "harness"},
            "1.18.33",
        ),
        Past(
            "ses_unnamed",
            T,
            T + 80,
            1,
            {"cwd": "/src", "title": "Count my files", "title_source": "first-ask"},
            "1.18.33",
        ),
    ]


def test_what_is_no_past_session_of_a_person_s(store: Store) -> None:
    others: dict[str, dict[str, Any]] = {
        "subagent": {"parent_id": "ses_named"},
        "put away": {"time_archived": T},
        "old": {"time_updated": T - 1},
        "empty": {},
    }
    for name, columns in others.items():
        store.session(name, T, **columns)
        if name != "empty":
            store.ask(name, T + 1, "Go")
    assert list(history(context(store), T, Files())) == []


def test_without_a_store_there_was_nothing() -> None:
    assert list(history(Context({}, "/", T, "/nowhere"), 0, Files())) == []
