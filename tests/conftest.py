"""What every test shares: the handed recordings where they are present, and a private home."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes is the machine's business, never a test's.
settings.register_profile("sessionpipe", deadline=None)
settings.load_profile("sessionpipe")

_SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of handed recordings; a test that needs it is skipped where it is absent."""
    if not (_SHARED / "recordings").is_dir():
        pytest.skip("the handed recordings are not beside this checkout")
    return _SHARED


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    """Each test begins with a person's umask: the commands set a private one for their whole process."""
    before = os.umask(0o022)
    yield
    os.umask(before)


#: How the variables begin that agents read, and those by which they tell their hooks of themselves.
_AGENTS = (
    *("ANTIGRAVITY", "CLAUDE", "CODEX", "COPILOT", "CURSOR", "DEVIN", "FACTORY", "GEMINI", "GOOSE", "KIRO"),
    *("OPENCODE", "PI_", "XDG_", "SESSIONPIPE_FAULT"),
)


@pytest.fixture(autouse=True)
def _nobodys_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees, or writes into, the home and the settings of the person who runs it."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SESSIONPIPE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("SESSIONPIPE_CONFIG_DIR", str(tmp_path / "config"))
    for name in list(os.environ):
        if name.startswith(_AGENTS):
            monkeypatch.delenv(name)
