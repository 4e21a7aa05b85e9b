"""The worker: one process per state directory that records what hooks left and delivers it.

Started by a hook, it drains the spool, delivers to every sink, waits a few seconds for more and
leaves when nothing is owed. While a sink owes a retry it stays, asleep. It takes the lock before it
imports anything heavy, because most workers that start during a burst find it taken.

Its parts each do one job: :class:`~sessionpipe.intake.Intake` in the main thread, the transcript
reader in one thread, a courier per sink in one thread each, and one that keeps the outbox within its
bounds; each with a connection of its own. When one of them meets damage in the outbox all of them end,
and whoever holds the lock then sets it aside (:mod:`sessionpipe.salvage`).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sessionpipe import faults
from sessionpipe.clock import now_ms
from sessionpipe.compiled import Compiled
from sessionpipe.liveness import Fifo, Lock, inherited_fifo, send, worker_alive, worker_leaves
from sessionpipe.parts import TROUBLE_S, Delivering, Part, Reading, Trouble
from sessionpipe.paths import State, config_dir, make_private, private_umask, state_dir
from sessionpipe.places import identity, read_file
from sessionpipe.privacy import keeping
from sessionpipe.wake import FORCE, LOOK

if TYPE_CHECKING:
    from sessionpipe.config import Config, SinkConfig
    from sessionpipe.intake import Intake
    from sessionpipe.outbox import Outbox, SinkState
    from sessionpipe.spool import Spool
    from sessionpipe.upkeep import Retention, Upkeep

#: How long a worker with nothing to do waits for more: a turn's next tool call is rarely later.
LINGER_S = 3.0
#: How long a worker has been at work when it begins to see to the outbox itself.
UPKEEP_AFTER_S = 1.0
#: How often a worker that waits for a sink gives memory back at most.
SLIM_EVERY_S = 60.0
#: How long a worker waits for one that makes way.
TAKEOVER_S = 10.0
#: After so many failed connections in one life, somebody started elsewhere may see the network.
BLIND_AFTER = 2
_LONGEST_SLEEP_S = 20.0
#: How long intake works before the rest of the loop has a turn.
SLICE_S = 5.0
#: How long a part may take to end. A file's courier is waited for longer: were it to go on writing
#: beside the next worker's, the file would have an event twice.
_ENDING_S, _ENDING_FILE_S = 1.0, 10.0
#: How long a worker that was told to end still records what was left for it.
_LAST_S = 1.0
#: What is said of a sink whose code does not end.
HANGS = "it has not come back from what it was handed"
#: How long after something of the state directory was removed the rest of it may be going too.
_REMOVAL_S = 0.2


def _identity(path: Path, *, content: bool = False) -> object:
    """Which file is at ``path``, with ``content`` also of which state; None when there is none."""
    try:
        info = path.stat()
    except OSError:
        return None
    which = (info.st_dev, info.st_ino)
    return (*which, info.st_mtime_ns, info.st_size) if content else which


def _hanging(since_ms: int, row: SinkState) -> SinkState:
    from msgspec.structs import replace

    return replace(row, last_error=HANGS, since_ms=row.since_ms or since_ms)


def _version() -> object:
    """What tells one installed version from another; None when it was uninstalled."""
    return _identity(_INIT, content=True)


# Asked before every batch, and making the path takes three times as long as looking.
_INIT = Path(__file__).with_name("__init__.py")
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

        log(state, "error", f"the worker cannot work: {error or repr(error)}")
        return 1
    return 0


def run(state: State, config: Path) -> None:
    """Work until nothing is owed, then leave such that no job is left behind."""
    inherited = inherited_fifo(state)
    lock, fifo = Lock(state), Fifo(state.fifo)
    takeover = False
    damage: Damage | None = None
    while True:
        if not lock.acquire():
            # One that leaves listens no more. We hold what hooks take for a reader, so that they start
            # no other meanwhile.
            leaves = worker_leaves(state) and lock.acquire(TAKEOVER_S)
            if not leaves and send(state.yielding, b"y"):
                takeover = lock.acquire(TAKEOVER_S)
            if not leaves and not takeover:
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
        worker = Worker(state, config, fifo=fifo, lock=lock, damage=damage)
        try:
            left = worker.serve(force=takeover)
            damage = worker.damage
        finally:
            # The order matters: a hook that finds no reader starts a worker; one that found us has
            # its job in the spool already, which is listed after we stopped reading.
            fifo.close()
            lock.release()
        takeover = False
        faults.point("worker.leaving")
        if left == "moved":
            time.sleep(_REMOVAL_S)
        if left == "replaced":
            _again(state)
        if left == "stopped" or (left == "yielded" and _handed_over(state)):
            return
        if left not in ("sees again", "moved", "damaged") and not waiting(state, but=worker.stuck):
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


class Damage(NamedTuple):
    """Which file was met damaged, and what is wrong with it."""

    file: tuple[int, int] | None
    why: str


class Worker:
    """The parts of one worker, and the loop that ends when nothing is owed.

    ``damage`` is what an earlier one ended for: the outbox is set aside before anything else.
    """

    def __init__(
        self,
        state: State,
        config: Path,
        *,
        fifo: Fifo,
        lock: Lock,
        with_stdout: bool = False,
        damage: Damage | None = None,
    ) -> None:
        self.state = state
        self.fifo = fifo
        self._lock = lock
        self.damage = damage
        self._outbox_file: tuple[int, int] | None = None
        self._config_file = config / "config.toml"
        self._config: Config | None = None
        self._config_seen: object = ()
        self._refused: dict[str, object] = {}
        self._with_stdout = with_stdout
        if hasattr(os, "getuid"):  # Else nobody can tell whose a file is, and what is kept must be ours.
            keeping.keep_in(Compiled(state))
        self._reader = Reading(self)
        self._upkeep: Upkeep | None = None
        self._couriers: dict[str, Delivering] = {}
        self._hanging: dict[str, int] = {}
        self._retiring: list[Part] = []
        self._stop = threading.Event()
        #: Whether what one part alone comes to is to be seen at once.
        self._watched = False
        #: Whether intake failed the last time, and waits before it tries again.
        self._troubled = False
        #: Jobs that could not even be set aside; they are no reason to stay.
        self.stuck: Collection[str] = ()

    # --- what the parts need ------------------------------------------------------------------

    def log(self, level: str, message: str) -> None:
        """Write a line to the log; see :func:`sessionpipe.log.log`."""
        from sessionpipe.log import log

        log(self.state, level, message)

    def trouble(self, line: str) -> None:
        """Log what keeps this worker from its work, and let `status` say it as long as it does."""
        from sessionpipe.redaction import redact

        self.log("error", line)
        self._lock.say(redact(line))

    def damaged(self, why: str) -> None:
        """The outbox that is open is damaged: everybody ends, and a new one takes its place."""
        if self.damage is None:
            self.damage = Damage(self._outbox_file, why)
        self.fifo.poke()

    def rested(self) -> None:
        """A part has nothing to do just now: when that was the last one, the loop looks what is left to do.

        Each of them would have it look at all there is, several times for every hook.
        """
        if self._watched or not self._standing()[0]:
            self.fifo.poke()

    def committed(self) -> None:
        """Events were committed: every courier has something to look at."""
        for courier in list(self._couriers.values()):
            courier.notify()

    def outdated(self) -> bool:
        """Whether the settings are others than those the couriers were begun with."""
        return self._config_seen != _identity(self._config_file, content=True)

    def machine(self) -> str | None:
        """The name of this machine; None while the config that may name it cannot be read."""
        if self._config is None and self._config_seen == ():
            # Jobs come before sinks: the first ones of a worker are of this machine too.
            from sessionpipe.config import ConfigError, load

            with contextlib.suppress(ConfigError):
                self._config = load(self._config_file.parent)
        if self._config is None:
            return None
        return self._config.machine_name or os.uname().nodename

    # --- the loop -----------------------------------------------------------------------------

    def serve(
        self,
        *,
        force: bool = False,
        until: float | None = None,
        once: Callable[[Outbox], bool] | None = None,
        forever: bool = False,
    ) -> str:
        """Work, and say why it ended.

        ``idle``, ``yielded``, ``sees again``, ``replaced``, ``gone`` (the lock), ``moved`` or ``damaged``
        (the outbox), ``stopped`` or ``late``. ``force``: every sink is tried at once whatever its backoff. ``once``:
        it ends when this says so, or nothing is to be done at once; a retry that is owed is no reason to
        stay. ``forever``: only a signal ends it. ``until``:
        monotonic seconds.
        """
        from sessionpipe.spool import Spool

        if not self._lock.still_there():
            return "gone"  # Uninstalled in this very moment: leave no trace of ours.
        self._watched = once is not None
        spool = Spool(self.state.spool)
        spool.prepare()
        handler = self._on_signals()
        outbox = intake = None
        try:
            outbox, intake = self._open(spool, patient=once is None)
            self._renew_launcher()
            self._reader.start()
            if not once:
                from sessionpipe.upkeep import Upkeep

                self._upkeep = Upkeep(self, self._retention)
            return self._loop(outbox, intake, spool, force=force, until=until, once=once, forever=forever)
        finally:
            if self._stop.is_set():
                self._stop_listening(intake)
            handler()
            self._end_parts()
            if intake is not None:
                with contextlib.suppress(Exception):
                    intake.finish()
            if outbox is not None:
                outbox.close()

    def _loop(
        self,
        outbox: Outbox,
        intake: Intake,
        spool: Spool,
        *,
        force: bool,
        until: float | None,
        once: Callable[[Outbox], bool] | None,
        forever: bool,
    ) -> str:
        from sessionpipe.outboxfile import damage

        trouble, again_at = Trouble(), 0.0
        active = time.monotonic()
        upkeep_at = active + UPKEEP_AFTER_S
        slimmed = -SLIM_EVERY_S
        while True:
            if not self.fifo.still_there():
                # Somebody removed it: hooks would start workers in vain, and this one hear of nothing.
                # Unless all of it is just being removed, which is not to be stood in the way of.
                time.sleep(_REMOVAL_S)
                if ended := self._ended(until):
                    return ended
                self.fifo.close()
                self.fifo.open()
            now = time.monotonic()
            if now >= again_at or force:
                slice_ends = now + SLICE_S

                def go_on(slice_ends: float = slice_ends) -> bool:
                    # Jobs were listed and none is read yet: a rule from before one of them is for it.
                    self._renew_own_files()
                    now = time.monotonic()
                    return now < slice_ends and self._ended(until) is None

                try:
                    if self._ended(until) is None and intake.run(go_on):
                        active = time.monotonic()
                    self._reconfigure(outbox)
                    if again_at:
                        self._lock.say("")
                    trouble.over()
                    again_at, self._troubled = 0.0, False
                except Exception as error:
                    self._troubled = True
                    if why := damage(error):
                        self.damaged(why)
                    # A full disk, a locked database: nothing is lost, all of it waits, and a hook that
                    # comes meanwhile is no reason to try sooner.
                    pause, line = trouble.add(error)
                    again_at = time.monotonic() + pause
                    if line:
                        self.trouble(f"intake: {line}")
                    self._keep_up()
            if now >= upkeep_at and self._upkeep is not None and not self._upkeep.is_alive():
                self._keep_up()
            if force:
                for courier in self._couriers.values():
                    courier.notify(force=True)
                force = False
            if ended := self._ended(until):
                return ended
            self._tell_of_those_that_hang(outbox)
            now = time.monotonic()
            busy, owed = self._standing()
            if once and once(outbox):
                return "idle"
            if not again_at and not busy and not forever and not intake.more:
                if once:
                    return "idle"
                if self._blind():
                    return self._make_way(spool)
                if not owed and now - active >= LINGER_S:
                    return "idle"
            if owed and not busy and now - slimmed > SLIM_EVERY_S:
                # Nobody knows how long it stays: from here on it is asleep, and small.
                from sessionpipe.memory import give_back

                give_back()
                slimmed = now
            timeouts = [_LONGEST_SLEEP_S]
            if self._upkeep is not None and not self._upkeep.is_alive():
                timeouts.append(upkeep_at - now)
            if intake.more and not again_at:
                timeouts.append(0)
            if again_at:
                timeouts.append(again_at - now)
            elif not (owed or forever or busy):
                timeouts.append(active + LINGER_S - now)
            if until is not None:
                timeouts.append(until - now)
            got = self._sleep(min(timeouts))
            if FORCE in got:
                force = True
            if LOOK in got or FORCE in got:
                active = time.monotonic()
                # Another process wrote: what it wrote is for the couriers and the reader too.
                self.committed()
                self._reader.notify()

    def _stop_listening(self, intake: Intake | None) -> None:
        """Somebody wants this worker to end: from now on hooks start another, which waits for the lock.

        The parts may take a second to end, or a file's courier ten. What a hook left for us before is
        recorded now, as far as that goes at once: a signal must end a worker that cannot record.
        """
        self._lock.say("", leaving=True)
        self.fifo.close()
        deadline = time.monotonic() + _LAST_S
        with contextlib.suppress(Exception):
            if intake is not None and not self._troubled and self.damage is None and self._ours():
                intake.run(lambda: time.monotonic() < deadline and self._ours())

    def _ended(self, until: float | None) -> str | None:
        """Why this worker must end, if it must; asked before every batch of jobs."""
        if not self._lock.still_there():
            return "gone"
        if self.damage is not None:
            return "damaged"
        if not self._outbox_there():
            return "moved"
        if self._stop.is_set():
            return "stopped"
        if _version() != _RUNNING:
            return "replaced"
        return "late" if until is not None and time.monotonic() >= until else None

    def _ours(self) -> bool:
        return self._lock.still_there() and self._outbox_there()

    def _outbox_there(self) -> bool:
        return self._outbox_file == identity(self.state.outbox)

    def _open(self, spool: Spool, *, patient: bool) -> tuple[Outbox, Intake]:
        """The outbox and its intake; ``patient``: tried for a while before it is given up.

        While this waits, hooks find a reader and start nothing: were it to leave at once, each of
        them would start a worker only to see it fail.
        """
        from sessionpipe.intake import Intake
        from sessionpipe.outboxfile import damage

        trouble = Trouble()
        for last in [*[False] * len(TROUBLE_S), True]:
            outbox = None
            try:
                outbox = self._whole()
                self._outbox_file = outbox.file
                intake = Intake(
                    outbox,
                    spool,
                    machine=self.machine,
                    log=self.log,
                    committed=self._recorded,
                    ours=self._ours,
                )
                self.stuck = intake.stuck
                self._lock.say("")
                return outbox, intake
            except Exception as error:
                if outbox is not None:
                    outbox.close()
                why = damage(error)
                if last or not (patient or why):
                    raise
                if why:
                    self.damaged(why)
                    continue
                pause, line = trouble.add(error)
                if line:
                    self.trouble(line)
                again_at = time.monotonic() + pause
                while (left := again_at - time.monotonic()) > 0:
                    self._sleep(left)
                    if self._stop.is_set() or not self._lock.still_there():
                        raise
        raise AssertionError("unreachable")

    def _whole(self) -> Outbox:
        """The outbox, or a new one with what can be read of a damaged one. Raises what opening it raises."""
        from sessionpipe.outbox import Outbox
        from sessionpipe.outboxfile import Damaged
        from sessionpipe.salvage import set_aside

        while True:
            found = self.damage
            if found is None:
                file = identity(self.state.outbox)
                try:
                    return Outbox.open(self.state.outbox)
                except Damaged as error:
                    found = Damage(file, error.why)
            self.trouble(
                f"the outbox is damaged ({found.why}); what can be read is carried over into a new one"
            )
            done = set_aside(self.state.outbox, found.why, now_ms(), file=found.file)
            self.damage = None
            if done is not None:
                self.log(
                    "error",
                    f"the damaged outbox was set aside as {done.aside}; carried over: {done.events} events,"
                    f" {done.sessions} sessions, the places of {done.sinks} sinks",
                )

    def _renew_launcher(self) -> None:
        """After an upgrade, write the launcher and its compiled hook anew.

        Until then it runs ``hook.py`` itself, which is right and a little slower.
        """
        from importlib.util import source_hash

        compiled, source = self.state.bin / "hook.pyc", Path(__file__).with_name("hook.py")
        try:
            is_newer = compiled.stat().st_mtime_ns > source.stat().st_mtime_ns
            # An installer may leave a file as old as it was in its archive; PEP 552 keeps what it was made of.
            if is_newer and read_file(compiled)[8:16] == source_hash(source.read_bytes()):
                return
        except OSError:
            return  # Nothing is installed.
        from sessionpipe.install import launcher, native
        from sessionpipe.install.targets import answers

        try:
            launcher.write(self.state, self._config_file.parent, answers())
            native.build_apart(self.state)
        except Exception as error:
            self.log("warning", f"the launcher cannot be written anew: {error}")

    def _recorded(self) -> None:
        self._reader.notify()
        self.committed()
        if self._upkeep is not None and self._upkeep.is_alive():
            self._upkeep.notify()

    def _keep_up(self) -> None:
        """Have the outbox seen to: it may have grown, or there may be no room on the disk."""
        if self._upkeep is None:
            return
        if self._upkeep.is_alive():
            self._upkeep.notify()
        else:
            self._upkeep.start()

    def _tell_of_those_that_hang(self, outbox: Outbox) -> None:
        """Let `status` say which sink has not come back from a batch: nobody else can end that."""
        for courier in list(self._couriers.values()):
            since_ms = courier.hanging_since()
            if since_ms is None or since_ms == self._hanging.get(courier.sink.name):
                continue
            self._hanging[courier.sink.name] = since_ms
            self.log("warning", f"{courier.name}: {HANGS}")
            with contextlib.suppress(Exception):  # Then it is said in the log alone.
                outbox.change_sink(courier.sink.name, partial(_hanging, since_ms))

    def _standing(self) -> tuple[bool, bool]:
        """Whether a part is at work or soon will be, and whether a sink owes a retry."""
        busy = bool(self._retiring)
        owed = False
        idle, due = self._reader.state()
        busy |= not idle or due is not None
        if self._upkeep is not None and self._upkeep.is_alive():
            busy |= not self._upkeep.state()[0]
        for courier in list(self._couriers.values()):
            idle, due = courier.state()
            busy |= not idle
            owed |= due is not None
        return busy, owed

    def _sleep(self, seconds: float) -> bytes:
        """Wait until somebody sends a byte, at most ``seconds``; the bytes that came."""
        fd = self.fifo.fileno()
        select.select([] if fd is None else [fd], [], [], max(0.0, seconds))
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

    def _renew_own_files(self) -> None:
        """Take up what the person changed in their own rules and adapters; what can't be used is logged once."""
        from sessionpipe import redaction
        from sessionpipe.adapters import registry

        config = self._config_file.parent
        found = {
            "own rules": redaction.refresh(config).problems,
            "own adapter": registry.refresh(config).problems,
        }
        for what, problems in found.items():
            if problems != self._refused.get(what, ()):
                self._refused[what] = problems
                for problem in problems:
                    self.log("warning", f"{what}: {problem}; refused")

    # --- sinks --------------------------------------------------------------------------------

    def _reconfigure(self, outbox: Outbox) -> None:
        """Bring the couriers in line with the config, when it changed."""
        self._retiring = [part for part in self._retiring if not part.ended.is_set()]
        seen = _identity(self._config_file, content=True)
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
        wanted = self._wanted()
        for name, courier in list(self._couriers.items()):
            if wanted.get(name) != courier.sink:
                courier.stop()
                self._retiring.append(self._couriers.pop(name))
            else:
                courier.notify()  # It may have waited for this.
        retiring = {part.name for part in self._retiring}
        for name, sink in wanted.items():
            # A sink whose old courier still speaks to it must not get a second one.
            if name in self._couriers or f"sink {name}" in retiring:
                continue
            # Written into the config by hand: it gets what is recorded, as one that was added does.
            outbox.add_sink(name, 0)
            courier = self._couriers[name] = Delivering(self, sink)
            courier.start()

    def _wanted(self) -> dict[str, SinkConfig]:
        """The sinks of the config that this worker delivers to, by name."""
        return {
            sink.name: sink
            for sink in (self._config.sinks if self._config else ())
            if not sink.paused and (sink.kind != "stdout" or self._with_stdout)
        }

    def _held_up(self) -> bool:
        """Whether a sink still waits for its old courier to end."""
        return any(name not in self._couriers for name in self._wanted())

    def _retention(self) -> Retention | None:
        """What the person said of how long and how much to keep; None while the config cannot be read."""
        from sessionpipe.upkeep import Retention

        return None if self._config is None else Retention.of(self._config)

    def _end_parts(self) -> None:
        parts: list[Part] = [self._reader, *self._couriers.values(), *self._retiring]
        if self._upkeep is not None:
            parts.append(self._upkeep)
        for part in parts:
            part.stop()
        begun = time.monotonic()
        for part in parts:
            # A request under way may take its 15 s; what it gets no answer to is sent again.
            to_file = isinstance(part, Delivering) and part.sink.kind == "file"
            if part.is_alive():
                part.join(max(0.0, begun + (_ENDING_FILE_S if to_file else _ENDING_S) - time.monotonic()))

    # --- making way ---------------------------------------------------------------------------

    def _blind(self) -> bool:
        """Whether every sink across the network cannot even be connected to."""
        network = [courier for courier in self._couriers.values() if courier.network]
        return bool(network) and all(courier.failed_connections >= BLIND_AFTER for courier in network)

    def _make_way(self, spool: Spool) -> str:
        """Stop listening, go on trying, and leave as soon as a hook has started another worker.

        This process may sit in a sandbox without a network; one started by the next hook may not.
        """
        self.fifo.close()
        self.fifo = Fifo(self.state.yielding)
        self.fifo.open()
        self._watched = True
        try:
            while True:
                if self._stop.is_set():
                    return "stopped"
                if not spool.empty() or not self._ours():
                    return "yielded"
                if not self._blind() or _identity(self._config_file, content=True) != self._config_seen:
                    return "sees again"
                busy, owed = self._standing()
                if not busy and not owed:
                    return "idle"
                if b"y" in self._sleep(_LONGEST_SLEEP_S):
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
    left, damage = "moved", None
    try:
        while left in ("moved", "damaged"):  # On with a new outbox.
            worker = Worker(state, config, fifo=fifo, lock=lock, with_stdout=True, damage=damage)
            left, damage = worker.serve(forever=True), worker.damage
    finally:
        fifo.close()
        lock.release()
    if left == "replaced":
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  # as it was started
    return True
