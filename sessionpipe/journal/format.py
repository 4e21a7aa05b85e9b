"""The session event journal's format: names, the event catalogue as one table, limits.

Version 1 of ``pi-workflows.session-event``. Recorder, validator and reducer read the same table, so
none of them can know an event that another does not. Pure data; imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

# -- Schemas and names --

BUNDLE_SCHEMA: Final = "pi-workflows.run-bundle.v1"
BINDING_SCHEMA: Final = "pi-workflows.session-binding.v1"
EVENT_SCHEMA: Final = "pi-workflows.session-event.v1"
CAPTURE_SCHEMA: Final = "pi-workflows.session-capture.v1"
FIXTURE_SCHEMA: Final = "pi-workflows.session-event-fixture.v1"

MANIFEST: Final = "manifest.json"
SESSION: Final = "session"
ARTIFACTS: Final = "artifacts"
SEGMENTS: Final = "segments"
BINDING: Final = "binding.json"
ENTRIES: Final = "entries.ndjson"
EVENTS: Final = "events.ndjson"
CAPTURE: Final = "capture.json"

#: ``capture.json``'s status: may grow; everything is there; something may be missing.
RECORDING: Final = "recording"
COMPLETE: Final = "complete"
FAILED: Final = "failed"
CAPTURE_STATUSES: Final = (RECORDING, COMPLETE, FAILED)

#: A manifest's status while its run goes on.
RUNNING: Final = "running"
#: Its statuses that say the run is over. ``finishedAt`` says so too, whatever the status is called.
TERMINAL_STATUSES: Final = (
    "complete",
    "completed",
    "succeeded",
    "failed",
    "aborted",
    "cancelled",
    "canceled",
)

# -- Limits --

#: One record as bytes of its line, the line feed not counted.
MAX_RECORD_BYTES: Final = 1 << 20
QUEUE_RECORDS: Final = 8192
QUEUE_BYTES: Final = 16 << 20
FLUSH_RECORDS: Final = 256
FLUSH_BYTES: Final = 256 << 10
#: How long a recorder waits at its end for a turn that is still going on.
TURN_WAIT_S: Final = 30.0

#: A string leaf with more UTF-8 bytes than this is an artifact.
ARTIFACT_ABOVE_BYTES: Final = 4096
ARTIFACT_KEY: Final = "$artifact"
ESCAPED_KEY: Final = "$escaped"
ARTIFACT_MEDIA_TYPE: Final = "text/plain"
ARTIFACT_NAME: Final = re.compile(r"sha256-([0-9a-f]{64})\.txt\Z")

#: The largest integer every JSON reader keeps exactly.
MAX_INTEGER: Final = (1 << 53) - 1

# -- Kinds of values --


class Kind(NamedTuple):
    """What a field holds: its name in a message ("not a string") and the test for it."""

    name: str
    accepts: Callable[[Any], bool]


def _is_count(value: Any) -> bool:
    # As JSON writes an integer: true and 1.0 are none.
    return type(value) is int and 0 <= value <= MAX_INTEGER


_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:[Zz]|[+-]\d\d:?\d\d)?\Z", re.ASCII)


def parse_time(value: object) -> float | None:
    """An ISO 8601 date and time as epoch seconds (UTC where it names no offset); None for what is none."""
    if not isinstance(value, str) or not _TIME.match(value):
        return None
    try:
        time = datetime.fromisoformat(value.upper())
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


STRING: Final = Kind("a string", lambda value: isinstance(value, str))
ID: Final = Kind("a string that is not empty", lambda value: isinstance(value, str) and value != "")
TIME: Final = Kind("an ISO 8601 time", lambda value: parse_time(value) is not None)
COUNT: Final = Kind("a non-negative integer", _is_count)
SEQ: Final = Kind("a positive integer", lambda value: _is_count(value) and value > 0)
BOOLEAN: Final = Kind("true or false", lambda value: isinstance(value, bool))
OBJECT: Final = Kind("an object", lambda value: isinstance(value, dict))
IDS: Final = Kind(
    "an array of strings",
    lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
)
ANY: Final = Kind("any value", lambda _: True)


def one_of(*values: str) -> Kind:
    """The kind of a string that is one of ``values``."""
    return Kind(" or ".join(values), lambda value: isinstance(value, str) and value in values)


class Field(NamedTuple):
    """A field's kind, and whether it has to be there."""

    kind: Kind
    required: bool = True


Fields = Mapping[str, Field]

# -- The event record --

#: What every record of ``events.ndjson`` has. The correlation ids are required by type.
RECORD: Final[Fields] = {
    "seq": Field(SEQ),
    "at": Field(TIME),
    "nodeId": Field(ID),
    "attemptId": Field(ID),
    "turnId": Field(ID, required=False),
    "messageId": Field(ID, required=False),
    "toolCallId": Field(ID, required=False),
    "type": Field(ID),
    "payload": Field(OBJECT),
}

TURN: Final = ("turnId",)
MESSAGE: Final = ("turnId", "messageId")
TOOL: Final = ("turnId", "messageId", "toolCallId")


@dataclass(frozen=True)
class Event:
    """One event type.

    ``ids``: the correlation ids it requires; the last of them names the thing it is about.
    ``payload``: its fields; others are ignored. ``of``: for an event about something begun earlier,
    the type of the event that began it; ``ends``: this one ends it.
    """

    ids: tuple[str, ...]
    payload: Fields
    of: str | None = None
    ends: bool = False

    @property
    def id(self) -> str:
        """The field that names what the event is about."""
        return self.ids[-1]


EVENT_TYPES: Final[Mapping[str, Event]] = {
    "turn_started": Event(TURN, {"turnIndex": Field(COUNT)}),
    "turn_finished": Event(
        TURN,
        {
            "turnIndex": Field(COUNT),
            # A recording that began inside a turn never saw the message it could name.
            "messageId": Field(ID, required=False),
            "toolCallIds": Field(IDS),
        },
        of="turn_started",
        ends=True,
    ),
    "message_started": Event(MESSAGE, {"role": Field(ID)}),
    # Its payload has a shape of its own: ASSISTANT_EVENTS.
    "assistant_event": Event(MESSAGE, {"type": Field(ID)}, of="message_started"),
    "message_finished": Event(
        MESSAGE,
        {
            "role": Field(ID),
            "settled": Field(BOOLEAN),
            # Required when settled, forbidden when not.
            "entryId": Field(ID, required=False),
        },
        of="message_started",
        ends=True,
    ),
    # A value JavaScript calls undefined is not written, so nothing of kind ANY can be required.
    "tool_execution_started": Event(TOOL, {"toolName": Field(ID), "args": Field(ANY, required=False)}),
    "tool_execution_updated": Event(TOOL, {}, of="tool_execution_started"),
    "tool_execution_finished": Event(
        TOOL,
        {"toolName": Field(ID), "isError": Field(BOOLEAN), "result": Field(ANY, required=False)},
        of="tool_execution_started",
        ends=True,
    ),
}

_AT: Final[Fields] = {"contentIndex": Field(COUNT)}
_DELTA: Final[Fields] = {**_AT, "delta": Field(STRING)}
_END: Final[Fields] = {**_AT, "content": Field(STRING)}

#: ``assistant_event``'s payload by its ``type``: the fields beside it, and no others, are recorded.
ASSISTANT_EVENTS: Final[Mapping[str, Fields]] = {
    "start": {},
    "text_start": _AT,
    "text_delta": _DELTA,
    "text_end": _END,
    "thinking_start": _AT,
    "thinking_delta": _DELTA,
    "thinking_end": _END,
    "toolcall_start": _AT,
    "toolcall_delta": _DELTA,
    "toolcall_end": {**_AT, "toolCall": Field(ANY, required=False)},
    "done": {"reason": Field(one_of("stop", "length", "toolUse"))},
    "error": {"reason": Field(one_of("aborted", "error"))},
}

# -- The files beside it --

CAPTURE_FIELDS: Final[Fields] = {
    "schema": Field(one_of(CAPTURE_SCHEMA)),
    "eventSchema": Field(ID),
    "status": Field(one_of(*CAPTURE_STATUSES)),
    "eventCount": Field(COUNT),
    "entryCount": Field(COUNT),
    "lastEventSeq": Field(COUNT),
    "failure": Field(OBJECT, required=False),
}
FAILURE_FIELDS: Final[Fields] = {"failedAt": Field(TIME), "code": Field(ID), "message": Field(STRING)}

BINDING_FIELDS: Final[Fields] = {
    "schema": Field(one_of(BINDING_SCHEMA)),
    "runId": Field(ID),
    "piSessionId": Field(ID),
    "piSessionFile": Field(STRING, required=False),
    "cwd": Field(STRING),
    "boundAt": Field(TIME),
}

#: A line of ``entries.ndjson``; of the entry itself a reader needs an object, no more.
ENTRY_FIELDS: Final[Fields] = {"seq": Field(SEQ), "at": Field(TIME), "entry": Field(OBJECT)}

MANIFEST_FIELDS: Final[Fields] = {
    "schema": Field(one_of(BUNDLE_SCHEMA)),
    "runId": Field(ID),
    "workflowName": Field(STRING),
    "startedAt": Field(TIME),
    "finishedAt": Field(TIME, required=False),
    "status": Field(ID),
    "paths": Field(OBJECT),
}

ARTIFACT_FIELDS: Final[Fields] = {
    "path": Field(ID),
    "mediaType": Field(STRING),
    "bytes": Field(COUNT),
    "sha256": Field(ID),
}


def misfits(fields: Fields, value: Mapping[str, Any]) -> list[str]:
    """What is wrong with ``value`` as an object of these fields, a phrase each; unknown fields are fine."""
    wrong = []
    for name, field in fields.items():
        if name not in value:
            if field.required:
                wrong.append(f"{name} is missing")
        elif not field.kind.accepts(value[name]):
            wrong.append(f"{name} is not {field.kind.name}")
    return wrong
