"""One conversation's four files while they are written: all that happens on the writer's thread.

Records come in order and leave in order. What has to wait, a finished message for its entry's id, a delta
for the end of its block, holds up what is behind it; nothing overtakes, and no time is changed. What
leaves is redacted unless the person wanted it verbatim, its large strings go to the artifacts, and it
is appended in batches: entries first, so that an event never names one that isn't there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sessionpipe.journal.appending import Journal, encode, replace
from sessionpipe.journal.artifacts import ArtifactStore
from sessionpipe.journal.blocks import Blocks
from sessionpipe.journal.format import (
    BINDING,
    CAPTURE,
    CAPTURE_SCHEMA,
    COMPLETE,
    ENTRIES,
    EVENT_SCHEMA,
    EVENTS,
    FAILED,
    FLUSH_BYTES,
    FLUSH_RECORDS,
    MAX_RECORD_BYTES,
    RECORDING,
)
from sessionpipe.journal.links import Links
from sessionpipe.journal.normalize import Record
from sessionpipe.journal.session_file import Lost, SessionFile, TooLarge
from sessionpipe.privacy.secrets import RULESET, RULESET_VERSION
from sessionpipe.redaction import in_force, redact, redact_value

# How often a capture that goes on says how far it got.
_TELL_S = 1.0
_RELIEVE_EVERY = 256  # records


class Failure(NamedTuple):
    """Why a capture isn't complete. ``at``: epoch seconds."""

    at: float
    code: str
    message: str


class Settled(NamedTuple):
    """An entry of Pi's that is stored: its JSON's bytes, when it was seen, of which message it is."""

    entry: Mapping[str, Any]
    raw: bytes | None
    at: float
    key: object = None


class CaptureFailed(Exception):
    """Nothing more can be captured."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(time.time(), code, message)


def failure_of(error: Exception) -> Failure:
    """What an exception is called in a capture; what nobody foresaw names where it came from."""
    if isinstance(error, CaptureFailed):
        return error.failure
    return Failure(time.time(), "internal_error", f"a fault in sessionpipe itself: {type(error).__name__}")


def iso(at: float) -> str:
    """Epoch seconds as the journal writes a time: UTC, to the millisecond."""
    seconds, milliseconds = divmod(round(at * 1000), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"


class Capture:
    """The capture in ``folder``, which is made here. Raises :class:`CaptureFailed` from every method.

    ``written`` is told (records, bytes) of what need no longer be counted as waiting; ``crowded`` says
    whether much waits.
    """

    def __init__(
        self,
        folder: Path,
        artifacts: ArtifactStore,
        binding: Mapping[str, str] | None,
        *,
        verbatim: bool,
        file: SessionFile | None = None,
        written: Callable[[int, int], None] = lambda records, size: None,
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder = folder
        #: The first thing that makes this capture incomplete.
        self.failure: Failure | None = None
        self._artifacts = artifacts
        self._verbatim = verbatim
        self._file = file
        self._written = written
        self._crowded = crowded
        self._line: deque[Record] = deque()
        self._blocks = None if verbatim else Blocks()
        self._links = Links()
        self._relieve_at = _RELIEVE_EVERY
        self._seq = 0
        self._entry_seq = 0
        self._told_of: list[Settled] = []
        self._batch: list[bytes] = []
        self._entry_batch: list[bytes] = []
        self._batch_bytes = 0
        self._counted = 0  # bytes that the batch's records are counted with
        self._told = time.monotonic()
        try:
            for place in (folder.parent, folder):  # Each by itself: `parents` would not give them the mode.
                place.mkdir(mode=0o700, exist_ok=True)
            if binding is not None:
                replace(folder / BINDING, {key: self._text(value) for key, value in binding.items()})
            self._events = Journal(folder / EVENTS)
            self._entries = Journal(folder / ENTRIES)
            self._tell(RECORDING)
        except OSError as error:
            raise CaptureFailed("event_write_failed", _why("cannot begin the journal", error)) from error

    # -- What comes --

    def event(self, record: Record) -> None:
        """The next event."""
        if record.type == "message_finished":
            self._links.expect(record)
        if self._blocks is not None:
            self._blocks.take(record)
        self._line.append(record)
        if self._file is not None and (len(self._links) or record.type in _EXPOSING):
            self.look()
        if record.type in _TURNING:
            self._take_told()
            self._links.give_up()
        elif len(self._line) >= self._relieve_at and self._crowded():
            self._relieve()
        self._release()

    def look(self, *, last: bool = False) -> None:
        """See which entries the session file has got; ``last``: whatever is not known of where it began."""
        if self._file is None:
            return
        with _readable():
            if self._file.begun and not last:
                # How much of it is older than this run shows with the run's first message.
                if (first := self._links.oldest) is None:
                    return
                self._file.rewind(first.of["message"])
            for entry in self._file.appended():
                self._record(Settled(entry.value, entry.raw, time.time()))

    def entry(self, settled: Settled) -> None:
        """The next settled entry, as the source tells it."""
        if self._file is None:
            self._record(settled)
            self._release()
        else:
            # The file has it, too, and before it what the source doesn't tell.
            self._told_of.append(settled)
            self.look()

    def _take_told(self) -> None:
        """Record what the source told of and no file showed."""
        for settled in self._told_of:
            self._record(settled)
        self._told_of.clear()

    def _record(self, settled: Settled) -> None:
        entry, raw, at, key = settled
        if self._links.knows(entry.get("id")):
            return
        line = {"seq": self._entry_seq + 1, "at": iso(at), "entry": entry}
        value = entry if self._verbatim else redact_value(entry)
        if value is not entry:
            line["entry"] = value
        elif raw is not None:
            line["entry"] = msgspec.Raw(raw)  # As Pi wrote it, to the byte.
        data = self._encoded(line)
        if len(data) > MAX_RECORD_BYTES:
            data = self._encoded({**line, "entry": self._stored(value)})
        self._entry_batch.append(self._fitting(data))
        self._entry_seq += 1
        self._batch_bytes += len(data)
        self._links.recorded(entry, key)
        self._flush_if_full()

    def link(self, key: object, entry_id: object) -> None:
        """The source says that a message became an entry that was recorded."""
        self._links.told(key, entry_id)
        self._release()

    def mark(self, failure: Failure) -> None:
        """Something is missing, though what follows is still captured."""
        self.failure = self.failure or failure

    # -- What waits --

    def _relieve(self) -> None:
        """Too much waits: let go of what can be, rather than fail."""
        if self._line[0].type == "message_finished":
            self._links.give_up()
        if self._blocks is not None:
            self._blocks.relieve()
        # What could not be let go is not looked at again for every record.
        self._relieve_at = len(self._line) + _RELIEVE_EVERY

    def _release(self) -> None:
        line = self._line
        if not line or line[0].waiting:
            return
        while line and not line[0].waiting:
            try:
                self._emit(line[0])
            except CaptureFailed:
                # There must be no gap: what is behind a record that can't be written isn't either.
                line.clear()
                raise
            line.popleft()
        self._relieve_at = len(line) + _RELIEVE_EVERY
        self._flush_if_full()

    def _flush_if_full(self) -> None:
        if len(self._batch) + len(self._entry_batch) >= FLUSH_RECORDS or self._batch_bytes >= FLUSH_BYTES:
            self.flush()

    # -- What leaves --

    def _emit(self, record: Record) -> None:
        line: dict[str, Any] = {
            "seq": self._seq + 1,
            "at": iso(record.at),
            "nodeId": record.owner.node,
            "attemptId": record.owner.attempt,
            "turnId": record.turn,
        }
        if record.message is not None:
            line["messageId"] = record.message
        if record.tool is not None:
            line["toolCallId"] = self._text(record.tool)
        line["type"] = record.type
        line["payload"] = self._payload(record)
        data = self._fitting(self._encoded(line))
        self._seq += 1
        self._batch.append(data)
        self._batch_bytes += len(data)
        self._counted += record.size

    def _payload(self, record: Record) -> dict[str, Any]:
        payload = record.payload
        for name in _LARGE:
            if name in payload:
                value = payload[name]
                payload[name] = self._stored(value if self._verbatim else _redacted(name, value))
        for name in ("content", "toolName", "role", "entryId"):
            if name in payload:
                payload[name] = self._text(payload[name])
        if "toolCallIds" in payload:
            payload["toolCallIds"] = [self._text(call) for call in payload["toolCallIds"]]
        return payload

    def _text(self, text: str) -> str:
        return text if self._verbatim else redact(text)

    def _stored(self, value: Any) -> Any:
        try:
            return self._artifacts.encode(value)
        except OSError as error:
            raise CaptureFailed("artifact_write_failed", _why("cannot store an artifact", error)) from error
        except RecursionError as error:
            raise CaptureFailed("record_too_large", "a value is nested too deeply to be recorded") from error

    @staticmethod
    def _encoded(value: Any) -> bytes:
        try:
            return encode(value)
        except (ValueError, RecursionError, TypeError) as error:
            raise CaptureFailed("record_too_large", "a value can't be written as JSON") from error

    @staticmethod
    def _fitting(data: bytes) -> bytes:
        if len(data) > MAX_RECORD_BYTES:
            raise CaptureFailed(
                "record_too_large", f"a record of {len(data)} bytes is over the limit of 1 MiB"
            )
        return data + b"\n"

    def flush(self) -> None:
        """Append what is ready."""
        entries, events, counted = self._entry_batch, self._batch, self._counted
        if not entries and not events:
            return
        self._entry_batch, self._batch, self._batch_bytes, self._counted = [], [], 0, 0
        for journal, lines, what in ((self._entries, entries, "entry"), (self._events, events, "event")):
            try:
                if lines:
                    journal.append(lines)
            except OSError as error:
                message = _why(f"could not append a batch of session {_PLURAL[what]}", error)
                raise CaptureFailed(f"{what}_write_failed", message) from error
        self._written(len(events), counted)
        if time.monotonic() - self._told >= _TELL_S:
            self._say(RECORDING)

    def finish(self, failure: Failure | None = None, *, broken: bool = False) -> None:
        """No more comes: write what waits, make it durable, and say last how it ended.

        ``failure``: why it ends early, if it does. ``broken``: it is this capture that failed, so nothing more
        is looked for.
        """
        if self._blocks is not None:
            self._blocks.finish()
        looking = () if broken else (partial(self.look, last=True), self._take_told)
        for step in (*looking, self._links.give_up, self._release, self.flush):
            try:
                step()
            except Exception as error:
                failure = failure or failure_of(error)
        if self._blocks is not None and self._blocks.late:
            self.mark(
                Failure(
                    time.time(), "redacted_late", "a credential was recognised when half of it was written"
                )
            )
        self.failure = self.failure or failure
        try:
            self._events.sync()
            self._entries.sync()
        except OSError as error:
            self.mark(
                Failure(time.time(), "event_write_failed", _why("cannot make the journal durable", error))
            )
        finally:
            self._events.close()
            self._entries.close()
            if self._file is not None:
                self._file.close()
        self._say(FAILED if self.failure else COMPLETE)

    def _say(self, status: str) -> None:
        try:
            self._tell(status)
        except OSError as error:
            raise CaptureFailed(
                "event_write_failed", _why("cannot write the capture's status", error)
            ) from error

    def _tell(self, status: str) -> None:
        self._told = time.monotonic()
        value: dict[str, Any] = {
            "schema": CAPTURE_SCHEMA,
            "eventSchema": EVENT_SCHEMA,
            "status": status,
            "eventCount": self._events.lines,
            "entryCount": self._entries.lines,
            # Sequence numbers have no gaps, so the last one is their number.
            "lastEventSeq": self._events.lines,
        }
        if status == FAILED and self.failure is not None:
            at, code, message = self.failure
            value["failure"] = {"failedAt": iso(at), "code": code, "message": message}
        if not self._verbatim:
            value["redaction"] = {"ruleset": RULESET, "revision": RULESET_VERSION}
            if own := in_force().rulesets[1:]:
                value["redaction"]["own"] = list(own)
        replace(self.folder / CAPTURE, value)


#: Events behind which the session file has something new.
_EXPOSING = frozenset(("message_finished", "turn_finished"))
#: What a turn's messages wait for has come by its end, or never does.
_TURNING = frozenset(("turn_finished", "turn_started"))
#: Payload fields whose strings may be large; of a tool call only the arguments are the person's.
_LARGE = ("args", "result", "toolCall")
_PLURAL = {"event": "events", "entry": "entries"}


@contextmanager
def _readable() -> Iterator[None]:
    """Whatever is wrong with the session file ends the capture: its entries would not be all of them."""
    try:
        yield
    except Lost as error:
        raise CaptureFailed("session_file_lost", str(error)) from error
    except TooLarge as error:
        raise CaptureFailed("record_too_large", str(error)) from error


def _redacted(name: str, value: Any) -> Any:
    if name == "toolCall" and isinstance(value, dict):
        # What a call is known by stays what it is known by.
        rest = redact_value({key: inner for key, inner in value.items() if key not in ("id", "arguments")})
        own = {"id": redact(value["id"])} if isinstance(value.get("id"), str) else {}
        arguments = {"arguments": redact_value(value["arguments"])} if "arguments" in value else {}
        changed = rest | own | arguments
        return {key: changed[key] for key in value if key in changed} | changed
    return redact_value(value)


def _why(what: str, error: OSError) -> str:
    return f"{what}: {error.strerror or error}"
