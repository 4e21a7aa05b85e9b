"""A heavy user's day: 100 000 events, 87 % of them subagents' tool calls, to three sinks, one of them down for an hour.

Real job files to a real worker in a process of its own, in waves of 32, as many hooks as subagents leave in a
moment, each when the one before was taken. A file gets tier 3, a receiver tier 1 and another one tier 0; the second
refuses everything for a tenth of the day. What each has in the end is compared with a model that knows the
protocol and nothing of how this is done: every event it is to have, by session, number and type, in order, once.

Beside other work on two cores it was 122 s of processor time for the whole day and 13 for a tenth of it, 104 MB of
disk, and a peak of 49 MB (:mod:`.worker`). An event is 1.2 ms, two thirds of it intake and the rest three couriers.
Where each hook comes by itself it is some 5 ms, and the disk is synced for the commit, for the spool's folder, for the
file, and for the cursor of each sink. Not waiting for it where a cursor only passed over events was tried, and is not
allowed: what a power cut loses before a commit that it keeps looks like damage. Waking the loop when all parts rest,
and not for each of them, is two looks for a hook instead of five, and 59 questions for a file's state, not 102.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.outbox import Outbox
from sessionpipe.outboxfile import wal_of
from sessionpipe.paths import State
from sessionpipe.spool import Spool
from tests.benchmarks.measure import show
from tests.benchmarks.sinkhole import Kept, receiving
from tests.benchmarks.working import working

EVENTS, WAVE = 100_000, 32
#: So many hooks, and three times as many, that come by themselves.
LONE = 200
#: Sessions at a time, and turns of each before another takes its place.
AT_ONCE, TURNS = 4, 10
BEGIN_MS, STEP_MS = 1_795_976_000_000, 360
_LINE = "src/module.py:120: def handler(self, request): return self.reply(request.body)\n"
_CONFIG = """
[[sinks]]
name = "file"
kind = "file"
path = "{file}"
tier = 3
[[sinks]]
name = "board"
kind = "http"
url = "{board}"
tier = 1
[[sinks]]
name = "wall"
kind = "http"
url = "{wall}"
tier = 0
"""


class Hook(NamedTuple):
    """One hook of Claude Code's, and the type of what comes of it."""

    session: str
    event: str
    type: str
    at_ms: int
    payload: dict[str, Any]


class Used(NamedTuple):
    """What a day took."""

    cpu_s: float
    disk_mb: float
    wal_mb: float
    memory_mb: float


def run() -> None:
    tenth, whole = a_day(EVENTS // 10), a_day(EVENTS)
    show("day-cpu", whole.cpu_s, f"s for {EVENTS} events", 200)
    show("day-disk", whole.disk_mb, "MB", 150)
    show("day-wal", whole.wal_mb, "MB at most", 8)
    show("day-memory", whole.memory_mb, "MB", 80)
    for what in Used._fields:
        name = what.rpartition("_")[0]
        # What a worker needs to be there at all is in the tenth too.
        most = 1.5 if what in ("wal_mb", "memory_mb") else 11
        times = getattr(whole, what) / getattr(tenth, what)
        show(f"growth-day-{name}", times, "x for ten times the events", most)
    few, more = (a_day(events, wave=1).cpu_s for events in (LONE, 3 * LONE))
    show("day-lone-hook-cpu", (more - few) / (2 * LONE) * 1000, "ms a hook", 10)


def a_day(events: int, wave: int = WAVE) -> Used:
    """Live through so many events, left in waves of so many hooks, and look at what came of them."""
    with tempfile.TemporaryDirectory() as folder, receiving() as board, receiving() as wall:
        state, file = State(Path(folder) / "state"), Path(folder) / "events.ndjson"
        state.root.mkdir(mode=0o700)
        spool = Spool(state.spool)
        spool.prepare()
        config = _CONFIG.format(file=file, board=board.url, wall=wall.url)
        told = list(islice(hooks(), events))
        with working(state, config) as worker:
            number, wal = 0, 0
            while number < events:
                board.down = 0.4 <= number / events < 0.5
                for one in told[number : number + wave]:
                    _leave(spool, number, one)
                    number += 1
                worker.look()
                worker.until(spool.empty)
                wal = max(wal, wal_of(state.outbox).stat().st_size)
            with closing(Outbox.open(state.outbox)) as box:
                worker.until(lambda: not any(box.all_behind([sink.position for sink in box.sinks()])))
            used = Used(worker.cpu_s(), _size(state.root), wal / 1e6, worker.memory_mb(peak=True))
        if not board.refused:
            raise SystemExit("the receiver that was to be down was not asked meanwhile")
        _compare(told, file, board, wall)
        return used


def hooks() -> Iterator[Hook]:
    """The day's hooks, one after the other: sessions in which a few subagents do nearly all the work."""
    opened, at_ms = 0, BEGIN_MS
    while True:
        running = [f"3f0c2f2e-6a51-4d7b-9a55-{opened + place:012d}" for place in range(AT_ONCE)]
        opened += AT_ONCE
        for steps in zip(*(_session(session) for session in running), strict=True):
            for session, (event, type_, said) in zip(running, steps, strict=True):
                at_ms += STEP_MS
                yield Hook(session, event, type_, at_ms, _payload(session, event, said))


def _session(session: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    yield "SessionStart", "session.started", {"source": "startup"}
    call = 0
    for turn in range(TURNS):
        said = {"prompt_id": f"b3f6c9d8-0000-4000-8000-{session[-8:]}{turn:04d}"}
        yield "UserPromptSubmit", "turn.started", {**said, "prompt": "Make the handler answer in one step"}
        agents = [f"a{turn:03x}{number:04x}" for number in range(3)]
        for agent in agents:
            yield "SubagentStart", "subagent.started", {"agent_id": agent, "agent_type": "Explore"}
        for number in range(65):
            # Sixty of sixty-five calls are subagents'.
            inside = {"agent_id": agents[number % 3], "agent_type": "Explore"} if number % 13 else {}
            call += 1
            tool = {"tool_name": "Bash", "tool_input": {"command": "grep -rn handler src"}}
            each = {**said, **inside, **tool, "tool_use_id": f"toolu_{session[-8:]}{call:016d}"}
            yield "PreToolUse", "tool.started", each
            out = {"stdout": _LINE * (number % 12), "stderr": "", "interrupted": False}
            yield "PostToolUse", "tool.ended", {**each, "tool_response": out, "duration_ms": 31}
        for agent in agents:
            yield "SubagentStop", "subagent.ended", {"agent_id": agent, "agent_type": "Explore"}
        yield "Stop", "turn.ended", {**said, "stop_hook_active": False}
    yield "SessionEnd", "session.ended", {"reason": "other"}


def _payload(session: str, event: str, said: dict[str, Any]) -> dict[str, Any]:
    return {
        "session_id": session,
        "transcript_path": f"/nowhere/{session}.jsonl",
        "cwd": "/nowhere",
        "hook_event_name": event,
        **said,
    }


def _leave(spool: Spool, number: int, hook: Hook) -> None:
    """The job file of a hook, as the hook leaves it."""
    header = (
        f"v=1\0harness=claude-code\0event={hook.event}\0at_ms={hook.at_ms}\0cwd=/nowhere\0ppid=1"
        f"\0env.HOME=/nowhere\0env.CLAUDE_CODE_SESSION_ATTENDED=1\0\0"
    )
    path = spool.new / f"{number:020d}.job"
    making = path.with_suffix(".tmp")
    making.write_bytes(header.encode() + json.dumps(hook.payload).encode())
    making.rename(path)


# --- what the sinks must have ---------------------------------------------------------------------

Told = tuple[str, int, str]


def model(told: Iterable[Hook]) -> Iterator[Told]:
    """Every event of the day as (session, seq, type), heartbeats included (protocol v1, 3 and 4).

    A session that does what tier 0 does not show says once a minute that it is there.
    """
    seqs: defaultdict[str, int] = defaultdict(int)
    shown: dict[str, int] = {}
    for hook in told:
        types = [hook.type]
        if hook.type.startswith(("session.", "turn.")):
            shown[hook.session] = hook.at_ms
        elif hook.at_ms - shown[hook.session] >= 60_000:
            shown[hook.session] = hook.at_ms
            types.insert(0, "session.heartbeat")
        for type_ in types:
            yield hook.session, seqs[hook.session], type_
            seqs[hook.session] += 1


def _compare(told: list[Hook], file: Path, board: Kept, wall: Kept) -> None:
    every = list(model(told))
    full = [one for one in every if one[2] != "session.heartbeat"]
    little = [one for one in every if one[2].startswith(("session.", "turn."))]
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    for name, wanted, events in (
        ("file", full, lines),
        ("board", full, board.events()),
        ("wall", little, wall.events()),
    ):
        got = [(event["session"]["id"], event["session"]["seq"], event["type"]) for event in events]
        if got != wanted:
            wrong = next(
                n
                for n, pair in enumerate(zip([*got, None], [*wanted, None], strict=False))
                if pair[0] != pair[1]
            )
            raise SystemExit(
                f"{name} has {len(got)} events of {len(wanted)}; the first that differs is {wrong}:"
                f" {got[wrong : wrong + 2]} for {wanted[wrong : wrong + 2]}"
            )
        if len({event["id"] for event in events}) != len(events):
            raise SystemExit(f"{name} has an id twice")


def _size(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
