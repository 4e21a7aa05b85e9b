"""``secrets@1`` over one text: where its secrets are. Pure.

One pass of :mod:`.prefilter` says where the words of the rules stand in a text, and the rules look at
these places, each a bounded way around. What a text has no word of costs nothing, so neither the number
of rules nor what stands elsewhere in the text changes what is found at a place, or what looking costs.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from operator import le, lt
from typing import NamedTuple

from sessionpipe.privacy import assignments, prefilter, shapes, terminal, ties, wrapped
from sessionpipe.privacy.rules import load
from sessionpipe.privacy.shapes import Span
from sessionpipe.privacy.sought import BITS, SHORTEST, TOKEN, WHICH, Occurring, Places, Signs, Word

# A longer text repeats itself, and a hostile one does nothing else: it is looked at piece by piece, and what
# was seen in a piece with so much around it is remembered while the text is looked at.
_LONG = 32_768
_PIECE = 8_192
_AROUND = 2_048
# How far a word, or a sign with its runs, reaches into the next piece.
_OVER = 256

#: How far a rule looked, from where to where, and how many secrets it found there.
Reach = tuple[int, int, int]
# A change further away than this changes nothing that is found.
_REACH = 8_192
# Nothing fits between a word and what stands so close.
_NEXT_TO = 8


class Found(NamedTuple):
    """The secrets of a text, in order, none touching another, and whether a second look may see more."""

    spans: list[Span]
    again: bool


class _Engine(NamedTuple):
    #: Where the words of rules stand, and the stems of names.
    places: Places
    #: Where signs stand that every text has, beside a long run.
    signs: Signs
    #: Whether a text that is not ASCII has one of the words that are not.
    has_foreign: Occurring
    #: Whether a row of a text may go on in the next.
    goes_on: Occurring
    #: What ties a name at a place to its value.
    tied: Callable[[str, int], ties.Tied | None]
    tables: shapes.Tables
    #: Which words are starts of tokens.
    starts: list[bool]


# Reentrant: a signal's handler that logs may come in the midst of it.
_making = threading.RLock()
_made: _Engine | None = None


def _engine() -> _Engine:
    """The engine, made once, though the threads of a worker come to it at the same moment."""
    global _made
    if _made is None:
        with _making:
            _made = _made or _compiled()
    return _made


def _compiled() -> _Engine:
    tables = shapes.tables()
    stems = [Word(stem) for stem in load("secrets@1")["names"]["stems"]]
    return _Engine(
        prefilter.places([tables.words, stems]),
        prefilter.signs(shapes.RUNS),
        prefilter.gate("|".join(word for word, _ in tables.foreign)),
        prefilter.gate(wrapped.GOES_ON),
        ties.finder(),
        tables,
        [word.starts for word in tables.words],
    )


def find(text: str, near: Sequence[int] | None = None) -> Found:
    """Where the secrets of ``text`` are; with ``near``, in order, those that may have to do with these places."""
    spans: list[Span] = []
    reached: list[Reach] = []
    hits: list[int] = []
    raw = _as_bytes(text)
    _scan(text, raw, spans, reached, hits, near)
    if terminal.is_coded(text):
        # A terminal's codes stick to a token or split it: look again without them.
        for view in terminal.views(text):
            seen: list[Span] = []
            beyond: list[Reach] = []
            _scan(view.text, _as_bytes(view.text), seen, beyond, [])
            spans += map(view.place, seen)
            reached += ((*view.place((start, end)), own) for start, end, own in beyond)
    if not text.isascii() and _engine().has_foreign(text.encode("utf-8", "surrogatepass")):
        _foreign(text, spans)
    if hits and (_engine().goes_on(raw) or wrapped.has_boxes(text)):
        _wrapped(text, spans, sorted(hits))
    if not spans:
        return Found(spans, False)
    merged = _merged(spans)
    return Found(merged, _again(text, merged, reached))


def _wrapped(text: str, spans: list[Span], hits: list[int]) -> None:
    """Add to ``spans`` the secrets that go on over rows of ``text``."""
    for rows in wrapped.views(text, hits):
        seen: list[Span] = []
        _scan(rows.text, _as_bytes(rows.text), seen, [], [])
        for span in seen:
            parts = rows.parts(span)
            if parts and wrapped.goes_on(text, parts, spans):
                spans += parts


def _foreign(text: str, spans: list[Span]) -> None:
    """Look where words of other alphabets stand."""
    for word, rules in _engine().tables.foreign:
        at = text.find(word)
        while at >= 0:
            for rule in rules:
                spans += rule.look(text, at)[0]
            at = text.find(word, at + 1)


def _merged(spans: list[Span]) -> list[Span]:
    spans.sort()
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    if all(map(lt, starts, ends)) and all(map(le, ends, starts[1:])):
        return spans
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
    behind = {text[end : end + 1] for _, end in spans}
    if any(sign.isalnum() or sign in ("_", "-") for sign in behind):
        return True
    return any(
        bisect_left(spans, (end, end)) - bisect_left(spans, (start, start)) > own
        for start, end, own in reached
    )


# The letters and digits a word may go on behind.
_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")


# A token as far as its row goes.
_BEGUN = re.compile(rf"[{TOKEN}]{{{SHORTEST}}}|[{TOKEN}]++[ \t?]*+\r?(?:\n|\Z)".encode())


def _inside(raw: bytes, at: int) -> bool:
    """Whether the letter or digit before ``at`` belongs to a word, and ends no escape (``\\n``, ``%20``)."""
    return (
        (raw[at - 2 : at - 1] != b"\\" or raw[at - 1] not in b"nrtbfv")
        and raw[at - 3 : at - 2] not in (b"%", b"x")
        and raw[at - 5 : at - 4] != b"u"
    )


def _as_bytes(text: str) -> bytes:
    """``text``, a character a byte: places are the same in both."""
    return text.encode("ascii", "replace")


def _scan(
    text: str,
    raw: bytes,
    spans: list[Span],
    reached: list[Reach],
    hits: list[int],
    near: Sequence[int] | None = None,
) -> None:
    """Add to ``spans`` the secrets of ``text``, in no promised order, to ``reached`` how far rules looked,
    and to ``hits`` where begins what may go on in another row."""
    if len(raw) <= _LONG:
        _look(text, raw, 0, 0, len(raw), 0, (spans, reached, hits))
        return
    upto = 0
    known: dict[tuple[str, int], _Seen] = {}
    for begin, end in _pieces(raw):
        if near is not None and bisect_left(near, begin - _REACH) == bisect_left(near, end + _REACH):
            continue
        over = max(0, upto - begin)
        key = (text[max(0, begin - _AROUND) : end + _AROUND], over) if over < _AROUND else None
        if key and (seen := known.get(key)):
            spans += [(begin + start, begin + stop) for start, stop in seen.spans]
            reached += [(begin + start, begin + stop, own) for start, stop, own in seen.reached]
            upto = begin + seen.upto
            continue
        found: list[Span] = []
        looked: list[Reach] = []
        upto = _look(text, raw, max(0, begin - _OVER), begin, end, upto, (found, looked, hits))
        spans += found
        reached += looked
        if key and all(one[1] < end + _AROUND for one in (*found, *looked)):
            known[key] = _Seen(
                [(start - begin, stop - begin) for start, stop in found],
                [(start - begin, stop - begin, own) for start, stop, own in looked],
                upto - begin,
            )


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


def _look(
    text: str,
    raw: bytes,
    first: int,
    begin: int,
    end: int,
    upto: int,
    found: tuple[list[Span], list[Reach], list[int]],
) -> int:
    """Look at what begins in ``text[begin:end]``, and add to spans, reaches and hits.

    Words may begin from ``first`` on. Names are looked at behind ``upto``; return how far what they name goes.
    """
    engine = _engine()
    spans, reached, hits = found
    # The places of the piece alone, in the whole text.
    piece = raw if end - first == len(raw) else raw[first : end + _OVER]
    words, stems = engine.places(piece)
    if stems:
        names = [at for one in stems if begin <= (at := first + (one >> BITS)) < end]
        names.sort()
        tied, look = engine.tied, assignments.look
        for at in names:
            # Most names are tied to nothing.
            if at >= upto and (tie := tied(text, at)):
                named, upto, reach = look(text, at, tie)
                hits.append(at)
                if named:
                    spans += named
                if reach:
                    reached.append((at, reach, len(named)))
    if words:
        words.sort()
        _words(
            text,
            raw,
            [(at, one & WHICH) for one in words if begin <= (at := first + (one >> BITS)) < end],
            found,
        )
    for at in engine.signs(piece):
        if begin <= (at := first + at) < end:
            pattern, rules = engine.tables.signs[text[at]]
            for rule in rules if pattern.match(text, at) else ():
                spans += rule.look(text, at)[0]
    return upto


def _words(
    text: str, raw: bytes, places: list[tuple[int, int]], found: tuple[list[Span], list[Reach], list[int]]
) -> None:
    """Look at the ``places`` where words of rules stand."""
    engine = _engine()
    starts, rules_of = engine.starts, engine.tables.rules
    spans, reached, hits = found
    done: dict[tuple[int, str], int] = {}
    for at, index in places:
        # Most places where a token could begin are inside a word, or begin a word of a program.
        if starts[index] and (
            (at and raw[at - 1] in _WORD and _inside(raw, at)) or not _BEGUN.match(raw, at)
        ):
            continue
        hits.append(at)
        for rule in rules_of[index]:
            if rule.back < 0:
                if named := rule.look(text, at)[0]:
                    spans += named
            elif at >= done.get((index, rule.id), 0):
                named, upto = rule.look(text, at)
                spans += named
                done[index, rule.id] = upto
                if upto > at + _NEXT_TO:
                    reached.append((at - rule.back, upto, len(named)))
