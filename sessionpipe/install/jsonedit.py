"""Small edits to somebody else's JSON file that leave every other byte alone.

A parse-and-dump would reformat the whole file. Instead the text is read into a tree that remembers
where each thing stands (:mod:`sessionpipe.install.jsontree`), and an edit splices the text: an
insertion takes over the indentation, the line ends and the spacing around it, and a removal is its
exact inverse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from sessionpipe.install.jsontree import Node, Source, read

Path = tuple[str | int, ...]
"""Where a value is: member names and element indexes from the top."""


class Document:
    """A JSON text under edit. An edit splices :attr:`text`, and the tree follows."""

    def __init__(self, text: str) -> None:
        """Read ``text``; raises :class:`~sessionpipe.install.jsontree.NotPlainJson`."""
        self._source = Source(text)
        self.root = read(self._source)

    @property
    def text(self) -> str:
        """The text as it is now."""
        return self._source.text

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
        self._source.text = self.text[:start] + new + self.text[end:]
        if self.root.start < start and end < self.root.end:
            self.root.spliced(start, end, len(new))
        else:
            self.root = read(self._source)

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


__all__ = ["Document", "Path"]
