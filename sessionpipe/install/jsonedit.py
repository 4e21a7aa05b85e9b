"""Small edits to somebody else's JSON file that leave every other byte alone.

A parse-and-dump would reformat the whole file. Instead the text is read into a tree that remembers
where each thing stands, and an edit splices the text: an insertion takes over the indentation, the
line ends and the spacing around it, and a removal is its exact inverse. Only plain JSON (RFC 8259)
is read; anything else is :class:`NotPlainJson`, so that a file we would not understand in full is
never written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # there, though typeshed does not list it
from typing import Any

Path = tuple[str | int, ...]
"""Where a value is: member names and element indexes from the top."""

MAX_DEPTH = 200


class NotPlainJson(ValueError):
    """The text is not a plain JSON document. ``what`` never quotes it: such files hold secrets."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(f"not plain JSON: {what} at line {line}")


@dataclass(slots=True)
class Node:
    """A value and where it stands: ``text[start:end]``; ``at`` is where its whole item begins."""

    kind: str  # object, array, or value
    start: int
    end: int = 0
    at: int = 0  # the key of an object's member, else the same as start
    key: str | None = None
    colon: str = ""  # what stands between the key and the value
    items: list[Node] = field(default_factory=list)
    value: Any = None  # of what is neither

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


_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}
_WORD = re.compile(r"[A-Za-z]+")


def parse(text: str) -> Node:
    """The tree of a plain JSON document; raises :class:`NotPlainJson`."""
    if text.startswith("\ufeff"):
        raise NotPlainJson("a byte order mark", 1)
    node = _value(text, _skip(text, 0), 0)
    end = _skip(text, node.end)
    if end != len(text):
        raise _unexpected(text, end)
    return node


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty string too


def _unexpected(text: str, at: int) -> NotPlainJson:
    line = text.count("\n", 0, at) + 1
    if at >= len(text):
        return NotPlainJson("the end of the file", line)
    if text.startswith(("//", "/*", "#"), at):
        return NotPlainJson("a comment", line)
    return NotPlainJson("something unexpected", line)


def _value(text: str, at: int, depth: int) -> Node:
    first = text[at : at + 1]
    if first in ("{", "["):
        return _container(text, at, depth)
    if first == '"':
        value, end = _string(text, at)
        return Node("value", at, end, at, value=value)
    if match := _NUMBER.match(text, at):
        # A number only ever gets compared with one of ours; digits beyond any of those stay a float.
        whole = not match[1] and not match[2] and len(match[0]) < 19
        return Node("value", at, match.end(), at, value=int(match[0]) if whole else float(match[0]))
    if match := _WORD.match(text, at):
        if match[0] in _WORDS:
            return Node("value", at, match.end(), at, value=_WORDS[match[0]])
        raise NotPlainJson("a word that is no JSON", text.count("\n", 0, at) + 1)
    raise _unexpected(text, at)


def _string(text: str, at: int) -> tuple[str, int]:
    try:
        return scanstring(text, at + 1, True)  # type: ignore[no-any-return]
    except ValueError as error:
        where = min(getattr(error, "pos", at), len(text))
        raise NotPlainJson("a broken string", text.count("\n", 0, where) + 1) from None


def _container(text: str, start: int, depth: int) -> Node:
    if depth >= MAX_DEPTH:
        raise NotPlainJson(f"nesting deeper than {MAX_DEPTH} levels", text.count("\n", 0, start) + 1)
    is_object = text[start] == "{"
    close = "}" if is_object else "]"
    node = Node("object" if is_object else "array", start, at=start)
    seen: set[str] = set()
    at = _skip(text, start + 1)
    if text.startswith(close, at):
        node.end = at + 1
        return node
    while True:
        item = _member(text, at, depth, seen) if is_object else _value(text, at, depth + 1)
        node.items.append(item)
        at = _skip(text, item.end)
        if text.startswith(close, at):
            node.end = at + 1
            return node
        if not text.startswith(",", at):
            raise _unexpected(text, at)
        comma, at = at, _skip(text, at + 1)
        if text.startswith(close, at):
            raise NotPlainJson("a trailing comma", text.count("\n", 0, comma) + 1)


def _member(text: str, at: int, depth: int, seen: set[str]) -> Node:
    if not text.startswith('"', at):
        raise _unexpected(text, at)
    key, key_end = _string(text, at)
    if key in seen:
        # Readers differ on which of the two counts, so no edit here is safe.
        raise NotPlainJson("a key given twice", text.count("\n", 0, at) + 1)
    seen.add(key)
    colon = _skip(text, key_end)
    if not text.startswith(":", colon):
        raise _unexpected(text, colon)
    item = _value(text, _skip(text, colon + 1), depth + 1)
    item.at, item.key, item.colon = at, key, text[key_end : item.start]
    return item


class Document:
    """A JSON text under edit. Every edit splices :attr:`text` and reads it again."""

    def __init__(self, text: str) -> None:
        """Read ``text``; raises :class:`NotPlainJson`."""
        self.text = text
        self.root = parse(text)

    def get(self, path: Path) -> Node | None:
        """The value at ``path``, or None where there is nothing."""
        node: Node | None = self.root
        for step in path:
            node = node.child(step) if node else None
        return node

    def walk(self, path: Path) -> Iterator[tuple[Path, Node]]:
        """Every value at and below ``path``, outermost first."""
        if (node := self.get(path)) is None:
            return
        yield path, node
        for index, item in enumerate(node.items):
            yield from self.walk((*path, index if item.key is None else item.key))

    def line(self, node: Node) -> int:
        """The line, from 1, on which ``node`` begins."""
        return self.text.count("\n", 0, node.start) + 1

    def insert(self, path: Path, key: str | None, value: Any) -> str | None:
        """Append ``value`` to the container at ``path``, as member ``key`` of an object.

        Returns the white space that stood between the brackets of a container that was empty, which
        a later :meth:`remove` needs to give the same bytes back; else None.
        """
        node = self._container(path)
        if not node.items:
            return self._fill(node, key, value)
        first, last = node.items[0], node.items[-1]
        if "\n" in self.text[node.start + 1 : first.at]:
            indent = self._indent(last.at)
            addition = "," + self._newline() + indent + self._render(key, value, indent)
        else:
            space = " " if self._colon().endswith(" ") else ""
            addition = "," + space + self._render(key, value, None)
        self._splice(last.end, last.end, addition)
        return None

    def remove(self, path: Path, emptied: str = "") -> None:
        """Take the item at ``path`` out; ``emptied`` is what an emptied container then holds."""
        parent = self._container(path[:-1])
        index = next(i for i, item in enumerate(parent.items) if item is parent.child(path[-1]))
        item = parent.items[index]
        if len(parent.items) == 1:
            self._splice(parent.start + 1, parent.end - 1, emptied)
        elif index:
            self._splice(parent.items[index - 1].end, item.end, "")
        else:
            self._splice(item.at, parent.items[1].at, "")

    def replace(self, path: Path, value: Any) -> None:
        """Put ``value`` where the value at ``path`` stands."""
        node = self.get(path)
        if node is None:
            raise KeyError(path)
        indent = self._indent(node.at) if "\n" in self.text[node.start : node.end] else None
        self._splice(node.start, node.end, self._render(None, value, indent))

    def _container(self, path: Path) -> Node:
        node = self.get(path)
        if node is None:
            raise KeyError(path)
        return node

    def _fill(self, node: Node, key: str | None, value: Any) -> str:
        inner = self.text[node.start + 1 : node.end - 1]
        if "\n" in self.text.strip() or not self.root.items:
            outer = self._indent(node.start)
            indent, newline = outer + self._unit(), self._newline()
            filling = newline + indent + self._render(key, value, indent) + newline + outer
        else:
            filling = self._render(key, value, None)
        self._splice(node.start + 1, node.end - 1, filling)
        return inner

    def _splice(self, start: int, end: int, new: str) -> None:
        self.text = self.text[:start] + new + self.text[end:]
        self.root = parse(self.text)

    def _render(self, key: str | None, value: Any, indent: str | None) -> str:
        """``value`` as JSON: on one line without ``indent``, else with its later lines at ``indent``."""
        colon = self._colon()
        if indent is None:
            separators = (", " if colon.endswith(" ") else ",", colon)
            body = json.dumps(value, ensure_ascii=False, separators=separators)
        else:
            body = json.dumps(value, ensure_ascii=False, indent=self._unit(), separators=(",", colon))
            body = body.replace("\n", self._newline() + indent)
        return body if key is None else json.dumps(key, ensure_ascii=False) + colon + body

    def _colon(self) -> str:
        colon = self.root.items[0].colon if self.root.items else ""
        return colon if colon in (":", " : ") else ": "

    def _newline(self) -> str:
        first = self.text.find("\n")
        return "\r\n" if first > 0 and self.text[first - 1] == "\r" else "\n"

    def _indent(self, at: int) -> str:
        """The white space with which the line of ``at`` begins."""
        begin = self.text.rfind("\n", 0, at) + 1
        return re.compile(r"[ \t]*").match(self.text, begin, at)[0]  # type: ignore[index]

    def _unit(self) -> str:
        """One level of indentation, as the first member of the top level shows it."""
        if self.root.items and "\n" in self.text[self.root.start : self.root.items[0].at]:
            outer, inner = self._indent(self.root.start), self._indent(self.root.items[0].at)
            if inner.startswith(outer) and inner != outer:
                return inner[len(outer) :]
        return "  "


__all__ = ["Document", "Node", "NotPlainJson", "Path", "parse"]
