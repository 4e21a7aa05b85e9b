"""A stream of Pi's, recorded while it comes.

What its lines tell goes the way of every hook: mapped by ``adapters/pi.toml``, enriched, folded, redacted,
sealed, and appended to the outbox; only the spool is not on the way. What happened within some fifty
milliseconds shares a commit. A session that Pi's own extension tells at the same time is left to it.

This runs beside the copying, in a process of its own (:mod:`sessionpipe.stream.front`): here anything may
take its time.
"""

from __future__ import annotations

import os
import select
import sqlite3
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sessionpipe.adapters import Refused
from sessionpipe.clock import now_ms
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.pi_lines import Lines
from sessionpipe.harnesses.pi_runs import Runs, Talked, Told
from sessionpipe.harnesses.pi_store import chosen_folders, default_folder
from sessionpipe.harnesses.pi_stream import Event, Normalizer, Unknown
from sessionpipe.harnesses.transcripts import Cursor
from sessionpipe.intake import Mapped, append, map_job, record_drafts
from sessionpipe.live import prune, told_by_hooks
from sessionpipe.log import log
from sessionpipe.outbox import Outbox, OutboxError, Session, Transaction, encode
from sessionpipe.outboxfile import damage
from sessionpipe.paths import State, config_dir, make_private
from sessionpipe.protocol import rfc3339
from sessionpipe.redaction import redact, redact_value
from sessionpipe.spool import Job
from sessionpipe.stream.frames import Chunk, End, Frame, Gap, Incoming
from sessionpipe.stream.front import Report
from sessionpipe.terminal import printable_json
from sessionpipe.wake import wake

HARNESS = "pi"
#: Variables that say where Pi's files are and whose session this is; no other is looked at.
ENVIRONMENT = (
    "HOME",
    "USERPROFILE",
    "PI_CODING_AGENT_DIR",
    "PI_CODING_AGENT_SESSION_DIR",
    "SESSIONPIPE_LAUNCHED_BY",
    "SESSIONPIPE_ASKED_BY",
)

#: How long what happened waits for more of it to share its commit.
BATCH_S = 0.05
_BATCH_BYTES = 4 << 20
#: How much may wait while the outbox takes nothing.
PENDING_BYTES = 64 << 20
_RETRY_S = 1.0
#: How long, at the end, an outbox that takes nothing is tried; and one that a worker is to mend.
_LAST_TRIES_S, _MENDING_S = 2.0, 6.0
#: How long a worker that was started may take to listen.
_STARTING_S = 2.0


class _Waiting(NamedTuple):
    """Something told, and what the adapter made of it."""

    told: Told | Talked
    mapped: Mapped | None
    size: int


class Recorder:
    """Reads along with one stream; called by the front, in a process of its own.

    ``rouse`` gets a worker to look; ``env`` has some of :data:`ENVIRONMENT`; ``cwd`` is Pi's folder where it is
    ours; ``since_ms``: when the stream was begun to be read. ``normalized``: print normalized events on
    standard output. Not ``record``: do nothing else.
    """

    def __init__(
        self,
        state: State,
        *,
        rouse: Callable[[State], None],
        env: Mapping[str, str],
        cwd: str | None,
        since_ms: int,
        normalized: bool = False,
        record: bool = True,
    ) -> None:
        self._state = state
        self._rouse = rouse
        self._env = env
        self._lines = Lines()
        self._runs = Runs(self._find, cwd) if record else None
        self._printer = Printer() if normalized else None
        self._store = Store(state, since_ms)
        self._files = Files()
        self._machine = _machine() if record else None
        self._pending: list[_Waiting] = []
        self._pending_bytes = 0
        self._first_at: float | None = None
        self._again_at = 0.0
        self._trouble = ""
        self._damaged = False
        self._lost = 0
        self._refused: dict[str, int] = {}
        self._anything = False
        self._roused_at = 0.0

    def __call__(self, incoming: Incoming) -> Report:
        """Read to the end, whatever happens; what a person should be told."""
        try:
            self._follow(incoming)
        except Exception as error:
            # A fault of ours: the copying goes on without us, and somebody must hear of it.
            self._refused[f"the recording failed: {error!r}"] = 1
        self._finish()
        return Report(say=self._report(), closed=bool(self._printer and self._printer.closed))

    def _follow(self, incoming: Incoming) -> None:
        while not incoming.ended:
            if self._pending and not select.select([incoming], [], [], max(0.0, self._patience()))[0]:
                self._commit()
                continue
            for frame in incoming.read():
                self._take(frame)
            if self._printer and self._printer.closed:
                # Nobody reads what we print: this is where a filter ends, and so does what it reads.
                incoming.close()
                self._take(End(now_ms(), signalled=True))
                break
            if self._pending and self._patience() <= 0:
                self._commit()

    # --- from frames to what is told ----------------------------------------------------------

    def _take(self, frame: Frame) -> None:
        match frame:
            case Chunk(at_ms, data):
                self._read(self._lines.feed(data), at_ms)
            case Gap():
                self._lines.gap()
            case End(at_ms, signalled, status):
                self._read(self._lines.finish(), at_ms, torn=True)
                if self._runs:
                    self._add(self._runs.finish(at_ms, signalled=signalled, clean=not status))
                if self._printer:
                    self._printer.finish()

    def _read(self, lines: list[bytes], at_ms: int, *, torn: bool = False) -> None:
        self._anything = self._anything or any(line.strip() for line in lines)
        if self._runs:
            self._add(self._runs.feed(lines, at_ms, torn=torn))
        if self._printer:
            self._printer.feed(lines)

    def _add(self, told: list[Told | Talked]) -> None:
        for one in told:
            if self._pending_bytes > PENDING_BYTES:
                self._lost += 1
                continue
            size, mapped = 1024, None
            if isinstance(one, Told):
                payload = encode(one.payload)
                size += len(payload)
                mapped = self._map(one, payload)
                if mapped is None:
                    continue
            else:
                size += len(one.talk.user) + len(one.talk.assistant)
            self._pending.append(_Waiting(one, mapped, size))
            self._pending_bytes += size
            if self._first_at is None:
                self._first_at = time.monotonic()

    def _find(self, name: str, cwd: str) -> str | None:
        """Where Pi keeps a session of this machine; None where it doesn't."""
        folders = [*chosen_folders(self._env, self._files), default_folder(cwd, self._env)]
        return next((str(path) for folder in folders if (path := folder / name).is_file()), None)

    def _map(self, told: Told, payload: bytes) -> Mapped | None:
        """A job that was never a file, mapped as one that was."""
        job = Job("", HARNESS, told.event, told.at_ms, "", (), dict(self._env), False, payload)
        try:
            mapped = map_job(job, self._files, self._machine)
            if mapped.drafts:
                return mapped
            why = f"the protocol has no words for such a {told.event}"
        except Refused as error:
            why = error.reason
        except Exception as error:
            # A fault of ours in one line must not take the others with it.
            why = f"could not be mapped: {error!r}"
        self._refused[why] = self._refused.get(why, 0) + 1
        return None

    # --- from what is told to the outbox ------------------------------------------------------

    def _patience(self) -> float:
        """For how many seconds what waits may wait; 0 or less: commit it now."""
        now = time.monotonic()
        if self._again_at:
            return self._again_at - now
        if self._pending_bytes >= _BATCH_BYTES:
            return 0.0
        return (self._first_at or now) + BATCH_S - now

    def _commit(self) -> bool:
        """Record what waits; whether that was possible."""
        try:
            try:
                self._store.record(self._pending)
            except (OSError, sqlite3.Error, OutboxError):
                raise
            except Exception:
                # One of them can't be recorded: found by taking each by itself, in order.
                self._one_by_one()
        except (OSError, sqlite3.Error, OutboxError) as error:
            # A full disk, a locked database: all of it waits.
            self._trouble = str(error)
            self._again_at = time.monotonic() + _RETRY_S
            self._store.close()
            self._damaged = damage(error) is not None
            if self._damaged:
                self._wake()  # A worker puts a new one in its place.
            return False
        self._pending, self._pending_bytes = [], 0
        self._first_at, self._again_at, self._damaged = None, 0.0, False
        if self._store.wrote:
            self._wake()
        return True

    def _one_by_one(self) -> None:
        while self._pending:
            try:
                self._store.record(self._pending[:1])
            except (OSError, sqlite3.Error, OutboxError):
                raise
            except Exception as error:
                why = f"could not be recorded: {error!r}"
                self._refused[why] = self._refused.get(why, 0) + 1
            self._pending_bytes -= self._pending.pop(0).size

    def _wake(self) -> None:
        """Get a worker to look, and start one where there is none."""
        if wake(self._state):
            return
        now = time.monotonic()
        if now - self._roused_at >= _STARTING_S:
            self._roused_at = now
            self._rouse(self._state)

    def _finish(self) -> None:
        begun = time.monotonic()
        while self._pending and not self._commit():
            if time.monotonic() - begun >= (_MENDING_S if self._damaged else _LAST_TRIES_S):
                self._lost += len(self._pending)
                break
            time.sleep(_RETRY_S / 4)
        if self._store.wrote:
            self._roused_at = 0.0
            self._wake()
        self._store.close()

    def _report(self) -> list[str]:
        """Lines for standard error: what a person would not want to go without knowing."""
        say = [*(self._printer.say if self._printer else ())]
        if self._lines.skipped:
            say.append(f"{_many(self._lines.skipped, 'line')} longer than 64 MiB could not be read")
        if self._runs is None:
            return say
        if self._runs.unreadable:
            say.append(f"{_many(self._runs.unreadable, 'line')} of Pi's could not be read")
        if self._anything and not self._runs.recognized:
            say.append("nothing was recorded: this is not Pi's JSON stream; run it with --mode json")
        if self._runs.nameless:
            count = _many(self._runs.nameless, "event")
            say.append(f"{count} not recorded: nothing named their session; in --mode rpc, ask get_state")
        if self._lost:
            say.append(f"{_many(self._lost, 'event')} not recorded: {self._trouble}")
        say += [f"{_many(count, 'event')} not recorded: {why}" for why, count in self._refused.items()]
        for line in say:
            log(self._state, "warning", f"ingest {HARNESS}: {line}")
        return [redact(line) for line in say]  # An error may quote what it failed at.


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _machine() -> str | None:
    from sessionpipe.config import machine_name

    return machine_name(config_dir())


class Store:
    """The outbox, and which sessions of the stream are to go into it.

    Opened at the first need, and again when somebody has put another in its place.
    """

    def __init__(self, state: State, since_ms: int) -> None:
        self._state = state
        self._since_ms = since_ms
        self._outbox: Outbox | None = None
        # How much of each session somebody has told already: all that is at or before that time.
        self._told_until: dict[str, float] = {}
        # Up to when what was asked in it has been told with its answer, as far as that had come.
        self._asked_until: dict[str, int] = {}
        #: Whether anything was recorded.
        self.wrote = False

    def close(self) -> None:
        """Let go of the outbox."""
        if self._outbox is not None:
            self._outbox.close()
            self._outbox = None

    def record(self, waiting: list[_Waiting]) -> None:
        """Record in one commit, or not at all: raises what the disk, the database or one of them raises."""
        if self._outbox is None or not self._outbox.still_there():
            self._open()
        outbox = self._outbox
        assert outbox is not None
        wrote = False
        with outbox.transaction() as tx:
            sessions: dict[tuple[str, str], Session] = {}
            for one in waiting:
                wrote |= self._record(tx, sessions, one)
            for session in sessions.values():
                tx.save(session)
                tx.discard(session)
            if not outbox.still_there():
                # What is committed now would be in a file that no longer has a name.
                raise OSError("the outbox was moved while the stream was being recorded")
        self.wrote |= wrote

    def _open(self) -> None:
        self.close()
        make_private(self._state.root)
        prune(self._state)
        self._outbox = Outbox.open(self._state.outbox)

    def _record(self, tx: Transaction, sessions: dict[tuple[str, str], Session], one: _Waiting) -> bool:
        told = one.told
        key = (HARNESS, told.session_id)
        session = sessions.get(key)
        if session is None:
            session = sessions[key] = tx.session(*key, told.at_ms)
        if told.session_id not in self._told_until:
            self._told_until[told.session_id] = self._until(session, told)
            self._asked_until[told.session_id] = Cursor.of(session.transcript.get("cursor", {})).sent_ms or 0
        if told.at_ms <= self._told_until[told.session_id]:
            return False
        before = session.next_seq
        if one.mapped is not None:
            record_drafts(tx, sessions, one.mapped)
        elif isinstance(told, Talked):
            _record_exchange(tx, session, told, self._asked_until[told.session_id])
        return session.next_seq > before

    def _until(self, session: Session, first: Told | Talked) -> float:
        """Up to when this session has been told by somebody else, as far as this stream goes."""
        known = bool(session.state.get("started"))
        # Of what happened, not of words that were read from a file some time afterwards.
        newest = session.state.get("tier0_ms", 0) if known else -1
        if first.saved:
            # Whatever there is of that time: hooks told it then, or the stream was read before. In a turn that
            # whoever told it has left open, to the last of its calls.
            turn = session.state.get("turn")
            return session.last_ms if known and turn and not turn["over"] else newest
        at_ms = (first.by_pi_ms if isinstance(first, Told) else None) or first.at_ms
        if told_by_hooks(self._state, HARNESS, session.id, at_ms, self._since_ms):
            who = "hooks tell it"
        elif newest >= self._since_ms:
            # Another reader of the stream, or a program that leaves no marks.
            who = "it is being told already"
        else:
            return -1
        log(
            self._state,
            "info",
            f"ingest {HARNESS}: session {session.id} is not recorded from its stream: {who}",
        )
        return float("inf")


def _record_exchange(tx: Transaction, session: Session, told: Talked, known_ms: int) -> None:
    talk = told.talk
    asked_ms = told.at_ms if talk.asked_ms is None else talk.asked_ms
    if not session.state.get("started") or asked_ms < (session.forgotten_ms or 0):
        return  # Nothing of this session is kept, or was not to be kept when this was said.
    owed = tx.pending_read(session)
    if owed and owed.get("path"):
        # Its file is being waited for, for what came before: let it tell this, too, and in order.
        now = now_ms()
        tx.queue_read(session, {**owed, "said": None, "final": False, "ended_ms": told.at_ms}, now, now)
        return
    if told.saved and asked_ms <= known_ms:
        return  # Told as far as it had come when its stream was cut off; no exchange is told twice.
    turn = session.transcript.get("turn", 0) + 1
    draft = {
        "type": "turn.transcript",
        "at_ms": told.at_ms,
        "harness": {"name": HARNESS},
        "session": {"id": session.id},
        "data": {
            "turn": turn,
            "user": talk.user,
            "assistant": talk.assistant,
            "at": rfc3339(told.at_ms if talk.at_ms is None else talk.at_ms),
        },
    }
    append(tx, session, [draft], root=None, home=None)
    # So that a later hook's reading of the file does not say it again.
    cursor = Cursor.of(session.transcript.get("cursor", {})).told_until(asked_ms)
    session.transcript = {"cursor": cursor._asdict(), "turn": turn}


class Printer:
    """Normalized events on standard output, one JSON object a line, without credentials."""

    def __init__(self) -> None:
        #: Nobody reads them any more.
        self.closed = False
        #: What a person should be told.
        self.say: list[str] = []
        self._normalizer = Normalizer()
        self._broken = False

    def feed(self, lines: list[bytes]) -> None:
        """Print what these lines tell."""
        for line in lines:
            if events := self._normalizer.feed(line):
                self._print(events)

    def finish(self) -> None:
        """Print what was left open."""
        self._print(self._normalizer.finish())

    def _print(self, events: list[Event]) -> None:
        lines = (printable_json(encode(redacted(event)).decode()) for event in events)
        data = memoryview("".join(f"{line}\n" for line in lines).encode())
        while data and not (self.closed or self._broken):
            try:
                data = data[os.write(1, data) :]
            except BlockingIOError:
                select.select([], [1], [])
            except BrokenPipeError:
                self.closed = True
            except OSError as error:
                self._broken = True
                self.say.append(f"the events could not be printed: {error.strerror}")


def redacted(event: Event) -> dict[str, Any]:
    """An event as JSON-able values without credentials (``secrets@1``)."""
    found: dict[str, Any] = redact_value(event.to_dict())
    if isinstance(event, Unknown):
        found["raw"] = _redacted_line(event)
    return found


def _redacted_line(event: Unknown) -> str:
    """A raw line: where it is JSON, the names of its values say which of them are credentials."""
    from sessionpipe.harnesses.pi_lines import read

    value = read(event.raw)
    if value is not None and (clean := redact_value(value)) is not value:
        return redact(encode(clean).decode())
    return redact(event.raw.decode("utf-8", "backslashreplace"))


__all__ = ["ENVIRONMENT", "Printer", "Recorder", "Store", "redacted"]
