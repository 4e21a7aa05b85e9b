"""Finding the real agents, and running one so that it talks to nobody but a model on loopback.

``SESSIONPIPE_TEST_CLAUDE``, ``SESSIONPIPE_TEST_CODEX``, ``SESSIONPIPE_TEST_OPENCODE`` and
``SESSIONPIPE_TEST_PI`` name the programs (Pi's may be its ``cli.js``) where they are not on the PATH,
``SESSIONPIPE_TEST_NODE`` the node that runs Pi.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.machine import Machine

#: Nothing but loopback can be reached through these.
OFFLINE = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}


def program(variable: str, name: str) -> str:
    """Where a program is; the test is skipped when it is not there."""
    found = os.environ.get(variable) or shutil.which(name)
    if not found:
        pytest.skip(f"no {name} on the PATH and no {variable}")
    return found


@functools.cache
def _version(node: str) -> str:
    return subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def node(least: int) -> str:
    """A node of at least that version, or the test is skipped."""
    found = program("SESSIONPIPE_TEST_NODE", "node")
    version = _version(found)
    if int(version.lstrip("v").split(".")[0]) < least:
        pytest.skip(f"node is {version}, and {least} is needed")
    return found


def work(machine: Machine) -> Path:
    """A project folder of the person's."""
    folder = machine.home / "work"
    folder.mkdir(exist_ok=True)
    return folder


def run(machine: Machine, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run an agent in the project folder until it ends."""
    return subprocess.run(
        words,
        env=machine.environment(**OFFLINE, **env),
        cwd=work(machine),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def told(machine: Machine) -> list[dict[str, Any]]:
    """Every event that the jobs and the agents' files come to, in order."""
    machine.sessionpipe("flush")
    return machine.events()


def events(machine: Machine) -> list[str]:
    """The events that the hooks were called for, in the order of their jobs, none of them mapped yet."""
    folder = machine.state.spool / "new"
    jobs = sorted(folder.glob("*.job")) if folder.is_dir() else []
    headers = [job.read_bytes().partition(b"\0\0")[0].split(b"\0") for job in jobs]
    return [field[6:].decode() for header in headers for field in header if field.startswith(b"event=")]
