"""Giving back memory that was freed: what large payloads needed for a moment stays with the process else."""

from __future__ import annotations

import contextlib
import sys


def give_back() -> None:
    """Have the C library return what it keeps of freed memory to the system, where it can (glibc)."""
    if sys.platform != "linux":
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # Another C library, which may do it by itself.
        ctypes.CDLL(None).malloc_trim(0)
