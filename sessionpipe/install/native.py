"""The hook without an interpreter: ``hook.c``, compiled on this machine where that can be done safely.

A Python start is nine tenths of what an agent waits for at a hook, so ``install`` compiles the hook
once for each version, and the launcher prefers that. It is never needed: without a compiler, on
another machine, or when it does not run, the launcher runs ``hook.py``. So nothing here fails, and
what is put in place has recorded a job just before.

Only a compiler at a fixed place is run, with an environment of its own: what ``PATH`` or ``CFLAGS``
say may come from the folder of a project. Not on macOS, where ``cc`` may open a dialog.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import stat
import sys
from contextlib import suppress
from pathlib import Path

from sessionpipe import hook
from sessionpipe.install.files import remove_folders, replace
from sessionpipe.paths import State
from sessionpipe.places import read_file

COMPILERS = ("/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang")

#: What tells this machine from another that sees the same folder: its programs may not run there, and some
#: shells take a program that is not for this machine for a script.
MACHINE_ID = Path("/etc/machine-id")

#: Linked statically it starts a fifth faster; not every system has what that takes.
_LINKS: tuple[list[str], ...] = (["-static"], [])
_SECONDS = 10
_MAKING = "making-"
_SOURCE = Path(__file__).parent.parent / "hook.c"


def machine() -> str:
    """This machine's id; empty where it has none, and where nothing is compiled."""
    if sys.platform != "linux":
        return ""
    try:
        text = MACHINE_ID.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
    # An image that nobody has booted yet says "uninitialized".
    return text if re.fullmatch(r"[0-9a-f]{32}", text) else ""


def program(state: State) -> Path:
    """Where the compiled hook of this version and this machine is, or would be."""
    digest = hashlib.sha256("\0".join((machine(), _text())).encode()).hexdigest()
    return state.bin / f"hook-{digest[:16]}"


def stands(state: State) -> bool:
    """Whether the launcher runs the compiled hook: it is there, ours, and newer than ``hook.py``."""
    try:
        info = program(state).lstat()
        newer = info.st_mtime_ns > Path(hook.__file__).stat().st_mtime_ns
    except OSError:
        return False
    private = stat.S_ISREG(info.st_mode) and stat.S_IMODE(info.st_mode) == 0o700
    return bool(machine()) and private and newer


def build(state: State) -> bool:
    """Compile the hook into ``bin``, unless it stands there and runs; False where that cannot be done. Never raises."""
    if stands(state):
        if runs(state):
            return True
        remove(state)  # The launcher would try it in vain each time.
    if not machine():
        return False
    # Imported where something is compiled: `status` asks only where the programs are.
    import tempfile

    path = program(state)
    try:
        # Where it will have to run: other places for what is temporary may let nothing run.
        with tempfile.TemporaryDirectory(prefix=_MAKING, dir=state.bin, ignore_cleanup_errors=True) as folder:
            made = _compiled(Path(folder))
            if made is None:
                return False
            replace(path, read_file(made), mode=0o700)
        remove(state, but=path)
    except OSError:
        pass  # No room, or the folder went: uninstalled meanwhile.
    return stands(state)


def build_apart(state: State) -> None:
    """Have it compiled by a process nobody waits for: a compiler may hang. Raises :class:`OSError`."""
    import subprocess

    if stands(state) or not machine():
        return
    subprocess.Popen(  # noqa: S603  # ourselves
        [sys.executable, "-I", str(_SOURCE.with_name("__main__.py")), "compile"],
        cwd="/",
        env={**os.environ, "SESSIONPIPE_STATE_DIR": str(state.root)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main() -> int:
    """What :func:`build_apart` starts; its exit status."""
    os.umask(0o077)
    state = State(Path(os.environ["SESSIONPIPE_STATE_DIR"]))
    built = build(state)
    if not os.path.lexists(state.launcher):
        # Uninstalled meanwhile: the launcher goes first, so nobody takes away what came after.
        remove(state)
        remove_folders([state.bin])
        return 1
    return 0 if built else 1


def remove(state: State, but: Path | None = None) -> None:
    """Remove every compiled hook, of other versions too, and what is half made; ``but`` is kept, and that with it."""
    for path in state.bin.glob("hook-*"):
        if path != but:
            path.unlink(missing_ok=True)
    if but is None:
        import shutil

        for path in state.bin.glob(".hook-*.tmp"):
            path.unlink(missing_ok=True)
        for path in state.bin.glob(f"{_MAKING}*"):
            shutil.rmtree(path, ignore_errors=True)


def runs(state: State) -> bool:
    """Whether the compiled hook, which stands there, still records a job: a system may forbid what it let us make."""
    import tempfile

    try:
        with tempfile.TemporaryDirectory(prefix="sessionpipe-hook-", ignore_cleanup_errors=True) as folder:
            return works(program(state), Path(folder))
    except OSError:
        return True  # There is nowhere to try it.


def works(executable: Path, folder: Path) -> bool:
    """Whether it records a job below ``folder`` as it must."""
    import subprocess

    state = folder / "state"
    command = [str(executable), sys.executable, hook.__file__, "claude-code", "Stop", "an argument"]
    environ = {
        "SESSIONPIPE_STATE_DIR": str(state),
        "SESSIONPIPE_PPID": "1",
        "HOME": "/x",
        "NOT_OURS": "y",
    }
    environ["SESSIONPIPE_NO_WORKER"] = "1"
    try:
        done = subprocess.run(  # noqa: S603  # what was just compiled
            command, input=b"{}\0", env=environ, cwd="/", capture_output=True, timeout=_SECONDS, check=False
        )
        (job,) = (state / "spool" / "new").iterdir()
        data = job.read_bytes()
    except (OSError, ValueError, subprocess.SubprocessError):
        return False
    before, _, after = data.partition(b"\0at_ms=")
    moment, _, after = after.partition(b"\0")
    return (
        (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        and before == b"v=1\0harness=claude-code\0event=Stop"
        and moment.isdigit()
        and after == b"cwd=/\0ppid=1\0arg=an argument\0env.HOME=/x\0\0{}\0"
    )


def _text() -> str:
    """``hook.c`` with the tables of ``hook.py`` before it, so that they stand once."""
    tables = {"FORWARDED": hook.FORWARDED, "NAMELESS": hook.NAMELESS}
    lines = [f"#define {name} " + " ".join(f'"{value}",' for value in of) for name, of in tables.items()]
    return "\n".join([*lines, _SOURCE.read_text("utf-8")])


def _compiled(folder: Path) -> Path | None:
    source = folder / "hook.c"
    source.write_text(_text(), "utf-8")
    for compiler in COMPILERS:
        if not os.access(compiler, os.X_OK):
            continue
        for number, link in enumerate(_LINKS):
            made = folder / f"hook{number}"
            command = [compiler, "-std=gnu11", "-O2", "-w", *link, "-o", str(made), str(source)]
            ended = _run(command, folder)
            if ended is None:
                return None  # It hangs: so would the next.
            if ended and made.is_file() and works(made, folder / f"try{number}"):
                return made
        return None
    return None


def _run(command: list[str], folder: Path) -> bool | None:
    """Whether it exited 0; None when it did not end in time, and then nothing of it is left."""
    import subprocess

    environ = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": str(folder), "HOME": str(folder)}
    with subprocess.Popen(  # noqa: S603  # a fixed place, fixed words
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            return process.wait(_SECONDS) == 0
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return None


__all__ = [
    "COMPILERS",
    "build",
    "build_apart",
    "machine",
    "main",
    "program",
    "remove",
    "runs",
    "stands",
    "works",
]
