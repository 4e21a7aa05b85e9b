"""The launcher and both hooks against a bare interpreter start, and hooks in a burst.

What was tried, in CPU of whole processes with 2 KB on standard input, of which a bare start takes
12.4 ms (150 alternating runs beside other work, so the ratios count):

- the launcher and ``hook.py``: 1.02 of a bare start; ``exec`` instead of a child saves 0.01 of it and
  gives up silence when the interpreter itself breaks; ``-X frozen_modules=on`` saves nothing; running
  ``hook.py`` instead of its compiled copy costs a fifth. Leaving by ``_exit`` saves what a bare
  interpreter spends on tidying up, which is why the ratio can be below 1. ``hook.py`` makes 55 system
  calls of the 325, beside a start that is nearly all of its CPU; leaving out single ones was not tried.
- the launcher and ``hook.c``: 0.22 linked dynamically, 0.19 statically (134 and 116 system calls, the
  shell's 47 included); 0.20 by ``exec``, which gives up the interpreter as the one that steps in.
  A shell that does nothing is 0.08 of it. Since the launcher also asks which machine this is, a third
  of all its calls are the shell's, which reads that byte by byte; by the clock the whole was 0.19 and 0.21 in two runs.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from sessionpipe.install import launcher, native
from sessionpipe.liveness import worker_alive
from sessionpipe.outbox import Outbox
from sessionpipe.paths import State
from sessionpipe.spool import Spool
from tests.benchmarks.intake import payload
from tests.benchmarks.measure import ratio, seconds, show

RUNS = 40
AT_ONCE = 64
_SUBREAPER = 36  # prctl's: orphans below this process become its children.
BARE = [sys.executable, "-I", "-S", "-c", "pass"]
SIZES = (("2KB", 2 << 10), ("64KB", 64 << 10), ("1MB", 1 << 20))
PAYLOAD = (
    b'{"session_id":"3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10","transcript_path":"/n/t.jsonl","cwd":"/n",'
    b'"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"ls"},'
    b'"tool_response":{"stdout":"a"},"tool_use_id":"toolu_1"}'
)


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        state = State(Path(folder) / "state")
        launcher.write(state, Path(folder) / "config", {})
        env = {"HOME": folder, "PATH": "/usr/bin:/bin", "SESSIONPIPE_NO_WORKER": "1"}
        against_bare(state, env, "hook", (1.15, 1.6, 1.6))
        calls(state, env, "hook", 140)
        modules(state, env)
        burst(state, env)
        if native.build(state):
            against_bare(state, env, "hook-compiled", (0.4, 0.5, 0.7))
            calls(state, env, "hook-compiled", 170)
        else:
            print("hook-compiled skipped: it cannot be compiled here", flush=True)
        at_once(State(Path(folder) / "many"), env)


def against_bare(state: State, env: dict[str, str], name: str, budgets: tuple[float, ...]) -> None:
    """Whole processes, by the size of the payload."""
    # The shell that an agent puts before it is the agent's.
    ours = [str(state.launcher), "claude-code", "PostToolUse"]
    for (label, size), budget in zip(SIZES, budgets, strict=True):
        fire = partial(seconds, ours, b"x" * size, env)
        hook_s, bare_s = ratio(fire, lambda: seconds(BARE, b"", env), RUNS)
        show(f"{name}-{label}", hook_s / bare_s, "x-bare-start", budget)


def calls(state: State, env: dict[str, str], name: str, budget: int) -> None:
    """System calls of the launcher and its hook, less those of a shell and (``hook.py``) of a bare start."""
    if not (strace := shutil.which("strace")):
        print(f"{name}-system-calls skipped: strace is not here", flush=True)
        return

    def counted(command: list[str]) -> int:
        done = subprocess.run(
            [strace, "-f", "-c", *command], input=PAYLOAD, env=env, capture_output=True, check=True
        )
        total = re.search(rb"^\s*100\.00.*?(\d+)(?:\s+\d+)? total$", done.stderr, re.MULTILINE)
        if total is None:
            raise ValueError("strace counted nothing")
        return int(total[1])

    apart = counted(["/bin/sh", "-c", "exit 0"])
    if name == "hook":
        apart += counted(BARE)
    made = counted([str(state.launcher), "claude-code", "PostToolUse"]) - apart
    show(f"{name}-system-calls", made, "own-calls", budget)


def modules(state: State, env: dict[str, str]) -> None:
    """What the hook imports beyond a bare start."""

    def imported(*command: str) -> set[bytes]:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-X", "importtime", *command],
            env={**env, "SESSIONPIPE_STATE_DIR": str(state.root)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        return {line.rpartition(b"|")[2].strip() for line in done.stderr.splitlines()}

    more = imported(str(state.bin / "hook.pyc"), "codex", "Stop") - imported("-c", "pass")
    show("hook-modules", len(more), "beyond-bare-start", 0)


def at_once(state: State, env: dict[str, str]) -> None:
    """Many hooks at once, the compiled ones where they can be, against as many bare starts; each leaves its job."""
    launcher.write(state, state.root / "config", {})
    budget = 0.3 if native.build(state) else 1.25
    ours = [str(state.launcher), "claude-code", "PostToolUse"]

    def together(command: list[str], env: dict[str, str]) -> float:
        start = time.perf_counter()
        running = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env)
            for _ in range(AT_ONCE)
        ]
        for process in running:
            assert process.stdin is not None
            process.stdin.close()
        if any([process.wait() for process in running]):
            raise ValueError("one of them failed")
        return time.perf_counter() - start

    rounds = 3
    pairs = [(together(ours, env), together(BARE, env)) for _ in range(rounds)]
    hooks, bares = (statistics.median(column) for column in zip(*pairs, strict=True))
    show(f"hook-{AT_ONCE}-at-once", hooks / bares, "x-bare-starts", budget)
    lost = rounds * AT_ONCE - len(Spool(state.spool).names())
    show(f"hook-{AT_ONCE}-at-once-lost", lost, "jobs", 0)


def burst(state: State, env: dict[str, str]) -> None:
    """CPU of 1 000 hooks in a burst with the workers they start, against a hook with a whole worker of its own.

    64 hooks run at a time. What they start becomes a child of this process when its hook has ended, and is waited
    for until it ends by itself. Of the worker per hook twelve are taken: each starts where the rules are compiled
    already, records its one job, and is told to end then. None of both delivers anything.
    """
    if not sys.platform.startswith("linux") or ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0):
        print("burst-cpu skipped: what a hook starts cannot be waited for here", flush=True)
        return
    hooks, alone = 1_000, 12
    state = State(state.root.with_name("burst"))
    launcher.write(state, state.root.with_name("none"), {})
    spool = Spool(state.spool)
    spool.prepare()
    command = ["/bin/sh", "-c", launcher.command(state.launcher, "claude-code", "PostToolUse")]
    env = {name: value for name, value in env.items() if name != "SESSIONPIPE_NO_WORKER"}

    def fire(numbers: range) -> None:
        running = []
        for number in numbers:
            running.append(subprocess.Popen(command, stdin=subprocess.PIPE, env=env))
            with running[-1].stdin as stdin:  # type: ignore[union-attr]
                stdin.write(payload(number, 2 << 10))
        if any([process.wait() for process in running]):
            raise ValueError("one of them failed")

    def ended() -> float:
        """The CPU of everything that has been waited for, when nothing runs any more."""
        with suppress(ChildProcessError):
            while True:
                os.wait()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def alone_with_worker(number: int) -> None:
        fire(range(number, number + 1))
        deadline = time.monotonic() + 20
        while not (spool.empty() and worker_alive(state)[0]):
            if time.monotonic() > deadline:
                raise ValueError("no worker took the job")
            time.sleep(0.002)
        os.kill(worker_alive(state)[1] or 0, signal.SIGTERM)

    try:
        alone_with_worker(0)  # It compiles the rules.
        start = ended()
        for number in range(1, alone + 1):
            alone_with_worker(number)
            ended()
        apart = (ended() - start) / alone
        start = ended()
        for number in range(0, hooks, AT_ONCE):
            fire(range(1_000 + number, 1_000 + min(hooks, number + AT_ONCE)))
        together = (ended() - start) / hooks
    finally:
        ctypes.CDLL(None).prctl(_SUBREAPER, 0, 0, 0, 0)
    show(f"burst-cpu-{hooks}", together / apart, "x-worker-per-hook", 0.1)
    with closing(Outbox.open(state.outbox)) as outbox:
        lost = 1 + alone + hooks - outbox.tally(0)["tool.ended"]
    show(f"burst-lost-{hooks}", lost, "events", 0)
