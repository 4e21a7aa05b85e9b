"""The courier: takes one sink from its cursor to the end of the outbox, and never a step twice.

A step reads rows behind the cursor, packs a batch, notes where it ends, hands it over, and then, in
one commit, moves the cursor together with the thinning window. Killed before the commit, the next
courier sends the same batch again: same events, same ``seq``, same message id, however much was
recorded meanwhile. Rows are read anew before every attempt, so that what was forgotten is not sent.
No transaction is open while a sink is spoken to.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, assert_never

import msgspec

from sessionpipe import faults
from sessionpipe.config import SinkConfig
from sessionpipe.delivery import backoff, terms
from sessionpipe.delivery.batch import Packed, Policy, pack
from sessionpipe.delivery.outcome import Acked, Drop, LowerTier, Outcome, Pause, Retry, Split
from sessionpipe.outbox import Outbox, Row, SinkState
from sessionpipe.redaction import PLAIN, redact, refresh
from sessionpipe.sinks import Held, Log, Sink, Tail, build

#: How many rows a step looks through at most: a cursor far behind moves in steps that can be stopped.
SCAN = 10_000
_PAGE_ROWS, _PAGE_BYTES = 500, 1 << 20


class Step(NamedTuple):
    """What a step came to.

    ``progress``: something changed, another step may do more at once. ``wait_until_ms``: when there
    is something to try again (epoch ms); None when nothing is owed, or this process can't pay it.
    ``connect_failed``: whether the receiver could not even be reached from this process; None when
    that was not tried.
    """

    progress: bool
    wait_until_ms: int | None = None
    connect_failed: bool | None = None


class Courier:
    """Delivers to the sink ``config`` from ``outbox``; used by one thread, with its connection.

    The sink's row must be in the outbox: a sink without one is idle. ``stop`` ends a step early.
    ``log`` takes a level and a message; ``timer`` counts seconds. A step raises what the outbox
    raises, and may be repeated.
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
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._outbox = outbox
        self._stop = stop
        self._log_line = log
        self._env = env
        self._make = make
        self._timer = timer
        self._begun = 0.0
        self._sink: Sink | None = None
        self._known: dict[str, Any] = {}
        self._halted = False
        self._latest_ms = 0
        self._out_of_turn = False
        # This process lacks what the sink needs: it must not stay for it, or the next can't take over.
        self._in_vain = False
        self._odd: str | None = None
        # What the sink itself holds was looked up for this run over the outbox, and reaches so far.
        self._resumed = ""
        self._held = 0
        # After a receiver found a batch too big: how many events the next may have, and how many were
        # too many.
        self._room: int | None = None
        self._refused = 0
        self._rules = PLAIN

    def step(self, now_ms: int, *, force: bool = False) -> Step:
        """Make one attempt at most; ``force`` makes it now, whatever the backoff says."""
        self._begun = self._timer()
        state = self._outbox.sink(self._config.name)
        # A clock that was set back while we slept: what we waited for has come.
        set_back, self._latest_ms = now_ms < self._latest_ms, now_ms
        if state is None or self._config.paused or state.paused is not None or self._halted:
            return Step(False)
        due = backoff.is_due(now_ms, failures=state.failures, next_attempt_ms=state.next_attempt_ms)
        # An attempt the person asked for out of turn must not make the next one of the ladder later.
        self._out_of_turn = not (due or set_back)
        if self._out_of_turn and not force:
            owed = self._outbox.last_position() > state.position and not self._in_vain
            return Step(False, state.next_attempt_ms if owed else None)
        if self._sink is None or state.discovery != self._known:
            # Somebody added or resumed the sink anew, or it was just started.
            self.close()
            self._sink = self._make(self._config, state, env=self._env, log=self._log)
            self._known, self._room = state.discovery, None
        if self._outbox.last_position() <= state.position:
            return Step(False)
        prepared = self._prepare(self._sink, state, now_ms)
        if isinstance(prepared, Step):
            return prepared
        state = prepared
        erasures = self._outbox.erasures()
        packed = self._pack(self._sink, state)
        faults.point("courier.filtered")
        if self._stop.is_set():
            # Removed or changed while rows were read: what they made is for the settings of before.
            return Step(False)
        if packed.batch is None:
            if packed.position == state.position:
                return Step(False)
            return self._settle(state, packed, Acked(), now_ms)
        if self._sink.knows_messages and packed.position != state.batch_end:
            # Known before it leaves: after a kill the same message is sent again, not a longer one.
            noted = self._change(state, batch_end=packed.position)
            if noted is None:
                return Step(True)
            state = noted
        faults.point("courier.before_send")
        if self._outbox.erasures() != erasures:
            # A session was forgotten while its rows were packed. What is on its way from here on is
            # followed by the event that says so.
            return Step(True)
        outcome = self._sink.send(packed.batch)
        faults.point("courier.sent")
        # Until the commit is through, the sink may hold what the cursor does not know of.
        self._resumed = ""
        step = self._settle(state, packed, outcome, now_ms)
        if isinstance(outcome, Acked):
            self._resumed = state.series
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
        nothing = Packed(None, state.position, state.thinning)
        learned = sink.learn(now_ms)
        if isinstance(learned, (Retry, Pause)):
            return self._settle(state, nothing, learned, now_ms)
        if learned is not None:
            # Where its file says anew what it takes, a lower tier that an answer had asked for ends, so
            # that a receiver that takes more one day gets it.
            answered = None if learned.anew else state.max_tier
            max_tier = learned.max_tier if answered is None else answered
            changed = self._change(state, discovery=learned.discovery, max_tier=max_tier)
            if changed is None:
                return Step(True)
            state = changed
            self._known, self._room = state.discovery, None
        if self._resumed != state.series:
            try:
                tail = sink.tail()
            except OSError as error:
                return self._settle(state, nothing, Retry(error.strerror or str(error)), now_ms)
            state = self._resume(state, tail)
            self._resumed = state.series
        return state

    def _resume(self, state: SinkState, tail: Tail | None) -> SinkState:
        """Continue behind the last event the sink itself holds.

        That is ahead of the cursor when a batch was written and its commit was not: what is behind
        the last event the sink is known to have been given is passed over when it is packed again.
        (After a replay what is before it was written earlier, and is written again.) Behind the
        cursor, and torn, when a disk lost what it had promised to keep: the cursor goes back.
        """
        self._held = 0
        events = tail.events if tail else ()
        known = max((n for n, event in enumerate(events) if event.id == state.last_id), default=-1)
        last, position = last_held(self._outbox, events[known + 1 :])
        if position > state.position:
            self._held = position
        elif tail and tail.torn and known < 0 < position < state.position:
            self._log("warning", "cut a half-written event off its end; delivering again from there")
            return self._change(state, position=position, last_id=last) or state
        return state

    def _pack(self, sink: Sink, state: SinkState) -> Packed:
        limits = sink.limits()
        if self._room is not None:
            limits = msgspec.structs.replace(limits, max_events=min(self._room, limits.max_events))
        # Looked at anew for every batch: a rule that was just added is for what goes now.
        self._rules = refresh().redaction
        return pack(
            state.series,
            self._rows(state.position, limits.max_events + 1),
            after=state.position,
            until=state.batch_end,
            policy=self._policy(sink, state),
            limits=limits,
            thinning=state.thinning,
            held=self._held,
        )

    def _policy(self, sink: Sink, state: SinkState) -> Policy:
        return Policy(
            tier=self._tier(state),
            pii=self._config.pii,
            tools=self._config.tools or sink.tools(),
            without=sink.without(),
            home=self._env.get("HOME"),
            rules=self._rules,
        )

    def _made_by(self, sink: Sink, state: SinkState) -> dict[str, Any]:
        """The terms of the batch behind ``state``, and since when they hold (:mod:`.terms`)."""
        now = terms.of(self._policy(sink, state), sink.limits())
        return terms.since(state.terms, now, state.position)

    def _rows(self, position: int, first: int) -> Iterator[Row]:
        """Rows behind ``position``, read in pages: memory stays flat however many wait.

        The ``first`` page is what a batch has room for, which is often all that is needed.
        """
        seen = 0
        while seen < SCAN and not self._stop.is_set():
            rows = min(_PAGE_ROWS if seen else first, _PAGE_ROWS, SCAN - seen)
            page = self._outbox.read(position, rows, _PAGE_BYTES)
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
            case Acked(rejected, max_tier, odd, unnamed):
                lost = len(rejected) + unnamed
                self._moved(state, packed, lost=lost, reached=bool(events), max_tier=max_tier)
                for event_id, reason in rejected:
                    self._log("warning", f"the receiver will not store event {event_id}: {reason}")
                if odd is not None and odd != self._odd:
                    self._log("warning", odd)
                if events:
                    self._odd = odd
                if events and state.since_ms:
                    self._log("info", "it takes events again")
                if self._room is not None:
                    self._room = min(2 * self._room, self._refused - 1)
                return Step(True)
            case Retry(error, after_s, connect, elsewhere):
                self._in_vain = elsewhere
                # A wait begins with the answer, or its absence: an attempt may have taken longer itself.
                now_ms += int((self._timer() - self._begun) * 1000)
                failures = 0 if after_s is not None else state.failures + (not self._out_of_turn)
                wait = backoff.wait_ms(failures) if after_s is None else backoff.asked_ms(after_s)
                changed = self._change(
                    state,
                    failures=failures,
                    next_attempt_ms=now_ms + wait,
                    since_ms=state.since_ms or now_ms,
                    last_error=error,
                )
                if changed is None:
                    return Step(True)
                if error != state.last_error:
                    again = "" if elsewhere else f"; tried again in {wait // 1000} s"
                    self._log("warning", f"{error}{again}")
                return Step(False, None if elsewhere else now_ms + wait, connect)
            case Split(error) if len(events) > 1:
                # What was refused once is not tried again: a receiver with a bound that it does not
                # name would refuse every second request.
                self._refused, self._room = len(events), len(events) // 2
                self._log("info", f"{error}: sending {self._room} events at once instead of {len(events)}")
                return Step(True)
            case Split(error) | Drop(error):
                self._moved(state, packed, lost=len(events), reached=True, error=error)
                self._log("error", f"{error}: gave up {_named(events)}")
                self._room = None if isinstance(outcome, Split) else self._room
                return Step(True)
            case Pause(reason, lasting):
                if not lasting:
                    self._halted = True
                elif not self._change(
                    state, paused=reason, failures=0, next_attempt_ms=0, since_ms=now_ms, last_error=reason
                ):
                    return Step(True)
                self._log("error", f"paused: {reason}")
                return Step(False)
            case LowerTier(tier) if tier < self._tier(state):
                if self._change(state, max_tier=tier) is not None:
                    self._log("warning", f"the receiver takes at most tier {tier}; sending no more than that")
                return Step(True)
            case LowerTier(tier):
                reason = (
                    f"the receiver refuses tier {self._tier(state)}, and says that it takes tier {tier};"
                    f" `sessionpipe sinks set {state.name} --tier` with a lower one goes on"
                )
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
            "last_id": packed.last_id or state.last_id,
            "thinning": packed.thinning,
            "batch_end": 0,
            "sent": state.sent + taken,
            "dropped": state.dropped + lost + len(packed.given_up),
            "withheld": state.withheld + packed.withheld,
        }
        if self._sink is not None:
            fields["terms"] = self._made_by(self._sink, state)
        if reached:
            fields |= {"failures": 0, "next_attempt_ms": 0, "since_ms": 0, "last_error": error}
        # Only its file raises what it takes: of a receiver that says two things the lower one counts.
        if max_tier is not None and max_tier < self._tier(state):
            fields["max_tier"] = max_tier
        self._change(state, **fields)

    def _change(self, state: SinkState, **fields: Any) -> SinkState | None:
        """Write ``fields`` of the sink's row in one commit; None when others changed it meanwhile.

        A cursor that somebody else moved (a replay) stays where they put it. An answer that moves
        nothing is void when the sink was resumed or added anew while it was waited for: it was given
        to what no longer holds.
        """
        void = False

        def change(current: SinkState) -> SinkState | None:
            nonlocal void
            elsewhere = (current.series, current.position) != (state.series, state.position)
            void = elsewhere or ("position" not in fields and current.discovery != state.discovery)
            return None if void else msgspec.structs.replace(current, **fields)

        changed = self._outbox.change_sink(state.name, change)
        return None if void else changed

    def _log(self, level: str, message: str) -> None:
        self._log_line(level, f"sink {self._config.name}: {message}")


def last_held(outbox: Outbox, events: Sequence[Held]) -> tuple[str | None, int]:
    """The id of the last of ``events`` that is in the outbox, and its position; None and 0 without one."""
    for event in reversed(events):
        position = outbox.position_of(event.harness, event.session, event.seq)
        rows = outbox.read(position - 1, 1) if position else []
        # In an outbox that was begun anew the same numbers may be other events.
        if rows and event.id.encode() in rows[0].body:
            return event.id, rows[0].position
    return None, 0


def _redacted(outcome: Outcome) -> Outcome:
    """The answer with its words redacted: a receiver may quote what it was sent, and they are stored."""
    words = {name: redact(getattr(outcome, name)) for name in ("error", "reason") if hasattr(outcome, name)}
    return msgspec.structs.replace(outcome, **words) if words else outcome


def _named(ids: tuple[str, ...]) -> str:
    return f"event {ids[0]}" if len(ids) == 1 else f"{len(ids)} events, {ids[0]} to {ids[-1]}"
