"""A made-up machine for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.bed import Bed
from tests.e2e.forked import Forked
from tests.e2e.machine import Machine


@pytest.fixture
def machine(tmp_path: Path, forked: Forked) -> Iterator[Machine]:
    machine = Machine(tmp_path, forked=forked)
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
