"""An outbox as it is after months: events by the million, written by its own API, made once and shared.

Twenty sessions run at a time and have two hundred events each. Of thirty-two events twenty-eight are of subagents'
tools, as long as intake makes one of a tool that printed some lines. The oldest are of twenty days ago, so that
nothing is old enough to go.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from sessionpipe.clock import now_ms
from sessionpipe.outbox import Outbox
from sessionpipe.outboxrows import Session, encode
from sessionpipe.paths import State
from sessionpipe.protocol import rfc3339
from sessionpipe.redaction import PLAIN

#: Events of a session, and how many sessions run at a time.
EACH, AT_ONCE = 200, 20
DAYS_MS = 20 * 86_400_000
_LINE = "src/module.py:120: def handler(self, request): return self.reply(request.body)\n"
_ROUND = ("tool.started", "tool.ended") * 14 + ("turn.ended", "turn.started", "tool.started", "tool.ended")
_COMMIT = 20_000


@cache
def outbox(events: int) -> State:
    """A state directory whose outbox holds so many events, and no sink; it goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="sessionpipe-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    state = State(Path(folder) / "state")
    state.root.mkdir(mode=0o700)
    build(state.outbox, events)
    return state


def build(path: Path, events: int) -> None:
    """Record ``events`` in an outbox at ``path``, whose folder is there."""
    box = Outbox.open(path)
    begin = now_ms() - DAYS_MS
    every = DAYS_MS // events
    running: list[Session] = []
    numbers = iter(range(events))
    opened = 0
    while chunk := [number for _, number in zip(range(_COMMIT), numbers, strict=False)]:
        with box.transaction() as tx:
            for number in chunk:
                at_ms = begin + number * every
                place = number % AT_ONCE
                if place >= len(running):
                    running.append(_opened(tx.session("claude-code", name(opened), at_ms), opened))
                    opened += 1
                session = running[place]
                if session.next_seq == EACH:
                    tx.save(session)
                    session = running[place] = _opened(tx.session("claude-code", name(opened), at_ms), opened)
                    opened += 1
                type_ = _ROUND[session.next_seq % len(_ROUND)]
                body = _event(number, type_, at_ms, session)
                tx.append(session, type_, at_ms, PLAIN.stamp, body)
            for session in running:
                tx.save(session)
    box.checkpoint()
    box.close()


def name(session: int) -> str:
    """The id of the session that was opened as the so many-th."""
    return f"3f0c2f2e-6a51-4d7b-9a55-{session:012d}"


def _opened(session: Session, number: int) -> Session:
    session.block = {
        "machine": "studio",
        "cwd": f"~/src/app{number % 40}",
        "repo": f"git.example/team/app{number % 40}",
        "branch": "main",
        "model": "claude-opus-4-6",
        "title": f"Make the handler of module {number} answer in one step",
        "title_source": "harness",
    }
    waits = {"p": {"kind": "permission", "nth": 1, "ask": None, "thread": None, "echo": False}}
    session.state = {
        "started": True,
        "tier0_ms": session.first_ms,
        "twins": {f"{number:032x}{twin:x}": [1, session.first_ms] for twin in range(8)},
        "ended": False,
        "turn": {"id": f"b3f6c9d8-0000-4000-8000-{number:012d}", "since": session.first_ms, "over": True},
        "past": {f"b3f6c9d8-0000-4000-{turn:04x}-{number:012d}": True for turn in range(16)},
        "count": 30,
        "calls": {},
        "open": waits if number % 50 == 0 else {},
    }
    return session


def _event(number: int, type_: str, at_ms: int, session: Session) -> bytes:
    data: dict[str, Any] = {"turn_id": f"b3f6c9d8-0000-4000-8000-{number // 32:012d}"}
    if type_ == "turn.ended":
        data["reason"] = "stop"
    if type_.startswith("tool."):
        data |= {
            "tool": "Bash",
            "call_id": f"toolu_{number:024d}",
            "input": {"command": "grep -rn handler src"},
        }
        if session.next_seq % len(_ROUND) < 28:
            data["agent_id"] = f"a{number // 32 % 997:07x}"
    if type_ == "tool.ended":
        data |= {"ok": True, "ms": 31, "output": {"stdout": _LINE * 4, "stderr": "", "interrupted": False}}
    event = {
        "protocol": 1,
        "id": f"01K{number:023d}",
        "type": type_,
        "time": rfc3339(at_ms),
        "tier": 3,
        "harness": {"name": "claude-code", "version": "2.1.332", "event": "PostToolUse"},
        "session": {"id": session.id, "seq": session.next_seq, **session.block},
        "privacy": {"rulesets": ["secrets@1"], "pii": False},
        "data": data,
    }
    return encode(event)
