"""What the commands are run on: an outbox with a few sessions in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sessionpipe.cli import cli
from sessionpipe.install import native
from sessionpipe.outbox import Outbox, encode
from sessionpipe.paths import State, config_dir, make_private, state_dir
from sessionpipe.protocol import new_id, rfc3339


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling the hook takes longer than what is tested here; tests/install/test_native.py sees to it."""
    monkeypatch.setattr(native, "COMPILERS", ())


START = 1_795_976_081_342


class Recorder:
    """Puts events into the outbox of the test's state directory, as intake would."""

    def __init__(self) -> None:
        self.state = State(state_dir())
        make_private(self.state.root)
        self.outbox = Outbox.open(self.state.outbox)
        self.now = START

    def add(
        self,
        session: str,
        type_: str,
        data: dict[str, Any] | None = None,
        *,
        harness: str = "claude-code",
        memory: dict[str, Any] | None = None,
        **block: Any,
    ) -> dict[str, Any]:
        """One event of a session, a second after the one before; the event."""
        self.now += 1000
        with self.outbox.transaction() as tx:
            row = tx.session(harness, session, self.now)
            row.block |= block
            row.state = {"started": True} if memory is None else memory
            event = {
                "protocol": 1,
                "id": new_id(),
                "type": type_,
                "time": rfc3339(self.now),
                "tier": 3,
                "harness": {"name": harness},
                "session": {"id": session, "seq": row.next_seq, **row.block},
                "privacy": {"rulesets": ["secrets@1"], "pii": False},
                "data": data or {},
            }
            tx.append(row, type_, self.now, 1, encode(event))
            tx.save(row)
        return event


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.outbox.close()


@pytest.fixture
def config_file() -> Path:
    """Where the person's settings would be; the folder exists."""
    make_private(config_dir())
    return config_dir() / "config.toml"


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run a command line in this process."""

    def call(*arguments: str, **options: Any) -> Result:
        return CliRunner().invoke(cli, list(arguments), **options)

    return call
