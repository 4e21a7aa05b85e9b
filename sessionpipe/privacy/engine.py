"""``secrets@1`` over one text: where its secrets are. Pure.

One pass of :mod:`.prefilter` says which words of the rules a piece of text has; each of them is then
looked up in the piece, and its rules look at the places where it stands, each a bounded way around.
What a text has no word of costs nothing, so neither the number of rules nor what stands elsewhere in
the text changes what is found at a place, or what looking costs.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from sessionpipe.privacy import assignments, prefilter, shapes, terminal, wrapped
from sessionpipe.privacy.prefilter import Word
from sessionpipe.privacy.rules import load
from sessionpipe.privacy.shapes import Rule, Span

# Words are looked for piece by piece, so that a character of a long text costs what one of a short text does.
_PIECE = 8_192
# A longer text repeats itself, and a hostile one does nothing else: what was seen in a piece with so much
# around it is remembered while the text is looked at.
_LONG = 4 * _PIECE
_AROUND = 2_048
#: The most that ``then`` of a row asks to follow its sign.
_FOLLOWING = 256
#: What is in everything that such a row finds: a long run behind a sign, or hexadecimal before one. What
#: ends with it has its sign at most so far before its end. One by one, for together they are slower.
RUNS = (r"[.:][A-Za-z0-9_\-]{24}", r"[_\-][A-Za-z0-9]{28}", r"[0-9a-f]{32}[.\-][A-Za-z0-9]{8}")
_SIGN = 40
_BEFORE = 160


#: How far a rule looked, from where to where, and how many secrets it found there.
Reach = tuple[int, int, int]
# A change further away than this changes nothing that is found.
_REACH = 8_192


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
    #: Whether and where a piece has what everything that `then` rows find has.
    has_run: prefilter.Prefilter
    runs: list[Callable[[bytes], list[int] | None]]
    #: Whether rows of a text may be one.
    has_rows: prefilter.Prefilter
    words: list[_Word]
    #: From this index on, words are stems of names; from that one on, signs of a terminal's codes.
    stems: int
    codes: int
    longest: int
    #: What only a sign of every text announces.
    common: list[tuple[re.Pattern[str], tuple[Rule, ...]]]
    #: Words that are not ASCII.
    foreign: list[tuple[str, tuple[Rule, ...]]]


@cache
def _engine() -> _Engine:
    tables = shapes.tables()
    stems = [Word(stem) for stem in load("secrets@1")["names"]["stems"]]
    codes = [Word(sign) for sign in terminal.SIGNS]
    words = [*tables.words, *stems, *codes]
    rules = [*tables.rules, *[()] * len(stems + codes)]
    return _Engine(
        prefilter.build(words),
        prefilter.gate("[A-Za-z0-9_-]{24}"),
        [prefilter.ends(run) for run in RUNS],
        prefilter.gate(wrapped.GATE),
        [_Word(word.text.encode(), word.starts, row) for word, row in zip(words, rules, strict=True)],
        len(tables.words),
        len(tables.words) + len(stems),
        max(len(word.text) for word in words),
        tables.common,
        tables.foreign,
    )


def find(text: str, near: Sequence[int] | None = None) -> Found:
    """Where the secrets of ``text`` are; with ``near``, in order, those that may have to do with these places."""
    spans: list[Span] = []
    reached: list[Reach] = []
    hits: list[int] = []
    if _scan(text, spans, reached, hits, near):
        # A terminal's codes stick to a token or split it: look again without them.
        for view in terminal.views(text):
            seen: list[Span] = []
            beyond: list[Reach] = []
            _scan(view.text, seen, beyond, [])
            spans += map(view.place, seen)
            reached += ((*view.place((start, end)), own) for start, end, own in beyond)
    if not text.isascii():
        _foreign(text, spans)
    if hits and _engine().has_rows(text.encode("ascii", "replace")):
        _wrapped(text, spans, sorted(hits))
    if not spans:
        return Found(spans, False)
    merged = _merged(spans)
    return Found(merged, _again(text, merged, reached))


def _wrapped(text: str, spans: list[Span], hits: list[int]) -> None:
    """Add to ``spans`` the secrets that go on over rows of ``text``."""
    for rows in wrapped.views(text, hits):
        seen: list[Span] = []
        _scan(rows.text, seen, [], [])
        for span in seen:
            parts = rows.parts(span)
            if parts and wrapped.goes_on(text, parts, spans):
                spans += parts


def _foreign(text: str, spans: list[Span]) -> None:
    """Look where words of other alphabets stand."""
    for word, rules in _engine().foreign:
        at = text.find(word)
        while at >= 0:
            for rule in rules:
                spans += rule.look(text, at)[0]
            at = text.find(word, at + 1)


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


def _again(text: str, spans: list[Span], reached: list[Reach]) -> bool:
    """Whether text without ``spans`` may show what was not seen with them.

    A word begins where a secret ended; or a rule that reaches far now reaches further.
    """
    if any(text[end : end + 1].isalnum() or text[end : end + 1] in ("_", "-") for _, end in spans):
        return True
    return any(
        bisect_left(spans, (end, end)) - bisect_left(spans, (start, start)) > own
        for start, end, own in reached
    )


# The letters and digits a word may go on behind.
_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")


def _inside(raw: bytes, at: int) -> bool:
    """Whether the letter or digit before ``at`` belongs to a word, and ends no escape (``\\n``, ``%20``)."""
    return (
        (raw[at - 2 : at - 1] != b"\\" or raw[at - 1] not in b"nrtbfv")
        and raw[at - 3 : at - 2] not in (b"%", b"x")
        and raw[at - 5 : at - 4] != b"u"
    )


def _scan(
    text: str, spans: list[Span], reached: list[Reach], hits: list[int], near: Sequence[int] | None = None
) -> bool:
    """Add to ``spans`` the secrets of ``text``, in no promised order, to ``reached`` how far rules looked,
    and to ``hits`` where the words of rules stand; return whether it has codes of a terminal."""
    engine = _engine()
    raw = text.encode("ascii", "replace")  # A character a byte: places are the same in both.
    low = b""
    upto = 0
    coded = False
    repeats = len(raw) > _LONG
    seen: dict[tuple[str, int], _Seen] = {}
    for begin, end in _pieces(raw):
        if near is not None and bisect_left(near, begin - _REACH) == bisect_left(near, end + _REACH):
            continue
        over = max(0, upto - begin)
        key = (text[max(0, begin - _AROUND) : end + _AROUND], over) if repeats and over < _AROUND else None
        if key and (known := seen.get(key)):
            spans += [(begin + start, begin + stop) for start, stop in known.spans]
            reached += [(begin + start, begin + stop, own) for start, stop, own in known.reached]
            upto = begin + known.upto
            continue
        places: list[tuple[int, int]] = []
        names: list[int] = []
        piece = raw[begin : end + engine.longest - 1]
        for index in engine.occurring(piece):
            if index >= engine.codes:
                coded = True
                continue
            word, starts, _ = engine.words[index]
            where = raw if starts else (low := low or raw.lower())
            last = end + len(word) - 1
            at = where.find(word, begin, last)
            while at >= 0:
                if index >= engine.stems:
                    names.append(at)
                # Most places where a token could begin are inside a word.
                elif not (starts and at and raw[at - 1] in _WORD and _inside(raw, at)):
                    places.append((at, index))
                at = where.find(word, at + 1, last)
        found: list[Span] = []
        looked: list[Reach] = []
        if names:
            names.sort()
            hits += names
            upto = _names(text, names, upto, found, looked)
        if places:
            hits += [at for at, _ in places]
            _places(engine, text, places, found, looked)
        for at, rules in _common(engine, text, raw, begin, end):
            for rule in rules:
                found += rule.look(text, at)[0]
        spans += found
        reached += looked
        if key and all(one[1] < end + _AROUND for one in (*found, *looked)):
            seen[key] = _Seen(
                [(start - begin, stop - begin) for start, stop in found],
                [(start - begin, stop - begin, own) for start, stop, own in looked],
                upto - begin,
            )
    return coded


def _common(
    engine: _Engine, text: str, raw: bytes, begin: int, end: int
) -> Iterator[tuple[int, tuple[Rule, ...]]]:
    """Where in ``text[begin:end]`` a sign of every text announces something, and to which rules."""
    first = max(0, begin - _BEFORE)
    around = raw[first : end + _FOLLOWING]
    if not engine.has_run(around):
        return
    found = [find(around) for find in engine.runs]
    if None in found:
        windows = [(begin, end)]
    else:
        ends = sorted({first + run for runs in found for run in runs or ()})
        windows = [(run - _SIGN, run) for run in ends]
    upto = begin
    for start, stop in windows:
        start, stop = max(upto, start), min(stop, end)
        if start < stop:
            upto = stop
            for pattern, rules in engine.common:
                for match in pattern.finditer(text, start, stop + _FOLLOWING):
                    if (at := match.start()) < stop:
                        yield at, rules


class _Seen(NamedTuple):
    """What a piece of text had, from its beginning on."""

    spans: list[Span]
    reached: list[Reach]
    upto: int


def _pieces(raw: bytes) -> Iterator[Span]:
    """The beginnings and ends of the pieces of a text, which end where a line or a word does."""
    begin, length = 0, len(raw)
    while length - begin > _PIECE:
        end = begin + _PIECE
        cut = raw.rfind(b"\n", begin + _PIECE // 2, end) + 1 or raw.rfind(b" ", begin + _PIECE // 2, end) + 1
        end = cut or end
        yield begin, end
        begin = end
    yield begin, length


def _names(text: str, names: list[int], upto: int, found: list[Span], looked: list[Reach]) -> int:
    """Look at the stems of names at ``names``, behind ``upto``; return how far what they name goes."""
    ties = assignments.ties()
    for at in names:
        # Most names are tied to nothing.
        if at >= upto and (tie := ties(text, at)):
            spans, upto, reach = assignments.look(text, at, tie)
            if spans:
                found += spans
            if reach:
                looked.append((at, reach, len(spans)))
    return upto


def _places(
    engine: _Engine, text: str, places: list[tuple[int, int]], found: list[Span], looked: list[Reach]
) -> None:
    """Look at the places where words of rules stand."""
    done: dict[tuple[int, str], int] = {}
    for at, index in places:
        for rule in engine.words[index].rules:
            if rule.back < 0:
                found += rule.look(text, at)[0]
            elif at >= done.get((index, rule.id), 0):
                spans, upto = rule.look(text, at)
                found += spans
                done[index, rule.id] = upto
                looked.append((at - rule.back, upto, len(spans)))
