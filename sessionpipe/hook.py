"""What an agent runs at each of its hooks: ``python -I -S hook.py HARNESS EVENT [ARGS]``.

Reads standard input to its end, writes one job file, wakes or starts the worker, exits 0. Never a
network call, a parse of the payload, a traceback, a byte on stderr.

It uses only what a bare interpreter start has loaded already: importing `os` alone would cost more
than everything below. A job file is NUL-ended ``key=value`` records, an empty record, then the
payload as it came; :mod:`sessionpipe.spool` names the keys.
"""

import sys
import time

try:
    import _signal  # type: ignore[import-not-found]
    import posix as system
except ImportError:
    import nt as system  # type: ignore[no-redef] # Windows: written with care, never run there.

POSIX = system.__name__ == "posix"

#: Exact names, never a pattern: agents hand their hooks API keys and messaging tokens. A test holds
#: this equal to what the adapters ask for and the protocol needs.
FORWARDED = (
    "APPDATA",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_HOST_SESSION_ID",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "CURSOR_PROJECT_DIR",
    "CURSOR_VERSION",
    "DEVIN_PROJECT_DIR",
    "FACTORY_PROJECT_DIR",
    "GEMINI_CLI_HOME",
    "HOME",
    "PI_CODING_AGENT_DIR",
    "SESSIONPIPE_ASKED_BY",
    "SESSIONPIPE_LAUNCHED_BY",
    "SESSIONPIPE_PROCESS",
    "USERPROFILE",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)

#: What a harness must be answered, by harness and event; an event not named gets ``*``.
ANSWERS = {"antigravity": {"*": b"{}", "PreToolUse": b""}, "cursor": {"*": b"{}"}}

#: Harnesses some of whose hooks name no session: the process that ran the hook is told with each of theirs.
NAMELESS = ("kiro",)

#: The folders a job goes through, below the state directory.
SPOOL = (b"/spool", b"/spool/tmp", b"/spool/new")

PAYLOAD_LIMIT = 32 << 20
STDIN_SECONDS = 2.0
CHUNK = 1 << 20


class Late(Exception):
    """Standard input did not end in time."""


def main(argv: list[str]) -> None:
    # Taken first: jobs are recorded in the order their hooks started, not the order they were read.
    now = time.time_ns()
    harness, event = (*argv[1:3], "", "")[:2]
    environ = environment()
    answer = ANSWERS.get(harness)
    if answer:
        try:
            system.write(1, answer.get(event, answer["*"]))
        except OSError:
            pass  # Nobody listens; the event is recorded all the same.
    if harness in NAMELESS:
        environ = {**environ, b"SESSIONPIPE_PROCESS": process(environ)}
    payload, partial = read_stdin()
    if b"SESSIONPIPE_AGAIN" in environ and not payload and not argv[3:]:
        # The compiled hook was killed with the payload in its hands: what is left would be no event. One that
        # came as an argument is still here; were it recorded already, the end of a turn is told once anyway.
        return
    state = absolute(state_directory(environ))
    header = job_header(argv, harness, event, now // 1_000_000, environ, partial)
    name = b"%020d-%d-%s.job" % (now, system.getpid(), system.urandom(4).hex().encode())
    if write_job(state, name, [header, *payload]) and b"SESSIONPIPE_NO_WORKER" not in environ:
        wake(state, environ)


def environment() -> dict[bytes, bytes]:
    """The environment as bytes, whatever the platform."""
    if POSIX:
        return system.environ
    pairs: dict[str, str] = system.environ  # type: ignore[assignment]
    return {argument(name): argument(value) for name, value in pairs.items()}


def state_directory(environ: dict[bytes, bytes]) -> bytes:
    """``SESSIONPIPE_STATE_DIR`` (the launcher always says it), else where platformdirs would put it."""
    if chosen := environ.get(b"SESSIONPIPE_STATE_DIR"):
        return chosen
    home = environ.get(b"HOME", b"")
    if not POSIX:
        return environ[b"LOCALAPPDATA"] + b"\\sessionpipe\\sessionpipe"
    if sys.platform == "darwin":
        return home + b"/Library/Application Support/sessionpipe"
    return (environ.get(b"XDG_STATE_HOME", b"").strip() or home + b"/.local/state") + b"/sessionpipe"


def absolute(path: bytes) -> bytes:
    """``path`` as the worker, which works in ``/``, must have it."""
    return path if path.startswith(b"/") or not POSIX else system.getcwdb() + b"/" + path


def read_stdin() -> tuple[list[bytes], bool]:
    """All of standard input as chunks, and whether it was cut. A terminal or a closed one is empty.

    More than the limit is drained, so that the harness's write never blocks or fails, and dropped.
    What has come after two seconds is taken as it is.
    """
    chunks: list[bytes] = []
    size = 0
    if system.isatty(0):
        return chunks, False
    if POSIX:
        _signal.signal(_signal.SIGALRM, late)
        _signal.setitimer(_signal.ITIMER_REAL, STDIN_SECONDS)
    try:
        try:
            while chunk := read():
                if size < PAYLOAD_LIMIT:
                    chunks.append(chunk[: PAYLOAD_LIMIT - size])
                size += len(chunk)
        finally:
            if POSIX:
                # Within the try: the time may run out at this very line. And stopped at all because an
                # interval timer survives exec, and the worker has no handler for it.
                _signal.setitimer(_signal.ITIMER_REAL, 0)
    except (Late, OSError):
        pass
    return chunks, size > PAYLOAD_LIMIT


def read() -> bytes:
    """What standard input has next, waited for also where its other users made it non-blocking."""
    while True:
        try:
            return system.read(0, CHUNK)
        except BlockingIOError:
            time.sleep(0.002)


def late(signum: int, frame: object) -> None:
    raise Late


def job_header(
    argv: list[str], harness: str, event: str, at_ms: int, environ: dict[bytes, bytes], partial: bool
) -> bytes:
    try:
        cwd = system.getcwdb() if POSIX else system.getcwd().encode("utf-8", "replace")
    except OSError:
        cwd = b""  # The agent's folder may have been deleted under it.
    records = [
        b"v=1",
        b"harness=" + argument(harness),
        b"event=" + argument(event),
        b"at_ms=%d" % at_ms,
        b"cwd=" + cwd,
        b"ppid=" + parent(environ),
    ]
    records += [b"arg=" + argument(extra) for extra in argv[3:]]
    if partial:
        records.append(b"partial=1")
    for name in FORWARDED:
        key = name.encode()
        if key in environ:
            records.append(b"env." + key + b"=" + environ[key])
    return b"\0".join(records) + b"\0\0"


def parent(environ: dict[bytes, bytes]) -> bytes:
    # The launcher stands between the agent and this process, and says who its own parent is.
    return environ.get(b"SESSIONPIPE_PPID") or b"%d" % system.getppid()


def process(environ: dict[bytes, bytes]) -> bytes:
    """What names the process that runs hooks, for good: the boot, its id, its start. Empty where nothing tells.

    One that was started for this hook alone (a twentieth of a second ago at most) names nothing.
    """
    try:
        pid = parent(environ)
        start = started(pid)
        if started(b"self") - start < 5:
            return b""
        return b"%s.%s.%d" % (contents(b"/proc/sys/kernel/random/boot_id").strip(), pid, start)
    except (OSError, ValueError, IndexError):
        return b""


def started(pid: bytes) -> int:
    """When a process was started, in hundredths of a second since the boot: field 22, the program's name second."""
    return int(contents(b"/proc/%s/stat" % pid).rpartition(b")")[2].split()[19])


def contents(path: bytes) -> bytes:
    fd = system.open(path, system.O_RDONLY)
    try:
        return system.read(fd, 4096)
    finally:
        system.close(fd)


def argument(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def write_job(state: bytes, name: bytes, parts: list[bytes]) -> bool:
    """Write beside the queue, then rename into it: the worker never sees half a job."""
    temporary, final = state + b"/spool/tmp/" + name, state + b"/spool/new/" + name
    flags = system.O_WRONLY | system.O_CREAT | system.O_EXCL | getattr(system, "O_BINARY", 0)
    try:
        for folder in SPOOL:
            # Never through a link, wherever it leads: what the agent said stays below the state directory.
            if system.lstat(state + folder).st_mode & 0o170000 != 0o040000:
                raise NotADirectoryError
        fd = system.open(temporary, flags, 0o600)
    except (FileNotFoundError, NotADirectoryError):
        make_directories(state)
        fd = system.open(temporary, flags, 0o600)
    try:
        # One by one: joined, a megabyte would be copied once more, a twentieth of the whole.
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[system.write(fd, view) :]
        system.close(fd)
        try:
            system.rename(temporary, final)
        except FileNotFoundError:
            # One of the two folders is missing: somebody is just removing the state directory, or did.
            make_directories(state)
            system.rename(temporary, final)
    except OSError:
        system.unlink(temporary)
        return False
    return True


def make_directories(state: bytes) -> None:
    path = b""
    for part in state.split(b"/"):
        path += part + b"/"
        try:
            system.mkdir(path, 0o700)
        except OSError:
            continue
    for folder in (state + part for part in SPOOL):
        try:
            if system.lstat(folder).st_mode & 0o170000 != 0o040000:
                # Whoever put it there finds it beside.
                system.rename(folder, b"%s.aside-%d" % (folder, time.time_ns()))
        except FileNotFoundError:
            pass  # Not there, or another hook was faster.
        try:
            system.mkdir(folder, 0o700)
        except FileExistsError:
            pass


def wake(state: bytes, environ: dict[bytes, bytes]) -> None:
    """One byte to a worker that listens; else start one.

    The reading end is opened before the worker is started and handed to it: from that moment every
    other hook of a burst finds a reader and starts nothing, and a worker that dies while starting
    closes it by dying.
    """
    if not POSIX:
        start_marked(state)
        return
    fifo = state + b"/worker.fifo"
    flags = system.O_NONBLOCK | system.O_NOFOLLOW
    try:
        fd = system.open(fifo, system.O_WRONLY | flags)
        # Anything else in its place takes a byte and tells nobody; the worker puts that right.
        if system.fstat(fd).st_mode & 0o170000 == 0o010000:
            system.write(fd, b"j")
            return
    except BlockingIOError:
        return  # Full of bytes nobody read yet: those will wake it.
    except OSError:
        pass  # ENXIO: nobody reads. EPIPE: the reader left since. ENOENT: there was never one.
    # The worker must hold nothing of the agent's: a pipe kept open would keep the agent waiting.
    system.closerange(3, 4096)
    try:
        try:
            reading = system.open(fifo, system.O_RDONLY | flags)
        except FileNotFoundError:
            system.mkfifo(fifo, 0o600)
            reading = system.open(fifo, system.O_RDONLY | flags)
        if reading != 3:
            system.dup2(reading, 3)
        else:
            # As a rule it is 3 already, and dup2 onto itself would leave it close-on-exec.
            system.set_inheritable(3, True)
    except OSError:
        pass  # Something else in its place, or another hook was faster: the worker will see to it.
    spawn(state, environ)


def worker_command() -> list[str]:
    """The interpreter that runs this hook, isolated, on the package beside this file."""
    # Where the source is, also when this runs from a compiled copy elsewhere.
    package = main.__code__.co_filename.rpartition("/" if POSIX else "\\")[0] or "."
    return [sys.executable, "-I", package + "/__main__.py", "worker"]


def spawn(state: bytes, environ: dict[bytes, bytes]) -> None:
    """Start the worker: its own session, ``/`` as its folder, null as its stdio, descriptor 3 the FIFO."""
    command = worker_command()
    environ = {**environ, b"SESSIONPIPE_STATE_DIR": state}
    if settings := environ.get(b"SESSIONPIPE_CONFIG_DIR"):
        environ[b"SESSIONPIPE_CONFIG_DIR"] = absolute(settings)
    system.chdir("/")
    null = [(system.POSIX_SPAWN_OPEN, fd, "/dev/null", system.O_RDWR, 0) for fd in (0, 1, 2)]
    try:
        system.posix_spawn(command[0], command, environ, file_actions=null, setsid=True)
    except NotImplementedError:
        # A platform whose posix_spawn knows no setsid.
        if system.fork() == 0:
            system.setsid()
            fd = system.open("/dev/null", system.O_RDWR)
            for standard in (0, 1, 2):
                system.dup2(fd, standard)
            system.execve(command[0], command, environ)


def start_marked(state: bytes) -> None:
    """Without FIFOs: start a worker unless one was started within the last second."""
    marker = state + b"/starting"
    try:
        if time.time() - system.stat(marker).st_mtime < 1:
            return
    except OSError:
        pass
    system.close(system.open(marker, system.O_WRONLY | system.O_CREAT | system.O_TRUNC, 0o600))
    system.putenv("SESSIONPIPE_STATE_DIR", state.decode("utf-8", "replace"))
    detached = 4  # P_DETACH
    system.spawnv(  # type: ignore[attr-defined]
        detached, sys.executable, [f'"{part}"' for part in worker_command()]
    )


if __name__ == "__main__":
    try:
        system.umask(0o077)
        main(sys.argv)
    except BaseException:  # noqa: S110
        pass  # Whatever happened, the agent must not notice.
    finally:
        system._exit(0)
