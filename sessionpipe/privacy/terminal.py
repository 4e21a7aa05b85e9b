"""Text as a terminal showed it: with codes for colours in it. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import accumulate, pairwise

Span = tuple[int, int]

#: What every code begins with, as itself or escaped in a string.
SIGNS = ("\x1b", "\\u001b", "\\u001B", "\\x1b", "\\x1B", "\\033", "\\e[")
_CODE = re.compile(
    r"((?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)(?:\[[0-9;:?]{0,24}[A-Za-z]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78]))"
)
# Lines with codes and what stands between them are looked at together: a key has many lines.
_APART = 400


def is_coded(text: str) -> bool:
    """Whether there are codes of a terminal in ``text``, as themselves or escaped in a string."""
    return SIGNS[0] in text or ("\\" in text and any(sign in text for sign in SIGNS[1:]))


class View:
    """A part of a text, written differently."""

    def __init__(self, pieces: list[str], starts: Callable[[], list[int]], sign: str) -> None:
        """``pieces``, which begin in the text at ``starts()``, joined by ``sign``."""
        self.text = sign.join(pieces)
        self._pieces = pieces
        self._between = len(sign)
        # Most views have nothing that must be placed.
        self._starts = starts

    @cached_property
    def starts(self) -> list[int]:
        """Where the pieces begin in the text."""
        return self._starts()

    @cached_property
    def begins(self) -> list[int]:
        """Where the pieces begin in the view."""
        return list(accumulate((len(piece) + self._between for piece in self._pieces[:-1]), initial=0))

    def place(self, span: Span) -> Span:
        """Where in the text ``span`` of the view is."""
        return self._place(span[0]), self._place(span[1] - 1) + 1

    def _place(self, index: int) -> int:
        piece = max(0, bisect_right(self.begins, index) - 1)
        return self.starts[piece] + index - self.begins[piece]


def views(text: str) -> Iterator[View]:
    """The parts of ``text`` that have codes, with a sign of no meaning for each, and without them."""
    # What stands between two codes, and the codes, in turn.
    parts = _CODE.split(text)
    apart: list[int] = []
    if max(map(len, parts[2:-1:2]), default=0) > _APART:
        apart = [index for index in range(2, len(parts) - 1, 2) if len(parts[index]) > _APART]
    at = 0
    for first, last in pairwise((0, *apart, len(parts) - 1)):
        if first < last:
            yield from _both(parts[first : last + 1], at)
            if last < len(parts) - 1:
                at += sum(map(len, parts[first:last]))


def _both(parts: list[str], at: int) -> Iterator[View]:
    """Both views of ``parts`` that begin at ``at``: codes, what is between them, and around them to the line's ends."""
    lead, tail = parts[0], parts[-1]
    parts[0] = lead[-_APART:].rpartition("\n")[2]
    parts[-1] = tail[:_APART].partition("\n")[0]
    pieces, codes = parts[::2], parts[1::2]

    def starts() -> list[int]:
        begin = at + len(lead) - len(parts[0])
        return list(
            accumulate(
                (len(one) + len(code) for one, code in zip(pieces, codes, strict=False)), initial=begin
            )
        )

    for sign in ("\0", ""):
        yield View(pieces, starts, sign)
