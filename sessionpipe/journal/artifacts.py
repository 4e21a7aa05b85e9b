"""Large strings of recorded values, put beside the journal: the writer's half of :mod:`.resolve`.

A string leaf of more than 4096 UTF-8 bytes becomes ``artifacts/sha256-<digest>.txt``, written once,
and a reference in its place. An object of the person's own that looks like one is wrapped.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from sessionpipe.journal.format import (
    ARTIFACT_ABOVE_BYTES,
    ARTIFACT_KEY,
    ARTIFACT_MEDIA_TYPE,
    ARTIFACTS,
    ESCAPED_KEY,
)


class ArtifactStore:
    """The artifact folder of a bundle that is being written; made when its first artifact is."""

    def __init__(self, bundle: Path) -> None:
        self._folder = bundle / ARTIFACTS
        self._there: set[str] = set()

    def encode(self, value: Any) -> Any:
        """``value`` with its large strings stored and referred to. Raises :class:`OSError`."""
        if isinstance(value, str):
            # A character has four bytes at most, which spares most strings the encoding.
            if len(value) * 4 <= ARTIFACT_ABOVE_BYTES:
                return value
            # An artifact is text to whoever opens it, so half a surrogate pair can't be kept in one.
            data = value.encode("utf-8", "replace")
            return self._stored(data) if len(data) > ARTIFACT_ABOVE_BYTES else value
        if isinstance(value, list):
            return [self.encode(item) for item in value]
        if isinstance(value, dict):
            encoded = {key: self.encode(item) for key, item in value.items()}
            return {ESCAPED_KEY: encoded} if ARTIFACT_KEY in value or ESCAPED_KEY in value else encoded
        return value

    def _stored(self, data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        name = f"sha256-{digest}.txt"
        if digest not in self._there:
            self._write(self._folder / name, data)
            self._there.add(digest)
        reference = {
            "path": f"{ARTIFACTS}/{name}",
            "mediaType": ARTIFACT_MEDIA_TYPE,
            "bytes": len(data),
            "sha256": digest,
        }
        return {ARTIFACT_KEY: reference}

    def _write(self, path: Path, data: bytes) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            # A record that refers to it may be called durable when the journal is.
            os.fsync(fd)
        finally:
            os.close(fd)
