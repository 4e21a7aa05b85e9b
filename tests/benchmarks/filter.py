"""What an event costs on its way: a hook's payload mapped, an event filtered for a sink, both of recordings.

``map-slowest`` is the agent whose payloads take longest to map, of all whose hooks were recorded. ``filter-tier-<n>``
is the filter alone over the events these hooks made, which say that ``secrets@1`` ran: no sink gets others. What it
costs is one look of msgspec at each block and a dictionary of what may leave, some 25 us; ``pii`` goes through every
string of what may leave, which is twice as much again.
``filter-command`` is the command, from a file to a file; on standard input nothing is trusted to have been redacted,
so that it runs ``secrets@1`` over everything: recorded ones have less than 500 bytes, so that MB/s say what many short
strings cost. All of an event are looked at together, and those that come again (keys, the session block; here,
where the recordings are repeated, ids too) no more: 14 us an event over what it takes without, where each block and
each text of the session by itself took 45. What the command takes to start is not in it, but that it compiles the rules
is, since here nobody installed anything that it could take them from.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from sessionpipe.adapters import Refused, map_hook
from sessionpipe.conformance.harness import Hook, hooks, scenarios
from sessionpipe.paths import data_dir
from sessionpipe.privacy.filter import filter_event
from tests.benchmarks.measure import show

HOME = "/home/dev"
#: Processor time each rate is measured over, and how many times; the best counts.
SECONDS, TIMES = 0.2, 3
#: Events a second of each tier, without `pii` and with it.
TIERS = {0: (35_000, 14_000), 1: (20_000, 7_500), 2: (20_000, 7_500), 3: (20_000, 6_500)}


def run() -> None:
    found = scenarios(data_dir("conformance") / "harness")
    _mapping([hook for scenario in found for hook in hooks(scenario)])
    events = [
        json.loads(line) | {"id": f"01K6{number:022d}"}
        for number, line in enumerate(chain.from_iterable(_expected(scenario) for scenario in found))
    ]
    _filtering(events)
    _command(events)


def _expected(scenario: Path) -> list[bytes]:
    return (scenario / "expected.ndjson").read_bytes().splitlines()


def _rate(work: Callable[[], int]) -> float:
    """How many a second of processor time, of a piece of work that says how many it did."""
    work()
    rates = []
    for _ in range(TIMES):
        start, done = time.process_time(), 0
        while (taken := time.process_time() - start) < SECONDS:
            done += work()
        rates.append(done / taken)
    return max(rates)


def _mapping(recorded: list[Hook]) -> None:
    by_harness: dict[str, list[Hook]] = {}
    for hook in recorded:
        by_harness.setdefault(hook.harness, []).append(hook)

    def mapped(harness: str) -> int:
        for hook in by_harness[harness]:
            # One may be another agent's.
            with suppress(Refused):
                map_hook(
                    *(harness, hook.event, hook.stdin),
                    args=hook.args,
                    env=hook.env,
                    cwd="/",
                    at_ms=hook.at_ms,
                )
        return len(by_harness[harness])

    rates = {harness: _rate(partial(mapped, harness)) for harness in by_harness}
    slowest = min(rates, key=rates.__getitem__)
    show("map-slowest", rates[slowest], f"hooks/s ({slowest} of {len(rates)} agents)", 9_000, at_most=False)


def _filtering(events: list[dict[str, Any]]) -> None:
    def filtered(tier: int, pii: bool) -> int:
        for event in events:
            filter_event(event, tier, pii, HOME)
        return len(events)

    for tier, (alone, with_pii) in TIERS.items():
        for name, pii, budget in (("", False, alone), ("-pii", True, with_pii)):
            rate = _rate(partial(filtered, tier, pii))
            show(f"filter-tier-{tier}{name}", rate, "events/s", budget, at_most=False)


def _command(events: list[dict[str, Any]]) -> None:
    """The command's own processor time, less what it takes with nothing to do."""
    lines = b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)
    lines *= (2 << 20) // len(lines)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "events.ndjson"
        for name, options, budget in (("", ["--tier", "3"], 3), ("-pii", ["--tier", "3", "--pii"], 1.7)):
            source.write_bytes(b"")
            idle = min(_used(source, options) for _ in range(TIMES))
            source.write_bytes(lines)
            taken = min(_used(source, options) for _ in range(TIMES)) - idle
            show(f"filter-command{name}", len(lines) / taken / 1e6, "MB/s", budget, at_most=False)


def _used(source: Path, options: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with source.open("rb") as stdin, source.with_suffix(".out").open("wb") as stdout:
        subprocess.run(
            [sys.executable, "-m", "sessionpipe", "filter", *options],
            stdin=stdin,
            stdout=stdout,
            env={"HOME": str(source.parent), "PATH": os.environ["PATH"]},
            check=True,
        )
    if source.stat().st_size and not source.with_suffix(".out").stat().st_size:
        raise SystemExit("nothing came through the filter")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
