"""What is in force in a process: secrets@1 always, and the person's own rules as they are right now."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessionpipe import redaction
from sessionpipe.clock import now_ms
from sessionpipe.delivery.batch import Limits, Policy, pack
from sessionpipe.liveness import Fifo, Lock
from sessionpipe.outbox import Outbox
from sessionpipe.paths import State, make_private
from sessionpipe.privacy import secrets
from sessionpipe.redaction import PLAIN, load
from sessionpipe.spool import Spool
from sessionpipe.worker import Worker
from tests.delivery.events import opened, record
from tests.e2e.machine import wait_for
from tests.privacy.recipes import generated

TOKEN = "ghp_" + generated(36)
GLOBEX = 'id = "acme@1"\n[[rule]]\nid = "customers"\nwords = ["Globex"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The person's own rules, and this process with none of them afterwards."""
    made = tmp_path / "config" / redaction.FOLDER
    made.mkdir(parents=True)
    redaction.refresh(tmp_path / "config")
    yield made
    for path in made.iterdir():
        path.unlink()
    redaction.refresh(tmp_path / "config")


def test_without_a_folder_it_is_secrets_alone(tmp_path: Path) -> None:
    found = load(tmp_path / "none")
    assert found == (PLAIN, ())
    assert PLAIN.rulesets == ("secrets@1",)
    assert PLAIN.stamp == secrets.RULESET_VERSION
    assert PLAIN.redact(f"a {TOKEN}") == "a [redacted]"


def test_own_rules_come_behind_secrets(folder: Path) -> None:
    (folder / "acme.toml").write_text(GLOBEX)
    rules = load(folder).redaction
    assert rules.rulesets == ("secrets@1", "acme@1")
    assert rules.redact(f"Globex {TOKEN}") == "[redacted] [redacted]"
    assert rules.redact_value({"a": ["globex", TOKEN]}) == {"a": ["[redacted]", "[redacted]"]}


def test_the_name_of_a_field_is_no_text_but_a_key_within_one_is(folder: Path) -> None:
    (folder / "acme.toml").write_text(GLOBEX.replace("Globex", "tool"))
    rules = load(folder).redaction
    assert rules.redact_fields({"tool": "a tool", "input": {"tool": 1}}) == {
        "tool": "a [redacted]",
        "input": {"[redacted]": 1},
    }


def test_of_two_files_with_one_id_the_first_counts(folder: Path) -> None:
    (folder / "a.toml").write_text(GLOBEX)
    (folder / "b.toml").write_text(GLOBEX.replace("Globex", "Initech"))
    found = load(folder)
    assert found.redaction.redact("Globex, Initech") == "[redacted], Initech"
    assert [str(problem) for problem in found.problems] == ["b.toml: its id acme@1 is that of a.toml already"]


def test_what_is_no_file_of_text_is_refused_and_the_others_count(folder: Path) -> None:
    (folder / "acme.toml").write_text(GLOBEX)
    (folder / "bytes.toml").write_bytes(b"\xff\xfe")
    (folder / "folder.toml").mkdir()
    os.mkfifo(folder / "pipe.toml")
    (folder / "gone.toml").symlink_to(folder / "nowhere")
    (folder / "notes.txt").write_text("no rules")
    found = load(folder)
    assert found.redaction.rulesets == ("secrets@1", "acme@1")
    assert [problem.file for problem in found.problems] == [
        "bytes.toml",
        "folder.toml",
        "gone.toml",
        "pipe.toml",
    ]
    (folder / "folder.toml").rmdir()


def test_a_stamp_says_whether_a_row_needs_another_look(folder: Path) -> None:
    (folder / "acme.toml").write_text(GLOBEX)
    own = load(folder).redaction
    (folder / "acme.toml").write_text(GLOBEX.replace("Globex", "Initech"))
    other = load(folder).redaction
    assert own.is_current(own.stamp)
    assert not own.is_current(PLAIN.stamp)
    assert not own.is_current(other.stamp)
    # Rules that were taken away took no less.
    assert PLAIN.is_current(own.stamp)
    assert not PLAIN.is_current(own.stamp - 1)
    assert 0 < own.stamp < 1 << 63  # As SQLite keeps it.


def test_a_change_is_seen_when_it_is_looked_for(folder: Path) -> None:
    assert redaction.redact("Globex") == "Globex"
    (folder / "acme.toml").write_text(GLOBEX)
    assert redaction.redact("Globex") == "Globex"
    redaction.refresh()
    assert redaction.redact("Globex") == "[redacted]"
    (folder / "acme.toml").unlink()
    assert redaction.refresh().redaction.rulesets == ("secrets@1",)


def event(**fields: Any) -> dict[str, Any]:
    return {
        "protocol": 1,
        "id": "Globex",
        "type": "turn.ended",
        "harness": {"name": "x", "version": "globex 1"},
        "session": {"id": "Globex", "seq": 0, "title": "for Globex"},
        "privacy": {"rulesets": ["secrets@1"], "pii": False},
        "data": {"reason": "error", "error": "Globex down"},
        **fields,
    }


def test_an_event_says_which_rules_ran_and_keeps_its_identity(folder: Path) -> None:
    (folder / "acme.toml").write_text(GLOBEX)
    clean = load(folder).redaction.event(event())
    assert clean["privacy"]["rulesets"] == ["secrets@1", "acme@1"]
    assert (clean["id"], clean["session"]["id"]) == ("Globex", "Globex")
    assert (clean["session"]["title"], clean["data"]["error"]) == ("for [redacted]", "[redacted] down")
    assert clean["harness"]["version"] == "[redacted] 1"


@pytest.mark.parametrize("part", ["harness", "session", "privacy", "data"])
@pytest.mark.parametrize("value", [None, 3, [], "x", {}])
def test_a_malformed_event_stays_one(part: str, value: Any) -> None:
    clean = PLAIN.event(event(**{part: value}))
    assert part == "privacy" or clean[part] == value


SESSION = "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10"


def job(state: State, name: str, prompt: str) -> None:
    payload = {
        "session_id": SESSION,
        "transcript_path": f"/nowhere/{SESSION}.jsonl",
        "hook_event_name": "UserPromptSubmit",
        "cwd": "/nowhere",
        "prompt": prompt,
    }
    header = f"v=1\0harness=claude-code\0event=UserPromptSubmit\0at_ms={now_ms()}\0cwd=/nowhere\0\0"
    (state.spool / "tmp" / name).write_bytes(header.encode() + json.dumps(payload).encode())
    (state.spool / "tmp" / name).rename(state.spool / "new" / name)


def test_a_rule_added_while_a_worker_runs_is_for_its_next_job(folder: Path, tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    make_private(state.root)
    Spool(state.spool).prepare()
    lock, fifo = Lock(state), Fifo(state.fifo)
    assert lock.acquire()
    fifo.open()
    worker = Worker(state, tmp_path / "config", fifo=fifo, lock=lock)
    thread = threading.Thread(target=worker.serve, kwargs={"forever": True})
    outbox = Outbox.open(state.outbox)

    def told() -> list[dict[str, Any]]:
        return [json.loads(row.body) for row in outbox.read(0, 100) if row.type == "turn.started"]

    try:
        thread.start()
        for number, rules in enumerate(("", GLOBEX + "[[rule]]\nid = 'bad'\npattern = '['"), 1):
            if rules:
                (folder / "acme.toml").write_text(rules)
            job(state, f"{number:020d}.job", "ask Globex")
            fifo.poke()
            wait_for(lambda number=number: len(told()) == number, "the prompt is recorded", 10)
        first, second = told()
    finally:
        worker._stop.set()
        fifo.poke()
        thread.join()
        outbox.close()
        fifo.close()
        lock.release()
    assert first["privacy"]["rulesets"] == ["secrets@1"]
    assert second["privacy"]["rulesets"] == ["secrets@1", "acme@1"]
    # The title of the session was learnt before there was a rule.
    assert "Globex" in json.dumps(first)
    assert "Globex" not in json.dumps(second)
    lines = [line for line in state.log.read_text().splitlines() if "own rules" in line]
    assert len(lines) == 1
    assert "acme.toml: rule bad: its pattern is no regular expression" in lines[0]


def test_what_was_stored_before_a_rule_goes_out_without_what_it_finds(folder: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "outbox.db") as outbox:
        record(outbox, "turn.ended", {"reason": "error", "error": "Globex down"}, ruleset=PLAIN.stamp)
        (folder / "acme.toml").write_text(GLOBEX)
        rules = redaction.refresh().redaction
        record(outbox, "turn.ended", {"reason": "error", "error": "Globex down"}, ruleset=rules.stamp)
        packed = pack(
            "s",
            outbox.read(0, 9),
            after=0,
            until=0,
            policy=Policy(1, rules=rules),
            limits=Limits(9, 1 << 20),
            thinning={},
        )
    assert packed.batch is not None
    old, current = (json.loads(event) for event in packed.batch.events)
    assert (old["data"]["error"], old["privacy"]["rulesets"]) == ("[redacted] down", ["secrets@1", "acme@1"])
    # A row says who redacted it; one of today's is believed.
    assert current["data"]["error"] == "Globex down"
