"""Recorded hooks, as ``conformance/README.md`` describes their files, and what ``map`` makes of them.

``python -m tests.recorded`` writes every scenario's ``expected.ndjson`` anew, for a person to read
what has changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner, Result

from sessionpipe.cli.map import map_command
from sessionpipe.paths import data_dir


class Hook(NamedTuple):
    """One hook as its harness ran it; ``stdin`` is byte for byte what it was given."""

    file: Path
    harness: str
    event: str
    args: tuple[str, ...]
    env: dict[str, str]
    stdin: bytes
    at_ms: int


def scenarios() -> list[Path]:
    """Every scenario of every harness in ``conformance/harness``."""
    return sorted(path for path in data_dir("conformance").glob("harness/*/*") if path.is_dir())


def hooks(scenario: Path) -> Iterator[Hook]:
    """The hooks of one scenario, in the order of their arrival."""
    harness = scenario.parent.name
    for file in sorted(scenario.glob("*.json")):
        record = json.loads(file.read_text("utf-8"))
        _, event, *args = record["argv"]
        payload = record["stdin"]
        text = payload if isinstance(payload, str) else json.dumps(payload, separators=(",", ":"))
        end = "\n" if harness == "claude-code" else ""
        yield Hook(file, harness, event, tuple(args), record["env"], (text + end).encode(), record["at_ms"])


def run_map(hook: Hook) -> Result:
    """``sessionpipe map`` with one hook's payload, looking for files in its scenario's ``files``."""
    files = hook.file.parent / "files"
    words = [hook.harness, hook.event, "--cwd", "/", "--at", str(hook.at_ms)]
    words += [word for name, content in hook.env.items() for word in ("--env", f"{name}={content}")]
    words += ["--files", str(files)] if files.is_dir() else []
    return CliRunner().invoke(
        map_command, [*words, "--", *hook.args], input=hook.stdin, catch_exceptions=False
    )


def mapped(scenario: Path) -> list[dict[str, Any]]:
    """The events that a scenario's payloads become, each payload by itself, with ``*`` for their ids."""
    lines = [line for hook in hooks(scenario) for line in run_map(hook).stdout.split("\n") if line]
    return [{**json.loads(line), "id": "*"} for line in lines]


def expected(scenario: Path) -> list[dict[str, Any]]:
    """The events that a scenario's payloads shall become."""
    text = (scenario / "expected.ndjson").read_text("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


if __name__ == "__main__":
    for folder in scenarios():
        events = [json.dumps(event, ensure_ascii=False) + "\n" for event in mapped(folder)]
        (folder / "expected.ndjson").write_text("".join(events), "utf-8")
        print(f"{folder.parent.name}/{folder.name}: {len(events)} events")
