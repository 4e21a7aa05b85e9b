"""Recorded hooks, as ``conformance/README.md`` describes their files, and what ``map`` makes of them.

``python -m tests.recorded`` writes every scenario's ``expected.ndjson`` anew, for a person to read
what has changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from sessionpipe.cli.map import map_command
from sessionpipe.conformance.harness import Hook, expected, hooks
from sessionpipe.paths import data_dir


def scenarios() -> list[Path]:
    """Every scenario of every harness in ``conformance/harness``."""
    return sorted(path for path in data_dir("conformance").glob("harness/*/*") if path.is_dir())


def run_map(hook: Hook) -> Result:
    """``sessionpipe map`` with one hook's payload, looking for files in its scenario's ``files``."""
    return CliRunner().invoke(map_command, hook.words, input=hook.stdin, catch_exceptions=False)


def mapped(scenario: Path) -> list[dict[str, Any]]:
    """The events that a scenario's payloads become, each payload by itself, with ``*`` for their ids."""
    lines = [line for hook in hooks(scenario) for line in run_map(hook).stdout.split("\n") if line]
    return [{**json.loads(line), "id": "*"} for line in lines]


__all__ = ["Hook", "expected", "hooks", "mapped", "run_map", "scenarios"]


if __name__ == "__main__":
    for folder in scenarios():
        events = [json.dumps(event, ensure_ascii=False) + "\n" for event in mapped(folder)]
        (folder / "expected.ndjson").write_text("".join(events), "utf-8")
        print(f"{folder.parent.name}/{folder.name}: {len(events)} events")
