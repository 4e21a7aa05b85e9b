"""Intake: waiting jobs become events in the outbox.

One job is mapped by its harness's adapter, amended and enriched from the harness's files, folded
with what the session remembers, redacted, given its ``seq``, inserted and marked done. Many jobs
share one commit; the job files go only after it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from sessionpipe import faults, harnesses
from sessionpipe.adapters import Refused, map_hook
from sessionpipe.adapters.fold import fold, merge_block
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.git import git_facts
from sessionpipe.harnesses.transcripts import digest
from sessionpipe.outbox import Outbox, Session, Transaction, encode
from sessionpipe.privacy.secrets import RULESET_VERSION
from sessionpipe.seal import Draft, seal, session_block
from sessionpipe.spool import BadJob, Job, Spool

BATCH_JOBS = 256
BATCH_BYTES = 16 << 20


class Mapped(NamedTuple):
    """A job as its adapter and its harness's files tell it, before memory has a say."""

    job: Job
    drafts: list[Draft]
    block: dict[str, Any]
    root: str | None
    home: str | None


class Intake:
    """The intake of one state directory. ``log`` takes (level, message)."""

    def __init__(
        self,
        outbox: Outbox,
        spool: Spool,
        *,
        machine: Callable[[], str | None],
        log: Callable[[str, str], None],
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        self._outbox = outbox
        self._spool = spool
        self._machine = machine
        self._log = log
        self._committed = committed
        self._files = Files()
        # Jobs whose files are durably gone, their marks to be pruned with the next commit.
        self._retired: list[str] = outbox.marks()
        # Jobs that could not even be set aside (a full disk): left where they are, tried again by
        # the next worker, out of the way of those behind them.
        self.stuck: set[str] = set()
        self._spool.unlink(self._retired)
        self._spool.sync()

    def run(self) -> int:
        """Take every waiting job; how many there were."""
        taken = 0
        while names := [name for name in self._spool.names() if name not in self.stuck]:
            while names:
                batch, names = names[:BATCH_JOBS], names[BATCH_JOBS:]
                taken += self._take(batch)
        return taken

    def finish(self) -> None:
        """Prune the last done-marks; their jobs' files are durably gone."""
        if self._retired:
            self._outbox.prune_marks(self._retired)
            self._retired = []

    def _take(self, names: list[str]) -> int:
        mapped: list[Mapped] = []
        done: list[str] = []
        size = 0
        for name in names:
            if size > BATCH_BYTES:
                break  # The rest comes in the next listing: memory stays bounded by one batch.
            try:
                job = self._spool.read(name)
            except FileNotFoundError:
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
            self.stuck.add(name)
            self._log("error", f"job of {whose} cannot be set aside ({error}); it stays in the spool")
            return False
        self._log("warning", f"job of {whose} set aside{hint}: {reason}")
        return True

    def _record_each(self, mapped: list[Mapped], done: list[str]) -> None:
        try:
            self._record(mapped, done)
        except (OSError, sqlite3.Error):
            raise  # The disk or the database: nothing is wrong with the jobs, and all of them wait.
        except Exception as error:
            if len(mapped) > 1:
                # One of them cannot be recorded; found by taking each by itself, in order.
                for item in mapped:
                    self._record_each([item], [item.job.name])
                self._record([], [name for name in done if name not in {item.job.name for item in mapped}])
            elif self._set_aside(done[0], f"could not be recorded: {error!r}", mapped[0].job, None):
                self._record([], done)

    def _record(self, mapped: list[Mapped], done: list[str]) -> None:
        if not done:
            return
        # Recorded by a worker that died between its commit and its unlinks.
        known = self._outbox.done(done)
        faults.point("intake.mapped")
        with self._outbox.transaction() as tx:
            sessions: dict[tuple[str, str], Session] = {}
            for item in mapped:
                if item.job.name not in known and item.drafts:
                    record_drafts(tx, sessions, item)
            for session in sessions.values():
                tx.save(session)
                tx.discard(session)
            tx.mark_done(done)
            if self._retired:
                tx.unmark(self._retired)
            faults.point("intake.inserted")
        faults.point("intake.committed")
        # The commit has returned, so it is on disk: only now may the files go.
        self._spool.unlink(done)
        faults.point("intake.unlinked")
        self._committed()
        # The marks may go only once the unlinks are durable, or a power cut could bring back a
        # job file that no mark answers for.
        self._spool.sync()
        self._retired = done


def map_job(job: Job, files: Files, machine: str | None) -> Mapped:
    """A job's drafts and its session's facts. Raises :class:`Refused`. Reads the harness's files."""
    drafts = map_hook(
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
    cwd = drafts[0]["session"].get("cwd") or job.cwd
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


def _present(facts: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: facts[name] for name in names if facts.get(name)}


def record_drafts(tx: Transaction, sessions: dict[tuple[str, str], Session], item: Mapped) -> None:
    """Fold one job's drafts into its session and append what comes of it."""
    first = item.drafts[0]
    key = (first["harness"]["name"], first["session"]["id"])
    session = sessions.get(key)
    if session is None:
        session = sessions[key] = tx.session(*key, item.job.at_ms)
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
    now = int(time.time() * 1000)
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
                    "env": {
                        k: v
                        for k, v in item.job.env.items()
                        if k in ("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME")
                    },
                },
                now,
                now,
            )


def append(
    tx: Transaction, session: Session, drafts: Iterable[Draft], *, root: str | None, home: str | None
) -> None:
    """Seal drafts with the session's next sequence numbers and insert them."""
    for draft in drafts:
        event = seal(draft, session.block, session.next_seq, root=root, home=home)
        tx.append(session, event["type"], draft["at_ms"], RULESET_VERSION, encode(event))
