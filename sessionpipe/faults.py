"""Fault points: named places where a test may make this process die or fail.

``SESSIONPIPE_FAULT=name[:count][=kill|error]`` turns one on: at its ``count``-th passing (1 unless
said) the process kills itself with SIGKILL, or raises :class:`OSError` for ``error``. Without the
variable a point costs one comparison.
"""

from __future__ import annotations

import os
import signal

_name = _how = ""
_left = 1


def arm(spec: str) -> None:
    """Turn on the point that ``spec`` names, as the variable would; none for an empty one."""
    global _name, _how, _left
    name, _, _how = spec.partition("=")
    _name, _, count = name.partition(":")
    _left = int(count) if count.isdigit() else 1


def point(name: str) -> None:
    """Pass the fault point ``name``."""
    global _left
    if name != _name or not _name:
        return
    _left -= 1
    if _left:
        return
    if _how == "error":
        raise OSError(f"fault injected at {name}")
    os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("SESSIONPIPE_FAULT", ""))
