"""Playing a recorded session through the real hook, in a folder of its own.

A recording is a folder of ``NN-<Event>.json`` (what the harness ran: its environment, its standard
input) with the harness's own files below ``files/``. Playing it runs ``hook.py`` as the harness did,
hook after hook, and lets the transcript grow in between as it grew then.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import sessionpipe
from sessionpipe.clock import now_ms
from sessionpipe.liveness import send, worker_alive
from sessionpipe.outbox import Outbox
from sessionpipe.paths import State
from sessionpipe.protocol import rfc3339
from sessionpipe.spool import Spool
from sessionpipe.wake import LOOK

#: Where the recorded person's home was; everything recorded lies below it.
RECORDED_HOME = "/home/dev"
_PACKAGE = Path(sessionpipe.__file__).parent
_PATIENCE_S = 10.0
#: A person took this long to read, to answer, to type.
PAUSE_MS = 1000


class Hook(NamedTuple):
    """One firing as it was recorded; ``arguments`` are the hook's: its event, and what came behind it."""

    arguments: list[str]
    environment: dict[str, str]
    payload: bytes
    at_ms: int

    @property
    def event(self) -> str:
        """The harness's own name of what happened."""
        return self.arguments[0]


class Transcript(NamedTuple):
    """A file the harness wrote meanwhile: its lines, each with when it was there at the earliest."""

    path: Path
    lines: list[tuple[int, str]]


class Recording(NamedTuple):
    """A recorded session, moved to another home."""

    hooks: list[Hook]
    transcripts: list[Transcript]


def load(folder: Path, home: Path, swap: Mapping[str, str], *, anew: bool = False) -> Recording:
    """The recording in ``folder`` as if made in ``home``, with JSON strings of it swapped for others.

    ``swap`` maps whole strings, as the person or the model wrote them, to what they shall be instead.
    ``anew``: as another session, with an id no receiver has had.
    """
    swaps = {json.dumps(old): json.dumps(new) for old, new in swap.items()}
    files = sorted(folder.glob("*.json"))
    if anew:
        swaps[json.loads(files[0].read_text("utf-8"))["stdin"]["session_id"]] = str(uuid.uuid4())

    def moved(text: str) -> str:
        for old, new in swaps.items():
            text = text.replace(old, new)
        return text.replace(RECORDED_HOME, json.dumps(str(home))[1:-1])

    hooks = []
    for file in files:
        record = json.loads(moved(_compact(file.read_text("utf-8"))))
        hooks.append(
            Hook(
                arguments=record["argv"][1:],
                environment=record["env"],
                payload=json.dumps(record["stdin"], ensure_ascii=False, separators=(",", ":")).encode()
                + b"\n",
                at_ms=record["at_ms"],
            )
        )
    root = folder / "files"
    transcripts = [
        Transcript(
            home / ".claude" / moved(str(file.relative_to(root))), _timed(moved(file.read_text("utf-8")))
        )
        for file in sorted((root / "projects").rglob("*.jsonl"))
    ]
    return Recording(hooks, transcripts)


def _compact(text: str) -> str:
    return json.dumps(json.loads(text), ensure_ascii=False)


def _timed(text: str) -> list[tuple[int, str]]:
    """Lines with their times; one without a time came with the line before it."""
    timed: list[tuple[int, str]] = []
    newest = 0
    for line in text.splitlines():
        stamp = json.loads(line).get("timestamp")
        if isinstance(stamp, str):
            newest = max(newest, int(datetime.fromisoformat(stamp).timestamp() * 1000))
        timed.append((newest, line))
    return timed


def grow(transcripts: Sequence[Transcript], written: list[int], until_ms: int) -> None:
    """Append what had been written by ``until_ms`` of the recording, as if it were written now.

    ``written`` counts each transcript's lines so far, and is brought up to date.
    """
    for index, transcript in enumerate(transcripts):
        due = [line for at, line in transcript.lines[written[index] :] if at <= until_ms]
        if not due:
            continue
        written[index] += len(due)
        transcript.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A reader compares these times with the hooks'.
        now = rfc3339(now_ms())
        with transcript.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{_at(line, now)}\n" for line in due)


class Stage:
    """A machine of its own for one play: home, state and settings in a temporary folder.

    Leaving it ends the worker and removes everything.
    """

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="sessionpipe-demo-")).resolve()
        self.home = self.root / "home"
        self.config = self.root / "config"
        self.state = State(self.root / "state")
        for folder in (self.home, self.config, self.state.root):
            folder.mkdir(mode=0o700)
        # Nothing of the person's own environment but what programs need to start at all.
        kept = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "TMPDIR")
        self.environment = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "HOME": str(self.home),
            "SESSIONPIPE_STATE_DIR": str(self.state.root),
            "SESSIONPIPE_CONFIG_DIR": str(self.config),
        }

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_worker()
        shutil.rmtree(self.root, ignore_errors=True)

    def play(self, harness: str, recording: Recording, *, longest_s: float = 0.0) -> list[float]:
        """Fire every hook; how long each took as a whole process, in milliseconds.

        A pause of the recorded person's lasts as long as the worker needs, or as it lasted then, but no
        longer than ``longest_s``.
        """
        written = [0] * len(recording.transcripts)
        took = []
        before_ms = recording.hooks[0].at_ms
        for hook in recording.hooks:
            if hook.at_ms - before_ms >= PAUSE_MS:
                # What an agent writes late, it writes within a moment.
                grow(recording.transcripts, written, before_ms + PAUSE_MS // 2)
                self._settle()
            if longest_s:
                time.sleep(min((hook.at_ms - before_ms) / 1000, longest_s))
            before_ms = hook.at_ms
            grow(recording.transcripts, written, hook.at_ms)
            took.append(self.fire(harness, hook))
        grow(recording.transcripts, written, sys.maxsize)
        return took

    def _settle(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S / 4
        while time.monotonic() < deadline and not self._settled():
            time.sleep(0.01)

    def _settled(self) -> bool:
        """Whether everything that was fired is recorded, and no transcript is being waited for."""
        if not Spool(self.state.spool).empty():
            return False
        outbox = Outbox.look(self.state.outbox, follow=True)
        if outbox is None:
            return False
        try:
            return all(pending.due_ms is None for pending in outbox.pending_reads())
        finally:
            outbox.close()

    def fire(self, harness: str, hook: Hook) -> float:
        """Run the hook as the harness did; how long that took in milliseconds."""
        command = [sys.executable, "-I", "-S", str(_PACKAGE / "hook.py"), harness, *hook.arguments]
        environment = {**hook.environment, **self.environment}
        start = time.perf_counter()
        done = subprocess.run(  # noqa: S603  # our own hook
            command,
            input=hook.payload,
            env=environment,
            cwd=self.home,
            capture_output=True,
            timeout=60,
            check=True,
        )
        took = (time.perf_counter() - start) * 1000
        if done.stdout or done.stderr:
            raise RuntimeError(f"the hook printed something: {done.stdout!r} {done.stderr!r}")
        return took

    def bare_start(self) -> float:
        """How long a Python that does nothing takes here, in milliseconds."""
        start = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], env=self.environment, check=True)
        return (time.perf_counter() - start) * 1000

    def command(self, *words: str) -> str:
        """Run a command of ours on this machine; what it printed. Raises RuntimeError with what it complained of."""
        done = subprocess.run(  # noqa: S603  # ours
            [sys.executable, "-I", str(_PACKAGE / "__main__.py"), *words],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip().removeprefix("sessionpipe: "))
        return done.stdout

    def flush(self) -> bytes:
        """Record and deliver everything; what the stdout sinks wrote, event after event."""
        command = [sys.executable, "-I", str(_PACKAGE / "__main__.py"), "flush"]
        # A file, because several sinks write here: a pipe would tear their lines apart.
        written = self.root / "stdout"
        with written.open("ab") as out:
            done = subprocess.run(  # noqa: S603  # ours
                command,
                env=self.environment,
                cwd=self.home,
                stdout=out,
                stderr=subprocess.PIPE,
                timeout=60,
                check=False,
            )
        if done.returncode:
            raise RuntimeError(done.stderr.decode("utf-8", "replace").strip())
        return written.read_bytes()

    def stop_worker(self) -> None:
        """End the worker the first hook started, so that nobody uses what is removed."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            alive, pid = worker_alive(self.state)
            # One that is only starting holds no lock yet, but it has the FIFO open.
            if not alive and not send(self.state.fifo, LOOK):
                return
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            time.sleep(0.02)


def _at(line: str, now: str) -> str:
    record: Any = json.loads(line)
    if not isinstance(record.get("timestamp"), str):
        return line
    return json.dumps({**record, "timestamp": now}, ensure_ascii=False, separators=(",", ":"))
