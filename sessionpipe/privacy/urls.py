"""Passwords in URLs: ``scheme://user:password@host``. Pure."""

from __future__ import annotations

import re

from sessionpipe.privacy import values

Span = tuple[int, int]

_LONGEST = 512
# Nothing that ends a URL before the first "@"; most URLs have none.
_SIGN = re.compile(rf"""[^@\s"'<>`\\\x00-\x1f]{{0,{_LONGEST}}}+@""")
_REST = re.compile(r"""[^\s"'<>`\\\x00-\x1f]++""")
_HOST = re.compile(r"(?:[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{0,5})?(?=[/?#,;)\]}]|$)")
_AUTHORITY_END = re.compile(r"[/?#]|$")


def userinfo(text: str, at: int) -> tuple[list[Span], int]:
    """The password behind the ``://`` at ``at``: up to the last ``@`` before the host, whatever signs it has."""
    start = at + 3
    if not _SIGN.match(text, start):
        return [], start
    # Another URL in it is looked at by itself.
    other = text.find("://", start, start + _LONGEST)
    rest = _REST.match(text, start, other if other >= 0 else start + _LONGEST)
    if rest is None or "@" not in rest[0] or (span := _password(rest[0])) is None:
        return [], start
    return [(start + span[0], start + span[1])], rest.end()


def _password(rest: str) -> Span | None:
    """Where the password is in what stands behind ``://``."""
    end = _AUTHORITY_END.search(rest)
    authority = rest[: end.start()] if end else rest
    cut = authority.rfind("@")
    if cut < 0 and (":" not in authority or authority.rpartition(":")[2].isdigit()):
        return None  # A host, perhaps with a port; the "@" is the path's.
    if cut < 0 or not _HOST.match(rest, cut + 1):
        cut = rest.rfind("@")  # The password itself has a slash, a "?" or a "#".
        if not _HOST.match(rest, cut + 1):
            return None
    elif "." not in authority[cut:] and _HOST.match(rest, far := rest.rfind("@") + 1) and "." in rest[far:]:
        cut = far - 1
    user, colon, password = rest[:cut].partition(":")
    if not colon:
        return (0, cut) if len(user) >= 20 and values.is_generated(user) else None
    if values.is_random(user) and values.is_placeholder(password) and password != values.MARK:
        return (0, len(user))
    if not password or values.is_placeholder(password):
        return None
    return (len(user) + 1, cut)
