"""A made-up machine whose commands are forked, for tests that need many processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sessionpipe.spool import Spool
from tests.e2e.forked import Forked
from tests.e2e.machine import Machine

SESSION = "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10"


class Bed(Machine):
    """A machine whose commands are forked."""

    def __init__(self, root: Path, forked: Forked) -> None:
        root.mkdir(exist_ok=True)
        super().__init__(root)
        self._forked = forked
        self.out = root / "events.ndjson"
        self.config.mkdir()

    def settings(self, more: str = "", retention: str = "") -> None:
        sink = f'[[sinks]]\nname = "notes"\nkind = "file"\npath = "{self.out}"\ntier = 3\n{more}'
        (self.config / "config.toml").write_text(retention + sink)

    def run(self, *argv: str, **how: Any) -> int:
        """Run a command; its exit status. What it printed is :meth:`said`."""
        environment = self.environment(SESSIONPIPE_NO_WORKER="1")
        return self._forked.run(*argv, env=environment, said=self.root / "said", **how)

    def said(self) -> str:
        return (self.root / "said").read_text()

    def finish(self, *argv: str) -> str:
        """Run a command that must succeed; what it printed."""
        assert self.run(*argv) == 0, self.said()
        return self.said()

    def problems(self) -> str:
        """What `status` says is wrong."""
        report = json.loads(self.finish("status", "--json"))
        return "\n".join(report["problems"])

    def put(self, event: str, at_ms: int, **payload: Any) -> None:
        """A job as a hook leaves it."""
        body = {
            "session_id": SESSION,
            "transcript_path": str(self.transcript),
            "cwd": "/nowhere",
            "hook_event_name": event,
            **payload,
        }
        header = f"v=1\0harness=claude-code\0event={event}\0at_ms={at_ms}\0cwd=/nowhere\0ppid=1\0\0"
        spool = Spool(self.state.spool)
        self.state.root.mkdir(mode=0o700, exist_ok=True)
        spool.prepare()
        name = f"{at_ms:020d}-1-{len(spool.names()):08x}.job"
        (spool.new / name).write_bytes(header.encode() + json.dumps(body).encode())

    @property
    def transcript(self) -> Path:
        return self.home / ".claude" / "projects" / "-w" / f"{SESSION}.jsonl"
