"""A made-up machine for each test."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionpipe.install import native
from sessionpipe.paths import State
from tests.e2e.bed import Bed
from tests.e2e.forked import Forked
from tests.e2e.machine import Machine


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """The compiled hook, where it can be made."""
    state = State(tmp_path_factory.mktemp("native"))
    state.bin.mkdir()
    return native.program(state) if native.build(state) else None


@pytest.fixture
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, forked: Forked, compiled: Path | None
) -> Iterator[Machine]:
    """A machine on which one half of the tests, always the same, fires the compiled hook, the other ``hook.py``."""
    half = zlib.crc32(request.node.name.encode()) % 2
    machine = Machine(tmp_path, forked=forked, compiled=compiled if half else None)
    yield machine
    machine.stop()


@pytest.fixture(scope="session")
def forked() -> Iterator[Forked]:
    forked = Forked()
    yield forked
    forked.close()


@pytest.fixture
def bed(tmp_path: Path, forked: Forked) -> Bed:
    return Bed(tmp_path / "bed", forked)
