"""Reading somebody else's JSON so that it can be edited: a tree that remembers where each thing stands.

Only plain JSON (RFC 8259) is read, and what a harness is known to read beside it (:data:`TOLERANCES`);
anything else is :class:`NotPlainJson`, so that a file we would not understand in full is never written.
What is tolerated is blanked out first, character by character: all that reads the tree sees plain JSON,
and every place in it is the same place in the text.

Settings grow to a megabyte (lists of allowed commands), and an edit concerns a few lines of them. So
Python's own reader says first whether the text is sound, and a node reads what it holds, one level of
it, only when somebody asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from json.decoder import scanstring  # type: ignore[attr-defined]  # there, though typeshed does not list it
from typing import Any

from sessionpipe.install.leftalone import LeftAlone

MAX_DEPTH = 200

#: What some programs take beside plain JSON: ``//`` and ``/* */``, a comma after the last item, a byte
#: order mark.
TOLERANCES = frozenset({"comments", "commas", "mark"})


class NotPlainJson(LeftAlone):
    """The text is not a plain JSON document. ``what`` never quotes it: such files hold secrets."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(f"not plain JSON: {what} at line {line}")


class Source:
    """The text that a tree stands for. All its nodes share one, which changes under an edit.

    ``text`` is as it stands, ``bare`` the same with comments blanked, ``plain`` with everything blanked
    that ``reads`` (of :data:`TOLERANCES`) tolerates: all three are of one length.
    """

    __slots__ = ("_reads", "bare", "plain", "text")

    def __init__(self, text: str, reads: Collection[str] = ()) -> None:
        self._reads = reads
        self.set(text)

    def set(self, text: str) -> None:
        """Put ``text`` in the place of what was there."""
        self.text = text
        self.bare = COMMENT.sub(_blanked, text) if "comments" in self._reads else text
        self.plain = _LAST_COMMA.sub(_no_comma, self.bare) if "commas" in self._reads else self.bare
        if "mark" in self._reads and text.startswith("\ufeff"):
            self.plain = " " + self.plain[1:]


# Strings are matched so that what stands in one is passed over. What has no end goes to the text's, so
# that no text is looked through again and again.
_STRING = r'"(?:[^"\\]|\\.)*(?:"|\Z)'
COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*[\]}}])", re.DOTALL)


def _blanked(match: re.Match[str]) -> str:
    found = match[0]
    if found.startswith("/*"):
        ended = len(found) >= 4 and found.endswith("*/")
    else:
        # Readers differ on whether a carriage return alone ends a comment, so one with such an end is none.
        ended = (
            found.startswith("//")
            and re.match(r"\r(?!\n)", match.string[match.end() : match.end() + 2]) is None
        )
    return re.sub(r"[^\r\n]", " ", found) if ended else found


def _no_comma(match: re.Match[str]) -> str:
    return " " if match[0] == "," else match[0]


class Node:
    """A value and where it stands: ``text[start:end]``; ``at`` is where its whole item begins.

    ``kind`` is ``object``, ``array`` or ``value``; ``key`` and ``colon`` (what stands between the key
    and the value) are of an object's member, whose ``at`` is the key's; ``value`` is of a scalar.
    """

    __slots__ = ("_items", "_source", "at", "colon", "end", "key", "kind", "start", "value")

    def __init__(self, source: Source, kind: str, start: int, end: int = 0, value: Any = None) -> None:
        self._source = source
        self._items: list[Node] | None = None if kind != "value" else []
        self.kind, self.start, self.end, self.at, self.value = kind, start, end, start, value
        self.key: str | None = None
        self.colon = ""

    @property
    def items(self) -> list[Node]:
        """The members or elements, in order; none of a scalar."""
        if self._items is None:
            self._items = _Reader(self._source).items(self.start)[0]
        return self._items

    def child(self, step: str | int) -> Node | None:
        """The member or the element called ``step``."""
        if self.kind == "array" and isinstance(step, int):
            return self.items[step] if 0 <= step < len(self.items) else None
        return next((item for item in self.items if item.key == step), None)

    def plain(self) -> Any:
        """The value as Python has it."""
        if self.kind == "object":
            return {item.key: item.plain() for item in self.items}
        if self.kind == "array":
            return [item.plain() for item in self.items]
        return self.value

    def spliced(self, start: int, end: int, length: int) -> None:
        """Follow an edit of the text: between the brackets of this container ``length`` characters
        have taken the place of ``text[start:end]``.

        What stands behind moves along, and the innermost container around the place is read anew.
        """
        shift = length - (end - start)
        self.end += shift
        within = None
        for item in self._items or ():
            if item.start < start and end < item.end:
                within = item
            elif item.at >= end:
                item._move(shift)
        if within is not None:
            within.spliced(start, end, length)
        else:
            self._items = None

    def _move(self, shift: int) -> None:
        self.at += shift
        self.start += shift
        self.end += shift
        for item in self._items or ():
            item._move(shift)


def read(source: Source) -> Node:
    """The tree of a JSON document; raises :class:`NotPlainJson`."""
    text = source.plain
    if text.startswith("\ufeff"):
        raise NotPlainJson("a byte order mark", 1)
    # The reader that knows about lines is slow: it is for a text in which there is something to find.
    reader = _Reader(source, whole=not _sound(text))
    node = reader.value(_skip(text, 0), 0)
    end = _skip(text, node.end)
    if end != len(text):
        raise _unexpected(text, end)
    return node


def _sound(text: str) -> bool:
    """Whether Python's own reader finds nothing wrong, made to be as strict as ours."""
    try:
        _STRICT.decode(text)
    except (ValueError, RecursionError):
        return False
    depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        depth += 1 if bracket in "{[" else -1
        if depth > MAX_DEPTH:
            return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key given twice")


def _no_constant(name: str) -> None:
    raise ValueError(name)


# As floats, numbers of any length are read.
_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_int=float, parse_constant=_no_constant)
_LENGTHS = json.JSONDecoder(parse_int=float)
_STRINGS = re.compile(_STRING)
_BRACKETS = re.compile(r"[\[\]{}]")
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}
_WORD = re.compile(r"[A-Za-z]+")


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty string too


def _unexpected(text: str, at: int) -> NotPlainJson:
    line = text.count("\n", 0, at) + 1
    if at >= len(text):
        return NotPlainJson("the end of the file", line)
    if text.startswith(("//", "/*", "#"), at):
        return NotPlainJson("a comment", line)
    return NotPlainJson("something unexpected", line)


class _Reader:
    """Reads nodes; ``whole``: with all that they hold, else only where a container ends."""

    def __init__(self, source: Source, *, whole: bool = False) -> None:
        self._source = source
        self._text = source.plain
        self._whole = whole

    def value(self, at: int, depth: int) -> Node:
        """The value that begins at ``at``."""
        text = self._text
        first = text[at : at + 1]
        if first in ("{", "["):
            return self._container(at, depth)
        if first == '"':
            value, end = self._string(at)
            return self._scalar(at, end, value)
        if match := _NUMBER.match(text, at):
            # A number only ever gets compared with one of ours; digits beyond any of those stay a float.
            whole = not match[1] and not match[2] and len(match[0]) < 19
            return self._scalar(at, match.end(), int(match[0]) if whole else float(match[0]))
        if match := _WORD.match(text, at):
            if match[0] in _WORDS:
                return self._scalar(at, match.end(), _WORDS[match[0]])
            raise NotPlainJson("a word that is no JSON", self._line(at))
        raise _unexpected(text, at)

    def items(self, start: int, depth: int = 0) -> tuple[list[Node], int]:
        """What the container that begins at ``start`` holds, and where it ends."""
        text, items = self._text, []
        is_object = text[start] == "{"
        close = "}" if is_object else "]"
        seen: set[str] = set()
        at = _skip(text, start + 1)
        if text.startswith(close, at):
            return [], at + 1
        while True:
            item = self._member(at, depth, seen) if is_object else self.value(at, depth + 1)
            items.append(item)
            at = _skip(text, item.end)
            if text.startswith(close, at):
                return items, at + 1
            if not text.startswith(",", at):
                raise _unexpected(text, at)
            comma, at = at, _skip(text, at + 1)
            if text.startswith(close, at):
                raise NotPlainJson("a trailing comma", self._line(comma))

    def _container(self, start: int, depth: int) -> Node:
        node = Node(self._source, "object" if self._text[start] == "{" else "array", start)
        if not self._whole:
            node.end = _LENGTHS.raw_decode(self._text, start)[1]
            return node
        if depth >= MAX_DEPTH:
            raise NotPlainJson(f"nesting deeper than {MAX_DEPTH} levels", self._line(start))
        _, node.end = self.items(start, depth)
        return node

    def _member(self, at: int, depth: int, seen: set[str]) -> Node:
        text = self._text
        if not text.startswith('"', at):
            raise _unexpected(text, at)
        key, key_end = self._string(at)
        if key in seen:
            # Readers differ on which of the two counts, so no edit here is safe.
            raise NotPlainJson("a key given twice", self._line(at))
        seen.add(key)
        colon = _skip(text, key_end)
        if not text.startswith(":", colon):
            raise _unexpected(text, colon)
        item = self.value(_skip(text, colon + 1), depth + 1)
        item.at, item.key, item.colon = at, key, text[key_end : item.start]
        return item

    def _scalar(self, start: int, end: int, value: Any) -> Node:
        return Node(self._source, "value", start, end, value)

    def _string(self, at: int) -> tuple[str, int]:
        try:
            return scanstring(self._text, at + 1, True)  # type: ignore[no-any-return]
        except ValueError as error:
            where = min(getattr(error, "pos", at), len(self._text))
            raise NotPlainJson("a broken string", self._line(where)) from None

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1


__all__ = ["COMMENT", "MAX_DEPTH", "TOLERANCES", "Node", "NotPlainJson", "Source", "read"]
