"""A clock that is set back an hour while sessions go on."""

from __future__ import annotations

import json
import time

import msgspec

from tests.delivery.events import keys, lines
from tests.e2e.bed import Bed

HOUR_MS = 3_600_000


def tool(bed: Bed, call: str, at_ms: int) -> None:
    bed.put("PostToolUse", at_ms, tool_name="Bash", tool_input={}, tool_use_id=call)


def test_nothing_is_lost_repeated_or_held_up(bed: Bed) -> None:
    bed.settings()
    ahead = int(time.time() * 1000) + HOUR_MS
    tool(bed, "before", ahead)
    bed.put("Stop", ahead + 1, last_assistant_message="yes")
    bed.finish("flush")
    with bed.outbox() as outbox:
        # What an hour's clock left behind: a backoff, a hold on the transcript, the day's work done.
        outbox.change_sink(
            "notes", lambda sink: msgspec.structs.replace(sink, failures=1, next_attempt_ms=ahead + 2000)
        )
        for key in ("pruned_ms", "checked_ms"):
            outbox.remember(key, ahead)
    for number in range(3):
        tool(bed, f"after {number}", ahead - HOUR_MS + number)
    assert bed.run("worker") == 0
    events = bed.events()
    assert keys(lines(bed.out)) == keys([e for e in events if e["type"] != "session.heartbeat"])
    assert [e["session"]["seq"] for e in events] == list(range(len(events)))
    called = [e["data"]["call_id"] for e in events if e["type"] == "tool.ended"]
    assert called == ["before", "after 0", "after 1", "after 2"]
    assert all(e["data"].get("duration_ms", 0) >= 0 for e in events)
    with bed.outbox() as outbox:
        assert outbox.note("pruned_ms") < ahead
    (session,) = json.loads(bed.finish("sessions", "--json"))
    assert session["events"] == len(events)
