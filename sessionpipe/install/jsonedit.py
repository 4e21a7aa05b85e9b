"""Small edits to somebody else's JSON file that leave every other byte alone.

A parse-and-dump would reformat the whole file. Instead the text is read into a tree that remembers
where each thing stands (:mod:`sessionpipe.install.jsontree`), and an edit splices the text: an
insertion takes over the indentation, the line ends and the spacing around it, and a removal is its
exact inverse. A comment in the way stays where it is: what is inserted stands behind it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from sessionpipe.install.jsontree import COMMENT, Node, Source, read

_BLANK = " \t\r\n"

Path = tuple[str | int, ...]
"""Where a value is: member names and element indexes from the top."""


class Document:
    """A JSON text under edit. An edit splices :attr:`text`, and the tree follows."""

    def __init__(self, text: str, reads: Collection[str] = ()) -> None:
        """Read ``text``, and in it what ``reads`` tolerates beside plain JSON.

        Raises :class:`~sessionpipe.install.jsontree.NotPlainJson`.
        """
        self._source = Source(text, reads)
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

    def has_comment(self, node: Node) -> bool:
        """Whether a comment stands in the container ``node`` itself, not within one of its items."""
        at, text, bare = node.start + 1, self.text, self._source.bare
        for item in node.items:
            if text[at : item.at] != bare[at : item.at]:
                return True
            at = item.end
        return text[at : node.end] != bare[at : node.end]

    def insert(self, path: Path, key: str | None, value: Any) -> str | None:
        """Append ``value`` to the container at ``path``, as member ``key`` of an object.

        Returns the white space that stood between the brackets of a container that was empty, which
        a later :meth:`remove` needs to give the same bytes back; else None.
        """
        node = self._container(path)
        if not node.items:
            return self._fill(node, key, value)
        first, last = node.items[0], node.items[-1]
        behind = self.text[last.end : node.end - 1]
        tail = behind.rstrip(_BLANK)  # comments, and a comma that may stand behind the last item
        closed = "," in self._source.bare[last.end : last.end + len(tail)]
        if "\n" in self.text[node.start + 1 : first.at] or (tail and "\n" in behind):
            indent = self._indent(last.at)
            addition = self._newline() + indent + self._render(key, value, indent)
        else:
            space = " " if self._colon().endswith(" ") else ""
            addition = space + self._render(key, value, None)
        end = last.end + len(tail)
        self._splice(last.end, end, tail + addition + "," if closed else "," + tail + addition)
        return None

    def remove(self, path: Path, emptied: str = "") -> None:
        """Take the item at ``path`` out; ``emptied`` is what an emptied container then holds."""
        parent = self._container(path[:-1])
        index = next(i for i, item in enumerate(parent.items) if item is parent.child(path[-1]))
        item, count = parent.items[index], len(parent.items)
        before = parent.items[index - 1].end if index else parent.start + 1
        after = parent.items[index + 1].at if index + 1 < count else parent.end - 1
        head, foot = (before, item.at), (item.end, after)
        last = index == count - 1
        if count == 1:
            kept = _joined(self.text[slice(*head)], self._without_comma(foot))
            self._splice(before, after, kept if kept.strip(_BLANK) else emptied)
        elif last and "," in self._source.bare[slice(*foot)]:
            self._splice(before, after, _joined(self.text[slice(*head)], self._without_comma(foot)))
        elif index:
            self._splice(before, after, _joined(self._without_comma(head), self.text[slice(*foot)]))
        else:
            self._splice(item.at, after, self._without_comma(foot).lstrip(_BLANK))

    def replace(self, path: Path, value: Any) -> None:
        """Put ``value`` where the value at ``path`` stands."""
        node = self.get(path)
        if node is None:
            raise KeyError(path)
        indent = self._indent(node.at) if "\n" in self.text[node.start : node.end] else None
        self._splice(node.start, node.end, self._render(None, value, indent))

    def _without_comma(self, gap: tuple[int, int]) -> str:
        """What stands between two items, but for their comma."""
        start, end = gap
        comma = self._source.bare.find(",", start, end)
        return self.text[start:comma] + self.text[comma + 1 : end] if comma >= 0 else self.text[start:end]

    def _container(self, path: Path) -> Node:
        node = self.get(path)
        if node is None:
            raise KeyError(path)
        return node

    def _fill(self, node: Node, key: str | None, value: Any) -> str | None:
        inner = self.text[node.start + 1 : node.end - 1]
        tail = inner.rstrip(_BLANK)  # comments
        if "\n" in self.text.strip(_BLANK) or not self.root.items:
            outer = self._indent(node.start)
            indent, newline = outer + self._unit(), self._newline()
            filling, end = newline + indent + self._render(key, value, indent), newline + outer
        else:
            filling, end = self._render(key, value, None), ""
        self._splice(node.start + 1, node.end - 1, tail + filling + (inner[len(tail) :] if tail else end))
        return None if tail else inner

    def _splice(self, start: int, end: int, new: str) -> None:
        self._source.set(self.text[:start] + new + self.text[end:])
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


def _joined(head: str, foot: str) -> str:
    """What stood before an item and what stood behind it, without the item and the white space it had.

    A comment up to the end of its line keeps that end.
    """
    trimmed = head.rstrip(_BLANK)
    line = any(m.end() == len(trimmed) and m[0].startswith("//") for m in COMMENT.finditer(trimmed))
    if line and not re.match(r"[ \t]*\r?\n", foot):
        return head + foot
    return trimmed + foot


__all__ = ["Document", "Path"]
