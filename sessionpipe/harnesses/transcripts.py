"""What every transcript reader takes and gives (protocol §4, ``turn.transcript``).

A reader is called with the path a hook named, the cursor it returned the last time (``{}`` at first)
and a :class:`Want`; it returns a :class:`Reading`. It returns every exchange that is completed behind
the cursor, in order; none twice, none in parts.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

#: How many characters of a side a reader keeps; ten times what an event carries.
SIDE_CHARS = 200_000


class Want(NamedTuple):
    """The end that is awaited.

    ``said``: the :func:`digest` of the last assistant message, when the harness told us. ``final``: the
    file will not grow any more. ``since_ms``: when the session's first hook ran; a session seen from its
    middle on begins at the prompt that was being answered then (None: at the file's beginning).
    ``ended_ms``: when the turn or the session ended.
    """

    said: str | None
    final: bool
    since_ms: int | None
    ended_ms: int


def digest(text: str) -> str | None:
    """What is remembered of a last message while its transcript is waited for.

    The message itself may hold anything a person or a model said, and has not been redacted; to tell
    whether the transcript holds it, a digest will do: without its white space, because a harness joins
    and trims a message's blocks in its own way. None of nothing.
    """
    squashed = "".join(text.split())
    return hashlib.sha256(squashed.encode("utf-8", "surrogatepass")).hexdigest() if squashed else None


class Exchange(NamedTuple):
    """What one side asked and the other said, raw and uncut below :data:`SIDE_CHARS`.

    ``user`` is empty when the harness wrote the prompt, ``assistant`` when nothing had been said.
    ``at`` is the RFC 3339 time of the last message.
    """

    user: str
    assistant: str
    at: str


class Reading(NamedTuple):
    """What a reader found. ``cursor`` is JSON-able; ``complete`` when the awaited end is in the file."""

    exchanges: list[Exchange]
    cursor: dict[str, Any]
    complete: bool
