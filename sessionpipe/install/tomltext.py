"""The statements of somebody else's TOML file, each with its place in the text.

An edit takes whole statements out of the text or puts one in, so that every other byte stays: no
library that writes TOML promises that of line ends, of comments within arrays and of spacing.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, NamedTuple

from sessionpipe.install.leftalone import LeftAlone


class NotToml(LeftAlone):
    """The text is no TOML. The message never quotes it: such files hold secrets."""


class Statement(NamedTuple):
    """``text[start:end]``, its line end included: a key with its value, a table's header, or neither.

    ``table`` says whether it stands in a table, as all do behind the first header.
    """

    text: str
    start: int
    end: int
    table: bool

    @property
    def is_header(self) -> bool:
        """Whether it begins a table."""
        return self.text.lstrip().startswith("[")

    @property
    def is_comment(self) -> bool:
        """Whether it is a line with a comment and nothing else."""
        return self.text.lstrip().startswith("#")

    def value(self, key: str) -> Any:
        """The value it gives to ``key``; None when it is about another."""
        if key not in self.text or self.is_header or self.is_comment:
            return None
        return tomllib.loads(self.text).get(key)


# What may hide a line's end, or a bracket: strings first, the longer quotes before the shorter.
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|'
    + r"'''.*?'{3,5}|"
    + r'"(?:[^"\\\n]|\\.)*"|'
    + r"'[^'\n]*'|#[^\n]*|[\[\]{}]|\n",
    re.DOTALL,
)


def parse(text: str) -> dict[str, Any]:
    """What ``text`` says; raises :class:`NotToml`."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number too long is a ValueError alone
        at = re.search(r"at (line \d+|end of document)", str(error))
        where = at[1].replace("end of document", "its end") if at else "a depth or a length nobody needs"
        raise NotToml(f"not valid TOML: something unexpected at {where}") from None


def statements(text: str) -> list[Statement]:
    """Every statement of ``text``, which :func:`parse` must have taken: together they are all of it."""
    found: list[Statement] = []
    start = depth = 0
    table = False
    for token in _TOKEN.finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
        elif token[0] in ("]", "}"):
            depth -= 1
        elif token[0] == "\n" and depth == 0:
            found.append(Statement(text[start : token.end()], start, token.end(), table))
            table = table or found[-1].is_header
            start = token.end()
    if start < len(text):
        found.append(Statement(text[start:], start, len(text), table))
    return found


__all__ = ["NotToml", "Statement", "parse", "statements"]
