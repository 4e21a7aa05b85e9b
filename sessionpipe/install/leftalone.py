"""Why a file of somebody else's is not written: each says it in words for the report."""

from __future__ import annotations


class LeftAlone(Exception):
    """The file is not ours to write, or we would not understand what we do there."""


class NoFile(LeftAlone):
    """What stands in the file's place holds no text at all, so nothing of ours either."""


class WrongShape(LeftAlone):
    """The file is understood, but something else stands where ours would go."""


__all__ = ["LeftAlone", "NoFile", "WrongShape"]
