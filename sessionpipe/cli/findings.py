"""What ``doctor`` says: one line for one thing that was looked at."""

from __future__ import annotations

from typing import Literal, NamedTuple

Level = Literal["ok", "warn", "fail"]


class Finding(NamedTuple):
    """One thing that was looked at: ``mend`` says what to do about it, where it isn't ``ok``."""

    check: str
    level: Level
    message: str
    mend: str = ""


__all__ = ["Finding", "Level"]
