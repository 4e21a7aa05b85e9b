"""The files people write in the config directory: which there are, whether they changed, what is in them.

A person may have put anything there: nothing but a regular file is read, nothing blocks, and nothing is
read without a bound.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: The folder of a person's own rules, and that of own adapters.
RULESETS, ADAPTERS = "rulesets", "adapters"
#: How many files of a folder are read, and how large one may be.
MOST_FILES, LARGEST = 100, 1 << 20


def names(folder: Path) -> tuple[list[str], str]:
    """The ``.toml`` files in ``folder``, sorted, and why it can't be looked into (empty: it can)."""
    try:
        return sorted(path.name for path in folder.iterdir() if path.suffix == ".toml"), ""
    except FileNotFoundError:
        return [], ""
    except OSError as error:
        return [], f"cannot be looked into: {error.strerror or error}"


def text(path: Path) -> str:
    """What a file says. Raises :class:`OSError`, and :class:`ValueError` for what is no text of ours to read."""
    # Not blocking: opening a FIFO in its place would wait for a writer for ever.
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise ValueError("it is no file")
        if info.st_size > LARGEST:
            raise ValueError(f"it is larger than {LARGEST >> 20} MiB")
        return file.read(LARGEST + 1).decode("utf-8")


def signature(folder: Path) -> object:
    """Equal for two looks at a folder between which none of its files was written, made or removed."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                (entry.name, info.st_mtime_ns, info.st_size, info.st_ino)
                for entry in entries
                if entry.name.endswith(".toml") and (info := entry.stat())
            )
    except OSError as error:
        return error.errno
