"""The worker as a process: one of it, nothing lost, nothing twice, gone when nothing is owed."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.install import native
from sessionpipe.liveness import send
from sessionpipe.spool import Spool
from tests.e2e.machine import HOOK, SESSIONPIPE, Machine, wait_for

SESSION = "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10"


def tool(call: str, session: str = SESSION) -> dict[str, Any]:
    """A recorded shape: the end of one of Claude Code's tool calls."""
    return {
        "session_id": session,
        "transcript_path": f"/nowhere/{session}.jsonl",
        "cwd": "/nowhere",
        "prompt_id": "b3f6c9d8-0000-4000-8000-000000000001",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "true"},
        "tool_response": {"stdout": "", "stderr": ""},
        "tool_use_id": call,
        "duration_ms": 3,
    }


def drained(machine: Machine) -> bool:
    return Spool(machine.state.spool).empty()


def assert_exactly_once(machine: Machine, calls: list[str]) -> None:
    events = machine.events()
    assert Counter(e["data"]["call_id"] for e in events if e["type"] == "tool.ended") == Counter(calls)
    by_session: dict[str, list[int]] = {}
    for event in events:
        by_session.setdefault(event["session"]["id"], []).append(event["session"]["seq"])
    for seqs in by_session.values():
        assert seqs == list(range(len(seqs)))


def test_sixty_four_hooks_at_once_give_sixty_four_results_by_one_worker(machine: Machine) -> None:
    calls = [f"toolu_{number}" for number in range(64)]
    with ThreadPoolExecutor(64) as pool:
        done = list(pool.map(lambda call: machine.hook("claude-code", "PostToolUse", tool(call)), calls))
    assert {(one.returncode, one.stdout, one.stderr) for one in done} == {(0, b"", b"")}
    wait_for(lambda: drained(machine), "the spool to drain")
    assert len(machine.workers()) == 1
    assert_exactly_once(machine, calls)


def test_killed_at_random_during_a_burst_every_job_is_recorded_exactly_once(machine: Machine) -> None:
    calls: list[str] = []
    random_ = random.Random(7)
    over = threading.Event()
    kills = 0

    def kill_now_and_then() -> None:
        nonlocal kills
        while not over.wait(random_.uniform(0.05, 0.4)):
            kills += machine.kill_worker()

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            while len(calls) < 150 or kills < 5:
                more = [f"toolu_{number}" for number in range(len(calls), len(calls) + 50)]
                calls += more
                list(pool.map(lambda call: machine.hook("claude-code", "PostToolUse", tool(call)), more))
    finally:
        over.set()
        killer.join()
    machine.sessionpipe("flush")
    assert_exactly_once(machine, calls)


class TestStarting:
    def test_it_is_detached_and_holds_nothing_of_the_agents(self, machine: Machine) -> None:
        reading, writing = os.pipe()
        try:
            subprocess.run(
                [sys.executable, "-I", "-S", str(HOOK), "claude-code", "PostToolUse"],
                env=machine.environment(),
                input=json.dumps(tool("toolu_1")).encode(),
                pass_fds=[writing],
                check=True,
            )
            os.close(writing)
            # End-of-file at once: had the worker inherited the other end, this would block.
            os.set_blocking(reading, False)
            assert os.read(reading, 1) == b""
        finally:
            os.close(reading)
        pid = wait_for(machine.worker, "a worker")
        process = Path("/proc") / str(pid)
        argv = (process / "cmdline").read_bytes().split(b"\0")
        assert any(b"sessionpipe" in part for part in argv)
        assert b"worker" in argv
        assert b"-I" in argv
        assert os.getsid(pid) == pid
        assert (process / "cwd").readlink() == Path("/")
        assert {(process / "fd" / str(fd)).readlink() for fd in (0, 1, 2)} == {Path("/dev/null")}

    def test_directories_named_from_where_the_agent_is_are_the_workers_too(self, machine: Machine) -> None:
        machine.root.joinpath("config").mkdir()
        subprocess.run(
            [sys.executable, "-I", "-S", str(HOOK), "claude-code", "PostToolUse"],
            env=machine.environment(
                SESSIONPIPE_STATE_DIR=machine.state.root.name, SESSIONPIPE_CONFIG_DIR="config"
            ),
            input=json.dumps(tool("toolu_1")).encode(),
            cwd=machine.root,
            check=True,
        )
        wait_for(
            lambda: machine.worker() and drained(machine), "the job to be recorded where the hook left it"
        )
        pid = machine.worker()
        environ = (Path("/proc") / str(pid) / "environ").read_bytes().split(b"\0")
        assert f"SESSIONPIPE_CONFIG_DIR={machine.config}".encode() in environ

    def test_a_worker_that_cannot_start_leaves_no_reader_behind(self, machine: Machine) -> None:
        broken = machine.root / "broken"
        shutil.copytree(HOOK.parent, broken / "sessionpipe", ignore=shutil.ignore_patterns("__pycache__"))
        (broken / "sessionpipe" / "__main__.py").write_text("raise SystemExit(1)\n")
        for _ in range(2):
            done = subprocess.run(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(broken / "sessionpipe" / "hook.py"),
                    "claude-code",
                    "PostToolUse",
                ],
                env=machine.environment(),
                input=json.dumps(tool(str(uuid.uuid4()))).encode(),
                capture_output=True,
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        wait_for(lambda: not machine.workers(), "the broken worker to be gone")
        assert not send(machine.state.fifo, b"w")
        machine.sessionpipe("flush")
        assert len([e for e in machine.events() if e["type"] == "tool.ended"]) == 2


class TestLeaving:
    def test_with_nothing_owed_it_leaves_and_nobody_listens(self, machine: Machine) -> None:
        machine.hook("claude-code", "PostToolUse", tool("toolu_1"))
        wait_for(machine.worker, "a worker")
        wait_for(lambda: not machine.workers(), "it to leave")
        assert not send(machine.state.fifo, b"w")
        assert drained(machine)

    def test_a_job_that_comes_as_it_leaves_is_seen(self, machine: Machine) -> None:
        machine.hook("claude-code", "PostToolUse", tool("toolu_0"))
        calls = ["toolu_0"]
        for number in range(1, 4):
            # As close to the moment of leaving as can be had from outside.
            wait_for(lambda: not machine.workers() or not send(machine.state.fifo, b"i"), "it to leave")
            machine.hook("claude-code", "PostToolUse", tool(f"toolu_{number}"))
            calls.append(f"toolu_{number}")
        wait_for(lambda: drained(machine), "the last job to be seen")
        wait_for(lambda: not machine.workers(), "it to leave")
        assert_exactly_once(machine, calls)

    def test_it_leaves_when_its_state_directory_is_gone(self, machine: Machine) -> None:
        machine.hook("claude-code", "PostToolUse", tool("toolu_1"))
        wait_for(lambda: machine.worker() and drained(machine), "a worker that has recorded it")
        shutil.rmtree(machine.state.root)
        wait_for(lambda: not machine.workers(), "it to leave")
        assert not machine.state.root.exists()

    def test_a_new_version_under_it_takes_over(self, machine: Machine) -> None:
        copy = machine.root / "copy"
        shutil.copytree(HOOK.parent, copy / "sessionpipe", ignore=shutil.ignore_patterns("__pycache__"))
        for data in ("adapters", "rulesets"):
            shutil.copytree(HOOK.parent.parent / data, copy / data)
        hook = [
            sys.executable,
            "-I",
            "-S",
            str(copy / "sessionpipe" / "hook.py"),
            "claude-code",
            "PostToolUse",
        ]

        def fire(call: str) -> None:
            subprocess.run(hook, env=machine.environment(), input=json.dumps(tool(call)).encode(), check=True)

        fire("toolu_1")
        pid = wait_for(machine.worker, "a worker")
        marker = machine.root / "new version ran"
        with (copy / "sessionpipe" / "__init__.py").open("a") as init:
            init.write(f"\nopen({str(marker)!r}, 'w').close()\n")
        fire("toolu_2")
        wait_for(marker.exists, "the new version")
        assert pid in machine.workers()
        wait_for(lambda: drained(machine), "the spool to drain")
        assert_exactly_once(machine, ["toolu_1", "toolu_2"])


@pytest.mark.parametrize("older", [True, False], ids=["by its time", "whatever its time"])
def test_after_an_upgrade_the_worker_writes_the_launcher_anew(machine: Machine, older: bool) -> None:
    # In a process of its own, as the worker is: what the two compile is compared byte by byte.
    subprocess.run(
        [*SESSIONPIPE, "install", "claude-code"], env=machine.environment(), check=True, capture_output=True
    )
    compiled = machine.state.bin / "hook.pyc"
    fresh = compiled.read_bytes()
    had = native.stands(machine.state)
    native.remove(machine.state)
    compiled.write_bytes(b"one of an older version")
    if older:
        os.utime(compiled, (0, 0))
    machine.hook("claude-code", "PostToolUse", tool("toolu_1"))
    wait_for(lambda: compiled.read_bytes() == fresh, "the compiled hook")
    if had:
        wait_for(lambda: native.stands(machine.state), "the hook without an interpreter")


class TestBadInput:
    @pytest.mark.parametrize(
        "payload",
        [
            b"",
            b"not json",
            b"[1, 2]",
            b"null",
            b"{}",
            json.dumps({**tool("toolu_x"), "session_id": "../../etc"}).encode(),
            b'{"session_id": ' + b"[" * 100_000,
        ],
        ids=["empty", "no json", "array", "null", "no session", "invalid id", "deep"],
    )
    def test_it_is_set_aside_with_a_reason_and_the_next_job_is_not_affected(
        self, machine: Machine, payload: bytes
    ) -> None:
        done = machine.hook("claude-code", "PostToolUse", payload)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        machine.hook("claude-code", "PostToolUse", tool("toolu_1"))
        machine.sessionpipe("flush")
        (rejected,) = Spool(machine.state.spool).rejected_names()
        record = json.loads((machine.state.spool / "rejected" / rejected).read_bytes())
        assert record["reason"]
        assert record["reason"] in machine.state.log.read_text()
        assert_exactly_once(machine, ["toolu_1"])

    def test_a_harness_nobody_knows(self, machine: Machine) -> None:
        machine.hook("emacs", "Stop", tool("toolu_1"))
        machine.sessionpipe("flush")
        assert len(Spool(machine.state.spool).rejected_names()) == 1
        assert "emacs" in machine.state.log.read_text()

    def test_a_config_that_does_not_parse_delivers_nothing_until_it_is_mended(self, machine: Machine) -> None:
        target = machine.root / "events.ndjson"
        machine.sessionpipe("sinks", "add", f"file:{target}", "--tier", "1")
        config = machine.config / "config.toml"
        good = config.read_text()
        config.write_text(good + "\n[[sinks\n")
        machine.hook("claude-code", "PostToolUse", tool("toolu_1"))
        wait_for(lambda: [e for e in machine.events() if e["type"] == "tool.ended"], "the job to be recorded")
        wait_for(
            lambda: machine.state.log.exists() and "config.toml" in machine.state.log.read_text(), "the log"
        )
        assert not target.exists() or target.read_text() == ""
        status = machine.sessionpipe("status", check=False)
        assert "config.toml" in status.stdout + status.stderr
        config.write_text(good)
        machine.sessionpipe("flush")
        assert [json.loads(line)["type"] for line in target.read_text().splitlines()][-1] == "tool.ended"


def test_when_the_network_cannot_be_reached_it_makes_way_for_a_worker_started_elsewhere(
    machine: Machine,
) -> None:
    machine.sessionpipe("sinks", "add", "http://127.0.0.1:9/", "--tier", "1", "--name", "board")
    machine.hook("claude-code", "PostToolUse", tool("toolu_1"))
    first = wait_for(machine.worker, "a worker")
    # It listens on another FIFO now: hooks find no reader and start a worker of their own.
    wait_for(lambda: machine.state.yielding.exists() and not send(machine.state.fifo, b"w"), "it to make way")
    assert machine.worker() == first
    machine.hook("claude-code", "PostToolUse", tool("toolu_2"))
    wait_for(lambda: machine.worker() not in (None, first), "another worker")
    wait_for(lambda: drained(machine), "the spool to drain")
    assert_exactly_once(machine, ["toolu_1", "toolu_2"])
