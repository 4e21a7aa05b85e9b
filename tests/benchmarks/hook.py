"""The launcher and both hooks against a bare interpreter start, and hooks in a burst.

What was tried, in CPU of whole processes with 2 KB on standard input, of which a bare start takes
12.4 ms (150 alternating runs beside other work, so the ratios count):

- the launcher and ``hook.py``: 1.02 of a bare start; ``exec`` instead of a child saves 0.01 of it and
  gives up silence when the interpreter itself breaks; ``-X frozen_modules=on`` saves nothing; running
  ``hook.py`` instead of its compiled copy costs a fifth. Leaving by ``_exit`` saves what a bare
  interpreter spends on tidying up, which is why the ratio can be below 1. ``hook.py`` makes 55 system
  calls of the 325, beside a start that is nearly all of its CPU.
- the launcher and ``hook.c``: 0.22 linked dynamically, 0.19 statically; 0.20 by ``exec``, which gives up the
  interpreter as the one that steps in; by the clock the whole was 0.19 and 0.21 in two runs.

Where the rest is, in CPU without a Python that waits for it, of which a bare start takes 14 ms (700 alternating
runs each, on an ext4 of their own): 1.9 ms the launcher and ``hook.c``. 1.0 of that is a shell that does nothing,
0.15 what the launcher says to it, 0.7 the program, of which 0.6 would be one that only reads its input. So:

- the job's file is 0.06 ms. ``O_TMPFILE`` and ``linkat`` instead of a temporary name save 0.01 of these and
  nothing that whole processes show (0.85 against 0.83 ms for the program; with ``hook.py`` the same), and where a
  file system has no such thing it takes the other way, too. Directory descriptors (``openat``, ``renameat``) save
  as much, one ``writev`` and a rename within one folder nothing; neither was kept. The three ``lstat`` are
  0.005, and what keeps a job from being written through a link.
- reading straight to where the payload ends instead of through a buffer: nothing up to 1 MB, and 0.03 ms more at
  2 KB. Chunks of 64 KB or 1 MB: nothing, with either hook.
- ``hook.py`` writes a payload of many chunks one by one: joined before, 1 MB took a twentieth more. Kept.
- the launcher opens /dev/null once, and asks for the interpreter's copy only where that runs: 152 system calls
  and not 158, 0.01 to 0.03 ms. Kept. Asking which machine this is, byte by byte, is 41 calls and 0.04 ms; what
  costs less is not as safe: the loader's path says only for which kind of processor something is, and bytes in
  the program's header at which a shell that takes it for a script would stop make it look like a forgery.
- the program in the launcher's place, without a shell: 0.4 of the whole. Where another kind of machine sees the
  folder the agent would be told so at every hook, and nothing steps in.
- the program without the C library: one that only reads its input takes 0.19 ms instead of 0.70. Of the half
  millisecond 0.3 are 41 ``cpuid``, 7 us each in the virtual machine this was measured in (on no other);
  and the system calls of each kind of processor would have to be written down anew. Not kept.
- on an ext4 where much is deleted, a file that is made costs 0.1 us more for each that went there in the last
  minutes (here 0.2 to 0.5 ms, whoever deleted them): hooks share that with everybody.
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
from tests.e2e.machine import Machine, wait_for

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
        launcher_alone(state, env)
        (Path(folder) / "many").mkdir()
        at_once(Machine(Path(folder) / "many"))


def against_bare(state: State, env: dict[str, str], name: str, budgets: tuple[float, ...]) -> None:
    """Whole processes, by the size of the payload."""
    # The shell that an agent puts before it is the agent's.
    ours = [str(state.launcher), "claude-code", "PostToolUse"]
    for (label, size), budget in zip(SIZES, budgets, strict=True):
        fire = partial(seconds, ours, b"x" * size, env)
        hook_s, bare_s = ratio(fire, lambda: seconds(BARE, b"", env), RUNS)
        show(f"{name}-{label}", hook_s / bare_s, "x-bare-start", budget)


def launcher_alone(state: State, env: dict[str, str]) -> None:
    """The launcher with nothing behind it, by the way to either hook: what an agent waits for a shell and its tests."""
    text = state.launcher.read_text()
    for name, last in (
        ("compiled", '"$program" "$python" "$hook" "$@"'),
        ("", '"$python" -I -S "$compiled" "$@"'),
    ):
        if last not in text:
            continue
        alone = state.bin / "alone"
        text = text.replace(last, "exit 0", 1)
        alone.write_text(text)
        alone.chmod(0o700)
        fire = partial(seconds, [str(alone), "claude-code", "PostToolUse"], b"", env)
        shell_s, bare_s = ratio(fire, lambda: seconds(BARE, b"", env), RUNS)
        show("-".join(filter(None, ("hook", name, "launcher-alone"))), shell_s / bare_s, "x-bare-start", 0.25)
        # The other way: as where nothing could be compiled.
        text = text.replace('"$program" -nt', '"$program" -ot')


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


def at_once(machine: Machine) -> None:
    """Many hooks at once, the compiled ones where they can be, against as many bare starts.

    Each leaves its job; when they may start workers, all but one of those have left again before the last job is
    taken, or soon after.
    """
    state, env = machine.state, machine.environment(SESSIONPIPE_NO_WORKER="1")
    launcher.write(state, machine.config, {})
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
    try:
        together(ours, machine.environment())
        wait_for(Spool(state.spool).empty, "the jobs to be taken")
        wait_for(lambda: len(machine.workers()) < 2, "all workers but one to leave")
        show(f"hook-{AT_ONCE}-at-once-missing", abs(1 - len(machine.workers())), "workers", 0)
    finally:
        machine.stop()


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
        lost = 1 + alone + hooks - outbox.behind_of(0, ["tool.ended"])
    show(f"burst-lost-{hooks}", lost, "events", 0)
