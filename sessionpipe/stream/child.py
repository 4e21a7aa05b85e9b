"""Running a person's command as if they had run it themselves: its terminal, its signals, its exit status.

It stays in our process group, so that the terminal's keys and the shell's job control reach it as ever.
What only we are sent is passed on.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from sessionpipe.paths import original_umask

#: Signals that ask a program to end.
ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
#: Signals that mean something to the program alone, and no harm when they come twice.
_AT_ONCE = frozenset({signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT})
_TERMINAL = frozenset({signal.SIGINT, signal.SIGQUIT})
#: How long a command may take to end by itself before a signal is passed on. Sent to the whole group, the
#: signal has reached it already, and a second one may keep it from ending in good order.
PATIENCE_S = 0.5


class NotStarted(Exception):
    """The command could not be run. ``status`` is what a shell would say: 127 not found, 126 not a program."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Signals:
    """Signals as bytes on a descriptor: a context manager for the main thread.

    A signal that was ignored when we started (``nohup``, a background job) stays ignored. SIGTSTP keeps its
    default: we stop with the rest of the job.
    """

    def __init__(self) -> None:
        self._old: dict[signal.Signals, object] = {}
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        # A poke must never go to a descriptor that was closed: its number may be another file's by then.
        self._guard = threading.Lock()
        self._open = True

    def __enter__(self) -> Self:
        self._old_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (*ENDING, *_AT_ONCE, signal.SIGCHLD):
            if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGCHLD:
                self._old[number] = signal.signal(number, lambda _number, _frame: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._old_fd)
        with self._guard:
            self._open = False
            os.close(self._read)
            os.close(self._write)

    def fileno(self) -> int:
        """The descriptor, for ``select``."""
        return self._read

    def poke(self) -> None:
        """Make :meth:`wait` return; from any thread."""
        with self._guard, contextlib.suppress(BlockingIOError):
            if self._open:
                os.write(self._write, b"\0")

    def wait(self, seconds: float | None) -> list[signal.Signals]:
        """The signals that have come, after at most ``seconds``; SIGCHLD and pokes only make it return."""
        select.select([self._read], [], [], None if seconds is None else max(0.0, seconds))
        try:
            got = os.read(self._read, 4096)
        except BlockingIOError:
            got = b""
        return [signal.Signals(byte) for byte in got if byte and byte != signal.SIGCHLD]


class Child:
    """The running command. Raises :class:`NotStarted`.

    ``env`` is added to our environment; ``stdout`` is a descriptor, or ours is inherited like the rest.
    """

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, stdout: int | None = None
    ) -> None:
        actions = [] if stdout is None else [(os.POSIX_SPAWN_DUP2, stdout, 1)]
        ours = os.umask(original_umask())
        try:
            self.pid = os.posix_spawnp(
                command[0],
                list(command),
                {**os.environ, **(env or {})},
                file_actions=actions,
                # Python ignores these, and what is ignored is inherited.
                setsigdef=[
                    number for name in ("SIGPIPE", "SIGXFSZ") if (number := getattr(signal, name, None))
                ],
            )
        except FileNotFoundError as error:
            raise NotStarted(127, "command not found") from error
        except (OSError, ValueError) as error:
            raise NotStarted(126, getattr(error, "strerror", None) or str(error)) from error
        finally:
            os.umask(ours)
        self._status: int | None = None
        #: Whether a signal ended it, or it says so itself: 128 and the signal, as a shell would.
        self.signalled = False
        self._due: dict[signal.Signals, float] = {}

    def poll(self) -> int | None:
        """Its exit status, 128 and the number for a signal; None while it runs."""
        if self._status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self._status = 128 - code if code < 0 else code
                self.signalled = code < 0 or code - 128 in ENDING
        return self._status

    def take(self, number: signal.Signals) -> None:
        """A signal came to us: see to it that the command has it, too, and not twice."""
        if number in _AT_ONCE:
            self._send(number)
        elif not (number in _TERMINAL and _in_the_foreground()):
            self._due.setdefault(number, time.monotonic() + PATIENCE_S)

    def due(self) -> float | None:
        """In how many seconds :meth:`pass_on` has something to do."""
        return None if not self._due else max(0.0, min(self._due.values()) - time.monotonic())

    def pass_on(self) -> None:
        """Send the command what it has not reacted to."""
        now = time.monotonic()
        for number in [number for number, due in self._due.items() if due <= now]:
            del self._due[number]
            self._send(number)

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:  # Not waited for yet, so the number is still its own.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def _in_the_foreground() -> bool:
    """Whether our process group has the terminal, so that its keys reach every member."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def attend(child: Child, signals: Signals, on_signal: Callable[[signal.Signals], None] | None = None) -> int:
    """Wait for a command that has everything of ours; its exit status. ``on_signal``: told of those that end."""
    while (status := child.poll()) is None:
        for number in signals.wait(child.due()):
            child.take(number)
            if on_signal and number in ENDING:
                on_signal(number)
        child.pass_on()
    return status
