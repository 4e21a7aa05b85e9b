"""Waking the worker, as every writer but the hook does it (the hook has its own, without imports)."""

from __future__ import annotations

from sessionpipe.liveness import send
from sessionpipe.paths import State

#: What a byte in the FIFO says: look at the stores; or try every sink now, whatever its backoff.
LOOK, FORCE = b"w", b"f"


def wake(state: State, byte: bytes = LOOK) -> bool:
    """Send the worker's FIFO a byte; whether a worker was there to read it.

    Without one nothing is lost: the next hook starts a worker, and a worker reads the stores before
    it sleeps.
    """
    return send(state.fifo, byte)
