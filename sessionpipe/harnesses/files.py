"""The only door to a harness's files.

Their names come from payloads and variables, their contents from programs that crash, rotate and
write while we read: nothing is opened but a regular file, nothing blocks, nothing is read without a
bound, and what cannot be read is simply absent. Nothing here raises on any file.
"""

# Every hook pays for these stats, and a Path costs several times the call.
# ruff: noqa: PTH116
from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

T = TypeVar("T")

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_LONGEST_PATH = 4096
_REMEMBERED = 512
_INDEXED = 100_000


class Opened:
    """A regular file that is open for reading; a context manager that closes it.

    ``size`` is the size when it was opened: a reader looks no further, so that one reading is of one
    state of a file that grows. ``path`` is where it was found.
    """

    def __init__(self, fd: int, info: os.stat_result, path: str | Path) -> None:
        self._fd = fd
        self.path = path
        self.size = info.st_size
        self.identity = (info.st_dev, info.st_ino)
        self.version = (info.st_size, info.st_mtime_ns)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def fileno(self) -> int:
        """The descriptor it is open as."""
        return self._fd

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``, fewer at the end of the file or when it can't be read."""
        length = min(length, self.size - offset)
        parts: list[bytes] = []
        try:
            os.lseek(self._fd, offset, os.SEEK_SET)
            while length > 0 and (part := os.read(self._fd, length)):
                parts.append(part)
                length -= len(part)
        except (OSError, ValueError):
            pass
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def head(self, limit: int) -> bytes:
        """The first ``limit`` bytes."""
        return self.read_at(0, limit)


@lru_cache(maxsize=256)
def _as_path(claimed: str) -> Path | None:
    """A path as a payload may spell it; with Windows' separators, too, for its name's sake."""
    if not 0 < len(claimed) <= _LONGEST_PATH or "\0" in claimed:
        return None
    return Path(claimed if "/" in claimed else claimed.replace("\\", "/"))


class Files:
    """Opens files, and remembers what was learnt from them while they stay as they are.

    With ``remap`` a file is looked for by its base name below that folder and nowhere else: a
    recording's payloads name files of a machine that isn't this one.
    """

    def __init__(self, remap: Path | None = None) -> None:
        self._remap = remap
        self._index: dict[str, str] | None = None
        self._learnt: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def resolve(self, claimed: object, *, suffix: str, name_ok: Callable[[str], bool]) -> Path | None:
        """The path a payload claims, if it is absolute and its base name is one the harness would write."""
        path = _as_path(claimed) if isinstance(claimed, str) else None
        if path is None or not path.name.endswith(suffix) or not name_ok(path.name):
            return None
        if self._remap is not None:
            return self._remapped(path.name)
        return path if path.is_absolute() else None

    def is_there(self, path: str | Path) -> bool:
        """Whether there is anything of that name, be it a file or not."""
        target = self._place(path)
        try:
            return target is not None and bool(os.lstat(target))
        except (OSError, ValueError):
            return False

    def changed_ms(self, path: str | Path) -> int | None:
        """When a regular file last changed, epoch milliseconds; None when there is no such file."""
        target = self._place(path)
        try:
            info = os.stat(target, follow_symlinks=False) if target is not None else None
        except (OSError, ValueError):
            return None
        return info.st_mtime_ns // 1_000_000 if info and stat.S_ISREG(info.st_mode) else None

    def names(self, folder: str | Path) -> list[str]:
        """What is in a folder, by name; nothing when it can't be read. With ``remap`` all that is below that."""
        if self._remap is not None:
            self._remapped("")
            return sorted(self._index or ())
        try:
            return sorted(os.listdir(folder))  # noqa: PTH208
        except (OSError, ValueError):
            return []

    def open(self, path: str | Path, *, follow: bool = False) -> Opened | None:
        """Open a regular file, or None. ``follow``: also when it is a symbolic link (a person's settings)."""
        if (target := self._place(path)) is None:
            return None
        try:
            # Looked at first: merely opening a device can have effects.
            if not stat.S_ISREG(os.stat(target, follow_symlinks=follow).st_mode):
                return None
            fd = os.open(target, _FLAGS | (0 if follow else _NOFOLLOW))
        except (OSError, ValueError):
            return None
        try:
            info = os.fstat(fd)
        except OSError:
            os.close(fd)
            return None
        if not stat.S_ISREG(info.st_mode):
            os.close(fd)
            return None
        return Opened(fd, info, target)

    def learn(
        self,
        path: str | Path,
        what: str,
        compute: Callable[[Opened], T | None],
        *,
        per: Literal["version", "file"] = "version",
        follow: bool = False,
    ) -> T | None:
        """``compute`` of an open file, remembered: one stat when nothing has changed.

        ``per`` version: until the file's size or time changes. ``per`` file: for good, as what a log's
        beginning says; a None is not remembered then. None when there is no such file.
        """
        if (target := self._place(path)) is None:
            return None
        try:
            info = os.stat(target, follow_symlinks=follow)
        except (OSError, ValueError):
            return None
        key: tuple[Any, ...] = (what, info.st_dev, info.st_ino)
        if per == "version":
            key = (*key, info.st_size, info.st_mtime_ns)
        if key in self._learnt:
            self._learnt.move_to_end(key)
            result: T | None = self._learnt[key]
            return result
        if (opened := self.open(path, follow=follow)) is None:
            return None
        with opened:
            result = compute(opened)
            key = (what, *opened.identity)
            if per == "version":
                key = (*key, *opened.version)
        if per == "version" or result is not None:
            self._learnt[key] = result
            if len(self._learnt) > _REMEMBERED:
                self._learnt.popitem(last=False)
        return result

    def _place(self, path: str | Path) -> str | Path | None:
        if self._remap is None or Path(path).is_relative_to(self._remap):
            return path
        return self._remapped(Path(path).name)

    def _remapped(self, name: str) -> Path | None:
        if self._index is None:
            self._index = {}
            for folder, folders, names in os.walk(self._remap or os.devnull):
                folders.sort()
                for found in sorted(names):
                    self._index.setdefault(found, str(Path(folder, found)))
                if len(self._index) > _INDEXED:
                    break
        found_at = self._index.get(name)
        return Path(found_at) if found_at else None
