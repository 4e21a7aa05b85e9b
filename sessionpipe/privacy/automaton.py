"""hyperscan (the binding of vectorscan): all words in one pass with SIMD.

An automaton has one working memory, so one thread at a time is in it. Nobody waits for another: a
signal's handler that logs may come in the midst of a scan. Whoever finds it busy asks ``instead``.
"""

from __future__ import annotations

import contextlib
import platform
import threading
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

import hyperscan

from sessionpipe.privacy import keeping
from sessionpipe.privacy.sought import BITS, Occurring, Places, Signs, Step, Word

_MATCHER = (getattr(hyperscan, "__version__", ""), platform.machine(), platform.system())


class Expression(NamedTuple):
    """An expression that all regular expressions read alike."""

    text: str
    any_case: bool = False
    once: bool = False
    begins: bool = False


#: Matches no ASCII. Beside an expression whose matches' beginnings are asked for, no second automaton is made, one
#: for texts of some bytes only: of so many words it comes out too large and is thrown away, after it has taken
#: four fifths of all memory and time of the compiling.
_NONE_FOR_SHORT_TEXTS = Expression(r"[\xfe\xff]\xff{15}", begins=True)

#: Is told each match: the expression's index, 0, where it ends, flags, context. The parameters have names
#: because collecting them in `*_` takes as long again.
_Match = Callable[[int, int, int, int, object], None]


def _database(expressions: Sequence[Expression], ids: Sequence[int] = ()) -> hyperscan.Database:
    """``expressions`` compiled; a match is told by its expression's index, or by what ``ids`` has there."""
    patterns = [one.text.encode() for one in expressions]
    told = list(ids or range(len(expressions)))
    flags = [
        (hyperscan.HS_FLAG_SINGLEMATCH if one.once else 0)
        | (hyperscan.HS_FLAG_CASELESS if one.any_case else 0)
        | (hyperscan.HS_FLAG_SOM_LEFTMOST if one.begins else 0)
        for one in expressions
    ]
    # Of all that decides what comes of it, the kind of processor included (see :mod:`sessionpipe.compiled`).
    name = sha256(repr((_MATCHER, patterns, told, flags)).encode()).hexdigest()
    if (stored := keeping.get(name)) is not None:
        # One that was made on a processor which can do more is refused.
        with contextlib.suppress(hyperscan.error):
            database = hyperscan.loadb(stored, hyperscan.HS_MODE_BLOCK)
            database.scratch = hyperscan.Scratch(database)
            return database
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=patterns, ids=told, elements=len(patterns), flags=flags)
    keeping.put(name, hyperscan.dumpb(database))
    return database


def occurring(expressions: Sequence[Expression], instead: Occurring) -> Occurring:
    """Which of ``expressions`` match anywhere."""
    scan = _database([one._replace(once=True) for one in expressions]).scan
    found: list[int] = []
    add = found.append
    free = threading.Lock()

    def match(which: int, start: int, end: int, flags: int, context: object) -> None:
        add(which)

    def answer(piece: bytes) -> list[int]:
        if not free.acquire(blocking=False):
            return instead(piece)
        try:
            found.clear()
            scan(piece, match)
            return found[:]
        finally:
            free.release()

    return answer


def places(groups: Sequence[Sequence[Word]], instead: Places) -> Places:
    """Where the words of ``groups`` stand."""
    words = [word for group in groups for word in group]
    expressions = [Expression(word.expression(), not word.starts, word.once) for word in words]
    scan = _database([*expressions, _NONE_FOR_SHORT_TEXTS]).scan
    found: list[list[int]] = [[] for _ in groups]
    adds = [one.append for one, group in zip(found, groups, strict=True) for _ in group]
    lengths = [len(word.text) for word in words]
    free = threading.Lock()

    def match(which: int, start: int, end: int, flags: int, context: object) -> None:
        adds[which]((end - lengths[which]) << BITS | which)

    def answer(piece: bytes) -> list[list[int]]:
        if not free.acquire(blocking=False):
            return instead(piece)
        try:
            for one in found:
                one.clear()
            scan(piece, match)
            return [one[:] for one in found]
        finally:
            free.release()

    return answer


def signs(steps: Sequence[Step], instead: Signs) -> Signs:
    """Where the signs of the runs of ``steps`` stand: one step after another, as long as the text matches its gate."""
    scans = [
        (
            _database([Expression(step.gate, once=True)]).scan if step.gate else None,
            # What tells a match is how far before its end the sign stands.
            _database(
                [Expression(run.expression()) for run in step.runs], [1 + run.behind[1] for run in step.runs]
            ).scan,
        )
        for step in steps
    ]
    gated: list[int] = []
    found: list[int] = []
    opened, add = gated.append, found.append
    free = threading.Lock()

    def at_gate(which: int, start: int, end: int, flags: int, context: object) -> None:
        opened(end)

    def match(back: int, start: int, end: int, flags: int, context: object) -> None:
        add(end - back)

    def answer(piece: bytes) -> list[int]:
        if not free.acquire(blocking=False):
            return instead(piece)
        try:
            found.clear()
            for gate, scan in scans:
                if gate:
                    gated.clear()
                    gate(piece, at_gate)
                    if not gated:
                        break
                scan(piece, match)
            return sorted(set(found))
        finally:
            free.release()

    return answer
