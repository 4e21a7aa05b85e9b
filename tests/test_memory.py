"""Memory that was freed goes back to the system when that is asked for."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from sessionpipe.memory import give_back


def resident_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library does it its own way")
def test_what_was_freed_below_something_that_is_kept_is_given_back() -> None:
    blocks = [bytes(8_000) for _ in range(8_000)]
    above = blocks.pop()
    blocks.clear()
    before = resident_mb()
    give_back()
    assert resident_mb() < before - 40
    assert above
