"""Intake: waiting jobs become events in the outbox.

One job is mapped by its harness's adapter, amended and enriched from the harness's files, folded
with what the session remembers, redacted, given its ``seq``, inserted and marked done. Many jobs
share one commit; the job files go only after it.
"""

from __future__ import annotations

import errno
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from sessionpipe import faults, firings, harnesses
from sessionpipe.adapters import Refused, map_anyones
from sessionpipe.adapters.fold import fold, merge_block
from sessionpipe.clock import now_ms
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.git import git_facts
from sessionpipe.harnesses.transcripts import digest
from sessionpipe.outbox import Outbox, Session, Transaction, encode
from sessionpipe.outboxfile import OutboxError, damage
from sessionpipe.redaction import in_force
from sessionpipe.seal import Draft, redact_ids, seal, session_block
from sessionpipe.spool import BadJob, Job, Spool

BATCH_JOBS = 256
BATCH_BYTES = 4 << 20
#: How long a job that could neither be taken nor set aside is left alone before it is tried again.
STUCK_S = 60.0
# This process's trouble, not the file's.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Mapped(NamedTuple):
    """A job as its adapter and its harness's files tell it, before memory has a say."""

    job: Job
    drafts: list[Draft]
    block: dict[str, Any]
    root: str | None
    home: str | None


class Intake:
    """The intake of one state directory. ``log`` takes (level, message).

    ``ours`` is asked before a batch is recorded: whether the outbox is still the one that belongs to
    the spool (somebody may have removed the state directory and made another).
    """

    def __init__(
        self,
        outbox: Outbox,
        spool: Spool,
        *,
        machine: Callable[[], str | None],
        log: Callable[[str, str], None],
        committed: Callable[[], None] = lambda: None,
        ours: Callable[[], bool] = lambda: True,
    ) -> None:
        self._outbox = outbox
        self._spool = spool
        self._machine = machine
        self._log = log
        self._committed = committed
        self._ours = ours
        self._files = Files()
        # Listed and not taken yet. What has come since sorts behind it.
        self._names: deque[str] = deque()
        # Jobs whose files are durably gone, their marks to be pruned with the next commit.
        self._retired: list[str] = outbox.marks()
        # Jobs that could not even be set aside (a full disk): left where they are, out of the way of
        # those behind them, and tried again now and then.
        self.stuck: set[str] = set()
        self._said: set[str] = set()
        self._stuck_until = 0.0
        self._spool.unlink(self._retired)
        self._spool.sync()

    def run(self, go_on: Callable[[], bool] = lambda: True) -> int:
        """Take every waiting job, as long as ``go_on`` says before each batch; how many there were."""
        taken = 0
        try:
            while self._names or self._list():
                if not go_on():
                    break
                taken += self._take()
        except BaseException:
            # What the failed batch held comes first again.
            self._names.clear()
            raise
        return taken

    @property
    def more(self) -> bool:
        """Whether the last run left jobs it knew of."""
        return bool(self._names)

    def _list(self) -> bool:
        if self.stuck and time.monotonic() > self._stuck_until:
            self._stuck_until = time.monotonic() + STUCK_S
            self.stuck.clear()
        self._names.extend(name for name in self._spool.names() if name not in self.stuck)
        return bool(self._names)

    def _leave(self, name: str, why: str) -> None:
        """Let a job lie for a while; it is said once."""
        if not self.stuck:
            self._stuck_until = time.monotonic() + STUCK_S
        self.stuck.add(name)
        if name not in self._said:
            self._said.add(name)
            self._log("error", f"{why}; it stays in the spool, and is tried again in {STUCK_S:.0f} s")

    def finish(self) -> None:
        """Prune the last done-marks; their jobs' files are durably gone."""
        if self._retired:
            self._outbox.prune_marks(self._retired)
            self._retired = []

    def _take(self) -> int:
        mapped: list[Mapped] = []
        done: list[str] = []
        size = looked_at = 0
        # Memory stays bounded by one batch, and the rest keeps its place.
        while self._names and looked_at < BATCH_JOBS and size <= BATCH_BYTES:
            name = self._names.popleft()
            looked_at += 1
            try:
                job = self._spool.read(name)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    raise
                # It may well be a job, on a disk that has an error there: neither thrown away nor
                # in the way of the others.
                self._leave(name, f"{name} cannot be read ({error})")
                continue
            except BadJob as error:
                self._set_aside(name, f"{error}", None, None)
                continue
            size += len(job.payload)
            faults.point("intake.read")
            try:
                mapped.append(map_job(job, self._files, self._machine()))
                done.append(name)
            except Refused as error:
                if self._set_aside(name, error.reason, job, error.belongs_to):
                    done.append(name)
            except Exception as error:
                # A fault of ours in one payload must neither lose it nor hold up the others.
                if self._set_aside(name, f"could not be mapped: {error!r}", job, None):
                    done.append(name)
        self._record_each(mapped, done)
        return len(done)

    def _set_aside(self, name: str, reason: str, job: Job | None, belongs_to: str | None) -> bool:
        whose = f"{job.harness} {job.event}" if job else name
        hint = f" (it is {belongs_to}'s)" if belongs_to else ""
        try:
            self._spool.reject(name, reason, job=job, belongs_to=belongs_to)
            if job is None:
                self._spool.discard(name)
        except OSError as error:
            self._leave(name, f"job of {whose} cannot be set aside ({error})")
            return False
        self._log("warning", f"job of {whose} set aside{hint}: {reason}")
        return True

    def _record_each(self, mapped: list[Mapped], done: list[str]) -> None:
        try:
            self._record(mapped, done)
        except (OSError, OutboxError, sqlite3.OperationalError):
            raise  # The disk or the database: nothing is wrong with the jobs, and all of them wait.
        except Exception as error:
            # Of the exceptions that say something about a job, a damaged database has none of its own.
            if not mapped or damage(error) or type(error) is sqlite3.DatabaseError:
                raise
            jobs = [item.job for item in mapped]
            others = [name for name in done if name not in {job.name for job in jobs}]
            if len(mapped) > 1:
                # One of them cannot be recorded; found by taking each by itself, in order.
                for item in mapped:
                    self._record_each([item], [item.job.name])
            elif self._set_aside(jobs[0].name, f"could not be recorded: {error!r}", jobs[0], None):
                others.append(jobs[0].name)
            self._record([], others)

    def _record(self, mapped: list[Mapped], done: list[str]) -> None:
        if not done:
            return
        faults.point("intake.mapped")
        with self._outbox.transaction() as tx:
            # Recorded by a worker that died between its commit and its unlinks, or by one that is at
            # work beside this one because somebody removed the lock file: that one's mark is here, or
            # was pruned, and then the file had gone before. Asked under the write lock, so that
            # neither can change before this commit.
            known = self._outbox.done(done)
            sessions: dict[tuple[str, str], Session] = {}
            for item in mapped:
                name = item.job.name
                if item.drafts and name not in known and self._spool.there(name):
                    record_drafts(tx, sessions, item)
            for session in sessions.values():
                tx.save(session)
                tx.discard(session)
            fired = [_firing(item) for item in mapped if item.job.name not in known and not _foreign(item)]
            if fired:
                tx.remember(firings.KEY, firings.with_fired(self._outbox.note(firings.KEY), fired))
            tx.mark_done(done)
            if self._retired:
                tx.unmark(self._retired)
            faults.point("intake.inserted")
            if not self._ours():
                raise OSError("the state directory was replaced while jobs were being recorded")
        faults.point("intake.committed")
        # The commit has returned, so it is on disk: only now may the files go.
        self._spool.unlink(done)
        faults.point("intake.unlinked")
        self._committed()
        # The marks may go only once the unlinks are durable, or a power cut could bring back a
        # job file that no mark answers for.
        self._spool.sync()
        self._retired = done


def _foreign(item: Mapped) -> bool:
    """Whether another agent ran the entry: that says nothing of the hooks of either."""
    return bool(item.drafts) and item.drafts[0]["harness"]["name"] != item.job.harness


def _firing(item: Mapped) -> firings.Firing:
    job = item.job
    version = item.drafts[0]["harness"].get("version") if item.drafts else None
    return firings.Firing(job.harness, job.event, job.at_ms, job.took_ms, version)


def map_job(job: Job, files: Files, machine: str | None) -> Mapped:
    """A job's drafts and its session's facts. Raises :class:`Refused`. Reads the harness's files."""
    drafts = map_anyones(
        job.harness,
        job.event,
        job.payload,
        args=job.args,
        env=job.env,
        cwd=job.cwd,
        at_ms=job.at_ms,
        partial=job.partial,
    )
    home = job.env.get("HOME") or job.env.get("USERPROFILE")
    if not drafts:
        return Mapped(job, [], {}, None, home)
    context = Context(env=job.env, cwd=job.cwd, at_ms=job.at_ms, home=home)
    drafts, facts = enrich(drafts, context, files)
    drafts = told_by_files(drafts, context, files)
    for draft in drafts:
        redact_ids(draft)
    # Never the hook's own folder unless the table takes it for the session's: some agents run their hooks
    # in a folder of theirs.
    cwd = drafts[0]["session"].get("cwd")
    git = git_facts(cwd) if cwd else {}
    block = session_block({**facts, **_present(git, ("repo", "branch")), "machine": machine}, home)
    return Mapped(job, drafts, block, git.get("root"), home)


def enrich(drafts: list[Draft], context: Context, files: Files) -> tuple[list[Draft], dict[str, Any]]:
    """Drafts amended from the harness's own files, and the session facts they and the files tell.

    The facts are raw and uncut (:func:`session_block`); the harness's version is put on each draft.
    """
    harness = harnesses.get(drafts[0]["harness"]["name"])
    drafts = harness.amend(drafts, context, files) or drafts
    facts = dict(drafts[0]["session"])
    for name, value in harness.facts(drafts[0], context, files).items():
        if name == "version":
            for draft in drafts:
                draft["harness"].setdefault("version", value)
        else:
            facts[name] = value
    if drafts[0].get("memo", {}).get("thread") is not None:
        # A subagent's parent belongs to its own events, never to the session they share.
        facts.pop("parent_id", None)
    return drafts, facts


def told_by_files(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """Drafts with those of what no hook told among them, and with where their transcripts are."""
    harness = harnesses.get(drafts[0]["harness"]["name"])
    drafts = harness.missed(drafts, context, files)
    for draft in drafts:
        want = draft["memo"].get("transcript")
        if want and not want.get("path"):
            want["path"] = harness.transcript(draft, context, files)
    return drafts


def _present(facts: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: facts[name] for name in names if facts.get(name)}


def record_drafts(tx: Transaction, sessions: dict[tuple[str, str], Session], item: Mapped) -> None:
    """Fold one job's drafts into its session and append what comes of it."""
    first = item.drafts[0]
    key = (first["harness"]["name"], first["session"]["id"])
    session = sessions.get(key)
    if session is None:
        # When it happened, where the payload says: by the time its hook runs a model may have answered.
        # What its files tell of a time before that is no part of what we were there for.
        seen = (d["at_ms"] for d in item.drafts if not d.get("memo", {}).get("only_running"))
        first_ms = next(seen, item.job.at_ms)
        session = sessions[key] = tx.session(*key, first_ms)
        if session.last_type == "session.backfill":
            tx.first_heard(session, first_ms)
    if session.forgotten_ms is not None and item.job.at_ms < session.forgotten_ms:
        return  # The person had it forgotten after this happened.
    state, emitted = fold(session.state, item.drafts)
    if not state.get("started"):
        return  # Nothing is known of this session, and nothing here may open it.
    session.state = state
    learnt = item.block
    if learnt.get("title_source") == "first-ask" and "title" in session.block:
        # The first ask is the first: what is asked later is no better name.
        learnt = {name: value for name, value in learnt.items() if not name.startswith("title")}
    session.block = merge_block(session.block, learnt)
    append(tx, session, emitted, root=item.root, home=item.home)
    now = now_ms()
    tx.wake_read(session, now)
    # Looked for before fold, which drops the second of two ends, and with it where to read.
    for draft in item.drafts:
        want = draft.get("memo", {}).get("transcript")
        if want and want.get("path"):
            owed = tx.pending_read(session) or {}
            # A digest: the message itself has not been redacted, and may not rest in the outbox.
            said = digest(want.get("said") or "")
            if said is None and owed.get("path") == want["path"]:
                said = owed.get("said")
            tx.queue_read(
                session,
                {
                    "path": want["path"],
                    "said": said,
                    "final": bool(want.get("final")),
                    "ended_ms": draft["at_ms"],
                    "stopped": draft["data"].get("reason") in ("interrupt", "error"),
                },
                now,
                now,
            )


def append(
    tx: Transaction, session: Session, drafts: Iterable[Draft], *, root: str | None, home: str | None
) -> None:
    """Seal drafts with the session's next sequence numbers and insert them."""
    # Taken once: a row's stamp is that of the rules that redacted it, whatever is in force a moment later.
    rules = in_force()
    for draft in drafts:
        event = seal(draft, session.block, session.next_seq, root=root, home=home, rules=rules)
        tx.append(session, event["type"], draft["at_ms"], rules.stamp, encode(event))
