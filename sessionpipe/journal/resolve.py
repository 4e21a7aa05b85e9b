"""Values whose large strings lie in artifacts: finding the references, checking them, putting them back.

A string leaf too large for a record is a file, and ``{"$artifact": {path, mediaType, bytes, sha256}}`` in
its place. An object of the person's own that has such a key is wrapped as ``{"$escaped": object}``, which
is undone once. A reference is resolved inside the bundle's artifact folder only, never through a link,
and only as the bytes whose size and digest it names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.journal.files import File, Unusable, open_beneath
from sessionpipe.journal.format import (
    ARTIFACT_ABOVE_BYTES,
    ARTIFACT_FIELDS,
    ARTIFACT_KEY,
    ARTIFACT_NAME,
    ESCAPED_KEY,
    misfits,
)

_LONGEST_PATH = 1024


class Unresolved(Exception):
    """A reference without its bytes. ``rule`` is the validator's code for why."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


class Reference(NamedTuple):
    """A reference whose form is right: the file's place below the bundle, its size and digest."""

    parts: tuple[str, ...]
    bytes: int
    sha256: str


def contained(path: object) -> tuple[str, ...] | None:
    """The parts of a relative path that stays where it starts; None for any other."""
    if not isinstance(path, str) or not 0 < len(path) <= _LONGEST_PATH or "\0" in path or "\\" in path:
        return None
    parts = tuple(path.split("/"))
    return None if any(part in ("", ".", "..") for part in parts) else parts


class Artifacts:
    """The artifact folder ``folder`` (its parts) of the bundle ``root``."""

    def __init__(self, root: Path, folder: Sequence[str]) -> None:
        self._root = root
        self._folder = tuple(folder)
        self._sound: dict[Reference, Unresolved | None] = {}

    def reference(self, value: object) -> Reference:
        """The reference that ``value``, an object with the key ``$artifact``, is; or :class:`Unresolved`."""
        inner = value.get(ARTIFACT_KEY) if isinstance(value, Mapping) and len(value) == 1 else None
        if not isinstance(inner, Mapping):
            raise Unresolved("artifact-reference", "the object with $artifact is no reference")
        if wrong := misfits(ARTIFACT_FIELDS, inner):
            raise Unresolved("artifact-reference", f"the reference's {wrong[0]}")
        parts = contained(inner["path"])
        if parts is None or len(parts) < 2 or parts[:-1] != self._folder:
            raise Unresolved("artifact-outside", "the reference leads out of the artifact folder")
        named = ARTIFACT_NAME.match(parts[-1])
        if named is None or named[1] != inner["sha256"]:
            raise Unresolved("artifact-reference", "the artifact is not named by its digest")
        return Reference(parts, inner["bytes"], inner["sha256"])

    def read(self, reference: Reference, limit: int | None = None) -> bytes:
        """Its bytes, at most the first ``limit``, all of them checked; or :class:`Unresolved`."""
        head = bytearray()
        with self._open(reference) as file:
            digest = hashlib.sha256()
            for block in file.blocks():
                digest.update(block)
                head += block if limit is None else block[: limit - len(head)]
        if digest.hexdigest() != reference.sha256:
            raise Unresolved(
                "artifact-digest", f"{reference.parts[-1]} has other contents than its digest says"
            )
        return bytes(head)

    def check(self, reference: Reference) -> None:
        """Raise :class:`Unresolved` unless the file is what the reference says; each is read once."""
        if reference not in self._sound:
            try:
                self.read(reference, limit=0)
                self._sound[reference] = None
            except Unresolved as error:
                self._sound[reference] = error
        if (problem := self._sound[reference]) is not None:
            raise problem

    def _open(self, reference: Reference) -> File:
        name = reference.parts[-1]
        try:
            file = open_beneath(self._root, reference.parts)
        except Unusable as error:
            raise Unresolved(f"artifact-{error.why}", f"{name}: {error}") from None
        if file.size != reference.bytes:
            with file:
                raise Unresolved(
                    "artifact-size", f"{name} has {file.size} bytes, its reference says {reference.bytes}"
                )
        return file


def audit(value: object) -> Iterator[tuple[str, object]]:
    """What in a recorded value matters to its encoding, as (what, value):

    ``reference``: an object with ``$artifact``; ``escape``: one with ``$escaped`` that wraps nothing;
    ``large``: a string that should have been an artifact.
    """
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            # A character has four bytes at most, which spares most strings the encoding.
            if len(item) * 4 > ARTIFACT_ABOVE_BYTES and size_of(item) > ARTIFACT_ABOVE_BYTES:
                yield "large", item
        elif isinstance(item, list):
            left.extend(item)
        elif isinstance(item, dict):
            if ESCAPED_KEY in item:
                inner = item[ESCAPED_KEY]
                if len(item) == 1 and isinstance(inner, dict):
                    left.extend(inner.values())
                else:
                    yield "escape", item
            elif ARTIFACT_KEY in item:
                yield "reference", item
            else:
                left.extend(item.values())


def size_of(text: str) -> int:
    """How many UTF-8 bytes ``text`` has."""
    return len(text.encode("utf-8", "surrogatepass"))


def decode(value: Any, resolve: Callable[[object], Any]) -> Any:
    """``value`` as it was before it was recorded.

    ``resolve`` is given each object with ``$artifact`` and returns what to put in its place. Raises
    :class:`RecursionError` for what is nested too deeply.
    """
    if isinstance(value, list):
        return [decode(item, resolve) for item in value]
    if not isinstance(value, dict):
        return value
    inner = value.get(ESCAPED_KEY)
    if len(value) == 1 and isinstance(inner, dict):
        value = inner
    elif ARTIFACT_KEY in value:
        return resolve(value)
    return {key: decode(item, resolve) for key, item in value.items()}
