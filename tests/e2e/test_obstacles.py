"""Something else where a file, a folder or a FIFO of ours should be: nothing hangs, nothing is followed,
nothing is lost, and `status` says what is wrong in a sentence."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.cli.doctor import examine
from sessionpipe.cli.status import gather
from sessionpipe.clock import now_ms
from sessionpipe.flush import flush
from sessionpipe.log import log
from sessionpipe.outbox import OutboxError
from sessionpipe.paths import State
from sessionpipe.places import kinds
from sessionpipe.spool import Spool
from tests.e2e.machine import Machine
from tests.patience import PATIENCE_S

SESSION = "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10"
PRECIOUS = b"precious\n"


class Obstacle:
    """What is planted, and the file and the folder that a link leads to."""

    def __init__(self, root: Path) -> None:
        self.file, self.folder = root / "victim", root / "victims"
        self.file.write_bytes(PRECIOUS)
        self.file.chmod(0o644)
        self.folder.mkdir()
        self.folder.chmod(0o755)
        self._sockets: list[socket.socket] = []

    def plant(self, kind: str, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        ways: dict[str, Callable[[], object]] = {
            "FIFO": lambda: os.mkfifo(path),
            "socket": lambda: self._listen(path),
            "device": lambda: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5)),  # zeros without end
            "folder": lambda: ((path / "inside").mkdir(parents=True), (path / "inside" / "x").touch()),
            "file": lambda: path.write_bytes(b"of somebody else"),
            "link to a file": lambda: path.symlink_to(self.file),
            "link to a folder": lambda: path.symlink_to(self.folder),
            "link to nothing": lambda: path.symlink_to(path.parent / "nothing"),
        }
        ways[kind]()

    def _listen(self, path: Path) -> None:
        one = socket.socket(socket.AF_UNIX)
        here = Path.cwd()
        os.chdir(path.parent)  # A socket's name may not be long.
        one.bind(path.name)
        os.chdir(here)
        self._sockets.append(one)

    def assert_untouched(self) -> None:
        assert self.file.read_bytes() == PRECIOUS
        assert stat.S_IMODE(self.file.stat().st_mode) == 0o644
        assert list(self.folder.iterdir()) == []
        assert stat.S_IMODE(self.folder.stat().st_mode) == 0o755

    def close(self) -> None:
        for one in self._sockets:
            one.close()


@pytest.fixture
def obstacle(tmp_path: Path) -> Iterator[Obstacle]:
    obstacle = Obstacle(tmp_path)
    yield obstacle
    obstacle.close()


@pytest.fixture
def place(machine: Machine) -> Machine:
    """A machine with a file to deliver to, where something was recorded once."""
    machine.config.mkdir()
    (machine.config / "config.toml").write_text(
        f'[[sinks]]\nname = "notes"\nkind = "file"\npath = "{machine.root}/out/events.ndjson"\ntier = 3\n'
    )
    return machine


def tool(call: str) -> dict[str, Any]:
    return {
        "session_id": SESSION,
        "transcript_path": f"/nowhere/{SESSION}.jsonl",
        "cwd": "/nowhere",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {},
        "tool_response": {},
        "tool_use_id": call,
    }


def fire(place: Machine, call: str) -> None:
    done = place.hook("claude-code", "PostToolUse", tool(call), SESSIONPIPE_NO_WORKER="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def worked(place: Machine) -> str:
    """Record and deliver in this process; what it says it could not do."""
    try:
        return "; ".join(flush(place.state, place.config, timeout_s=3).left)
    except (OSError, OutboxError, sqlite3.Error) as error:
        return str(error)


def delivered(place: Machine) -> list[str]:
    out = place.root / "out" / "events.ndjson"
    events = [json.loads(line) for line in out.read_bytes().splitlines()] if out.is_file() else []
    return [event["data"]["call_id"] for event in events if event["type"] == "tool.ended"]


def problems(place: Machine) -> str:
    return "\n".join(gather(place.state, place.config, now_ms())["problems"])


def names() -> list[tuple[str, str]]:
    """Every fixed name below the state directory and what it should be, and names that come and go."""
    state = State(Path("/state"))
    fixed = [(str(path.relative_to("/state")), kind) for path, kind, _ in kinds(state)]
    passing = ["outbox.db.reserve", "outbox.db.making", "outbox.db.salvaging", "bin/hook.pyc"]
    return fixed + [(name, "file") for name in passing]


KINDS = ["FIFO", "folder", "file", "link to a file", "link to a folder", "link to nothing", "socket"]
if os.getuid() == 0:
    KINDS.append("device")
#: What is likeliest to be followed or waited at where something of a kind should be; all of it at some.
LIKELY = {
    "folder": ("FIFO", "file", "link to a folder"),
    "file": ("FIFO", "folder", "link to a file"),
    "FIFO": ("file", "folder", "link to a file"),
}
CASES = [
    (name, kind)
    for name, right in names()
    for kind in (KINDS if name in ("worker.lock", "outbox.db", "spool/new") else LIKELY[right])
    if kind != right
]


@pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{kind} at {name}" for name, kind in CASES])
def test_below_the_state_directory(place: Machine, obstacle: Obstacle, name: str, kind: str) -> None:
    fire(place, "one")
    assert worked(place) == ""
    there = place.state.root / name
    aside = there.with_name("as it was")
    if there.exists():
        there.rename(aside)
    obstacle.plant(kind, there)

    fire(place, "two")
    said = worked(place)
    log(place.state, "error", "a line")
    told = problems(place)
    findings = list(examine(place.state, place.config))

    obstacle.assert_untouched()
    assert set(delivered(place)) >= {"one"}
    if said:
        # It cannot work, and says so everywhere.
        assert str(there) in told, (said, told)
        assert any(finding.level == "fail" and str(there) in finding.message for finding in findings)
    else:
        assert delivered(place) == ["one", "two"], told
    # Out of the way, everything goes on.
    if os.path.lexists(there) and said:
        there.rename(there.with_name("taken away"))
        if aside.exists():
            aside.rename(there)
    fire(place, "three")
    assert worked(place) == ""
    assert delivered(place) == ["one", "two", "three"]


@pytest.mark.parametrize("kind", KINDS)
def test_among_the_jobs(place: Machine, obstacle: Obstacle, kind: str) -> None:
    fire(place, "one")
    new = Spool(place.state.spool).new
    obstacle.plant(kind, new / "00000000000000000000-first.job")
    obstacle.plant(kind, new / "99999999999999999999-last.job")
    fire(place, "two")
    assert worked(place) == ""
    assert delivered(place) == ["one", "two"]
    assert Spool(place.state.spool).empty()
    assert len(Spool(place.state.spool).rejected_names()) == 2
    obstacle.assert_untouched()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("file", "link to a file")])
def test_where_the_settings_should_be(place: Machine, obstacle: Obstacle, kind: str) -> None:
    """A link to a file is followed: people keep their settings in one place. Nothing else is."""
    config = place.config / "config.toml"
    good = config.read_text()
    config.unlink()
    obstacle.plant(kind, config)
    fire(place, "one")
    said = worked(place)
    if kind != "link to nothing":
        assert "config.toml can't be read" in said
        assert "config.toml can't be read" in problems(place)
    assert delivered(place) == []
    config.rename(config.with_name("taken away"))
    config.write_text(good)
    assert worked(place) == ""
    assert delivered(place) == ["one"]
    obstacle.assert_untouched()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "file"])
def test_where_a_sinks_file_should_be(place: Machine, obstacle: Obstacle, kind: str) -> None:
    out = place.root / "out" / "events.ndjson"
    obstacle.plant(kind, out)
    fire(place, "one")
    assert "sink notes: 2 not delivered" in worked(place)
    (sink,) = gather(place.state, place.config, now_ms())["sinks"]
    assert str(out) in sink["reason"]
    obstacle.assert_untouched()
    out.rename(out.with_name("taken away"))
    assert worked(place) == ""
    assert delivered(place) == ["one"]


def test_nothing_waits_for_ever(place: Machine, obstacle: Obstacle) -> None:
    """Every name a FIFO at once: whoever opened one to read would stand still."""
    for name, _ in names():
        if not os.path.lexists(place.state.root / name) and "/" in name:
            obstacle.plant("FIFO", place.state.root / name)
    ended = threading.Event()

    def work() -> None:
        fire(place, "one")
        worked(place)
        problems(place)
        list(examine(place.state, place.config))
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    assert ended.wait(PATIENCE_S)
