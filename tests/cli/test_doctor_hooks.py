"""What doctor says of each agent: its files, and the hooks of it that fired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.cli import doctor_hooks
from sessionpipe.cli.doctor_hooks import Agent, File, as_json, findings
from sessionpipe.cli.findings import Finding
from sessionpipe.firings import Event, Firing, Firings, with_fired
from sessionpipe.install import FileState
from sessionpipe.install.targets import targets
from sessionpipe.outbox import Outbox
from sessionpipe.paths import State, make_private, state_dir

NOW = 1_800_000_000_000
DAY = 24 * 3_600_000
SETTINGS = File("/home/dev/.claude/settings.json", "installed", "", "")


def agent(fired: Firings | None = None, *, files: tuple[File, ...] = (SETTINGS,), note: str = "") -> Agent:
    events = ("SessionStart", "UserPromptSubmit", "Stop")
    return Agent("claude-code", note, events, files, fired or Firings())


def said(*known: Agent) -> list[Finding]:
    return list(findings(known, NOW))


class TestFiles:
    @pytest.mark.parametrize(
        ("state", "level", "mend"),
        [
            ("installed", "ok", ""),
            ("stale", "fail", "sessionpipe install claude-code"),
            ("missing", "warn", "sessionpipe install claude-code"),
            ("needs trust", "warn", "start claude-code once and trust the hooks it asks about"),
            ("left alone", "warn", "see to what is said of the file, then"),
            ("inactive", "warn", "sessionpipe install claude-code"),
            ("skipped", "ok", ""),
        ],
    )
    def test_a_state_says_how_bad_it_is_and_what_to_do(self, state: str, level: str, mend: str) -> None:
        file = doctor_hooks._file("claude-code", FileState(Path("/x/settings.json"), state))
        finding = said(agent(files=(file,)))[0]
        assert (finding.level, finding.mend[: len(mend)]) == (level, mend)
        assert finding.message.startswith(f"claude-code: /x/settings.json: {state}")

    def test_those_that_are_not_here_are_named_together(self) -> None:
        assert said(agent(files=()), agent(files=())._replace(name="pi")) == [
            Finding("hooks", "ok", "not on this machine: claude-code, pi")
        ]


class TestHooks:
    def test_what_fired_last_how_many_kinds_and_how_long_they_take(self) -> None:
        fired = Firings(
            {"Stop": Event(NOW - 180_000, 4), "PostCompact": Event(NOW - DAY, 1)},
            list(range(1, 101)),
            "2.1.3",
        )
        (_, finding) = said(agent(fired))
        assert finding.message == (
            "claude-code 2.1.3: the last hook was Stop, 3 min ago; 1 of 3 kinds have fired;"
            " a hook records in 50 ms, 19 of 20 in 95 ms"
        )

    def test_before_the_first_one_the_agents_own_condition_is_said(self) -> None:
        (_, finding) = said(agent(note="Trust the folder."))
        assert finding.message == "claude-code: no hook of it has fired yet (Trust the folder.)"

    def test_nothing_is_said_of_hooks_that_are_not_installed(self) -> None:
        assert len(said(agent(files=(File("/x", "missing", "", ""),)))) == 1

    def test_turns_that_begin_and_never_end_are_a_warning(self) -> None:
        begun = Event(NOW, 3)
        (warning,) = [one for one in said(agent(Firings({"UserPromptSubmit": begun}))) if one.level == "warn"]
        assert "for a day none was seen to end" in warning.message

    @pytest.mark.parametrize(
        "events",
        [
            {"UserPromptSubmit": Event(NOW, 2)},
            {"UserPromptSubmit": Event(NOW, 9), "Stop": Event(NOW - DAY, 1)},
            {"UserPromptSubmit": Event(NOW, 9), "StopFailure": Event(NOW, 1)},
            {"Stop": Event(NOW, 9)},
        ],
    )
    def test_turns_that_end_are_none(self, events: dict[str, Event]) -> None:
        assert all(one.level == "ok" for one in said(agent(Firings(events))))

    @pytest.mark.parametrize(("slow", "warned"), [(5, False), (6, True)])
    def test_an_agent_that_waits_for_its_hooks_is_a_warning(self, slow: int, warned: bool) -> None:
        took = [1] * (100 - slow) + [501] * slow
        fired = Firings({"Stop": Event(NOW, 100)}, took)
        assert any("waited for it" in one.message for one in said(agent(fired))) is warned


def test_as_json_every_registered_event_is_there_and_what_else_fired() -> None:
    told = as_json(agent(Firings({"Stop": Event(0, 4), "Setup": Event(1, 1)}, [3, 1, 2], "2.1.3")))
    assert told == {
        "name": "claude-code",
        "found": True,
        "version": "2.1.3",
        "files": [{"path": SETTINGS.path, "state": "installed", "why": "", "mend": ""}],
        "events": [
            {"event": "SessionStart", "last": None, "count": 0},
            {"event": "UserPromptSubmit", "last": None, "count": 0},
            {"event": "Stop", "last": "1970-01-01T00:00:00.000Z", "count": 4},
            {"event": "Setup", "last": "1970-01-01T00:00:00.001Z", "count": 1},
        ],
        "hook_ms": {"p50": 2, "p95": 3, "hooks": 3},
    }


def test_the_command_shows_them_all_with_what_fired_here(run: Any) -> None:
    assert run("install", "claude-code").exit_code == 0
    place = State(state_dir())
    make_private(place.root)
    outbox = Outbox.open(place.outbox)
    outbox.remember("firings", with_fired(None, [Firing("claude-code", "Stop", NOW, 2, "2.1.3")]))
    outbox.close()
    told = {one["name"]: one for one in json.loads(run("doctor", "--json").stdout)["harnesses"]}
    assert set(told) == set(targets())
    assert (told["claude-code"]["version"], told["claude-code"]["files"][0]["state"]) == (
        "2.1.3",
        "installed",
    )
    assert "the last hook was Stop" in run("doctor").stdout
