"""Text as a terminal showed it: with codes for colours in it. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

Span = tuple[int, int]

#: In lower case, what every code begins with, as itself or escaped in a string.
SIGNS = ("\x1b", "\\u001b", "\\x1b", "\\033", "\\e[")
_CODE = re.compile(
    r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)(?:\[[0-9;:?]{0,24}[A-Za-z]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])"
)
# Lines with codes and what stands between them are looked at together: a key has many lines.
_APART = 400


class View(NamedTuple):
    """A part of a text, written differently, and where its pieces stand in the text."""

    text: str
    #: For each piece, its place in the view and in the text.
    seen_at: list[int]
    text_at: list[int]

    def place(self, span: Span) -> Span:
        """Where in the text ``span`` of the view is."""
        return self._place(span[0]), self._place(span[1] - 1) + 1

    def _place(self, index: int) -> int:
        piece = max(0, bisect_right(self.seen_at, index) - 1)
        return self.text_at[piece] + index - self.seen_at[piece]


def views(text: str) -> Iterator[View]:
    """The parts of ``text`` that have codes, with a sign of no meaning for each, and without them."""
    stretch: list[Span] = []
    for code in _CODE.finditer(text):
        if stretch and code.start() - stretch[-1][1] > _APART:
            yield from _both(text, stretch)
            stretch = []
        stretch.append(code.span())
    if stretch:
        yield from _both(text, stretch)


def _both(text: str, codes: list[Span]) -> Iterator[View]:
    begin = text.rfind("\n", max(0, codes[0][0] - _APART), codes[0][0]) + 1 or max(0, codes[0][0] - _APART)
    end = text.find("\n", codes[-1][1], codes[-1][1] + _APART)
    if end < 0:
        end = min(len(text), codes[-1][1] + _APART)
    starts = [begin, *(stop for _, stop in codes)]
    pieces = [text[start:stop] for start, stop in zip(starts, [*(at for at, _ in codes), end], strict=True)]
    for sign in ("\0", ""):
        lengths = (len(piece) + len(sign) for piece in pieces[:-1])
        yield View(sign.join(pieces), list(accumulate(lengths, initial=0)), starts)
