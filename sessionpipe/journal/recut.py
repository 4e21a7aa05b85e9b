"""Redacting a text that came in pieces, so that the pieces stay as many and join to the redacted whole. Pure.

A secret seldom lies in one delta: redacting each would leave its halves. What is redacted is the
whole, and :func:`recut` cuts that along the old boundaries: a piece that lay in a secret becomes the mark,
a part of it, or nothing. Whatever it does, the pieces join to the redacted whole, so no more can
show in them than there.

A tool call's pieces are the JSON text of its arguments. :func:`redact_json` redacts that text as
:func:`~sessionpipe.privacy.secrets.redact_value` redacts the arguments, in their place in the text; also
when the text stops in its middle, as it does when a call was aborted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sessionpipe.privacy.values import MARK
from sessionpipe.redaction import redact, redact_value

#: A replacement: from, to, by what.
Edit = tuple[int, int, str]


def edits(old: str, new: str) -> list[Edit]:
    """Replacements that make ``new`` of ``old``, in order: where ``new`` has marks, as far as it can be said."""
    if old == new:
        return []
    first, *rest = new.split(MARK)
    if rest and old.startswith(first):
        found = _between_marks(old, len(first), rest)
        if found is not None:
            return found
    start = _common(old, new)
    end = min(_common(old[::-1], new[::-1]), len(old) - start, len(new) - start)
    return [(start, len(old) - end, new[start : len(new) - end])]


def _between_marks(old: str, at: int, segments: Sequence[str]) -> list[Edit] | None:
    found: list[Edit] = []
    for segment in segments[:-1]:
        begin = old.find(segment, at)
        if begin < 0:
            return None
        found.append((at, begin, MARK))
        at = begin + len(segment)
    begin = len(old) - len(segments[-1])
    if begin < at or not old.endswith(segments[-1]):
        return None
    found.append((at, begin, MARK))
    return found


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def recut(pieces: Sequence[str], new: str) -> list[str]:
    """``new`` in as many pieces: where the joined ``pieces`` were not changed, cut where they were.

    What replaces something goes whole to the piece where that began.
    """
    old = "".join(pieces)
    if old == new:
        return list(pieces)
    cut: list[str] = []
    changes = edits(old, new)
    begin, index, rest = 0, 0, 0  # of the piece; of the next edit; where the last one's hole ends
    for piece in pieces:
        end = begin + len(piece)
        out: list[str] = []
        at = max(begin, min(rest, end))
        # An edit at the very end belongs to the next piece, or to the last.
        while index < len(changes) and changes[index][0] < end:
            start, rest, by = changes[index]
            out += (old[at:start], by)
            at = min(rest, end)
            index += 1
        out.append(old[at:end])
        cut.append("".join(out))
        begin = end
    if index < len(changes) and cut:
        cut[-1] += "".join(by for _, _, by in changes[index:])
    return cut


# -- JSON text --


class _Literal(NamedTuple):
    """A string of the text: where it stands, without its quotes, and what it says."""

    start: int
    end: int
    says: str


#: A literal; of an object, each key's literal and value by its key; the items of an array; or None.
_Node = Any


def redact_json(text: str) -> str:
    """A JSON text, whole or cut off, with its strings redacted where they stand; the same when nothing was.

    What isn't JSON is redacted as a text.
    """
    try:
        tree, value = _Reader(text).read()
    except (_NoJson, RecursionError):
        return redact(text)
    redacted = redact_value(value)
    if redacted is value:
        return text
    changes: list[Edit] = []
    left: list[tuple[_Node, Any]] = [(tree, redacted)]
    while left:
        node, new = left.pop()
        if isinstance(node, _Literal):
            changes += _within(text, node, new)
        elif isinstance(node, list):
            left += zip(node, new, strict=True)
        elif isinstance(node, dict):
            if len(node) != len(new):  # Two keys became one: nothing stands where it stood.
                return json.dumps(redacted, ensure_ascii=False)
            for (literal, inner), (key, content) in zip(node.values(), new.items(), strict=True):
                changes += _within(text, literal, key)
                left.append((inner, content))
    return _applied(text, sorted(changes))


def _applied(text: str, changes: Sequence[Edit]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, by in changes:
        parts += (text[at:start], by)
        at = end
    return "".join((*parts, text[at:]))


#: What stands for one character of a string: two escaped surrogates are one.
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.S
)


def _within(text: str, literal: _Literal, new: str) -> list[Edit]:
    """The replacements in ``text`` that make ``literal`` say ``new``."""
    places = [match.start() for match in _CHARACTER.finditer(text, literal.start, literal.end)]
    places.append(literal.end)
    return [
        (places[start], places[end], json.dumps(by, ensure_ascii=False)[1:-1])
        for start, end, by in edits(literal.says, new)
    ]


_SPACE = re.compile(r"[ \t\r\n]*+")
_STRING = re.compile(r'"((?:[^"\\]++|\\.)*)("|\\?\Z)', re.S)
_ATOM = re.compile(r"[A-Za-z0-9+.-]++")
_HALF_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{0,3}\Z")


class _NoJson(Exception):
    """The text is no JSON."""


class _Reader:
    """Reads a JSON text into its literals and into what it says; where it stops, what is open ends."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> tuple[_Node, Any]:
        """Both of the whole text; :class:`_NoJson` or :class:`RecursionError` when it can't be read."""
        found = self._value()
        if self._next():
            raise _NoJson
        return found

    def _next(self) -> str:
        """The next sign that is no space; "" at the end."""
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # it may be empty
        return self._text[self._at : self._at + 1]

    def _value(self) -> tuple[_Node, Any]:
        sign = self._next()
        if sign == '"':
            literal = self._literal()
            return literal, literal.says
        if sign == "{":
            return self._object()
        if sign == "[":
            return self._array()
        if not sign:
            return None, None
        match = _ATOM.match(self._text, self._at)
        if match is None:
            raise _NoJson
        self._at = match.end()
        try:
            return None, json.loads(match[0])
        except ValueError:
            if self._at < len(self._text):
                raise _NoJson from None
            return None, None  # Cut off in its middle.

    def _literal(self) -> _Literal:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise _NoJson
        self._at = match.end()
        start, end = match.span(1)
        if match[2] != '"' and (half := _HALF_ESCAPE.search(self._text, start, end)):
            end = half.start()
        try:
            return _Literal(start, end, json.loads(f'"{self._text[start:end]}"', strict=False))
        except ValueError:
            raise _NoJson from None

    def _object(self) -> tuple[_Node, Any]:
        node: dict[str, tuple[_Literal, _Node]] = {}
        value: dict[str, Any] = {}
        for sign in self._items("}"):
            if sign != '"':
                raise _NoJson
            key = self._literal()
            if key.says in value:
                raise _NoJson  # Of a repeated key only the last value would be looked at.
            if self._next() not in (":", ""):
                raise _NoJson
            self._at += 1
            inner, value[key.says] = self._value()
            node[key.says] = (key, inner)
        return node, value

    def _array(self) -> tuple[_Node, Any]:
        node: list[_Node] = []
        value: list[Any] = []
        for _ in self._items("]"):
            inner, item = self._value()
            node.append(inner)
            value.append(item)
        return node, value

    def _items(self, closing: str) -> Iterator[str]:
        """The sign that each item of a container begins with, the container's ends being taken care of."""
        self._at += 1
        sign = self._next()
        while sign and sign != closing:
            yield sign
            sign = self._next()
            if sign == ",":
                self._at += 1
                sign = self._next()
            elif sign and sign != closing:
                raise _NoJson
        self._at += 1
