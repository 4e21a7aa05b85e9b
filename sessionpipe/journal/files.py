"""The only door to a bundle's files: regular files below the bundle, read in lines, within bounds.

A bundle may come from anywhere. Its root is the person's word and may be a link; below it no link is
followed, nothing but a regular file is opened, nothing blocks, and no line is held that is larger than
:data:`LONGEST_LINE`.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, NoReturn, Self

import msgspec

#: The longest line that is read at all; one of the format's is sixteen times shorter.
LONGEST_LINE = 16 << 20
_BLOCK = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

Why = Literal["missing", "type", "unreadable"]


class Unusable(Exception):
    """A file or folder that can't be read. ``why``: it is not there, is of another type, or refused us."""

    def __init__(self, why: Why, message: str) -> None:
        super().__init__(message)
        self.why: Why = why


class Malformed(Exception):
    """Bytes that are no JSON object; the message says what they are instead."""


class File:
    """A regular file open for reading, as large as it was when opened; a context manager that closes it."""

    def __init__(self, fd: int, info: os.stat_result) -> None:
        self._fd = fd
        self.size = info.st_size
        self.mode = stat.S_IMODE(info.st_mode)
        self.modified = info.st_mtime
        self.identity = (info.st_dev, info.st_ino)
        self.version = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer at the end of the file, none when it refuses."""
        length = min(length, self.size - offset)
        try:
            return os.pread(self._fd, length, offset) if length > 0 else b""
        except OSError:
            return b""

    def blocks(self) -> Iterator[bytes]:
        """All of its bytes, a block at a time."""
        offset = 0
        while block := self.read_at(offset, _BLOCK):
            yield block
            offset += len(block)


def enter(root: Path, parts: Sequence[str]) -> int:
    """A descriptor of the folder ``parts`` below ``root``; :class:`Unusable` when there is none."""
    try:
        fd = os.open(root, _ENTER)
    except (OSError, ValueError) as error:
        raise _unusable(error, str(root)) from None
    for part in parts:
        try:
            inner = os.open(part, _ENTER | os.O_NOFOLLOW, dir_fd=fd)
        except (OSError, ValueError) as error:
            raise _unusable(error, part) from None
        finally:
            os.close(fd)
        fd = inner
    return fd


def open_beneath(root: Path, parts: Sequence[str]) -> File:
    """Open the regular file ``parts`` below ``root``; :class:`Unusable` when there is none."""
    *folders, name = parts
    folder = enter(root, folders)
    try:
        # Looked at first: merely opening a device can have effects.
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise Unusable("type", "it is not a regular file")
        fd = os.open(name, _READ, dir_fd=folder)
    except (OSError, ValueError) as error:
        raise _unusable(error, name) from None
    finally:
        os.close(folder)
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        os.close(fd)
        raise Unusable("type", "it is not a regular file")
    return File(fd, info)


def _unusable(error: OSError | ValueError, name: str) -> Unusable:
    if isinstance(error, FileNotFoundError):
        return Unusable("missing", "it is not there")
    if isinstance(error, NotADirectoryError) or (isinstance(error, OSError) and error.errno == errno.ELOOP):
        return Unusable("type", f"{name} is a link or no folder")
    return Unusable("unreadable", (isinstance(error, OSError) and error.strerror) or "its name is no name")


# -- Lines --


class Line(NamedTuple):
    """One line: its number from 1, where it starts, its size and bytes without the line feed.

    ``data`` is empty for a line longer than :data:`LONGEST_LINE`. ``complete`` is false for what is
    behind the last line feed.
    """

    number: int
    start: int
    size: int
    data: bytes
    complete: bool = True

    @property
    def end(self) -> int:
        """Where the next line starts."""
        return self.start + self.size + 1


def lines(file: File, offset: int = 0, number: int = 1, *, block: int | None = None) -> Iterator[Line]:
    """The lines from ``offset``, where line ``number`` starts. They end at line feeds and nowhere else.

    ``block``: so many bytes are read at a time, for who wants few lines.
    """
    start, size = offset, 0
    held: list[bytes] = []

    def line(complete: bool) -> Line:
        return Line(number, start, size, b"".join(held) if size <= LONGEST_LINE else b"", complete)

    while data := file.read_at(offset, block or _BLOCK):
        offset += len(data)
        *ended, rest = data.split(b"\n")
        for piece in ended:
            held.append(piece)
            size += len(piece)
            yield line(True)
            start += size + 1
            number += 1
            size = 0
            held.clear()
        size += len(rest)
        if size <= LONGEST_LINE:
            held.append(rest)
        else:
            held.clear()
    if size:
        yield line(False)


# -- JSON --


def parse(data: bytes) -> dict[str, Any]:
    """The JSON object of a line; of a repeated key the last value. Raises :class:`Malformed`."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        # Half a surrogate pair, which JavaScript writes and JSON allows, is all that is read here.
        return Strict().parse(data)
    if not isinstance(value, dict):
        raise Malformed("it is no JSON object")
    return value


class Strict:
    """Parses JSON objects and notices a key that an object has twice: :attr:`repeated`."""

    def __init__(self) -> None:
        #: The first repeated key of the object parsed last.
        self.repeated: str | None = None
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_constant=_no_number, parse_float=_finite
        )

    def parse(self, data: bytes) -> dict[str, Any]:
        """The JSON object in ``data``; raises :class:`Malformed`."""
        self.repeated = None
        try:
            value = self._decoder.decode(data.decode("utf-8"))
        except UnicodeDecodeError:
            raise Malformed("it is not UTF-8") from None
        except json.JSONDecodeError as error:
            raise Malformed(f"it is not JSON ({error.msg})") from None
        except RecursionError:
            raise Malformed("it is nested too deeply") from None
        except ValueError as error:
            raise Malformed(f"it is not JSON ({error})") from None
        if not isinstance(value, dict):
            raise Malformed("it is no JSON object")
        return value

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs) and self.repeated is None:
            seen: set[str] = set()
            self.repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return value


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError("a number is too large")
    return value


def dump(value: object) -> bytes:
    """``value`` as compact JSON on one line, whatever strings a journal held."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:  # Half a surrogate pair: it can only be escaped.
        return json.dumps(value, separators=(",", ":")).encode()


def read_object(root: Path, parts: Sequence[str]) -> dict[str, Any]:
    """The JSON object a small file holds. Raises :class:`Unusable` or :class:`Malformed`."""
    with open_beneath(root, parts) as file:
        if file.size > _BLOCK:
            raise Malformed("it is larger than 1 MiB")
        return parse(file.read_at(0, file.size))
