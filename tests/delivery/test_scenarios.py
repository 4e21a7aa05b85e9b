"""The delivery scenarios for receivers, sound as files; and our own sender with a receiver that keeps the rules."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.config import SinkConfig
from sessionpipe.delivery.courier import Courier
from sessionpipe.paths import data_dir
from sessionpipe.protocol import new_id, rfc3339
from tests.delivery.events import START, keys, opened, record
from tests.delivery.reference import Reference
from tests.schema import problems

FILES = sorted((data_dir("conformance") / "delivery" / "receiver").glob("*.json"))
TOKEN = "tok" + "Zq7" * 8


@pytest.fixture
def receiver() -> Iterator[Reference]:
    with Reference(TOKEN) as made:
        yield made


def load(file: Path, run: str) -> dict[str, Any]:
    scenario: dict[str, Any] = json.loads(file.read_text("utf-8").replace("{run}", run))
    for step in scenario["steps"]:
        for event in step.get("send", {}).get("events", []):
            event["id"] = new_id() if event["id"] == "*" else event["id"]
            event["time"] = rfc3339(START) if event["time"] == "*" else event["time"]
    return scenario


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_sends_what_a_sender_may_send(file: Path) -> None:
    scenario = load(file, "run")
    assert scenario["name"] == file.stem and scenario["means"]
    wrong = [
        (event["type"], found)
        for step in scenario["steps"]
        for event in step.get("send", {}).get("events", [])
        if event["type"] != "x.y" and (found := problems(event))
    ]
    # Two try what a sender must not send, three what only a later one would.
    assert bool(wrong) == (file.stem in ("rejected", "tier-type", "coalesce", "unknown-fields"))


def test_our_own_sender_gets_on_with_it(receiver: Reference, tmp_path: Path) -> None:
    with opened(tmp_path / "outbox.db") as outbox:
        record(outbox, "turn.started", session="a", count=70)
        record(
            outbox,
            "turn.transcript",
            {"turn": 0, "user": "u", "assistant": "a" * 20_000, "at": "x"},
            session="a",
        )
        outbox.add_sink("board", 0)
        config = SinkConfig(name="board", kind="http", url=receiver.url, tier=3, token=TOKEN)
        courier = Courier(config, outbox, stop=threading.Event(), log=lambda _level, _line: None, env={})
        while courier.step(START).progress:
            continue
        courier.close()
        state = outbox.sink("board")
    held = receiver.read("a")
    assert keys(held) == [("a", seq) for seq in range(71)]
    assert {event["tier"] for event in held} == {2}
    assert state is not None and (state.sent, state.max_tier, state.dropped) == (71, 2, 0)


def died(*_args: object) -> None:
    raise KeyboardInterrupt


def test_a_receiver_that_took_a_batch_whose_acknowledgement_was_lost_has_it_once(
    receiver: Reference, tmp_path: Path
) -> None:
    config = SinkConfig(name="board", kind="http", url=receiver.url, token=TOKEN)
    with opened(tmp_path / "outbox.db") as outbox:
        record(outbox, count=5)
        outbox.add_sink("board", 0)

        def courier() -> Courier:
            return Courier(config, outbox, stop=threading.Event(), log=lambda _level, _line: None, env={})

        lost = courier()
        with pytest.MonkeyPatch.context() as patch:
            # The answer came, and this process died before it could write that down.
            patch.setattr(Courier, "_settle", died)
            with pytest.raises(KeyboardInterrupt):
                lost.step(START)
        lost.close()
        record(outbox, count=2)
        again = courier()
        while again.step(START).progress:
            continue
        again.close()
        state = outbox.sink("board")
    assert keys(receiver.read("s")) == [("s", seq) for seq in range(7)]
    assert receiver.duplicates == 5
    assert state is not None and (state.sent, state.position) == (7, 7)
