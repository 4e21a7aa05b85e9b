"""Where what was compiled is kept between processes: nowhere, unless somebody says where."""

from __future__ import annotations

from typing import Protocol


class Kept(Protocol):
    """Bytes under names that are digests. Neither raises, whatever happened to what was kept."""

    def get(self, name: str) -> bytes | None:
        """What was kept under ``name``, if it is still just that."""

    def put(self, name: str, data: bytes) -> None:
        """Keep ``data``, if it can be kept."""


_kept: Kept | None = None


def keep_in(kept: Kept) -> None:
    """Keep what is compiled from now on in ``kept``, and look there first."""
    global _kept
    _kept = kept


def get(name: str) -> bytes | None:
    """What is kept under ``name``."""
    return _kept.get(name) if _kept else None


def put(name: str, data: bytes) -> None:
    """Keep ``data`` under ``name``, where anything is kept."""
    if _kept:
        _kept.put(name, data)
