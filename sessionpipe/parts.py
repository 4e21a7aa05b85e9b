"""The worker's threads: the transcript reader's and one courier's each, stepping and waiting."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from sessionpipe.clock import now_ms
from sessionpipe.kinds import kind_of
from sessionpipe.liveness import Fifo
from sessionpipe.paths import State

if TYPE_CHECKING:
    from sessionpipe.config import SinkConfig
    from sessionpipe.delivery.courier import Courier
    from sessionpipe.outbox import Outbox
    from sessionpipe.transcripts import TranscriptReader

_LONGEST_SLEEP_S = 60.0
#: How long a step of a courier may take before that is said: longer than a request of ours and its repeat.
HANGS_S = 35.0
#: How long to wait after a step failed, the more often the longer.
TROUBLE_S = (1.0, 2.0, 5.0, 15.0, 30.0)


class Trouble:
    """Failures in a row: how long to wait after each, and which of them to speak of.

    What goes on failing in the same way is not said again and again: it would push everything else
    out of the log.
    """

    def __init__(self) -> None:
        self._count = 0
        self._said = ""

    def add(self, error: Exception) -> tuple[float, str | None]:
        """Count a failure; the seconds to wait, and the line to log if there is something new to say."""
        pause = TROUBLE_S[min(self._count, len(TROUBLE_S) - 1)]
        self._count += 1
        # Ours are sentences for people; of others the kind says more than the words.
        ours = type(error).__module__.startswith("sessionpipe.")
        line = f"{error if ours else repr(error)}; tried again in {pause:.0f} s"
        if line == self._said:
            return pause, None
        self._said = line
        return pause, line

    def over(self) -> None:
        """It works again."""
        self._count, self._said = 0, ""


class Host(Protocol):
    """What a part needs of its worker."""

    state: State
    fifo: Fifo

    def log(self, level: str, message: str) -> None: ...

    def committed(self) -> None: ...

    def outdated(self) -> bool: ...

    def damaged(self, why: str) -> None: ...

    def rested(self) -> None: ...


class Part(threading.Thread):
    """A part of the worker that works in its own thread: a step, a wait, a step.

    ``wanted`` counts what it was woken for and ``seen`` what it has looked at, so that the main
    thread never takes a part for idle that has not started on the last commit yet.
    """

    def __init__(self, name: str, worker: Host) -> None:
        super().__init__(name=name, daemon=True)
        self._worker = worker
        self._condition = threading.Condition()
        self._wanted = 1
        self._seen = 0
        self._force = False
        self._due_ms: int | None = None
        self._working = True
        self._failed = False
        self.ended = threading.Event()
        self.stopping = threading.Event()

    def notify(self, *, force: bool = False) -> None:
        """There may be something to do."""
        with self._condition:
            self._wanted += 1
            self._force |= force
            self._condition.notify()

    def stop(self) -> None:
        """End after the current step."""
        self.stopping.set()
        self.notify()

    def state(self) -> tuple[bool, int | None]:
        """Whether it has nothing to do just now, and when it will have, in epoch milliseconds."""
        if self.ended.is_set():
            return True, None
        with self._condition:
            return not self._working and (self._failed or self._seen == self._wanted), self._due_ms

    def run(self) -> None:
        """Step until stopped; what fails, opening the outbox included, is logged and tried again later."""
        from sessionpipe.outbox import Outbox
        from sessionpipe.outboxfile import damage

        trouble = Trouble()
        outbox = None
        try:
            while not self.stopping.is_set():
                with self._condition:
                    self._seen, self._working, self._failed = self._wanted, True, False
                    force, self._force = self._force, False
                try:
                    if outbox is None:
                        # This thread's own connection.
                        outbox = Outbox.open(self._worker.state.outbox)
                    again, due_ms = self.step(outbox, now_ms(), force)
                    trouble.over()
                except Exception as error:
                    pause, line = trouble.add(error)
                    if line:
                        self._worker.log("error", f"{self.name}: {line}")
                    if why := damage(error):
                        self._worker.damaged(why)
                    self._wait(now_ms() + int(pause * 1000), failed=True)
                else:
                    if not again:
                        self._wait(due_ms)
        finally:
            if outbox is not None:
                outbox.close()
            self.ended.set()
            self._worker.fifo.poke()

    def _wait(self, due_ms: int | None, *, failed: bool = False) -> None:
        with self._condition:
            self._due_ms, self._working, self._failed = due_ms, False, failed
        # Not held meanwhile: the others are asked, who may be asking this one.
        self._worker.rested()
        with self._condition:
            timeout = None if due_ms is None else max(0, due_ms - now_ms()) / 1000
            # Bounded, so that a clock set back does not make a sink wait for it to catch up.
            timeout = min(timeout, _LONGEST_SLEEP_S) if timeout is not None else None
            if failed:
                # More to do is no reason to try sooner: on a full disk every hook would be one.
                self._condition.wait_for(lambda: self._force or self.stopping.is_set(), timeout)
            elif self._seen == self._wanted:
                self._condition.wait(timeout)

    def step(self, outbox: Outbox, now_ms: int, force: bool) -> tuple[bool, int | None]:
        """Do one thing. Whether there is more at once; else when there may be, if that is known."""
        raise NotImplementedError


class Reading(Part):
    """The transcript reader's thread."""

    def __init__(self, worker: Host) -> None:
        super().__init__("transcripts", worker)
        self._reader: TranscriptReader | None = None

    def step(self, outbox: Outbox, now_ms: int, force: bool) -> tuple[bool, int | None]:
        if self._reader is None:
            from sessionpipe.transcripts import TranscriptReader

            self._reader = TranscriptReader(outbox, log=self._worker.log, committed=self._worker.committed)
            self._reader.start(now_ms)
        return False, self._reader.step(now_ms)


class Delivering(Part):
    """One sink's courier in its thread."""

    def __init__(self, worker: Host, sink: SinkConfig) -> None:
        super().__init__(f"sink {sink.name}", worker)
        self.sink = sink
        self.failed_connections = 0
        self._courier: Courier | None = None
        self._begun: tuple[float, int] | None = None

    @property
    def network(self) -> bool:
        """Whether it speaks to another host; what a package brings shows it by failing to reach one."""
        return kind_of(self.sink.kind).network or self.failed_connections > 0

    def step(self, outbox: Outbox, now_ms: int, force: bool) -> tuple[bool, int | None]:
        if self._worker.outdated():
            # A tier that was lowered holds from now on, and not from when the main thread gets to it.
            return False, None
        if self._courier is None:
            from sessionpipe.delivery.courier import Courier

            self._courier = Courier(self.sink, outbox, stop=self.stopping, log=self._worker.log)
        self._begun = time.monotonic(), now_ms
        try:
            step = self._courier.step(now_ms, force=force)
        finally:
            self._begun = None
        if step.connect_failed:
            self.failed_connections += 1
        elif step.progress or step.connect_failed is False:
            # It was reached, whatever it said.
            self.failed_connections = 0
        return step.progress, step.wait_until_ms

    def hanging_since(self) -> int | None:
        """When the step under way began (epoch ms), if it has taken so long that it may never end; else None."""
        begun = self._begun
        return begun[1] if begun is not None and time.monotonic() - begun[0] >= HANGS_S else None

    def run(self) -> None:
        try:
            super().run()
        finally:
            if self._courier is not None:
                self._courier.close()
