"""The OTLP sink: events as log records to an OpenTelemetry Collector, by OTLP/HTTP with protobuf.

``POST <url>/v1/logs``, gzipped where the collector takes it. An answer means what OTLP says of it, with two
liberties. A status that OTLP would have a sender give the data up for (a 500, a 404) is tried again by the
ladder, as it is for every sink: the outbox can keep what an exporter's memory can't, and a collector that
was set up wrongly for an hour must not cost an hour. And a 400 that is about the size, which is what the
Collector answers to a body over its limit, is taken for a 413.

OTLP has no way to take anything back: a session that is forgotten is said so in one more record, and what
was sent before it stays with whatever the collector feeds. Nor does it know a repeat; each record has
the event's id as ``log.record.uid``, by which whoever stores it can.
"""

from __future__ import annotations

import gzip
import re
import shlex
import sys
import time
from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from sessionpipe.config import refuse_url
from sessionpipe.delivery.batch import Batch, Limits
from sessionpipe.delivery.outcome import Acked, Drop, Outcome, Retry, Split
from sessionpipe.sinks import answers, keys, otlp_records
from sessionpipe.sinks.base import NotReady, Setup, Sink
from sessionpipe.sinks.wire import Answer, Unreachable, Wire, without_echoes

#: In JSON. A small event is two and a half times that as a record, a large one hardly more: a body stays below
#: the 1 MiB of the more careful gateways (the Collector itself takes 20).
_LIMITS = Limits(max_events=200, max_bytes=400 * 1024)

PROTOBUF = "application/x-protobuf"
#: Of which ``Retry-After`` is heeded (OTLP/HTTP, *Retryable Response Codes*).
THROTTLED = frozenset({429, 502, 503, 504})

#: What a receiver answers, besides a 400, that fell over a body.
_FELL_OVER = frozenset({422, 500, 501})

_TOO_BIG = re.compile(
    r"too (?:large|big)|(?:exceed|over|larger|bigger).{0,40}(?:size|limit|bytes)", re.IGNORECASE
)


class OtlpSink(Sink):
    """Sends to the collector at ``setup.config.url``."""

    # No collector knows a batch, but a repeat is the same records all the same: the rules are http's.
    knows_messages = True

    def __init__(
        self, setup: Setup, *, wire: Wire | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        if why := refuse_url(setup.config.url or ""):
            raise ValueError(
                f"an otlp sink needs the collector's URL, as in otlp:https://collector:4318; this {why}"
            )
        self._setup = setup
        self._url = logs_url(setup.config.url or "")
        self._wire = wire or Wire(setup.env)
        self._clock = clock
        self._service = _service()
        # Whether it unpacks, None until it has taken something; and whether it may be what it can't.
        self._packs: bool | None = None
        self._doubted = False
        self._warned = False

    def limits(self) -> Limits:
        return _LIMITS

    def send(self, batch: Batch) -> Outcome:
        config = self._setup.config
        token, own = self._setup.token(), self._setup.headers()
        self._warn_once()
        now_s = self._clock()
        body = otlp_records.request(batch.events, int(now_s * 1_000_000_000)).SerializeToString()
        headers = {name.lower(): value for name, value in own.items()}
        headers |= {"content-type": PROTOBUF, "accept": PROTOBUF}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        try:
            answer = self._post(headers, body)
        except Unreachable as error:
            return Retry(str(error), connect=error.connect)
        return outcome(
            answer,
            len(batch.ids),
            self._service,
            name=config.name,
            url=self._url,
            now_s=now_s,
            shown=answers.shown(config, token=token is not None),
            secrets=[token or "", *own.values()],
        )

    def _post(self, headers: dict[str, str], body: bytes) -> Answer:
        """Send ``body`` packed, unless the collector does not unpack; OTLP leaves that to it.

        Only a 415 says so; small receivers answer a 400 or a 500 to what they could not parse. Of one that has
        never taken a packed body, a 400, by which events are given up, counts only for the body as it is;
        and after a 500 that is what it gets next.
        """
        packed = self._packs is not False and not self._doubted
        self._doubted = False
        if packed:
            # Level 1: it halves the time, and bodies that repeat themselves as these do stay small.
            how = {**headers, "content-encoding": "gzip"}
            answer = self._wire.request("POST", self._url, how, gzip.compress(body, 1))
            self._packs = self._packs or _is_taken(answer) or None
            self._doubted = not self._packs and answer.status in _FELL_OVER
            if answer.status != 415 and (self._packs or not self._gives_up(answer)):
                return answer
        answer = self._wire.request("POST", self._url, headers, body)
        self._packs = False if _is_taken(answer) else self._packs
        return answer

    def _gives_up(self, answer: Answer) -> bool:
        return isinstance(outcome(answer, 0, self._service), Drop)

    def close(self) -> None:
        self._wire.close()

    def _warn_once(self) -> None:
        if not self._warned:
            self._warned = True
            keys.warn(self._setup.config, self._setup.env, self._setup.log)


def logs_url(url: str) -> str:
    """Where logs go at the collector's ``url``, which may name that itself."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith("/v1/logs") else f"{path}/v1/logs"))


def outcome(
    answer: Answer,
    sent: int,
    service: ModuleType,
    *,
    name: str = "NAME",
    url: str = "",
    now_s: float = 0.0,
    shown: str = "",
    secrets: Collection[str] = (),
) -> Outcome:
    """What ``answer`` to ``sent`` records means (OTLP/HTTP, *OTLP/HTTP Response*). Pure.

    ``service`` is the module of the protocol's messages. Nothing of ``secrets`` is in what is said.
    """
    if _is_taken(answer):
        return _taken(answer, sent, service, secrets)
    answer = answer.without(secrets, body=False)
    reason = _clean(_failure(answer, service), secrets)
    if answer.status == 400 and _TOO_BIG.search(reason):
        return Split(f"HTTP 400 ({reason})")
    if answer.status == 400 and answer.cut:
        return Retry("HTTP 400, and the answer broke off before its reason")
    return answers.refused(answer, reason, name=name, url=url, now_s=now_s, shown=shown, throttled=THROTTLED)


def _is_taken(answer: Answer) -> bool:
    return 200 <= answer.status < 300


def _taken(answer: Answer, sent: int, service: ModuleType, secrets: Collection[str]) -> Acked:
    """A 2xx: what of the records it does not take is not to be sent again (*Partial Success*)."""
    found = _partial(answer, service)
    if found is None:
        return Acked(odd=f"it answers HTTP {answer.status} with what is not OTLP's; is the address right?")
    rejected, message = found[0], _clean(found[1], secrets)
    if rejected <= 0:
        return Acked(odd=f"it took the events and says: {message}" if message else None)
    lost = min(rejected, sent)
    because = f": {message}" if message else ", and does not say why"
    return Acked(odd=f"it will not store {lost} of {sent} events{because}", unnamed=lost)


def _partial(answer: Answer, service: ModuleType) -> tuple[int, str] | None:
    """How many records a 2xx says were rejected, and its words; None when it can't be read."""
    if answer.cut or not answer.body:
        return 0, ""
    if _is_json(answer):
        said = _json(answer.body)
        inner = None if said is None else said.get("partialSuccess", {})
        if not isinstance(inner, dict):
            return None
        # JSON of protobuf has 64-bit numbers in quotes.
        count = str(inner.get("rejectedLogRecords", 0))
        return int(count) if re.fullmatch(r"[0-9]{1,18}", count) else 0, _words(inner.get("errorMessage"))
    if _content_type(answer) not in (PROTOBUF, ""):
        return None
    response = _parsed(service.ExportLogsServiceResponse, answer.body)
    if response is None:
        return None
    return response.partial_success.rejected_log_records, response.partial_success.error_message


def _failure(answer: Answer, service: ModuleType) -> str:
    """The words of an answer that is no 2xx; empty where there are none."""
    if _is_json(answer):
        return _words((_json(answer.body) or {}).get("message"))
    if _content_type(answer) == "text/plain":
        return answer.body.decode("utf-8", "replace")
    # A google.rpc.Status, whose first two fields are those of a partial success: a number and a text.
    status = _parsed(service.ExportLogsPartialSuccess, answer.body)
    return "" if status is None or _content_type(answer) not in (PROTOBUF, "") else str(status.error_message)


def _parsed(message: Any, body: bytes) -> Any:
    from google.protobuf.message import DecodeError

    found = message()
    try:
        found.ParseFromString(body)
    except DecodeError:
        return None
    return found


def _content_type(answer: Answer) -> str:
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


def _is_json(answer: Answer) -> bool:
    return _content_type(answer) == "application/json"


def _json(body: bytes) -> dict[str, Any] | None:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _words(said: Any) -> str:
    return said if isinstance(said, str) else ""


def _clean(text: str, secrets: Collection[str]) -> str:
    """A collector's words in one line, without an echo of what it was shown."""
    return answers.line(without_echoes(text, secrets))


def _service() -> ModuleType:
    try:
        from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
    except ImportError as error:
        raise NotReady(
            "an otlp sink needs the package opentelemetry-proto:"
            f" `{shlex.quote(sys.executable)} -m pip install 'opentelemetry-proto>=1.35'`"
            f" (or sessionpipe[otlp]) ({error})"
        ) from None
    return logs_service_pb2
