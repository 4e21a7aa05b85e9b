"""Text as a terminal showed it: with codes for colours in it. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

Span = tuple[int, int]

#: In lower case, what every code begins with, as itself or escaped in a string.
SIGNS = ("\x1b", "\\u001b", "\\x1b", "\\033", "\\e[")
_CODE = re.compile(
    r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)(?:\[[0-9;:?]{0,24}[A-Za-z]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])"
)
# Lines with codes and what stands between them are looked at together: a key has many lines.
_APART = 400


class View:
    """A part of a text, written differently."""

    def __init__(self, pieces: list[str], starts: list[int], sign: str) -> None:
        """``pieces``, which begin in the text at ``starts``, joined by ``sign``."""
        self.text = sign.join(pieces)
        self.starts = starts
        self._lengths = [len(piece) + len(sign) for piece in pieces[:-1]]
        self._begins: list[int] = []

    def begins(self) -> list[int]:
        """Where the pieces begin in the view."""
        if not self._begins:
            self._begins = list(accumulate(self._lengths, initial=0))
        return self._begins

    def place(self, span: Span) -> Span:
        """Where in the text ``span`` of the view is."""
        return self._place(span[0]), self._place(span[1] - 1) + 1

    def _place(self, index: int) -> int:
        begins = self.begins()
        piece = max(0, bisect_right(begins, index) - 1)
        return self.starts[piece] + index - begins[piece]


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
        yield View(pieces, starts, sign)
