"""What a journal holds, in words: positions as a person names them, contents as a terminal may show them.

Everything here comes from a model, a tool or a stranger's bundle, and is text to whoever prints it:
lines with a tone, their controls marked. Nothing here reads but artifacts, and those when they are shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from sessionpipe.cli.common import Fail, printable, printable_text, usage
from sessionpipe.cli.render import STYLES, Tone, cut, duration, tilde
from sessionpipe.journal.bundle import Bundle, find
from sessionpipe.journal.files import dump
from sessionpipe.journal.format import COMPLETE, FAILED, RECORDING, parse_time
from sessionpipe.journal.index import Journal, Replaced
from sessionpipe.journal.resolve import Artifacts, Unresolved, decode

#: Of an artifact, as much is read to be shown; all of it is read to be checked.
_ARTIFACT_SHOWN = 64 << 10
_WIDE = 160


class Line(NamedTuple):
    """A line to print: an indent in columns, text that is safe for a terminal, a tone."""

    indent: int
    text: str
    tone: Tone = "plain"

    def paint(self, *, colour: bool) -> str:
        """It as a terminal is given it."""
        return " " * self.indent + styled(self.text, self.tone, colour=colour) if self.text else ""


def styled(text: str, tone: Tone, *, colour: bool) -> str:
    """``text`` in a tone, where colour is wanted."""
    return click.style(text, **STYLES[tone]) if colour and STYLES[tone] else text


# -- Finding --


def bundle_at(folder: Path) -> Bundle:
    """The bundle in ``folder``, or whose session it is; fails when there is none."""
    bundle = find(folder)
    if not bundle.sessions:
        why = "; ".join(f"{problem.file}: {problem.message}" for problem in bundle.problems)
        raise Fail(f"{folder} is no journal ({why}); `sessionpipe journal record --out DIR` makes one")
    return bundle


def one_session(bundle: Bundle, why: str) -> tuple[str, ...]:
    """The only session of a bundle; refuses one with several, for ``why`` needs one."""
    if len(bundle.sessions) > 1:
        places = ", ".join(str(bundle.root.joinpath(*parts)) for parts in bundle.sessions)
        usage(
            f"{why} is of one session, and there are {len(bundle.sessions)}: name one of {printable(places)}"
        )
    return bundle.sessions[0]


_OFFSET = re.compile(r"\+(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?\Z", re.ASCII)
_CLOCK = re.compile(r"\d\d?:\d\d(?::\d\d(?:\.\d{1,6})?)?\Z", re.ASCII)


def position(text: str, journal: Journal) -> int:
    """The ``seq`` that ``text`` names: a number, an ISO 8601 time, a clock time, ``+1m30s`` from the start."""
    if text.isascii() and text.isdigit() and len(text) < 16:
        return min(int(text), journal.reducer.through_seq)
    return journal.seq_at(_time(text, journal.began or 0.0))


def _time(text: str, began: float) -> float:
    if (offset := _OFFSET.match(text)) and any(offset.groups()):
        hours, minutes, seconds = (float(part or 0) for part in offset.groups())
        return began + hours * 3600 + minutes * 60 + seconds
    try:
        if _CLOCK.match(text):
            clock = datetime.strptime(text, f"%H:%M{':%S' * (text.count(':') > 1)}{'.%f' * ('.' in text)}")
            # The day is the journal's own, and the clock that of whoever looks.
            return datetime.combine(datetime.fromtimestamp(began).date(), clock.time()).timestamp()
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        usage(
            f"{printable(text)} is no position: give an event's number (47), a time "
            "(2026-07-30T10:00:00Z, 10:00:05), or how far in (+90s, +1m30s)"
        )


@contextmanager
def reading() -> Iterator[None]:
    """Read a journal; fails when it is cut or replaced meanwhile."""
    try:
        yield
    except Replaced:
        raise Fail("the journal was cut or replaced while it was read; run this again") from None


# -- Words --


def clock(at: object) -> str:
    """A recorded time as this machine's clock would have shown it, to the millisecond."""
    local = _local(parse_time(at))
    return "--:--:--.---" if local is None else f"{local:%H:%M:%S.%f}"[:-3]


def day_and_clock(time: float | None) -> str:
    """Epoch seconds as a day and a time."""
    local = _local(time)
    return "an unknown time" if local is None else f"{local:%d %b %Y %H:%M:%S}"


def _local(time: float | None) -> datetime | None:
    try:
        return None if time is None else datetime.fromtimestamp(time)
    except (ValueError, OverflowError, OSError):  # A time here that the calendar there hasn't got.
        return None


def took(start: str, end: str | None) -> str:
    """How long it was between two recorded times; nothing when that isn't known."""
    began, ended = parse_time(start), parse_time(end)
    return "" if began is None or ended is None else duration((ended - began) * 1000)


def joined(*parts: str) -> str:
    """The parts that say something, with a dot between."""
    return " · ".join(part for part in parts if part)


def plural(number: int, what: str) -> str:
    """``3 events``, ``1 entry``."""
    ending = what if number == 1 else what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"{number:,} {ending}"


_STATUS: Mapping[str, Tone] = {COMPLETE: "good", RECORDING: "plain"}


def heading(journal: Journal, *, at: int | None = None) -> Iterator[Line]:
    """What a journal is, its capture's status first; ``at``: the position that is shown."""
    status, reason, _ = journal.verdict
    events, entries = journal.counts
    failure = (journal.capture.value or {}).get("failure")
    if status == FAILED and isinstance(failure, Mapping):
        reason = f"{failure.get('message')} ({failure.get('code')})"
    words = f"{status}: {reason}" if reason else status
    counts = f"{plural(events, 'event')}, {plural(entries, 'entry')}"
    yield Line(0, printable(f"{words} · {counts}"), _STATUS.get(status, "bad"))
    manifest, binding = journal.bundle.manifest or {}, journal.binding() or {}
    run = [str(manifest[name]) for name in ("runId", "workflowName", "status") if name in manifest]
    if run:
        yield Line(0, printable(f"run      {joined(*run)}"), "quiet")
    session = [str(binding.get("piSessionId", "not bound")), tilde(str(binding.get("cwd", "")))]
    yield Line(0, printable(f"session  {joined('/'.join(journal.parts), *session)}"), "quiet")
    if journal.began is not None:
        length = duration(((journal.ended or journal.began) - journal.began) * 1000)
        yield Line(0, f"time     {joined(day_and_clock(journal.began), length)}", "quiet")
    redaction = (journal.capture.value or {}).get("redaction")
    if isinstance(redaction, Mapping):
        yield Line(
            0, printable(f"secrets  removed by {redaction.get('ruleset')} as it was recorded"), "quiet"
        )
    if at is not None:
        yield Line(0, f"shown    through event {at:,}", "quiet")


# -- Contents --


class Piece(NamedTuple):
    """A part of a message. ``kind``: ``text``, ``thinking``, ``toolCall`` (``value``) or ``note``."""

    kind: str
    text: str
    value: Any = None


class Reader:
    """Reads what recorded values stand for. ``whole``: artifacts are shown to their end."""

    def __init__(self, bundle: Bundle, *, whole: bool = False) -> None:
        self._artifacts = Artifacts(bundle.root, bundle.artifacts)
        self._limit = None if whole else _ARTIFACT_SHOWN

    def value(self, recorded: object, *, own: bool = False) -> Any:
        """A recorded value with its artifacts in place; one that isn't there says so.

        ``own``: it is the conversation's own, in which what is like a reference may be none.
        """
        try:
            return decode(recorded, lambda value: self._resolve(value, own=own))
        except RecursionError:
            return "(nested too deeply to be shown)"

    def _resolve(self, value: object, *, own: bool) -> Any:
        try:
            reference = self._artifacts.reference(value)
        except Unresolved as error:
            return value if own else f"(an artifact that can't be shown: {error})"
        try:
            text = self._artifacts.read(reference, self._limit).decode("utf-8", "replace")
        except Unresolved as error:
            return f"(an artifact that can't be shown: {error})"
        if self._limit is not None and reference.bytes > self._limit:
            return f"{text}\n… {reference.bytes:,} bytes in {'/'.join(reference.parts)}"
        return text

    def of_entry(self, entry: Mapping[str, Any]) -> list[Piece]:
        """The parts of the message that a Pi entry holds."""
        message = self.value(entry.get("message"), own=True)
        content = message.get("content") if isinstance(message, Mapping) else entry.get("content")
        if isinstance(content, str):
            return [Piece("text", content)]
        return [self._part(part) for part in content] if isinstance(content, list) else []

    def _part(self, part: object) -> Piece:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if isinstance(part, Mapping):
            if kind in ("text", "thinking") and isinstance(part.get(kind), str):
                return Piece(str(kind), part[str(kind)])
            if kind == "toolCall":
                return Piece("toolCall", "", part)
            if kind == "image":
                return Piece("note", f"[image, {part.get('mimeType', 'of a kind unknown')}]")
        return Piece("note", f"[{kind if isinstance(kind, str) else 'something that is no content'}]")

    def of_blocks(self, blocks: list[dict[str, Any]]) -> list[Piece]:
        """The parts of a message as its events rebuild them."""
        return [Piece(block["kind"], block["text"], self.value(block.get("value"))) for block in blocks]

    def result(self, recorded: object) -> str:
        """A tool's result as text: what its content says, or the whole of it as JSON."""
        value = self.value(recorded)
        content = value.get("content") if isinstance(value, Mapping) else value
        if isinstance(content, str):
            return content
        if isinstance(content, list) and content:
            parts = [self._part(part) for part in content]
            return "\n".join(part.text or as_json(part.value) for part in parts)
        return "" if value in (None, {}, {"content": []}) else as_json(value, indent=2)


def as_json(value: object, *, indent: int | None = None) -> str:
    """``value`` as JSON for people."""
    return json.dumps(value, ensure_ascii=False, indent=indent) if indent else dump(value).decode()


def call(name: object, args: object, columns: int | None) -> str:
    """A tool call on one line."""
    told = "" if args in (None, {}) else " " + as_json(args)
    return cut(printable(f"→ {name if isinstance(name, str) else '?'}{told}"), columns or _WIDE)


def block_lines(
    text: str, indent: int, tone: Tone, *, most: int | None = None, more: str = " (--full shows all)"
) -> Iterator[Line]:
    """``text`` line by line, at most so many of them; ``more`` says where the rest is."""
    rows = printable_text(text).expandtabs(4).rstrip("\n").split("\n") if text else []
    shown = rows if most is None or len(rows) <= most + 1 else rows[:most]
    for row in shown:
        yield Line(indent, row, tone)
    if len(shown) < len(rows):
        yield Line(indent, f"… {plural(len(rows) - len(shown), 'more line')}{more}", "quiet")
