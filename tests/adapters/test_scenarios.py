"""conformance/harness: recorded payloads become the events that are written beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionpipe.adapters import Refused, map_hook, registry
from tests.recorded import Hook, expected, hooks, mapped, run_map, scenarios
from tests.schema import assert_valid


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_recorded_scenario_becomes_what_is_expected(scenario: Path) -> None:
    events = mapped(scenario)
    for event in events:
        assert_valid({**event, "id": "01K6ABCXYZ0123456789ABCDEF"})
    assert events == expected(scenario)


@pytest.mark.parametrize("name", registry.names())
def test_every_event_that_was_recorded_is_in_some_scenario(name: str) -> None:
    told = {event for event, is_ in registry.adapter(name).events.items() if is_.standing == "recorded"}
    shown = {
        hook.event for scenario in scenarios() if scenario.parent.name == name for hook in hooks(scenario)
    }
    assert told <= shown


def everything(recordings: Path) -> Iterator[Hook]:
    """Every payload that was recorded of the harnesses we have tables for."""
    for harness in registry.names():
        if harness == "opencode":
            continue  # What a plugin saw: tests/install/test_opencode_plugin.py plays it to ours.
        for scenario in sorted((recordings / harness).glob("*")):
            yield from hooks(scenario)
            lines = scenario / "extension-events.ndjson"
            if lines.exists():
                for line in lines.read_text("utf-8").split("\n"):
                    if line:
                        event, at = json.loads(line)["event"], json.loads(line)["t"]
                        yield Hook(
                            lines, harness, event, (), {"HOME": "/home/dev"}, line.encode(), int(at), False
                        )


def test_every_recorded_payload_becomes_valid_events_and_none_is_refused(shared: Path) -> None:
    seen = 0
    for hook in everything(shared / "recordings"):
        if hook.event.startswith("<"):
            continue  # The recorder's own marks.
        drafts = map_hook(
            hook.harness, hook.event, hook.stdin, args=hook.args, env=hook.env, cwd="/", at_ms=hook.at_ms
        )
        result = run_map(hook) if drafts else None
        for line in result.stdout.split("\n") if result else []:
            if line:
                assert_valid(json.loads(line))
                seen += 1
    assert seen > 500


def test_no_harness_takes_another_ones_payloads(shared: Path) -> None:
    """The events of Claude Code and Codex have the same names; their payloads say whose they are."""
    taken = 0
    for hook in everything(shared / "recordings"):
        for other in registry.names():
            if other == hook.harness or hook.event not in registry.adapter(other).events or hook.args:
                continue
            with pytest.raises(Refused) as refused:
                map_hook(other, hook.event, hook.stdin, env=hook.env, cwd="/", at_ms=hook.at_ms)
            # Codex's first event of a run without a rollout has nothing of its own.
            assert refused.value.belongs_to in (hook.harness, None)
            taken += 1
    assert taken > 300


def test_nor_what_was_made_from_documentation() -> None:
    """What another harness gets of it is refused, and where it says whose it is, that is right."""
    taken = 0
    for hook in (hook for scenario in scenarios() for hook in hooks(scenario) if not hook.args):
        for other in registry.names():
            if other == hook.harness or not registry.adapter(other).events.get(hook.event):
                continue
            with pytest.raises(Refused) as refused:
                map_hook(other, hook.event, hook.stdin, env=hook.env, cwd="/", at_ms=hook.at_ms)
            assert refused.value.belongs_to in (hook.harness, None)
            taken += 1
    assert taken > 1_000
