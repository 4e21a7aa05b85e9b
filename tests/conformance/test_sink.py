"""Trying a sink of one's own: what the helper hands over, and what it finds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from sessionpipe.conformance import main
from sessionpipe.conformance.sink import check, events
from sessionpipe.delivery.batch import Batch, Limits
from sessionpipe.delivery.outcome import Acked, Drop, LowerTier, Outcome, Retry
from sessionpipe.protocol.vocabulary import VOCABULARY
from sessionpipe.sinks.base import Setup, Sink
from tests.plugin import EXAMPLE, install, written
from tests.schema import problems
from tests.sinks.test_plugins import SINK
from tests.sinks.test_plugins import packages as packages


class Kept(Sink):
    """Keeps what it gets; ``said`` is what it answers."""

    def __init__(self, said: Any = None, most: int = 7) -> None:
        self.got: list[dict[str, Any]] = []
        self._said = said or Acked()
        self._most = most

    def limits(self) -> Limits:
        return Limits(self._most, 1000)

    def send(self, batch: Batch) -> Outcome:
        assert len(batch.events) <= self._most
        self.got += map(msgspec.json.decode, batch.events)
        return self._said  # type: ignore[no-any-return]


def test_there_is_a_sound_event_of_every_type_with_every_field() -> None:
    for event in events():
        assert problems(event) == []
        assert set(event["data"]) == set(VOCABULARY[event["type"]].fields)
    assert {event["type"] for event in events()} == set(VOCABULARY)


def test_a_sink_is_handed_each_twice_and_the_end_of_the_session() -> None:
    sink = Kept()
    assert check("kept:x", make=lambda _setup: sink) == []
    ids = [event["id"] for event in sink.got]
    count = len(VOCABULARY) - 1
    assert ids[:count] == ids[count : 2 * count] and sink.got[2 * count]["type"] == "session.forgotten"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (Retry("no room"), "a batch: no room"),
        (Drop("no"), "a batch: no"),
        (Acked(unnamed=2), "it rejects 2 of 7 events"),
        (LowerTier(1), "it takes tier 1 at most"),
        (7, "at fault: it answers with a int"),
    ],
)
def test_what_is_no_acknowledgement_is_said(said: Any, found: str) -> None:
    assert any(found in line for line in check("kept:x", make=lambda _setup: Kept(said)))


def test_a_sink_that_can_not_be_made_is_said_once() -> None:
    def make(setup: Setup) -> Sink:
        raise ValueError(f"{setup.config.url} is not mine")

    (line,) = check("kept://x", make=make)
    assert "kept://x is not mine" in line
    assert "no installed package brings" in check("nobodys:x")[0]
    assert "is no target" in check("x")[0]


class Loud(Kept):
    def send(self, batch: Batch) -> Outcome:
        print("sent")
        return super().send(batch)


def test_one_that_prints_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = check("kept:x", make=lambda _setup: Loud())
    assert "it prints" in line and capsys.readouterr().out == ""


@pytest.mark.parametrize("target", ["http:x", "otlp:collector", "paper://me:word@tray"])
def test_a_place_that_no_sink_could_have_is_said(target: str) -> None:
    (line,) = check(target)
    assert ("is not an http" in line or "holds a password" in line) and "word" not in line.split("password")[
        0
    ]


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("raise KeyboardInterrupt", "failed with KeyboardInterrupt"),
        ("import threading; threading.Event().wait()", "did not come to an end"),
    ],
)
def test_the_command_ends_whatever_the_code_does(
    packages: Path, monkeypatch: pytest.MonkeyPatch, does: str, says: str
) -> None:
    monkeypatch.setattr("sessionpipe.sinks.apart.PATIENCE_S", 0.5)
    written(packages, "paper", SINK.replace("return Acked()", does))
    ran = CliRunner().invoke(main, ["sink", "paper:x"])
    assert ran.exit_code == 1 and says in ran.output


def test_the_example_keeps_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.delitem(sys.modules, "sessionpipe_sqlite", raising=False)
    from sessionpipe_sqlite import SqliteSink  # type: ignore[import-not-found]

    assert check(f"sqlite:{tmp_path}/a.db", make=SqliteSink.make) == []
    assert "absolute path" in check("sqlite:a.db", make=SqliteSink.make)[0]
    assert "unable to open" in check(f"sqlite:{tmp_path}/none/a.db", make=SqliteSink.make)[0]


def test_the_command_says_what_is_wrong_or_that_nothing_is(tmp_path: Path, packages: Path) -> None:
    install(packages)
    ran = CliRunner().invoke(main, ["sink", f"sqlite:{tmp_path}/a.db"])
    assert ran.exit_code == 0 and "took everything, twice" in ran.output
    ran = CliRunner().invoke(main, ["sink", "sqlite:a.db"])
    assert ran.exit_code == 1 and "must be an absolute path" in ran.output
