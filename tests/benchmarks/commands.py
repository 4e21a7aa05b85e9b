"""The commands that look: whole processes, among 100 000 and among 1 000 000 events, the outbox in the page cache.

Medians of runs that alternate between the two, and the growth between them: a command that shows a screen
should not take longer for what it does not show. Three sinks stand at the end, in the middle and at the
beginning; one session was forgotten, so that positions have a gap and cannot just be subtracted.

What was tried, of a million events in 5 000 sessions: ``sessions`` was 380 ms, and ``--json`` 430. Decoding only
that of a session's memory which is shown gave 60 ms, sorting in Python rather than in SQLite (which sorts the
rows with all that stands in them) 25, ``isoformat`` for ``strftime`` 30, asking ``isprintable`` before a regular
expression goes through megabytes of JSON 50. ``tail --harness`` was 1.6 s, since SQLite sorted everything that the
harness had ever done; its newest events are now looked for among the newest of all first. ``status`` counted what
every sink lacks in one pass over an index of all events, 55 ms of CPU where it was 215 in all; where events were
deleted is noted now, which is 1. Of twelve adapters it parsed all, 17 ms, and parses what says where hooks go, 5.
``tail --session`` decoded what stands beside every session's name.
``doctor`` looked through the whole file every time, which was 0.8 s of its 1.4; of a file that large it now says
when the worker did. ``replay`` told the events apart by type, for which SQLite sorts them; looking only for those
that go is half of it, and the rest is a page of the file for every three events.

Then most of what they did was to load modules. Counted in millions of instructions (of which some 0.2 ms are one, on
this machine), ``tail`` did 540 and does 310, ``status`` 480 and 365, ``sessions`` 350 and 300, ``--json`` 835 and 667;
190 of these are the interpreter, click, msgspec and sqlite3. The rules of redaction (100) are loaded where an event was
not redacted yet, the engine of the adapters (70) where something is mapped; the vocabulary's types are no text that is
compiled (20); all modules are no longer taken apart at the end (40) nor looked through for garbage (15, which a
threshold that is reached once does not give). ``sessions`` goes through the rows once and not three times, 4 000 pages
less to read, which is 8 ms and no instructions of ours. Of ``--json`` a time is said in half the time, and JSON without
controls is printed as it stands; what is left are 12 us for each of 5 000 sessions, a third of it SQLite. Mapping the
file into memory took longer than reading it. ``doctor`` read the whole tables of agents that are not here, loaded the
rules where nobody has own ones, and looked at the hooks' files and the counts twice, which was 80 ms of CPU.
"""

from __future__ import annotations

import os
import statistics
import sys

from sessionpipe.clock import now_ms
from sessionpipe.install import launcher
from sessionpipe.outbox import Outbox
from tests.benchmarks import atlarge
from tests.benchmarks.measure import seconds, show

FEW, MANY = 100_000, 1_000_000
RUNS = 7
#: Each with its budget in ms. `doctor` runs the hook and a bare interpreter three times besides.
COMMANDS = {
    "tail": (["tail", "--no-follow"], 200),
    "tail-harness": (["tail", "--no-follow", "--harness", "claude-code"], 200),
    "tail-session": (["tail", "--no-follow", "--session", atlarge.name(7)], 200),
    "status": (["status"], 200),
    "status-json": (["status", "--json"], 200),
    "sessions": (["sessions"], 200),
    "sessions-json": (["sessions", "--json"], 200),
    "doctor": (["doctor"], 400),
    "sinks-list": (["sinks", "list"], 250),
    "replay": (["replay", "dead"], 1500),
}
#: What may grow by more than a half: `--json` prints every session, `doctor` counts twice, and `replay` says how many
#: events go once more, of those types that do.
_GROWTH = {"status-json": 2, "sessions-json": 2, "doctor": 2, "replay": 11}
_SINKS = """
[[sinks]]
name = "file"
kind = "file"
path = "{folder}/events.ndjson"
tier = 3
[[sinks]]
name = "half"
kind = "http"
url = "http://127.0.0.1:9/events"
tier = 1
[[sinks]]
name = "dead"
kind = "http"
url = "http://127.0.0.1:9/dead"
tier = 0
"""


def run() -> None:
    few, many = (_prepared(events) for events in (FEW, MANY))
    for name, (words, budget) in COMMANDS.items():
        command = [sys.executable, "-m", "sessionpipe", *words]
        for env in (few, many):
            seconds(
                command, b"", env
            )  # What it reads is in the page cache then, and its modules are compiled.
        pairs = [[seconds(command, b"", env) * 1000 for env in (few, many)] for _ in range(RUNS)]
        little, much = (statistics.median(times) for times in zip(*pairs, strict=True))
        show(f"{name}-{MANY}", much, "ms", budget)
        show(f"growth-{name}", much / little, "x for ten times the events", _GROWTH.get(name, 1.5))


def _prepared(events: int) -> dict[str, str]:
    """The environment of commands that look at so many events."""
    state = atlarge.outbox(events)
    folder = state.root.parent
    config = folder / "config"
    config.mkdir(mode=0o700, exist_ok=True)
    (config / "config.toml").write_text(_SINKS.format(folder=folder))
    (config / "config.toml").chmod(0o600)
    launcher.write(state, config, {})
    state.spool.mkdir(mode=0o700, exist_ok=True)
    for path in (state.root, *state.root.rglob("*")):
        path.chmod(0o700 if path.is_dir() or path == state.launcher else 0o600)
    box = Outbox.open(state.outbox)
    box.forget("claude-code", atlarge.name(3), now_ms(), 1, lambda _seq: b"{}")
    for sink, position in (("file", events), ("half", events // 2), ("dead", 0)):
        box.add_sink(sink, position)
    box.remember("checked_ms", now_ms())
    box.checkpoint()
    box.close()
    return {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "SESSIONPIPE_STATE_DIR": str(state.root),
        "SESSIONPIPE_CONFIG_DIR": str(config),
        "SESSIONPIPE_NO_WORKER": "1",
    }
