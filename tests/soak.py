"""The soak: events by the thousand, the worker killed at random all the while, and a receiver that dies too.

    python -m tests.soak                      # 20 000 events, 200 kills
    python -m tests.soak --events 2000 --kills 20 --seed 7
    python -m tests.soak --compiled           # every job by the compiled hook, which is killed, too

Real processes throughout: hooks, the workers they start, ``kill -9``. All of it goes to a file, and
to a receiver on the loopback interface that goes away before it has read a request, while it answers,
and after it has stored the events but before it says so. At the end both are compared with what went in.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sessionpipe.install import native
from sessionpipe.paths import State
from sessionpipe.spool import Spool
from tests.delivery.events import keys, lines
from tests.e2e.machine import HOOK, Machine, wait_for

SESSIONS = 8
#: One in so many compiled hooks is killed somewhere in its life, which is about so long.
HOOKS_KILLED = 8
HOOK_SECONDS = 0.001


class Mortal(threading.Thread):
    """A receiver that dies before, during and after its answers, and is gone for a while now and then."""

    def __init__(self, seed: int, mortality: float) -> None:
        super().__init__(daemon=True)
        self._random = random.Random(seed)
        self._mortality = mortality
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.mortal = True
        self.deaths: Counter[str] = Counter()
        self.requests = 0
        #: Each event as it came first, and how often each came, by the identity receivers know it by.
        self.first: dict[tuple[str, str, int], bytes] = {}
        self.arrivals: Counter[tuple[str, str, int]] = Counter()
        self.changed: list[tuple[str, str, int]] = []

    def run(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with contextlib.suppress(OSError, ValueError), connection:
                connection.settimeout(20)
                self._serve(connection)
            if self._dies("gone for a while", 0.02):
                # Nobody listens: connections are refused, as of a receiver that is restarted.
                self._listening.close()
                time.sleep(self._random.uniform(0.05, 0.5))
                self._listening = socket.create_server(("127.0.0.1", self.port))

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while head := self._head(stream):
            if self._dies("before it has read", 0.04):
                return self._tear(connection)
            body = stream.read(head["length"])
            if head["method"] == "GET":
                connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                continue
            if len(body) < head["length"]:
                return None  # The sender was killed.
            self.requests += 1
            if self._dies("with a 503", 0.04):
                connection.sendall(b"HTTP/1.1 503 Later\r\ncontent-length: 0\r\n\r\n")
                continue
            answer = self._store(json.loads(body)["events"])
            if self._dies("after it has stored", 0.05):
                return self._tear(connection)
            text = f"HTTP/1.1 202 Accepted\r\ncontent-length: {len(answer)}\r\n\r\n".encode() + answer
            if self._dies("while it answers", 0.05):
                connection.sendall(text[: self._random.randrange(1, len(text))])
                return self._tear(connection)
            connection.sendall(text)
        return None

    def _head(self, stream: Any) -> dict[str, Any]:
        first = stream.readline()
        if not first:
            return {}
        length = 0
        while (line := stream.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return {"method": first.split()[0].decode(), "length": length}

    def _store(self, events: list[dict[str, Any]]) -> bytes:
        before = len(self.first)
        for event in events:
            key = (event["harness"]["name"], event["session"]["id"], event["session"]["seq"])
            content = json.dumps(event, sort_keys=True).encode()
            if self.first.setdefault(key, content) != content:
                self.changed.append(key)
            self.arrivals[key] += 1
        accepted = len(self.first) - before
        return json.dumps(
            {"accepted": accepted, "duplicates": len(events) - accepted, "rejected": []}
        ).encode()

    def _dies(self, how: str, chance: float) -> bool:
        died = self.mortal and self._random.random() < chance * self._mortality
        self.deaths[how] += died
        return died

    @staticmethod
    def _tear(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def close(self) -> None:
        self._listening.close()


@dataclass
class Figures:
    """What came of a soak."""

    jobs: int = 0
    kills: int = 0
    hooks_killed: int = 0
    hooks_killed_recorded: int = 0
    recorded: int = 0
    delivered: int = 0
    duplicates: int = 0
    changed: int = 0
    lost: int = 0
    file_lines: int = 0
    file_duplicates: int = 0
    file_lost: int = 0
    requests: int = 0
    seconds: float = 0.0
    deaths: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def show(self) -> str:
        deaths = ", ".join(f"{how} {count}" for how, count in sorted(self.deaths.items()))
        return "\n".join(
            [
                f"jobs in {self.jobs}, kill -9 of the worker {self.kills}, {self.seconds:.0f} s",
                f"recorded {self.recorded} events",
                *self._hooks(),
                f"receiver: {self.requests} requests; delivered {self.delivered}, duplicates by identity"
                f" {self.duplicates}, of other content {self.changed}, lost {self.lost}",
                f"receiver died: {deaths}",
                f"file: {self.file_lines} lines, duplicates {self.file_duplicates}, lost {self.file_lost}",
                *(f"WRONG: {one}" for one in self.wrong),
            ]
        )

    def _hooks(self) -> list[str]:
        if not self.hooks_killed:
            return []
        recorded = self.hooks_killed_recorded
        return [f"kill -9 of the hook {self.hooks_killed} more times; had left its job {recorded}"]


def soak(
    root: Path, events: int, kills: int, seed: int, mortality: float = 1.0, compiled: Path | None = None
) -> Figures:
    """Put ``events`` jobs in while the worker is killed ``kills`` times; what came of it.

    ``mortality`` is how much more often the receiver dies than at one in five requests. Where there is a
    ``compiled`` hook each job is left by a run of it, and other runs of it are killed.
    """
    began, chance = time.monotonic(), random.Random(seed)
    root.mkdir(exist_ok=True)
    machine, receiver = Machine(root, compiled=compiled), Mortal(seed, mortality)
    out = root / "events.ndjson"
    machine.config.mkdir()
    (machine.config / "config.toml").write_text(
        f'[[sinks]]\nname = "board"\nkind = "http"\nurl = "http://127.0.0.1:{receiver.port}"\ntier = 3\n'
        f'[[sinks]]\nname = "notes"\nkind = "file"\npath = "{out}"\ntier = 3\n'
    )
    receiver.start()
    figures = Figures()
    calls: list[str] = []
    killed: list[str] = []
    try:
        while figures.kills < kills or len(calls) < events:
            # The jobs of one life of a worker: all but one as hooks leave them, the last by a hook.
            share = max(1, (events - len(calls)) // max(1, kills - figures.kills))
            for _ in range(min(share, events - len(calls)) - 1):
                if compiled is None:
                    _put(machine, _named(calls))
                    continue
                machine.hook("claude-code", "PostToolUse", _payload(_named(calls)))
                if chance.randrange(HOOKS_KILLED) == 0:
                    killed.append(_kill_a_hook(machine, compiled, events + len(killed), chance.random()))
            if len(calls) < events:
                machine.hook("claude-code", "PostToolUse", _payload(_named(calls)))
            elif machine.worker() is None:
                machine.hook("claude-code", "Stop", {**_payload(0), "hook_event_name": "Stop"})
            if figures.kills < kills:
                # Anywhere in its life: as it takes the lock, as it records, as it delivers, as it idles.
                wait_for(machine.worker, "a worker to kill")
                time.sleep(chance.choice((0.0, 0.1, 0.4, 1.2)) * chance.random())
                figures.kills += machine.kill_worker()
        for tries in range(20):
            receiver.mortal = tries < 3
            left = machine.sessionpipe("flush", check=False)
            if left.returncode == 0:
                break
        else:
            figures.wrong.append(f"flush still leaves something: {left.stderr.strip()}")
        wait_for(lambda: not machine.workers(), "the workers to leave")
        figures.jobs = len(calls)
        _compare(machine, receiver, out, calls, killed, figures)
    finally:
        machine.stop()
        receiver.close()
    figures.seconds = time.monotonic() - began
    return figures


def _named(calls: list[str]) -> int:
    calls.append(_call_id(len(calls)))
    return len(calls) - 1


def _call_id(number: int) -> str:
    return f"toolu_{number:06}"


def _payload(number: int) -> dict[str, Any]:
    session = f"3f0c2f2e-6a51-4d7b-9a55-{number % SESSIONS:012}"
    return {
        "session_id": session,
        "transcript_path": f"/nowhere/{session}.jsonl",
        "cwd": "/nowhere",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": f"echo {number}"},
        "tool_response": {"stdout": "y" * (number % 400), "stderr": ""},
        "tool_use_id": _call_id(number),
        "duration_ms": 3,
    }


def _kill_a_hook(machine: Machine, compiled: Path, number: int, when: float) -> str:
    """Fire the compiled hook and kill it at about ``when`` of its life; the id of the call it was to leave."""
    with subprocess.Popen(
        [str(compiled), machine.python, str(HOOK), "claude-code", "PostToolUse"],
        env=machine.environment(),
        stdin=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(_payload(number)).encode())
            process.stdin.close()
        time.sleep(when * HOOK_SECONDS)
        process.kill()
    return _call_id(number)


def _put(machine: Machine, number: int) -> None:
    spool = Spool(machine.state.spool)
    if not spool.new.is_dir():
        machine.state.root.mkdir(mode=0o700, exist_ok=True)
        spool.prepare()
    now = time.time_ns()
    header = (
        f"v=1\0harness=claude-code\0event=PostToolUse\0at_ms={now // 1_000_000}\0cwd=/nowhere\0ppid=1\0\0"
    )
    name = f"{now:020}-1-{number:08x}.job"
    (spool.tmp / name).write_bytes(header.encode() + json.dumps(_payload(number)).encode())
    (spool.tmp / name).rename(spool.new / name)


def _compare(
    machine: Machine, receiver: Mortal, out: Path, calls: list[str], killed: list[str], figures: Figures
) -> None:
    recorded = machine.events()
    figures.recorded = len(recorded)
    told = Counter(e["data"]["call_id"] for e in recorded if e["type"] == "tool.ended")
    # A hook that was killed has left all of its job or nothing.
    left = calls + [call for call in killed if call in told]
    figures.hooks_killed, figures.hooks_killed_recorded = len(killed), len(left) - len(calls)
    if told != Counter(left):
        figures.wrong.append(
            f"{len(told - Counter(left))} calls recorded twice, {len(Counter(left) - told)} never"
        )
    if rejected := Spool(machine.state.spool).rejected_names():
        figures.wrong.append(f"{len(rejected)} jobs were not whole")
    counted: dict[str, int] = {}
    for event in recorded:
        session = event["session"]
        if session["seq"] != counted.setdefault(session["id"], 0):
            figures.wrong.append(f"a seq of {session['id']} is missing or doubled")
            break
        counted[session["id"]] += 1
    # Heartbeats are for those who get no tool events.
    owed = [event for event in recorded if event["type"] != "session.heartbeat"]
    identities = {("claude-code", *key) for key in keys(owed)}
    figures.requests, figures.deaths = receiver.requests, dict(receiver.deaths)
    figures.delivered = len(receiver.first)
    figures.duplicates = sum(receiver.arrivals.values()) - len(receiver.first)
    figures.changed = len(receiver.changed)
    figures.lost = len(identities - receiver.first.keys())
    written = lines(out)
    figures.file_lines = len(written)
    figures.file_duplicates = len(written) - len(set(keys(written)))
    figures.file_lost = len(set(keys(owed)) - set(keys(written)))
    if keys(written) != keys(owed):
        figures.wrong.append("the file is not in the outbox's order")
    for event in written:
        key = ("claude-code", event["session"]["id"], event["session"]["seq"])
        if receiver.first.get(key) != json.dumps(event, sort_keys=True).encode():
            figures.wrong.append(f"{key} is not the same in the file and at the receiver")
            break
    for name in ("changed", "lost", "file_duplicates", "file_lost"):
        if getattr(figures, name):
            figures.wrong.append(f"{name} is not 0")


def _compiled(folder: Path) -> Path:
    state = State(folder)
    state.bin.mkdir(parents=True)
    if not native.build(state):
        raise SystemExit("the hook cannot be compiled here")
    return native.program(state)


def main() -> int:
    """Run it and print the figures; exit status 1 when anything is lost, doubled or changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--compiled", action="store_true")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        compiled = _compiled(Path(folder) / "compiled") if asked.compiled else None
        figures = soak(Path(folder) / "soak", asked.events, asked.kills, asked.seed, compiled=compiled)
    print(figures.show())
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
