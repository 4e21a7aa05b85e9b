"""The log: short, redacted, bounded.

A line says when, how serious and what. It passes ``secrets@1`` and loses its control characters
before it is written, because reasons quote payloads and receivers. Two files of at most 1 MiB.
"""

from __future__ import annotations

import os
import re
import time

from sessionpipe.paths import State, make_private

_BOUND = 1 << 20
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def log(state: State, level: str, message: str) -> None:
    """Append one line: ``level`` is ``info``, ``warning`` or ``error``. Never raises."""
    from sessionpipe.privacy.secrets import redact

    text = _CONTROLS.sub(" ", redact(message[:4000]))
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {level} {text}\n"
    path = state.log
    try:
        make_private(path.parent)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_size > _BOUND:
                path.replace(path.with_suffix(".log.1"))
            os.write(fd, line.encode("utf-8", "replace"))
        finally:
            os.close(fd)
    except OSError:
        # A full disk or a read-only state directory must not stop intake or delivery; `doctor`
        # finds both by looking at the directory itself.
        return
