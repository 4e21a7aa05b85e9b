"""``sessionpipe sessions``: what runs, what waits for the person, what ended."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from sessionpipe.cli.common import echo_json, printable, state
from sessionpipe.cli.render import STYLES, Tone, ago, colour_wanted, columns_of, cut, session_name, table
from sessionpipe.cli.store import looking
from sessionpipe.clock import now_ms
from sessionpipe.outbox import SessionRow
from sessionpipe.protocol import rfc3339, short_id

#: How many sessions the table shows; `--json` has them all.
SHOWN = 30
#: For how long one that needs the person stands on top: an agent killed while it asked never says otherwise.
ON_TOP_MS = 24 * 3_600_000

_TONES: dict[str, Tone] = {
    "working": "plain",
    "needs you": "needs",
    "idle": "good",
    "ended": "quiet",
    "before": "quiet",
}


def standing(row: SessionRow) -> str:
    """Where a session stands by what was heard of it: ``working``, ``needs you``, ``idle``, ``ended``.

    ``before``: nothing was, it is from an agent's own files (`sessionpipe backfill`).

    It is no verdict on what was not heard: a session whose agent was killed in a turn stays ``working``,
    and when it was last heard of stands beside it. The keys are those of what fold remembers.
    """
    memory = _memory(row.state)
    if memory.open and any(attention.kind != "idle" for attention in memory.open.values()):
        return "needs you"
    if row.last_type == "session.backfill":
        return "before"
    if memory.turn is None:
        # A transcript that was read late may come after the end; nothing but an end forgets the turn.
        return "ended" if row.last_type in ("session.ended", "turn.transcript") else "idle"
    return "idle" if memory.turn.over else "working"


class _Attention(msgspec.Struct):
    kind: str | None = None


class _Turn(msgspec.Struct):
    over: bool = False


class _Memory(msgspec.Struct):
    """Of what fold remembers, what is looked at here: the rest of it is ten times as much to decode."""

    open: dict[str, _Attention] = {}
    turn: _Turn | None = None


_decoded = msgspec.json.Decoder(_Memory).decode


def _memory(state: bytes | str) -> _Memory:
    try:
        return _decoded(state)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Memory()  # A bit may tip on a disk; the session's next hook writes it anew.


@click.command(short_help="List the sessions: what works, what needs you, what ended.")
@click.option("--json", "as_json", is_flag=True, help="Every session, as JSON.")
def sessions(as_json: bool) -> None:
    """List the sessions that were recorded: who waits for you first, then the most recently active.

    The first column names a session in `tail --session` and `forget`; its beginning is enough.

    \b
    Examples:
      sessionpipe sessions
      sessionpipe sessions --json | jq '.[] | select(.state == "needs you")'
    """
    if as_json:
        with looking(state()) as outbox:
            echo_json([as_data(row) for row in (outbox.sessions() if outbox else [])])
        return
    now = now_ms()
    with looking(state()) as outbox:
        rows, known = outbox.newest_sessions(SHOWN, now - ON_TOP_MS) if outbox else ([], 0)
    if not rows:
        click.echo("no session is recorded yet; `sessionpipe install` hooks your agents")
        return
    _show(_ordered(rows, now)[:SHOWN], now)
    if known > SHOWN:
        click.echo(f"and {known - SHOWN} older ones; --json has them all")


def as_data(row: SessionRow) -> dict[str, Any]:
    """One session as ``--json`` prints it: where it stands, and its session block (protocol §3)."""
    return {
        "short_id": short_id(row.harness, row.id),
        "harness": row.harness,
        "id": row.id,
        "state": standing(row),
        "first_at": rfc3339(row.first_ms),
        "last_at": rfc3339(row.last_ms),
        "last_type": row.last_type,
        "events": row.next_seq,
        **row.block,
    }


def _ordered(rows: list[SessionRow], now_ms: int) -> list[SessionRow]:
    def waits(row: SessionRow) -> bool:
        return standing(row) == "needs you" and now_ms - row.last_ms < ON_TOP_MS

    return sorted(rows, key=waits, reverse=True)


def _show(rows: list[SessionRow], now: int) -> None:
    cells = [
        (
            short_id(row.harness, row.id),
            row.harness,
            standing(row),
            f"{row.last_type} {ago(row.last_ms, now)}",
            cut(session_name(row.block), 40),
            str(row.block.get("branch", "")),
            str(row.block.get("model", "")),
        )
        for row in rows
    ]
    heads = ("id", "harness", "state", "last heard", "folder: title", "branch", "model")
    # A column that nothing stands in would only push the others off the terminal.
    used = [index for index in range(len(heads)) if any(row[index] for row in cells)]
    lines = table([[row[index] for index in used] for row in (heads, *cells)])
    colour = colour_wanted(sys.stdout)
    columns = columns_of(sys.stdout)
    for number, text in enumerate(lines):
        text = printable(cut(text, columns) if columns else text)
        tone: Tone = "quiet" if number == 0 else _TONES[cells[number - 1][2]]
        click.echo(click.style(text, **STYLES[tone]) if colour else text)


COMMANDS = {"sessions": sessions}
