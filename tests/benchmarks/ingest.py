"""``ingest pi``: megabytes of stream a second, from standard input to a synced commit, of one core.

The stream is made of a recorded run, with as much in it as a model says: it thinks before it calls a tool,
writes files of a screenful and reads longer ones, and every few characters of that are a line of their
own. Some nine tenths of it are such lines, as in any stream that was not scripted. ``recorded`` is the same
run as it was recorded, of a model that says three words at a time.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sessionpipe.outbox import Outbox
from sessionpipe.paths import data_dir
from tests.benchmarks.measure import show

#: Characters of a delta: a provider sends one to a few tokens at a time.
DELTA = 8
#: Characters of what is thought and said before a call, and of what a tool reads, writes or prints.
THOUGHT, SAID, OUTPUT = 600, 160, 2_400
_PROSE = "The handler takes the request apart, and what it finds goes to the store in one step. "


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), "ingest-stream", [told(number) for number in range(150)], 50)
        measure(Path(folder), "ingest-recorded", [as_recorded(number) for number in range(300)], 0)


def measure(folder: Path, name: str, runs: list[bytes], budget: float) -> None:
    """Ingest these streams, one after the other, with the real command; its processes' time is what counts.

    Not the clock's: two processes on one core, as on a machine with other work to do, take as long as that.
    """
    stream = folder / f"{name}.ndjson"
    stream.write_bytes(b"".join(runs))
    env = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "SESSIONPIPE_STATE_DIR": str(folder / name),
        "SESSIONPIPE_CONFIG_DIR": str(folder / "config"),
        "SESSIONPIPE_NO_WORKER": "1",
    }

    def ingest(source: Path) -> float:
        before = _used()
        with source.open("rb") as stdin:
            subprocess.run(
                [sys.executable, "-m", "sessionpipe", "ingest", "pi"], stdin=stdin, env=env, check=True
            )
        return _used() - before

    # What it takes to start is no matter of the stream's length.
    idle = min(ingest(Path(os.devnull)) for _ in range(3))
    times = []
    for number in range(3):
        env["SESSIONPIPE_STATE_DIR"] = str(folder / f"{name}-{number}")
        times.append(ingest(stream) - idle)
        outbox = Outbox.open(folder / f"{name}-{number}" / "outbox.db")
        events, sessions = outbox.count()
        outbox.close()
        if sessions != len(runs):
            raise SystemExit(f"{sessions} sessions of {len(runs)} were recorded, and {events} events")
    taken = min(times)  # What else the machine did is no matter of ours.
    show(name, stream.stat().st_size / taken / 1e6, "MB/s", budget, at_most=False)


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def recorded() -> list[dict[str, Any]]:
    path = data_dir("conformance") / "ingest" / "pi" / "c-tools" / "stdout.ndjson"
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def as_recorded(number: int) -> bytes:
    return _dumped(_named(line, number) for line in recorded())


def told(number: int) -> bytes:
    """The recorded run with everything in it as long as it would be."""
    return _dumped(line for one in recorded() for line in _grown(_named(one, number)))


def _named(line: dict[str, Any], number: int) -> dict[str, Any]:
    return line | {"id": f"01a22870-4a12-71ea-9449-{number:012d}"} if line["type"] == "session" else line


def _dumped(lines: Any) -> bytes:
    return b"".join(
        json.dumps(one, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for one in lines
    )


def _text(characters: int) -> str:
    return (_PROSE * (characters // len(_PROSE) + 1))[:characters]


def _grown(line: dict[str, Any]) -> list[dict[str, Any]]:
    match line["type"]:
        case "message_update":
            return []  # Made anew from the message they are of.
        case "message_end" | "message_start" if (
            line["message"]["role"] == "assistant" and line["message"]["content"]
        ):
            message = line["message"] | {"content": _content(line["message"]["content"])}
            return [*_updates(message), line | {"message": message}]
        case "turn_end":
            results = [_result(result) for result in line["toolResults"]]
            message = line["message"] | {"content": _content(line["message"]["content"])}
            return [line | {"message": message, "toolResults": results}]
        case "agent_end":
            grown = [
                message | {"content": _content(message["content"])}
                if message["role"] == "assistant"
                else _result(message)
                for message in line["messages"]
            ]
            return [line | {"messages": grown}]
        case "tool_execution_start" | "tool_execution_update":
            return [line | {"args": _args(line["args"])}]
        case "tool_execution_end":
            content = [{"type": "text", "text": _text(OUTPUT)}]
            return [line | {"result": {"content": content, "structuredContent": {"output": _text(OUTPUT)}}}]
        case "message_end" | "message_start":
            return [line | {"message": _result(line["message"])}]
    return [line]


def _result(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] != "toolResult":
        return message
    return message | {"content": [{"type": "text", "text": _text(OUTPUT)}]}


def _args(args: dict[str, Any]) -> dict[str, Any]:
    return args | {"content": _text(OUTPUT)} if "content" in args else args


def _content(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    grown: list[dict[str, Any]] = [{"type": "thinking", "thinking": _text(THOUGHT)}]
    grown.append({"type": "text", "text": _text(SAID)})
    return grown + [
        part | {"arguments": _args(part["arguments"])} for part in parts if part["type"] == "toolCall"
    ]


def _updates(message: dict[str, Any]) -> list[dict[str, Any]]:
    updates = []
    for index, part in enumerate(message["content"]):
        kind = part["type"].lower()
        whole = json.dumps(part["arguments"]) if kind == "toolcall" else part[kind]
        for at in range(0, len(whole), DELTA):
            event = {"type": f"{kind}_delta", "contentIndex": index, "delta": whole[at : at + DELTA]}
            updates.append(
                {"type": "message_update", "usage": message["usage"], "assistantMessageEvent": event}
            )
    return updates
