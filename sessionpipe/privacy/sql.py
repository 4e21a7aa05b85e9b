"""Secrets in the rows that a statement of SQL puts into a table. Pure."""

from __future__ import annotations

import re

from sessionpipe.privacy import values
from sessionpipe.privacy.names import kind

Span = tuple[int, int]

_HEAD = re.compile(
    r"""(?i)(?:insert|replace)\s(?:ignore\s)?into\s{1,4}["`\w.\\\[\]]{1,80}\s{0,4}\((?P<columns>[^()]{1,2000})\)"""
    r"""(?:\s|\\n){0,40}values(?:\s|\\n){0,40}"""
)
# A value in quotes, which are escaped by another or by a backslash, or whatever else is one.
_VALUE = re.compile(
    r"(?:\s|\\n){0,40}(?:(?:[NE]|_\w{1,8})?'(?P<quoted>(?:[^'\\]|''|\\.){0,2000})'"
    r"|(?:[^,'()\n]{0,200}|[^,'()\n]{1,60}\((?:[^()\n]{0,400})\)))(?:\s|\\n){0,4}(?P<sign>[,)])"
)
_NEXT = re.compile(r"(?:\s|\\n){0,40},(?:\s|\\n){0,40}(?=\()")
# How far behind the statement's beginning rows are looked at.
_FURTHEST = 8_000


def inserted(text: str, at: int) -> tuple[list[Span], int]:
    """The secrets of the rows that the statement at ``at`` inserts, and how far it was read."""
    head = _HEAD.match(text, at)
    if head is None:
        return [], at
    kinds = [kind(column.strip(' \t\n"`[]\\')) for column in head["columns"].split(",")]
    if not {"password", "token"}.intersection(kinds):
        return [], head.end()
    spans: list[Span] = []
    end = head.end()
    while text.startswith("(", end) and end < at + _FURTHEST:
        end += 1
        for found in kinds:
            value = _VALUE.match(text, end)
            if value is None:
                return spans, end
            if found in ("password", "token") and _is_secret(value["quoted"] or ""):
                spans.append(value.span("quoted"))
            end = value.end()
            if value["sign"] == ")":
                break
        if following := _NEXT.match(text, end):
            end = following.end()
    return spans, end


def _is_secret(value: str) -> bool:
    """Whether a value is more than a word: no digest of a password, and nothing that a program puts in."""
    stored = value[:1] in ("$", "<", "{", "%", ":")
    return len(value) >= 3 and not stored and values.is_opaque(value) and not values.is_placeholder(value)
