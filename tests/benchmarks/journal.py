"""The journal: how fast it is indexed and verified, and what it takes to see any position of it."""

from __future__ import annotations

import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from sessionpipe.journal import verify
from sessionpipe.journal.bundle import find
from sessionpipe.journal.index import Journal
from sessionpipe.journal.reducer import Reducer
from tests.benchmarks.measure import show
from tests.journal.making import Story, binding, capture, lines, manifest, put

EVENTS = 1_000_000
SEEKS = 100
_START = datetime(2026, 7, 30, 10, tzinfo=UTC).timestamp()
_DELTA = '"type":"assistant_event","payload":{"type":"text_delta","contentIndex":0,"delta":"some words, "}'


def turn(number: int, deltas: int) -> Iterator[str]:
    """What the events of one turn have behind their owner: a message of so many deltas, and a tool."""
    ids = f'"turnId":"t{number}","messageId":"m{number}"'
    call = f'{ids},"toolCallId":"call_{number}"'
    text = "some words, " * deltas
    yield f'"turnId":"t{number}","type":"turn_started","payload":{{"turnIndex":{number}}}'
    yield f'{ids},"type":"message_started","payload":{{"role":"assistant"}}'
    yield f'{ids},"type":"assistant_event","payload":{{"type":"text_start","contentIndex":0}}'
    for _ in range(deltas):
        yield f"{ids},{_DELTA}"
    if deltas < 1000:  # The content of more would be longer than a record.
        yield f'{ids},"type":"assistant_event","payload":{{"type":"text_end","contentIndex":0,"content":"{text}"}}'
    yield f'{ids},"type":"message_finished","payload":{{"role":"assistant","settled":false}}'
    yield f'{call},"type":"tool_execution_started","payload":{{"toolName":"read","args":{{"path":"README.md"}}}}'
    yield f'{call},"type":"tool_execution_finished","payload":{{"toolName":"read","isError":false,"result":{{}}}}'
    yield f'"turnId":"t{number}","type":"turn_finished","payload":{{"turnIndex":{number},"toolCallIds":[]}}'


def made(root: Path, deltas: int) -> Path:
    """A bundle of :data:`EVENTS` events, 20 ms apart, in turns of so many deltas."""
    put(root / "manifest.json", manifest(finishedAt="2027-01-01T00:00:00Z"))
    put(root / "session/binding.json", binding())
    put(root / "session/entries.ndjson", lines([]))
    put(root / "session/events.ndjson", b"")
    seq = number = 0
    with (root / "session/events.ndjson").open("w") as file:
        while seq < EVENTS:
            number += 1
            for rest in turn(number, deltas):
                seq += 1
                time_ = datetime.fromtimestamp(_START + seq * 0.02, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                file.write(f'{{"seq":{seq},"at":"{time_}","nodeId":"review","attemptId":"a1",{rest}}}\n')
                if seq == EVENTS:
                    break
    said = capture(Story(), "complete", eventCount=seq, lastEventSeq=seq)
    put(root / "session/capture.json", said)
    return root


def seeks(journal: Journal) -> tuple[float, float]:
    """The dearest of many positions, in milliseconds: by number, and by time; each with its whole state.

    A position's cost is the best of three tries: what the position takes, not what else the machine did.
    """
    dice = random.Random(1)

    def by_number(seq: int) -> None:
        assert journal.seek(seq).state()["throughSeq"] == seq

    def by_time(seq: int) -> None:
        by_number(journal.seq_at(_START + seq * 0.02 + 0.01))

    positions = [dice.randint(1, EVENTS) for _ in range(SEEKS)]
    return max(_best(by_number, seq) for seq in positions), max(_best(by_time, seq) for seq in positions)


def _best(go: Callable[[int], None], seq: int) -> float:
    tries = []
    for _ in range(3):
        start = time.perf_counter()
        go(seq)
        tries.append((time.perf_counter() - start) * 1000)
    return min(tries)


def folding(deltas: int) -> float:
    """Microseconds for each of so many deltas folded into one block, and for reading it at the end."""
    story = Story()
    story.begin("t", "m")
    story.said("t", "m", "text_delta", delta="some words, ")
    reducer = Reducer()
    reducer.apply(story.events[0])
    event = story.events[1]
    start = time.perf_counter()
    for seq in range(2, deltas + 2):
        event["seq"] = seq
        reducer.apply(event)
    reducer.state()
    return (time.perf_counter() - start) / deltas * 1e6


def run() -> None:
    for label, deltas in (("turns", 30), ("one-block", EVENTS), ("short", 1)):
        with tempfile.TemporaryDirectory() as folder:
            bundle = find(made(Path(folder) / "bundle", deltas))
            start = time.perf_counter()
            journal = Journal(bundle, bundle.sessions[0]).read_all()
            took = time.perf_counter() - start
            assert journal.verdict.status == "complete"
            show(f"journal-index-{label}", EVENTS / took, "events/s", 20_000, at_most=False)
            by_seq, by_time = seeks(journal)
            # Turns are what a journal has; the others are all of one thing: of text, of beginnings and ends.
            name = "journal-seek" if label == "turns" else f"journal-seek-{label}"
            show(name, by_seq, "ms", 50)
            show(f"{name}-time", by_time, "ms", 50)
            if label == "turns":
                start = time.perf_counter()
                assert verify(bundle.root).ok
                show(
                    "journal-verify",
                    EVENTS / (time.perf_counter() - start),
                    "events/s",
                    15_000,
                    at_most=False,
                )
    show("journal-fold-growth", folding(EVENTS) / folding(EVENTS // 10), "x", 2)
    show("journal-memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB", 1024)
