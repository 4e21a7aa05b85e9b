"""The hook: one job file, exit 0, silence, whatever the circumstances.

There are two of it, ``hook.py`` and ``hook.c``, and what is said here is said of both.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionpipe import hook
from sessionpipe.install import native
from sessionpipe.paths import State
from sessionpipe.spool import Job, Spool
from tests.e2e.machine import wait_for

HOOK = Path(hook.__file__)

#: How the launcher runs either: the file's name comes last, and a harness's words behind it.
INTERPRETED = (sys.executable, "-I", "-S")
hook_command: tuple[str, ...] = INTERPRETED


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    state = State(tmp_path_factory.mktemp("native"))
    state.bin.mkdir()
    if not native.build(state):
        pytest.skip("hook.c cannot be compiled here: no C compiler, or not Linux")
    return (str(native.program(state)), sys.executable)


@pytest.fixture(params=["interpreted", "compiled"])
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test with either hook."""
    if request.param == "compiled":
        monkeypatch.setattr(sys.modules[__name__], "hook_command", request.getfixturevalue("compiled"))


either = pytest.mark.usefixtures("both")


def firing(*argv: str, hook: Path = HOOK) -> list[str]:
    return [*hook_command, str(hook), *argv]


def run(
    *argv: str, state: Path | None, stdin: bytes | int = b"", cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the hook as a harness's shell would, with no worker unless the test says otherwise."""
    environ = {"HOME": os.environ["HOME"], "SESSIONPIPE_NO_WORKER": "1", **env}
    if state is not None:
        environ["SESSIONPIPE_STATE_DIR"] = str(state)
    given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    return subprocess.run(
        firing(*argv),
        env=environ,
        cwd=cwd,
        capture_output=True,
        timeout=30,
        **given,
    )


def assert_unnoticed(done: subprocess.CompletedProcess[bytes]) -> None:
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def jobs(state: Path) -> list[Job]:
    spool = Spool(state / "spool")
    return [spool.read(name) for name in spool.names()]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@either
def test_a_firing_becomes_one_job_with_the_payload_as_it_came(state: Path, tmp_path: Path) -> None:
    payload = b'{"session_id": "\xf0\x9f\x98\x80", "n": 1}\n\0tail'
    assert_unnoticed(run("claude-code", "Stop", state=state, stdin=payload, cwd=tmp_path))
    (job,) = jobs(state)
    assert (job.harness, job.event, job.payload, job.cwd) == ("claude-code", "Stop", payload, str(tmp_path))
    assert job.partial is False


@either
def test_extra_arguments_come_in_order(state: Path) -> None:
    run("codex", "notify", '{"type":"agent-turn-complete"}', "", state=state)
    assert jobs(state)[0].args == ('{"type":"agent-turn-complete"}', "")


@either
def test_only_variables_on_the_list_are_kept(state: Path) -> None:
    run(
        "codex",
        "Stop",
        state=state,
        CODEX_HOME="/x",
        OPENAI_API_KEY="k",
        CODEX_HOME_TOO="t",
        CLAUDE_CODE_TOKEN="u",
    )
    assert set(jobs(state)[0].env) == {"HOME", "CODEX_HOME"}


@either
def test_jobs_are_named_so_that_bytewise_order_is_the_order_of_firing(state: Path) -> None:
    for number in range(5):
        run("codex", str(number), state=state)
    assert [job.event for job in jobs(state)] == list("01234")


@either
def test_everything_it_makes_is_private(state: Path) -> None:
    run("codex", "Stop", state=state)
    modes = {path: path.stat().st_mode & 0o777 for path in [state, *state.rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_it_loads_no_module_beyond_a_bare_start(state: Path) -> None:
    def imported(*command: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-X", "importtime", *command],
            env={"HOME": "/nowhere", "SESSIONPIPE_STATE_DIR": str(state), "SESSIONPIPE_NO_WORKER": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        return {line.rpartition(b"|")[2].decode().strip() for line in done.stderr.splitlines()}

    bare = imported("-c", "pass")
    assert imported(str(HOOK), "codex", "Stop") - bare == set()
    assert jobs(state)


# What a system call can carry: any bytes but NUL, which ends a string there.
WORD = st.binary(max_size=40).map(lambda raw: os.fsdecode(raw.replace(b"\0", b"")))


@settings(max_examples=25, deadline=None)
@given(
    words=st.lists(WORD, max_size=4),
    env=st.dictionaries(st.sampled_from(hook.FORWARDED) | st.just("ANTHROPIC_API_KEY"), WORD, max_size=6),
    payload=st.binary(max_size=300),
)
def test_either_hook_writes_the_same_job(
    compiled: tuple[str, ...],
    tmp_path_factory: pytest.TempPathFactory,
    words: list[str],
    env: dict[str, str],
    payload: bytes,
) -> None:
    state = tmp_path_factory.mktemp("both") / "state"
    places = {"SESSIONPIPE_STATE_DIR": str(state), "SESSIONPIPE_NO_WORKER": "1", "LC_ALL": "C.UTF-8"}
    for command in (INTERPRETED, compiled):
        line = [*command, str(HOOK), "claude-code", "Stop", *words]
        assert_unnoticed(subprocess.run(line, env={**places, **env}, input=payload, capture_output=True))
    names = Spool(state / "spool").names()
    first, second = (
        re.sub(rb"\0at_ms=\d{13}\0", b"\0", (state / "spool/new" / name).read_bytes(), count=1)
        for name in names
    )
    assert first == second
    assert first.endswith(b"\0\0" + payload)
    assert all(re.fullmatch(r"\d{20}-\d+-[0-9a-f]{8}\.job", name) for name in names)


# --- whose hooks may name no session --------------------------------------------------------------


linux = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the system does not tell when a process began"
)


@either
@linux
def test_the_process_that_ran_the_hook_is_told_where_it_may_be_all_that_names_the_session(
    state: Path,
) -> None:
    for harness in ("kiro", "kiro", "codex"):
        run(harness, "stop", state=state)
    first, second, other = (job.env.get("SESSIONPIPE_PROCESS") for job in jobs(state))
    assert first == second
    assert first
    boot, pid, start = first.split(".")
    assert (len(boot), int(pid), start.isdecimal()) == (36, os.getpid(), True)
    assert other is None


@either
@linux
def test_what_the_launcher_says_ran_it_is_the_process(state: Path) -> None:
    run("kiro", "stop", state=state, SESSIONPIPE_PPID="1")
    (job,) = jobs(state)
    assert job.env["SESSIONPIPE_PROCESS"].split(".")[1] == "1"


@either
@linux
def test_a_process_that_began_with_the_hook_is_none_a_session_could_be_named_by(state: Path) -> None:
    """As a shell that stands between, which runs one hook and ends."""
    run("kiro", "stop", state=state, SESSIONPIPE_PPID="self")
    assert jobs(state)[0].env["SESSIONPIPE_PROCESS"] == ""


@either
@pytest.mark.parametrize("parent", ["0", "none", "../1", "99999999"])
def test_a_process_that_cannot_be_looked_at_is_not_told(state: Path, parent: str) -> None:
    assert_unnoticed(run("kiro", "stop", state=state, SESSIONPIPE_PPID=parent))
    assert jobs(state)[0].env["SESSIONPIPE_PROCESS"] == ""


@either
class TestStandardInput:
    def test_closed(self, state: Path) -> None:
        command = f"exec {shlex.join(firing('codex', 'Stop'))} <&-"
        environ = {"SESSIONPIPE_STATE_DIR": str(state), "SESSIONPIPE_NO_WORKER": "1"}
        assert_unnoticed(subprocess.run(["sh", "-c", command], env=environ, capture_output=True))
        assert jobs(state)[0].payload == b""

    def test_a_terminal_is_empty_input(self, state: Path) -> None:
        leader, follower = pty.openpty()
        try:
            assert_unnoticed(run("codex", "Stop", state=state, stdin=follower))
        finally:
            os.close(leader)
            os.close(follower)
        assert jobs(state)[0].payload == b""

    def test_that_never_ends_is_taken_as_it_is(self, state: Path) -> None:
        reading, writing = os.pipe()
        try:
            os.write(writing, b'{"half":')
            assert_unnoticed(run("codex", "Stop", state=state, stdin=reading))
        finally:
            os.close(writing)
            os.close(reading)
        assert jobs(state)[0].payload == b'{"half":'

    def test_that_somebody_made_non_blocking_is_waited_for(self, state: Path) -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        environ = {"SESSIONPIPE_STATE_DIR": str(state), "SESSIONPIPE_NO_WORKER": "1"}
        command = firing("codex", "Stop")
        with subprocess.Popen(command, env=environ, stdin=reading) as process:
            os.close(reading)
            # It has nothing to read until it is known to run.
            wait_for(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes(), "the hook")
            os.write(writing, b"{}")
            os.close(writing)
        assert jobs(state)[0].payload == b"{}"

    def test_that_is_huge_is_drained_cut_and_marked(self, state: Path) -> None:
        assert_unnoticed(run("codex", "Stop", state=state, stdin=b"x" * (hook.PAYLOAD_LIMIT + 4097)))
        (job,) = jobs(state)
        assert (len(job.payload), job.partial) == (hook.PAYLOAD_LIMIT, True)

    def test_that_is_just_within_the_limit_is_whole(self, state: Path) -> None:
        run("codex", "Stop", state=state, stdin=b"x" * hook.PAYLOAD_LIMIT)
        (job,) = jobs(state)
        assert (len(job.payload), job.partial) == (hook.PAYLOAD_LIMIT, False)


@either
class TestTrouble:
    def test_no_arguments(self, state: Path) -> None:
        assert_unnoticed(run(state=state))

    def test_no_environment(self) -> None:
        done = subprocess.run(firing("codex"), env={}, capture_output=True, input=b"")
        assert_unnoticed(done)

    def test_a_state_directory_that_is_a_file(self, state: Path) -> None:
        state.write_text("in the way")
        assert_unnoticed(run("codex", "Stop", state=state))
        assert state.read_text() == "in the way"

    def test_a_state_directory_below_nothing_writable(self) -> None:
        assert_unnoticed(run("codex", "Stop", state=Path("/proc/self/nowhere")))

    def test_a_full_disk_leaves_no_half_job(self, state: Path) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("no /dev/full here")
        run("codex", "Stop", state=state)
        (job,) = (state / "spool" / "new").iterdir()
        job.unlink()
        # A file system with no room: the write fails as a full disk's does.
        limited = f"ulimit -f 1; exec {shlex.join(firing('codex', 'Stop'))}"
        environ = {"SESSIONPIPE_STATE_DIR": str(state), "SESSIONPIPE_NO_WORKER": "1"}
        done = subprocess.run(["bash", "-c", limited], env=environ, input=b"x" * 100_000, capture_output=True)
        assert_unnoticed(done)
        assert list((state / "spool" / "new").iterdir()) == []
        assert list((state / "spool" / "tmp").iterdir()) == []

    def test_a_folder_deleted_under_the_agent(self, state: Path, tmp_path: Path) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        command = f'rmdir "{gone}"; exec {shlex.join(firing("codex", "Stop"))}'
        environ = {"SESSIONPIPE_STATE_DIR": str(state), "SESSIONPIPE_NO_WORKER": "1"}
        assert_unnoticed(
            subprocess.run(
                ["/bin/sh", "-c", command], env=environ, cwd=gone, capture_output=True, input=b"{}"
            )
        )
        assert (jobs(state)[0].cwd, jobs(state)[0].payload) == ("", b"{}")

    def test_closed_output_streams(self, state: Path) -> None:
        command = f"exec {shlex.join(firing('cursor', 'stop'))} >&- 2>&-"
        environ = {"SESSIONPIPE_STATE_DIR": str(state), "SESSIONPIPE_NO_WORKER": "1"}
        done = subprocess.run(["sh", "-c", command], env=environ, capture_output=True, input=b"{}")
        assert_unnoticed(done)
        assert jobs(state)[0].payload == b"{}"

    @pytest.mark.parametrize("missing", ["spool", "spool/new", "spool/tmp"])
    def test_a_folder_that_somebody_removed_is_made_again(self, state: Path, missing: str) -> None:
        run("codex", "Stop", state=state)
        shutil.rmtree(state / missing)
        run("codex", "Stop", state=state)
        run("codex", "Stop", state=state)
        assert len(jobs(state)) >= 2

    def test_a_fifo_that_is_something_else(self, state: Path) -> None:
        state.mkdir()
        (state / "worker.fifo").write_bytes(b"")
        assert_unnoticed(run("codex", "Stop", state=state))
        assert len(jobs(state)) == 1


class TestAnswers:
    @pytest.mark.parametrize(
        ("harness", "event", "answer"),
        [
            ("antigravity", "PreInvocation", b"{}"),
            ("antigravity", "PreToolUse", b""),
            ("cursor", "stop", b"{}"),
            ("claude-code", "Stop", b""),
        ],
    )
    def test_a_harness_gets_what_it_requires_and_nothing_else(
        self, state: Path, harness: str, event: str, answer: bytes
    ) -> None:
        assert run(harness, event, state=state).stdout == answer


@either
class TestWaking:
    def test_a_listening_worker_gets_a_byte_and_no_second_one_is_started(self, state: Path) -> None:
        state.mkdir()
        os.mkfifo(state / "worker.fifo", 0o600)
        reading = os.open(state / "worker.fifo", os.O_RDONLY | os.O_NONBLOCK)
        try:
            environ = {"SESSIONPIPE_STATE_DIR": str(state)}
            subprocess.run(firing("codex", "Stop"), env=environ, input=b"", check=True)
            assert os.read(reading, 10) == b"j"
            assert not (state / "worker.lock").exists()
        finally:
            os.close(reading)

    def test_a_full_fifo_does_not_block_it(self, state: Path) -> None:
        state.mkdir()
        os.mkfifo(state / "worker.fifo", 0o600)
        reading = os.open(state / "worker.fifo", os.O_RDONLY | os.O_NONBLOCK)
        writing = os.open(state / "worker.fifo", os.O_WRONLY | os.O_NONBLOCK)
        try:
            with pytest.raises(BlockingIOError):
                while True:
                    os.write(writing, b"x" * fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ))
            environ = {"SESSIONPIPE_STATE_DIR": str(state)}
            done = subprocess.run(
                firing("codex", "Stop"),
                env=environ,
                capture_output=True,
                input=b"",
            )
            assert_unnoticed(done)
        finally:
            os.close(reading)
            os.close(writing)


def test_without_the_variable_the_state_directory_is_where_platformdirs_puts_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for environ in ({}, {"XDG_STATE_HOME": str(tmp_path / "xdg")}):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        seen = {b"HOME": os.environ["HOME"].encode(), **{k.encode(): v.encode() for k, v in environ.items()}}
        assert hook.state_directory(seen).decode() == platformdirs.user_state_dir("sessionpipe")


class TestStarting:
    """What it hands to the worker it starts, seen by a program in the worker's place."""

    WORKER = """
import json, os, stat, sys
root = os.environ["SESSIONPIPE_STATE_DIR"]
fds = {}
for fd in range(64):
    try:
        info = os.fstat(fd)
    except OSError:
        continue
    fds[fd] = [info.st_dev, info.st_ino, stat.S_ISFIFO(info.st_mode)]
with open(root + "/seen.tmp", "w") as seen:
    json.dump({"argv": sys.argv[1:], "fds": fds}, seen)
os.rename(root + "/seen.tmp", root + "/seen")
"""

    @pytest.fixture
    def hook_file(self, tmp_path: Path) -> Path:
        package = tmp_path / "package"
        package.mkdir()
        (package / "__main__.py").write_text(self.WORKER)
        return Path(shutil.copy(HOOK, package / "hook.py"))

    def seen(self, hook_file: Path, state: Path, **how: Any) -> dict[str, Any]:
        environ = {"SESSIONPIPE_STATE_DIR": str(state)}
        command = firing("codex", "Stop", hook=hook_file)
        subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, check=True, **how)
        wait_for((state / "seen").exists, "the program in the worker's place")
        return json.loads((state / "seen").read_bytes())

    @either
    @pytest.mark.parametrize("free", [3, 4, 5], ids=lambda fd: f"{fd} is the lowest free descriptor")
    def test_the_worker_has_the_reading_end_on_descriptor_3_and_nothing_else(
        self, hook_file: Path, state: Path, free: int
    ) -> None:
        def occupy() -> None:
            for fd in range(3, free):
                os.dup2(0, fd, inheritable=True)

        seen = self.seen(hook_file, state, preexec_fn=occupy, close_fds=False)
        info = (state / "worker.fifo").stat()
        assert seen["argv"] == ["worker"]
        assert seen["fds"].pop("3") == [info.st_dev, info.st_ino, True]
        assert set(seen["fds"]) == {"0", "1", "2"}

    @either
    def test_it_is_out_of_the_process_group_when_the_hook_ends(self, hook_file: Path, state: Path) -> None:
        """An agent may kill all that a hook of its has left, at once."""
        environ = {"SESSIONPIPE_STATE_DIR": str(state)}
        command = firing("codex", "Stop", hook=hook_file)
        if hasattr(os, "sched_setaffinity"):
            # On one core whatever the hook started and did not wait for has not run yet when it ends.
            core = min(os.sched_getaffinity(0))
            command = ["taskset", "-c", str(core), *command] if shutil.which("taskset") else command
        with subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, process_group=0) as process:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            os.killpg(process.pid, signal.SIGKILL)
        wait_for((state / "seen").exists, "the program in the worker's place")

    @either
    def test_with_closed_standard_streams_too(self, hook_file: Path, state: Path) -> None:
        seen = self.seen(hook_file, state, preexec_fn=lambda: os.closerange(0, 3))
        assert seen["fds"]["3"][2] is True
        assert set(seen["fds"]) == {"0", "1", "2", "3"}

    @either
    @pytest.mark.parametrize("kind", ["file", "folder", "link", "socket"])
    def test_something_else_in_the_place_of_the_fifo_starts_a_worker_that_puts_it_right(
        self, hook_file: Path, state: Path, kind: str
    ) -> None:
        state.mkdir()
        path = state / "worker.fifo"
        {
            "file": path.touch,
            "folder": path.mkdir,
            "link": lambda: path.symlink_to(state / "nowhere"),
            "socket": lambda: os.mknod(path, 0o600 | stat.S_IFSOCK),
        }[kind]()
        self.seen(hook_file, state)
        assert kind != "file" or path.read_bytes() == b""

    def test_a_reader_that_leaves_before_the_byte_is_none(
        self, state: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        state.mkdir()
        os.mkfifo(state / "worker.fifo")
        reading = os.open(state / "worker.fifo", os.O_RDONLY | os.O_NONBLOCK)
        started: list[bytes] = []
        posix = types.SimpleNamespace(**vars(hook.system))

        def write(fd: int, data: bytes) -> int:
            os.close(reading)
            return os.write(fd, data)

        posix.write = write
        posix.closerange = posix.dup2 = posix.set_inheritable = lambda *_args: None
        monkeypatch.setattr(hook, "system", posix)
        monkeypatch.setattr(hook, "spawn", lambda state, environ: started.append(state))
        hook.wake(os.fsencode(state), {})
        assert started == [os.fsencode(state)]
