"""What somebody else wrote, made safe for a terminal: none of it may be a command to it."""

from __future__ import annotations

import re

# C0 and C1 controls, DEL, and the bidirectional overrides that can reorder a line on a terminal.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_PLAIN = b"\n" + bytes(range(0x20, 0x7F))


def printable(text: object) -> str:
    """``text`` in one line without control characters: safe for a terminal whatever wrote it."""
    line = _CONTROLS.sub(" ", str(text))
    return line.encode("utf-8", "replace").decode("utf-8")


def printable_text(text: str) -> str:
    """``text`` with its lines, and a mark in place of whatever else a terminal would obey."""
    text = _CONTROLS.sub(_marked, text.replace("\r\n", "\n"))
    return text.encode("utf-8", "replace").decode("utf-8")


def printable_json(text: str) -> str:
    """JSON with those characters escaped that JSON leaves as they are and a terminal obeys."""
    # None of them is, as a rule, and of megabytes that is seen many times as fast.
    if not text.encode().translate(None, _PLAIN) if text.isascii() else text.replace("\n", "").isprintable():
        return text
    return _CONTROLS.sub(lambda found: "\n" if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def _marked(found: re.Match[str]) -> str:
    return found[0] if found[0] in "\n\t" else "\ufffd"
