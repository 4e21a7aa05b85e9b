"""A receiver's scenarios (conformance/delivery/README.md): read from files, and what an answer lacks. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: A step does one of these.
STEPS = ("send", "read", "session", "well_known")
LEVELS = ("must", "should")
#: What a scenario may need of a receiver, or of whoever runs it.
NEEDS: Mapping[str, str] = {
    "tier_cap": "it takes every tier, so that nothing is above its max_tier",
    "forget": "it does not list the capability forget",
    "read": "it cannot be read back",
    "sessions": "it names no endpoint for sessions",
    "secret": "no --secret-file was given",
}

Scenario = dict[str, Any]


def load(path: Path) -> Scenario:
    """A scenario's file. Raises :class:`ValueError` naming what is wrong with it, :class:`OSError`."""
    found = json.loads(path.read_text("utf-8"))
    if not isinstance(found, dict):
        raise ValueError("it is no scenario")
    for key in ("name", "spec", "steps"):
        if key not in found:
            raise ValueError(f"it has no {key}")
    if found.setdefault("level", "must") not in LEVELS:
        raise ValueError(f"its level is neither {' nor '.join(LEVELS)}")
    if found.setdefault("needs", None) not in (None, *NEEDS):
        raise ValueError(f"nobody knows what {found['needs']!r} is, which it needs")
    found.setdefault("means", "")
    for number, step in enumerate(found["steps"], 1):
        if not isinstance(step, dict) or sum(kind in step for kind in STEPS) != 1 or "expect" not in step:
            raise ValueError(f"step {number} is not one of {', '.join(STEPS)} with what to expect")
    return found


def of_run(scenario: Scenario, run: str) -> Scenario:
    """The scenario with this run's id in every text of it."""
    made: Scenario = json.loads(json.dumps(scenario).replace("{run}", run))
    return made


def misses(found: Any, expected: Any, where: str = "") -> str | None:
    """What of ``expected`` is not in ``found``, in words; None when all of it is.

    An object must have what is expected of it and may have more; a list must be as long; ``"*"`` is
    anything but null.
    """
    if expected == "*":
        return None if found is not None else f"{where or 'it'} is not there"
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping):
            return f"{where or 'it'} is {_shown(found)}, not an object"
        lacks = (
            misses(found.get(key), value, f"{where}.{key}".lstrip(".")) for key, value in expected.items()
        )
        return next((lack for lack in lacks if lack), None)
    if isinstance(expected, list):
        if not isinstance(found, list):
            return f"{where or 'it'} is {_shown(found)}, not a list"
        if len(found) != len(expected):
            return f"{where or 'it'} has {len(found)} entries where {len(expected)} were expected"
        pairs = enumerate(zip(found, expected, strict=True))
        return next((lack for i, (f, e) in pairs if (lack := misses(f, e, f"{where}[{i}]"))), None)
    same = found == expected and isinstance(found, bool) == isinstance(expected, bool)
    return None if same else f"{where or 'it'} is {_shown(found)} where {_shown(expected)} was expected"


def sessions_of(events: list[dict[str, Any]]) -> Iterator[tuple[str, str, int]]:
    """Harness, session and ``seq`` of every event: what is to be forgotten at the end."""
    for event in events:
        yield event["harness"]["name"], event["session"]["id"], event["session"]["seq"]


def _shown(value: object) -> str:
    return "absent" if value is None else json.dumps(value)[:80]
