"""A file in a harness's folder that is wholly ours: an extension, a plugin.

The same three functions as :mod:`sessionpipe.install.entries`, for a text that is ours or isn't. It
is ours when its first line carries our mark.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from sessionpipe.install.entries import Memory
from sessionpipe.install.leftalone import WrongShape
from sessionpipe.install.targets import Target

_MARK = re.compile(r"[^\n]*\bsessionpipe:installed-file\b")
_LAUNCHER = re.compile(r'"(?:[^"\\\n]|\\.)*[/\\]bin[/\\]+sessionpipe-hook(?:\.cmd)?"')


def merge(text: str, target: Target, launcher: Path, memory: Memory | None) -> str:
    """Our file; raises :class:`WrongShape` where somebody else's has its name."""
    if text and not _MARK.match(text):
        raise WrongShape("another file has the name of ours")
    return target.content(launcher)


def strip(text: str, target: Target, memory: Memory | None) -> str:
    """Nothing, when ``text`` is ours."""
    return "" if _MARK.match(text) else text


def look(text: str, target: Target, launcher: Path) -> str:
    """``installed``, ``stale`` or ``missing``."""
    if not _MARK.match(text):
        return "missing"
    return "installed" if text == target.content(launcher) else "stale"


def launchers(text: str, target: Target) -> set[Path]:
    """The launchers that our file runs."""
    return {Path(json.loads(found)) for found in _LAUNCHER.findall(text)} if _MARK.match(text) else set()


__all__ = ["launchers", "look", "merge", "strip"]
