"""The HTTP sink: what a request carries, and what each answer means for the batch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionpipe.config import SinkConfig
from sessionpipe.delivery.batch import Batch
from sessionpipe.delivery.outcome import Acked, Drop, LowerTier, Outcome, Pause, Retry, Split
from sessionpipe.sinks.base import Learned
from sessionpipe.sinks.http import HttpSink, ask, outcome
from sessionpipe.sinks.wire import Answer as WireAnswer
from sessionpipe.sinks.wire import Wire
from tests.laws import MANY
from tests.receiver import (
    Answer,
    Receiver,
    bomb,
    cut,
    drip,
    drip_body,
    endless,
    garbage,
    hang,
    hang_up,
    reset,
)

IDS = ("01K6ABCXYZ0123456789ABCDEF", "01K6ABCXYZ0123456789ABCDEG")
BATCH = Batch("msg_1", tuple(json.dumps({"id": id_, "é": 1}).encode() for id_ in IDS), IDS)
TOKEN = "tok" + "Zq7" * 8
DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
THEN = 1_792_567_680.0
WELL_KNOWN = {"protocol": [1], "capabilities": ["events"]}


def sink(
    url: str,
    *,
    env: dict[str, str] | None = None,
    known: dict[str, Any] | None = None,
    log: Callable[[str, str], None] | None = None,
    deadline_s: float = 5.0,
    **config: Any,
) -> HttpSink:
    environment = env or {}
    return HttpSink(
        SinkConfig(name="board", kind="http", url=url, **config),
        known or {},
        env=environment,
        log=log or (lambda _level, _message: None),
        wire=Wire(environment, deadline_s),
    )


def answered(status: int, body: Any = None, **headers: str) -> Outcome:
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return outcome(
        WireAnswer(status, named, encoded), IDS, name="board", url="https://board.example/in", now_s=THEN
    )


# --- the table of answers ---------------------------------------------------------------------------


def test_202_moves_on_and_says_what_was_refused() -> None:
    body = {
        "accepted": 1,
        "duplicates": 0,
        "rejected": [{"id": IDS[0], "reason": "tier_type"}],
        "max_tier": 1,
    }
    assert answered(202, body) == Acked(((IDS[0], "tier_type"),), 1)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 50_000,
        {"rejected": 7, "max_tier": "1"},
        {"accepted": 10**4000, "duplicates": 0},
        {"accepted": -1, "duplicates": 3},
    ],
)
def test_any_2xx_moves_on_whatever_its_body_and_that_is_remarked(status: int, body: Any) -> None:
    odd = f"it answers HTTP {status} without saying what it took; is the address right?"
    assert answered(status, body) == Acked(odd=odd)


@pytest.mark.parametrize(
    ("body", "counted"),
    [
        ({"accepted": 1, "duplicates": 1}, None),
        ({"accepted": 0, "duplicates": 1, "rejected": [{"id": IDS[0], "reason": "x"}]}, None),
        ({"accepted": 1, "duplicates": 0, "rejected": []}, 1),
        ({"accepted": 2, "duplicates": 2, "rejected": []}, 4),
    ],
)
def test_counts_that_do_not_add_up_are_remarked(body: Any, counted: int | None) -> None:
    found = answered(202, body)
    odd = None if counted is None else f"it answers for {counted} events where 2 were sent"
    assert isinstance(found, Acked) and found.odd == odd


def test_a_refusal_of_what_was_not_sent_is_nobodys() -> None:
    refused = [{"id": "01K6ABCXYZ0123456789ABCDEZ", "reason": "x"}, {"id": 7}, 8, *[{"id": IDS[1]}] * 3]
    found = answered(202, {"rejected": refused})
    assert isinstance(found, Acked) and found.rejected == ((IDS[1], "no reason given"),)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, {"reason": "bad_event"}, Drop("HTTP 400 (bad_event)")),
        (400, b"nonsense", Drop("HTTP 400")),
        (403, {"reason": "tier_above_max", "max_tier": 1}, LowerTier(1)),
        (413, {"reason": "too_big"}, Split("HTTP 413 (too_big)")),
        (429, None, Retry("HTTP 429, too many requests")),
        (500, None, Retry("HTTP 500")),
        (503, {"reason": "later"}, Retry("HTTP 503 (later)")),
        (
            404,
            None,
            Retry("HTTP 404: nothing takes events at https://board.example/in; is the address right?"),
        ),
        (418, None, Retry("HTTP 418")),
    ],
)
def test_what_each_status_means(status: int, body: Any, expected: Outcome) -> None:
    assert answered(status, body) == expected


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, {"reason": "expired"}, ["refused the token (expired)", "sinks resume board"]),
        (302, None, ["points to nowhere", "sinks resume board"]),
        (403, {"reason": "banned"}, ["refuses this sink (banned)", "sinks resume board"]),
        (403, {"reason": "tier_above_max"}, ["refuses this tier", "sinks set board --tier"]),
        (403, {"reason": "tier_above_max", "max_tier": 9}, ["refuses this tier", "sinks set board --tier"]),
        (400, {"reason": "unsupported_protocol", "supported": [2, 3]}, ["protocol 1 (it speaks 2, 3)"]),
        (400, {"reason": "unsupported_protocol"}, ["protocol 1", "sinks resume board"]),
    ],
)
def test_what_stops_a_sink_says_why_and_how_to_go_on(status: int, body: Any, says: list[str]) -> None:
    stopped = answered(status, body)
    assert isinstance(stopped, Pause) and all(part in stopped.reason for part in says)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_stops_the_sink_and_says_where_it_pointed(status: int) -> None:
    stopped = answered(status, location="https://u:p@elsewhere.example/in?key=1")
    assert isinstance(stopped, Pause)
    assert (
        "https://elsewhere.example/in" in stopped.reason
        and "key" not in stopped.reason
        and "u:p" not in stopped.reason
    )
    assert "https://board.example/x" in answered(status, location="/x").reason  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "120"}, 120.0),
        ({"retry_after": "0"}, 0.0),
        ({"retry_after": "Wed, 21 Oct 2026 07:29:00 GMT"}, 60.0),
        ({"retry_after": "Wed, 21 Oct 2026 07:20:00 GMT"}, 0.0),
        ({"retry_after": "Wed, 21 Oct 2026 09:29:00 GMT", "date": "Wed, 21 Oct 2026 09:28:00 GMT"}, 60.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-5"}, None),
        ({"retry_after": "²"}, None),
        ({}, None),
    ],
)
def test_429_waits_as_long_as_it_is_asked_to(headers: dict[str, str], seconds: float | None) -> None:
    assert answered(429, None, **headers) == Retry("HTTP 429, too many requests", seconds)


def test_a_receivers_words_are_one_bounded_printable_line() -> None:
    dropped = answered(400, {"reason": "a\x1b[31m\nb" + "c" * 1000})
    assert isinstance(dropped, Drop) and len(dropped.error) < 230
    assert dropped.error.isprintable()


@given(
    status=st.integers(100, 999),
    body=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=9),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["reason", "max_tier", "rejected", "supported", "id"]), inner
                )
            ),
            max_leaves=8,
        ),
    ),
    retry_after=st.text(max_size=20),
    location=st.text(max_size=30),
)
@settings(max_examples=MANY)
def test_every_answer_has_an_outcome(status: int, body: Any, retry_after: str, location: str) -> None:
    found = answered(status, body, retry_after=retry_after, location=location)
    assert isinstance(found, Acked) == (200 <= status < 300)


# --- a request --------------------------------------------------------------------------------------


def test_a_batch_is_one_request_as_the_binding_spells_it() -> None:
    with Receiver() as receiver:
        target = sink(receiver.url, token=TOKEN)
        assert target.send(BATCH) == Acked((), 3)
        target.close()
    (request,) = receiver.requests
    assert request.path == "/api/sessionpipe/v1/events"
    assert [event["id"] for event in request.events] == list(IDS)
    assert request.headers["content-type"] == "application/json"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["sessionpipe-protocol"] == "1"
    assert "webhook-signature" not in request.headers and "cookie" not in request.headers


def test_the_limit_counts_exactly_the_bytes_of_the_body() -> None:
    with Receiver() as receiver:
        target = sink(receiver.url)
        target.send(BATCH)
        target.close()
    limits = target.limits()
    events = sum(len(event) + 1 for event in BATCH.events) - 1
    assert len(receiver.requests[0].body) == limits.envelope + events


def test_a_sink_without_a_token_sends_no_authorization() -> None:
    with Receiver(Answer(401)) as receiver:
        target = sink(receiver.url)
        stopped = target.send(BATCH)
        target.close()
    assert "authorization" not in receiver.requests[0].headers
    assert isinstance(stopped, Pause) and "wants a token" in stopped.reason


def test_requests_share_a_connection() -> None:
    with Receiver() as receiver:
        target = sink(receiver.url)
        for _ in range(3):
            target.send(BATCH)
        target.close()
    assert len({request.port for request in receiver.requests}) == 1


def test_a_signed_batch_has_the_same_id_and_a_new_signature_on_every_attempt() -> None:
    secret = "whsec_" + "QUJD" * 8
    with Receiver(Answer(500)) as receiver:
        target = sink(receiver.url, secret=secret)
        target.send(BATCH)
        target.send(BATCH)
        target.close()
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == "msg_1"
    assert first.body == second.body
    assert abs(int(first.headers["webhook-timestamp"]) - time.time()) < 60
    assert first.headers["webhook-signature"].startswith("v1,")


def test_a_redirect_is_not_followed() -> None:
    with Receiver() as other, Receiver(Answer(307, None, {"location": f"{other.url}/in"})) as receiver:
        target = sink(receiver.url, token=TOKEN)
        stopped = target.send(BATCH)
        target.close()
    assert isinstance(stopped, Pause) and other.url in stopped.reason
    assert other.requests == [] and other.asked == 0


def test_what_the_receiver_refused_is_what_it_was_shown() -> None:
    secret = "whsec_" + "QUJD" * 8
    for shown, config in (
        ("the token or the signature", {"token": TOKEN, "secret": secret}),
        ("the signature", {"secret": secret}),
        ("the token", {"token": TOKEN}),
        ("the token that BOARD_TOKEN held when the worker was started", {"token_env": "BOARD_TOKEN"}),
    ):
        with Receiver(Answer(401)) as receiver:
            target = sink(receiver.url, env={"BOARD_TOKEN": TOKEN}, **config)
            stopped = target.send(BATCH)
            target.close()
        assert isinstance(stopped, Pause) and f"refused {shown};" in stopped.reason


def test_a_secret_that_is_none_is_waited_for_and_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("whsec_" + "QUJDQ" + "UJDQUJD" + "Q")
    with Receiver() as receiver:
        target = sink(receiver.url, secret_file=str(file))
        found = target.send(BATCH)
        target.close()
    assert isinstance(found, Retry) and "signing secret" in found.error and "QUJD" not in found.error
    assert receiver.requests == []


# --- tokens -----------------------------------------------------------------------------------------


def test_a_token_is_read_when_a_batch_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with Receiver() as receiver:
        target = sink(receiver.url, token_file=str(file))
        missing = target.send(BATCH)
        file.write_text(f"{TOKEN}\n")
        assert isinstance(target.send(BATCH), Acked)
        target.close()
    assert isinstance(missing, Retry) and str(file) in missing.error and not missing.connect
    assert receiver.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_token_that_is_not_in_the_environment_is_waited_for_and_named() -> None:
    with Receiver() as receiver:
        target = sink(receiver.url, token_env="BOARD_TOKEN")
        waiting = target.send(BATCH)
        target.close()
    assert isinstance(waiting, Retry) and "BOARD_TOKEN is not set" in waiting.error
    assert waiting.connect and waiting.elsewhere
    assert receiver.requests == []


def test_a_token_from_the_environment_is_used() -> None:
    with Receiver() as receiver:
        target = sink(receiver.url, token_env="BOARD_TOKEN", env={"BOARD_TOKEN": TOKEN})
        target.send(BATCH)
        target.close()
    assert receiver.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_token_file_that_others_can_read_is_warned_of_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    lines: list[str] = []
    with Receiver() as receiver:
        target = sink(receiver.url, token_file=str(file), log=lambda _level, line: lines.append(line))
        target.send(BATCH)
        target.send(BATCH)
        target.close()
    assert len(lines) == 1 and "chmod 600" in lines[0] and str(file) in lines[0]


@pytest.mark.parametrize("status", [307, 400, 401, 403, 413, 429, 500])
def test_a_receiver_that_repeats_the_token_does_not_get_it_into_an_outcome(status: int) -> None:
    said = Answer(status, {"reason": f"bad token {TOKEN}"}, {"location": f"/{TOKEN}", "retry-after": TOKEN})
    with Receiver(said) as receiver:
        target = sink(receiver.url, token=TOKEN)
        found = target.send(BATCH)
        target.close()
    assert TOKEN not in repr(found) and TOKEN not in repr(target._config)


# --- receivers that misbehave -----------------------------------------------------------------------


Raw = Callable[[BaseHTTPRequestHandler], None]


def send_to(raw: Raw, deadline_s: float = 5.0) -> Outcome:
    with Receiver(Answer(raw=raw)) as receiver:
        target = sink(receiver.url, deadline_s=deadline_s)
        found = target.send(BATCH)
        target.close()
    return found


@pytest.mark.parametrize("raw", [cut(202), drip_body(202), endless(202), bomb(202)])
def test_an_answer_whose_body_cannot_be_read_is_what_its_status_says(raw: Raw) -> None:
    assert isinstance(send_to(raw, deadline_s=0.4), Acked)


@pytest.mark.parametrize("status", [400, 403])
def test_what_a_body_decides_is_not_decided_by_half_of_it(status: int) -> None:
    for raw in (cut(status), drip_body(status)):
        found = send_to(raw, deadline_s=0.4)
        assert isinstance(found, Retry) and "broke off" in found.error


def test_a_connection_that_is_torn_down_behind_a_whole_answer_takes_nothing_back() -> None:
    def answer_and_reset(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b'HTTP/1.1 202 Yes\r\ncontent-length: 30\r\n\r\n{"accepted":2,"duplicates":0} ')
        reset(handler)

    with Receiver(Answer(raw=answer_and_reset)) as receiver:
        target = sink(receiver.url)
        assert target.send(BATCH) == Acked()
        assert target.send(BATCH) == Acked((), 3)
        target.close()
    assert len(receiver.requests) == 2


def test_a_body_that_is_only_too_long_does_not_hold_a_batch_up_for_ever() -> None:
    assert send_to(endless(400)) == Drop("HTTP 400")


@pytest.mark.parametrize("raw", [hang, drip])
def test_a_receiver_that_is_too_slow_is_left_at_the_deadline(raw: Raw) -> None:
    assert send_to(raw, deadline_s=0.4) == Retry("no answer within 0 s")


@pytest.mark.parametrize("raw", [hang_up, reset, garbage])
def test_a_receiver_that_says_nothing_that_is_an_answer_gets_the_batch_again(raw: Raw) -> None:
    found = send_to(raw)
    assert isinstance(found, Retry) and "broke off" in found.error and not found.connect


def test_a_receiver_that_is_not_there_is_told_apart_from_one_that_fails() -> None:
    with Receiver() as receiver:
        url = receiver.url
    target = sink(url)
    found = target.send(BATCH)
    target.close()
    assert isinstance(found, Retry) and found.connect


# --- learning about the receiver --------------------------------------------------------------------

NOW = 1_790_000_000_000
DAY = 86_400_000


def test_a_receiver_is_asked_once_a_day_and_what_it_said_is_kept() -> None:
    with Receiver(well_known={**WELL_KNOWN, "max_tier": 2, "batch": {"max_events": 7}}) as receiver:
        target = sink(receiver.url)
        learned = target.learn(NOW)
        assert isinstance(learned, Learned) and learned.max_tier == 2
        assert target.limits().max_events == 7
        assert target.learn(NOW + DAY - 1) is None
        again = sink(receiver.url, known=learned.discovery)
        assert again.learn(NOW + DAY - 1) is None and again.limits().max_events == 7
        assert receiver.asked == 1
        assert isinstance(target.learn(NOW + DAY), Learned) and receiver.asked == 2
        target.close()
        again.close()


def test_a_receiver_that_was_refused_stays_refused_until_it_is_asked_again() -> None:
    with Receiver(well_known={**WELL_KNOWN, "protocol": [2]}) as receiver:
        wire = Wire({})
        said = ask(receiver.url, NOW, wire)
        wire.close()
        target = sink(receiver.url, known=msgspec.to_builtins(said))
        stopped = target.learn(NOW + 1)
        assert isinstance(stopped, Pause) and "protocol 2" in stopped.reason
        receiver.well_known = WELL_KNOWN
        assert isinstance(target.learn(NOW + DAY), Learned)
        target.close()


def test_what_was_learnt_of_another_address_is_not_used() -> None:
    with Receiver(well_known=WELL_KNOWN) as receiver, Receiver(well_known=WELL_KNOWN) as other:
        first = sink(other.url)
        learned = first.learn(NOW)
        assert isinstance(learned, Learned)
        target = sink(receiver.url, known=learned.discovery)
        assert isinstance(target.learn(NOW), Learned)
        target.send(BATCH)
        target.close()
        first.close()
    assert len(receiver.requests) == 1 and other.requests == []


def test_a_receiver_never_asked_and_not_reachable_is_waited_for() -> None:
    with Receiver() as receiver:
        url = receiver.url
    target = sink(url)
    found = target.learn(NOW)
    target.close()
    assert isinstance(found, Retry) and found.connect


@pytest.mark.parametrize("raw", [hang_up, cut(200)])
def test_a_receiver_that_does_not_answer_for_its_file_may_take_events_all_the_same(raw: Raw) -> None:
    with Receiver(well_known=Answer(raw=raw)) as receiver:
        target = sink(receiver.url)
        learned = target.learn(NOW)
        assert isinstance(learned, Learned) and "broke off" in learned.discovery["problem"]
        assert isinstance(target.send(BATCH), Acked)
        assert target.learn(NOW + 3_600_000 - 1) is None
        assert isinstance(target.learn(NOW + 3_600_000), Learned)
        target.close()


def test_a_file_that_can_no_longer_be_read_leaves_what_it_said() -> None:
    with Receiver(well_known={**WELL_KNOWN, "batch": {"max_events": 7}}) as receiver:
        target = sink(receiver.url)
        target.learn(NOW)
        receiver.well_known = None
        assert isinstance(target.learn(NOW + DAY), Learned)
        assert target.limits().max_events == 7
        target.close()


def test_events_go_to_another_host_only_when_the_person_has_seen_it() -> None:
    with Receiver() as other:
        with Receiver(well_known={**WELL_KNOWN, "endpoints": {"events": f"{other.url}/in"}}) as receiver:
            target = sink(receiver.url, token=TOKEN)
            stopped = target.learn(NOW)
            assert (
                isinstance(stopped, Pause) and other.url in stopped.reason and "sinks add" in stopped.reason
            )
            wire = Wire({})
            said = ask(receiver.url, NOW, wire)
            wire.close()
            accepted = sink(receiver.url, token=TOKEN, known=msgspec.to_builtins(said))
            assert accepted.learn(NOW + DAY) is not None
            assert isinstance(accepted.send(BATCH), Acked)
            target.close()
            accepted.close()
        assert [request.path for request in other.requests] == ["/in"]


def test_backfill_goes_only_to_a_receiver_that_takes_it() -> None:
    with Receiver(well_known={**WELL_KNOWN, "capabilities": ["events", "backfill", "forget"]}) as receiver:
        target = sink(receiver.url)
        assert target.without() == {"session.backfill"} and not target.forgets()
        target.learn(NOW)
        assert target.without() == frozenset() and target.forgets()
        target.close()
