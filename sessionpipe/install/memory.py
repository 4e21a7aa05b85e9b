"""``<state>/install.json``: what giving each file back exactly needs to be remembered.

Never any content of other people's files: white space, names of our own, digests and paths. Losing
it loses no safety: entries are then found by their form alone, and a file of ours emptied of them
stays.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import msgspec

from sessionpipe.install.entries import Memory
from sessionpipe.install.files import replace, sweep
from sessionpipe.paths import State
from sessionpipe.places import read_file


@dataclass
class Record:
    """One file we wrote to. ``before`` is the digest of what it held before our first write."""

    harness: str
    before: str | None = None
    created: bool = False
    folders: list[str] = field(default_factory=list)
    memory: Memory | None = None


class Manifest:
    """The records by the file's absolute name. :meth:`save` before writing a file: a record too many
    does no harm, and one too few would leave a file behind."""

    def __init__(self, state: State) -> None:
        """Read it; one that is missing or damaged counts as empty."""
        self._path = state.manifest
        self.records: dict[str, Record] = {}
        try:
            stored = json.loads(read_file(self._path))["files"]
            self.records = msgspec.convert(stored, dict[str, Record])
        except (OSError, ValueError, LookupError, TypeError, msgspec.ValidationError):
            pass

    def save(self) -> None:
        """Write it, or remove it when nothing is left to remember. Raises :class:`OSError`."""
        sweep(self._path)
        if self.records:
            stored = {"version": 1, "files": msgspec.to_builtins(self.records)}
            replace(self._path, (json.dumps(stored, indent=2) + "\n").encode(), mode=0o600)
        else:
            self._path.unlink(missing_ok=True)

    def forget(self, name: str) -> None:
        """Drop the record of a file that was given back. Folders that were made for it and are still
        needed go over to those whose files are in them."""
        record = self.records.pop(name)
        for folder in filter(os.path.lexists, record.folders):
            for other, heir in self.records.items():
                if Path(other).is_relative_to(folder) and folder not in heir.folders:
                    heir.folders.append(folder)

    def paths(self, harness: str, file: str) -> list[Path]:
        """The files of ``harness`` that we wrote to, of those whose names end as ``file`` says."""
        ours = [Path(name) for name, record in self.records.items() if record.harness == harness]
        return [path for path in ours if path.match(file)]


def inherited(launchers: Iterable[Path], path: Path) -> Record | None:
    """What the installation whose launcher a file runs knows of the file at ``path``, to go on from.

    Nothing is believed of it that could put text into a file, or take a folder that is not around it.
    """
    for launcher in launchers:
        record = Manifest(State(launcher.parent.parent)).records.get(str(path))
        if record is None or record.memory is None:
            continue
        blanks = [*record.memory.blanks.values(), record.memory.blank_file or ""]
        if not any(blank.strip(" \t\r\n") for blank in blanks):
            record.folders = [folder for folder in record.folders if path.is_relative_to(folder)]
            return record
    return None


def digest(data: bytes) -> str:
    """What :attr:`Record.before` holds for a file of these bytes."""
    return sha256(data).hexdigest()


__all__ = ["Manifest", "Record", "digest", "inherited"]
