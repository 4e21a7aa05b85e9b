"""``secrets@1`` over one text: where its secrets are. Pure.

One pass of :mod:`.prefilter` says which words of the rules a piece of text has; each of them is then
looked up in the piece, and its rules look at the places where it stands, each a bounded way around.
What a text has no word of costs nothing, so neither the number of rules nor what stands elsewhere in
the text changes what is found at a place, or what looking costs.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cache
from typing import NamedTuple

from sessionpipe.privacy import assignments, prefilter, shapes, terminal
from sessionpipe.privacy.prefilter import Word
from sessionpipe.privacy.rules import load
from sessionpipe.privacy.shapes import Rule, Span

# Words are looked for piece by piece, so that a character of a long text costs what one of a short text does.
_PIECE = 8_192
#: The most that ``then`` of a row asks to follow its sign.
_FOLLOWING = 256


class Found(NamedTuple):
    """The secrets of a text, in order, none touching another, and whether a second look may see more."""

    spans: list[Span]
    again: bool


class _Word(NamedTuple):
    text: bytes
    starts: bool
    rules: tuple[Rule, ...]


class _Engine(NamedTuple):
    occurring: prefilter.Prefilter
    words: list[_Word]
    #: From this index on, words are stems of names; from that one on, signs of a terminal's codes.
    stems: int
    codes: int
    longest: int
    common: list[tuple[re.Pattern[str], tuple[Rule, ...]]]


@cache
def _engine() -> _Engine:
    tables = shapes.tables()
    stems = [Word(stem) for stem in load("secrets@1")["names"]["stems"]]
    codes = [Word(sign) for sign in terminal.SIGNS]
    words = [*tables.words, *stems, *codes]
    rules = [*tables.rules, *[()] * len(stems + codes)]
    return _Engine(
        prefilter.build(words),
        [_Word(word.text.encode(), word.starts, row) for word, row in zip(words, rules, strict=True)],
        len(tables.words),
        len(tables.words) + len(stems),
        max(len(word.text) for word in words),
        tables.common,
    )


def find(text: str) -> Found:
    """Where the secrets of ``text`` are."""
    spans: list[Span] = []
    reached: list[Span] = []
    if _scan(text, spans, reached):
        # A terminal's codes stick to a token or split it: look again without them.
        for view in terminal.views(text):
            seen: list[Span] = []
            beyond: list[Span] = []
            _scan(view.text, seen, beyond)
            spans += map(view.place, seen)
            reached += map(view.place, beyond)
    if not spans:
        return Found(spans, False)
    merged = _merged(spans)
    return Found(merged, _again(text, merged, reached))


def _merged(spans: list[Span]) -> list[Span]:
    spans.sort()
    merged: list[Span] = []
    last = -1
    for span in spans:
        start, end = span
        if start >= last:
            if end > start:
                merged.append(span)
                last = end
        elif end > last:
            merged[-1] = (merged[-1][0], end)
            last = end
    return merged


def _again(text: str, spans: list[Span], reached: list[Span]) -> bool:
    """Whether text without ``spans`` may show what was not seen with them.

    A word begins where a secret ended; or a rule that reaches far now reaches further.
    """
    if any(text[end : end + 1].isalnum() or text[end : end + 1] in ("_", "-") for _, end in spans):
        return True
    for start, end in reached:
        at = bisect_left(spans, (start, start))
        if at < len(spans) and spans[at][0] < end:
            return True
    return False


# The letters and digits a word may go on behind.
_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")


def _inside(raw: bytes, at: int) -> bool:
    """Whether the letter or digit before ``at`` belongs to a word, and ends no escape (``\\n``, ``%20``)."""
    return (
        (raw[at - 2 : at - 1] != b"\\" or raw[at - 1] not in b"nrtbfv")
        and raw[at - 3 : at - 2] not in (b"%", b"x")
        and raw[at - 5 : at - 4] != b"u"
    )


def _scan(text: str, spans: list[Span], reached: list[Span]) -> bool:
    """Add to ``spans`` the secrets of ``text``, in no promised order, and to ``reached`` how far rules
    looked; return whether it has codes of a terminal."""
    engine = _engine()
    words, stems, codes = engine.words, engine.stems, engine.codes
    raw = text.encode("ascii", "replace")  # A character a byte: places are the same in both.
    low = b""
    done: dict[tuple[int, str], int] = {}
    named = 0
    coded = False
    for begin in range(0, len(raw), _PIECE):
        end = min(begin + _PIECE, len(raw))
        names: list[int] = []
        for index in engine.occurring(raw[begin : end + engine.longest - 1]):
            if index >= codes:
                coded = True
                continue
            word, starts, rules = words[index]
            where = raw if starts else (low := low or raw.lower())
            last = end + len(word) - 1
            at = where.find(word, begin, last)
            if index >= stems:
                while at >= 0:
                    names.append(at)
                    at = where.find(word, at + 1, last)
                continue
            while at >= 0:
                # Most places where a token could begin are inside a word.
                if not (starts and at and raw[at - 1] in _WORD and _inside(raw, at)):
                    for rule in rules:
                        if rule.back < 0:
                            spans += rule.look(text, at)[0]
                        elif at >= done.get((index, rule.id), 0):
                            found, upto = rule.look(text, at)
                            spans += found
                            done[index, rule.id] = upto
                            reached.append((at - rule.back, upto))
                at = where.find(word, at + 1, last)
        names.sort()
        for at in names:
            if at >= named:
                found, named, upto = assignments.look(text, at)
                if found:
                    spans += found
                if upto:
                    reached.append((at, upto))
        for pattern, rules in engine.common:
            for match in pattern.finditer(text, begin, end + _FOLLOWING):
                if (at := match.start()) < end:
                    for rule in rules:
                        spans += rule.look(text, at)[0]
    return coded
