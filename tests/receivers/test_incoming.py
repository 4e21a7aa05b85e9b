"""What a request must be to be a batch, and an event to be stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.protocol.vocabulary import VOCABULARY
from sessionpipe.receiver import incoming
from sessionpipe.receiver.incoming import DEEPEST, Batch, Refused, read, stored
from tests.receivers.served import event


def of(*events: Any, max_events: int = 50, max_tier: int = 3) -> Batch:
    return read(json.dumps({"events": events}).encode(), max_events=max_events, max_tier=max_tier)


def refusal(body: bytes, **limits: int) -> tuple[int, dict[str, Any]]:
    with pytest.raises(Refused) as refused:
        read(body, **{"max_events": 50, "max_tier": 3, **limits})
    return refused.value.status, refused.value.body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"events": [NaN]}',
        b'{"events":' + b"[" * 200_000,
        b'{"events":[' + b"[" * 200_000 + b"]" * 200_000 + b"]}",
    ],
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    assert refusal(body)[0] == 400


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"events": {}}', b'{"events": "all"}', b"null", b"7"])
def test_what_holds_no_list_of_events_is_refused(body: bytes) -> None:
    assert refusal(body) == (400, {"reason": "not_a_batch"})


def test_a_batch_of_nothing_is_refused() -> None:
    assert refusal(b'{"events": []}') == (400, {"reason": "no_events"})


def test_more_events_than_it_takes_are_refused_with_how_many_it_does() -> None:
    body = json.dumps({"events": [event(seq=n) for n in range(3)]}).encode()
    assert refusal(body, max_events=2) == (413, {"reason": "too_many_events", "max_events": 2})


def test_one_event_above_the_tier_refuses_all_of_them() -> None:
    body = json.dumps({"events": [event(), event("tool.ended", 1, tier=3, tool="Bash", ok=True)]}).encode()
    assert refusal(body, max_tier=2) == (403, {"reason": "tier_above_max", "max_tier": 2})


def test_an_event_is_kept_to_the_byte() -> None:
    raw = b'{"type":"x.y",  "protocol":1,"id":"01K6ABCXYZ0123456789ABCDEF","time":"2026-09-28T01:03:11.204Z","tier":0,'
    raw += b'"harness":{"name":"a","later":1},"session":{"id":"s","seq":1},"privacy":{},"data":{"n":1.50},"more":2}'
    batch = read(b'{"events": [' + raw + b"]}", max_events=1, max_tier=0)
    assert [e.raw for e in batch.events] == [raw]
    assert stored(raw) == batch.events[0]


def test_the_time_may_be_of_any_zone() -> None:
    first, second = of(
        {**event(), "time": "2026-09-28T03:03:11.204+02:00"}, {**event(), "time": "2026-09-28T01:03:11.204Z"}
    ).events
    assert first.at_ms == second.at_ms == 1_790_557_391_204


WRONG: dict[str, dict[str, Any]] = {
    "protocol": {"protocol": 2},
    "protocol, missing": {"protocol": None},
    "id": {"id": "one"},
    "type": {"type": "Turn"},
    "type, long": {"type": "x." + "y" * 300},
    "time": {"time": "today"},
    "time, without a zone": {"time": "2026-09-28T01:03:11"},
    "time, no text": {"time": 1},
    "tier": {"tier": 4},
    "tier, a truth": {"tier": True},
    "harness": {"harness": "pi"},
    "harness.name": {"harness": {"name": "Claude Code"}},
    "session": {"session": []},
    "session.id": {"session": {"id": "../../etc", "seq": 1}},
    "session.id, missing": {"session": {"seq": 1}},
    "session.seq": {"session": {"id": "s", "seq": -1}},
    "session.seq, a text": {"session": {"id": "s", "seq": "1"}},
    "session.seq, a truth": {"session": {"id": "s", "seq": True}},
    "session.seq, beyond what is exact": {"session": {"id": "s", "seq": 1 << 53}},
    "session.seq, a fraction": {"session": {"id": "s", "seq": 1.5}},
    "privacy": {"privacy": None},
    "data": {"data": [1]},
    "tier_type": {"type": "turn.transcript", "tier": 1},
    "tier_type, native": {"type": "native", "tier": 2},
    "too_deep": {"data": {"x": json.loads("[" * DEEPEST + "]" * DEEPEST)}},
}


@pytest.mark.parametrize("what", WRONG)
def test_an_event_that_is_none_is_named_with_what_is_wrong_and_the_rest_is_taken(what: str) -> None:
    wrong = {**event(), **WRONG[what]}
    batch = of(event(seq=1), wrong, event(seq=2))
    assert [e.seq for e in batch.events] == [1, 2]
    [(id_, reason)] = batch.rejected
    assert id_ == wrong["id"]
    assert what.partition(",")[0] in reason.replace("$.", "")


@pytest.mark.parametrize("wrong", [1, None, "x", [], {"id": 7}, {"id": "y" * 1000}])
def test_what_has_no_id_is_rejected_all_the_same(wrong: Any) -> None:
    [(id_, reason)] = of(wrong).rejected
    assert len(id_) <= 64 and reason


def test_a_reason_says_nothing_of_what_the_event_held() -> None:
    secret = "hunter" + "2" * 8
    wrong = {**event(), "tier": secret, "harness": {"name": secret}, "data": secret}
    assert secret not in str(of(wrong).rejected)


def test_half_a_surrogate_pair_costs_a_character_and_no_event() -> None:
    body = json.dumps({"events": [event(text="a\ud800b"), event(seq=1)]}).encode()
    events = read(body, max_events=9, max_tier=3).events
    assert [e.data for e in events] == [{"text": "a?b"}, {}]


def test_brackets_in_a_text_are_not_depth() -> None:
    assert of(event(text="[{" * 500)).events


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.lists(
        nested
        | st.builds(lambda field, value: {**event(), field: value}, st.sampled_from(sorted(event())), nested),
        max_size=4,
    )
)
def test_whatever_is_sent_is_taken_rejected_or_refused(events: list[Any]) -> None:
    try:
        batch = of(*events)
    except Refused as refused:
        assert refused.status in (400, 403, 413)
    else:
        assert len(batch.events) + len(batch.rejected) == len(events)
        assert [stored(e.raw) for e in batch.events] == batch.events


@given(st.binary(max_size=200))
def test_any_bytes_are_answered(body: bytes) -> None:
    with pytest.raises(Refused):
        read(body, max_events=50, max_tier=3)


def test_what_was_taken_stays_an_event_when_its_type_is_given_a_tier_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (before,) = of(event("turn.later", 3, tier=0)).events
    monkeypatch.setattr(incoming, "VOCABULARY", {"turn.later": VOCABULARY["turn.transcript"]})
    assert of(event("turn.later", 3, tier=0)).rejected
    assert incoming.stored(before.raw) == before
