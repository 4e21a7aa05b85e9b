"""Installing compiles the hook, which takes longer than what most tests here look at."""

from __future__ import annotations

import pytest

from sessionpipe.install import native


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "COMPILERS", ())
