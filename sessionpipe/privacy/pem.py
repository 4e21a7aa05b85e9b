"""Private keys in blocks, from ``-----BEGIN`` to ``-----END`` or as far as the paste goes on. Pure."""

from __future__ import annotations

import re

Span = tuple[int, int]

_KIND = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BEGIN = re.compile(f"-----BEGIN {_KIND}")
_END = re.compile(f"-----END {_KIND}")
_BASE64 = "[A-Za-z0-9+/]"
_BREAK = r"(?:\\+[nrt]|[^A-Za-z0-9+/=\\]|\\|(?<=[ \t])\+(?=[\s\\]))"
_HEADER = r"(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset|X-[A-Za-z-]{1,30}):[^\n\\]{0,200}"
# A key's lines, however they were pasted: escaped, quoted, numbered, put together by a program, with
# headers or a second beginning, or as one. Bounded, because `re` remembers every round of a repeated group.
_BODY = re.compile(
    rf"(?>(?:(?>{_BREAK}{{0,40}})(?:[0-9]{{1,6}}(?>(?:\\+[nrt]|[^A-Za-z0-9+/=\\\n]){{1,8}}))?"
    rf"(?:{_HEADER}|BEGIN {_KIND}|{_BASE64}{{16,}}+={{0,2}}"
    rf"|{_BASE64}{{0,76}}={{1,2}}(?:{_BASE64}{{4}}(?!{_BASE64}))?)){{0,2000}})"
)
_MATERIAL = re.compile("[A-Za-z0-9+/=]{16}")
# Where the first of a key stands at the latest, behind its header's lines, and the last.
_NEAR = 2_048
_LONGEST = 32_768


def private_key(text: str, at: int) -> tuple[list[Span], int]:
    """The key whose block begins at ``at``."""
    begin = _BEGIN.match(text, at)
    if begin is None:
        return [], at
    head = begin.end()
    if not _MATERIAL.search(text, head, head + _NEAR):
        # Nor does one of a header that follows soon: each is not searched again.
        return [], at + _NEAR // 2
    body = _BODY.match(text, head)
    end = body.end() if body else head
    if not _MATERIAL.search(text, head, end):
        end = head
    closing = text.find("-----END ", end, head + _LONGEST)
    if closing >= 0 and (last := _END.match(text, closing)) and _MATERIAL.search(text, head, closing):
        end = last.end()
    return ([(at, end)], end) if end > head else ([], head)
