"""What a harness's own files say of sessions that were there before us (protocol §4, ``session.backfill``).

:func:`listed` finds the files, :func:`glimpse` looks at one, :func:`first_asked` for a title alone: all within
bounds, whatever is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.conversation import Conversation, Meaning, Queued, Step
from sessionpipe.harnesses.files import Files, Opened

if TYPE_CHECKING:
    from sessionpipe.harnesses.reading import Format

#: How many names one listing looks at.
_NAMES = 200_000
#: How much of a file's beginning and of its end is read; a smaller one is read whole.
_HEAD = 512 << 10
_TAIL = 256 << 10
_WHOLE = 4 << 20


class Past(NamedTuple):
    """A session found in a harness's files; its texts are raw, redacted before anything is stored.

    ``session_id`` as the harness's hooks spell it, or the session would come twice. ``started_ms`` and
    ``last_ms`` are epoch milliseconds of its first and last record, ``turns`` how many prompts of a person
    it has (None where counting would mean reading it whole). ``block`` has fields of the session block
    (protocol §3: ``cwd``, ``model``, ``title`` with ``title_source``, ``parent_id``, ``account_id``, ``branch``,
    ``repo`` …), ``version`` the harness's.

    A reader yields sessions in any order, those last touched at ``since_ms`` or later (a file's time of
    change decides before it is opened), the person's visible ones only: no subagent's, no hidden title
    thread's, none without a prompt. It looks at a file's beginning and end, never at all of a large one.
    """

    session_id: str
    started_ms: int
    last_ms: int
    turns: int | None
    block: dict[str, Any]
    version: str | None = None


class Listed(NamedTuple):
    """A file that was found, and when it was last written (epoch milliseconds)."""

    path: Path
    changed_ms: int


def listed(folder: str | Path, *levels: str, since_ms: int) -> Iterator[Listed]:
    """The files below ``folder`` that were written at ``since_ms`` or later, sorted by name in each folder.

    ``levels``: per level a pattern that all of a name must match, the last one a file's. No link is
    followed but ``folder`` itself, and what can't be listed is not there.
    """
    patterns = [re.compile(level) for level in levels]
    budget = _NAMES

    def walk(at: str, depth: int) -> Iterator[Listed]:
        nonlocal budget
        try:
            with os.scandir(at) as entries:
                # Sorted, so that what is found does not depend on the disk; and cut, so that a folder of
                # millions costs no more than one of thousands.
                found = sorted(
                    (entry for entry, _ in zip(entries, range(max(budget, 0)), strict=False)),
                    key=lambda entry: entry.name,
                )
        except OSError:
            return
        budget -= len(found)
        for entry in found:
            if not patterns[depth].fullmatch(entry.name):
                continue
            try:
                if depth + 1 < len(patterns):
                    if entry.is_dir(follow_symlinks=False):
                        yield from walk(entry.path, depth + 1)
                elif entry.is_file(follow_symlinks=False):
                    changed_ms = entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
                    if changed_ms >= since_ms:
                        yield Listed(Path(entry.path), changed_ms)
            except OSError:
                continue

    yield from walk(str(folder), 0)


class Glimpse(NamedTuple):
    """What a transcript's beginning and end say.

    ``asked``: the first thing the person asked, ``first_ms`` and ``last_ms``: of the first and the last
    record that says when it was, ``turns``: how many prompts the person has in it (None: too large to count).
    """

    asked: str | None
    first_ms: int | None
    last_ms: int | None
    turns: int | None


def glimpse(opened: Opened, format: Format) -> Glimpse | None:
    """What a transcript's beginning and end say; None for one that has not got to its own beginning."""
    own = format.own(opened)
    if own is None:
        return None
    whole = opened.size - own <= _WHOLE
    times = _Times(format.meaning(opened))
    talk = Conversation(times, own)
    for line in jsonl.forward(opened, own, within=None if whole else _HEAD):
        talk.feed(line)
        if not whole and line.end - own > _HEAD:
            break
    turns = [*talk.over, *([talk.open] if talk.open else [])]
    asked = next((text for turn in turns if turn.kind == "ask" and (text := str(turn.user))), None)
    if whole:
        count = sum(turn.kind != "injected" and turn.counts for turn in turns)
        return Glimpse(asked, times.first_ms, times.last_ms, count)
    at_the_end = _Times(format.meaning(opened))
    for line in jsonl.backward(opened, _TAIL):
        for _ in at_the_end.steps(line):
            pass
        if at_the_end.last_ms is not None:
            break
    return Glimpse(asked, times.first_ms, max(times.last_ms or 0, at_the_end.last_ms or 0) or None, None)


def first_asked(place: Path | None, format: Format, files: Files) -> str | None:
    """The first thing the person asked in the transcript at ``place``, looked for until it is there."""

    def asked(opened: Opened) -> str | None:
        glimpsed = glimpse(opened, format)
        return glimpsed.asked if glimpsed else None

    return files.learn(place, "asked", asked, per="file") if place else None


class _Times(Meaning):
    """Lines as they mean, and the first and the last time that is told in them."""

    def __init__(self, meaning: Meaning) -> None:
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self._meaning = meaning

    def steps(self, line: jsonl.Line) -> Iterator[Step]:
        for step in self._meaning.steps(line):
            # Lines may be out of order, and no time is from before there were any.
            if not isinstance(step, Queued) and (ms := step.ms or 0) > 0:
                self.first_ms, self.last_ms = min(self.first_ms or ms, ms), max(self.last_ms or ms, ms)
            yield step
