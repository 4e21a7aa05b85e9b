"""The delivery scenarios for senders, each played with our own: what a receiver may do, what we then do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.delivery import backoff, batch, thinning
from sessionpipe.paths import data_dir
from tests.delivery.sender import Player

FILES = sorted((data_dir("conformance") / "delivery" / "sender").glob("*.json"))

STEPS = {
    "request",
    "quiet",
    "away",
    "record",
    "restart",
    "clock",
    "well_known",
    "forget",
    "do",
    "state",
}


def load(file: Path) -> dict[str, Any]:
    scenario: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return scenario


@pytest.fixture(autouse=True)
def _no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The courier of the scenario is the only one."""
    monkeypatch.setenv("SESSIONPIPE_NO_WORKER", "1")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_sender_does_what_the_scenario_says(file: Path) -> None:
    Player(load(file)).play()


def test_the_files_are_what_their_readme_says() -> None:
    said = FILES[0].parents[1].joinpath("README.md").read_text("utf-8")
    faults = set()
    for scenario, file in ((load(file), file) for file in FILES):
        assert scenario["name"] == file.stem and scenario["spec"]
        assert set(scenario) <= {"name", "spec", "sink", "well_known", "record", "steps"}
        for step in scenario["steps"]:
            kind, *rest = step
            assert kind in STEPS and f"`{kind}`" in said
            assert rest == (["answer"] if kind == "request" else [])
            faults |= {step["answer"]["fault"]} if "fault" in step.get("answer", {}) else set()
    assert all(f"| `{fault}` |" in said for fault in faults)


@pytest.mark.parametrize(
    ("scenario", "where", "name", "broken"),
    [
        ("500", backoff, "LADDER_MS", (2_000, 10_000, 60_000, 299_000, 1_800_000)),
        ("500", backoff, "LADDER_MS", (2_000, 10_000, 60_000, 301_000, 1_800_000)),
        ("killed-while-sending", batch, "_id", lambda _series, _events: os.urandom(4).hex()),
        ("tools-main", thinning, "WINDOW_MS", 30_000),
        ("heartbeats", batch, "wanted", lambda _type, _policy: True),
    ],
)
def test_a_sender_that_breaks_a_rule_is_found_out(
    monkeypatch: pytest.MonkeyPatch, scenario: str, where: Any, name: str, broken: Any
) -> None:
    monkeypatch.setattr(where, name, broken)
    (file,) = [file for file in FILES if file.stem == scenario]
    with pytest.raises(AssertionError):
        Player(load(file)).play()
