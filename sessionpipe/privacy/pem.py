"""Private keys in blocks, from ``-----BEGIN`` to ``-----END`` or as far as the paste goes on. Pure."""

from __future__ import annotations

import re

Span = tuple[int, int]

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# A key's lines, however they were pasted: escaped, quoted, numbered, put together by a program, with
# headers, or as one. Bounded, because `re` remembers every round of a repeated group.
_BODY = re.compile(
    r"(?>(?:(?>(?:\\+[nrt]|[^A-Za-z0-9+/=\\]|\\|(?<=[ \t])\+(?=[\s\\])){0,40})"
    r"(?:[0-9]{1,6}(?>(?:\\+[nrt]|[^A-Za-z0-9+/=\\\n]){1,8}))?"
    r"(?:(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset|X-[A-Za-z-]{1,30}):[^\n\\]{0,200}"
    r"|[A-Za-z0-9+/]{16,}+={0,2}|[A-Za-z0-9+/]{0,76}={1,2}(?:[A-Za-z0-9+/]{4}(?![A-Za-z0-9+/]))?)){0,2000})"
)
_MATERIAL = re.compile(r"[A-Za-z0-9+/=]{16}")
_LONGEST = 32_768


def private_key(text: str, at: int) -> tuple[list[Span], int]:
    """The key whose block begins at ``at``."""
    begin = _BEGIN.match(text, at)
    if begin is None:
        return [], at
    body = _BODY.match(text, begin.end())
    end = body.end() if body else begin.end()
    last = _END.search(text, begin.end(), begin.end() + _LONGEST)
    if last and _MATERIAL.search(text, begin.end(), last.start()):
        end = max(end, last.end())
    if end > begin.end() and _MATERIAL.search(text, begin.end(), end):
        return [(at, end)], end
    return [], begin.end()
