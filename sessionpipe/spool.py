"""The worker's side of the spool: job files in, rejected jobs out.

``spool/new/*.job`` are jobs, taken in bytewise name order; ``spool/tmp`` is where hooks write before
they rename; ``spool/rejected/*.json`` are jobs that could not be read or claimed, redacted, with the
reason.

A job file is NUL-ended ``key=value`` records, an empty record, then standard input as it came. Keys:
``v=1``, ``harness``, ``event``, ``at_ms``, ``cwd``, ``ppid``, one ``arg`` for each extra argument,
``partial=1`` where standard input was cut, one ``env.NAME`` for each forwarded variable. Only this
module and the hook know the format.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sessionpipe.places import make_ours

PAYLOAD_LIMIT = 32 << 20
# A header is names, paths and a notify payload in an argument, which the kernel bounds at 128 KiB each.
_HEADER_LIMIT = 8 << 20
_REJECTED_KEPT = 200
_REJECTED_BYTES = 64 << 10
# A hook lives two seconds and the time of one write; a temporary file this old is of a dead one.
_TEMPORARY_SECONDS = 300
# A job's name begins with the nanosecond its hook started in.
_TIME_DIGITS = 20
# What opening something other than a file comes to: a link, a socket, a device nobody made.
_NO_FILE = (errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EISDIR)


class Job(NamedTuple):
    """One firing of one hook. ``payload`` is standard input as it came; ``at_ms`` epoch milliseconds.

    ``took_ms`` is from the hook's first instruction to its job on disk, as far as the file system's clock
    tells (a few milliseconds); None where the file's name says no time.
    """

    name: str
    harness: str
    event: str
    at_ms: int
    cwd: str
    args: tuple[str, ...]
    env: dict[str, str]
    partial: bool
    payload: bytes
    took_ms: int | None = None


class BadJob(Exception):
    """A file in the spool that is no job; the message says why."""


class Spool:
    """The spool below one state directory."""

    def __init__(self, root: Path) -> None:
        self.new = root / "new"
        self.tmp = root / "tmp"
        self.rejected = root / "rejected"
        # A path object for each of a job's three system calls is as much as one of them.
        self._job = f"{self.new}{os.sep}".__add__

    def prepare(self) -> None:
        """Create the folders, and sweep what hooks that were killed left half written."""
        for folder in (self.new.parent, self.new, self.tmp):
            make_ours(folder)
        with contextlib.suppress(OSError):
            # Something in its place keeps jobs from being set aside, and no other from being taken.
            make_ours(self.rejected)
        horizon = time.time() - _TEMPORARY_SECONDS
        for entry in _scan(self.tmp):
            # A hook may rename its file away at any moment, and what cannot be swept is in nobody's way.
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < horizon:
                    Path(entry.path).unlink()

    def names(self) -> list[str]:
        """The names of the waiting jobs, in the order they are to be taken."""
        return sorted(
            (entry.name for entry in _scan(self.new) if entry.name.endswith(".job")), key=os.fsencode
        )

    def empty(self) -> bool:
        """Whether no job waits."""
        return not any(entry.name.endswith(".job") for entry in _scan(self.new))

    def read(self, name: str) -> Job:
        """Read one job.

        Raises :class:`BadJob` for what is none, :class:`FileNotFoundError` when it is gone,
        :class:`OSError` when it may well be one but cannot be read just now.
        """
        try:
            # Anything may lie here: a link is not followed, and opening a FIFO must not block.
            fd = os.open(self._job(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in _NO_FILE:
                raise BadJob(f"cannot be opened: {error.strerror}") from error
            raise
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise BadJob("is not a regular file")
            if info.st_size > PAYLOAD_LIMIT + _HEADER_LIMIT:
                raise BadJob("is larger than any job")
            chunks = []
            while chunk := os.read(fd, 1 << 20):
                chunks.append(chunk)
        finally:
            os.close(fd)
        return parse(name, b"".join(chunks))._replace(took_ms=_took_ms(name, info.st_mtime_ns))

    def there(self, name: str) -> bool:
        """Whether a job still waits."""
        return os.path.lexists(self._job(name))

    def unlink(self, names: Iterable[str]) -> None:
        """Take away jobs that are durably in the outbox."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._job(name))  # noqa: PTH108

    def sync(self) -> None:
        """Make the unlinks durable.

        Only then may a done-mark be pruned: were the mark gone and the unlink lost in a power cut,
        the job would be recorded twice.
        """
        fd = os.open(self.new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def reject(
        self, name: str, reason: str, *, job: Job | None = None, belongs_to: str | None = None
    ) -> None:
        """Set a job aside with its reason: what is kept of it is redacted and bounded.

        The file in ``new`` is not touched: it goes with the batch it came in, or right away when it
        could not be read as a job (:meth:`discard`).
        """
        import msgspec

        from sessionpipe.outbox import encode
        from sessionpipe.redaction import redact

        record: dict[str, object] = {"reason": redact(reason)[:2000]}
        if belongs_to is not None:
            record["belongs_to"] = belongs_to
        if job is not None:
            payload = redact(job.payload.decode("utf-8", "replace"))
            record |= {
                "harness": redact(job.harness)[:200],
                "event": redact(job.event)[:200],
                "at_ms": job.at_ms,
                # Redacted first and cut afterwards: a cut could leave half a credential no rule knows.
                "payload": payload[:_REJECTED_BYTES],
            }
        target = self.rejected / f"{name.removesuffix('.job')}.json"
        temporary = self.tmp / f"{name}.rejected"
        try:
            # Made anew: nothing that lies there already is written into.
            temporary.unlink(missing_ok=True)
            with temporary.open("xb") as file:
                file.write(msgspec.json.format(encode(record), indent=1) + b"\n")
            temporary.replace(target)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()  # Half of it would only fill the disk more.
            raise
        self._bound_rejected()

    def discard(self, name: str) -> None:
        """Take away a spool entry that is no job, whatever it is."""
        path = self.new / name
        try:
            path.unlink(missing_ok=True)
        except OSError:
            # A directory: nothing of ours made it, so what is inside stays, out of the queue's way.
            path.replace(self.rejected / name)

    def rejected_names(self) -> list[str]:
        """The rejected jobs, oldest first."""
        return sorted(entry.name for entry in _scan(self.rejected) if entry.name.endswith(".json"))

    def _bound_rejected(self) -> None:
        for name in self.rejected_names()[:-_REJECTED_KEPT]:
            (self.rejected / name).unlink(missing_ok=True)


def parse(name: str, content: bytes) -> Job:
    """The job a file's ``content`` holds. Raises :class:`BadJob`."""
    header, end, payload = content.partition(b"\0\0")
    if not end:
        raise BadJob("its header has no end: the hook that wrote it was cut off")
    fields: dict[str, str] = {}
    args: list[str] = []
    env: dict[str, str] = {}
    for record in os.fsdecode(header).split("\0"):
        key, separator, value = record.partition("=")
        if not separator:
            raise BadJob("its header holds a record without '='")
        if key == "arg":
            args.append(value)
        elif key.startswith("env."):
            env[key[4:]] = value
        else:
            fields[key] = value
    if fields.get("v") != "1":
        raise BadJob("its format is not version 1: it was written by another sessionpipe")
    try:
        at_ms = int(fields["at_ms"])
        harness, event = fields["harness"], fields["event"]
    except (KeyError, ValueError) as error:
        raise BadJob("its header lacks harness, event or at_ms") from error
    return Job(
        name=name,
        harness=harness,
        event=event,
        at_ms=at_ms,
        cwd=fields.get("cwd", ""),
        args=tuple(args),
        env=env,
        partial=fields.get("partial") == "1",
        payload=payload,
    )


def _took_ms(name: str, written_ns: int) -> int | None:
    began, _, rest = name.partition("-")
    if not rest or len(began) > _TIME_DIGITS or not (began.isascii() and began.isdecimal()):
        return None
    return max(0, (written_ns - int(began)) // 1_000_000)


def _scan(folder: Path) -> Iterator[os.DirEntry[str]]:
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "is a link, not a folder", str(folder))
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:
        return
