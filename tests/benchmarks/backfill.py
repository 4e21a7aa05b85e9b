"""Sessions that were there before us: 500 and 5 000 of them found in the agents' files, and recorded.

The files are recorded sessions of 5 to 13 KB under other names, where each agent keeps them. ``backfill`` is processor
time, from the first folder that is listed to the last commit; ``known`` is doing it again, when there is nothing left
to record. Five sixths of the first is reading the files, too.

A session is 3.92 million instructions among 50 as among 500 (valgrind), and ten times the sessions are 9.0 times the
calls of functions; in time that is between 8 and 12 beside other work, by the processor's caches.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from sessionpipe.backfill import record, search, unknown
from sessionpipe.harnesses import Context
from sessionpipe.outbox import Outbox
from sessionpipe.paths import data_dir
from tests.benchmarks.measure import show

FEW, MANY = 500, 5_000
#: Recorded sessions, and where their agents keep them.
PLACES = (
    ("claude-code", "tui-permission", ".claude/projects/-src-{folder}/{id}.jsonl"),
    ("codex", "unicode", ".codex/sessions/2026/11/{folder:02}/rollout-2026-11-29T17-53-52-{id}.jsonl"),
    ("gemini-cli", "tui", ".gemini/tmp/src-{folder}/chats/session-2026-11-29T18-19-{id:.8}.jsonl"),
)


def run() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few, many = (min(_backfilled(folder, sessions) for _ in range(2)) for sessions in (FEW, MANY))
        again = _backfilled(folder, MANY, known=True)
    show(f"backfill-{MANY}", MANY / many, "sessions/s", 600, at_most=False)
    show(f"backfill-{MANY}-known", MANY / again, "sessions/s", 600, at_most=False)
    show("growth-backfill", many / few, "x for ten times the sessions", 13)


def _backfilled(folder: Path, sessions: int, *, known: bool = False) -> float:
    """Seconds to find so many sessions and to record them, or to see that all of them are ``known``."""
    home = folder / f"home-{sessions}"
    if not known:
        shutil.rmtree(home, ignore_errors=True)
        (folder / f"{sessions}.db").unlink(missing_ok=True)
        for path, text in _files(home, sessions):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    context = Context({}, "/", time.time_ns() // 1_000_000, str(home))
    with closing(Outbox.open(folder / f"{sessions}.db")) as outbox:
        start = time.process_time()
        told = search([harness for harness, *_ in PLACES], context, 0)
        recorded = record(outbox, unknown(outbox, told.found), machine="bench", home=str(home))
        taken = time.process_time() - start
    if (len(told.found), recorded) != (sessions, 0 if known else sessions):
        raise SystemExit(
            f"{len(told.found)} sessions of {sessions} were found, {recorded} recorded: {told.failed}"
        )
    return taken


def _files(home: Path, sessions: int) -> Iterator[tuple[Path, bytes]]:
    """So many sessions' files and what is in them, of each agent as many."""
    templates = []
    for harness, recording, place in PLACES:
        path = data_dir("conformance") / "transcripts" / harness / f"{recording}.jsonl"
        session = json.loads(path.with_suffix(".json").read_bytes())["session"].encode()
        templates.append((path.read_bytes(), session, place))
    for number in range(sessions):
        text, session, place = templates[number % len(templates)]
        own = f"{number:08x}-0000-4000-8000-000000000000"
        yield home / place.format(id=own, folder=number % 50), text.replace(session, own.encode())
