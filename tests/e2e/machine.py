"""A made-up machine: a home, a state and a config directory, and the real commands run on them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sessionpipe.liveness import worker_alive
from sessionpipe.outbox import Outbox
from sessionpipe.paths import State
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from tests.e2e.forked import Forked

SESSIONPIPE = [sys.executable, "-m", "sessionpipe"]
HOOK = Path(__file__).resolve().parents[2] / "sessionpipe" / "hook.py"


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> Any:
    """Wait until ``condition`` is true and return what it was; fail naming ``what`` after ``seconds``.

    Looking takes a fifth of the time at most: what is waited for needs the processor, too.
    """
    deadline = time.monotonic() + seconds
    while (begun := time.monotonic()) < deadline:
        if value := condition():
            return value
        time.sleep(max(0.01, 4 * (time.monotonic() - begun)))
    raise AssertionError(f"waited {seconds:.0f} s in vain for {what}")


class Machine:
    """One person's machine below ``root``, on which ``python`` runs sessionpipe.

    Where there is a process that forks, commands are run by it: a test of what workers and agents do needs many
    of them to make ready and to look, and a start of Python for each would be most of its work.
    """

    def __init__(
        self,
        root: Path,
        python: str = sys.executable,
        forked: Forked | None = None,
        compiled: Path | None = None,
    ) -> None:
        #: A compiled hook that :meth:`hook` fires in place of ``hook.py``.
        self.compiled = compiled
        self.root = root
        self.python = python
        self._forked = forked
        self.home = root / "person"
        self.state = State(root / "state dir's")
        self.config = root / "config"
        self.home.mkdir()

    def environment(self, **extra: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SESSIONPIPE_STATE_DIR": str(self.state.root),
            "SESSIONPIPE_CONFIG_DIR": str(self.config),
            **extra,
        }

    def sessionpipe(
        self, *argv: str, check: bool = True, stdin: str = "", **extra: str
    ) -> subprocess.CompletedProcess[str]:
        env = self.environment(**extra)
        if self._forked is not None:
            done = self._forked.command(*argv, env=env, cwd=self.home, stdin=stdin, folder=self.root)
        else:
            done = subprocess.run(
                [self.python, *SESSIONPIPE[1:], *argv],
                env=env,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=120,
                cwd=self.home,
            )
        if check and done.returncode:
            raise AssertionError(f"{argv}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def hook(
        self, harness: str, event: str, payload: bytes | dict[str, Any] = b"", *args: str, **extra: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Fire a hook as the launcher does, without the shell."""
        if isinstance(payload, dict):
            payload = json.dumps(payload).encode()
        how = [self.python, "-I", "-S"] if self.compiled is None else [str(self.compiled), self.python]
        return subprocess.run(
            [*how, str(HOOK), harness, event, *args],
            env=self.environment(**extra),
            input=payload,
            capture_output=True,
            timeout=60,
            cwd=self.home,
        )

    @contextlib.contextmanager
    def outbox(self) -> Iterator[Outbox]:
        self.state.root.mkdir(parents=True, exist_ok=True)
        outbox = Outbox.open(self.state.outbox)
        try:
            yield outbox
        finally:
            outbox.close()

    def events(self) -> list[dict[str, Any]]:
        """Everything in the outbox, in order."""
        with self.outbox() as outbox:
            return [json.loads(row.body) for row in outbox.read(0, 1_000_000, max_bytes=1 << 40)]

    def worker(self) -> int | None:
        """The process id of the worker that holds the lock."""
        alive, pid = worker_alive(self.state)
        return pid if alive else None

    def kill_worker(self) -> bool:
        """``kill -9`` of whatever worker runs; whether there was one."""
        pid = self.worker()
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def workers(self) -> list[int]:
        """Every worker process of this machine, from the kernel's table: from its birth until it holds nothing."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                argv = (entry / "cmdline").read_bytes()
                if not argv:
                    # Just born or about to be gone: the kernel drops a process's words before its descriptors.
                    held = [fd.readlink() for fd in (entry / "fd").iterdir()]
                    ours = self.state.fifo in held
                else:
                    ours = b"worker" in argv.split(b"\0") and (
                        str(self.state.root).encode() in (entry / "environ").read_bytes()
                    )
                if ours:
                    found.append(int(entry.name))
        return found

    def stop(self) -> None:
        """Leave no worker behind."""
        for pid in self.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
