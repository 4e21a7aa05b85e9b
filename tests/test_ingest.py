"""ingest: a stream's events in the outbox, as they happen, once, and nothing lost in silence."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.pi_lines import Lines
from sessionpipe.harnesses.pi_stream import parse
from sessionpipe.harnesses.transcripts import Cursor
from sessionpipe.ingest import Printer, Store, redacted
from sessionpipe.intake import map_job, record_drafts
from sessionpipe.outbox import Outbox, Session
from sessionpipe.paths import State, config_dir, make_private
from sessionpipe.spool import Job
from sessionpipe.stream.frames import Chunk, End, Frame, Gap
from sessionpipe.transcripts import TranscriptReader
from tests import streams
from tests.e2e.machine import wait_for
from tests.harnesses.test_pi_runs import ASKED, HEADER, OPENING, SESSION, SETTLED, START, call, said, user
from tests.harnesses.test_pi_stream import line
from tests.privacy import recipes
from tests.recorded import hooks
from tests.schema import assert_valid
from tests.streams import events, ingest, told

STREAMS = streams.data_dir("conformance") / "ingest" / "pi"
RUN = [*OPENING, said(), SETTLED]
RUN_TOLD = [
    "session.started startup",
    "turn.started",
    "turn.ended stop",
    "turn.transcript Go",
    "session.ended exit",
]


@pytest.fixture
def state(tmp_path: Path) -> State:
    make_private(config_dir())
    (config_dir() / "config.toml").write_text('[machine]\nname = "laptop"\n')
    return State(tmp_path / "state")


def frames(lines: list[bytes], at_ms: int = ASKED, **how: Any) -> list[Frame]:
    """Lines that come a millisecond apart, and then their end."""
    chunks: list[Frame] = [Chunk(at_ms + number, each + b"\n") for number, each in enumerate(lines)]
    return [*chunks, End(at_ms + len(lines), **{"signalled": False, **how})]


@contextmanager
def session(state: State, session_id: str = SESSION) -> Iterator[Session]:
    """A session's row, to look at and to change."""
    outbox = Outbox.open(state.outbox)
    with outbox.transaction() as tx:
        row = tx.session("pi", session_id, ASKED)
        yield row
        tx.save(row)
    outbox.close()


# --- recordings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", streams.scenarios(), ids=lambda path: path.name)
def test_a_recorded_stream_becomes_what_is_expected(folder: Path, state: State) -> None:
    found = streams.recorded(streams.load(folder), state)
    for event in found:
        assert_valid({**event, "id": "01K6ABCXYZ0123456789ABCDEF"})
    assert found == streams.expected(folder, "expected.ndjson")


def by_hooks(scenario: str, state: State) -> list[dict[str, Any]]:
    """What the extension's recorded posts of the same run become."""
    make_private(state.root)
    outbox = Outbox.open(state.outbox)
    for hook in hooks(streams.data_dir("conformance") / "harness" / "pi" / scenario):
        job = Job("", "pi", hook.event, hook.at_ms, "/", (), dict(hook.env), False, hook.stdin)
        mapped = map_job(job, Files(hook.file.parent / "files"), "laptop")
        with outbox.transaction() as tx:
            sessions: dict[tuple[str, str], Session] = {}
            record_drafts(tx, sessions, mapped)
            for row in sessions.values():
                tx.save(row)
    outbox.close()
    return events(state)


def comparable(found: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Without what only one of the two can tell: who submitted a prompt, its own name for a run, its clock."""
    own = {"turn.started": {"turn_id", "submitted_by"}, "turn.ended": {"turn_id", "ms"}}
    return [
        (
            event["type"],
            {
                name: value
                for name, value in event["data"].items()
                if name not in own.get(event["type"], {"turn_id"})
            },
        )
        for event in found
        if event["type"] != "turn.transcript"
    ]


@pytest.mark.parametrize(
    "scenario", ["c-tools", "f-http500", "h2-continue", "h4-fork", "l-two-prompts", "n-codemode-nested"]
)
def test_the_stream_and_the_extension_tell_the_same_run_alike(
    scenario: str, state: State, tmp_path: Path
) -> None:
    ingest(state, streams.load(STREAMS / scenario).frames())
    assert comparable(events(state)) == comparable(by_hooks(scenario, State(tmp_path / "hooks")))


FILES = streams.data_dir("conformance") / "transcripts" / "pi"
BESIDE = [folder.name for folder in streams.scenarios() if (FILES / f"{folder.name}.json").exists()]


@pytest.mark.parametrize("scenario", BESIDE)
def test_the_stream_and_the_session_s_file_hold_the_same_exchanges(scenario: str, state: State) -> None:
    """As conformance/transcripts has them of the file that was recorded beside it."""
    file = json.loads((FILES / f"{scenario}.json").read_text("utf-8"))
    ingest(state, streams.load(STREAMS / scenario).frames())
    of_stream = [
        (event["data"]["user"], event["data"]["assistant"])
        for event in events(state)
        if event["type"] == "turn.transcript" and event["session"]["id"] == file["session"]
    ]
    of_file = [(one["user"], one["assistant"]) for look in file["reads"] for one in look["exchanges"]]
    assert of_stream == of_file


def test_every_recorded_stream_becomes_valid_events(shared: Path, tmp_path: Path) -> None:
    """In full, as they were recorded, which the scenarios here are not."""
    seen = 0
    for path in sorted(shared.glob("recordings/pi/*/stdout.ndjson")):
        own = State(tmp_path / path.parent.name)
        lines = path.read_bytes().split(b"\n")
        case = streams.load(STREAMS / path.parent.name)
        ingest(own, frames([each for each in lines if each], case.at_ms, signalled=case.signalled))
        found = events(own)
        for event in found:
            assert_valid(event)
        expected = streams.expected(case.folder, "expected.ndjson")
        assert [event["type"] for event in found] == [event["type"] for event in expected]
        seen += len(found)
    assert seen > 150


# --- as it happens ----------------------------------------------------------------------------------


def test_what_happened_is_in_the_outbox_before_the_stream_goes_on(state: State) -> None:
    seen: list[list[str]] = []

    def slowly() -> Iterator[Frame]:
        yield from frames(OPENING)[:-1]
        seen.append(wait_for(lambda: told(events(state)), "the turn's start"))
        yield Chunk(ASKED + 9, said() + b"\n" + SETTLED + b"\n")
        seen.append(wait_for(lambda: told(events(state))[2:], "the turn's end"))
        yield End(ASKED + 10, False)

    ingest(state, slowly(), since_ms=ASKED)
    assert seen == [RUN_TOLD[:2], RUN_TOLD[2:4]]
    assert told(events(state)) == RUN_TOLD


def test_a_fast_stream_shares_its_commits(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[int] = []
    record = Store.record

    def counted(self: Store, waiting: Any) -> None:
        commits.append(len(waiting))
        record(self, waiting)

    monkeypatch.setattr(Store, "record", counted)
    lines = [
        *OPENING,
        *(call(kind, str(n), args={}, isError=False) for n in range(200) for kind in ("start", "end")),
    ]
    ingest(state, [Chunk(ASKED, b"\n".join([*lines, said(), SETTLED, b""])), End(ASKED + 9, False)])
    assert len(events(state)) == 405
    assert len(commits) < 10


def test_lines_cut_anywhere_and_without_a_last_end_are_whole(state: State) -> None:
    data = b"\r\n".join([RUN[0], b"", *RUN[1:]])
    ingest(
        state, [*(Chunk(ASKED, data[at : at + 7]) for at in range(0, len(data), 7)), End(ASKED + 5, False)]
    )
    assert told(events(state)) == RUN_TOLD


# --- how it ended -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "reason", "error"),
    [({"signalled": True}, "interrupt", None), ({}, "error", "unknown"), ({"status": 1}, "error", "unknown")],
)
def test_a_stream_that_breaks_off_ends_turn_and_session(
    state: State, how: dict[str, Any], reason: str, error: str | None
) -> None:
    ingest(state, frames([*OPENING, said("Half", "toolUse"), b'{"type":"tool_exec'], **how))
    *_, turn, talk, end = events(state)
    assert (turn["data"]["reason"], turn["data"].get("error")) == (reason, error)
    assert (talk["data"]["assistant"], end["data"]) == ("Half", {"reason": "other"})


def test_a_session_that_was_cut_off_goes_on_as_one(state: State) -> None:
    ingest(state, frames(OPENING, signalled=True))
    later = [HEADER, START, user("More", ASKED + 1000), said(), SETTLED]
    ingest(state, frames(later, ASKED + 1000))
    found = events(state)
    assert told(found)[5:] == [
        "session.started resume",
        "turn.started",
        "turn.ended stop",
        "turn.transcript More",
        "session.ended exit",
    ]
    assert [event["session"]["seq"] for event in found] == list(range(len(found)))
    assert [e["data"]["turn"] for e in found if e["type"] == "turn.transcript"] == [1, 2]


# --- nothing twice ----------------------------------------------------------------------------------


def test_a_stream_that_was_saved_is_recorded_once_with_its_own_times(state: State) -> None:
    for _ in range(2):
        ingest(state, frames(RUN, ASKED + 86_400_000))
    found = events(state)
    assert told(found) == RUN_TOLD
    assert found[1]["time"] == "2026-11-29T17:52:57.513Z"


def test_a_saved_stream_adds_what_is_not_known_of_it(state: State) -> None:
    ingest(state, frames(RUN, ASKED + 86_400_000))
    more = [START, user("More", ASKED + 60_000), said("Yes.", timestamp=ASKED + 61_000), SETTLED]
    ingest(state, frames([*RUN, *more], ASKED + 86_400_010))
    assert told(events(state)) == [
        *RUN_TOLD,
        "turn.started",
        "turn.ended stop",
        "turn.transcript More",
        "session.ended exit",
    ]


def test_a_saved_stream_of_a_run_that_hooks_told_adds_nothing(state: State) -> None:
    before = by_hooks("c-tools", state)
    stream = streams.load(STREAMS / "c-tools")
    ingest(state, stream._replace(at_ms=stream.at_ms + 86_400_000).frames())
    assert events(state) == before


def test_words_that_were_read_late_do_not_count_as_the_newest(state: State) -> None:
    """A worker finds the end of an earlier run in its file while this one is read, or long after it was saved."""
    ingest(state, frames(RUN))
    with session(state) as row:
        row.last_ms, row.last_type = ASKED + 10**9, "turn.transcript"
    more = [HEADER, START, user("More", ASKED + 60_000), said(timestamp=ASKED + 61_000), SETTLED]
    ingest(state, frames(more, ASKED + 60_000))
    later = [HEADER, START, user("Again", ASKED + 120_000), said(timestamp=ASKED + 121_000), SETTLED]
    ingest(state, frames(later, ASKED + 86_400_000))
    assert [one for one in told(events(state)) if one.startswith("turn.transcript")] == [
        "turn.transcript Go",
        "turn.transcript More",
        "turn.transcript Again",
    ]


def test_a_run_whose_reader_was_killed_is_completed_from_what_was_saved(state: State) -> None:
    lines = [*OPENING, said("One.", "toolUse", timestamp=ASKED + 1_000)]
    lines += [call("start", args={}), call("end", isError=False, durationMs=5)]
    at = ASKED + 86_400_000

    def until_killed() -> Iterator[Frame]:
        yield from frames(lines, at)[:-1]
        wait_for(lambda: len(events(state)) == 4, "the call")
        # Nothing of the end is recorded.
        state.outbox.rename(state.root / "kept.db")
        yield End(at, False)

    ingest(state, until_killed(), since_ms=at)
    for path in state.root.glob("outbox.db*"):
        path.unlink()
    (state.root / "kept.db").rename(state.outbox)
    rest = [line("message_end", message={"role": "toolResult", "timestamp": ASKED + 2_000})]
    rest += [
        call("start", "d", args={}),
        call("end", "d", isError=False),
        said(timestamp=ASKED + 3_000),
        SETTLED,
    ]
    ingest(state, frames([*lines, *rest], at))
    assert told(events(state)) == [
        "session.started startup",
        "turn.started",
        *["tool.started bash", "tool.ended bash"] * 2,
        "turn.ended stop",
        "turn.transcript Go",
        "session.ended exit",
    ]


@pytest.mark.parametrize("at", [ASKED, ASKED + 86_400_000], ids=["live", "saved"])
def test_an_exchange_that_was_cut_off_is_not_told_again_with_its_end(state: State, at: int) -> None:
    lines = [*OPENING, said("One.", "toolUse", timestamp=ASKED + 1_000)]
    ingest(state, frames(lines, at, signalled=True))
    ingest(state, frames([*lines, said(timestamp=ASKED + 3_000), SETTLED], ASKED + 86_400_000))
    found = [event["data"] for event in events(state) if event["type"] == "turn.transcript"]
    assert [(one["user"], one["assistant"]) for one in found] == [("Go", "One.")]


def test_two_readers_of_one_stream_record_it_once(state: State) -> None:
    ingest(state, frames(RUN))
    before = events(state)
    ingest(state, frames(RUN), since_ms=ASKED)
    assert events(state) == before


def test_a_session_that_hooks_tell_is_left_to_them(state: State) -> None:
    state.live.mkdir(parents=True)
    (state.live / f"pi-{SESSION}").write_text(json.dumps({"pid": os.getpid(), "since": ASKED - 100}))
    assert ingest(state, frames(RUN)) == []
    assert events(state) == []
    assert "hooks tell it" in state.log.read_text()
    outbox = Outbox.look(state.outbox)
    assert outbox and outbox.count() == (0, 0)
    outbox.close()


def test_a_session_that_hooks_told_before_is_recorded_from_its_stream(state: State) -> None:
    state.live.mkdir(parents=True)
    mark = {"pid": 1, "since": ASKED - 9_000, "until": ASKED - 5_000}
    (state.live / f"pi-{SESSION}").write_text(json.dumps(mark))
    ingest(state, frames(RUN))
    assert told(events(state)) == RUN_TOLD


def entry(number: int, message: dict[str, Any], at: str) -> bytes:
    parent = f"{number - 1:08x}" if number else None
    return line("message", id=f"{number:08x}", parentId=parent, timestamp=at, message=message) + b"\n"


def test_what_a_stream_told_is_not_told_again_from_the_session_s_file(state: State, tmp_path: Path) -> None:
    """The person goes on with the session in a terminal, where hooks have the file read."""
    ingest(state, frames(RUN))
    file = tmp_path / "session.jsonl"
    run = [("user", "Go", "57.513Z"), ("assistant", "Done.", "57.520Z")]
    later = [("user", "In the terminal", "59.000Z"), ("assistant", "Yes.", "59.500Z")]
    lines = [HEADER + b"\n"]
    for number, (role, text, at) in enumerate(run + later):
        message = {"role": role, "content": text, **({"stopReason": "stop"} if role == "assistant" else {})}
        lines.append(entry(number, message, f"2026-11-29T17:52:{at}"))
    file.write_bytes(b"".join(lines))
    outbox = Outbox.open(state.outbox)
    with outbox.transaction() as tx:
        row = tx.session("pi", SESSION, ASKED)
        want = {"path": str(file), "said": None, "final": True, "ended_ms": ASKED + 2_000}
        tx.queue_read(row, want, ASKED, ASKED)
    TranscriptReader(outbox, log=lambda _level, message: None).step(ASKED + 60_000)
    outbox.close()
    exchanges = [e["data"] for e in events(state) if e["type"] == "turn.transcript"]
    assert [(one["turn"], one["user"]) for one in exchanges] == [(1, "Go"), (2, "In the terminal")]


def test_what_a_file_is_still_awaited_for_is_left_to_the_file(state: State, tmp_path: Path) -> None:
    """A run told by hooks is not in its file yet when the next one comes as a stream: in order, by one of them."""
    make_private(state.root)
    with session(state) as row:
        row.state = {"started": True}
        row.last_ms = ASKED - 5_000
    outbox = Outbox.open(state.outbox)
    with outbox.transaction() as tx:
        row = tx.session("pi", SESSION, ASKED)
        want = {"path": "/f.jsonl", "said": "x", "final": True, "ended_ms": ASKED - 5_000}
        tx.queue_read(row, want, ASKED, ASKED)
    ingest(state, frames(RUN))
    assert "turn.transcript Go" not in told(events(state))
    (owed,) = outbox.pending_reads()
    assert owed.want == {"path": "/f.jsonl", "said": None, "final": False, "ended_ms": ASKED + 6}
    outbox.close()


def test_the_turns_of_a_session_are_counted_on(state: State) -> None:
    make_private(state.root)
    with session(state) as row:
        row.transcript = {"cursor": Cursor(9, "m", 5, 0, [], 0)._asdict(), "turn": 7}
    ingest(state, frames(RUN))
    with session(state) as row:
        assert row.transcript["turn"] == 8
        assert Cursor.of(row.transcript["cursor"]).sent_ms == ASKED + 4


# --- what a person forgot ---------------------------------------------------------------------------


def test_what_was_said_before_a_session_was_forgotten_is_not_told(state: State) -> None:
    def forgotten() -> Iterator[Frame]:
        yield from frames(OPENING)[:-1]
        wait_for(lambda: events(state), "the turn's start")
        outbox = Outbox.open(state.outbox)
        outbox.forget("pi", SESSION, ASKED + 500, 1, lambda seq: b'{"type":"session.forgotten","data":{}}')
        outbox.close()
        yield Chunk(ASKED + 900, said() + b"\n" + SETTLED + b"\n")
        yield End(ASKED + 901, False)

    ingest(state, forgotten(), since_ms=ASKED)
    found = told(events(state))
    assert found[0] == "session.forgotten"
    assert not any(one.startswith("turn.transcript") for one in found)


# --- secrets ----------------------------------------------------------------------------------------


def test_no_credential_reaches_the_disk_or_the_printed_events(state: State) -> None:
    secret = "ghp_" + recipes.generated(36)
    lines = [
        *OPENING[:-1],
        user(f"Use {secret}"),
        said(f"I use {secret}.", "toolUse"),
        call("start", args={"command": f"curl -H 'Authorization: Bearer {secret}' x"}),
        call("end", result={"content": [{"type": "text", "text": f"token={secret}"}]}, isError=True),
        line("queue_update", steering=[secret], followUp=[]),
        line("custom", password="hunter" + "2" * 9),
        f"no json {secret}".encode(),
        SETTLED,
    ]
    ingest(state, frames(lines))
    assert len(events(state)) == 7
    assert not any(secret.encode() in path.read_bytes() for path in state.root.rglob("*") if path.is_file())
    printed = [json.dumps(redacted(event)) for event in parse(lines)]
    assert len(printed) == 7
    assert not any(secret in one or "hunter" in one for one in printed)


# --- printed events ---------------------------------------------------------------------------------


def test_what_a_terminal_would_obey_is_escaped_and_reads_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    evil = "\x9b2J\x7f\u202e\u2028"
    Printer().feed([line("message_end", message={"role": "assistant", "content": evil})])
    (printed,) = capfd.readouterr().out.splitlines()
    assert printed.isascii()
    assert json.loads(printed)["text"] == evil


# --- nothing lost in silence ------------------------------------------------------------------------


def test_a_line_that_is_too_long_is_said(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionpipe.ingest.Lines", lambda: Lines(600))
    long = line("message_start", message={"role": "user", "content": "x" * 1000})
    assert ingest(state, frames([*OPENING, long, said(), SETTLED])) == [
        "1 line longer than 64 MiB could not be read"
    ]
    assert told(events(state)) == RUN_TOLD


def test_a_line_that_cannot_be_read_is_said(state: State) -> None:
    deep = line("tool_execution_start", toolCallId="c", toolName="bash", args=0).replace(
        b'"args":0', b'"args":' + b"[" * 100_000 + b"]" * 100_000
    )
    assert ingest(state, frames([*OPENING, deep, said(), SETTLED])) == ["1 line of Pi's could not be read"]
    assert told(events(state)) == RUN_TOLD


def test_what_the_protocol_has_no_words_for_is_said(state: State) -> None:
    start = line("tool_execution_start", toolCallId="c", toolName="a tool of words", args={})
    assert ingest(state, frames([*OPENING, start, said(), SETTLED])) == [
        "1 event not recorded: the protocol has no words for such a tool_execution_start"
    ]
    assert told(events(state)) == RUN_TOLD


def test_half_a_line_at_the_end_is_not_said(state: State) -> None:
    frames = [Chunk(ASKED, b"\n".join([*OPENING, said()[:40]])), End(ASKED, signalled=True)]
    assert ingest(state, frames) == []


def test_a_gap_costs_a_line_and_no_more(state: State) -> None:
    torn = [Chunk(ASKED, b"\n".join([*OPENING, b'{"type":"message_en'])), Gap(ASKED, 9)]
    ingest(state, [*torn, Chunk(ASKED, b'd","x":1}\n' + said() + b"\n" + SETTLED + b"\n"), End(ASKED, False)])
    assert told(events(state)) == RUN_TOLD


def test_what_is_no_stream_is_said(state: State) -> None:
    assert ingest(state, frames([b"Hello,", b"this is an answer."])) == [
        "nothing was recorded: this is not Pi's JSON stream; run it with --mode json"
    ]
    assert ingest(state, [End(ASKED, False)]) == []
    assert not state.outbox.exists()


def test_a_session_that_nothing_named_is_said(state: State) -> None:
    assert ingest(state, frames([START, user(), said(), SETTLED])) == [
        "5 events not recorded: nothing named their session; in --mode rpc, ask get_state"
    ]


def test_a_session_whose_name_is_none_is_said(state: State) -> None:
    bad = json.dumps(json.loads(HEADER) | {"id": "a name with spaces"}).encode()
    (said_,) = ingest(state, frames([bad, *RUN[1:]]))
    assert said_ == "4 events not recorded: its session id is not one"


def test_an_outbox_that_cannot_be_used_is_said_and_nothing_is_held_up(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionpipe.ingest._MENDING_S", 0.0)
    make_private(state.root)
    state.outbox.write_bytes(b"no database, and never was one" * 1000)
    (said_,) = ingest(state, frames(RUN))
    assert said_.startswith("5 events not recorded: the outbox ")
    assert "sets it aside" in said_


def test_an_outbox_that_is_locked_is_waited_for(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Exception] = []
    record = Store.record

    def stubborn(self: Store, waiting: Any) -> None:
        if len(tries) < 2:
            tries.append(sqlite3.OperationalError("database is locked"))
            raise tries[-1]
        record(self, waiting)

    monkeypatch.setattr(Store, "record", stubborn)
    monkeypatch.setattr("sessionpipe.ingest._RETRY_S", 0.01)
    assert ingest(state, frames(RUN)) == []
    assert len(tries) == 2
    assert told(events(state)) == RUN_TOLD


def test_what_waits_for_an_outbox_is_bounded_and_what_is_too_much_is_counted(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionpipe.ingest.PENDING_BYTES", 4_000)
    monkeypatch.setattr("sessionpipe.ingest._LAST_TRIES_S", 0.0)
    monkeypatch.setattr("sessionpipe.ingest.make_private", _refuse)
    (said_,) = ingest(
        state, frames([*OPENING, *(call("start", str(n), args={}) for n in range(50)), said(), SETTLED])
    )
    assert said_ == "55 events not recorded: no room"


def _refuse(_path: Path) -> None:
    raise OSError("no room")


def test_an_event_that_cannot_be_recorded_takes_no_other_with_it(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    def picky(tx: Any, sessions: Any, item: Any) -> None:
        if item.drafts[0]["type"] == "turn.started":
            raise ValueError("this one")
        record_drafts(tx, sessions, item)

    monkeypatch.setattr("sessionpipe.ingest.record_drafts", picky)
    assert ingest(state, frames(RUN)) == [
        "1 event not recorded: could not be recorded: ValueError('this one')"
    ]
    assert told(events(state)) == [RUN_TOLD[0], *RUN_TOLD[2:]]


def test_an_outbox_that_was_replaced_is_left_for_the_new_one(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionpipe.ingest._RETRY_S", 0.01)
    moved = state.root / "moved.db"
    real = record_drafts
    done: list[int] = []

    def move(tx: Any, sessions: Any, item: Any) -> None:
        if not done:
            done.append(1)
            state.outbox.rename(moved)
        real(tx, sessions, item)

    monkeypatch.setattr("sessionpipe.ingest.record_drafts", move)
    assert ingest(state, frames(RUN)) == []
    assert told(events(state)) == RUN_TOLD
