"""When a sink that failed is tried again: 2 s, 10 s, 60 s, 5 min, 30 min, then every 30 min, forever.

Pure. The count of failures and the time of the next attempt live in the sink's row, so that the
ladder survives restarts.
"""

from __future__ import annotations

LADDER_MS = (2_000, 10_000, 60_000, 300_000, 1_800_000)

#: The longest wait a receiver may ask for: a day later it is asked again, whatever it said.
LONGEST_MS = 24 * 3_600_000


def wait_ms(failures: int) -> int:
    """How long to wait after the ``failures``-th failure in a row (1 is the first)."""
    return LADDER_MS[min(max(failures, 1), len(LADDER_MS)) - 1]


def asked_ms(after_s: float) -> int:
    """How long to wait when ``after_s`` seconds were asked for: at least one second, at most a day."""
    return int(min(max(after_s * 1000, 1_000), LONGEST_MS))


def is_due(now_ms: int, *, failures: int, next_attempt_ms: int) -> bool:
    """Whether the next attempt may be made.

    A clock that was set back must not freeze a sink: an attempt further away than the wait can have
    been is due. With no failure counted the wait was one that was asked for.
    """
    longest = wait_ms(failures) if failures else LONGEST_MS
    return next_attempt_ms <= now_ms or next_attempt_ms - now_ms > longest
