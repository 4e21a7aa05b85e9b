"""Whether a bundle keeps the format's rules: each breach named by a rule, a file and a line.

Nothing in a bundle makes this raise, hang or use memory without bound: it reads files as they may have
been left by a crash, a copy, or somebody's malice. What it reports is of one reading; a bundle that is
still being recorded may be read at any time.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.journal import bundle as bundles
from sessionpipe.journal.bundle import (
    STATUSES,
    UNAVAILABLE,
    UNVERIFIED,
    Bundle,
    Capture,
    Parts,
    Tally,
)
from sessionpipe.journal.files import (
    File,
    Line,
    Malformed,
    Strict,
    Unusable,
    lines,
    open_beneath,
    read_object,
)
from sessionpipe.journal.format import (
    ASSISTANT_EVENTS,
    BINDING,
    BINDING_FIELDS,
    CAPTURE,
    COMPLETE,
    ENTRIES,
    ENTRY_FIELDS,
    EVENT_TYPES,
    EVENTS,
    FAILED,
    MAX_RECORD_BYTES,
    RECORD,
    RECORDING,
    Event,
    misfits,
    parse_time,
)
from sessionpipe.journal.resolve import Artifacts, Unresolved, audit, size_of

#: Every rule, and what it asks for.
RULES: Mapping[str, str] = {
    "bundle-missing": "the folder is there",
    "session-missing": "the bundle has a session folder",
    "path-outside": "a path in the manifest stays inside the bundle",
    "file-missing": "entries.ndjson and events.ndjson are there (manifest.json, binding.json: a warning)",
    "file-type": "a file is a regular file and a folder a folder, never a link",
    "file-unreadable": "this person may read it",
    "manifest-invalid": "manifest.json has its schema and fields",
    "binding-invalid": "binding.json has its schema and fields, and the manifest's runId",
    "capture-missing": "capture.json is there",
    "capture-invalid": "capture.json has its schema and fields, a failure if and only if it failed",
    "capture-stale": "a run that is over has a capture that is",
    "capture-counts": "capture.json's counts are the journals' (while recording: no more than theirs)",
    "event-schema": "the events are of a schema this version reads",
    "line-malformed": "a line is one JSON object in UTF-8",
    "line-torn": "a complete journal ends with a line feed (recording: it may not; any other: a warning)",
    "line-form": "nothing but a line feed stands around the object",
    "line-size": "a line is no longer than a record may be",
    "key-repeated": "no object has a key twice",
    "record-field": "a record has its required fields, with values of their kinds",
    "seq-start": "a journal's first seq is 1",
    "seq-gap": "an event's seq is one more than the one before",
    "seq-order": "no seq repeats or goes back",
    "correlation-id": "an event has the ids its type requires",
    "payload-field": "an event's payload has its type's fields, with values of their kinds",
    "start-missing": "an event about a turn, message or tool execution comes after its start",
    "start-repeated": "a turn and a message start once, a tool execution not while it runs",
    "after-end": "nothing about a turn, message or tool execution comes after its end",
    "owner-changed": "node, attempt, turn and message stay what they were at the start",
    "entry-id-missing": "a settled message names its entry",
    "entry-id-forbidden": "an unsettled message names none",
    "entry-missing": "a settled message's entry is in entries.ndjson (recording: it may follow)",
    "artifact-reference": "a reference to an artifact has its fields and is named by its digest",
    "artifact-outside": "a reference stays in the artifact folder",
    "artifact-missing": "a referenced artifact is there",
    "artifact-type": "an artifact is a regular file, never a link",
    "artifact-unreadable": "this person may read the artifact",
    "artifact-size": "an artifact has the size its reference says",
    "artifact-digest": "an artifact has the digest its reference says",
    "escape": "$escaped wraps one object and stands alone",
    "changed-after-end": "nothing in the session changes once the run is over",
    "permissions": "folders are 0700, files 0600 (a warning)",
    "string-inline": "a string too large for a record is an artifact (a warning)",
}

#: Kept of one rule in one file; what is beyond is counted.
KEPT = 100


class Violation(NamedTuple):
    """A rule that isn't kept. ``file`` is relative to the bundle; ``line`` from 1, None for a whole file."""

    rule: str
    file: str
    line: int | None
    message: str


@dataclass(frozen=True)
class SessionReport:
    """One session folder: its status as far as the files bear it out, and why when they don't."""

    path: str
    status: str
    reason: str | None
    counts: dict[str, int]
    #: The first failure of the capture, as it says.
    failure: dict[str, Any] | None = None


@dataclass(frozen=True)
class Report:
    """What a bundle was found to be.

    ``ok``: no rule is broken; a capture that says truthfully that it failed, or is still recording, is
    ok. ``status``: ``complete``, ``failed``, ``recording``; ``unverified`` when a capture is missing,
    invalid, stale or not borne out by its journal; ``unavailable`` when the events are of another
    schema. Of several sessions the worst. ``omitted``: how many more violations of a rule there are than
    are listed. ``unchecked``: rules this bundle gives no means to check.
    """

    bundle: str
    ok: bool
    status: str
    reason: str | None
    counts: dict[str, int]
    sessions: list[SessionReport]
    violations: list[Violation]
    warnings: list[Violation]
    omitted: dict[str, int] = field(default_factory=dict)
    unchecked: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            **asdict(self),
            "violations": [item._asdict() for item in self.violations],
            "warnings": [item._asdict() for item in self.warnings],
        }


def verify(bundle_dir: str | Path) -> Report:
    """Check the bundle in ``bundle_dir``, or in whose session folder it is, against every rule.

    Implements "Torn writes and validation" of the session event journal, and the rules of the files
    around it. Never raises for anything that is in the folder.
    """
    bundle = bundles.find(Path(bundle_dir))
    found = _Findings()
    for problem in bundle.problems:
        found.add(problem.rule, problem.file, problem.message, warn=problem.warn)
    _permissions(bundle, found)
    artifacts = Artifacts(bundle.root, bundle.artifacts)
    sessions = [_Session(bundle, parts, artifacts, found).check() for parts in bundle.sessions]
    unchecked = []
    if sessions and bundle.finished_at is None:
        unchecked.append("changed-after-end: the manifest says no time at which the run ended")
    counts: Counter[str] = Counter()
    for session in sessions:
        counts.update(session.counts)
    worst = max(sessions, key=lambda session: STATUSES.index(session.status), default=None)
    return Report(
        bundle=str(bundle.root),
        ok=not found.violations,
        status=worst.status if worst else UNVERIFIED,
        reason=worst.reason if worst else "there is no session",
        counts=dict(counts),
        sessions=sessions,
        violations=found.violations,
        warnings=found.warnings,
        omitted=dict(found.omitted),
        unchecked=unchecked,
    )


class _Findings:
    """What was found, bounded: of one rule in one file the first :data:`KEPT`."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.warnings: list[Violation] = []
        self.omitted: Counter[str] = Counter()
        self._seen: Counter[tuple[str, str]] = Counter()

    def add(self, rule: str, file: str, message: str, line: int | None = None, *, warn: bool = False) -> None:
        """A breach of ``rule``."""
        self._seen[rule, file] += 1
        if self._seen[rule, file] > KEPT:
            self.omitted[rule] += 1
        else:
            (self.warnings if warn else self.violations).append(Violation(rule, file, line, message))


def _permissions(bundle: Bundle, found: _Findings) -> None:
    """Folders that others can look into. A copy is often wider than the original: only a warning."""
    folders = [(), bundle.artifacts, *bundle.sessions]
    for parts in folders:
        place = bundle.root.joinpath(*parts)
        try:
            mode = place.lstat().st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISDIR(mode) and mode & 0o077:
            found.add("permissions", "/".join(parts) or ".", f"it is {mode & 0o777:04o}, not 0700", warn=True)


class _Span(NamedTuple):
    """A turn, message or tool execution that goes on: its start's line, owner and other ids."""

    line: int
    owner: tuple[Any, Any]
    ids: tuple[Any, ...]


class _Session:
    """The checking of one session folder."""

    def __init__(self, bundle: Bundle, parts: Parts, artifacts: Artifacts, found: _Findings) -> None:
        self._bundle = bundle
        self._parts = parts
        self._artifacts = artifacts
        self._found = found
        self._strict = Strict()
        self._tally = Tally()
        self._counts: Counter[str] = Counter()
        self._entry_ids: set[str] = set()
        self._settled: list[tuple[int, str]] = []
        self._open: dict[tuple[str, str], _Span] = {}
        self._ended: set[tuple[str, str]] = set()
        self._capture = Capture(None)
        self._unread = 0
        self._versions: dict[str, tuple[int, ...]] = {}
        self._end = parse_time(bundle.finished_at)
        self._later = False

    def check(self) -> SessionReport:
        """Check all of it."""
        # The capture first: it says no more than the journals have by then, so what is appended while
        # they are read can't contradict it. The manifest was read before it for the same reason.
        self._capture = bundles.read_capture(self._bundle.root, self._parts)
        said = self._capture.value or {}
        if self._capture.value is not None:
            self._look(CAPTURE)
        readable = not (self._capture.problem and self._capture.problem.status == UNAVAILABLE)
        self._entries()
        if readable:
            self._events()
        self._binding()
        verdict = self._capture.judge(self._tally, terminal=self._bundle.terminal)
        if verdict.rule:
            self._add(verdict.rule, CAPTURE, verdict.reason or "")
        if self._capture.status != RECORDING:
            for line, entry_id in self._settled:
                if entry_id not in self._entry_ids:
                    self._add("entry-missing", EVENTS, f"its entry {entry_id} is not in {ENTRIES}", line)
        self._unchanged()
        failure = said.get("failure") if verdict.status == FAILED else None
        return SessionReport(
            path="/".join(self._parts),
            status=verdict.status,
            reason=verdict.reason,
            counts={
                "events": self._tally.events,
                "entries": self._tally.entries,
                "lastEventSeq": self._tally.last_seq,
                "unknownEvents": self._counts["unknown"],
                "messages": self._counts["message_started"],
                "tools": self._counts["tool_execution_started"],
                "artifacts": self._counts["artifacts"],
            },
            failure=failure if isinstance(failure, dict) else None,
        )

    def _add(
        self, rule: str, name: str, message: str, line: int | None = None, *, warn: bool = False
    ) -> None:
        self._found.add(rule, "/".join((*self._parts, name)), message, line, warn=warn)

    # -- Files --

    def _look(self, name: str) -> File | None:
        """Open a file of the session, and note what can be seen without reading it."""
        try:
            file = open_beneath(self._bundle.root, (*self._parts, name))
        except Unusable as error:
            if error.why == "missing" and self._may_be_missing(name):
                return None
            if name != CAPTURE:  # Of that one its verdict tells.
                # Whose history it is, nothing in the history depends on.
                warn = name == BINDING and error.why == "missing"
                self._add(f"file-{error.why}", name, str(error), warn=warn)
            if name in (EVENTS, ENTRIES):
                self._tally.damaged(f"{name}: {error}")
            return None
        if file.mode & 0o077:
            self._add("permissions", name, f"it is {file.mode:04o}, not 0600", warn=True)
        self._versions.setdefault(name, file.version)
        if self._end is not None and file.modified > self._end + 1:
            self._later = True
        if name == CAPTURE:
            with file:
                return None
        return file

    def _may_be_missing(self, name: str) -> bool:
        said = self._capture.value or {}
        if self._capture.status == RECORDING and name in (EVENTS, ENTRIES):
            # A journal is made with its first record, which may still be queued.
            return said["eventCount" if name == EVENTS else "entryCount"] == 0  # type: ignore[no-any-return]
        # A capture that failed before it knew its conversation is bound to none.
        return (
            name == BINDING
            and self._capture.status == FAILED
            and not self._tally.events + self._tally.entries
        )

    def _binding(self) -> None:
        if (file := self._look(BINDING)) is None:
            return
        with file:
            try:
                binding = read_object(self._bundle.root, (*self._parts, BINDING))
            except (Malformed, Unusable) as error:
                self._add("binding-invalid", BINDING, str(error))
                return
        wrong = misfits(BINDING_FIELDS, binding)
        run = (self._bundle.manifest or {}).get("runId")
        if not wrong and isinstance(run, str) and binding["runId"] != run:
            wrong.append(f"runId is not the manifest's, {run}")
        if wrong:
            self._add("binding-invalid", BINDING, "; ".join(wrong))

    def _unchanged(self) -> None:
        """A session of a run that is over must not have changed since, nor while it was read."""
        if self._later:
            # Copying gives files a new time, so that alone it proves nothing.
            message = "its files' times are after the run's end: changed since, or copied"
            self._found.add("changed-after-end", "/".join(self._parts), message, warn=True)
        if not self._bundle.terminal:
            return
        for name, version in self._versions.items():
            try:
                with open_beneath(self._bundle.root, (*self._parts, name)) as file:
                    changed = file.version != version
            except Unusable:
                changed = True
            if changed:
                self._add("changed-after-end", name, "it changed while it was read, though the run is over")

    # -- Lines --

    def _records(self, name: str) -> Iterator[tuple[Line, dict[str, Any] | None]]:
        """The complete lines of a journal, each with its object, None when it holds none."""
        if (file := self._look(name)) is None:
            return
        with file:
            for line in lines(file):
                if not line.complete:
                    self._torn(name, line)
                    return
                yield line, self._object(name, line)

    def _torn(self, name: str, line: Line) -> None:
        self._tally.torn = True
        if self._capture.status == RECORDING:
            return
        # A writer that failed leaves its last line as it broke off, and one nobody heard of may still write.
        warn = self._capture.status != COMPLETE
        self._add("line-torn", name, f"{line.size} bytes without a line feed", line.number, warn=warn)

    def _object(self, name: str, line: Line) -> dict[str, Any] | None:
        if line.size > MAX_RECORD_BYTES:
            message = f"it has {line.size} bytes; a record has at most {MAX_RECORD_BYTES}"
            self._add("line-size", name, message, line.number)
            if not line.data:
                self._damaged(name, line)
                return None
        try:
            record = self._strict.parse(line.data)
        except Malformed as error:
            self._add("line-malformed", name, str(error), line.number)
            self._damaged(name, line)
            return None
        if self._strict.repeated is not None:
            self._add(
                "key-repeated", name, f"an object has the key {self._strict.repeated} twice", line.number
            )
        if line.data[:1] != b"{" or line.data[-1:] != b"}":
            self._add("line-form", name, "there is white space around the object", line.number)
        return record

    def _damaged(self, name: str, line: Line) -> None:
        self._tally.damaged(f"{name}, line {line.number}: it can't be read")

    def _after_end(self, name: str, line: Line, record: Mapping[str, Any]) -> None:
        if self._end is not None and (at := parse_time(record.get("at"))) is not None and at > self._end:
            self._add("changed-after-end", name, f"it is of {record['at']}, after the run's end", line.number)

    # -- entries.ndjson --

    def _entries(self) -> None:
        last = 0
        for line, record in self._records(ENTRIES):
            if record is None:
                continue
            self._tally.entries += 1
            if wrong := misfits(ENTRY_FIELDS, record):
                self._add("record-field", ENTRIES, "; ".join(wrong), line.number)
                continue
            seq = record["seq"]
            if seq <= last:
                self._add("seq-order", ENTRIES, f"seq {seq} comes after {last}", line.number)
            elif last == 0 and seq != 1 and line.number == 1:
                self._add("seq-start", ENTRIES, f"it begins with seq {seq}", line.number)
            last = max(last, seq)
            self._after_end(ENTRIES, line, record)
            entry = record["entry"]
            if isinstance(entry.get("id"), str):
                self._entry_ids.add(entry["id"])
            for what, value in audit(entry):
                # An entry is the conversation's own; only what can be nothing else is a reference.
                if what == "reference":
                    self._reference(ENTRIES, line, value, own=True)

    # -- events.ndjson --

    def _events(self) -> None:
        for line, record in self._records(EVENTS):
            if record is None:
                # It may have held the next event: that one is not missed too.
                self._unread += 1
                continue
            self._tally.events += 1
            wrong = misfits(RECORD, record)
            if wrong:
                self._add("record-field", EVENTS, "; ".join(wrong), line.number)
            if RECORD["seq"].kind.accepts(record.get("seq")):
                self._sequence(line, record["seq"])
            else:
                self._unread += 1
                self._damaged(EVENTS, line)
            kind, payload = record.get("type"), record.get("payload")
            if not isinstance(kind, str) or not isinstance(payload, dict):
                continue
            self._after_end(EVENTS, line, record)
            event = EVENT_TYPES.get(kind)
            if event is None:
                self._counts["unknown"] += 1
                continue
            self._counts[kind] += 1
            self._payload(line, record, event)
            if missing := [name for name in event.ids if name not in record]:
                self._add("correlation-id", EVENTS, f"{kind} without {' and '.join(missing)}", line.number)
            # Whatever else is wrong with a start, what follows it did not begin without one.
            if isinstance(record.get(event.id), str):
                self._span(line, record, event)

    def _sequence(self, line: Line, seq: int) -> None:
        last, unread = self._tally.last_seq, self._unread
        self._unread = 0
        if seq <= last:
            self._add("seq-order", EVENTS, f"seq {seq} comes after {last}", line.number)
            self._tally.damaged(f"{EVENTS}, line {line.number}: seq {seq} comes after {last}")
            return
        if seq > last + 1 + unread:
            rule = "seq-gap" if last or unread else "seq-start"
            message = f"seq {seq} comes after {last}" if last else f"it begins with seq {seq}"
            self._add(rule, EVENTS, message, line.number)
            self._tally.damaged(f"{EVENTS}, line {line.number}: {message}")
        self._tally.last_seq = seq

    def _payload(self, line: Line, record: Mapping[str, Any], event: Event) -> None:
        kind, payload = record["type"], record["payload"]
        wrong = misfits(event.payload, payload)
        if kind == "assistant_event" and not wrong:
            fields = ASSISTANT_EVENTS.get(payload["type"])
            if fields is None:
                self._counts["unknown"] += 1
                return
            wrong = misfits(fields, payload)
        if wrong:
            self._add("payload-field", EVENTS, f"{kind}: {'; '.join(wrong)}", line.number)
        if kind == "message_finished" and isinstance(payload.get("settled"), bool):
            self._link(line, payload)
        for name in ("args", "result", "toolCall"):
            if name in payload:
                self._value(line, payload[name])

    def _link(self, line: Line, payload: Mapping[str, Any]) -> None:
        if not payload["settled"]:
            if "entryId" in payload:
                self._add("entry-id-forbidden", EVENTS, "an unsettled message with an entryId", line.number)
        elif "entryId" not in payload:
            self._add("entry-id-missing", EVENTS, "a settled message without an entryId", line.number)
        elif isinstance(payload["entryId"], str):
            self._settled.append((line.number, payload["entryId"]))

    def _span(self, line: Line, record: Mapping[str, Any], event: Event) -> None:
        start = event.of or record["type"]
        key = (start, record[event.id])
        about = f"{event.id.removesuffix('Id')} {record[event.id]}"
        span = self._open.get(key)
        ids = tuple(record.get(name) for name in event.ids[:-1])
        owner = (record.get("nodeId"), record.get("attemptId"))
        if event.of is None:
            # Providers use a tool call's id again; turns and messages are numbered by the recorder.
            if span or (key in self._ended and start != "tool_execution_started"):
                where = f" (line {span.line})" if span else ""
                self._add("start-repeated", EVENTS, f"{about} was started before{where}", line.number)
            self._open.setdefault(key, _Span(line.number, owner, ids))
            self._ended.discard(key)
            return
        if span is None:
            if key in self._ended:
                self._add("after-end", EVENTS, f"{record['type']}: {about} has ended", line.number)
            else:
                self._add("start-missing", EVENTS, f"{record['type']}: {about} was not started", line.number)
            return
        # Of what is missing, or no string, another rule tells.
        pairs = zip((*owner, *ids), (*span.owner, *span.ids), strict=True)
        if any(mine != began for mine, began in pairs if isinstance(mine, str) and isinstance(began, str)):
            message = f"{about} has another owner than at its start (line {span.line})"
            self._add("owner-changed", EVENTS, message, line.number)
        if event.ends:
            del self._open[key]
            self._ended.add(key)

    # -- Values --

    def _value(self, line: Line, value: object) -> None:
        for what, item in audit(value):
            if what == "reference":
                self._reference(EVENTS, line, item)
            elif what == "escape":
                self._add("escape", EVENTS, "$escaped wraps no object, or does not stand alone", line.number)
            elif isinstance(item, str):
                message = f"a string of {size_of(item)} bytes is not an artifact"
                self._add("string-inline", EVENTS, message, line.number, warn=True)

    def _reference(self, name: str, line: Line, value: object, *, own: bool = False) -> None:
        try:
            reference = self._artifacts.reference(value)
        except Unresolved as error:
            if not own:
                self._add(error.rule, name, str(error), line.number)
            return
        self._counts["artifacts"] += 1
        try:
            self._artifacts.check(reference)
        except Unresolved as error:
            self._add(error.rule, name, str(error), line.number)
