"""Run the benchmarks: all of them, or the ones named."""

from __future__ import annotations

import sys

from tests.benchmarks import (
    backfill,
    commands,
    day,
    delivery,
    filter,
    hook,
    ingest,
    intake,
    journal,
    outbox,
    received,
    redaction,
    start,
    transcripts,
    worker,
)

BENCHMARKS = {
    "hook": hook.run,
    "redaction": redaction.run,
    "intake": intake.run,
    "delivery": delivery.run,
    "start": start.run,
    "worker": worker.run,
    "commands": commands.run,
    "outbox": outbox.run,
    "day": day.run,
    "receiver": received.run,
    "ingest": ingest.run,
    "filter": filter.run,
    "backfill": backfill.run,
    "transcripts": transcripts.run,
    "journal": journal.run,
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"no benchmark named {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    for name in names or BENCHMARKS:
        BENCHMARKS[name]()


main(sys.argv[1:])
