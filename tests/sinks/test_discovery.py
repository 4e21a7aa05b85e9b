"""The receiver's well-known file: what is believed, what is defaulted, what stops a sink."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionpipe.sinks.discovery import DAY_MS, HOUR_MS, Discovery, read, remembered, unread, well_known
from tests.laws import MANY

URL = "https://board.example"
NOW = 1_790_000_000_000
FULL = {
    "protocol": [1, 2],
    "max_tier": 2,
    "capabilities": ["events", "backfill", "forget", "teleport"],
    "auth": ["bearer"],
    "endpoints": {"events": "/in"},
    "batch": {"max_events": 20, "max_bytes": 10_000},
    "tools": "main",
}


def said(body: Any, *, url: str = URL, headers: dict[str, str] | None = None) -> Discovery:
    return read(url, 200, headers or {}, json.dumps(body).encode(), NOW)


def test_it_is_at_the_origin_whatever_the_path() -> None:
    assert (
        well_known("https://board.example:8443/a/b?c") == "https://board.example:8443/.well-known/sessionpipe"
    )


def test_everything_a_receiver_can_say() -> None:
    assert said(FULL) == Discovery(
        url=URL,
        events="https://board.example/in",
        asked_ms=NOW,
        until_ms=NOW + DAY_MS,
        max_tier=2,
        capabilities=("events", "backfill", "forget", "teleport"),
        tools="main",
        max_events=20,
        max_bytes=10_000,
    )


def test_what_it_leaves_out_has_the_bindings_defaults() -> None:
    found = said({"protocol": [1]})
    assert found.events == "https://board.example/api/sessionpipe/v1/events"
    assert (found.max_events, found.max_bytes, found.tools, found.max_tier) == (50, 262_144, "all", None)
    assert found.capabilities == ("events",) and found.problem is None and found.refusal is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"{}"),
        (500, b""),
        (302, b""),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"{}"),
        (200, b"\xff"),
        (200, b"[" * 9999),
    ],
)
def test_a_file_that_cannot_be_read_means_the_defaults_and_says_why(status: int, body: bytes) -> None:
    found = read(URL, status, {}, body, NOW)
    assert found.problem and found.refusal is None
    assert (found.events, found.max_events) == ("https://board.example/api/sessionpipe/v1/events", 50)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"protocol": [2, 3]}, "speaks protocol 2, 3"),
        ({"protocol": []}, "speaks protocol none"),
        ({"protocol": [True, "1"]}, "speaks protocol none"),
        ({"capabilities": ["control"]}, "does not take events"),
        ({"auth": ["mtls"]}, "bearer"),
        ({"endpoints": {"events": "http://elsewhere.example/in"}}, "can't be trusted"),
        ({"batch": {"max_bytes": 100}}, "takes 100 bytes at once"),
    ],
)
def test_what_stops_a_sink_has_a_reason(changed: dict[str, Any], says: str) -> None:
    assert says in str(said({**FULL, **changed}).refusal)


@pytest.mark.parametrize(
    ("endpoint", "events"),
    [
        ("/in", "https://board.example/in"),
        ("in", "https://board.example/in"),
        ("https://other.example/in", "https://other.example/in"),
        ("//other.example/in", "https://board.example/api/sessionpipe/v1/events"),
        ("//[", "https://board.example/api/sessionpipe/v1/events"),
        ("", "https://board.example/api/sessionpipe/v1/events"),
        (7, "https://board.example/api/sessionpipe/v1/events"),
    ],
)
def test_where_batches_go(endpoint: Any, events: str) -> None:
    assert said({**FULL, "endpoints": {"events": endpoint}}).events == events


def test_an_address_with_a_path_is_where_batches_go_whatever_the_file_says() -> None:
    assert said(FULL, url="https://board.example/mine").events == "https://board.example/mine"
    for bare in ("https://board.example/", "https://board.example:443", "https://Board.example/"):
        assert said(FULL, url=bare).events == "https://board.example/in"


@pytest.mark.parametrize(
    ("headers", "days"),
    [
        ({}, 1),
        ({"cache-control": "max-age=60"}, 1),
        ({"cache-control": "max-age=x"}, 1),
        ({"cache-control": "max-age=-604800"}, 1),
        ({"cache-control": "no-store, max-age=604800"}, 1),
        ({"cache-control": "max-age=604800, no-cache"}, 1),
        ({"cache-control": "s-maxage=604800"}, 1),
        ({"cache-control": "public, max-age=604800"}, 7),
        ({"cache-control": 'Max-Age="604800"'}, 7),
        ({"cache-control": "max-age=604800", "age": "172800"}, 5),
        ({"cache-control": "max-age=99999999999"}, 30),
    ],
)
def test_it_is_asked_again_after_a_day_or_as_long_as_the_receiver_says_it_may_be_kept(
    headers: dict[str, str], days: int
) -> None:
    assert said(FULL, headers=headers).until_ms - NOW == days * DAY_MS


@pytest.mark.parametrize(("status", "hours"), [(404, 24), (301, 24), (401, 24), (500, 1), (503, 1), (429, 1)])
def test_a_receiver_in_trouble_of_its_own_is_asked_again_sooner(status: int, hours: int) -> None:
    assert read(URL, status, {}, b"", NOW).until_ms - NOW == hours * HOUR_MS


def test_a_redirect_is_not_followed_and_where_it_pointed_is_said() -> None:
    found = read(URL, 301, {"location": "https://u:p@www.board.example/x\x1b?key=1"}, b"", NOW)
    assert found.problem == "HTTP 301, which points to https://www.board.example/x "


def test_a_whole_number_may_be_written_as_a_float() -> None:
    found = said({"protocol": [1.0], "max_tier": 2.0, "batch": {"max_events": 20.0, "max_bytes": 2e4}})
    assert (found.refusal, found.max_tier, found.max_events, found.max_bytes) == (None, 2, 20, 20_000)


def test_what_was_learnt_is_remembered_for_its_address_alone() -> None:
    known = json.loads(msgspec.json.encode(said(FULL)))
    assert remembered(known, URL) == said(FULL)
    assert remembered(known, "https://other.example") is None
    assert remembered({}, URL) is None and remembered({"url": 7}, URL) is None


def test_it_is_due_at_its_time_and_when_the_clock_was_set_far_back() -> None:
    found = unread(URL, "HTTP 404", NOW)
    assert not found.is_due(NOW) and not found.is_due(NOW + DAY_MS - 1)
    assert found.is_due(NOW + DAY_MS) and found.is_due(NOW - 2 * DAY_MS)


@given(
    st.dictionaries(
        st.sampled_from([*FULL, "other"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
            ),
            max_leaves=6,
        ),
    )
)
@settings(max_examples=MANY)
def test_whatever_a_receiver_says_the_bounds_hold(body: dict[str, Any]) -> None:
    found = said(body)
    assert 1 <= found.max_events <= 1000 and 1 <= found.max_bytes <= 4 << 20
    assert found.refusal or found.max_bytes >= 512
    assert found.events.startswith("https://")
