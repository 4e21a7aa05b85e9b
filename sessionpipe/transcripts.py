"""Transcripts: what was said, one ``turn.transcript`` per completed exchange (protocol §4).

The end of a turn queues a read as a row beside the events. A read that finds the turn's end in the
harness's file emits every exchange since the cursor and moves the cursor in the same commit: never
twice, never in parts. What was asked after that end is left for the read of its own turn's end: of a
worker that lags the hooks of that turn still wait in the spool. A file that is written late is polled
from 50 ms up to 5 s, then again at the session's next hook or the worker's next start. All of it
beside intake, never in its way.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from sessionpipe import faults, harnesses
from sessionpipe.harnesses import Want
from sessionpipe.harnesses.files import Files
from sessionpipe.intake import append
from sessionpipe.outbox import Outbox, PendingRead
from sessionpipe.seal import Draft

FIRST_POLL_MS = 50
PATIENCE_MS = 5_000
#: A file that did not come within so long will not: its session was removed, or the disk it was on.
OWED_MS = 7 * 24 * 3_600_000


class TranscriptReader:
    """The reads of one outbox. ``log`` takes (level, message)."""

    def __init__(
        self,
        outbox: Outbox,
        *,
        log: Callable[[str, str], None],
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        self._outbox = outbox
        self._log = log
        self._committed = committed
        self._files = Files()

    def start(self, now_ms: int) -> None:
        """A worker started: what earlier ones gave up on is tried once more, and at last let go of."""
        self._outbox.drop_reads(now_ms - OWED_MS)
        self._outbox.wake_reads(now_ms)

    def step(self, now_ms: int) -> int | None:
        """Do the reads that are due; when the next one is, or None when none will be."""
        later: list[int] = []
        for pending in self._outbox.pending_reads():
            if pending.due_ms is None:
                continue
            # A clock that went back must not make a read wait for it to catch up.
            if pending.due_ms > now_ms and pending.due_ms - now_ms <= PATIENCE_MS:
                later.append(pending.due_ms)
                continue
            try:
                due = self._read(pending, now_ms)
            except sqlite3.Error:
                raise
            except Exception as error:
                # A fault in one transcript must not hold up those of other sessions.
                due = None
                self._sleep(pending)
                self._log(
                    "error",
                    f"the transcript of {pending.harness} {pending.session} cannot be read ({error!r});"
                    " tried again at its next hook",
                )
            if due is not None:
                later.append(due)
        return min(later, default=None)

    def _sleep(self, pending: PendingRead) -> None:
        with self._outbox.transaction() as tx:
            session = tx.session(pending.harness, pending.session, pending.queued_ms)
            if tx.pending_read(session) is None:
                tx.discard(session)  # Forgotten meanwhile.
            else:
                tx.postpone_read(session, None)

    def _read(self, pending: PendingRead, now_ms: int) -> int | None:
        want, elapsed = pending.want, now_ms - pending.queued_ms
        patient = 0 <= elapsed < PATIENCE_MS
        wanted = Want(
            said=want.get("said"),
            # A session that ended writes no more, but its last words may still be on their way.
            final=bool(want.get("final")) and not (want.get("said") and patient),
            since_ms=pending.first_ms,
            ended_ms=want["ended_ms"],
            session=pending.session,
            stopped=bool(want.get("stopped")),
            now_ms=now_ms,
        )
        harness = harnesses.get(pending.harness)
        reading = harness.exchanges(want["path"], pending.transcript.get("cursor", {}), wanted, self._files)
        # What came may not be all there is: one reading takes so much, and another goes on behind it.
        settled = reading.complete or (wanted.final and not patient and not reading.exchanges)
        due = now_ms + max(FIRST_POLL_MS, elapsed) if patient and not settled else None
        faults.point("transcript.read")
        with self._outbox.transaction() as tx:
            session = tx.session(pending.harness, pending.session, now_ms)
            owed = tx.pending_read(session)
            if owed is None or session.transcript != pending.transcript:
                # Forgotten, or read by somebody else, while the file was being read.
                tx.discard(session)
                return None
            turn = session.transcript.get("turn", 0)
            drafts: list[Draft] = []
            for exchange in reading.exchanges:
                turn += 1
                drafts.append(
                    {
                        "type": "turn.transcript",
                        "at_ms": now_ms,
                        "harness": {"name": pending.harness},
                        "session": {"id": pending.session},
                        "data": {
                            "turn": turn,
                            "user": exchange.user,
                            "assistant": exchange.assistant,
                            "at": exchange.at,
                        },
                    }
                )
            append(tx, session, drafts, root=None, home=None)
            session.transcript = {"cursor": reading.cursor, "turn": turn}
            tx.save(session)
            if owed != want:
                due = now_ms  # Another turn ended meanwhile, and its end is what is waited for now.
                tx.postpone_read(session, due)
            elif settled:
                tx.settle_read(session)
            elif reading.exchanges:
                # There may be more than one reading takes at once.
                due = now_ms
                tx.postpone_read(session, due)
            else:
                tx.postpone_read(session, due)
            faults.point("transcript.inserted")
        if reading.exchanges:
            self._committed()
        if due is None and not settled:
            self._log(
                "info",
                f"the transcript of {pending.harness} {pending.session} is late; read at its next hook",
            )
        return due
