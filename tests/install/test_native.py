"""The compiled hook is used where it was made and runs; everywhere else the interpreter's is."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sessionpipe import hook
from sessionpipe.install import launcher, native
from sessionpipe.paths import State

pytestmark = pytest.mark.skipif(not native.machine(), reason="not Linux, or a machine without an id")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled hook."""
    state = State(tmp_path_factory.mktemp("made"))
    state.bin.mkdir()
    if not native.build(state):
        pytest.skip("no C compiler here")
    return native.program(state)


@pytest.fixture
def state(made: Path, tmp_path: Path) -> State:
    """An installation with the compiled hook."""
    state = State(tmp_path / "state")
    launcher.write(state, tmp_path / "config", {})
    shutil.copy(made, native.program(state))
    return state


def fire(state: State, *words: str, payload: bytes = b'{"n": 1}', **env: str) -> list[bytes]:
    """Fire the launcher, which must not be noticed; the jobs' contents."""
    done = subprocess.run(
        [state.launcher, *(words or ("claude-code", "Stop"))],
        input=payload,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "SESSIONPIPE_NO_WORKER": "1", **env},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    return [job.read_bytes() for job in (state.spool / "new").glob("*")]


def without_interpreter(state: State) -> None:
    """Whatever records now is the compiled hook: Python would fail."""
    (state.root / "false").symlink_to(shutil.which("false") or "/bin/false")
    text = state.launcher.read_text().replace(sys.executable, str(state.root / "false"))
    state.launcher.write_text(text)


def test_the_launcher_prefers_it(state: State) -> None:
    without_interpreter(state)
    (job,) = fire(state)
    assert job.endswith(b'\0\0{"n": 1}')
    assert b"\0ppid=%d\0" % os.getpid() in job


@pytest.mark.parametrize(
    "broken", ["gone", "not executable", "a folder", "no program", "another machine's", "crashing", "older"]
)
def test_where_it_does_not_run_the_interpreter_does_and_the_payload_is_whole(
    state: State, broken: str
) -> None:
    program = native.program(state)
    if broken == "not executable":
        program.chmod(0o600)
    elif broken == "older":
        os.utime(program, (0, 0))
    elif broken == "another machine's":
        marker = state.root / "ran"
        program.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
        text = state.launcher.read_text()
        assert native.machine() in text
        state.launcher.write_text(text.replace(native.machine(), "0" * 32))
    else:
        program.unlink()
    if broken == "a folder":
        program.mkdir()
    elif broken == "no program":
        program.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(120))
        program.chmod(0o700)
    elif broken == "crashing":
        program.write_text("#!/bin/sh\nkill -SEGV $$\n")
        program.chmod(0o700)
    (job,) = fire(state)
    assert job.endswith(b'\0\0{"n": 1}')
    assert not (state.root / "ran").exists()


@pytest.mark.parametrize("reads", ["all", "a part"])
def test_one_that_is_killed_with_the_payload_in_its_hands_is_followed_by_no_empty_job(
    state: State, reads: str
) -> None:
    recorded = state.root / "recorded"
    read = "cat" if reads == "all" else "dd bs=1 count=3"
    native.program(state).write_text(f"#!/bin/sh\n{read} >'{recorded}' 2>/dev/null\nkill -KILL $$\n")
    jobs = fire(state)
    # What it had read in part is cut: that is told, not passed over.
    assert [job.partition(b"\0\0")[2] for job in jobs] == ([] if reads == "all" else [b'": 1}'])
    assert recorded.read_bytes() == (b'{"n": 1}' if reads == "all" else b'{"n')


def test_one_that_is_killed_with_the_payload_in_an_argument_is_followed_by_a_job_that_has_it(
    state: State,
) -> None:
    """It may have left one already: codex's program tells the end of a turn, which is told once."""
    native.program(state).write_text("#!/bin/sh\nkill -KILL $$\n")
    (job,) = fire(state, "codex", "notify", '{"n": 1}', payload=b"")
    assert b'\0arg={"n": 1}\0' in job


def test_it_is_made_once_private_and_goes_with_the_launcher(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(tmp_path / "state")
    launcher.write(state, tmp_path / "config", {})
    older = state.bin / "hook-0123456789abcdef"
    older.touch()
    monkeypatch.setattr(native, "_compiled", lambda _folder: made)
    assert native.build(state)
    assert not older.exists()
    info = native.program(state).stat()
    assert stat.S_IMODE(info.st_mode) == 0o700
    assert native.build(state)
    assert native.program(state).stat().st_ino == info.st_ino
    launcher.remove(state)
    assert not state.bin.exists()


@pytest.mark.parametrize("again", ["it is made again", "it cannot be made"])
def test_one_that_stands_there_and_does_not_run_is_replaced_or_goes(
    state: State, made: Path, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    native.program(state).write_text("#!/bin/sh\nexit 1\n")
    assert native.stands(state)
    possible = again == "it is made again"
    monkeypatch.setattr(native, "_compiled", lambda _folder: made if possible else None)
    assert native.build(state) == native.stands(state) == possible
    assert native.program(state).exists() == possible


def test_several_that_make_it_at_once_leave_one_and_nothing_else(
    tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(6)

    def compiled(_folder: Path) -> Path:
        together.wait()
        return made

    monkeypatch.setattr(native, "_compiled", compiled)
    state = State(tmp_path / "state")
    launcher.write(state, tmp_path / "config", {})
    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(native.build, [state] * 6))
    assert {path.name for path in state.bin.iterdir()} == {
        "hook.pyc",
        "sessionpipe-hook",
        native.program(state).name,
    }
    without_interpreter(state)
    assert len(fire(state)) == 1


def test_what_one_that_was_killed_left_goes_with_the_launcher(state: State) -> None:
    (state.bin / "making-0123").mkdir()
    (state.bin / "making-0123" / "hook0").touch()
    (state.bin / ".hook-0123456789abcdef.0123456789ab.tmp").touch()
    launcher.remove(state)
    assert not state.bin.exists()


def test_one_that_is_made_apart_while_somebody_uninstalls_does_not_stay(
    state: State, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONPIPE_STATE_DIR", str(state.root))
    native.remove(state)

    def compiled(_folder: Path) -> Path:
        state.launcher.unlink()
        (state.bin / "hook.pyc").unlink()
        return made

    monkeypatch.setattr(native, "_compiled", compiled)
    assert native.main() == 1
    assert not state.bin.exists()


def test_another_version_or_another_machine_has_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(tmp_path)
    names = {native.program(state)}
    with monkeypatch.context() as patch:
        patch.setattr(hook, "FORWARDED", (*hook.FORWARDED, "ANOTHER"))
        names.add(native.program(state))
    with monkeypatch.context() as patch:
        patch.setattr(native, "machine", lambda: "f" * 32)
        names.add(native.program(state))
    assert len(names) == 3


@pytest.mark.parametrize("says", ["", "uninitialized\n", "../../etc\n"])
def test_a_machine_without_an_id_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    identity = tmp_path / "machine-id"
    monkeypatch.setattr(native, "MACHINE_ID", identity)
    assert native.machine() == ""
    identity.write_text(says)
    assert native.machine() == ""
    assert not native.build(State(tmp_path))


@pytest.mark.parametrize(
    "script",
    [
        "exit 1",
        "exit 0",
        "kill -KILL $$",
        # What it makes runs, but is no hook.
        'while [ "$1" != -o ]; do shift; done; printf "#!/bin/sh\\n" >"$2"; chmod +x "$2"',
        'while [ "$1" != -o ]; do shift; done; echo noise >"$2"',
        "echo noise >&2; sleep 60",
    ],
)
def test_a_compiler_that_fails_lies_or_hangs_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o700)
    monkeypatch.setattr(native, "COMPILERS", (str(compiler),))
    if "sleep" in script:
        monkeypatch.setattr(native, "_SECONDS", 0.1)
    state = State(tmp_path / "state")
    launcher.write(state, tmp_path / "config", {})
    assert not native.build(state)
    assert {path.name for path in state.bin.iterdir()} == {"hook.pyc", "sessionpipe-hook"}


def test_nothing_of_the_environment_reaches_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\nenv >'{tmp_path}/env'\nexit 1\n")
    compiler.chmod(0o700)
    monkeypatch.setattr(native, "COMPILERS", (str(compiler),))
    for name in ("CFLAGS", "CPATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_PRELOAD_NOT"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PATH", f".:{tmp_path}")
    state = State(tmp_path / "state")
    launcher.write(state, tmp_path / "config", {})
    assert not native.build(state)
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert names <= {"PATH", "LC_ALL", "TMPDIR", "HOME", "PWD", "OLDPWD", "_", "SHLVL"}
    assert "PATH=/usr/bin:/bin" in (tmp_path / "env").read_text()


def test_every_compiler_is_at_a_fixed_place() -> None:
    assert all(Path(path).is_absolute() for path in native.COMPILERS)
