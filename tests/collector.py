"""A real HTTP receiver that takes OTLP and reads it with OpenTelemetry's own parser."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from tests.receiver import Answer, Receiver, Request

PROTOBUF = {"content-type": "application/x-protobuf"}


@dataclass
class Record:
    """A log record with what it stands under, its attributes and its body as plain values."""

    resource: dict[str, Any]
    scope: tuple[str, str]
    schema_url: str
    raw: LogRecord
    attributes: dict[str, Any]
    body: Any


def plain(value: AnyValue) -> Any:
    """What an AnyValue holds."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [plain(inner) for inner in value.array_value.values]
    if kind == "kvlist_value":
        return pairs(value.kvlist_value.values)
    return getattr(value, kind)


def pairs(values: Any) -> dict[str, Any]:
    """Attributes, or a table, as a dict; a key stands in it once."""
    found = {pair.key: plain(pair.value) for pair in values}
    assert len(found) == len(values)
    return found


def records(body: bytes) -> list[Record]:
    """The records of an unpacked request, in order."""
    found = []
    for of in ExportLogsServiceRequest.FromString(body).resource_logs:
        for scope in of.scope_logs:
            for raw in scope.log_records:
                found.append(
                    Record(
                        pairs(of.resource.attributes),
                        (scope.scope.name, scope.scope.version),
                        scope.schema_url,
                        raw,
                        pairs(raw.attributes),
                        plain(raw.body),
                    )
                )
    return found


def received(request: Request) -> list[Record]:
    """The records of a request as it came."""
    assert request.headers["content-type"] == "application/x-protobuf"
    packed = request.headers.get("content-encoding") == "gzip"
    return records(gzip.decompress(request.body) if packed else request.body)


def taken(rejected: int = 0, message: str = "") -> Answer:
    """All was taken, but for so many."""
    partial = ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=message)
    some = rejected or message
    response = ExportLogsServiceResponse(partial_success=partial) if some else ExportLogsServiceResponse()
    return Answer(200, response.SerializeToString(), PROTOBUF)


def refused(status: int, message: str = "", code: int = 3, **headers: str) -> Answer:
    """A failure with its ``google.rpc.Status``, of which a detail is here as an unknown field."""
    # code = 1 (varint), message = 2 (text), details = 3 (a message): written by hand, as no package of
    # ours has them.
    text = message.encode()
    status_ = b"\x08" + bytes([code]) + (b"\x12" + _varint(len(text)) + text) + b"\x1a\x03\x0a\x01x"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, status_, {**PROTOBUF, **named})


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


class Collector(Receiver):
    """Takes ``POST``s of OTLP; answers them with ``answers`` in turn, then that all was taken."""

    def taken(self, request: Request) -> Answer:
        return taken()

    @property
    def records(self) -> list[Record]:
        """Every record that came, in order."""
        return [record for request in self.requests for record in received(request)]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [record.body for record in self.records]
