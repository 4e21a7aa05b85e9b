"""The OTLP sink: what a request carries, and what each of a collector's answers means for the batch."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as service

from sessionpipe.config import SinkConfig
from sessionpipe.delivery.batch import Batch
from sessionpipe.delivery.outcome import Acked, Drop, Outcome, Pause, Retry, Split
from sessionpipe.sinks.base import NotReady, Setup
from sessionpipe.sinks.keys import KeyMissing
from sessionpipe.sinks.otlp import OtlpSink, logs_url, outcome
from sessionpipe.sinks.wire import Answer as WireAnswer
from sessionpipe.sinks.wire import Wire
from tests.collector import PROTOBUF, Collector, received, refused, taken
from tests.receiver import Answer, cut, drip, drip_body, endless, garbage, hang, hang_up, reset

IDS = ("01K6ABCXYZ0123456789ABCDEF", "01K6ABCXYZ0123456789ABCDEG", "01K6ABCXYZ0123456789ABCDEH")
EVENTS = [{"id": id_, "type": "turn.started", "harness": {"name": "pi"}, "é": 1} for id_ in IDS]
BATCH = Batch("msg_1", tuple(json.dumps(event).encode() for event in EVENTS), IDS)
KEY = "key" + "Zq7" * 8
DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
THEN = 1_792_567_680.0

_MADE: list[OtlpSink] = []


def sink(
    url: str,
    *,
    env: dict[str, str] | None = None,
    log: Callable[[str, str], None] | None = None,
    deadline_s: float = 5.0,
    **config: Any,
) -> OtlpSink:
    environment = env or {}
    setup = Setup(
        SinkConfig(name="fleet", kind="otlp", url=url, **config),
        {},
        environment,
        log or (lambda _level, _message: None),
    )
    made = OtlpSink(setup, wire=Wire(environment, deadline_s))
    _MADE.append(made)
    return made


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """No test leaves a connection behind."""
    yield
    while _MADE:
        _MADE.pop().close()


def answered(answer: Answer, **how: Any) -> Outcome:
    body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
    wired = WireAnswer(answer.status, answer.headers, body)
    said = {"name": "fleet", "url": "https://collector.example/v1/logs", "now_s": THEN, **how}
    return outcome(wired, len(IDS), service, **said)


# --- what is sent -----------------------------------------------------------------------------------


def test_a_batch_is_one_packed_request_of_log_records() -> None:
    with Collector() as collector:
        assert sink(collector.url).send(BATCH) == Acked()
        (request,) = collector.requests
        assert request.path == "/v1/logs"
        assert [record.body for record in received(request)] == EVENTS
        assert request.headers["content-encoding"] == "gzip"
        assert len(request.body) < len(gzip.decompress(request.body))


def packed(collector: Collector) -> list[bool]:
    """Of each request, whether it came packed."""
    return ["content-encoding" in request.headers for request in collector.requests]


@pytest.mark.parametrize(
    "answer",
    [
        refused(415),
        refused(400, "proto: cannot parse invalid wire-format data"),
        Answer(400, b""),
        Answer(400, b"<p>?", {"content-type": "text/html"}),
        Answer(400, {"message": "unsupported encoding"}, {"content-type": "application/json"}),
    ],
)
def test_one_that_does_not_unpack_gets_it_as_it_is(answer: Answer) -> None:
    """Whatever it says: a 400 that is taken at its word costs every event."""
    with Collector(answer) as collector:
        made = sink(collector.url)
        assert made.send(BATCH) == Acked() and made.send(BATCH) == Acked()
        assert packed(collector) == [True, False, False]
        assert [record.body for record in received(collector.requests[-1])] == EVENTS


@pytest.mark.parametrize("status", [422, 500, 501])
def test_one_that_may_have_fallen_over_what_was_packed_gets_it_as_it_is_next(status: int) -> None:
    with Collector(refused(status, "oops")) as collector:
        made = sink(collector.url)
        assert made.send(BATCH) == Retry(f"HTTP {status} (oops)")
        assert made.send(BATCH) == Acked() and made.send(BATCH) == Acked()
        assert packed(collector) == [True, False, False]


def test_one_that_fails_either_way_gets_it_in_turns() -> None:
    with Collector(*[refused(500)] * 3) as collector:
        made = sink(collector.url)
        for _ in range(4):
            made.send(BATCH)
        assert packed(collector) == [True, False, True, False]


@pytest.mark.parametrize("status", [401, 404, 413, 429, 502, 503, 504])
def test_what_is_not_about_the_body_leaves_it_packed(status: int) -> None:
    with Collector(refused(status)) as collector:
        made = sink(collector.url)
        made.send(BATCH)
        made.send(BATCH)
        assert packed(collector) == [True, True]


def test_one_that_takes_it_neither_way_is_answered_for_the_second() -> None:
    with Collector(refused(415), refused(400, "bad"), refused(415), refused(503)) as collector:
        made = sink(collector.url)
        assert made.send(BATCH) == Drop("HTTP 400 (bad)")
        assert made.send(BATCH) == Retry("HTTP 503")
        assert packed(collector) == [True, False, True, False]


def test_of_one_that_unpacks_a_refusal_means_what_it_says() -> None:
    with Collector(taken(), refused(400, "bad"), Answer(400, b""), refused(500)) as collector:
        made = sink(collector.url)
        found = [made.send(BATCH) for _ in range(5)]
        assert found == [Acked(), Drop("HTTP 400 (bad)"), Drop("HTTP 400"), Retry("HTTP 500"), Acked()]
        assert packed(collector) == [True] * 5


def test_one_that_unpacks_no_more_gets_it_as_it_is() -> None:
    """Another took its place while the worker was at work."""
    with Collector(taken(), refused(415)) as collector:
        made = sink(collector.url)
        assert [made.send(BATCH) for _ in range(3)] == [Acked()] * 3
        assert packed(collector) == [True, True, False, False]


@pytest.mark.parametrize(
    ("url", "logs"),
    [
        ("https://c.example:4318", "https://c.example:4318/v1/logs"),
        ("https://c.example:4318/", "https://c.example:4318/v1/logs"),
        ("https://c.example/otlp", "https://c.example/otlp/v1/logs"),
        ("https://c.example/otlp/v1/logs", "https://c.example/otlp/v1/logs"),
        ("https://c.example/v1/logs/", "https://c.example/v1/logs"),
        ("https://c.example/in?team=7", "https://c.example/in/v1/logs?team=7"),
    ],
)
def test_logs_go_below_the_collectors_address(url: str, logs: str) -> None:
    assert logs_url(url) == logs


def test_headers_go_with_every_request_wherever_they_are_kept(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    headers: dict[str, Any] = {"X-Team": "blue", "x-a": {"env": "A"}, "x-b": {"file": str(tmp_path / "key")}}
    with Collector() as collector:
        made = sink(collector.url, headers=headers, env={"A": "from env"}, token="tok123")
        assert made.send(BATCH) == Acked()
        found = collector.requests[0].headers
        assert [found[name] for name in ("x-team", "x-a", "x-b")] == ["blue", "from env", KEY]
        assert found["authorization"] == "Bearer tok123"


def test_a_header_of_ones_own_replaces_none_that_the_request_needs() -> None:
    """A config that was written by hand is refused such a header; this is the second line."""
    with Collector() as collector:
        sink(collector.url, headers={"Content-Type": "text/plain"}).send(BATCH)
        assert collector.requests[0].headers["content-type"] == "application/x-protobuf"


@pytest.mark.parametrize("where", [{"env": "GONE"}, {"file": "/nowhere/key"}])
def test_it_waits_for_a_header_that_is_not_there(where: dict[str, str]) -> None:
    with Collector() as collector, pytest.raises(KeyMissing, match=r"GONE|/nowhere/key"):
        sink(collector.url, headers={"x-key": where}).send(BATCH)
    assert collector.requests == []


def test_a_file_that_others_can_read_is_warned_of_once(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o644)
    said: list[str] = []
    with Collector() as collector:
        made = sink(collector.url, headers={"k": {"file": str(file)}}, log=lambda _, line: said.append(line))
        made.send(BATCH)
        made.send(BATCH)
    (line,) = said
    assert str(file) in line and KEY not in line


@pytest.mark.parametrize("url", ["http://collector.example:4318", "ftp://c", "collector:4318", ""])
def test_an_address_that_is_no_collectors_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="otlp:https://collector:4318"):
        sink(url)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.proto.collector.logs.v1", None)
    with pytest.raises(NotReady, match="pip install 'opentelemetry-proto"):
        sink("https://collector.example")


# --- what a 2xx means -------------------------------------------------------------------------------


def test_what_was_rejected_is_given_up_and_not_sent_again() -> None:
    found = answered(taken(2, "too old"))
    assert found == Acked(odd="it will not store 2 of 3 events: too old", unnamed=2)


def test_more_than_was_sent_can_not_be_rejected() -> None:
    assert answered(taken(99)) == Acked(
        odd="it will not store 3 of 3 events, and does not say why", unnamed=3
    )


def test_a_warning_rejects_nothing() -> None:
    assert answered(taken(0, "use v2")) == Acked(odd="it took the events and says: use v2")
    assert answered(taken(-3, "?")) == Acked(odd="it took the events and says: ?")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, Acked()),
        ({"partialSuccess": {}}, Acked()),
        (
            {"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "x"}},
            Acked(odd="it will not store 1 of 3 events: x", unnamed=1),
        ),
        (
            {"partialSuccess": {"rejectedLogRecords": "1e9", "errorMessage": "x"}},
            Acked(odd="it took the events and says: x"),
        ),
        (
            {"partialSuccess": {"rejectedLogRecords": 2, "errorMessage": None}},
            Acked(odd="it will not store 2 of 3 events, and does not say why", unnamed=2),
        ),
    ],
)
def test_a_collector_may_answer_in_json(body: Any, expected: Outcome) -> None:
    assert answered(Answer(200, body, {"content-type": "application/json; charset=utf-8"})) == expected


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_an_empty_answer_took_everything(status: int) -> None:
    assert answered(Answer(status, b"")) == Acked()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>", "text/html"),
        (b"<html>", "application/x-protobuf"),
        (b"\xff" * 50, "application/x-protobuf"),
        (b"[" * 50_000, "application/json"),
        (b'{"partialSuccess": 7}', "application/json"),
        (b"ok", "text/plain"),
    ],
)
def test_a_2xx_of_something_else_moves_on_and_is_remarked(body: bytes, kind: str) -> None:
    found = answered(Answer(200, body, {"content-type": kind}))
    assert found == Acked(odd="it answers HTTP 200 with what is not OTLP's; is the address right?")


@pytest.mark.parametrize("body", [taken(2, "too old").body, taken(2, "too old").body[:-3], b'{"a":'])
def test_of_a_2xx_that_broke_off_nothing_is_believed_but_that(body: Any) -> None:
    """Half a message of protobuf may well be another one."""
    for kind in ("application/x-protobuf", "application/json"):
        answer = WireAnswer(200, {"content-type": kind}, body, cut=True)
        assert outcome(answer, len(IDS), service) == Acked()


# --- what a refusal means ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (400, "cannot parse", Drop("HTTP 400 (cannot parse)")),
        (400, "", Drop("HTTP 400")),
        (400, "http: request body too large", Split("HTTP 400 (http: request body too large)")),
        (400, "payload exceeds the limit", Split("HTTP 400 (payload exceeds the limit)")),
        (413, "", Split("HTTP 413")),
        (429, "slow", Retry("HTTP 429, too many requests (slow)")),
        (500, "oops", Retry("HTTP 500 (oops)")),
        (502, "", Retry("HTTP 502")),
        (503, "full", Retry("HTTP 503 (full)")),
        (504, "", Retry("HTTP 504")),
        (415, "", Retry("HTTP 415")),
        (
            404,
            "",
            Retry(
                "HTTP 404: nothing takes events at https://collector.example/v1/logs; is the address right?"
            ),
        ),
    ],
)
def test_a_refusal_means_what_the_table_says(status: int, message: str, expected: Outcome) -> None:
    assert answered(refused(status, message)) == expected


@pytest.mark.parametrize("status", [301, 302, 307, 401, 403])
def test_what_a_person_has_to_mend_pauses(status: int) -> None:
    found = answered(refused(status, "nope"), shown="the header x-key")
    assert isinstance(found, Pause) and "sinks resume fleet" in found.reason


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize(("after", "seconds"), [("7", 7.0), (DATE, 0.0), ("soon", None)])
def test_the_wait_that_is_asked_for_is_kept(status: int, after: str, seconds: float | None) -> None:
    found = answered(refused(status, retry_after=after))
    assert isinstance(found, Retry) and found.after_s == seconds


def test_of_other_statuses_no_wait_is_heeded() -> None:
    assert answered(refused(500, retry_after="7")) == Retry("HTTP 500")


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        ({"code": 3, "message": "bad"}, "application/json", " (bad)"),
        ({"code": 3, "message": None}, "application/json", ""),
        (b"bad\nthing", "text/plain; charset=utf-8", " (bad thing)"),
        (b"<h1>bad</h1>", "text/html", ""),
        (b"\xff\xff", "application/x-protobuf", ""),
    ],
)
def test_the_reason_is_read_however_it_is_told(body: Any, kind: str, reason: str) -> None:
    assert answered(Answer(500, body, {"content-type": kind})) == Retry(f"HTTP 500{reason}")


ODD_KEY = "a/b+c=" + "Yx8" * 6


@pytest.mark.parametrize("secret", [KEY, ODD_KEY, f"Api-Token {KEY}", f"Basic {ODD_KEY}"])
@pytest.mark.parametrize("echo", ["{}", "{} " * 40, "{}" * 40, "x" * 990 + "{}"])
@pytest.mark.parametrize("whole", [True, False])
def test_an_echo_of_a_credential_is_not_repeated(secret: str, echo: str, whole: bool) -> None:
    """Wherever it stands in an answer, and also of the credential in a header without the scheme before it."""
    key = secret.split()[-1]
    said = echo.replace("{}", secret if whole else key)
    where = {"content-type": "text/plain"}
    for answer in (
        *(refused(status, said) for status in (400, 401, 403, 429, 500)),
        taken(1, said),
        taken(0, said),
        Answer(401, said.encode(), where),
        Answer(500, {"message": said}, {"content-type": "application/json"}),
        Answer(200, {"partialSuccess": {"errorMessage": said}}, {"content-type": "application/json"}),
        *(Answer(302, b"", {"location": f"/in/{form(said)}?k=1"}) for form in (str, quote, _quoted)),
        Answer(307, b"", {"location": f"https://{key}.example/"}),
    ):
        told = repr(answered(answer, secrets=["blue", secret]))
        assert key[:12] not in told and _quoted(key)[:12] not in told


@pytest.mark.parametrize(
    "settings",
    [
        {"token": KEY},
        {"token_env": "K"},
        {"headers": {"k": KEY}},
        {"headers": {"j": "blue", "k": {"env": "K"}}},
    ],
)
def test_wherever_a_credential_is_kept_its_echo_is_not_repeated(settings: dict[str, Any]) -> None:
    answers = [
        refused(401, f"who is {KEY}?"),
        taken(1, f"{KEY} is full"),
        Answer(302, b"", {"location": f"/{KEY}"}),
    ]
    with Collector(*answers) as collector:
        made = sink(collector.url, env={"K": KEY}, **settings)
        told = repr([made.send(BATCH) for _ in answers])
    assert told.count("[redacted]") == 3 and KEY not in told


def _quoted(text: str) -> str:
    return quote(text, safe="")


def test_what_is_no_credential_is_not_taken_out_of_words() -> None:
    assert answered(refused(500, "10 of 10"), secrets=["1", "", "of"]) == Retry("HTTP 500 (10 of 10)")


def test_a_401_names_the_headers_and_not_their_values() -> None:
    with Collector(refused(401, "unknown")) as collector:
        found = sink(collector.url, headers={"api-key": KEY, "x-team": "blue"}).send(BATCH)
    assert isinstance(found, Pause)
    assert "refused the headers api-key, x-team (unknown)" in found.reason
    assert KEY not in found.reason and "blue" not in found.reason


KINDS = st.sampled_from(
    ["", "application/x-protobuf", "application/json", "text/plain", "text/html; q=1", "\xe9"]
)


@given(st.integers(200, 599), st.binary(max_size=200), KINDS, st.booleans())
def test_whatever_is_answered_has_a_meaning_that_can_be_shown(
    status: int, body: bytes, kind: str, broke: bool
) -> None:
    found = outcome(WireAnswer(status, {"content-type": kind}, body, broke), len(IDS), service)
    words = [getattr(found, name, None) for name in ("error", "reason", "odd")]
    assert all(word.isprintable() and len(word) < 600 for word in words if word)
    assert isinstance(found, Acked) == (status < 300)
    assert not isinstance(found, Acked) or 0 <= found.unnamed <= len(IDS)


# --- when there is no answer ------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [reset, hang_up, garbage, hang, drip])
def test_without_an_answer_it_is_tried_again(fault: Any) -> None:
    with Collector(Answer(raw=fault)) as collector:
        found = sink(collector.url, deadline_s=0.3).send(BATCH)
    assert isinstance(found, Retry) and not found.connect


def test_one_that_is_away_could_not_be_reached() -> None:
    with Collector() as collector:
        url = collector.url
    found = sink(url).send(BATCH)
    assert isinstance(found, Retry) and found.connect


@pytest.mark.parametrize("fault", [cut, endless, drip_body])
def test_a_2xx_counts_whatever_becomes_of_its_body(fault: Any) -> None:
    with Collector(Answer(raw=fault(200))) as collector:
        assert isinstance(sink(collector.url, deadline_s=0.3).send(BATCH), Acked)


def test_a_400_that_broke_off_is_asked_for_again() -> None:
    with Collector(Answer(raw=cut(400))) as collector:
        assert isinstance(sink(collector.url, deadline_s=0.3).send(BATCH), Retry)


def test_an_answer_of_a_megabyte_is_read_to_a_bound() -> None:
    with Collector(Answer(503, b"\x0a" + b"x" * (1 << 20), PROTOBUF)) as collector:
        assert sink(collector.url).send(BATCH) == Retry("HTTP 503")


def test_the_module_of_the_protocol_is_the_official_one() -> None:
    assert isinstance(service, ModuleType) and service.__name__.startswith("opentelemetry.proto.")
