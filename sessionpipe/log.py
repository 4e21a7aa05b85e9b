"""The log: short, redacted, bounded.

A line says when, how serious and what. It passes ``secrets@1`` and loses its control characters
before it is written, because reasons quote payloads and receivers. Two files of at most 1 MiB.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from sessionpipe.paths import State
from sessionpipe.places import make_ours, open_file, read_file

_BOUND = 1 << 20
_LINE = 4000
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def log(state: State, level: str, message: str) -> None:
    """Append one line: ``level`` is ``info``, ``warning`` or ``error``. Never raises."""
    from sessionpipe.redaction import redact

    # Redacted first and cut afterwards: a cut could leave half a credential that no rule knows.
    text = _CONTROLS.sub(" ", redact(message))[:_LINE]
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {level} {text}\n"
    path = state.log
    try:
        # The folder only: a state directory that was removed is not to be made again for a last word.
        make_ours(path.parent)
        fd = open_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            if os.fstat(fd).st_size > _BOUND:
                path.replace(older(state))
            os.write(fd, line.encode("utf-8", "replace"))
        finally:
            os.close(fd)
    except OSError:
        # A full disk or a read-only state directory must not stop intake or delivery; `doctor`
        # finds both by looking at the directory itself.
        return


def older(state: State) -> Path:
    """The file the log was before it reached its bound."""
    return state.log.with_suffix(".log.1")


def last_error(state: State) -> str | None:
    """The newest line that tells of an error, without its level; None when there is none."""
    try:
        lines = read_file(state.log).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        when, _, rest = line.partition(" ")
        level, _, message = rest.partition(" ")
        if level == "error":
            return f"{message} ({when})"
    return None


def drop(state: State, word: str) -> None:
    """Take the lines out of the log in which ``word`` stands by itself. Raises OSError.

    A line that is written at this very moment may go too.
    """
    whole = re.compile(rb"(?<![A-Za-z0-9._-])" + re.escape(word.encode()) + rb"(?![A-Za-z0-9._-])")
    for path in (state.log, older(state)):
        try:
            lines = read_file(path).splitlines(keepends=True)
        except FileNotFoundError:
            continue
        kept = [line for line in lines if not whole.search(line)]
        if len(kept) < len(lines):
            new = path.with_suffix(".new")
            new.unlink(missing_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.writelines(kept)
            new.replace(path)
