"""The courier: takes one sink from its cursor to the end of the outbox, and never a step twice.

A step reads rows behind the cursor, packs a batch, hands it over, and then, in one commit, moves
the cursor together with the thinning window. Killed before the commit, the next courier sends the
same batch again: same events, same ``seq``, same message id. Rows are read anew before every
attempt, so that what was forgotten meanwhile is not sent. No transaction is open while a sink is
spoken to.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, assert_never

import msgspec

from sessionpipe import faults
from sessionpipe.config import SinkConfig
from sessionpipe.delivery import backoff
from sessionpipe.delivery.batch import Packed, Policy, pack
from sessionpipe.delivery.outcome import Acked, Drop, LowerTier, Outcome, Pause, Retry, Split
from sessionpipe.outbox import Outbox, Row, SinkState
from sessionpipe.privacy.secrets import redact
from sessionpipe.sinks import Log, Sink, Tail, build

#: How many rows a step looks through at most: a cursor far behind moves in steps that can be stopped.
SCAN = 10_000
_PAGE_ROWS, _PAGE_BYTES = 500, 1 << 20
#: How far before the cursor a file's last event is looked for.
_BEFORE = 1_000


class Step(NamedTuple):
    """What a step came to.

    ``progress``: something changed, another step may do more at once. ``wait_until_ms``: when there
    is something to try again (epoch ms); None when nothing is owed. ``connect_failed``: the receiver
    could not even be reached from this process.
    """

    progress: bool
    wait_until_ms: int | None = None
    connect_failed: bool = False


class Courier:
    """Delivers to the sink ``config`` from ``outbox``; used by one thread, with its connection.

    The sink's row must be in the outbox: a sink without one is idle. ``stop`` ends a step early.
    ``log`` takes a level and a message. A step raises what the outbox raises, and may be repeated.
    """

    def __init__(
        self,
        config: SinkConfig,
        outbox: Outbox,
        *,
        stop: threading.Event,
        log: Log,
        env: Mapping[str, str] = os.environ,
        make: Callable[..., Sink] = build,
    ) -> None:
        self._config = config
        self._outbox = outbox
        self._stop = stop
        self._log_line = log
        self._env = env
        self._make = make
        self._sink: Sink | None = None
        self._known: dict[str, Any] = {}
        self._halted = False
        self._resumed = False
        self._written: frozenset[str] = frozenset()
        self._latest_ms = 0
        self._out_of_turn = False
        # After a receiver found a batch too big: how many events the next may have.
        self._room: int | None = None

    def step(self, now_ms: int, *, force: bool = False) -> Step:
        """Make one attempt at most; ``force`` makes it now, whatever the backoff says."""
        state = self._outbox.sink(self._config.name)
        # A clock that was set back while we slept: what we waited for has come.
        set_back, self._latest_ms = now_ms < self._latest_ms, now_ms
        if state is None or self._config.paused or state.paused is not None or self._halted:
            return Step(False)
        due = backoff.is_due(now_ms, failures=state.failures, next_attempt_ms=state.next_attempt_ms)
        # An attempt the person asked for out of turn must not make the next one of the ladder later.
        self._out_of_turn = not (due or set_back)
        if self._out_of_turn and not force:
            owed = self._outbox.last_position() > state.position
            return Step(False, state.next_attempt_ms if owed else None)
        if self._sink is None or state.discovery != self._known:
            # Somebody added or resumed the sink anew, or it was just started.
            self.close()
            self._sink = self._make(self._config, state, env=self._env, log=self._log_line)
            self._known = state.discovery
        if self._outbox.last_position() <= state.position:
            return Step(False)
        prepared = self._prepare(self._sink, state, now_ms)
        if isinstance(prepared, Step):
            return prepared
        state = prepared
        packed = self._pack(self._sink, state)
        faults.point("courier.filtered")
        if packed.batch is None:
            if packed.position == state.position:
                return Step(False)
            return self._settle(state, packed, Acked(), now_ms)
        faults.point("courier.before_send")
        outcome = self._sink.send(packed.batch)
        faults.point("courier.sent")
        # Until the commit is through, the sink may hold what the cursor does not know of.
        self._resumed = False
        step = self._settle(state, packed, outcome, now_ms)
        self._resumed = isinstance(outcome, Acked)
        faults.point("courier.committed")
        return step

    def close(self) -> None:
        """Let go of the sink; the outbox is the caller's."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    # --- before a batch -----------------------------------------------------------------------

    def _prepare(self, sink: Sink, state: SinkState, now_ms: int) -> SinkState | Step:
        """Ask the receiver what it is, and find where a sink that keeps events itself ends."""
        nothing = Packed(None, state.position, state.thinning, ())
        learned = sink.learn(now_ms)
        if isinstance(learned, (Retry, Pause)):
            return self._settle(state, nothing, learned, now_ms)
        if learned is not None:
            tier = state.max_tier if learned.max_tier is None else learned.max_tier
            state = self._change(state, discovery=learned.discovery, max_tier=tier) or state
            self._known = state.discovery
        if not self._resumed:
            try:
                tail = sink.tail()
            except OSError as error:
                return self._settle(state, nothing, Retry(error.strerror or str(error)), now_ms)
            state = self._resume(state, tail)
            self._resumed = True
        return state

    def _resume(self, state: SinkState, tail: Tail | None) -> SinkState:
        """Continue behind the last event the sink itself holds.

        Ahead of the cursor when a batch was written and its commit was not: what is in ``tail`` is
        then passed over when the batch is packed again. Behind the cursor, and torn, when a disk
        lost what it had promised to keep: the cursor goes back.
        """
        self._written = frozenset()
        if tail is None or not tail.ids:
            return state
        last = self._find(tail.ids[-1], after=max(0, state.position - _BEFORE), until=state.position)
        if last is None:
            self._written = frozenset(tail.ids)
        elif tail.torn and last < state.position:
            self._log("warning", "cut a half-written event off its end; delivering again from there")
            return self._change(state, position=last) or state
        return state

    def _find(self, event_id: str, *, after: int, until: int) -> int | None:
        while after < until:
            page = self._outbox.read(after, _PAGE_ROWS, _PAGE_BYTES)
            for row in page:
                # Cheap before exact: an id's 26 letters hardly occur elsewhere.
                if event_id.encode() in row.body and msgspec.json.decode(row.body).get("id") == event_id:
                    return row.position if row.position <= until else None
            after = page[-1].position if page else until
        return None

    def _pack(self, sink: Sink, state: SinkState) -> Packed:
        limits = sink.limits()
        if self._room is not None:
            limits = msgspec.structs.replace(limits, max_events=min(self._room, limits.max_events))
        return pack(
            state.name,
            self._rows(state.position),
            after=state.position,
            until=state.batch_end,
            policy=Policy(
                tier=self._tier(state),
                pii=self._config.pii,
                tools=self._config.tools or sink.tools(),
                without=sink.without(),
                home=self._env.get("HOME"),
            ),
            limits=limits,
            thinning=state.thinning,
            written=self._written,
        )

    def _rows(self, position: int) -> Iterator[Row]:
        """Rows behind ``position``, read in pages: memory stays flat however many wait."""
        seen = 0
        while seen < SCAN and not self._stop.is_set():
            page = self._outbox.read(position, _PAGE_ROWS, _PAGE_BYTES)
            faults.point("courier.read")
            if not page:
                return
            yield from page
            seen += len(page)
            position = page[-1].position

    def _tier(self, state: SinkState) -> int:
        return self._config.tier if state.max_tier is None else min(self._config.tier, state.max_tier)

    # --- after a batch ------------------------------------------------------------------------

    def _settle(self, state: SinkState, packed: Packed, outcome: Outcome, now_ms: int) -> Step:
        """Act on a sink's answer: the one place where cursors move."""
        events = packed.batch.ids if packed.batch else ()
        match _redacted(outcome):
            case Acked(rejected, max_tier):
                self._moved(state, packed, lost=len(rejected), reached=bool(events), max_tier=max_tier)
                for event_id, reason in rejected:
                    self._log("warning", f"the receiver will not store event {event_id}: {reason}")
                if self._room is not None:
                    self._room = min(2 * self._room, SCAN)
                return Step(True)
            case Retry(error, after_s, connect):
                failures = 0 if after_s is not None else state.failures + (not self._out_of_turn)
                wait = backoff.wait_ms(failures) if after_s is None else backoff.asked_ms(after_s)
                self._change(
                    state,
                    failures=failures,
                    next_attempt_ms=now_ms + wait,
                    batch_end=packed.position if events else state.batch_end,
                    last_error=error,
                )
                if error != state.last_error:
                    self._log("warning", f"{error}; tried again in {wait // 1000} s")
                return Step(False, now_ms + wait, connect)
            case Split(error) if len(events) > 1:
                self._room = len(events) // 2
                self._log("info", f"{error}: sending {self._room} events at once instead of {len(events)}")
                return Step(True)
            case Split(error) | Drop(error):
                self._moved(state, packed, lost=len(events), reached=True, error=error)
                self._log("error", f"{error}: gave up {_named(events)}")
                return Step(True)
            case Pause(reason, lasting):
                if lasting:
                    self._change(state, paused=reason, failures=0, next_attempt_ms=0, last_error=reason)
                else:
                    self._halted = True
                self._log("error", f"paused: {reason}")
                return Step(False)
            case LowerTier(tier) if tier < self._tier(state):
                self._change(state, max_tier=tier)
                self._log("warning", f"the receiver takes at most tier {tier}; sending no more than that")
                return Step(True)
            case LowerTier(tier):
                reason = f"the receiver refuses tier {self._tier(state)} and says it takes tier {tier}"
                return self._settle(state, packed, Pause(reason), now_ms)
            case _:
                assert_never(outcome)

    def _moved(
        self,
        state: SinkState,
        packed: Packed,
        *,
        lost: int,
        reached: bool,
        max_tier: int | None = None,
        error: str | None = None,
    ) -> None:
        """Put the cursor and the window behind a batch. ``lost`` of its events nobody will ever have."""
        for given_up in packed.given_up:
            self._log("error", f"gave up the event at {given_up.position}: {given_up.reason}")
        taken = len(packed.batch.events) - lost if packed.batch else 0
        fields: dict[str, Any] = {
            "position": packed.position,
            "thinning": packed.thinning,
            "batch_end": 0,
            "sent": state.sent + taken,
            "dropped": state.dropped + lost + len(packed.given_up),
        }
        if reached:
            fields |= {"failures": 0, "next_attempt_ms": 0, "last_error": error}
        if max_tier is not None and max_tier < self._tier(state):
            fields["max_tier"] = max_tier
        self._change(state, **fields)

    def _change(self, state: SinkState, **fields: Any) -> SinkState | None:
        """Write ``fields`` of the sink's row in one commit; None when its cursor was moved meanwhile.

        A cursor that somebody else moved (a replay) stays where they put it, and what was learnt for
        the old place goes with it.
        """
        moved = False

        def change(current: SinkState) -> SinkState | None:
            nonlocal moved
            moved = current.position != state.position
            return None if moved else msgspec.structs.replace(current, **fields)

        changed = self._outbox.change_sink(state.name, change)
        return None if moved else changed

    def _log(self, level: str, message: str) -> None:
        self._log_line(level, f"sink {self._config.name}: {message}")


def _redacted(outcome: Outcome) -> Outcome:
    """The answer with its words redacted: a receiver may quote what it was sent, and they are stored."""
    words = {name: redact(getattr(outcome, name)) for name in ("error", "reason") if hasattr(outcome, name)}
    return msgspec.structs.replace(outcome, **words) if words else outcome


def _named(ids: tuple[str, ...]) -> str:
    return f"event {ids[0]}" if len(ids) == 1 else f"{len(ids)} events, {ids[0]} to {ids[-1]}"
