"""Flushing: everything recorded and delivered now, and what could not be, said."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from sessionpipe.clock import now_ms
from sessionpipe.liveness import Fifo, Lock, send
from sessionpipe.paths import State, make_private
from sessionpipe.wake import FORCE, wake
from sessionpipe.worker import Worker, waiting


def flush(state: State, config: Path, timeout_s: float = 30.0) -> list[str]:
    """Record and deliver everything now, one attempt per sink whatever its backoff.

    Wakes a live worker and waits for it, or does the work itself; stdout sinks are served here.
    Returns within ``timeout_s`` with a sentence for each thing that is left.
    """
    deadline = time.monotonic() + timeout_s
    make_private(state.root)
    lock, fifo = Lock(state), Fifo(state.fifo)
    before: dict[str, Any] | None = None
    asked = False
    while True:
        if lock.acquire():
            fifo.open()
            worker = Worker(state, config, fifo=fifo, lock=lock, with_stdout=True)
            try:
                worker.serve(force=True, once=True, until=deadline)
            finally:
                fifo.close()
                lock.release()
            # As every worker leaves: a hook may have taken us for one that stays.
            if not waiting(state, but=worker.stuck) or time.monotonic() >= deadline:
                break
            continue
        before = _attempts(state) if before is None else before
        if not asked and not (asked := wake(state, FORCE)):
            # It is just starting or leaving, or it makes way: then this asks for the lock.
            send(state.yielding, b"y")
        if (asked and _all_tried(state, config, before)) or time.monotonic() >= deadline:
            _serve_stdout(state, config, deadline)
            break
        time.sleep(0.05)
    return leftovers(state, config)


def _attempts(state: State) -> dict[str, tuple[int, int, int, str | None]]:
    from sessionpipe.outbox import Outbox

    outbox = Outbox.open(state.outbox)
    try:
        return {s.name: (s.failures, s.position, s.next_attempt_ms, s.paused) for s in outbox.sinks()}
    finally:
        outbox.close()


def _all_tried(state: State, config: Path, before: dict[str, Any]) -> bool:
    """Whether a live worker has recorded everything and tried each sink once."""
    now = _attempts(state)
    # A sink that failed since we asked has had its attempt; one its receiver paused gets none.
    tried = {name for name, row in now.items() if row[3] or before.get(name, row) != row}
    # A worker in the background never serves stdout; that is done here afterwards.
    return all(name in tried for name, _ in leftovers(state, config, detail=True, stdout=False))


def _serve_stdout(state: State, config: Path, deadline: float) -> None:
    from sessionpipe.config import ConfigError, load
    from sessionpipe.delivery.courier import Courier
    from sessionpipe.outbox import Outbox

    try:
        sinks = [sink for sink in load(config).sinks if sink.kind == "stdout" and not sink.paused]
    except ConfigError:
        return
    outbox = Outbox.open(state.outbox)
    try:
        for sink in sinks:
            outbox.add_sink(sink.name, 0)
            courier = Courier(sink, outbox, stop=threading.Event(), log=lambda _level, _message: None)
            while time.monotonic() < deadline and courier.step(now_ms(), force=True).progress:
                continue
            courier.close()
    finally:
        outbox.close()


def leftovers(state: State, config: Path, *, detail: bool = False, stdout: bool = True) -> list[Any]:
    """What is not recorded or not delivered yet, as sentences; with ``detail`` as (sink or "", sentence)."""
    from sessionpipe.config import ConfigError, load
    from sessionpipe.outbox import Outbox
    from sessionpipe.spool import Spool

    left: list[tuple[str, str]] = []
    waiting = len(Spool(state.spool).names())
    if waiting:
        left.append(("", f"{waiting} job{'s' * (waiting != 1)} not recorded yet"))
    outbox = Outbox.open(state.outbox)
    try:
        if any(pending.due_ms is not None for pending in outbox.pending_reads()):
            left.append(("", "a transcript is still being waited for"))
        known = {sink.name: sink for sink in outbox.sinks()}
        try:
            sinks = [s for s in load(config).sinks if not s.paused and (stdout or s.kind != "stdout")]
        except ConfigError as error:
            left.append(("", f"{error}; nothing is delivered until it is mended"))
            sinks = []
        for sink in sinks:
            row = known.get(sink.name)
            behind = outbox.behind(row.position if row else 0)
            if behind:
                why = row and (row.paused or row.last_error)
                left.append(
                    (sink.name, f"sink {sink.name}: {behind} not delivered" + (f" ({why})" if why else ""))
                )
    finally:
        outbox.close()
    return left if detail else [sentence for _, sentence in left]
