"""``sessionpipe journal show``: the conversation as it stands at the end, or as it stood at a position."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from sessionpipe.cli.common import printable, printable_json, watching
from sessionpipe.cli.journal_text import (
    Line,
    Piece,
    Reader,
    as_json,
    block_lines,
    bundle_at,
    call,
    clock,
    heading,
    joined,
    one_session,
    plural,
    position,
    reading,
    took,
)
from sessionpipe.cli.render import Tone, colour_wanted, columns_of
from sessionpipe.journal.format import RECORDING
from sessionpipe.journal.index import Journal
from sessionpipe.journal.reducer import Message, Reducer, Span, Tool, Turn

#: Of a tool's result, and of a system prompt, so many lines unless --full.
RESULT_LINES = 12
_STATUS: dict[str, Tone] = {"running": "needs", "failed": "bad", "finished": "good"}


@click.command(short_help="Print the conversation of a journal.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--at", "where", metavar="SEQ|TIME", help="As it stood at an event, a time, or +1m30s in.")
@click.option("--full", is_flag=True, help="Long results and arguments to their end.")
@click.option("--json", "as_json", is_flag=True, help="The state, the entries and the times, as JSON.")
def show(folder: Path, where: str | None, full: bool, as_json: bool) -> None:
    """Print a conversation: its turns, messages, thinking, tool calls, and how long each took.

    \b
    Examples:
      sessionpipe journal show DIR
      sessionpipe journal show DIR --at 120            as it stood after event 120
      sessionpipe journal show DIR --at 10:32:05       at that time of its day
      sessionpipe journal show DIR --at +90s           a minute and a half in
      sessionpipe journal show DIR --json | jq .sessions[0].state.tools

    A settled message is shown as Pi kept it. One that never settled is put together from its events,
    and marked so.
    """
    bundle = bundle_at(folder)
    if where is not None:
        one_session(bundle, "--at")
    views = []
    with watching(), reading():
        for number, parts in enumerate(bundle.sessions):
            journal = Journal(bundle, parts).read_all()
            reducer = journal.reducer if where is None else journal.seek(position(where, journal))
            if as_json:
                views.append(as_values(journal, reducer))
                continue
            if number:
                click.echo("\n" + "=" * 40 + "\n")
            reader = Reader(bundle, whole=full)
            colour, columns = colour_wanted(sys.stdout), columns_of(sys.stdout)
            for line in heading(journal, at=None if where is None else reducer.through_seq):
                click.echo(line.paint(colour=colour))
            for line in _Page(journal, reducer, reader, full=full, columns=columns).lines():
                click.echo(line.paint(colour=colour))
        if as_json:
            from sessionpipe.journal.files import dump

            click.echo(printable_json(dump({"bundle": str(bundle.root), "sessions": views}).decode()))


def as_values(journal: Journal, reducer: Reducer) -> dict[str, Any]:
    """A session at a position as plain values: what ``show --json`` prints of it."""
    state = reducer.state()
    events, entries = journal.counts

    def times(spans: list[Any]) -> list[dict[str, Any]]:
        return [
            {
                "id": span.id,
                "turnId": span.turn_id,
                "nodeId": span.owner[0],
                "attemptId": span.owner[1],
                "startedAt": span.start[1],
                "finishedAt": span.end[1] if span.end else None,
            }
            for span in spans
        ]

    return {
        "path": "/".join(journal.parts),
        "status": journal.verdict.status,
        "reason": journal.verdict.reason,
        "counts": {"events": events, "entries": entries},
        "capture": journal.capture.value,
        "binding": journal.binding(),
        "state": state,
        "entries": {id_: journal.entry(id_) for id_ in state["settledEntryIds"]},
        "turns": times(reducer.turns()),
        "messages": times(reducer.messages()),
        "tools": times(reducer.tools()),
    }


class _Page:
    """The lines of one position."""

    def __init__(
        self, journal: Journal, reducer: Reducer, reader: Reader, *, full: bool, columns: int | None
    ) -> None:
        self._journal = journal
        self._reducer = reducer
        self._reader = reader
        self._full = full
        self._columns = columns
        self._turns = {turn.id: turn for turn in reducer.turns()}
        self._of_message: dict[str, list[Tool]] = {}
        self._tools = reducer.tools()
        for tool in self._tools:
            self._of_message.setdefault(tool.message_id, []).append(tool)
        self._told: set[int] = set()

    def lines(self) -> Iterator[Line]:
        """All of it, turn by turn."""
        turn_id = None
        for message in self._reducer.messages():
            if message.turn_id != turn_id:
                turn_id = message.turn_id
                yield Line(0, "")
                yield self._turn(self._turns.get(turn_id), message)
            yield from self._message(message)
        if loose := [tool for tool in self._tools if tool.row not in self._told]:
            yield Line(0, "")
            yield Line(0, "tool executions without their message", "quiet")
            for tool in loose:
                yield from self._tool(tool, 2)
        if notes := self._reducer.diagnostics():
            yield Line(0, "")
            yield Line(0, f"{plural(len(notes), 'thing')} about this journal:", "needs")
            for note in notes[: None if self._full else RESULT_LINES]:
                yield Line(2, printable(f"event {note['seq']}: {note['message']} ({note['code']})"), "needs")
            if not self._full and len(notes) > RESULT_LINES:
                yield Line(2, f"… and {len(notes) - RESULT_LINES:,} more (--full shows all)", "quiet")

    def _turn(self, turn: Turn | None, message: Message) -> Line:
        span: Span = turn or message
        name = f"turn {turn.index}" if turn else "a turn that was not seen to start"
        words = joined(name, "/".join(span.owner), clock(span.start[1]), *_time(turn))
        return Line(0, printable(words), "quiet")

    def _message(self, message: Message) -> Iterator[Line]:
        entry = self._journal.entry(message.entry_id) if message.entry_id else None
        view = message.final or message.view()
        pieces = self._reader.of_entry(entry) if entry is not None else self._reader.of_blocks(view["blocks"])
        tools = self._of_message.get(message.id, [])
        words, tone = self._standing(message, found=entry is not None)
        head = joined(message.role, clock(message.start[1]), *_time(message), words)
        yield Line(2, printable(head), tone)
        if message.role == "toolResult" and self._is_shown(entry):
            return
        if not pieces and message.end is not None and message.role != "assistant":
            yield Line(4, "its text is not in the journal", "quiet")
        for piece in pieces:
            yield from self._piece(piece, message, tools)
        for tool in tools:
            if tool.row not in self._told:
                yield from self._tool(tool, 4)

    def _standing(self, message: Message, *, found: bool) -> tuple[str, Tone]:
        """What is to be said of where a message's content comes from."""
        if message.status == "settled":
            return ("", "good") if found else ("its entry is missing: put together from events", "bad")
        words = {"unsettled": "unsettled", "finished": "not settled yet", "error": "broke off"}.get(
            message.status
        )
        if words is None:
            at_end = self._reducer.through_seq == self._journal.reducer.through_seq
            over = at_end and self._journal.verdict.status != RECORDING
            words = "not finished" if over else "streaming"
        return f"{words}: put together from events", "needs"

    def _is_shown(self, entry: Any) -> bool:
        """Whether the result in a toolResult message was shown with its execution."""
        message = entry.get("message") if isinstance(entry, dict) else None
        wanted = message.get("toolCallId") if isinstance(message, dict) else None
        return any(self._tools[row].id == wanted for row in self._told)

    def _piece(self, piece: Piece, message: Message, tools: list[Tool]) -> Iterator[Line]:
        if piece.kind == "toolCall":
            value = piece.value if isinstance(piece.value, dict) else {}
            tool = next((t for t in tools if t.id == value.get("id") and t.row not in self._told), None)
            if tool is not None:
                yield from self._tool(tool, 4)
            elif value:
                yield from self._call(value.get("name"), value.get("arguments"), 4)
                yield Line(6, "never executed", "quiet")
            else:
                yield Line(4, "→ a call not finished", "quiet")
                yield from block_lines(piece.text, 6, "quiet")
            return
        if piece.kind == "thinking" and piece.text:
            yield Line(4, "thinking", "quiet")
            yield from block_lines(piece.text, 6, "quiet")
            return
        most = RESULT_LINES if message.role == "system" and not self._full else None
        yield from block_lines(piece.text, 4, "quiet" if piece.kind == "note" else "plain", most=most)

    def _call(self, name: object, args: object, indent: int) -> Iterator[Line]:
        if not self._full:
            columns = None if self._columns is None else self._columns - indent
            yield Line(indent, call(name, args, columns))
            return
        yield Line(indent, call(name, None, None))
        yield from block_lines(as_json(args, indent=2), indent + 4, "plain")

    def _tool(self, tool: Tool, indent: int) -> Iterator[Line]:
        self._told.add(tool.row)
        yield from self._call(tool.name, self._reader.value(tool.values.get("args")), indent)
        updates = plural(tool.updates, "update") if tool.updates else ""
        words = joined(tool.status, clock(tool.start[1]), *_time(tool), updates)
        yield Line(indent + 2, words, _STATUS[tool.status])
        if "result" in tool.values and (text := self._reader.result(tool.values["result"])):
            most = None if self._full else RESULT_LINES
            yield from block_lines(text, indent + 2, "quiet", most=most)


def _time(span: Span | None) -> tuple[str]:
    return ("" if span is None or span.end is None else took(span.start[1], span.end[1]),)


COMMANDS = {"show": show}
