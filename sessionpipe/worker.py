"""The worker: one process per state directory that records what hooks left and delivers it.

Started by a hook, it drains the spool, delivers to every sink, waits a few seconds for more and
leaves when nothing is owed. While a sink owes a retry it stays, asleep. It takes the lock before it
imports anything heavy, because most workers that start during a burst find it taken.

Its parts each do one job: :class:`~sessionpipe.intake.Intake` in the main thread, the transcript
reader in one thread, a courier per sink in one thread each; each with a connection of its own.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sessionpipe import faults
from sessionpipe.liveness import Fifo, Lock, inherited_fifo, send, worker_alive
from sessionpipe.parts import TROUBLE_S, Delivering, Part, Reading, now_ms
from sessionpipe.paths import State, config_dir, make_private, private_umask, state_dir
from sessionpipe.wake import FORCE, LOOK

if TYPE_CHECKING:
    from sessionpipe.config import Config
    from sessionpipe.outbox import Outbox

#: How long a worker with nothing to do waits for more: a turn's next tool call is rarely later.
LINGER_S = 3.0
#: How long a worker waits for one that makes way.
TAKEOVER_S = 10.0
#: After so many failed connections in one life, somebody started elsewhere may see the network.
BLIND_AFTER = 2
_LONGEST_SLEEP_S = 60.0
_PRUNE_EVERY_S = 3600.0


def _version() -> object:
    """What tells one installed version from another; None when it was uninstalled."""
    try:
        info = Path(__file__).with_name("__init__.py").stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino


# Taken while this is being imported: an upgrade right afterwards must be seen as one.
_RUNNING = _version()


def main() -> int:
    """Run the worker a hook started; its exit status."""
    private_umask()
    state = State(state_dir())
    try:
        make_private(state.root)
        run(state, config_dir())
    except Exception as error:
        # A read-only or foreign state directory, an outbox that is none: what hooks left stays in
        # the spool for the next worker, and `doctor` explains.
        from sessionpipe.log import log

        log(state, "error", f"the worker cannot work: {error}")
        return 1
    return 0


def run(state: State, config: Path) -> None:
    """Work until nothing is owed, then leave such that no job is left behind."""
    inherited = inherited_fifo(state)
    lock, fifo = Lock(state), Fifo(state.fifo)
    takeover = False
    while True:
        if not lock.acquire():
            if send(state.yielding, b"y"):
                takeover = lock.acquire(TAKEOVER_S)
            if not takeover:
                if inherited is not None:
                    os.close(inherited)
                    inherited = None
                # A hook may have taken our reading end for a worker's. Only whoever holds the lock
                # can promise that its job is seen.
                if waiting(state) and lock.acquire():
                    pass
                else:
                    return
        fifo.open(inherited)
        inherited = None
        worker = Worker(state, config, fifo=fifo, lock=lock)
        try:
            left = worker.serve(force=takeover)
        finally:
            # The order matters: a hook that finds no reader starts a worker; one that found us has
            # its job in the spool already, which is listed after we stopped reading.
            fifo.close()
            lock.release()
        takeover = False
        faults.point("worker.leaving")
        if left == "replaced":
            _again(state)
        if left in ("gone", "stopped") or (left == "yielded" and _handed_over(state)):
            return
        if left != "sees again" and not waiting(state, but=worker.stuck):
            return


def waiting(state: State, but: Collection[str] = ()) -> bool:
    """Whether a job waits in the spool, those named in ``but`` aside."""
    from sessionpipe.spool import Spool

    return any(name not in but for name in Spool(state.spool).names())


def _handed_over(state: State) -> bool:
    """Whether the worker this one made way for has taken the lock, or there was nothing to make way for."""
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        if worker_alive(state)[0] or not waiting(state):
            return True
        time.sleep(0.02)
    return False


def _again(state: State) -> None:
    """Run the version that was installed under this one."""
    environment = {**os.environ, "SESSIONPIPE_STATE_DIR": str(state.root)}
    program = str(Path(__file__).with_name("__main__.py"))
    with contextlib.suppress(OSError):
        os.execve(sys.executable, [sys.executable, "-I", program, "worker"], environment)  # noqa: S606


class Worker:
    """The parts of one worker, and the loop that ends when nothing is owed."""

    def __init__(
        self, state: State, config: Path, *, fifo: Fifo, lock: Lock, with_stdout: bool = False
    ) -> None:
        self.state = state
        self.fifo = fifo
        self._lock = lock
        self._config_file = config / "config.toml"
        self._config: Config | None = None
        self._config_seen: object = ()
        self._with_stdout = with_stdout
        self._reader = Reading(self)
        self._couriers: dict[str, Delivering] = {}
        self._retiring: list[Part] = []
        self._stop = threading.Event()
        #: Jobs that could not even be set aside; they are no reason to stay.
        self.stuck: Collection[str] = ()

    # --- what the parts need ------------------------------------------------------------------

    def log(self, level: str, message: str) -> None:
        """Write a line to the log; see :func:`sessionpipe.log.log`."""
        from sessionpipe.log import log

        log(self.state, level, message)

    def committed(self) -> None:
        """Events were committed: every courier has something to look at."""
        for courier in list(self._couriers.values()):
            courier.notify()

    def machine(self) -> str | None:
        """The name of this machine; None while the config that may name it cannot be read."""
        if self._config is None:
            return None
        return self._config.machine_name or os.uname().nodename

    # --- the loop -----------------------------------------------------------------------------

    def serve(
        self,
        *,
        force: bool = False,
        until: float | None = None,
        once: bool = False,
        forever: bool = False,
    ) -> str:
        """Work; why it ended: ``idle``, ``yielded``, ``sees again``, ``replaced``, ``gone``, ``stopped``, ``late``.

        ``force``: every sink is tried at once whatever its backoff. ``once``: a retry that is owed is
        no reason to stay. ``forever``: only a signal ends it. ``until``: monotonic seconds.
        """
        from sessionpipe.intake import Intake
        from sessionpipe.outbox import Outbox
        from sessionpipe.spool import Spool

        if not self._lock.still_there():
            return "gone"  # Uninstalled in this very moment: leave no trace of ours.
        spool = Spool(self.state.spool)
        spool.prepare()
        outbox = Outbox.open(self.state.outbox)
        self._reconfigure(outbox)
        intake = Intake(outbox, spool, machine=self.machine, log=self.log, committed=self._recorded)
        self.stuck = intake.stuck
        self._renew_launcher()
        self._reader.start()
        trouble, active, pruned = 0, time.monotonic(), 0.0
        handler = self._on_signals()
        try:
            while True:
                pause = None
                try:
                    if intake.run():
                        active = time.monotonic()
                    trouble = 0
                except Exception as error:
                    # A full disk, a locked database: nothing is lost, all of it waits.
                    pause = TROUBLE_S[min(trouble, len(TROUBLE_S) - 1)]
                    trouble += 1
                    self.log("error", f"intake: {error!r}; tried again in {pause:.0f} s")
                if force:
                    for courier in self._couriers.values():
                        courier.notify(force=True)
                    force = False
                self._reconfigure(outbox)
                now = time.monotonic()
                if not self._lock.still_there():
                    return "gone"
                if self._stop.is_set():
                    return "stopped"
                if _version() != _RUNNING:
                    return "replaced"
                if until is not None and now >= until:
                    return "late"
                busy, owed = self._standing()
                if pause is None and not busy and not forever:
                    if once:
                        return "idle"
                    if self._blind():
                        return self._make_way(spool)
                    if not owed and now - active >= LINGER_S:
                        return "idle"
                if not busy and now - pruned > _PRUNE_EVERY_S:
                    pruned = now
                    self._prune(outbox)
                got = self._sleep(pause, None if owed or forever or busy else active + LINGER_S - now, until)
                if FORCE in got:
                    force = True
                if LOOK in got or FORCE in got:
                    active = time.monotonic()
                    # Another process wrote: what it wrote is for the couriers and the reader too.
                    self.committed()
                    self._reader.notify()
        finally:
            handler()
            self._end_parts()
            with contextlib.suppress(Exception):
                intake.finish()
            outbox.close()

    def _renew_launcher(self) -> None:
        """After an upgrade, write the launcher and its compiled hook anew.

        Until then it runs ``hook.py`` itself, which is right and a little slower.
        """
        try:
            compiled = (self.state.bin / "hook.pyc").stat().st_mtime_ns
            if compiled > Path(__file__).with_name("hook.py").stat().st_mtime_ns:
                return
        except OSError:
            return  # Nothing is installed.
        from sessionpipe.install import launcher
        from sessionpipe.install.targets import answers

        try:
            launcher.write(self.state, self._config_file.parent, answers())
        except OSError as error:
            self.log("warning", f"the launcher cannot be written anew: {error}")

    def _recorded(self) -> None:
        self._reader.notify()
        self.committed()

    def _standing(self) -> tuple[bool, bool]:
        """Whether a part is at work or soon will be, and whether a sink owes a retry."""
        busy = bool(self._retiring)
        owed = False
        idle, due = self._reader.state()
        busy |= not idle or due is not None
        for courier in self._couriers.values():
            idle, due = courier.state()
            busy |= not idle
            owed |= due is not None
        return busy, owed

    def _sleep(self, pause: float | None, linger: float | None, until: float | None) -> bytes:
        timeouts = [_LONGEST_SLEEP_S]
        timeouts += [t for t in (pause, linger) if t is not None]
        if until is not None:
            timeouts.append(until - time.monotonic())
        fd = self.fifo.fileno()
        select.select([] if fd is None else [fd], [], [], max(0.01, min(timeouts)))
        return self.fifo.drain()

    def _on_signals(self) -> Any:
        """End between two steps on SIGTERM and SIGINT; returns what restores the old handlers."""
        if threading.current_thread() is not threading.main_thread():
            return lambda: None

        def stop(_signum: int, _frame: object) -> None:
            self._stop.set()
            self.fifo.poke()

        old = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}

        def restore() -> None:
            for number, handler in old.items():
                signal.signal(number, handler)

        return restore

    # --- sinks --------------------------------------------------------------------------------

    def _reconfigure(self, outbox: Outbox) -> None:
        """Bring the couriers in line with the config, when it changed."""
        self._retiring = [part for part in self._retiring if not part.ended.is_set()]
        try:
            info = self._config_file.stat()
            seen: object = (info.st_mtime_ns, info.st_size, info.st_ino)
        except OSError:
            seen = None
        if seen == self._config_seen and not self._held_up():
            return
        from sessionpipe.config import ConfigError, load

        try:
            self._config = load(self._config_file.parent)
        except ConfigError as error:
            self._config = None
            if seen != self._config_seen:
                self.log("error", f"{error}; nothing is delivered until it is mended")
        self._config_seen = seen
        sinks = {} if self._config is None else {sink.name: sink for sink in self._config.sinks}
        wanted = {
            name: sink
            for name, sink in sinks.items()
            if not sink.paused and (sink.kind != "stdout" or self._with_stdout)
        }
        for name, courier in list(self._couriers.items()):
            if wanted.get(name) != courier.sink:
                courier.stop()
                self._retiring.append(self._couriers.pop(name))
        retiring = {part.name for part in self._retiring}
        for name, sink in wanted.items():
            # A sink whose old courier still speaks to it must not get a second one.
            if name in self._couriers or f"sink {name}" in retiring:
                continue
            # Written into the config by hand: it gets what is recorded, as one that was added does.
            outbox.add_sink(name, 0)
            courier = self._couriers[name] = Delivering(self, sink)
            courier.start()

    def _held_up(self) -> bool:
        return self._config is not None and any(
            not sink.paused
            and sink.name not in self._couriers
            and (sink.kind != "stdout" or self._with_stdout)
            for sink in self._config.sinks
        )

    def _prune(self, outbox: Outbox) -> None:
        """Let go of rows older than the retention that every sink of the config is past."""
        if self._config is None:
            return
        names = {sink.name for sink in self._config.sinks if sink.kind != "stdout"}
        positions = [sink.position for sink in outbox.sinks() if sink.name in names]
        up_to = min(positions, default=outbox.last_position()) if len(positions) == len(names) else 0
        before = now_ms() - self._config.retention_days * 86_400_000
        while outbox.prune(before, up_to):
            if not self._standing()[0]:
                continue
            return

    def _end_parts(self) -> None:
        parts = [self._reader, *self._couriers.values(), *self._retiring]
        for part in parts:
            part.stop()
        for part in parts:
            # A request under way may take its 15 s; what it gets no answer to is sent again.
            if part.is_alive():
                part.join(timeout=1.0)

    # --- making way ---------------------------------------------------------------------------

    def _blind(self) -> bool:
        """Whether every sink across the network cannot even be connected to."""
        network = [courier for courier in self._couriers.values() if courier.sink.kind == "http"]
        return bool(network) and all(courier.failed_connections >= BLIND_AFTER for courier in network)

    def _make_way(self, spool: Any) -> str:
        """Stop listening, go on trying, and leave as soon as a hook has started another worker.

        This process may sit in a sandbox without a network; one started by the next hook may not.
        """
        self.fifo.close()
        self.fifo = Fifo(self.state.yielding)
        self.fifo.open()
        try:
            while True:
                if not spool.empty() or not self._lock.still_there() or self._stop.is_set():
                    return "yielded"
                if not self._blind():
                    return "sees again"
                busy, owed = self._standing()
                if not busy and not owed:
                    return "idle"
                if b"y" in self._sleep(None, None, None):
                    return "yielded"
        finally:
            self.fifo.close()


def foreground(state: State, config: Path) -> bool:
    """Work until interrupted, stdout sinks included; False when another worker holds the lock."""
    make_private(state.root)
    lock, fifo = Lock(state), Fifo(state.fifo)
    # A worker that has nothing to do leaves within its linger; that is worth waiting for.
    if not lock.acquire(LINGER_S + 2):
        return False
    fifo.open()
    try:
        Worker(state, config, fifo=fifo, lock=lock, with_stdout=True).serve(forever=True)
    finally:
        fifo.close()
        lock.release()
    return True
