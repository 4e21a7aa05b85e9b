"""Text as a URL writes it, with the signs of a token percent-encoded: `oauth%3A…`. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right

Span = tuple[int, int]

#: The signs that tokens have in them. What else a URL encodes (`&`, a quote, a blank) ends a token.
_SIGNS = {
    "3a": ":",
    "2f": "/",
    "2b": "+",
    "3d": "=",
    "7c": "|",
    "24": "$",
    "5e": "^",
    "23": "#",
    "40": "@",
    "21": "!",
}
_SIGN = re.compile(f"%(?:25)?({'|'.join(_SIGNS)})", re.IGNORECASE)
_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~!*-%"
_WORD = re.compile("[A-Za-z0-9_.~!*%-]{1,4096}+")
_OTHER = re.compile(f"%(?!(?:25)?(?:{'|'.join(_SIGNS)}))", re.IGNORECASE)
_BEFORE, _SHORTEST = 512, 24


class View:
    """The words of a text in which signs are encoded, a line for each, with the signs as they were."""

    def __init__(self, text: str) -> None:
        """Of ``text``, those words."""
        self._pieces: list[str] = []
        #: Where in the text each piece begins.
        self._starts: list[int] = []
        at = text.find("%")
        upto = 0
        while at >= 0:
            begin = max(upto, at - _BEFORE)
            start = begin + len(text[begin:at].rstrip(_CHARACTERS))
            word = _WORD.match(text, start)
            upto = word.end() if word else at + 1
            self._take(text, start, upto)
            at = text.find("%", upto)
        self.text = "".join(self._pieces)
        self._begins: list[int] = []
        length = 0
        for piece in self._pieces:
            self._begins.append(length)
            length += len(piece)

    def _take(self, text: str, start: int, end: int) -> None:
        """Take the words from ``start`` to ``end``, which signs that no token has separate."""
        if not _SIGN.search(text, start, end):
            return
        while start < end:
            other = _OTHER.search(text, start, end)
            stop = other.start() if other else end
            if stop - start >= _SHORTEST:
                self._decode(text, start, stop)
            start = stop + 3

    def _decode(self, text: str, start: int, end: int) -> None:
        first = start
        for sign in _SIGN.finditer(text, start, end):
            self._add(text[start : sign.start()], start)
            self._add(_SIGNS[sign[1].lower()], sign.start())
            start = sign.end()
        if start > first:
            self._add(text[start:end], start)
            self._add("\n", end)

    def _add(self, piece: str, start: int) -> None:
        if piece:
            self._pieces.append(piece)
            self._starts.append(start)

    def place(self, span: Span) -> Span:
        """Where in the text ``span`` of the view is: with the whole of each encoded sign."""
        return self._place(span[0]), self._place(span[1])

    def _place(self, index: int) -> int:
        piece = bisect_right(self._begins, index) - 1
        return self._starts[piece] + index - self._begins[piece]
