"""sessionpipe.adapters.registry: every table in ``adapters/`` is one, and says what it stands on."""

from __future__ import annotations

from typing import Any

import pytest

from sessionpipe.adapters import Refused, map_hook, registry
from sessionpipe.hook import FORWARDED
from sessionpipe.protocol.ids import is_harness_name


@pytest.mark.parametrize("name", registry.names())
class TestEveryTable:
    def test_it_compiles(self, name: str) -> None:
        assert registry.adapter(name).name == name
        assert is_harness_name(name)

    def test_every_event_it_maps_says_what_it_stands_on(self, name: str) -> None:
        events = registry.adapter(name).events.values()
        assert {event.standing for event in events} <= {"recorded", "documented"}

    def test_no_event_is_both_mapped_and_ignored(self, name: str) -> None:
        adapter = registry.adapter(name)
        assert not adapter.ignored & adapter.events.keys()

    def test_a_turn_and_a_session_can_begin_and_end(self, name: str) -> None:
        types = {e.type for event in registry.adapter(name).events.values() for e in event.emissions}
        assert types >= {"turn.started", "turn.ended"}

    def test_it_reads_no_variable_that_the_hook_does_not_hand_on(self, name: str) -> None:
        assert {path.split(".")[1] for path in _variables(registry.table(name))} <= registry.environment()


def _variables(table: Any) -> list[str]:
    if isinstance(table, str):
        return [table] if table.startswith("$env.") else []
    inner = [*table, *table.values()] if isinstance(table, dict) else table if isinstance(table, list) else []
    return [found for item in inner for found in _variables(item)]


def test_the_variables_a_hook_hands_on_are_exact_names() -> None:
    assert {"HOME", "SESSIONPIPE_LAUNCHED_BY", "CODEX_HOME"} <= registry.environment()
    assert all(name.replace("_", "").isalnum() for name in registry.environment())


def test_the_hook_hands_on_what_the_tables_ask_for() -> None:
    assert registry.environment() == set(FORWARDED)


def test_a_harness_nobody_knows_is_refused() -> None:
    for name in ("nobody", "", "../adapters/pi", "README"):
        with pytest.raises(Refused, match="no adapter has this harness's name"):
            map_hook(name, "Stop", b"{}", env={}, cwd="/", at_ms=0)
