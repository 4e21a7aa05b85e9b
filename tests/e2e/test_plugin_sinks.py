"""A kind of sink that a package brings, in a real worker: installed beside sessionpipe, taken out, broken."""

from __future__ import annotations

import json
import shutil
import site
import sqlite3
import venv
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests import plugin
from tests.collector import Collector
from tests.e2e.machine import Machine, wait_for
from tests.e2e.test_worker import tool

ROOT = Path(__file__).resolve().parents[2]

BROKEN = """
from sessionpipe.sinks.base import Limits, Sink

class sink(Sink):
    def __init__(self, setup):
        pass
    def limits(self):
        return Limits(10, 1000)
    def send(self, batch):
        raise RuntimeError("it fell over")
"""


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of its own that has what this one has; returns its Python.

    A worker runs isolated: only what is installed for its interpreter is there.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "these.pth").write_text("\n".join([str(ROOT), *site.getsitepackages()]))
    return folder / "bin" / "python"


@pytest.fixture
def packages(interpreter: Path) -> Iterator[Path]:
    """The environment's folder of packages, as it was before the test."""
    (folder,) = interpreter.parents[1].glob("lib/python*/site-packages")
    before = set(folder.iterdir())
    yield folder
    for path in set(folder.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture
def machine(tmp_path: Path, interpreter: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, str(interpreter))
    yield machine
    machine.stop()


def fire(machine: Machine, call: str) -> None:
    machine.hook("claude-code", "PostToolUse", tool(call))


def rows(database: Path) -> list[dict[str, Any]]:
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as db:
        try:
            return [json.loads(row[0]) for row in db.execute("SELECT event FROM events ORDER BY rowid")]
        except sqlite3.OperationalError:
            return []  # Its first batch is just being written.


def ids(events: list[dict[str, Any]]) -> list[str]:
    return [event["id"] for event in events]


def standing(machine: Machine, name: str) -> dict[str, Any]:
    sinks = json.loads(machine.sessionpipe("status", "--json").stdout)["sinks"]
    return next(sink for sink in sinks if sink["name"] == name)


def test_a_real_worker_delivers_through_it(machine: Machine, packages: Path) -> None:
    plugin.install(packages)
    database = machine.home / "agents.db"
    said = machine.sessionpipe("sinks", "add", "sqlite:~/agents.db", "--tier", "3").stdout
    assert "to sqlite:~/agents.db" in said and "the package sessionpipe-sqlite" in said
    assert "works" in machine.sessionpipe("sinks", "test", "sqlite-agents.db").stdout
    assert rows(database)[-1]["type"] == "session.forgotten"
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("DELETE FROM events")
    fire(machine, "one")
    fire(machine, "two")
    wait_for(lambda: len(rows(database)) >= 3, "the events")
    assert ids(rows(database)) == ids(machine.events())
    assert machine.worker() is not None
    session = rows(database)[0]["session"]["id"]
    machine.sessionpipe("forget", f"claude-code:{session}", "--yes")
    wait_for(lambda: [row["type"] for row in rows(database)] == ["session.forgotten"], "it to be forgotten")


def test_one_that_falls_over_is_its_own_trouble_alone(machine: Machine, packages: Path) -> None:
    plugin.install(packages)
    plugin.written(packages, "broken", BROKEN)
    plugin.written(packages, "gone", "import something_that_is_not_there")
    for target in ("sqlite:~/agents.db", "broken:x", "gone:x", "file:~/agents.ndjson"):
        machine.sessionpipe("sinks", "add", target, "--tier", "1")
    fire(machine, "one")
    file = machine.home / "agents.ndjson"
    wait_for(lambda: file.exists() and len(file.read_bytes().splitlines()) >= 2, "the file")
    wait_for(lambda: len(rows(machine.home / "agents.db")) >= 2, "the database")
    for name, says in (
        ("broken-x", "the sink kind broken failed with RuntimeError: it fell over (broken_package.py:"),
        ("gone-x", "ModuleNotFoundError: No module named 'something_that_is_not_there'"),
    ):
        wait_for(lambda name=name: standing(machine, name)["reason"], f"what {name} says")
        found = standing(machine, name)
        assert says in found["reason"] and not found["paused"] and found["dropped"] == 0
    doctor = machine.sessionpipe("doctor", check=False)
    assert doctor.returncode == 1
    assert "gone-x: the code of the sink kind gone failed" in doctor.stdout


def test_one_that_is_taken_out_waits_and_goes_on_when_it_is_back(machine: Machine, packages: Path) -> None:
    plugin.install(packages)
    machine.sessionpipe("sinks", "add", "sqlite:~/agents.db", "--name", "db")
    shutil.rmtree(next(packages.glob("sessionpipe_sqlite-*.dist-info")))
    fire(machine, "one")
    done = machine.sessionpipe("flush", check=False)
    assert done.returncode == 1 and "no installed package brings the sink kind sqlite" in done.stderr
    assert standing(machine, "db")["behind"] >= 1
    (packages / "sessionpipe_sqlite.py").unlink()
    plugin.install(packages)
    machine.sessionpipe("flush")
    assert ids(rows(machine.home / "agents.db")) == [
        event["id"] for event in machine.events() if event["type"] == "session.started"
    ]
    assert standing(machine, "db")["reason"] is None


def test_a_real_worker_delivers_to_a_collector(machine: Machine) -> None:
    with Collector() as collector:
        machine.sessionpipe("sinks", "add", f"otlp:{collector.url}", "--tier", "1", "--header", "x-team=blue")
        fire(machine, "one")
        wait_for(lambda: len(collector.records) >= 2, "the records")
        assert ids(collector.events) == ids(machine.events())
        assert {request.headers["x-team"] for request in collector.requests} == {"blue"}
        assert {record.resource["service.name"] for record in collector.records} == {"claude-code"}


def test_without_the_package_of_otlp_its_events_wait(machine: Machine, packages: Path) -> None:
    """The extra is missing: a module of that name that can't be imported stands before the real one."""
    missing = packages / "opentelemetry"
    missing.mkdir()
    (missing / "__init__.py").write_text("raise ImportError('not here')")
    (packages / "first.pth").write_text(f"import sys; sys.path.insert(0, {str(packages)!r})")
    with Collector() as collector:
        said = machine.sessionpipe("sinks", "add", f"otlp:{collector.url}", "--name", "fleet").stdout
        assert (
            f"warning: it waits, because an otlp sink needs the package opentelemetry-proto: `{machine.python}"
            in said
        )
        fire(machine, "one")
        done = machine.sessionpipe("flush", check=False)
        assert done.returncode == 1 and "pip install 'opentelemetry-proto" in done.stderr
        assert collector.requests == []
        shutil.rmtree(missing)
        machine.sessionpipe("flush")
        assert len(collector.records) >= 1
