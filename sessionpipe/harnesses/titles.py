"""Titles of sessions (protocol §3, ``title`` and ``title_source``), and what is no title."""

from __future__ import annotations

#: How many characters :func:`one_line` keeps. A title is cut to its length only after redaction,
#: because a cut before it could leave half a credential that no rule knows.
ONE_LINE_CHARS = 2_000


def one_line(text: str) -> str:
    """``text`` on one line: white space collapsed, at most 2 000 characters, the last word whole."""
    # split() of a bounded piece, so that a prompt of megabytes costs nothing.
    return cut_title(" ".join(text[: 4 * ONE_LINE_CHARS].split()), ONE_LINE_CHARS)


def cut_title(text: str, limit: int) -> str:
    """The beginning of ``text`` in at most ``limit`` characters, cut before a word where there is one."""
    if len(text) <= limit:
        return text
    head, _, _ = text[: limit + 1].rpartition(" ")
    return head.rstrip() or text[:limit]


def first_ask(text: str) -> dict[str, str]:
    """The title fields of a session known only by its first prompt; none for an empty prompt."""
    return titled(text, "first-ask")


def titled(text: object, source: str) -> dict[str, str]:
    """The title fields for a name from a harness's file; none unless it is a string with a word in it."""
    line = one_line(text) if isinstance(text, str) else ""
    return {"title": line, "title_source": source} if line else {}
