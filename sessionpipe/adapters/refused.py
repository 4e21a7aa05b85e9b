"""What mapping a payload gives, a draft, and what it raises: without the engine, which takes long to load."""

from __future__ import annotations

from typing import Any

Draft = dict[str, Any]


class Refused(Exception):
    """The payload is not one of this harness, or can't be read. ``reason`` quotes nothing of it.

    ``belongs_to`` names the harness whose payload it certainly is, else it is ``None``.
    """

    def __init__(self, reason: str, belongs_to: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.belongs_to = belongs_to
