"""The real Pi on a made-up machine, with a model on loopback, for the tests that run it.

A module that imports ``script`` and ``pi`` has them as fixtures: what the model says, and the Pi that
talks to it.
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest

from tests.e2e import agents
from tests.e2e.machine import Machine
from tests.e2e.model import Model, Turn, model
from tests.patience import PATIENCE_S

QUIET = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1", "SESSIONPIPE_NO_WORKER": "1"}


class Pi:
    """Pi on a made-up machine, with a model on loopback that says what the script tells it."""

    def __init__(self, machine: Machine, server: Model) -> None:
        self.machine = machine
        self.server = server
        self.command = [agents.node(22), agents.program("SESSIONPIPE_TEST_PI", "pi")]
        self.folder = machine.home / ".pi" / "agent"
        self.folder.mkdir(parents=True)
        provider = {
            "baseUrl": f"{server.url}/v1",
            "api": "openai-completions",
            "apiKey": "made up",
            "models": [{"id": "made-up"}],
        }
        (self.folder / "models.json").write_text(json.dumps({"providers": {"loopback": provider}}))
        settings = {
            "defaultProvider": "loopback",
            "defaultModel": "made-up",
            "compaction": {"keepRecentTokens": 1},
            "retry": {"baseDelayMs": 10},
            "quietStartup": True,
        }
        (self.folder / "settings.json").write_text(json.dumps(settings))

    def install(self) -> Self:
        # Where Pi has run before, it starts a worker, which would take what the hooks leave before a test reads it.
        self.machine.sessionpipe("install", "pi", SESSIONPIPE_NO_WORKER="1")
        return self

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return agents.run(self.machine, *self.command, *words, **QUIET)

    def environment(self) -> dict[str, str]:
        return self.machine.environment(**agents.OFFLINE, **QUIET, TERM="xterm-256color")

    def told(self) -> list[str]:
        """The events our hook was called for so far."""
        return agents.events(self.machine)

    def events(self) -> list[dict[str, Any]]:
        self.machine.sessionpipe("flush")
        return self.machine.events()

    def exchanges(self) -> list[list[tuple[str, str]]]:
        """What was said, by session, in the order of the sessions' first events."""
        said: dict[str, list[tuple[str, str]]] = {}
        for event in self.events():
            talk = said.setdefault(event["session"]["id"], [])
            if event["type"] == "turn.transcript":
                talk.append((event["data"]["user"], event["data"]["assistant"]))
        return list(said.values())


class Terminal:
    """Pi in a terminal of its own."""

    def __init__(self, pi: Pi) -> None:
        self.shown = b""
        self._is_gone = False
        self._fd, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 80))
        self._process = subprocess.Popen(
            pi.command,
            env=pi.environment(),
            cwd=agents.work(pi.machine),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def look(self, until: Callable[[], bool], what: str) -> None:
        """Read what is drawn until something is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self.shown[-2000:]!r}"
            if select.select([self._fd], [], [], 0.02)[0]:
                try:
                    self.shown += os.read(self._fd, 65536)
                except OSError:  # As a terminal says that nobody is behind it any more.
                    self._is_gone = True

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def ended(self) -> int:
        """The exit status, once it has left."""
        self.look(lambda: self._is_gone, "the end")
        return self._process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)
        os.close(self._fd)


@pytest.fixture
def script() -> list[Turn]:
    """What the model says, one turn a request; a test puts them there."""
    return []


@pytest.fixture
def pi(machine: Machine, script: list[Turn]) -> Iterator[Pi]:
    with model(*[]) as server:
        server.script(script)
        yield Pi(machine, server)
