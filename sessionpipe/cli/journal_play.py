"""``sessionpipe journal replay`` and ``follow``: the text as it appeared, once more or right now."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import click

from sessionpipe.cli.common import Fail, printable, printable_text, watching
from sessionpipe.cli.journal_text import (
    Line,
    Piece,
    Reader,
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
    styled,
    took,
)
from sessionpipe.cli.render import TELLING, Tone, colour_wanted, columns_of, cut
from sessionpipe.journal.bundle import find
from sessionpipe.journal.format import COMPLETE, FAILED, parse_time
from sessionpipe.journal.index import Event, Journal, Replaced
from sessionpipe.journal.reducer import Block, Change, Message, Reducer, Tool, Turn, whole

#: How often a journal that grows is looked at: one open and a stat a file.
INTERVAL = 0.1
RESULT_LINES = 6


@click.command(short_help="Play a journal again, at its own pace or faster.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--speed", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True,
              help="How many times as fast; inf: without waiting.")  # fmt: skip
@click.option("--from", "where", metavar="SEQ|TIME", help="Begin behind an event, a time, or +1m30s in.")
@click.option("--max-gap", type=click.FloatRange(0), metavar="S", help="Wait no longer than so many seconds.")
def replay(folder: Path, speed: float, where: str | None, max_gap: float | None) -> None:
    """Print a conversation as it appeared, piece by piece, with the pauses it had.

    \b
    Examples:
      sessionpipe journal replay DIR
      sessionpipe journal replay DIR --speed 4 --max-gap 2
      sessionpipe journal replay DIR --from +10m
      sessionpipe journal replay DIR --speed inf > conversation.txt

    Order is the order of the events; their times only make the pauses, before they are sped up.
    """
    bundle = bundle_at(folder)
    if where is not None:
        one_session(bundle, "--from")
    with watching(), reading():
        for parts in bundle.sessions:
            journal = Journal(bundle, parts).read_all()
            with Teller(journal, sys.stdout) as teller:
                start = 0 if where is None else position(where, journal)
                reducer = teller.begin_at(start)
                for event in _paced(journal.events(start), speed, max_gap):
                    teller.tell(reducer.apply(event))
                teller.end()


def _paced(events: Iterator[Event], speed: float, most: float | None) -> Iterator[Event]:
    """``events``, each when it is due. What is late is not waited for, and is made up for by the next."""
    due, before = time.monotonic(), None
    for event in events:
        at = parse_time(event.get("at"))
        if at is not None:
            # A clock that was set back makes no pause, and the time until it is back where it was none.
            gap = max(0.0, at - before) if before is not None else 0.0
            before = at if before is None else max(before, at)
            due += min(gap, gap if most is None else most) / speed
            while (pause := due - time.monotonic()) > 0:
                time.sleep(min(pause, 3600.0))  # A year is more than sleep takes.
        yield event


@click.command(short_help="Watch a journal that is being recorded.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--from", "where", metavar="SEQ|TIME|end", help="Begin behind an event or a time, or at the end."
)
def follow(folder: Path, where: str | None) -> None:
    """Print what a journal holds, and each piece that is added to it, until its recording ends.

    \b
    Examples:
      sessionpipe journal follow DIR
      sessionpipe journal follow DIR --from end

    DIR may not be there yet. Exit status: 0 when the recording ended, completely or as a failed one
    that says so; 1 when the journal is none of both.
    """
    with watching():
        done: set[tuple[str, ...]] = set()
        while (journal := _newest(folder, done)) is not None:
            _follow(journal, None if done else where)
            done.add(journal.parts)
            if journal.verdict.status not in (COMPLETE, FAILED):
                raise Fail(f"{folder}: {journal.verdict.reason}")


def _newest(folder: Path, done: set[tuple[str, ...]]) -> Journal | None:
    """The newest session that was not followed yet, waited for if there never was one."""
    told = False
    while True:
        bundle = find(folder)
        left = [parts for parts in bundle.sessions if parts not in done]
        if left:
            return Journal(bundle, left[-1])
        if done:
            return None
        if not told:
            click.echo(f"waiting for a journal in {printable(folder)}", err=True)
            told = True
        time.sleep(INTERVAL)


def _follow(journal: Journal, where: str | None) -> None:
    """Tell a journal until its recording has ended."""
    with Teller(journal, sys.stdout) as teller:
        begun = False
        while True:
            try:
                if begun:
                    for _, change in journal.read():
                        teller.tell(change)
                else:
                    # What is there first: where to begin is a place in it.
                    last = journal.read_all().reducer.through_seq
                    start = 0 if where is None else last if where == "end" else position(where, journal)
                    reducer = teller.begin_at(start)
                    for event in journal.events(start):
                        teller.tell(reducer.apply(event))
                    begun = True
            except Replaced:
                teller.cut_off()
                begun, where = False, None
                time.sleep(INTERVAL)
                continue
            if _over(journal):
                return teller.end()
            time.sleep(INTERVAL)


def _over(journal: Journal) -> bool:
    """Whether nothing more will come: its capture says so, or its run is over without that."""
    problem = journal.capture.problem
    if problem is not None and problem.rule not in ("capture-missing", "capture-invalid"):
        return True
    return journal.capture.status in (COMPLETE, FAILED) or journal.bundle.terminal


class Teller:
    """Writes changes of a conversation to a stream, each piece of text as it comes."""

    def __init__(self, journal: Journal, out: IO[str]) -> None:
        self._journal = journal
        self._out = out
        self._reader = Reader(journal.bundle)
        self._colour = colour_wanted(out)
        #: Whose text the last line is, by the rows of message and block; what waits for the rest of a
        #: character; whether the line is empty.
        self._block: tuple[int, int] | None = None
        self._held = ""
        self._fresh = True
        #: Tool calls whose line was printed when the model had made them, and messages with any text.
        self._calls: set[str] = set()
        self._told: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, BrokenPipeError):
            self._end_block()

    # -- What happens --

    def begin_at(self, seq: int) -> Reducer:
        """Print what the journal is, and what is unfinished at a position; the fold there."""
        for line in heading(self._journal):
            self._line(line)
        reducer = self._journal.seek(seq)
        for message in reducer.messages():
            if message.end is None and message.blocks:
                self._head(message)
                for index in sorted(message.blocks):
                    self._piece(message, message.blocks[index], message.blocks[index].text)
        for tool in reducer.tools():
            if tool.end is None:
                self._tool("tool_execution_started", tool)
        self._out.flush()
        return reducer

    def cut_off(self) -> None:
        """Say that what was told is no longer what there is."""
        self._line(Line(0, ""))
        self._line(Line(0, "the journal was cut or replaced: here it is from its beginning", "needs"))
        self._calls.clear()
        self._told.clear()

    def tell(self, change: Change | None) -> None:
        """Print what an event changed."""
        if change is None:
            return
        span, block = change.span, change.block
        if block is not None and isinstance(span, Message):
            self._assistant(change, span, block)
        elif isinstance(span, Turn) and change.what == "turn_started":
            self._line(Line(0, ""))
            words = joined(f"turn {span.index}", "/".join(span.owner), clock(span.start[1]))
            self._line(Line(0, printable(words), "quiet"))
        elif isinstance(span, Message):
            self._message(change.what, span)
        elif isinstance(span, Tool):
            self._tool(change.what, span)
        self._out.flush()

    def end(self) -> None:
        """End with what the capture came to."""
        verdict = self._journal.verdict
        events, entries = self._journal.counts
        words = f"{verdict.status}: {verdict.reason}" if verdict.reason else verdict.status
        self._line(Line(0, ""))
        self._line(
            Line(0, printable(f"{words} · {plural(events, 'event')}, {plural(entries, 'entry')}"), "quiet")
        )
        self._out.flush()

    # -- Messages --

    def _message(self, what: str, message: Message) -> None:
        if what == "message_started" and message.role == "assistant":
            self._head(message)
        elif what == "error":
            self._line(Line(2, "broke off", "bad"))
        elif what == "message_finished":
            self._finished(message)

    def _finished(self, message: Message) -> None:
        self._end_block()
        if message.role == "assistant":
            if message.id not in self._told:
                self._pieces(message)
            if message.status == "unsettled":
                self._line(Line(2, "unsettled: Pi kept no entry of this", "needs"))
        elif message.role == "system":
            self._head(message)
            if length := sum(len(piece.text) for piece in self._settled(message)):
                self._line(Line(2, f"{length:,} characters", "quiet"))
        elif message.role != "toolResult":  # That was told when the tool was done.
            self._head(message)
            self._pieces(message)

    def _settled(self, message: Message) -> list[Piece]:
        entry = self._journal.entry(message.entry_id) if message.entry_id else None
        return [] if entry is None else self._reader.of_entry(entry)

    def _pieces(self, message: Message) -> None:
        for piece in self._settled(message):
            if piece.kind == "toolCall" and isinstance(piece.value, dict):
                self._call(piece.value.get("id"), piece.value.get("name"), piece.value.get("arguments"))
            else:
                tone: Tone = "plain" if piece.kind == "text" else "quiet"
                for line in block_lines(piece.text, 2, tone):
                    self._line(line)

    def _head(self, message: Message) -> None:
        self._line(Line(0, printable(joined(message.role, clock(message.start[1]))), "good"))

    def _assistant(self, change: Change, message: Message, block: Block) -> None:
        what = change.what
        if what == "delta":
            self._piece(message, block, change.text)
        elif what == "end":
            if block.kind == "toolCall":
                value = self._reader.value((block.value or {}).get("value"))
                if isinstance(value, dict):
                    self._told.add(message.id)
                    # Arguments that were watched coming are not told again.
                    args = None if block.streamed else value.get("arguments")
                    self._call(value.get("id"), value.get("name"), args)
            elif not block.streamed and block.text:
                self._piece(message, block, block.text)
            self._end_block()

    def _piece(self, message: Message, block: Block, text: str) -> None:
        """Print text where the last line ends, if that is this block's, and on a line of its own if not."""
        self._told.add(message.id)
        if self._block != (message.row, block.index):
            self._end_block()
            self._block = (message.row, block.index)
            if block.kind == "thinking":
                self._out.write(f"  {styled('thinking', 'quiet', colour=self._colour)}\n")
        text = whole(self._held + text)
        # A line end and a character may come in two pieces.
        keep = text[-1:] if text[-1:] == "\r" or "\ud800" <= text[-1:] <= "\udbff" else ""
        self._held, text = keep, text[: len(text) - len(keep)]
        tone: Tone = "plain" if block.kind == "text" else "quiet"
        indent = 2 if block.kind == "text" else 4
        for number, row in enumerate(printable_text(text).split("\n")):
            if number:
                self._out.write("\n")
                self._fresh = True
            if row:
                self._out.write(" " * indent * self._fresh + styled(row, tone, colour=self._colour))
                self._fresh = False

    def _end_block(self) -> None:
        self._block, self._held = None, ""
        if not self._fresh:
            self._out.write("\n")
            self._fresh = True

    # -- Tools --

    def _call(self, id_: object, name: object, args: object) -> None:
        columns = columns_of(self._out)
        self._line(Line(2, call(name, args, None if columns is None else columns - 2)))
        if isinstance(id_, str):
            self._calls.add(id_)

    def _tool(self, what: str, tool: Tool) -> None:
        if what == "tool_execution_started":
            if tool.id not in self._calls:
                self._call(tool.id, tool.name, self._reader.value(tool.values.get("args")))
        elif what == "tool_execution_finished":
            self._calls.discard(tool.id)
            failed = tool.status == "failed"
            length = took(tool.start[1], tool.end[1] if tool.end else None)
            words = joined(f"← {tool.name}{_about(tool)}", "failed" if failed else "", length)
            self._line(Line(2, printable(words), "bad" if failed else "good"))
            if text := self._reader.result(tool.values.get("result")):
                for line in block_lines(text, 4, "quiet", most=RESULT_LINES, more=""):
                    self._line(line)

    # -- Lines --

    def _line(self, line: Line) -> None:
        self._end_block()
        self._out.write(line.paint(colour=self._colour) + "\n")


def _about(tool: Tool) -> str:
    """What tells this execution from others that run beside it."""
    args = tool.values.get("args")
    told = (
        [args[name] for name in TELLING if isinstance(args.get(name), str)] if isinstance(args, dict) else []
    )
    return " " + cut(printable(told[0]), 40) if told else ""


COMMANDS: dict[str, Any] = {"replay": replay, "follow": follow}
