"""Which of some hundred words may occur in a text: the one pass that decides which rules are looked at. Pure.

There are two ways to the answer. **hyperscan** (the binding of vectorscan) walks all words at once with
SIMD; it has wheels for CPython on glibc, musl, macOS and Windows, x86-64 and ARM. Elsewhere it is not
installed, and **regular expressions** do it. Either says at least what occurs: the caller looks for
each word it is given, so the two differ in time alone.

Measured on 6 MB of transcripts, code and tool output with 350 words (CPython 3.11, one busy core):
hyperscan 400 to 700 MB/s and 8 ms to compile, the expressions 20. In the same run google-re2's ``Set``
229 and ahocorasick-rs 251, which have no wheels for musl; pyahocorasick 25; ``in`` for each word 3.
hyperscan is given words only: one regular expression among them makes it 3 times slower and 50 ms late.
One expression by itself it reads in a millisecond or two, and looks for at a thousand MB/s (:func:`gate`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

#: Given a piece of text in ASCII, the indices of the words that may be in it, in no promised order.
Prefilter = Callable[[bytes], list[int]]


class Word(NamedTuple):
    """A word to look for, in lower case and found in any.

    One that ``starts`` a token is found as it is written, and only in a run of 16 characters of tokens.
    """

    text: str
    starts: bool = False


def build(words: Sequence[Word]) -> Prefilter:
    """The fastest prefilter this Python has for ``words``."""
    made: list[Prefilter] = []

    def plain(piece: bytes) -> list[int]:
        if not made:
            made.append(by_expression(words))
        return made[0](piece)

    try:
        return by_hyperscan(words, plain)
    except Exception:
        # Not installed, or not for this processor: what a library cannot do is no reason to redact nothing.
        return plain


def by_hyperscan(words: Sequence[Word], instead: Prefilter) -> Prefilter:
    """The words as one automaton; ``instead`` is asked while another thread is in it."""
    return _automaton(
        [re.sub(r"[^A-Za-z0-9_ ]", r"\\\g<0>", word.text) for word in words],
        [not word.starts for word in words],
        instead,
    )


def gate(expression: str) -> Prefilter:
    """Whether a text may match ``expression``, one that all regular expressions read alike: nothing, or [0].

    Without hyperscan it may: no expression of `re` is fast enough to ask another one first.
    """

    def open_gate(_: bytes) -> list[int]:
        return [0]

    try:
        return _automaton([expression], [False], open_gate)
    except Exception:
        return open_gate


def ends(expression: str) -> Callable[[bytes], list[int] | None]:
    """Where in a text what matches ``expression`` ends, at least once for each place; None when that is not known."""
    try:
        scan = _automaton([expression], [False], lambda _: [-1], once=False)
    except Exception:
        return lambda _: None
    return lambda piece: None if (found := scan(piece)) == [-1] else found


def _automaton(
    expressions: list[str], caseless: list[bool], instead: Prefilter, once: bool = True
) -> Prefilter:
    """Which expressions occur, each ``once``; else where what matches the one expression ends."""
    import hyperscan

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[expression.encode() for expression in expressions],
        ids=list(range(len(expressions))),
        elements=len(expressions),
        flags=[
            (hyperscan.HS_FLAG_SINGLEMATCH if once else 0) | (hyperscan.HS_FLAG_CASELESS if any_case else 0)
            for any_case in caseless
        ],
    )
    # Its working memory is one, and a signal's handler that logs may come in the midst of a scan: no waiting.
    free = threading.Lock()

    def occurring(piece: bytes) -> list[int]:
        if not free.acquire(blocking=False):
            return instead(piece)
        try:
            found: list[int] = []
            add = found.append
            if once:
                database.scan(piece, match_event_handler=lambda index, *_: add(index))
            else:
                database.scan(piece, match_event_handler=lambda _, start, end, *__: add(end))
            return found
        finally:
            free.release()

    return occurring


_TOKEN = "A-Za-z0-9_.-"  # noqa: S105 (the characters of a token)
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# It always matches, if only nothing: a search that failed at one place would begin again at the next.
# Bounded, because `re` remembers every round of a repeated group.
_RUNS = re.compile(
    rf"(?>(?:{_UUID}|(?:[0-9a-f]{{16,}}+(?![{_TOKEN}])|[{_TOKEN}]{{0,15}}+)[^{_TOKEN}]++){{0,99}})"
    rf"([{_TOKEN}]{{16,}}+|)".encode()
)


def by_expression(words: Sequence[Word]) -> Prefilter:
    """The words as regular expressions: the ones that start a token where a long run's words begin."""
    starts = {word.text: index for index, word in enumerate(words) if word.starts}
    anywhere = _anywhere([(word.text, index) for index, word in enumerate(words) if not word.starts])
    # Where a word of a run begins, or behind the end of an escape that the run took with it.
    escape = "[nrtbfv]|[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}"
    begins = re.compile(rf"[\n_.\-](?:|(?<=\n)(?:{escape}))(?=({tree(starts)}))".encode())

    @lru_cache(maxsize=1024)
    def spoken_for(start: bytes) -> list[int]:
        # Finding a beginning speaks for what it may hide: what goes on from it, or begins inside it.
        found = start.decode()
        rests = [found[at:] for at in range(len(found))]
        return [
            index
            for other, index in starts.items()
            if any(other.startswith(rest) or rest.startswith(other) for rest in rests)
        ]

    def occurring(piece: bytes) -> list[int]:
        found = anywhere(piece.lower())
        runs = b"\n".join(_RUNS.findall(piece))
        if len(runs) >= 16 and starts:
            for start in set(begins.findall(b"\n" + runs)):
                found.update(spoken_for(start))
        return list(found)

    return occurring


#: Letters and signs of code, JSON and prose, rarest first.
_RARITY = "~%$!^&<z\\q@?7;\t8|>5#j6][*3}{+49='`kx0v)2(w1/b_yg,:fh.-umdpc\"l\naisnrote "


def _anywhere(words: Sequence[tuple[str, int]]) -> Callable[[bytes], set[int]]:
    """Each word is looked for at its rarest letter, with the two letters beside it."""
    # An alternative begins with that letter, so that `re` skips in C what cannot begin one.
    by_letter: dict[str, list[tuple[int, str, int]]] = {}
    for text, index in words:
        at = min(range(len(text)), key=lambda place: _RARITY.find(text[place]))
        before = min(at, 2)
        by_letter.setdefault(text[at], []).append((before, text[at - before : at + 3][:3], index))
    branches = []
    for letter, parts in by_letter.items():
        looks = {f"(?={re.escape(part[at + 1 :])})(?<={re.escape(part[: at + 1])})" for at, part, _ in parts}
        branches.append(f"{re.escape(letter)}(?:{'|'.join(sorted(looks))})")
    pattern = re.compile("|".join(branches).encode()) if branches else None

    @lru_cache(maxsize=4096)
    def at_place(around: bytes, at: int) -> list[int]:
        parts = by_letter[chr(around[at])]
        return [index for back, part, index in parts if around.startswith(part.encode(), at - back)]

    def occurring(low: bytes) -> set[int]:
        if pattern is None:
            return set()
        places = [match.start() for match in pattern.finditer(low)]
        around = {(low[max(0, at - 2) : at + 3], min(at, 2)) for at in places}
        return {index for part, at in around for index in at_place(part, at)}

    return occurring


def tree(words: Iterable[str], longest: bool = False) -> str:
    """A pattern that matches each of ``words``, sharing beginnings; of two, the shorter or the ``longest``."""
    root: dict[str, Any] = {}
    for word in words:
        node = root
        for letter in word:
            node = node.setdefault(letter, {})
        node[""] = {}
    return _branches(root, longest)


def _branches(node: dict[str, Any], longest: bool) -> str:
    ends = "" in node
    if not node or (ends and not longest):
        return ""
    parts = [
        re.escape(letter) + _branches(inner, longest) for letter, inner in sorted(node.items()) if letter
    ]
    if not parts:
        return ""
    joined = parts[0] if len(parts) == 1 and not ends else f"(?:{'|'.join(parts)})"
    return f"{joined}?" if ends else joined
