"""The words and runs of a text as regular expressions, where there is no automaton. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from sessionpipe.privacy.sought import BITS, SHORTEST, TOKEN, Occurring, Places, Signs, Step, Word

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# What a row ends with, behind its last word: a token may begin there that a terminal has wrapped.
_ROW_ENDS = r"[ \t?]*+\r?(?:\n|\Z)"
# It always matches, if only nothing: a search that failed at one place would begin again at the next.
# Bounded, because `re` remembers every round of a repeated group.
_RUNS = re.compile(
    rf"(?>(?:{_UUID}|(?:[0-9a-f]{{16,}}+(?![{TOKEN}])|[{TOKEN}]{{1,{SHORTEST - 1}}}+(?!{_ROW_ENDS})|)"
    rf"[^{TOKEN}]++){{0,99}})([{TOKEN}]++|)".encode()
)


def occurring(words: Sequence[Word]) -> Occurring:
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

    def answer(piece: bytes) -> list[int]:
        found = anywhere(piece.lower())
        runs = b"\n".join(_RUNS.findall(piece))
        if starts:
            for start in set(begins.findall(b"\n" + runs)):
                found.update(spoken_for(start))
        return list(found)

    return answer


def places(groups: Sequence[Sequence[Word]]) -> Places:
    """Where the words of ``groups`` stand: each that occurs is looked up."""
    which = occurring([word for group in groups for word in group])
    words = [(word.text.encode(), word, number) for number, group in enumerate(groups) for word in group]

    def answer(piece: bytes) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in groups]
        low = b""
        for index in which(piece):
            text, word, group = words[index]
            where = piece if word.starts else (low := low or piece.lower())
            at = where.find(text)
            while at >= 0:
                found[group].append(at << BITS | index)
                at = -1 if word.once else where.find(text, at + 1)
        return found

    return answer


def signs(steps: Sequence[Step]) -> Signs:
    """Where the signs of the runs of ``steps`` stand."""
    forms = [
        (
            re.compile(f"[{run.signs}](?=[{run.behind[0]}]{{{run.behind[1]}}})".encode()),
            re.compile(rf"(?:{run.before})\Z".encode()),
        )
        for step in steps
        for run in step.runs
    ]
    return lambda piece: sorted(
        {
            at
            for sign, before in forms
            for at in map(re.Match.start, sign.finditer(piece))
            if before.search(piece, max(0, at - _BEFORE), at)
        }
    )


# No run has more before its sign.
_BEFORE = 64


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
