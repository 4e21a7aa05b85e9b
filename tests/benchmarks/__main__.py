"""Run the benchmarks: all of them, or the ones named."""

from __future__ import annotations

import sys

from tests.benchmarks import delivery, hook, ingest, intake, journal, received, redaction

BENCHMARKS = {
    "hook": hook.run,
    "redaction": redaction.run,
    "intake": intake.run,
    "delivery": delivery.run,
    "receiver": received.run,
    "ingest": ingest.run,
    "journal": journal.run,
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"no benchmark named {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    for name in names or BENCHMARKS:
        BENCHMARKS[name]()


main(sys.argv[1:])
