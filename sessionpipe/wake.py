"""Waking the worker, as every writer but the hook does it (the hook has its own, without imports)."""

from __future__ import annotations

import os

from sessionpipe.paths import State


def wake(state: State) -> bool:
    """Send the worker's FIFO a byte; whether a worker was there to read it.

    A missing FIFO, or one nobody reads, is no error: the next hook starts a worker, and a worker
    reads the stores before it sleeps.
    """
    try:
        fifo = os.open(state.fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        os.write(fifo, b"w")
    except BlockingIOError:
        pass  # Full of earlier bytes: it will wake all the same.
    except OSError:
        return False
    finally:
        os.close(fifo)
    return True
