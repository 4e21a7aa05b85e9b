"""``sessionpipe-conformance sink``: does a sink of one's own keep to what ``sessionpipe/sinks/base.py`` asks?

It is handed made-up events of every type at tier 3, then the same once more, as after a kill, then that their
session is to be forgotten. :func:`check` is for the tests of whoever writes one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import click
import msgspec

from sessionpipe.config import SinkConfig, refuse_place
from sessionpipe.delivery.batch import Batch
from sessionpipe.delivery.outcome import Acked, Drop, LowerTier, Pause, Retry, Split
from sessionpipe.kinds import NAME
from sessionpipe.protocol import new_id
from sessionpipe.sinks.apart import TooSlow, apart
from sessionpipe.sinks.base import Setup, Sink
from sessionpipe.sinks.guard import Guarded
from sessionpipe.sinks.plugins import load

_TIME = "2026-01-01T00:00:00.000Z"
_SAID = {"turn": 0, "user": "What’s “ä”?\n", "assistant": "x" * 20_000, "at": _TIME}
_CALL = {"tool": "Bash", "call_id": "call_1", "turn_id": "turn_1", "agent_id": "agent_1"}
_INPUT = {"command": "ls -l \u2028 “ä”\n", "nested": [{"deep": [1, -2.5, None, True, {}, []]}]}

#: A ``data`` of each type, with all that tier 3 has.
DATA: Mapping[str, dict[str, Any]] = {
    "session.started": {"source": "startup"},
    "session.heartbeat": {},
    "session.backfill": {"started_at": _TIME, "last_at": _TIME, "turns": 3},
    "turn.started": {"turn_id": "turn_1", "submitted_by": "user", "injected": False, "prompt_chars": 9},
    "turn.progress": _SAID,
    "tool.started": {**_CALL, "input": _INPUT},
    "tool.ended": {**_CALL, "input": _INPUT, "output": "x" * 60_000, "ok": False, "ms": 1830, "error": "no"},
    "files.changed": {"paths": ["src/a.py", "~/b"]},
    "attention.needed": {
        "attention_id": "attention_1",
        "kind": "permission",
        "tool": "Bash",
        "message": "rm -rf build",
        "agent_id": "agent_1",
    },
    "attention.cleared": {"attention_id": "attention_1", "how": "answered"},
    "subagent.started": {"agent_id": "agent_1", "agent_type": "Explore"},
    "subagent.ended": {"agent_id": "agent_1", "agent_type": "Explore", "background": 0},
    "context.compacted": {"trigger": "auto"},
    "limits.observed": {
        "windows": [{"id": "five_hour", "used_percent": 12.5, "resets_at": _TIME, "window_minutes": 300}],
        "plan": "max",
        "account_id": "a1b2",
    },
    "delegation.started": {
        "ask_id": "01K6ABCXYZ0123456789ABCDEF",
        "via": "ask",
        "harness": "codex",
        "to": "codex:b",
        "text": "Look",
    },
    "delegation.ended": {
        "ask_id": "01K6ABCXYZ0123456789ABCDEF",
        "to": "codex:b",
        "ok": False,
        "ms": 3,
        "error": "no",
        "relayed": "failed",
        "reply": "Found",
    },
    "turn.ended": {"reason": "error", "turn_id": "turn_1", "ms": 1200, "background": 1, "error": "no"},
    "turn.transcript": _SAID,
    "session.ended": {"reason": "exit"},
    "session.forgotten": {},
}


def events(session: str = "conformance") -> list[dict[str, Any]]:
    """One event of every type at tier 3, ``session.forgotten`` last."""
    return [_event(session, seq, type_) for seq, type_ in enumerate(DATA)]


def _event(session: str, seq: int, type_: str) -> dict[str, Any]:
    return {
        "protocol": 1,
        "id": new_id(),
        "type": type_,
        "time": f"2026-01-01T00:00:{seq:02}.000Z",
        "tier": 3,
        "harness": {"name": "conformance", "version": "1.0"},
        "session": {
            "id": session,
            "seq": seq,
            "machine": "laptop",
            "cwd": "~/src",
            "title": "“Trial” \u2028 ok",
        },
        "privacy": {"rulesets": ["secrets@1"], "pii": False},
        "data": DATA[type_],
    }


def check(
    target: str,
    *,
    make: Callable[[Setup], Sink] | None = None,
    env: Mapping[str, str] = os.environ,
    **settings: Any,
) -> list[str]:
    """What is wrong with the sink at ``target`` (``KIND:…``), a sentence each; empty when nothing is.

    ``make`` makes it, unless it is to be found among the installed packages; ``settings`` are further keys
    of its table in ``config.toml``.
    """
    kind, _, rest = target.partition(":")
    if not NAME.fullmatch(kind) or not rest:
        return [f"{target} is no target: a kind, a colon, and what comes behind it"]
    url = target if rest.startswith("//") else rest
    if why := refuse_place(kind, url):
        return [f"what stands behind {kind}: {why}"]
    config = SinkConfig(**{"name": "trial", "kind": kind, "url": url, "tier": 3, **settings})
    sink = Guarded(
        Setup(config, {}, env, lambda _level, _line: None), load if make is None else lambda _kind: make
    )
    printed = StringIO()
    with redirect_stdout(printed):
        try:
            wrong = list(_wrong(sink))
        finally:
            sink.close()
    return wrong + (["it prints: a worker's standard output is not its own"] if printed.getvalue() else [])


def _wrong(sink: Guarded) -> Iterator[str]:
    learned = sink.learn(1_800_000_000_000)
    if isinstance(learned, (Retry, Pause)):
        yield f"before a batch: {learned.error if isinstance(learned, Retry) else learned.reason}"
        return
    *sent, forgotten = events()
    most = sink.limits().max_events
    for attempt in ("a batch", "the same batch once more"):
        for start in range(0, len(sent), most):
            yield from _refused(sink, attempt, sent[start : start + most])
    yield from _refused(sink, "session.forgotten", [forgotten])
    sink.close()
    yield from _refused(sink, "a batch after it was closed", sent[:1])


def _refused(sink: Sink, what: str, sent: list[dict[str, Any]]) -> Iterator[str]:
    texts = tuple(msgspec.json.encode(event) for event in sent)
    ids = tuple(event["id"] for event in sent)
    match sink.send(Batch(f"msg_{ids[0]}", texts, ids)):
        case Acked(rejected=(), unnamed=0):
            return
        case Acked(rejected, unnamed=unnamed):
            yield f"{what}: it rejects {len(rejected) + unnamed} of {len(sent)} events"
        case Retry(error) | Split(error) | Drop(error) | Pause(error):
            yield f"{what}: {error}"
        case LowerTier(tier):
            yield f"{what}: it takes tier {tier} at most"


@click.command("sink", short_help="Try a sink that a package brings.")
@click.argument("target")
def sink(target: str) -> None:
    """Hand TARGET (KIND:…) made-up events of every type, twice, and have it forget their session.

    What it must do with them is in sessionpipe/sinks/base.py. Exit status 1 when something is wrong.

    \b
    Example:
      sessionpipe-conformance sink sqlite:/tmp/try.db
    """
    from sessionpipe.terminal import printable

    try:
        wrong = apart(target.partition(":")[0], lambda: check(target))
    except TooSlow as error:
        wrong = [str(error)]
    for line in wrong:
        click.echo(printable(line))
    if not wrong:
        click.echo(
            printable(f"{target.partition('?')[0]} took everything, twice, and that it is to be forgotten")
        )
    sys.exit(1 if wrong else 0)


COMMAND = sink
