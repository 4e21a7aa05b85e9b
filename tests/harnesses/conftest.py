"""What the tests of transcript readers share."""

from __future__ import annotations

import pytest

from sessionpipe.harnesses.files import Opened


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each read of a harness's file gave, as they happen."""
    read: list[int] = []
    read_at = Opened.read_at

    def counted(self: Opened, offset: int, length: int) -> bytes:
        data = read_at(self, offset, length)
        read.append(len(data))
        return data

    monkeypatch.setattr(Opened, "read_at", counted)
    return read
