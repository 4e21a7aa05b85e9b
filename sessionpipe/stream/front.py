"""The side of a stream that must never be late.

Bytes come from standard input or from a command, go to standard output as they are, and are handed to
whoever reads along. That one works in a process of its own: its work can't hold up the copying, not even
for as long as a big regular expression keeps the interpreter, and when somebody kills the front, it
still gets to say how the stream ended. In between is a bounded queue. When it is full, the stream waits
for a reader that is at work (no agent is that fast; a file is), and never for one that stands still: then
the copying goes on and the stream has a gap, which is told to the reader and counted.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import msgspec

from sessionpipe.clock import now_ms
from sessionpipe.stream.child import ENDING, Child, NotStarted, Signals
from sessionpipe.stream.frames import Chunk, End, Frame, Gap, Incoming, Signal, encode

#: How much may wait for the reader.
QUEUE_BYTES = 64 << 20
#: How long a reader that takes nothing is waited for.
STILL_S = 2.0
#: How long what a signal has ended may go on sending.
LAST_WORDS_S = 0.5
#: How long what came may take to be copied, once a signal has come to us.
_LEAVE_S = 2.0
#: How long a command's output is waited for once it has ended: something it left behind may hold it open.
_LEFT_OPEN_S = 0.5
#: How long the reader may take to finish once it has everything; it goes on without us then.
_READER_S = 15.0
_READ = 256 << 10
_PIPE_SIZE = 1 << 20


class Report(msgspec.Struct):
    """What the reader has to say: lines for standard error; ``closed``: its own output was closed."""

    say: list[str] = []
    closed: bool = False


class Ended(msgspec.Struct):
    """How it ended: the exit ``status``; ``by_signal`` is one to end with ourselves; lines for standard error."""

    status: int
    by_signal: int | None
    say: list[str]


class Front:
    """One stream, from its source to standard output and to ``reader``.

    ``command``: run it and take its standard output, else take standard input; ``env`` is added to its
    environment. ``tee``: copy the stream to standard output. ``prints``: standard output is the reader's, and
    the stream waits for it as for any filter. ``last_words``: for how many seconds a signal lets standard
    input go on; a second signal, or a reader that leaves after the first, ends that.
    """

    def __init__(
        self,
        reader: Callable[[Incoming], Report],
        *,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        tee: bool = False,
        prints: bool = False,
        last_words: float = LAST_WORDS_S,
    ) -> None:
        self._reader = reader
        self._command = command
        self._env = env
        self._tee = tee
        self._prints = prints
        self._last_words = last_words
        self._pid = 0

    def run(self) -> Ended:
        """Do all of it. Raises :class:`NotStarted` when the command can't be run."""
        occupy_standard_descriptors()
        hand, report = self._fork()
        child: Child | None = None
        with Signals() as signals:
            queue = Queue(hand, signals.poke, patient=self._prints)
            queue.start()
            source = 0
            if self._command is not None:
                source, write = _big_pipe()
                try:
                    child = Child(self._command, env=self._env, stdout=write)
                except NotStarted as failed:
                    queue.finish(End(now_ms(), signalled=False, status=failed.status))
                    self._await_report(report, signals, queue)
                    raise
                finally:
                    os.close(write)
            copier = Copier(source, 1 if self._tee else None, queue, signals.poke)
            copier.start()
            by_signal = self._attend(child, copier, queue, signals)
            status = None if child is None else child.poll()
            unread = copier.closed or (queue.dead and self._prints)
            signalled = by_signal is not None or unread or (child is not None and child.signalled)
            if self._tee:
                _let_go(1)  # Whoever reads it has all of it, and need not wait for us.
            queue.finish(End(now_ms(), signalled, status))
            told, again = self._await_report(report, signals, queue)
            by_signal = by_signal or again
        if child is None and by_signal is None and (copier.closed or (told and told.closed)):
            by_signal = signal.SIGPIPE
        say = [copier.trouble] if copier.trouble else []
        if queue.lost:
            say.append(
                f"{queue.lost} bytes of the stream were not recorded, because the recording stood still"
            )
        if told:
            say += told.say
        elif not again:
            say.append("the recording failed, or goes on without us; `sessionpipe doctor` says more")
        return Ended(status or (1 if copier.trouble else 0), by_signal, say)

    # --- the reader ---------------------------------------------------------------------------

    def _fork(self) -> tuple[int, int]:
        """Start the reader; the pipe to hand it frames by, and the one it reports by."""
        hand_read, hand_write = _big_pipe()
        report_read, report_write = os.pipe()
        # A signal to the group, from the moment there are two of us on, is not the reader's.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        # Before there is a thread or a signal handler: what is forked is one simple process.
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                for fd in (hand_write, report_read, 0, 2, *(() if self._prints else (1,))):
                    _let_go(fd)
                # The end of the stream ends it, and nothing else: not the terminal, nor a signal to the group.
                os.setsid()
                for number in ENDING:
                    signal.signal(number, lambda _number, _frame: None)
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                report = self._reader(Incoming(hand_read))
                os.write(report_write, msgspec.json.encode(report))
                status = 0
            finally:
                # Not the interpreter's own end: what it would flush and run is the front's.
                os._exit(status)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(hand_read)
        os.close(report_write)
        if self._prints:
            _let_go(1)
        return hand_write, report_read

    def _await_report(self, report: int, signals: Signals, queue: Queue) -> tuple[Report | None, int | None]:
        """What the reader said, None when it died or takes too long; and a signal that came meanwhile."""
        got = b""
        # What it prints may be read by a person, page by page.
        until = None if self._prints else time.monotonic() + _READER_S
        handed = queue.handed
        try:
            while True:
                left = None if until is None else max(0.0, until - time.monotonic())
                if left == 0:
                    if queue.handed == handed:
                        break
                    # Of a file that was read faster than it is recorded much may be left.
                    handed, until = queue.handed, time.monotonic() + _READER_S
                    continue
                ready = select.select([report, signals.fileno()], [], [], left)[0]
                if signals.fileno() in ready and (came := ENDING.intersection(signals.wait(0))):
                    return None, min(came)
                if report in ready:
                    if not (more := os.read(report, 1 << 16)):
                        with contextlib.suppress(ChildProcessError):
                            os.waitpid(self._pid, 0)
                        break
                    got += more
            with contextlib.suppress(msgspec.DecodeError):
                return msgspec.json.decode(got, type=Report), None
            return None, None
        finally:
            os.close(report)

    def _reader_left(self) -> bool:
        """Whether the reader has ended; SIGCHLD is when to look."""
        try:
            return os.waitpid(self._pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    # --- while it runs ------------------------------------------------------------------------

    def _attend(self, child: Child | None, copier: Copier, queue: Queue, signals: Signals) -> int | None:
        """Wait for the end; the signal that we are to end by, if it is one."""
        by_signal: signal.Signals | None = None
        asked = False  # by a signal, to end
        stop_at: float | None = None
        leave_at: float | None = None
        while True:
            now = time.monotonic()
            over = child is None or child.poll() is not None
            if over and (copier.over or (leave_at is not None and now >= leave_at)):
                return by_signal
            if over and asked and leave_at is None:
                leave_at = now + _LEAVE_S
            if child is not None and over and stop_at is None:
                stop_at = now + _LEFT_OPEN_S
            if child is None and asked and self._reader_left():
                stop_at, leave_at = now, min(leave_at or math.inf, now + _LEAVE_S)
            if (stop_at is not None and now >= stop_at) or (queue.dead and self._prints):
                # What came already is still taken, and copied: whoever reads it may be slow.
                copier.stop()
                stop_at = math.inf
            due = (child.due() if child else None, stop_at and stop_at - now, leave_at and leave_at - now)
            waits = [seconds for seconds in due if seconds is not None and seconds < math.inf]
            for number in signals.wait(min(waits, default=None)):
                if child is not None:
                    child.take(number)
                if number in ENDING:
                    queue.put(Signal(now_ms(), number))
                    if child is None:
                        by_signal = by_signal or number
                        words = 0.0 if asked else self._last_words
                        stop_at = min(stop_at or math.inf, time.monotonic() + words)
                        leave_at = min(leave_at or math.inf, stop_at + _LEAVE_S)
                    asked = True
            if child is not None:
                child.pass_on()


class Copier(threading.Thread):
    """Source to standard output and queue, as fast as both can."""

    def __init__(self, source: int, target: int | None, queue: Queue, changed: Callable[[], None]) -> None:
        super().__init__(name="copier", daemon=True)
        self._source = source
        self._target = target
        self._queue = queue
        self._changed = changed
        self._stop_read, self._stop_write = os.pipe()
        self._stopped = False
        #: Nothing more comes.
        self.over = False
        #: Nobody reads what we print any more.
        self.closed = False
        #: What a person must be told of.
        self.trouble: str | None = None

    def stop(self) -> None:
        """Take what is there already, and end."""
        if not self._stopped:
            self._stopped = True
            os.write(self._stop_write, b"\0")

    def run(self) -> None:
        try:
            while not self.closed and (data := self._read()):
                chunk = Chunk(now_ms(), data)
                # Neither the one who reads the output nor the one who reads along waits for the other.
                taken = self._queue.put(chunk, wait=False)
                if self._target is not None:
                    self._print(memoryview(data))
                if not taken:
                    self._queue.put(chunk)
        finally:
            # Closed at once, so that whoever writes it learns that nobody reads any more.
            _let_go(self._source)
            self.over = True
            self._changed()

    def _read(self) -> bytes:
        while True:
            ready = select.select([self._source, self._stop_read], [], [], None)[0]
            if self._source not in ready:
                return b""
            try:
                return os.read(self._source, _READ)
            except BlockingIOError:
                continue
            except OSError as error:
                self.trouble = f"the stream cannot be read: {error.strerror}"
                return b""

    def _print(self, data: memoryview) -> None:
        target = self._target
        while data and target is not None:
            try:
                data = data[os.write(target, data) :]
            except BlockingIOError:
                # Somebody who shares our output made it so.
                select.select([], [target], [])
            except OSError as error:
                self._target = target = None
                if error.errno in (errno.EPIPE, errno.ESHUTDOWN, errno.ECONNRESET):
                    self.closed = True
                else:
                    # The stream is not to break for it: it is read, and recorded, to its end.
                    self.trouble = f"the stream could not be copied: {error.strerror}"


class Queue(threading.Thread):
    """Frames on their way to the reader.

    ``patient``: a full queue is waited for however long it takes, else only while the reader is at work.
    """

    def __init__(self, fd: int, changed: Callable[[], None], *, patient: bool) -> None:
        super().__init__(name="queue", daemon=True)
        self._fd = fd
        self._changed = changed
        self._patient = patient
        self._frames: deque[Frame] = deque()
        self._size = 0
        self._missing = 0
        #: How many frames the reader has taken.
        self.handed = 0
        self._still_at: int | None = None  # that number, when it was last waited for in vain
        self._condition = threading.Condition()
        self._finished = False
        #: The reader takes nothing more.
        self.dead = False
        #: How many bytes were left out.
        self.lost = 0

    def put(self, frame: Frame, *, wait: bool = True) -> bool:
        """Hand a frame over. False: it was not taken, because there is no room and nobody waits for it."""
        size = len(frame.data) if isinstance(frame, Chunk) else 0
        with self._condition:
            while not self._has_room(size):
                if not wait:
                    return False
                if not self._reader_moves():
                    self._missing += size
                    self.lost += size
                    return True
            if not self.dead:
                if self._missing:
                    self._frames.append(Gap(frame.at_ms, self._missing))
                    self._missing = 0
                self._frames.append(frame)
                self._size += size
                self._condition.notify_all()
            return True

    def _has_room(self, size: int) -> bool:
        # What is no part of the stream always has room: it is little, and must be told.
        return self.dead or not size or self._size + size <= QUEUE_BYTES

    def _reader_moves(self) -> bool:
        """Wait for the reader to take something; False when it stands still, which is waited for only once."""
        handed = self.handed
        if self._still_at == handed:
            return False
        until = math.inf if self._patient else time.monotonic() + STILL_S
        while self.handed == handed and not self.dead:
            left = until - time.monotonic()
            if left <= 0:
                self._still_at = handed
                return False
            self._condition.wait(None if left == math.inf else left)
        return True

    def finish(self, end: End) -> None:
        """The last frame; nothing is put after it."""
        self.put(end)
        with self._condition:
            self._finished = True
            self._condition.notify_all()

    def run(self) -> None:
        try:
            while frame := self._next():
                data = memoryview(encode(frame))
                while data:
                    data = data[os.write(self._fd, data) :]
        except OSError:
            pass  # The reader is gone; what it had to say it says in its report, or its status does.
        finally:
            os.close(self._fd)
            with self._condition:
                self.dead = self.dead or not self._finished or bool(self._frames)
                self._frames.clear()
                self._condition.notify_all()
            self._changed()

    def _next(self) -> Frame | None:
        with self._condition:
            while not self._frames and not self._finished:
                self._condition.wait()
            if not self._frames:
                return None
            frame = self._frames.popleft()
            self._size -= len(frame.data) if isinstance(frame, Chunk) else 0
            self.handed += 1
            self._condition.notify_all()
            return frame


def occupy_standard_descriptors() -> None:
    """Put /dev/null where one of the standard descriptors is closed, or a file of ours would take its place."""
    while (fd := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(fd)


def end_by(number: int) -> None:
    """End as a program ends that a signal ends, so that the shell knows it."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _let_go(fd: int) -> None:
    """Close a descriptor; a standard one gives its place to /dev/null."""
    if fd > 2:
        os.close(fd)
        return
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, fd)
    os.close(null)


def _big_pipe() -> tuple[int, int]:
    ends = os.pipe()
    import fcntl

    if size := getattr(fcntl, "F_SETPIPE_SZ", None):
        with contextlib.suppress(OSError):
            fcntl.fcntl(ends[1], size, _PIPE_SIZE)
    return ends
