"""Reading transcripts: what is new in a session of 500 MB, and all of one that was never read.

``transcript-<agent>`` is the processor time of one reading behind a cursor near the end of a file of 500 MB, in which
one more recorded session was written (``conformance/transcripts``); what lies between is a hole, which nobody may
look at: ``transcripts-read`` is how much the reading had from the system beside what is new, by the process's own
count. ``growth-transcripts`` compares it with a file of 50 MB. Each says which agent is worst.

``first-reading-<agent>`` is a session of 20 MB that is read for the first time from its beginning, in as many readings
as it takes. A line costs the same whether it was recorded (a kilobyte) or made up by hand (a tenth of that): lines
a second are what counts. ``growth-first-reading-memory`` is how much higher the process stands after it than after one
of a tenth.

The stores hold 2 000 sessions of other people's asking beside ours, which has 20 times as many messages as most.

What was found: a reading costs what is new, whatever the size, but of a zstd file: nothing says where in it an offset
is, so that it is unpacked up to there, twice (its length is not known either), at some 1 GB/s. Codex packs sessions
that nobody goes on with, so that this is once a session and not once a turn. Devin's store keeps a tree: which
messages are of the conversation is known from its last one back, so that each reading looks at the ids of all of them
(at most 20 000), if not at their text.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe import harnesses
from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import Cursor, Reading, Want, digest, mark
from sessionpipe.paths import data_dir
from tests.benchmarks.measure import show
from tests.harnesses import devin_store, opencode_store, packing, test_goose

MB = 1_000_000
SMALL, LARGE, FIRST = 50 * MB, 500 * MB, 20 * MB

#: The recordings, by agent. Kiro's is not one: it is written as its documentation says.
RECORDED = {
    "claude-code": "tui-compact-switch",
    "codex": "tui",
    "pi": "t1-tui",
    "gemini-cli": "tui",
    "copilot-cli": "turns",
    "droid": "turns",
    "antigravity": "turns",
    "cursor": "turns",
    "kiro": "",
}


class Recording(NamedTuple):
    """A recorded session: its agent, its file's name, its lines, and when it was over (epoch ms)."""

    harness: str
    name: str
    lines: bytes
    since_ms: int
    ended_ms: int


def run() -> None:
    recordings = [_recording(harness, name) for harness, name in RECORDED.items()]
    with tempfile.TemporaryDirectory() as folder:
        _from_a_cursor(Path(folder), recordings)
        _from_the_beginning(Path(folder), recordings)
        _packed(Path(folder), next(one for one in recordings if one.harness == "codex"))
        _stores(Path(folder))


def _recording(harness: str, name: str) -> Recording:
    if not name:
        said = {"kind": "AssistantMessage", "data": {"content": [{"kind": "text", "data": "It is. " * 40}]}}
        asked = {"kind": "Prompt", "data": {"content": [{"kind": "text", "data": "Is it done?"}]}}
        lines = "".join(f"{json.dumps(one)}\n" for one in (asked, said) * 8).encode()
        return Recording(harness, "0d3b6c1e.jsonl", lines, 0, 0)
    path = data_dir("conformance") / "transcripts" / harness / f"{name}.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    since, ended = (jsonl.epoch_ms(at) or 0 for at in (told["since"], told["reads"][-1]["ended"]))
    file = told.get("file", f"{told['session']}.jsonl")
    return Recording(harness, file, path.with_suffix(".jsonl").read_bytes(), since, ended)


# --- what is new ----------------------------------------------------------------------------------


class Cost(NamedTuple):
    """One reading: milliseconds of processor time, KB it had from the system beside what is new."""

    ms: float
    beside: float


def _from_a_cursor(folder: Path, recordings: list[Recording]) -> None:
    growths: list[tuple[float, str]] = []
    besides: list[tuple[float, str]] = []
    for one in recordings:
        files = [_with_a_hole(folder / str(size), one, size) for size in (SMALL, LARGE)]
        # By turns, so that a slow moment touches both.
        costs = [[_behind(one, file, at) for file, at in files] for _ in range(40)]
        small, large = (min(cost[which].ms for cost in costs) for which in (0, 1))
        show(f"transcript-{one.harness}", large, "ms behind a cursor in 500 MB", 1.5)
        growths.append((large / small, one.harness))
        besides.append((costs[-1][1].beside, one.harness))
    growth, worst = max(growths)
    show("growth-transcripts", growth, f"x for ten times the file ({worst})", 1.5)
    beside, worst = max(besides)
    show("transcripts-read", beside, f"KB beside what is new ({worst})", 16)


def _with_a_hole(folder: Path, one: Recording, size: int) -> tuple[Path, int]:
    """The session with a hole of ``size`` and itself again behind that; and where it was over before that."""
    folder.mkdir(exist_ok=True)
    file = folder / one.name
    with file.open("wb") as out:
        out.write(one.lines)
        out.seek(size, os.SEEK_CUR)
        out.write(b"\n" + one.lines)
        at = out.tell()
        out.write(one.lines)
    os.utime(file, (1_700_000_000, 1_700_000_000))  # So that nobody waits for its writer.
    return file, at


def _behind(one: Recording, file: Path, at: int) -> Cost:
    files = Files()
    opened = files.open(file)
    assert opened is not None
    with opened:
        cursor = Cursor(at, mark(opened, at), None, 0, [], 0)._asdict()
    asked, begun = _asked_for(), time.process_time()
    reading = _read(one, file, cursor, None, files)
    cost = Cost((time.process_time() - begun) * 1e3, (_asked_for() - asked - len(one.lines)) / 1024)
    if not reading.exchanges:
        raise SystemExit(f"{one.harness}: nothing was read behind the cursor")
    return cost


def _read(
    one: Recording, file: Path, cursor: dict[str, Any], since_ms: int | None, files: Files, session: str = ""
) -> Reading:
    want = Want(said=None, final=True, since_ms=since_ms, ended_ms=one.ended_ms, session=session)
    return harnesses.get(one.harness).exchanges(file, cursor, want, files)


def _asked_for() -> int:
    """How many bytes this process has read, wherever they came from; 0 where the system doesn't count."""
    try:
        return int(Path("/proc/self/io").read_text().split()[1])
    except OSError:
        return 0


# --- all of it ------------------------------------------------------------------------------------


def _from_the_beginning(folder: Path, recordings: list[Recording]) -> None:
    growths: list[tuple[float, str]] = []
    for one in recordings:
        few, _ = _apart(partial(_whole, folder, one, FIRST // 10))
        many, rate = _apart(partial(_whole, folder, one, FIRST))
        show(f"first-reading-{one.harness}", rate, "lines/s", 40_000, at_most=False)
        growths.append((many - few, one.harness))
    growth, worst = max(growths)
    show("growth-first-reading-memory", growth, f"MB more for ten times the file ({worst})", 16)


def _whole(folder: Path, one: Recording, size: int) -> float:
    """Read a session of ``size`` bytes, reading after reading; how many lines a second of processor time."""
    file = folder / one.name
    with file.open("wb") as out:
        for _ in range(size // len(one.lines)):
            out.write(one.lines)
    os.utime(file, (1_700_000_000, 1_700_000_000))
    _read(one, file, {}, None, Files())  # What there is to import is no matter of the file's.
    begun, found = time.process_time(), 0
    cursor: dict[str, Any] = {}
    while (reading := _read(one, file, cursor, None, Files())).exchanges:
        found, cursor = found + len(reading.exchanges), reading.cursor
    if found < size // len(one.lines):
        raise SystemExit(f"{one.harness}: {found} exchanges of {size} bytes")
    return size // len(one.lines) * one.lines.count(b"\n") / (time.process_time() - begun)


def _apart(work: Callable[[], float]) -> tuple[float, float]:
    """What ``work`` comes to in a process of its own, behind how much memory it took, in MB."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            found = work()
            more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            os.write(theirs, json.dumps([more, found]).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as said:
        text = said.read()
    os.waitpid(pid, 0)
    if not text:
        raise SystemExit("a reading failed")
    more, found = json.loads(text)
    return more, found


def _packed(folder: Path, one: Recording) -> None:
    """A session that Codex has put away: read from its beginning, and behind a cursor at its end."""
    # Of what a tool printed, half can be packed away.
    noise = b'{"type":"event_msg","payload":{"type":"noise","text":"%s"}}\n'
    lines = b"".join(one.lines + noise % os.urandom(20_000).hex().encode() for _ in range(500))
    (folder / "packed").mkdir()
    file = folder / "packed" / f"{one.name}.zst"
    file.write_bytes(packing.compress(lines))
    begun = time.process_time()
    cursor: dict[str, Any] = {}
    while (reading := _read(one, file, cursor, None, Files())).exchanges:
        cursor = reading.cursor
    show(
        "first-reading-codex.zst", len(lines) / (time.process_time() - begun) / MB, "MB/s", 45, at_most=False
    )
    times = []
    for _ in range(3):
        begun = time.process_time()
        _read(one, file, cursor, None, Files())
        times.append(time.process_time() - begun)
    show("transcript-codex.zst", min(times) * 1e3, f"ms behind a cursor in {len(lines) / MB:.0f} MB", 180)


# --- stores ---------------------------------------------------------------------------------------

#: Sessions in a store beside ours; messages in each of them, and in ours.
OTHERS, EACH, OURS = 2_000, 20, 400
_TEXT = "The handler takes the request apart, and what it finds goes to the store in one step. " * 8


def _stores(folder: Path) -> None:
    growths: list[tuple[float, str]] = []
    for name, fill in (("opencode", _opencode), ("goose", _goose), ("devin", _devin)):
        read = []
        for others in (OTHERS // 10, OTHERS):
            path, session, cursor = fill(folder / f"{name}-{others}", others)
            os.utime(path, (1_700_000_000, 1_700_000_000))
            one = Recording(name, path.name, b"", 0, 2**40)
            read.append((one, path, cursor, session))
        times: list[list[float]] = [[], []]
        for _ in range(20):
            for which, (one, path, cursor, session) in enumerate(read):
                begun = time.process_time()
                reading = _read(one, path, cursor, None, Files(), session)
                times[which].append(time.process_time() - begun)
                if len(reading.exchanges) != 1:
                    raise SystemExit(f"{name}: {len(reading.exchanges)} exchanges of 1")
        small, large = map(min, times)
        mb = read[1][1].stat().st_size / MB
        show(f"transcript-{name}", large * 1e3, f"ms behind a cursor in a store of {mb:.0f} MB", 6)
        growths.append((large / small, name))
    growth, worst = max(growths)
    show("growth-transcripts-store", growth, f"x for ten times the sessions ({worst})", 1.5)


def _opencode(folder: Path, others: int) -> tuple[Path, str, dict[str, Any]]:
    path = folder / "opencode.db"
    store = opencode_store.Store(path)
    store.execute("PRAGMA synchronous = OFF")
    store.execute("BEGIN")
    for number in range(others):
        _talk_to_opencode(store, f"ses_{number:06d}", EACH)
    _talk_to_opencode(store, "ses_ours", OURS)
    store.execute("COMMIT")
    store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    return path, "ses_ours", {"ms": OURS - 2, "id": "", "last": ""}


def _talk_to_opencode(store: opencode_store.Store, session: str, messages: int) -> None:
    store.session(session, 0)
    for ms in range(0, messages, 2):
        store.say(session, ms + 1, store.ask(session, ms, "What now?"), _TEXT)


def _goose(folder: Path, others: int) -> tuple[Path, str, dict[str, Any]]:
    path = folder / "sessions.db"
    store = test_goose.Store(path)
    store.execute("CREATE INDEX idx_messages_session ON messages (session_id)")  # As Goose makes it.
    store.execute("PRAGMA synchronous = OFF")
    store.execute("BEGIN")
    names = [f"20261128_{number}" for number in range(others)] + [test_goose.SESSION]
    count = 0
    for name in names:
        store.session(name)
        for at in range(OURS if name == test_goose.SESSION else EACH):
            role, text = ("assistant", _TEXT) if at % 2 else ("user", "What now?")
            store.execute(
                "INSERT INTO messages (session_id, role, content_json, created_timestamp) VALUES (?, ?, ?, ?)",
                *(name, role, json.dumps([{"type": "text", "text": text}]), test_goose.S + at),
            )
            count += 1
    store.execute("COMMIT")
    store.close()
    cursor = Cursor(count - 1, digest(test_goose.SESSION) or "", None, 0, [], 0)
    return path, test_goose.SESSION, cursor._asdict()


def _devin(folder: Path, others: int) -> tuple[Path, str, dict[str, Any]]:
    store = devin_store.Store(folder)
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("CREATE INDEX nodes ON message_nodes (session_id, node_id)")  # As Devin's key is.
        for name in [f"amber-{number}" for number in range(others)] + ["amber-otter"]:
            count = OURS if name == "amber-otter" else EACH
            connection.execute(
                "INSERT INTO sessions VALUES (?, '/src', 'm-1', ?, ?, 'T', ?, 0)",
                (name, devin_store.START, devin_store.START, count),
            )
            connection.executemany(
                "INSERT INTO message_nodes VALUES (?, ?, ?, ?, ?)",
                (
                    (name, at, at - 1 or None, _message_of_devins(at), devin_store.START + at)
                    for at in range(1, count + 1)
                ),
            )
        connection.commit()
    cursor = Cursor(OURS - 1, digest("amber-otter") or "", None, 0, [], 0)
    return store.path, "amber-otter", cursor._asdict()


def _message_of_devins(at: int) -> str:
    role, text = ("user", "What now?") if at % 2 else ("assistant", _TEXT)
    return json.dumps({"role": role, "content": text, "message_id": f"m{at}"})
