"""A bundle's parts: its manifest, its session folders, what a capture says and whether the files bear it out.

Whoever looks at a bundle asks here, so that no two commands judge one capture differently.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.journal.files import Malformed, Unusable, enter, read_object
from sessionpipe.journal.format import (
    ARTIFACTS,
    BINDING,
    CAPTURE,
    CAPTURE_FIELDS,
    COMPLETE,
    ENTRIES,
    EVENT_SCHEMA,
    EVENTS,
    FAILED,
    FAILURE_FIELDS,
    MANIFEST,
    MANIFEST_FIELDS,
    RECORDING,
    SEGMENTS,
    SESSION,
    TERMINAL_STATUSES,
    misfits,
    parse_time,
)
from sessionpipe.journal.resolve import contained

#: What a capture comes to, beside what it can say itself.
UNVERIFIED = "unverified"
UNAVAILABLE = "unavailable"
#: From the best to the worst: a bundle's status is the worst of its sessions'.
STATUSES = (COMPLETE, FAILED, RECORDING, UNVERIFIED, UNAVAILABLE)

_SEGMENTS_READ = 10_000

Parts = tuple[str, ...]


class Problem(NamedTuple):
    """A rule that isn't kept: its code, the file (relative to the bundle), and what is wrong."""

    rule: str
    file: str
    message: str
    #: Whether what is there can be sound all the same.
    warn: bool = False


@dataclass
class Bundle:
    """Where a bundle's parts are, as far as they could be found."""

    root: Path
    manifest: Mapping[str, Any] | None = None
    #: The session folders: the first conversation's, then those of later ones, by when they were bound.
    sessions: list[Parts] = field(default_factory=list)
    artifacts: Parts = (ARTIFACTS,)
    problems: list[Problem] = field(default_factory=list)

    @property
    def finished_at(self) -> str | None:
        """When the run ended, as its manifest says."""
        value = (self.manifest or {}).get("finishedAt")
        return value if parse_time(value) is not None else None

    @property
    def terminal(self) -> bool:
        """Whether the manifest says that the run is over."""
        manifest = self.manifest or {}
        return self.finished_at is not None or manifest.get("status") in TERMINAL_STATUSES

    def refresh(self) -> None:
        """Read the manifest again, as far as it can be read."""
        with suppress(Unusable, Malformed):
            self.manifest = read_object(self.root, (MANIFEST,))


def find(path: Path) -> Bundle:
    """The bundle at ``path``, which is its folder or one of its session folders. Never raises."""
    path = Path(os.path.abspath(path))  # noqa: PTH100  # without following the last link
    if not os.path.isdir(path):  # noqa: PTH112  # which raises for no name whatever
        return Bundle(path, problems=[Problem("bundle-missing", ".", "there is no such folder")])
    if _has(path, MANIFEST) or _has(path, SESSION):
        return _whole(path)
    if any(_has(path, name) for name in (CAPTURE, EVENTS, ENTRIES, BINDING)):
        root = path.parent.parent.parent if path.parent.name == SEGMENTS else path.parent
        bundle = _manifest(root, needed=False)
        bundle.sessions = [path.relative_to(root).parts]
        return bundle
    return Bundle(
        path, problems=[Problem("session-missing", ".", "it holds neither a manifest nor a session")]
    )


def _has(folder: Path, name: str) -> bool:
    return os.path.lexists(folder / name)


def _whole(root: Path) -> Bundle:
    bundle = _manifest(root, needed=True)
    session = _part(bundle, "session", (SESSION,))
    name = "/".join(session)
    try:
        os.close(enter(root, session))
    except Unusable as error:
        rule = "session-missing" if error.why == "missing" else f"file-{error.why}"
        bundle.problems.append(Problem(rule, name, str(error)))
        return bundle
    bundle.sessions = [session, *_segments(bundle, session)]
    return bundle


def _manifest(root: Path, *, needed: bool) -> Bundle:
    bundle = Bundle(root)
    problem = None
    try:
        manifest = read_object(root, (MANIFEST,))
        if wrong := misfits(MANIFEST_FIELDS, manifest):
            problem = Problem("manifest-invalid", MANIFEST, "; ".join(wrong))
        bundle.manifest = manifest
    except Malformed as error:
        problem = Problem("manifest-invalid", MANIFEST, str(error))
    except Unusable as error:
        missing = error.why == "missing"
        if needed or not missing:
            # The session says all of itself; without a manifest only nobody knows of the run's end.
            problem = Problem(f"file-{error.why}", MANIFEST, str(error), warn=missing)
    if problem:
        bundle.problems.append(problem)
    bundle.artifacts = _part(bundle, "artifacts", (ARTIFACTS,))
    return bundle


def _part(bundle: Bundle, name: str, usual: Parts) -> Parts:
    """Where the manifest says that a part of the bundle is."""
    paths = (bundle.manifest or {}).get("paths")
    if not isinstance(paths, Mapping) or name not in paths:
        return usual
    parts = contained(paths[name])
    if parts is None:
        bundle.problems.append(
            Problem("path-outside", MANIFEST, f"paths.{name} is no path inside the bundle")
        )
        return usual
    return parts


def _segments(bundle: Bundle, session: Parts) -> list[Parts]:
    folder = (*session, SEGMENTS)
    try:
        fd = enter(bundle.root, folder)
    except Unusable as error:
        if error.why != "missing":
            bundle.problems.append(Problem(f"file-{error.why}", "/".join(folder), str(error)))
        return []
    try:
        with os.scandir(fd) as found:
            names = [
                item.name for item in islice(found, _SEGMENTS_READ) if not item.is_file(follow_symlinks=False)
            ]
    finally:
        os.close(fd)
    return sorted(
        ((*folder, name) for name in sorted(names)), key=lambda parts: _bound_at(bundle.root, parts)
    )


def _bound_at(root: Path, session: Parts) -> float:
    try:
        return parse_time(read_object(root, (*session, BINDING)).get("boundAt")) or 0.0
    except (Unusable, Malformed):
        return float("inf")


# -- The capture --


@dataclass
class Tally:
    """What a reading of a session's two journals came to."""

    events: int = 0
    entries: int = 0
    last_seq: int = 0
    #: The first thing found that no sound journal has, in words.
    damage: str | None = None
    #: Whether a journal ends in half a line.
    torn: bool = False

    def damaged(self, what: str) -> None:
        """Keep ``what`` if it is the first."""
        self.damage = self.damage or what

    def event(self, seq: int | None, line: int) -> bool:
        """Count an event of ``events.ndjson``; whether its ``seq`` puts it behind those before it."""
        expected = self.last_seq + 1
        self.events += 1
        if seq != expected:
            self.damaged(f"{EVENTS}, line {line}: it is not event {expected}")
        if seq is None or seq < expected:
            return False
        self.last_seq = seq
        return True


class Verdict(NamedTuple):
    """A capture's status as far as the files bear it out, why if they don't, and the rule that is broken."""

    status: str
    reason: str | None = None
    rule: str | None = None


class Capture(NamedTuple):
    """``capture.json`` as it was read: what it says, or what is wrong with it."""

    value: Mapping[str, Any] | None
    problem: Verdict | None = None

    @property
    def status(self) -> str | None:
        """What it says of itself, when it can be believed to say anything."""
        return str(self.value["status"]) if self.value is not None and self.problem is None else None

    def judge(self, tally: Tally, *, terminal: bool) -> Verdict:
        """What it is worth beside the journals' ``tally``; ``terminal``: the run is over."""
        if self.problem is not None or self.value is None:
            return self.problem or Verdict(UNVERIFIED)
        said, status = self.value, str(self.value["status"])
        if status == RECORDING and terminal:
            return Verdict(
                UNVERIFIED, "the run is over and its capture still says recording", "capture-stale"
            )
        if tally.torn and status == COMPLETE:
            tally.damaged("a journal ends in half a line")
        reasons = [tally.damage] if tally.damage else []
        counted = {"eventCount": tally.events, "entryCount": tally.entries, "lastEventSeq": tally.last_seq}
        for name, number in counted.items():
            # While recording they are lower bounds, which lag.
            if said[name] > number or (said[name] != number and status != RECORDING):
                reasons.append(f"its capture says {name} {said[name]}, the journal has {number}")
                return Verdict(UNVERIFIED, "; ".join(reasons), "capture-counts")
        return Verdict(UNVERIFIED, reasons[0]) if reasons else Verdict(status)


def read_capture(root: Path, session: Sequence[str]) -> Capture:
    """A session folder's ``capture.json``. Never raises."""
    try:
        value = read_object(root, (*session, CAPTURE))
    except Unusable as error:
        if error.why == "missing":
            return Capture(None, Verdict(UNVERIFIED, "there is no capture.json", "capture-missing"))
        return Capture(None, Verdict(UNVERIFIED, f"capture.json: {error}", f"file-{error.why}"))
    except Malformed as error:
        return Capture(None, Verdict(UNVERIFIED, f"capture.json: {error}", "capture-invalid"))
    schema = value.get("eventSchema")
    if isinstance(schema, str) and schema not in ("", EVENT_SCHEMA):
        reason = f"its events are of the schema {schema}, which this version can't read"
        return Capture(value, Verdict(UNAVAILABLE, reason, "event-schema"))
    wrong = misfits(CAPTURE_FIELDS, value)
    failure = value.get("failure")
    if value.get("status") == FAILED:
        wrong += ["failure is missing"] if "failure" not in value else []
        wrong += misfits(FAILURE_FIELDS, failure) if isinstance(failure, dict) else []
    elif "failure" in value:
        wrong.append("failure is there though it did not fail")
    if wrong:
        return Capture(value, Verdict(UNVERIFIED, f"capture.json: {'; '.join(wrong)}", "capture-invalid"))
    return Capture(value)
