"""What reading a harness's files costs a hook: what is new in them, however long they are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sessionpipe import harnesses
from sessionpipe.adapters import registry
from sessionpipe.harnesses import Files, Harness
from sessionpipe.intake import map_job
from sessionpipe.paths import data_dir
from sessionpipe.spool import Job
from tests.recorded import Hook, hooks, scenarios

_READERS = [name for name in registry.names() if harnesses.get(name).missed is not Harness().missed]
#: A hook of a harness's that names the file of the session.
_NAMED = "transcript_path"


def named(harness: str) -> Hook | None:
    """The last hook of some scenario that names a transcript, if any of the harness's does."""
    for scenario in scenarios():
        if scenario.parent.name == harness:
            for hook in reversed(list(hooks(scenario))):
                if hook.stdin and isinstance(json.loads(hook.stdin).get(_NAMED), str):
                    return hook
    return None


def job(hook: Hook, transcript: Path) -> Job:
    payload = {**json.loads(hook.stdin), _NAMED: str(transcript)}
    return Job(
        name="1.job",
        harness=hook.harness,
        event=hook.event,
        at_ms=2**42,
        cwd="/nowhere",
        env=hook.env,
        args=(),
        partial=False,
        payload=json.dumps(payload).encode(),
    )


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each read of a file got."""
    sizes: list[int] = []
    real = os.read

    def counted(fd: int, length: int) -> bytes:
        data = real(fd, length)
        sizes.append(len(data))
        return data

    monkeypatch.setattr("sessionpipe.harnesses.files.os.read", counted)
    return sizes


@pytest.mark.parametrize("hook", list(filter(None, map(named, _READERS))), ids=lambda hook: hook.harness)
def test_a_burst_of_hooks_reads_a_file_once_and_then_what_is_new(
    hook: Hook, tmp_path: Path, read: list[int]
) -> None:
    (like, *_) = sorted((data_dir("conformance") / "transcripts" / hook.harness).glob("*.jsonl"))
    lines = like.read_bytes().splitlines(keepends=True)
    file = tmp_path / Path(json.loads(hook.stdin)[_NAMED]).name
    # Some MiB of a session: reading them at every hook would be what a burst can't bear.
    file.write_bytes(b"".join(lines) * (1 + (6 << 20) // like.stat().st_size))
    files = Files()
    for _ in range(3):
        map_job(job(hook, file), files, None)
    first = sum(read)
    read.clear()
    for _ in range(50):
        map_job(job(hook, file), files, None)
    assert sum(read) == 0
    with file.open("ab") as grown:
        grown.write(lines[-1])
    map_job(job(hook, file), files, None)
    assert first < 20 << 20
    assert sum(read) < 1 << 20
