"""The launcher and the hook against a bare interpreter start, and hooks in a burst.

What was tried: `exec` instead of a child saves half a millisecond and gives up silence when the
interpreter itself breaks; running ``hook.py`` instead of its compiled copy costs a fifth more than a
bare start; leaving by ``_exit`` saves what a bare interpreter spends on tidying up, which is why
the ratio can be below 1.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from sessionpipe.install import launcher
from sessionpipe.paths import State
from sessionpipe.spool import Spool
from tests.benchmarks.measure import ratio, seconds, show

RUNS = 60


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        state = State(Path(folder) / "state")
        launcher.write(state, Path(folder) / "config", {})
        env = {"HOME": folder, "PATH": "/usr/bin:/bin", "SESSIONPIPE_NO_WORKER": "1"}
        bare = [sys.executable, "-I", "-S", "-c", "pass"]
        # The shell that an agent puts before it is the agent's.
        ours = [str(state.launcher), "claude-code", "PostToolUse"]
        for label, size, budget in (("2KB", 2 << 10, 1.15), ("64KB", 64 << 10, 1.6), ("1MB", 1 << 20, 1.6)):
            fire = partial(seconds, ours, b"x" * size, env)
            hook_s, bare_s = ratio(fire, lambda: seconds(bare, b"", env), RUNS)
            show(f"hook-{label}", hook_s / bare_s, "x-bare-start", budget)
        burst(state, env)


def burst(state: State, env: dict[str, str]) -> None:
    """CPU of hooks in a burst, worker included, against a whole worker process per hook."""
    hooks = 200
    command = ["/bin/sh", "-c", launcher.command(state.launcher, "claude-code", "PostToolUse")]
    alone = {name: value for name, value in env.items() if name != "SESSIONPIPE_NO_WORKER"}
    payload = (
        b'{"session_id":"3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10","transcript_path":"/n/t.jsonl","cwd":"/n",'
        b'"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"ls"},'
        b'"tool_response":{"stdout":"a"},"tool_use_id":"toolu_1"}'
    )
    spool = Spool(state.spool)

    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    drain = [sys.executable, "-I", "-m", "sessionpipe", "flush"]
    places = {"SESSIONPIPE_STATE_DIR": str(state.root), "SESSIONPIPE_CONFIG_DIR": str(state.root / "none")}
    subprocess.run(drain, env={**env, **places}, check=True)
    start = cpu()
    for _ in range(hooks):
        subprocess.run(command, input=payload, env=env, check=True)
    hooks_only = cpu() - start
    # The worker a hook starts is nobody's child here, so it is run by hand over the same jobs.
    start = cpu()
    subprocess.run(drain, env={**env, **places}, check=True)
    together = (hooks_only + cpu() - start) / hooks
    start = cpu()
    rounds = 10
    for _ in range(rounds):
        subprocess.run(command, input=payload, env=env, check=True)
        subprocess.run(drain, env={**env, **places}, check=True)
    apart = (cpu() - start) / rounds
    show("burst-cpu", together / apart, "x-worker-per-hook", 0.1)
    subprocess.run(command, input=payload, env=alone, check=True)
    deadline = time.monotonic() + 10
    while not spool.empty() and time.monotonic() < deadline:
        time.sleep(0.01)
