"""A SQLite file read page by page, without SQLite: what a damaged outbox still holds.

SQLite gives up on a file whose header, schema or one inner page is damaged, though every other page
may be whole. Here each page stands for itself: the records of every leaf are handed out, whatever the
pages above it say. That is safe for a file written with ``secure_delete``: pages that were freed are
zeros, so nothing that was deleted comes back.

Implements the record, cell and WAL formats of https://www.sqlite.org/fileformat2.html. Pure but for
reading the two files; nothing here opens the database or its shared memory, whose locks SQLite would
lose when another descriptor of this process is closed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from sessionpipe.places import read_file

PAGE = 4096

Value = int | float | str | bytes | None

_MAGIC = b"SQLite format 3\0"
#: A WAL's magic number says in which byte order its checksums add up.
_ORDERS = {0x377F0682: "<", 0x377F0683: ">"}
_WAL_HEADER, _FRAME_HEADER, _INDEX_HEADER = 32, 24, 48
#: Kinds of b-tree pages that hold records: leaves of tables, and both kinds of an index's.
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INNER = 0x0D, 0x0A, 0x02
#: No value of ours is longer; what says it is, is damaged.
_LONGEST = 64 << 20
#: Kinds of values: integers of so many bytes, and values that take none.
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_CONSTANTS = {0: None, 8: 0, 9: 1}


class Record(NamedTuple):
    """One row: ``rowid`` is None in an index and in a table without row ids."""

    rowid: int | None
    values: tuple[Value, ...]


class Frame(NamedTuple):
    """One page in the WAL, at ``offset``. ``commits``: a transaction ends with it."""

    page: int
    commits: bool
    offset: int
    whole: bool


class _Torn(Exception):
    """What should be a record is none."""


class Wal:
    """The write-ahead log of one database: the frames written since it was last begun anew.

    ``damaged``: something was written to it, and its header is none. Its frames are then those with
    the salt of the first one.
    """

    def __init__(self, path: Path) -> None:
        self.frames: list[Frame] = []
        self.damaged = False
        self.salt = b""
        self._order = "<"
        try:
            self._content = read_file(path)
        except OSError:
            self._content = b""
        self.size = len(self._content)
        header = self._content[:_WAL_HEADER]
        if not any(header):
            # A power cut may leave a file that has grown and was never written: SQLite syncs the header
            # before the first frame, so then nothing behind it was committed either.
            self.damaged = any(self._content)
        elif len(header) == _WAL_HEADER:
            magic, _, page, _, _, _, *sums = struct.unpack(">8I", header)
            self._order = _ORDERS.get(magic, self._order)
            whole = magic in _ORDERS and page == PAGE and self._sum((0, 0), header[:24]) == tuple(sums)
            self.damaged = not whole
        if self.damaged:
            self._read(self._content[_WAL_HEADER + 8 : _WAL_HEADER + 16])
        elif any(header):
            self._read(header[16:24])

    def _read(self, salt: bytes) -> None:
        self.salt = salt
        for offset in range(_WAL_HEADER, self.size - _FRAME_HEADER - PAGE + 1, _FRAME_HEADER + PAGE):
            page, commit = struct.unpack_from(">2I", self._content, offset)
            # What an earlier round left behind has another salt; between two of ours it is damage.
            ours = self._content[offset + 8 : offset + 16] == salt
            self.frames.append(Frame(page, commit != 0, offset, ours))
        while self.frames and not self.frames[-1].whole:
            self.frames.pop()

    @property
    def last_commit(self) -> int:
        """The number of the last frame that ends a transaction, counted from 1; 0 when there is none."""
        return max((n for n, frame in enumerate(self.frames, 1) if frame.whole and frame.commits), default=0)

    def verified(self) -> list[Frame]:
        """The frames with ``whole`` by their checksums too.

        A checksum goes on from the one before it, which stands in the frame before: so a frame is
        judged by itself and its neighbour, and those behind a damaged one are not lost with it.
        """
        found = []
        before = struct.unpack(">2I", self._content[24:32])
        for frame in self.frames:
            data = self._content[frame.offset : frame.offset + _FRAME_HEADER + PAGE]
            said = struct.unpack(">2I", data[16:24])
            sums = self._sum(self._sum((before[0], before[1]), data[:8]), data[_FRAME_HEADER:])
            found.append(frame._replace(whole=frame.whole and sums == said))
            before = said
        return found

    def page(self, frame: Frame) -> bytes:
        """The page a frame holds."""
        start = frame.offset + _FRAME_HEADER
        return self._content[start : start + PAGE]

    def _sum(self, state: tuple[int, int], data: bytes) -> tuple[int, int]:
        return _checksum(state, data, self._order)


def _checksum(state: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    one, two = state
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = (one + even + two) & 0xFFFFFFFF
        two = (two + odd + one) & 0xFFFFFFFF
    return one, two


def counted(wal: Wal, shm: Path) -> int | None:
    """How many frames of a WAL count, by its shared memory; None when that says nothing about this WAL.

    A writer writes the frames of a transaction first and lets them count last, and it lets none count any
    more before it begins the WAL anew. Killed in between it leaves frames that look committed, of which
    nobody was told that they are.
    """
    try:
        header = read_file(shm)[: _INDEX_HEADER * 2]
    except OSError:
        return None
    one, other = header[:_INDEX_HEADER], header[_INDEX_HEADER:]
    if len(header) < _INDEX_HEADER * 2 or one != other:
        return None
    frames, salt = struct.unpack_from("=I", one, 16)[0], one[32:40]
    if _checksum((0, 0), one[:40], "=") != struct.unpack_from("=2I", one, 40):
        return None
    if salt == wal.salt:
        return int(frames)
    begun_anew = int.from_bytes(salt[:4]) == (int.from_bytes(wal.salt[:4]) + 1) & 0xFFFFFFFF
    return 0 if begun_anew else None


def copied(path: Path, wal: Path) -> bool:
    """Whether the database file has every page that was committed to its WAL, which is then of no more use."""
    log = Wal(wal)
    frames = log.frames[: log.last_commit]
    if log.damaged or not all(frame.whole for frame in frames):
        return False
    newest = {frame.page: frame for frame in frames}
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return all(os.pread(fd, PAGE, (n - 1) * PAGE) == log.page(frame) for n, frame in newest.items())
    except OSError:
        return False
    finally:
        os.close(fd)


def committed(frames: list[Frame]) -> list[Frame]:
    """The whole ones of those frames whose transactions were committed.

    A damaged frame belongs to a committed transaction when another commit follows: nobody begins a
    transaction before the last one is on the disk. In the last transaction it may as well be what a
    power cut left of one that nobody was told of. Its jobs then wait in the spool, so it is left out.
    """
    ends = [0, *(number for number, frame in enumerate(frames, 1) if frame.commits and frame.whole)]
    if not all(frame.whole for frame in frames[ends[-2] if len(ends) > 1 else 0 : ends[-1]]):
        ends.pop()
    return [frame for frame in frames[: ends[-1]] if frame.whole]


class Pages:
    """The pages of a database file with those of its WAL over them, for ``with``.

    ``lost`` says that something that was committed to the WAL could not be read.
    """

    def __init__(self, path: Path, wal: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        self._wal = Wal(wal)
        frames = self._wal.verified() if self._wal.frames else []
        # In order: the last frame of a page is the page.
        self._over = {frame.page: frame for frame in committed(frames)}
        self.wal_bytes = self._wal.size
        self.lost = self._wal.damaged or not all(one.whole for one in frames[: self._wal.last_commit])
        self._count = max([os.fstat(self._fd).st_size // PAGE, *self._over])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def records(self) -> Iterator[Record]:
        """Every record of every page that can be read, in the order of the pages."""
        for number in range(1, self._count + 1):
            page = self.page(number)
            start = 100 if number == 1 and page[:16] == _MAGIC else 0
            if len(page) == PAGE and page[start] in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INNER):
                yield from self._of(page, start)

    def page(self, number: int) -> bytes:
        """Page ``number``, counted from 1; short or empty where the file ends before it."""
        frame = self._over.get(number)
        if frame is not None:
            return self._wal.page(frame)
        try:
            return os.pread(self._fd, PAGE, (number - 1) * PAGE)
        except OSError:
            return b""  # A bad block of the disk is one page less.

    def _of(self, page: bytes, start: int) -> Iterator[Record]:
        kind = page[start]
        count = int.from_bytes(page[start + 3 : start + 5])
        pointers = start + (12 if kind == _INDEX_INNER else 8)
        for at in range(pointers, min(pointers + 2 * count, PAGE - 1), 2):
            try:
                record = self._cell(page, int.from_bytes(page[at : at + 2]), kind)
            except (_Torn, IndexError, struct.error, UnicodeDecodeError):
                continue
            if kind != _TABLE_LEAF and record.values and isinstance(record.values[0], int):
                break  # An index over numbers, of rows that stand in their table whole.
            yield record

    def _cell(self, page: bytes, at: int, kind: int) -> Record:
        if kind == _INDEX_INNER:
            at += 4
        size, at = _varint(page, at)
        rowid = None
        if kind == _TABLE_LEAF:
            rowid, at = _varint(page, at)
            if rowid >= 1 << 63:
                rowid -= 1 << 64
        return Record(rowid, _values(self._payload(page, at, size, kind)))

    def _payload(self, page: bytes, at: int, size: int, kind: int) -> bytes:
        if size > _LONGEST:
            raise _Torn
        # How much of it stands in the cell: "Cell Payload Overflow Pages" of the file format.
        most = PAGE - 35 if kind == _TABLE_LEAF else (PAGE - 12) * 64 // 255 - 23
        if size <= most:
            return _whole(page[at : at + size], size)
        least = (PAGE - 12) * 32 // 255 - 23
        here = least + (size - least) % (PAGE - 4)
        here = here if here <= most else least
        parts, left = [page[at : at + here]], size - here
        following = int.from_bytes(page[at + here : at + here + 4])
        while left > 0:
            if not 0 < following <= self._count:
                raise _Torn
            more = self.page(following)
            parts.append(more[4 : 4 + min(left, PAGE - 4)])
            left -= PAGE - 4
            following = int.from_bytes(more[:4])
        return _whole(b"".join(parts), size)


def _whole(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise _Torn
    return data


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(at, at + 8):
        byte = data[index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, index + 1
    return value << 8 | data[at + 8], at + 9


def _values(payload: bytes) -> tuple[Value, ...]:
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        # Nearly all are of one byte: no call for those.
        if (kind := payload[at]) < 0x80:
            at += 1
        else:
            kind, at = _varint(payload, at)
        kinds.append(kind)
    if at != end:
        raise _Torn
    length = len(payload)
    values: list[Value] = []
    for kind in kinds:
        if kind >= 12:
            size = (kind - 12) // 2
            data = payload[at : at + size]
            values.append(data if kind % 2 == 0 else data.decode())
            at += size
        elif size := _INTEGERS.get(kind, 0):
            values.append(int.from_bytes(payload[at : at + size], signed=True))
            at += size
        elif kind == 7:
            values.append(struct.unpack_from(">d", payload, at)[0])
            at += 8
        elif kind in _CONSTANTS:
            values.append(_CONSTANTS[kind])
        else:
            raise _Torn
        if at > length:
            raise _Torn  # One of noise says that it goes on for exabytes.
    if at != length:
        raise _Torn
    return tuple(values)
