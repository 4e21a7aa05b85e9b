"""A session is erased: from the bytes of the files too, and every sink hears of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessionpipe.cli import forget as module
from sessionpipe.log import log
from sessionpipe.paths import make_private
from sessionpipe.protocol import short_id
from sessionpipe.sinks import discovery
from tests.sinkrow import put

WORDS = "a sentence that stands nowhere else"


@pytest.fixture(autouse=True)
def roused(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Whose worker was woken; none is started here."""
    woken: list[Path] = []
    monkeypatch.setattr(module, "rouse", lambda state: woken.append(state.root))
    return woken


@pytest.fixture
def told(recorder: Any) -> Any:
    """Two sessions, one of which said something."""
    recorder.add("one", "session.started", {"source": "startup"}, title=WORDS)
    recorder.add("one", "turn.transcript", {"turn": 0, "user": WORDS, "assistant": WORDS * 500, "at": ""})
    recorder.add("two", "session.started", {"source": "startup"})
    return recorder


def stored(recorder: Any) -> list[dict[str, Any]]:
    return [json.loads(row.body) for row in recorder.outbox.read(0, 100)]


def on_disk(recorder: Any) -> bytes:
    return b"".join(path.read_bytes() for path in recorder.state.root.rglob("outbox.db*"))


@pytest.mark.parametrize("named", ["one", "claude-code:one", short_id("claude-code", "one")[:5]])
def test_a_session_goes_and_its_tombstone_is_told_to_every_sink(run: Any, told: Any, named: str) -> None:
    done = run("forget", named)
    assert done.exit_code == 0, done.output
    other, tombstone = stored(told)
    assert other["session"]["id"] == "two"
    del tombstone["id"], tombstone["time"]
    assert tombstone == {
        "protocol": 1,
        "type": "session.forgotten",
        "tier": 3,
        "harness": {"name": "claude-code"},
        "session": {"id": "one", "seq": 2},
        "privacy": {"rulesets": ["secrets@1"], "pii": False},
        "data": {},
    }


def test_the_words_are_gone_from_the_files_bytes(run: Any, told: Any) -> None:
    assert WORDS.encode() in on_disk(told)
    assert run("forget", "one", "--yes").exit_code == 0
    assert WORDS.encode() not in on_disk(told)


def test_the_worker_is_woken_to_tell_the_sinks(run: Any, told: Any, roused: list[Path]) -> None:
    run("forget", "one")
    assert roused == [told.state.root]


def test_the_mark_of_a_session_that_hooks_tell_goes(run: Any, told: Any) -> None:
    told.state.live.mkdir()
    for name in ("claude-code-one", "claude-code-two"):
        (told.state.live / name).write_text("{}")
    assert run("forget", "one").exit_code == 0
    assert [path.name for path in told.state.live.iterdir()] == ["claude-code-two"]


def test_its_rejected_jobs_go_and_no_others(run: Any, told: Any) -> None:
    folder = told.state.spool / "rejected"
    make_private(folder)
    for name, harness, payload in (
        ("its", "claude-code", '{"session_id":"one"}'),
        ("another-session", "claude-code", '{"session_id":"one-more"}'),
        ("another-harness", "codex", '{"session_id":"one"}'),
        ("no-json", "claude-code", 'cut off in "one'),
    ):
        record = {"reason": "r", "harness": harness, "event": "Stop", "at_ms": 1, "payload": payload}
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(record))
    done = run("forget", "one")
    assert "2 of its jobs that were set aside" in done.output
    assert sorted(path.stem for path in folder.iterdir()) == ["another-harness", "another-session"]


def test_a_forgotten_session_is_not_there_any_more(run: Any, told: Any) -> None:
    run("forget", "one")
    assert WORDS not in run("sessions").output
    again = run("forget", "one")
    assert (again.exit_code, again.stderr) == (
        1,
        "sessionpipe: no session is called 'one'; `sessionpipe sessions` lists them\n",
    )


def test_several_meant_are_listed_and_none_is_erased(run: Any, told: Any) -> None:
    told.add("one", "session.started", harness="codex")
    done = run("forget", "one", "--yes")
    assert done.exit_code == 1
    assert "claude-code:one" in done.stderr and "codex:one" in done.stderr
    assert len(stored(told)) == 4


SINKS = """
[[sinks]]
name = "able"
kind = "http"
url = "https://able.example"

[[sinks]]
name = "unable"
kind = "http"
url = "https://unable.example"
paused = true

[[sinks]]
name = "notes"
kind = "file"
path = "/tmp/notes.ndjson"
"""


def test_it_says_which_sinks_are_told_and_which_do_not_say_that_they_forget(
    run: Any, told: Any, config_file: Path
) -> None:
    config_file.write_text(SINKS)
    for name, capabilities in (("able", ["events", "forget"]), ("unable", ["events"])):
        row = told.outbox.add_sink(name, 0)
        file = msgspec.json.encode({"protocol": [1], "capabilities": capabilities})
        receiver = discovery.read(f"https://{name}.example", 200, {}, file, 0)
        put(told.outbox, msgspec.structs.replace(row, discovery=msgspec.to_builtins(receiver)))
    assert run("forget", "one").output.splitlines()[1:] == [
        "  able: is told to forget it",
        "  unable: is told to forget it, but does not say that it does so, once you `sessionpipe sinks resume unable`",
        "  notes: /tmp/notes.ndjson gets a line that says so; the lines it holds are yours to delete",
    ]


def test_a_receiver_without_a_readable_file_does_not_say_that_it_forgets(
    run: Any, told: Any, config_file: Path
) -> None:
    config_file.write_text(SINKS)
    told.outbox.add_sink("unable", 0)
    row = told.outbox.add_sink("able", 0)
    silent = discovery.unread("https://able.example", "HTTP 404", 0)
    put(told.outbox, msgspec.structs.replace(row, discovery=msgspec.to_builtins(silent)))
    able, unable, _ = run("forget", "one").output.splitlines()[1:]
    assert "does not say that it does so" in able
    assert "it has not said yet" in unable


def test_a_person_at_a_terminal_is_asked(run: Any, told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    class Sys:
        stdin = Terminal()

    monkeypatch.setattr(module, "sys", Sys)
    refused = run("forget", "one", input="n\n")
    assert refused.exit_code == 1
    assert len(stored(told)) == 3
    assert run("forget", "one", input="y\n").exit_code == 0


def waiting(recorder: Any, name: str, session: str, at_ms: int, also: str = "") -> None:
    """A job as a hook leaves it, whose payload may name another session too."""
    folder = recorder.state.spool / "new"
    make_private(recorder.state.spool)
    make_private(folder)
    payload = {
        "session_id": session,
        "transcript_path": "/nowhere/x.jsonl",
        "cwd": "/nowhere",
        "hook_event_name": "UserPromptSubmit",
        "prompt": f"{WORDS} {also}",
    }
    header = f"v=1\0harness=claude-code\0event=UserPromptSubmit\0at_ms={at_ms}\0cwd=/nowhere\0\0"
    (folder / name).write_bytes(header.encode() + msgspec.json.encode(payload))


def test_its_waiting_jobs_go_at_once_and_no_others(run: Any, told: Any) -> None:
    its, other = "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10", "8c132906-8c3f-4814-870a-afc3d05e1d2e"
    told.add(its, "session.started")
    waiting(told, "1.job", its, 1, also=other)
    waiting(told, "2.job", other, 1, also=its)
    waiting(told, "3.job", its, 9_000_000_000_000)  # Fired later: the session goes on.
    (told.state.spool / "new" / "4.job").write_bytes(f"torn about {its}".encode())
    assert run("forget", its).exit_code == 0
    assert sorted(path.name for path in (told.state.spool / "new").iterdir()) == ["2.job", "3.job", "4.job"]


def test_the_log_names_it_no_more(run: Any, told: Any) -> None:
    log(told.state, "info", "the transcript of claude-code one is late")
    log(told.state, "info", "the transcript of claude-code two is late")
    assert run("forget", "one").exit_code == 0
    assert "code two is late" in told.state.log.read_text()
    assert "code one" not in told.state.log.read_text()
