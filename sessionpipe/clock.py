"""The time as everything here takes it."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Epoch milliseconds by this machine's clock, which may be set back."""
    return int(time.time() * 1000)
