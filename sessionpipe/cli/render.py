"""Lines and tables for a terminal: an event as one line a person reads, columns, colour, times."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from typing import IO, Any, NamedTuple

from sessionpipe.cli.common import printable
from sessionpipe.protocol import short_id
from sessionpipe.words import TELLING as TELLING
from sessionpipe.words import Tone as Tone
from sessionpipe.words import Words, mapping, span, text_of, width
from sessionpipe.words import cut as cut
from sessionpipe.words import describe as describe
from sessionpipe.words import duration as duration

#: What click.style is told for each tone.
STYLES: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "quiet": {"dim": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "needs": {"fg": "yellow", "bold": True},
}

#: Columns of the harness's name and of the session's; the rest of a line is what happened.
HARNESS, NAME = 11, 24


class Line(NamedTuple):
    """The parts of a line, all of them safe for a terminal."""

    when: str
    harness: str
    short: str
    name: str
    words: Words


def line(
    event: Mapping[str, Any], *, today: date, zone: tzinfo | None = None, home: str | None = None
) -> Line:
    """The line of one event; ``zone`` None is this machine's own, ``home`` a folder to write as ``~``."""
    session = mapping(event.get("session"))
    harness = str(mapping(event.get("harness")).get("name", "?"))
    words = describe(event)
    if home and home.strip("/"):
        words = words._replace(text=words.text.replace(home.rstrip("/") + "/", "~/"))
    return Line(
        when=clock(event.get("time"), today=today, zone=zone),
        harness=printable(harness),
        short=short_id(harness, str(session.get("id", ""))),
        name=printable(session_name(session)),
        words=words,
    )


def paint(row: Line, *, colour: bool, columns: int | None = None) -> str:
    """A line as text; ``columns`` cuts it to a terminal's width."""
    words = row.words.text
    head = f"{row.when} {pad(row.harness, HARNESS)} {row.short} {pad(row.name, NAME)} "
    if columns is not None:
        words = cut(words, max(columns - width(head), 10))
    if not colour:
        return (head + words).rstrip()
    import click

    return (
        click.style(f"{row.when} {pad(row.harness, HARNESS)} ", dim=True)
        + click.style(row.short, fg="cyan")
        + f" {pad(row.name, NAME)} "
        + click.style(words, **STYLES[row.words.tone])
    )


def session_name(session: Mapping[str, Any]) -> str:
    """What a person knows a session by: its folder's name and its title."""
    cwd = text_of(session, "cwd").rstrip("/")
    folder = cwd.rpartition("/")[2] or cwd
    return ": ".join(part for part in (folder, text_of(session, "title")) if part)


def clock(time: object, *, today: date, zone: tzinfo | None = None) -> str:
    """An event's time as a wall clock shows it, with the day when that isn't today."""
    try:
        local = datetime.fromisoformat(str(time)).astimezone(zone)
    except (ValueError, OverflowError):
        return "--:--:--"
    return f"{local:%H:%M:%S}" if local.date() == today else f"{local:%d %b %H:%M:%S}"


def ago(then_ms: int, now_ms: int) -> str:
    """How long ago, in one unit."""
    return f"{span(now_ms - then_ms)} ago"


def stamp(epoch_ms: int) -> str:
    """A time that is to be read once, in this machine's own zone."""
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC).astimezone():%d %b %H:%M}"


# --- text ---------------------------------------------------------------------------------------


def tilde(path: str) -> str:
    """A path as a person writes it."""
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111  # the text, not a Path
    return "~" + path[len(home) :] if home and (path == home or path.startswith(home + "/")) else path


def table(rows: Sequence[Sequence[str]], *, gap: str = "  ") -> list[str]:
    """Rows of cells as lines whose columns stand below each other."""
    safe = [[printable(cell) for cell in row] for row in rows]
    widths = [max(width(cell) for cell in column) for column in zip(*safe, strict=True)]
    return [
        gap.join(pad(cell, wide) for cell, wide in zip(row, widths, strict=True)).rstrip() for row in safe
    ]


def colour_wanted(stream: IO[str]) -> bool:
    """Whether this stream is a terminal that shows colour, and the person hasn't said no (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns_of(stream: IO[str]) -> int | None:
    """How wide the terminal is; None for what is no terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except OSError:
        return None


def pad(text: str, columns: int) -> str:
    """``text`` in exactly ``columns``."""
    text = cut(text, columns)
    return text + " " * (columns - width(text))
