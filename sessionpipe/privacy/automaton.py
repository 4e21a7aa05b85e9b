"""hyperscan (the binding of vectorscan): all words in one pass with SIMD.

An automaton has one working memory, so one thread at a time is in it. Nobody waits for another: a
signal's handler that logs may come in the midst of a scan. Whoever finds it busy asks ``instead``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import hyperscan

from sessionpipe.privacy.sought import BITS, Occurring, Places, Run, Signs, Word


class Expression(NamedTuple):
    """An expression that all regular expressions read alike."""

    text: str
    any_case: bool = False
    once: bool = False


#: Is told each match: the expression's index, 0, where it ends, flags, context. The parameters have names
#: because collecting them in `*_` takes as long again.
_Match = Callable[[int, int, int, int, object], None]


def _database(expressions: Sequence[Expression]) -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[one.text.encode() for one in expressions],
        ids=list(range(len(expressions))),
        elements=len(expressions),
        flags=[
            (hyperscan.HS_FLAG_SINGLEMATCH if one.once else 0)
            | (hyperscan.HS_FLAG_CASELESS if one.any_case else 0)
            for one in expressions
        ],
    )
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
    scan = _database([Expression(word.expression(), not word.starts, word.once) for word in words]).scan
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


def signs(runs: Sequence[Sequence[Run]], gates: Sequence[str], instead: Signs) -> Signs:
    """Where the signs of ``runs`` stand: one run after another, as long as the text matches the gate before it."""
    steps = [
        (
            _database([Expression(gate, once=True)]).scan,
            [(_database([Expression(run.expression())]).scan, 1 + run.behind[1]) for run in behind],
        )
        for gate, behind in zip(gates, runs, strict=True)
    ]
    found: list[int] = []
    add = found.append
    free = threading.Lock()

    def match(which: int, start: int, end: int, flags: int, context: object) -> None:
        add(end)

    def answer(piece: bytes) -> list[int]:
        if not free.acquire(blocking=False):
            return instead(piece)
        try:
            signs: list[int] = []
            for is_open, scans in steps:
                found.clear()
                is_open(piece, match)
                if not found:
                    break
                for scan, back in scans:
                    found.clear()
                    scan(piece, match)
                    if found:
                        signs += [end - back for end in found]
            return sorted(set(signs)) if signs else signs
        finally:
            free.release()

    return answer
