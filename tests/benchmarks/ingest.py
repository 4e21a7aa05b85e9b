"""``ingest pi``: a stream from standard input to a synced commit, by the processor time of one core.

``ingest-stream`` is made of a recorded run, with as much in it as a model says: it thinks before it calls a tool,
writes files of a screenful and reads longer ones, and every few characters of that are a line of their own.
Some nine tenths of it are such lines, as in any stream that was not scripted: MB/s are what counts.

``ingest-recorded`` is the same run as it was recorded, of a model that says three words at a time. There is an
event in every 1.8 KB of it, so that bytes say nothing: events a second are what counts. What an event costs
is what it costs intake: mapping a third, sealing a quarter, SQLite and looking for the repository an eighth each.

``ingest-start`` is what there is to do before the first event, and once: the rules and the adapter's table are
read and compiled. Neither of the others has it in it. It was in both for a while, and as the rules grew
a stream seemed to become slower: of the second that 50 MB took, 0.3 s were the rules.

``growth-ingest-sessions`` is ten times the sessions in one stream, ``growth-ingest-turns`` one session with ten times
the turns. A session took 2.8 ms whether there were
60, 200 or 1 800; what is more than ten is the machine's.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.clock import now_ms
from sessionpipe.ingest import Recorder
from sessionpipe.outbox import Outbox
from sessionpipe.paths import State, data_dir
from sessionpipe.stream.frames import Chunk, End, Incoming, encode
from tests.benchmarks.measure import show

#: Characters of a delta: a provider sends one to a few tokens at a time.
DELTA = 8
#: Characters of what is thought and said before a call, and of what a tool reads, writes or prints.
THOUGHT, SAID, OUTPUT = 600, 160, 2_400
_PIECE = 64 << 10
_MOMENT = re.compile(rb'"timestamp":([0-9]{13})\b')
_PROSE = "The handler takes the request apart, and what it finds goes to the store in one step. "


def run() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        nothing, start = _cpu(folder, b"", sessions=0), _cpu(folder, told(0))
        show("ingest-start", (start.cpu - nothing.cpu) * 1e3, "ms", 450)
        long = _cpu(folder, b"".join(map(told, range(150))), sessions=150)
        show(
            "ingest-stream",
            (long.size - start.size) / (long.cpu - start.cpu) / 1e6,
            "MB/s",
            50,
            at_most=False,
        )

        many = _cpu(folder, b"".join(map(as_recorded, range(300))), sessions=300)
        rate = (many.events - start.events) / (many.cpu - start.cpu)
        show("ingest-recorded", rate, "events/s", 2000, at_most=False)

        def sessions(count: int) -> bytes:
            return b"".join(map(as_recorded, range(count)))

        show("growth-ingest-sessions", _growth(folder, sessions), "x for ten times the sessions", 12)
        show("growth-ingest-turns", _growth(folder, of_turns), "x for ten times the turns of a session", 12)


def _growth(folder: Path, of: Callable[[int], bytes]) -> float:
    """What ten times as much costs the one that records: here, where there is nothing to start."""
    few, many = of(60), of(600)
    _record(folder, few)
    return min(_record(folder, many) for _ in range(2)) / min(_record(folder, few) for _ in range(6))


def _record(folder: Path, data: bytes) -> float:
    """Seconds of processor time for recording a stream that came in pieces."""
    with tempfile.TemporaryDirectory(dir=folder) as state, tempfile.TemporaryFile(dir=folder) as frames:
        for at in range(0, len(data), _PIECE):
            frames.write(encode(Chunk(now_ms(), data[at : at + _PIECE])))
        frames.write(encode(End(now_ms(), signalled=False, status=0)))
        frames.seek(0)
        recorder = Recorder(
            State(Path(state) / "state"), rouse=lambda _: None, env={}, cwd=None, since_ms=now_ms()
        )
        begun = time.process_time()
        recorder(Incoming(frames.fileno()))
        return time.process_time() - begun


class Taken(NamedTuple):
    """What recording a stream took: seconds of processor time; and how many bytes and events it was."""

    cpu: float
    size: int
    events: int


def _cpu(folder: Path, data: bytes, sessions: int = 1, times: int = 3) -> Taken:
    """Record a stream with the real command; its processes' time is what counts.

    Not the clock's: two processes on one core, as on a machine with other work to do, take as long as that.
    The least of some times, as what else the machine did is no matter of ours.
    """
    stream = folder / "stream.ndjson"
    stream.write_bytes(data)
    taken, events = [], 0
    for _ in range(times):
        with tempfile.TemporaryDirectory(dir=folder) as state, stream.open("rb") as stdin:
            env = {
                "HOME": str(folder),
                "PATH": os.environ["PATH"],
                "SESSIONPIPE_STATE_DIR": f"{state}/state",
                "SESSIONPIPE_CONFIG_DIR": f"{state}/config",
                "SESSIONPIPE_NO_WORKER": "1",
            }
            before = _used()
            subprocess.run(
                [sys.executable, "-m", "sessionpipe", "ingest", "pi"], stdin=stdin, env=env, check=True
            )
            taken.append(_used() - before)
            if sessions:
                outbox = Outbox.open(Path(state) / "state" / "outbox.db")
                events, found = outbox.count()
                outbox.close()
                if found != sessions:
                    raise SystemExit(f"{found} sessions of {sessions} were recorded, and {events} events")
    return Taken(min(taken), len(data), events)


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


def of_turns(turns: int) -> bytes:
    """One session in which the recorded run happens so many times, a minute after one another."""
    header, *rest = recorded()
    run = _dumped(rest)

    def at(minute: int) -> bytes:
        return _MOMENT.sub(lambda found: b'"timestamp":%d' % (int(found[1]) + minute * 60_000), run)

    return _dumped([header]) + b"".join(map(at, range(turns)))


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
