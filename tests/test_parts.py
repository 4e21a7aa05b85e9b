"""The worker's threads: what a courier's part makes of its courier's steps (tests/test_worker.py has the rest)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from sessionpipe.config import SinkConfig
from sessionpipe.delivery.courier import Step
from sessionpipe.outbox import Outbox
from sessionpipe.parts import Delivering

UNREACHED, REACHED, IDLE, DONE = Step(False, 1, True), Step(False, 1, False), Step(False, 1), Step(True)


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    made = Outbox.open(tmp_path / "outbox.db")
    yield made
    made.close()


class Host:
    """A worker of which a part asks one thing."""

    def __init__(self, *, outdated: bool = False) -> None:
        self.is_outdated = outdated

    def outdated(self) -> bool:
        return self.is_outdated


def delivering(host: Host, *steps: Step) -> Delivering:
    part = Delivering(cast(Any, host), SinkConfig(name="board", kind="http", url="https://b.example"))
    coming = iter(steps)
    part._courier = cast(Any, type("Scripted", (), {"step": lambda _self, _now, force: next(coming)})())
    return part


def test_nothing_is_sent_by_settings_that_were_changed(outbox: Outbox) -> None:
    host = Host(outdated=True)
    part = delivering(host, DONE)
    assert part.step(outbox, 0, False) == (False, None)
    host.is_outdated = False
    assert part.step(outbox, 0, False) == (True, None)


@pytest.mark.parametrize(
    ("steps", "failed"),
    [
        ([UNREACHED, UNREACHED], 2),
        ([UNREACHED, IDLE], 1),
        ([UNREACHED, REACHED], 0),
        ([UNREACHED, DONE, UNREACHED], 1),
    ],
)
def test_connections_that_failed_in_a_row_are_counted_until_the_receiver_is_reached(
    outbox: Outbox, steps: list[Step], failed: int
) -> None:
    part = delivering(Host(), *steps)
    for _ in steps:
        part.step(outbox, 0, False)
    assert part.failed_connections == failed


@pytest.mark.parametrize(
    ("kind", "network"), [("http", True), ("otlp", True), ("file", False), ("stdout", False)]
)
def test_what_speaks_to_another_host_is_known_of_ours(kind: str, network: bool) -> None:
    assert Delivering(cast(Any, Host()), SinkConfig(name="s", kind=kind)).network == network


def test_what_a_package_brings_shows_it_by_failing_to_reach_one(outbox: Outbox) -> None:
    part = delivering(Host(), UNREACHED, REACHED)
    part.sink = SinkConfig(name="s", kind="redis", url="redis://cache.example")
    seen = [part.network]
    for _ in range(2):
        part.step(outbox, 0, False)
        seen.append(part.network)
    assert seen == [False, True, False]
