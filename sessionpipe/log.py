"""The log: short, redacted, bounded.

A line says when, how serious and what. It passes ``secrets@1`` and loses its control characters
before it is written, because reasons quote payloads and receivers. Two files of at most 1 MiB.
"""

from __future__ import annotations

import os
import re
import stat
import time

from sessionpipe.paths import State

_BOUND = 1 << 20
_LINE = 4000
# NONBLOCK: opening a FIFO in its place would wait for a reader for ever.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def log(state: State, level: str, message: str) -> None:
    """Append one line: ``level`` is ``info``, ``warning`` or ``error``. Never raises."""
    from sessionpipe.privacy.secrets import redact

    # Redacted first and cut afterwards: a cut could leave half a credential that no rule knows.
    text = _CONTROLS.sub(" ", redact(message))[:_LINE]
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {level} {text}\n"
    path = state.log
    try:
        # The folder only: a state directory that was removed is not to be made again for a last word.
        path.parent.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(path, _FLAGS, 0o600)
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                return
            if info.st_size > _BOUND:
                path.replace(path.with_suffix(".log.1"))
            os.write(fd, line.encode("utf-8", "replace"))
        finally:
            os.close(fd)
    except OSError:
        # A full disk or a read-only state directory must not stop intake or delivery; `doctor`
        # finds both by looking at the directory itself.
        return
