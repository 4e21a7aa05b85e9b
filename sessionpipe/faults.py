"""Fault points: named places where a test may make this process die or fail.

``SESSIONPIPE_FAULT=name[:count][=kill|error]`` turns one on: at its ``count``-th passing (1 unless
said) the process kills itself with SIGKILL, or raises :class:`OSError` for ``error``. Without the
variable a point costs one comparison.
"""

from __future__ import annotations

import os
import signal

_SPEC = os.environ.get("SESSIONPIPE_FAULT", "")
_NAME, _, _HOW = _SPEC.partition("=")
_NAME, _, _COUNT = _NAME.partition(":")
_left = int(_COUNT) if _COUNT.isdigit() else 1


def point(name: str) -> None:
    """Pass the fault point ``name``."""
    global _left
    if name != _NAME or not _NAME:
        return
    _left -= 1
    if _left:
        return
    if _HOW == "error":
        raise OSError(f"fault injected at {name}")
    os.kill(os.getpid(), signal.SIGKILL)
