"""What is looked for in every text before any rule is asked: words, and signs beside long runs. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

#: Given a piece of text in ASCII, the indices of what occurs in it, in no promised order.
Occurring = Callable[[bytes], list[int]]
#: Given a piece of text in ASCII, where the words of each group stand, in no promised order: numbers that
#: hold a place and, in their low bits, which word it is of all groups' (two numbers in one are made and
#: sorted faster than a pair).
Places = Callable[[bytes], list[list[int]]]
BITS = 12
WHICH = (1 << BITS) - 1
#: Given a piece of text in ASCII, where signs beside long runs stand, in order.
Signs = Callable[[bytes], list[int]]

#: The characters of a token, and how many at least it has from its start on.
TOKEN = "A-Za-z0-9_.-"  # noqa: S105 (the characters of a token)
SHORTEST = 15


class Word(NamedTuple):
    """A word to look for, in lower case and found in any.

    One that ``starts`` a token is found as it is written, at least where :data:`SHORTEST` characters of
    a token stand. Of one that is looked for ``once``, any place will do.
    """

    text: str
    starts: bool = False
    once: bool = False

    def expression(self) -> str:
        """The word as an expression."""
        return re.sub(r"[^A-Za-z0-9_ ]", r"\\\g<0>", self.text)


class Run(NamedTuple):
    """Some signs, behind what matches an expression and before so many of a class: ``("0-9a-f", 32)``.

    An expression is one that all regular expressions read alike.
    """

    before: str
    signs: str
    behind: tuple[str, int]

    def expression(self) -> str:
        """All of it as an expression."""
        return f"{self.before}[{self.signs}][{self.behind[0]}]{{{self.behind[1]}}}"


class Step(NamedTuple):
    """Some runs, and an expression for what a text has that has one of them, or one of a later step's.

    Without such a ``gate`` the step before has said it.
    """

    gate: str
    runs: tuple[Run, ...]
