"""Which regular expressions a person may write: those that take time linear in any text. Pure.

The standard library's engine goes back and tries again, which takes quadratic or exponential time for
some expressions and texts. The ones accepted here can do only so many steps from one place of a text:
every repeat is bounded, except one at the very end, which never has to go back; and the ways in which
repeats can share a text between them, multiplied, stay below a bound.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

#: How many steps one place of a text may cost.
STEPS = 2_000
# From which count on a repeat has no bound worth the name.
_ENDLESS = 1_000
# Shorter texts are in every other text.
_TELLING = 3


class Unsafe(Exception):
    """The expression can't be used; the message goes on from "its pattern"."""


class _Cost(NamedTuple):
    """``steps`` it takes to try everything from one place, and in how many ``ways`` it can match there."""

    steps: int
    ways: int


def check(pattern: str) -> re.Pattern[str]:
    """``pattern`` compiled. Raises :class:`Unsafe`."""
    try:
        from re import _constants, _parser  # type: ignore[attr-defined]
    except ImportError:  # pragma: no cover (a Python yet to come)
        raise Unsafe("can't be looked into by this version of Python; use words") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = _parser.parse(pattern)
            compiled = re.compile(pattern)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        raise Unsafe(f"is no regular expression: {error}") from error
    if tree.getwidth()[0] == 0:
        raise Unsafe("matches where there is nothing")
    steps = _Costing(_constants).sequence(list(tree), last=True).steps
    if steps > STEPS:
        raise Unsafe(
            "may take too long: bound its repeats ({1,40} for +), or make the sign behind a repeat one that"
            " the repeat does not take"
        )
    return compiled


def literal(pattern: str) -> str | None:
    """The longest text, in lower case, that is in everything ``pattern`` (a checked one) matches; None without one."""
    from re import _constants, _parser  # type: ignore[attr-defined]

    runs = [""]
    for code, value in _parser.parse(pattern):
        if code is _constants.LITERAL and value < 128:
            runs[-1] += chr(value).lower()
        else:
            runs.append("")
    longest = max(runs, key=len)
    return longest if len(longest) >= _TELLING else None


class _Costing:
    def __init__(self, op: Any) -> None:
        self._op = op
        self._single = {op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN}

    def sequence(self, items: Sequence[Any], *, last: bool) -> _Cost:
        steps, ways = 0, 1
        for index in range(len(items) - 1, -1, -1):
            rest = items[index + 1 :]
            cost = self._item(items[index], rest, last=last and not rest)
            # What follows is tried again for every way in which this one matches.
            steps = cost.steps + cost.ways * steps
            ways *= cost.ways
            if steps > STEPS or ways > STEPS:
                return _Cost(STEPS + 1, STEPS + 1)
        return _Cost(steps, ways)

    def _item(self, item: Any, rest: Sequence[Any], *, last: bool) -> _Cost:
        op, (code, value) = self._op, item
        if code in self._single:
            return _Cost(1, 1)
        if code is op.AT:
            return _Cost(1, 1)
        if code is op.SUBPATTERN:
            return self.sequence(list(value[3]), last=last)
        if code is op.ATOMIC_GROUP:
            return _Cost(self.sequence(list(value), last=last).steps, 1)
        if code is op.BRANCH:
            costs = [self.sequence(list(branch), last=last) for branch in value[1]]
            ways = [cost.ways for cost in costs]
            return _Cost(sum(cost.steps for cost in costs), max(ways) if self._apart(value[1]) else sum(ways))
        if code in (op.ASSERT, op.ASSERT_NOT):
            return _Cost(self.sequence(list(value[1]), last=False).steps, 1)
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            low, high, body = value
            return self._repeat(code, low, high, body, rest, last=last)
        if code in (op.GROUPREF, op.GROUPREF_EXISTS):
            raise Unsafe("refers back to a group, which can't be done in linear time")
        raise Unsafe(f"has a part that is not understood ({str(code).lower()})")

    def _repeat(self, code: Any, low: int, high: int, body: Any, rest: Sequence[Any], *, last: bool) -> _Cost:
        op, items = self._op, list(body)
        single = len(items) == 1 and items[0][0] in self._single
        if not single and code is op.POSSESSIVE_REPEAT:
            # Some Pythons read one on a group wrongly.
            raise Unsafe("has a possessive repeat on a group; (?>…) around an ordinary one says the same")
        if high > _ENDLESS and single and last:
            return _Cost(low + 1, 1)  # It goes on for as long as it can, and never back.
        if high > _ENDLESS:
            raise Unsafe("has a repeat without end before its own end: bound it ({1,40} for +)")
        inner = self.sequence(items, last=False)
        if inner.ways > 1:
            ways = 0
            for count in range(high + 1):
                ways += inner.ways**count
                if ways > STEPS:
                    return _Cost(STEPS + 1, STEPS + 1)
            return _Cost(inner.steps * ways, ways)
        fixed = low == high or code is op.POSSESSIVE_REPEAT
        given = fixed or (code is op.MAX_REPEAT and single and self._ends(items[0], rest))
        return _Cost(inner.steps * max(high, 1), 1 if given else high - low + 1)

    def _ends(self, item: Any, rest: Sequence[Any]) -> bool:
        """Whether what follows begins with a sign that ``item`` does not take: going back then finds nothing."""
        following = self._first(rest)
        mine = self._signs(item)
        return following is not None and mine is not None and not mine & following

    def _apart(self, branches: Sequence[Any]) -> bool:
        seen: set[int] = set()
        for branch in branches:
            first = self._first(list(branch))
            if first is None or first & seen:
                return False
            seen |= first
        return True

    def _first(self, items: Sequence[Any]) -> frozenset[int] | None:
        """The signs with which what ``items`` match begins; None when that can't be told."""
        op = self._op
        for code, value in items:
            if code is op.SUBPATTERN:
                return self._first(list(value[3]))
            if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
                return self._first(list(value[2])) if value[0] else None
            return self._signs((code, value)) if code in self._single else None
        return None

    def _signs(self, item: Any) -> frozenset[int] | None:
        """The signs a single one matches, of ASCII; 128 stands for all others."""
        op, (code, value) = self._op, item
        if code is op.LITERAL:
            # In any case, for an expression may say so.
            char = chr(value)
            return frozenset(min(ord(one), 128) for one in {char, *char.lower(), *char.upper()})
        if code is op.ANY:
            return frozenset(range(129))
        if code is op.NOT_LITERAL:
            return frozenset(range(129)) - ({value} if value < 128 else set())
        if code is not op.IN:
            return None
        taken: set[int] = set()
        negated = False
        for kind, one in value:
            if kind is op.NEGATE:
                negated = True
            elif kind is op.LITERAL:
                taken |= self._signs((op.LITERAL, one)) or set()
            elif kind is op.RANGE:
                for number in range(one[0], min(one[1], 127) + 1):
                    taken |= self._signs((op.LITERAL, number)) or set()
                taken |= {128} if one[1] > 127 else set()
            else:
                taken |= self._category(one)
        if negated:
            # Of those beyond ASCII some may be left whatever was taken.
            return frozenset((set(range(128)) - taken) | {128})
        return frozenset(taken)

    def _category(self, category: Any) -> set[int]:
        name = str(category).lower()
        sign = {"digit": r"\d", "word": r"\w", "space": r"\s"}.get(name.rsplit("_", 1)[1], "")
        if not sign:
            return set(range(129))
        matches = re.compile(sign.upper() if "_not_" in name else sign).match
        return {number for number in range(128) if matches(chr(number))} | {128}


__all__ = ["STEPS", "Unsafe", "check", "literal"]
