"""Events as OpenTelemetry log records: which attribute is which field, and how grave each kind is. Pure.

A record has the event's type as its ``event_name``, the whole event as its body, and as attributes what
one looks for. Everything in it comes from the event as it was filtered for the sink: nothing of the
machine or the process is added.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from sessionpipe import __version__

if TYPE_CHECKING:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

SCOPE = "sessionpipe"
#: The version of the semantic conventions that the names below are of.
SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: What an integer of protobuf holds; beyond it a number is a double, and beyond that its digits.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_MOST_DOUBLE = int(sys.float_info.max)
#: The last nanosecond that a time of protobuf holds, in the year 2554.
_LAST_NS = (1 << 64) - 1
#: How many containers deep a body is structured; what is deeper is in it as JSON text. Parsers of protobuf
#: commonly refuse 100 messages within each other, and a table within a table is three.
_DEEPEST = 24


def _last_part(repo: str) -> str | None:
    return repo.rstrip("/").rpartition("/")[2] or None


def _browsable(repo: str) -> str | None:
    """``host/path``, as events spell a remote, as the URL it is seen at; None for a folder or a port of ssh."""
    return f"https://{repo}" if re.match(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+/", repo) else None


class Attribute(NamedTuple):
    """An attribute and the fields that may hold it, of which the first that is there does.

    ``make`` turns the field's text into the attribute's, None for none.
    """

    name: str
    fields: tuple[tuple[str, ...], ...]
    make: Callable[[str], str | None] | None = None


def _row(name: str, *fields: str, make: Callable[[str], str | None] | None = None) -> Attribute:
    return Attribute(name, tuple(tuple(field.split(".")) for field in fields), make)


#: Of the resource: the machine and the agent on it. Events that agree in these share one resource.
RESOURCE = (
    _row("service.name", "harness.name"),
    _row("service.version", "harness.version"),
    _row("host.name", "session.machine"),
)

#: Of a record: first what the semantic conventions name, then what only we have.
RECORD = (
    _row("log.record.uid", "id"),
    _row("session.id", "session.id"),
    _row("gen_ai.conversation.id", "session.id"),
    _row("gen_ai.agent.id", "data.agent_id"),
    _row("gen_ai.agent.name", "data.agent_type", "harness.name"),
    _row("gen_ai.request.model", "session.model"),
    _row("gen_ai.tool.name", "data.tool"),
    _row("gen_ai.tool.call.id", "data.call_id"),
    _row("vcs.repository.url.full", "session.repo", make=_browsable),
    _row("vcs.repository.name", "session.repo", make=_last_part),
    _row("vcs.ref.head.name", "session.branch"),
    _row("vcs.ref.head.type", "session.branch", make=lambda _: "branch"),
    _row("process.working_directory", "session.cwd"),
    _row("sessionpipe.tier", "tier"),
    _row("sessionpipe.session.seq", "session.seq"),
    _row("sessionpipe.session.title", "session.title"),
    _row("sessionpipe.session.url", "session.url"),
    _row("sessionpipe.session.account_id", "session.account_id"),
    _row("sessionpipe.session.attended", "session.attended"),
    _row("sessionpipe.session.parent_id", "session.parent_id"),
    _row("sessionpipe.session.launched_by", "session.launched_by"),
    _row("sessionpipe.session.delegated_by", "session.delegated_by"),
    _row("sessionpipe.turn.id", "data.turn_id"),
    _row("sessionpipe.attention.id", "data.attention_id"),
    _row("sessionpipe.attention.kind", "data.kind"),
    _row("sessionpipe.reason", "data.reason", "data.how"),
    _row("sessionpipe.ok", "data.ok"),
    _row("sessionpipe.duration_ms", "data.ms"),
)

#: What GenAI calls what these are about.
OPERATIONS: Mapping[str, str] = {
    "tool.started": "execute_tool",
    "tool.ended": "execute_tool",
    "turn.started": "invoke_agent",
    "turn.ended": "invoke_agent",
    "subagent.started": "invoke_agent",
    "subagent.ended": "invoke_agent",
}

#: Severity numbers by name (the log data model).
NUMBERS: Mapping[str, int] = {"DEBUG": 5, "INFO": 9, "WARN": 13, "ERROR": 17}

#: How grave an event of a type is, where it is not ``INFO``.
SEVERITY: Mapping[str, str] = {
    "session.heartbeat": "DEBUG",
    "turn.progress": "DEBUG",
    "tool.started": "DEBUG",
    "attention.needed": "WARN",
}

#: Of a type, a field of ``data`` with this value makes it as grave as this, whatever stands above.
GRAVE: tuple[tuple[str, str, Any, str], ...] = (
    ("tool.ended", "ok", False, "WARN"),
    ("turn.ended", "reason", "error", "ERROR"),
    ("attention.needed", "kind", "error", "ERROR"),
    ("attention.needed", "kind", "idle", "INFO"),
    ("delegation.ended", "ok", False, "WARN"),
)

#: Which of those are failures: no harness says of what class, so it is the conventions' own word for that.
FAILURES = frozenset(row[:3] for row in GRAVE if row[2] != "idle")
ERROR_TYPE = "_OTHER"


def request(events: Iterable[bytes], observed_ns: int) -> ExportLogsServiceRequest:
    """``events`` (JSON) as one request, in their order within each resource.

    ``observed_ns`` is when they are handed over, in nanoseconds since the epoch. Needs the package
    ``opentelemetry-proto``.
    """
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    made = ExportLogsServiceRequest()
    records: dict[tuple[Any, ...], Any] = {}
    for text in events:
        event = msgspec.json.decode(text)
        owner = tuple(_field(event, attribute) for attribute in RESOURCE)
        if owner not in records:
            of = made.resource_logs.add(schema_url=SCHEMA_URL)
            for attribute, value in zip(RESOURCE, owner, strict=True):
                _add(of.resource.attributes, attribute.name, value)
            scope = of.scope_logs.add(schema_url=SCHEMA_URL)
            scope.scope.name, scope.scope.version = SCOPE, __version__
            records[owner] = scope.log_records
        _fill_record(records[owner].add(), event, observed_ns)
    return made


def severity(type_: str, data: Mapping[str, Any]) -> tuple[str, bool]:
    """How grave an event is, by name, and whether it is a failure."""
    for row in GRAVE:
        if row[0] == type_ and data.get(row[1]) == row[2] and row[1] in data:
            return row[3], row[:3] in FAILURES
    return SEVERITY.get(type_, "INFO"), False


def _fill_record(record: LogRecord, event: dict[str, Any], observed_ns: int) -> None:
    type_, data = event.get("type") or "", event.get("data") or {}
    name, failed = severity(type_, data)
    record.time_unix_nano = _nanoseconds(event.get("time"))
    record.observed_time_unix_nano = observed_ns
    record.severity_number = NUMBERS[name]  # type: ignore[assignment]  # The stubs have an enum's type for it.
    record.severity_text = name
    record.event_name = _text(type_)
    for attribute in RECORD:
        _add(record.attributes, attribute.name, _field(event, attribute))
    _add(record.attributes, "gen_ai.operation.name", OPERATIONS.get(type_))
    if failed:
        _add(record.attributes, "error.type", ERROR_TYPE)
    _fill(record.body, event, 0)


def _field(event: Mapping[str, Any], attribute: Attribute) -> str | int | float | bool | None:
    for path in attribute.fields:
        value: Any = event
        for part in path:
            value = value.get(part) if type(value) is dict else None
        if attribute.make is not None and type(value) is str:
            value = attribute.make(value)
        if isinstance(value, (str, int, float)) and value != "":
            return value
    return None


def _add(attributes: Any, name: str, value: str | int | float | bool | None) -> None:
    if value is not None:
        attribute = attributes.add()
        attribute.key = name
        _fill(attribute.value, value, 0)


def _fill(into: AnyValue, value: Any, depth: int) -> None:
    """Put JSON into ``into``, which is empty: that is what null stays."""
    kind = type(value)
    if kind is str:
        into.string_value = _text(value)
    elif kind is bool:
        into.bool_value = value
    elif kind is int and _LEAST <= value <= _MOST:
        into.int_value = value
    elif kind is float or (kind is int and -_MOST_DOUBLE <= value <= _MOST_DOUBLE):
        into.double_value = value
    elif kind is int:
        into.string_value = msgspec.json.encode(value).decode()
    elif kind is dict or kind is list:
        if depth >= _DEEPEST:
            into.string_value = _text(msgspec.json.encode(value).decode())
        elif kind is dict:
            into.kvlist_value.SetInParent()
            pairs = into.kvlist_value.values
            for key, inner in value.items():
                pair = pairs.add()
                pair.key = _text(key)
                _fill(pair.value, inner, depth + 1)
        else:
            into.array_value.SetInParent()
            values = into.array_value.values
            for inner in value:
                _fill(values.add(), inner, depth + 1)


def _text(text: str) -> str:
    """Text as protobuf takes it: half a surrogate pair is no character."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _nanoseconds(time: Any) -> int:
    """An event's time in nanoseconds since the epoch; 0, which is "unknown", where it has none that fits."""
    try:
        at = datetime.fromisoformat(time)
        since = (at - _EPOCH) // timedelta(microseconds=1) * 1000
        return since if 0 <= since <= _LAST_NS else 0
    except (TypeError, ValueError):
        return 0
