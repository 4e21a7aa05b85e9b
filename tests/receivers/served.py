"""``sessionpipe receive`` as a process of its own on the loopback interface, and events to send it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from sessionpipe.clock import now_ms
from sessionpipe.protocol import new_id, rfc3339
from sessionpipe.protocol.vocabulary import VOCABULARY
from sessionpipe.receiver import incoming
from sessionpipe.receiver.incoming import Event
from sessionpipe.sinks.wire import Answer, Wire
from tests.patience import PATIENCE_S

EVENTS = "/api/sessionpipe/v1/events"
SESSIONS = "/api/sessionpipe/v1/sessions"
#: A moment to count from.
NOON = 1_796_040_000_000


def event(
    type_: str = "turn.started",
    seq: int = 0,
    *,
    session: str = "s-1",
    harness: str = "claude-code",
    at: int | None = None,
    tier: int | None = None,
    block: dict[str, Any] | None = None,
    **data: Any,
) -> dict[str, Any]:
    """An event as a sender sends it; ``at`` in epoch milliseconds."""
    row = VOCABULARY.get(type_)
    return {
        "protocol": 1,
        "id": new_id(),
        "type": type_,
        "time": rfc3339(now_ms() if at is None else at),
        "tier": (row.tier if row else 0) if tier is None else tier,
        "harness": {"name": harness},
        "session": {"id": session, "seq": seq, **(block or {})},
        "privacy": {"rulesets": ["secrets@1"], "pii": False},
        "data": data,
    }


def taken(*events: dict[str, Any]) -> list[Event]:
    """Events as the receiver takes them."""
    body = json.dumps({"events": events}).encode()
    batch = incoming.read(body, max_events=100_000, max_tier=3)
    assert not batch.rejected, batch.rejected
    return batch.events


def story(*told: tuple[str, dict[str, Any]], start: int = NOON, step: int = 1000) -> list[Event]:
    """A session's events, a second apart: (type, data), in its order; ``_after`` in data waits that many ms."""
    at = itertools.count(start, step)
    waited = 0
    made = []
    for seq, (type_, data) in enumerate(told):
        waited += data.get("_after", 0)
        rest = {name: value for name, value in data.items() if name != "_after"}
        made.append(event(type_, seq, at=next(at) + waited) | {"data": rest})
    return taken(*made)


class Served:
    """A running receiver with a state directory of its own."""

    def __init__(self, folder: Path, *options: str, impatient: str = "pass") -> None:
        """``impatient`` is Python that makes one of its waits shorter than any person's."""
        self.folder = folder
        self._options = options
        self._start = f"{impatient}; from sessionpipe.__main__ import main; main()"
        self.wire = Wire({}, deadline_s=60)
        self.cookie: dict[str, str] = {}
        self.start()

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "SESSIONPIPE_STATE_DIR": str(self.folder / "receiver state"),
            "SESSIONPIPE_CONFIG_DIR": str(self.folder / "receiver config"),
            "TZ": "UTC",
        }

    def start(self, port: int = 0) -> None:
        self.errors = self.folder / "receiver.err"
        with self.errors.open("ab") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", self._start, "receive", "--port", str(port), *self._options],
                env=self.environment(),
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
            )
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if "Ctrl-c" in line:
                break
        self.said = "".join(lines)
        assert "Ctrl-c" in self.said, self.errors.read_text()
        self.link = re.findall(r"http\S+/enter\?key=\S+", self.said)[0]
        self.url = self.link.partition("/enter")[0]
        self.port = urlsplit(self.url).port or 0
        self.token_file = self.folder / "receiver state" / "receiver" / "token"
        if sink := re.search(r"A sink: .+ (--token-file .+)", self.said):
            self.token_file = Path(shlex.split(sink[1])[1].replace("~", str(self.folder)))
        self.token = self.token_file.read_text().strip()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end; its exit status."""
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.wire.close()
        return status

    # -- as a sender --

    def post(
        self, *events: Any, body: bytes | None = None, token: str | None = None, **headers: str
    ) -> Answer:
        body = json.dumps({"events": events}).encode() if body is None else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"authorization": f"Bearer {token or self.token}", "sessionpipe-protocol": "1", **named}
        return self.wire.request("POST", self.url + EVENTS, sent, body)

    def take(self, *events: dict[str, Any]) -> dict[str, Any]:
        answer = self.post(*events)
        assert answer.status == 202, (answer.status, answer.body)
        said: dict[str, Any] = json.loads(answer.body)
        return said

    def read(self, session: str = "s-1", **more: Any) -> dict[str, Any]:
        answer = self.get(f"{EVENTS}?{urlencode({'session': session, **more})}", self.bearer)
        said: dict[str, Any] = json.loads(answer.body)
        return said

    def sessions(self) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = json.loads(self.get(SESSIONS, self.bearer).body)["sessions"]
        return said

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    # -- as a browser --

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return self.wire.request("GET", self.url + path, headers or {})

    def enter(self) -> None:
        """Come in by the link."""
        answer = self.wire.request("GET", self.link)
        assert answer.status == 200
        self.cookie = {"cookie": answer.headers["set-cookie"].partition(";")[0]}

    def page(self, path: str = "/") -> str:
        answer = self.get(path, self.cookie)
        assert answer.status == 200, (answer.status, answer.body)
        return answer.body.decode()


@contextlib.contextmanager
def serving(folder: Path, *options: str, impatient: str = "pass") -> Iterator[Served]:
    """A receiver for as long as it is needed."""
    served = Served(folder, *options, impatient=impatient)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.end()
