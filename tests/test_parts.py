"""The worker's threads: what a courier's part makes of its courier's steps (tests/test_worker.py has the rest)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from sessionpipe import parts
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


def test_a_step_hangs_while_it_lasts_and_not_afterwards(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "HANGS_S", 0.0)
    part = delivering(Host())
    seen: list[int | None] = []

    def step(now_ms: int, *, force: bool) -> Step:
        seen.append(part.hanging_since())
        if len(seen) > 1:
            raise OSError
        return DONE

    part._courier = cast(Any, type("Looking", (), {"step": staticmethod(step)})())
    part.step(outbox, 70, False)
    assert (seen, part.hanging_since()) == ([70], None)
    with pytest.raises(OSError):
        part.step(outbox, 80, False)
    assert (seen, part.hanging_since()) == ([70, 80], None)
    monkeypatch.setattr(parts, "HANGS_S", 3600.0)
    with pytest.raises(OSError):
        part.step(outbox, 90, False)
    assert seen[-1] is None


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
