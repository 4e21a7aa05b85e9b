"""What every test shares: the handed recordings where they are present, and a private home."""

from __future__ import annotations

import gc
import itertools
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes is the machine's business, never a test's. Most laws fall within a few
# examples if they fall at all; who changes one looks longer, with HYPOTHESIS_PROFILE=thorough, and for other
# examples than anybody has seen, with HYPOTHESIS_PROFILE=random. What must pass before a change lands has the same
# examples each time: it says whether this change is right, not whether somebody was lucky.
_USUAL = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("sessionpipe", _USUAL, derandomize=True)
settings.register_profile("random", _USUAL)
settings.register_profile("thorough", _USUAL, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sessionpipe"))

_SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


# What is started in the background, or by nohup, ignores ctrl-c and hangups, and so does all that it starts:
# tests send these to processes of theirs. A handler that does nothing is not handed down.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are made here and stay until the end: looking whether they could go took a tenth of all."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


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


_number = itertools.count()


@pytest.fixture(autouse=True)
def _nobodys_home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test sees, or writes into, the home and the settings of the person who runs it.

    They are below the folder that a test takes (tmp_path); the others, thousands, are spared what pytest does
    to make one.
    """
    if "tmp_path" in request.fixturenames:
        root = request.getfixturevalue("tmp_path")
    else:
        root = tmp_path_factory.getbasetemp() / "nobody" / str(next(_number))
    (root / "home").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(root / "home"))
    monkeypatch.setenv("SESSIONPIPE_STATE_DIR", str(root / "state"))
    monkeypatch.setenv("SESSIONPIPE_CONFIG_DIR", str(root / "config"))
    for name in list(os.environ):
        if name.startswith(_AGENTS):
            monkeypatch.delenv(name)
