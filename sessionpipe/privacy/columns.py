"""Secrets in a table, below the name at the head of their column. Pure.

Each function looks a bounded way below a name: between a table's borders, between blanks, or between the signs of CSV.
"""

from __future__ import annotations

import re

from sessionpipe.privacy import values
from sessionpipe.privacy.names import Kind, kind
from sessionpipe.privacy.ties import CELL

Span = tuple[int, int]

# The rows of a table below its head, and no more of them than this.
_RULE = re.compile(r"[ \t]*[|│├┼┡╞+-][-:|│├┼┤┡╇┩╞╪╡+─━═ \t]{3,400}+")
_MOST_ROWS, _WIDEST_ROW = 64, 500


def _row_end(text: str, at: int) -> int:
    """Where the row that begins at ``at`` ends, or as much of it as is looked at."""
    end = text.find("\n", at, at + _WIDEST_ROW)
    return end if end >= 0 else min(len(text), at + _WIDEST_ROW)


def between_borders(text: str, name: str, start: int, mark: str) -> list[Span]:
    """The secrets in the column of a table that ``name`` is the head of."""
    if mark not in ("|", "│", "┃") or (found := kind(name.strip("-_."))) is None or found == "key":
        return []
    line = text.rfind("\n", max(0, start - _WIDEST_ROW), start) + 1
    end = text.find("\n", start, start + _WIDEST_ROW)
    rule = _RULE.match(text, end + 1) if end >= 0 else None
    if rule is None and end >= 0 and (below := text.find("\n", end + 1, end + 1 + _WIDEST_ROW)) >= 0:
        rule = _RULE.match(text, below + 1)  # Between them may be the columns' types.
    if rule is None or text[rule.end() : rule.end() + 1] not in ("\n", "\r"):
        return []
    cell = text.count(mark, line, start)
    mark = mark.replace("┃", "│")
    spans: list[Span] = []
    at = rule.end() + 1
    for _ in range(_MOST_ROWS):
        end = _row_end(text, at)
        cells = text[at:end].split(mark)
        if len(cells) <= cell:
            break
        value = cells[cell].strip(" \t`*")
        if len(value) >= 6 and " " not in value and values.is_opaque(value) and values.may_go(value, found):
            begin = at + sum(len(one) + 1 for one in cells[:cell]) + cells[cell].index(value)
            spans.append((begin, begin + len(value)))
        at = end + 1
    return spans


_HEAD = re.compile(r"[A-Z][\w-]{1,30}(?:[ \t]{1,40}[A-Z][\w-]{1,30}){1,11}")


def between_blanks(text: str, name: str, start: int) -> list[Span]:
    """The secrets below ``name`` in a table whose columns blanks separate."""
    if (found := kind(name)) is None or found == "key":
        return []
    line = text.rfind("\n", max(0, start - _WIDEST_ROW), start) + 1
    end = text.find("\n", start, start + _WIDEST_ROW)
    head = text[line:end].strip() if end >= 0 else ""
    if not _HEAD.fullmatch(head):
        return []
    cell, cells = len(text[line:start].split()), len(head.split())
    spans: list[Span] = []
    for _ in range(_MOST_ROWS):
        at = end + 1
        end = _row_end(text, at)
        row = list(_CELL.finditer(text, at, end))
        if len(row) != cells:
            break
        if _is_secret(row[cell][0], found):
            spans.append(row[cell].span())
    return spans


_CELL = re.compile(r"\S+")
# A table whose cells a sign separates, in quotes or not, and how far below its head it is looked at.
_MARKS = {
    mark: (
        re.compile(rf"{CELL}(?:\{mark}{CELL}){{1,40}}"),
        re.compile(rf'(?:\A|(?<=\{mark}))(?:"[^"\n]*+"|[^"\{mark}\n]*+)(?=\{mark}|\Z)'),
    )
    for mark in (",", ";", "\t", "|")
}
_FURTHEST, _MOST_ODD = 8_000, 2


def between_signs(text: str, start: int, end: int) -> tuple[list[Span], int, int]:
    """The secrets below all heads of columns on the line of a name, where that line is all there is of it.

    With them, how far no other name has to be looked at, and how far was read (0: no such table).
    """
    begin = text.rfind("\n", max(0, start - _WIDEST_ROW), start) + 1
    stop = text.find("\n", start, start + _WIDEST_ROW)
    head = text[begin:stop].rstrip("\r") if stop >= 0 else ""
    mark = next((one for one, (form, _) in _MARKS.items() if one in head and form.fullmatch(head)), None)
    if mark is None:
        return [], end, 0
    cells = _MARKS[mark][1]
    kinds = [kind(one.strip(' "').replace(" ", "_")) for one in head.split(mark)]
    secret = [(index, found) for index, found in enumerate(kinds) if found in ("password", "token")]
    if not secret:
        return [], end, 0
    spans: list[Span] = []
    at, odd = stop + 1, 0
    while at < stop + _FURTHEST:
        below = _row_end(text, at)
        line = text[at:below].rstrip("\r")
        row = line.split(mark) if '"' not in line else cells.findall(line)
        if mark not in line and not _RULE.fullmatch(line):
            break
        # No head begins with a number, as many a row does.
        is_head = not line[:1].isdigit() and any(map(kind, row))
        named = [index for index, one in enumerate(row) if kind(one)] if is_head else []
        for index, found in secret if len(row) == len(kinds) else ():
            if len(row[index]) >= 6 and _is_secret(value := row[index].strip(' "'), found):
                begin = at + line.index(value, sum(map(len, row[:index])) + index)
                spans.append((begin, begin + len(value)))
                if index in named and odd < _MOST_ODD:
                    named.remove(index)
                    odd += 1
        # The next head is looked at by itself, so that no row is read for many of them; `MyPassword1` is none.
        if named:
            break
        at = below + 1
    return spans, stop, at


def _is_secret(value: str, found: Kind) -> bool:
    """Whether a cell's ``value`` in a column of this kind is a secret: more than a word, and no commit."""
    if len(value) < 6 or values.is_uuid(value) or (len(value) < 32 and values.is_digest(value)):
        return False
    if found == "token" and values.is_spelt(value.rstrip("0123456789")):
        return False  # A lexer's token: `configurationManager2`.
    said = values.is_generated(value) or (found == "password" and values.is_chosen(value))
    return said and values.may_go(value, found)
