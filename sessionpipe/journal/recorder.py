"""The recorder: Pi's events in, a bundle of the session event journal out.

A caller on any thread hands over what happened, the time first; a thread of the recorder's own writes it.
What is called for an event touches no file and never waits; nothing raises for what an event holds or for
a disk that is full: a capture that can't go on ends as ``failed``, with why, and whatever is recorded goes
on undisturbed.

    with Recorder(Path("run"), node="review", attempt="a1") as recorder:
        recorder.bind(session_id, cwd="/repo", file=path, follow=True)
        for event in events:          # as Pi's hooks get them, or as its JSON stream has them
            recorder.receive(event)
        recorder.end()                # the source ended; or recorder.close(): stop it now

Bundle: ``manifest.json``, ``session/`` (binding, entries, events, capture), ``artifacts/``, and for every
further conversation ``session/segments/<attempt>/``. Turns' and messages' ids are unique in the run.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from sessionpipe.journal.appending import replace
from sessionpipe.journal.artifacts import ArtifactStore
from sessionpipe.journal.backlog import Backlog
from sessionpipe.journal.capture import Capture, CaptureFailed, Failure, Settled, failure_of, iso
from sessionpipe.journal.files import Malformed, Unusable, read_object
from sessionpipe.journal.format import (
    ARTIFACTS,
    BINDING_SCHEMA,
    BUNDLE_SCHEMA,
    COMPLETE,
    FAILED,
    MANIFEST,
    RUNNING,
    SEGMENTS,
    SESSION,
    TURN_WAIT_S,
)
from sessionpipe.journal.normalize import OVERHEAD, Mismatch, Normalizer, Owner
from sessionpipe.journal.session_file import SessionFile
from sessionpipe.paths import make_private
from sessionpipe.privacy.walk import strings
from sessionpipe.redaction import redact

COMPLETED: Final = "completed"
#: A writer that does nothing for so long has a disk that doesn't answer.
PATIENCE_S: Final = 10.0

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Outcome(NamedTuple):
    """How a recording ended: the captures' status, the first failure, and whether the files say so."""

    status: str
    failure: Failure | None
    said: bool


class NotEmpty(Exception):
    """Where the bundle should go there is something already."""


def claim(out: Path) -> None:
    """Make the folder ``out``, or make sure that it is empty. Raises :class:`NotEmpty` and :class:`OSError`."""
    if os.path.lexists(out) and (not out.is_dir() or any(out.iterdir())):
        raise NotEmpty
    make_private(out)


def abandon(out: Path, status: str) -> None:
    """Say in the manifest that the run is over, where its recorder died before it could: its capture goes on
    saying that it records, and only a run that is over makes that a contradiction. Raises :class:`OSError`.
    """
    try:
        manifest = read_object(out, (MANIFEST,))
    except (Unusable, Malformed):
        return
    if manifest.get("status") == RUNNING:
        replace(out / MANIFEST, manifest | {"finishedAt": iso(time.time()), "status": status})


def is_name(text: str) -> bool:
    """Whether ``text`` may name a node or an attempt: it may become a folder's name."""
    return _NAME.fullmatch(text) is not None


def run_id(name: str, at: float) -> str:
    """``<UTC time>-<slug of name>-<8 hex>``: run ids sort by time."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "run"
    return f"{re.sub('[-:]', '', iso(at)[:19])}Z-{slug}-{secrets.token_hex(4)}"


class Recorder:
    """Records one run into the folder ``out``, which must not hold anything yet.

    ``node`` and ``attempt``: who owns what happens until :meth:`own` says otherwise. ``name``: the
    workflow's. ``verbatim``: write strings as they are; otherwise they go through ``secrets@1``, and the
    deltas of a content block are written when it ends. Raises :class:`NotEmpty` and :class:`OSError`.
    """

    def __init__(
        self,
        out: Path,
        *,
        node: str = "pi",
        attempt: str = "a1",
        name: str = "pi",
        verbatim: bool = False,
        backlog: Backlog | None = None,
    ) -> None:
        if not (is_name(node) and is_name(attempt)):
            raise ValueError(
                "a node's and an attempt's name are letters, digits, '.', '_' and '-', at most 64"
            )
        claim(out)
        started = time.time()
        self.run_id = run_id(name, started)
        self._out = out
        self._verbatim = verbatim
        self._manifest: dict[str, Any] = {
            "schema": BUNDLE_SCHEMA,
            "runId": self.run_id,
            "workflowName": name if verbatim else redact(name),
            "startedAt": iso(started),
            "status": RUNNING,
            "paths": {"session": SESSION, "artifacts": ARTIFACTS},
        }
        replace(out / MANIFEST, self._manifest)
        self._backlog = backlog or Backlog()
        # -- Guarded by the condition: what the callers' threads use --
        self._state = threading.Condition()
        self._normalizer = Normalizer()
        self._owner = Owner(node, attempt)
        self._attempts: set[str] = set()
        self._session: str | None = None
        self._accepting = True
        # -- The writer's own --
        self._artifacts = ArtifactStore(out)
        self._capture: Capture | None = None
        self._failure: Failure | None = None
        self._said = True
        self._ended = False
        self._writer = threading.Thread(target=self._write, name="journal-writer", daemon=True)
        self._writer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(wait=0)

    # -- What happens --

    def bind(self, session: str, *, cwd: str, file: Path | None = None, follow: bool = False) -> None:
        """The conversation is ``session`` from now on; another one than before gets a capture of its own.

        ``file``: its session file. ``follow``: read its entries from there, those that are appended
        from now on; otherwise :meth:`entry` tells them.
        """
        at = time.time()
        with self._state:
            if not self._accepting or session == self._session:
                return
            followed = SessionFile(file, session) if follow and file is not None else None
            there = followed is None or followed.begin()
            binding = {"schema": BINDING_SCHEMA, "runId": self.run_id, "piSessionId": session}
            if file is not None and there:
                binding["piSessionFile"] = str(file)
            binding |= {"cwd": cwd, "boundAt": iso(at)}
            if self._session is not None:
                self._leave(at)
            self._session = session
            parts = (SESSION, SEGMENTS, self._owner.attempt) if self._attempts else (SESSION,)
            self._attempts.add(self._owner.attempt)
            self._backlog.add(partial(self._begin, parts, binding, followed))

    def own(self, node: str, attempt: str) -> None:
        """What begins from now on belongs to ``attempt`` of ``node``; what has begun keeps its owner."""
        if not (is_name(node) and is_name(attempt)):
            raise ValueError(
                "a node's and an attempt's name are letters, digits, '.', '_' and '-', at most 64"
            )
        with self._state:
            self._owner = Owner(node, attempt)

    def receive(self, event: Mapping[str, Any], at: float | None = None, size: int = 0) -> None:
        """Record an event of Pi's, received at ``at`` (epoch seconds; now).

        ``size``: the bytes it came in, when the caller knows them.
        """
        at = time.time() if at is None else at
        size = size or sum(map(len, strings(event)))
        with self._state:
            if not self._accepting:
                return
            try:
                for record in self._normalizer.feed(event, at, self._owner, size):
                    if self._session is None:
                        self._stop(
                            Failure(at, "not_bound", "events came before the session that they belong to")
                        )
                        return
                    self._put(partial(self._on, Capture.event, record), record.size, at)
            except Mismatch as error:
                self._backlog.add(partial(self._mark, Failure(at, "unmatched_event", str(error))))
            except Exception as error:
                # A fault of ours must not become one of whoever is recorded.
                self._stop(failure_of(error))
            if not self._normalizer.in_turn:
                self._state.notify_all()

    def entry(
        self,
        entry: Mapping[str, Any],
        *,
        raw: bytes | None = None,
        key: object = None,
        at: float | None = None,
        size: int = 0,
    ) -> None:
        """Pi has stored ``entry``, seen at ``at`` (epoch seconds; now). ``raw``: its JSON as Pi wrote it.

        ``key``: the ``key`` of the ``message_end`` event whose message it is. ``size``: as for events.
        """
        at = time.time() if at is None else at
        size = OVERHEAD + (size or sum(map(len, strings(entry))))
        with self._state:
            if self._accepting and self._session is not None:
                self._put(partial(self._on_entry, Settled(entry, raw, at, key), size), size, at)

    def link(self, key: object, entry: object) -> None:
        """The message of the ``message_end`` event with that ``key`` is the recorded entry with that id."""
        with self._state:
            if self._accepting:
                self._backlog.add(partial(self._on, Capture.link, key, entry))

    def miss(self, message: str) -> None:
        """Something of the source can't be read: the capture isn't complete, and goes on."""
        with self._state:
            if self._accepting:
                self._backlog.add(partial(self._mark, Failure(time.time(), "unmatched_event", message)))

    def fail(self, code: str, message: str) -> None:
        """The source can't tell everything any more: end the capture as failed."""
        with self._state:
            self._stop(Failure(time.time(), code, message))

    def pace(self) -> None:
        """Wait until there is room for more, for a source that can be kept waiting.

        When nothing moves for :data:`PATIENCE_S` seconds, the capture ends as failed.
        """
        if not self._backlog.wait_for_room(PATIENCE_S):
            self.fail("queue_limit", "the journal could not be written as fast as it came")

    @property
    def in_turn(self) -> bool:
        """Whether a turn goes on."""
        return self._normalizer.in_turn

    @property
    def recording(self) -> bool:
        """Whether what happens is still recorded."""
        return self._accepting

    # -- How it ends --

    def end(self, status: str = COMPLETED) -> Outcome:
        """The source ended: nothing follows, whatever had begun. ``status``: of the run, for the manifest."""
        return self._finish(0.0, status, over=True)

    def close(self, wait: float = TURN_WAIT_S, status: str = COMPLETED) -> Outcome:
        """Stop: after the turn that is going on, which is waited for ``wait`` seconds at most."""
        return self._finish(wait, status, over=False)

    def _finish(self, wait: float, status: str, *, over: bool) -> Outcome:
        until = time.monotonic() + wait
        with self._state:
            while self._accepting and self._normalizer.in_turn and (left := until - time.monotonic()) > 0:
                self._state.wait(left)
            if self._accepting:
                open_ended = self._normalizer.unfinished if over else self._normalizer.in_turn
                how = "the source ended" if over else "recording was stopped"
                failure = Failure(time.time(), "turn_unfinished", f"{how} while Pi was at work")
                self._stop(failure if open_ended else None)
        while self._writer.is_alive():
            moved = self._backlog.moved
            self._writer.join(PATIENCE_S)
            if moved == self._backlog.moved:
                break
        if self._writer.is_alive():
            stuck = Failure(time.time(), "event_write_failed", "the disk does not answer")
            return Outcome(FAILED, self._failure or stuck, False)
        if self._manifest["status"] == RUNNING:
            self._manifest |= {"finishedAt": iso(time.time()), "status": status}
            self._list()
        return Outcome(FAILED if self._failure else COMPLETE, self._failure, self._said)

    # -- With the condition held --

    def _put(self, work: Callable[[], None], size: int, at: float) -> None:
        if not self._backlog.put(work, size):
            self._stop(Failure(at, "queue_limit", "more waits to be written than the queue may hold"))

    def _leave(self, at: float) -> None:
        """The conversation is another one: its capture begins under an attempt no folder has."""
        if self._normalizer.unfinished:
            failure = Failure(at, "turn_unfinished", "the session was left while Pi was at work")
            self._backlog.add(partial(self._mark, failure))
        self._normalizer.leave()
        attempt, number = self._owner.attempt, len(self._attempts)
        base = re.sub(r"-[0-9]+\Z", "", attempt) if number > 1 else attempt
        while attempt in self._attempts:
            number += 1
            attempt = f"{base[:56]}-{number}"
        self._owner = self._owner._replace(attempt=attempt)

    def _stop(self, failure: Failure | None) -> None:
        if self._accepting:
            self._accepting = False
            self._backlog.add(partial(self._end, failure))
            self._state.notify_all()

    # -- On the writer's thread --

    def _write(self) -> None:
        try:
            while not self._ended:
                if not (work := self._backlog.take(wait=False)):
                    self._guarded(self._flush)
                    work = self._backlog.take(wait=True)
                for one in work:
                    if self._ended:
                        break
                    self._guarded(one)
        finally:
            self._backlog.close()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            # Also one nobody foresaw: nobody shall notice but who reads the capture.
            self._abort(failure_of(error))

    def _flush(self) -> None:
        if self._capture is not None and not self._ended:
            self._capture.flush()

    def _on(self, act: Callable[..., None], *given: Any) -> None:
        if self._capture is not None:
            act(self._capture, *given)

    def _on_entry(self, settled: Settled, size: int) -> None:
        self._on(Capture.entry, settled)
        self._backlog.done(1, size)

    def _mark(self, failure: Failure) -> None:
        self._failure = self._failure or failure
        self._on(Capture.mark, failure)

    def _begin(self, parts: tuple[str, ...], binding: Mapping[str, str], file: SessionFile | None) -> None:
        if self._capture is not None:
            self._close_capture(None)
            self._capture = None
            self._manifest["paths"].setdefault("segments", []).append("/".join(parts))
            self._list()
        self._capture = Capture(
            self._out.joinpath(*parts),
            self._artifacts,
            binding,
            verbatim=self._verbatim,
            file=file,
            written=self._backlog.done,
            crowded=lambda: self._backlog.crowded,
        )

    def _end(self, failure: Failure | None, *, broken: bool = False) -> None:
        self._ended = True
        if self._capture is None:
            failure = failure or Failure(time.time(), "not_bound", "no Pi session came")
            with contextlib.suppress(CaptureFailed):
                self._capture = Capture(self._out / SESSION, self._artifacts, None, verbatim=self._verbatim)
        self._close_capture(failure, broken=broken)

    def _abort(self, failure: Failure) -> None:
        with self._state:
            self._accepting = False
            self._state.notify_all()
        if self._ended:
            self._failure, self._said = self._failure or failure, False  # It broke while it was ended.
        else:
            self._end(failure, broken=True)

    def _close_capture(self, failure: Failure | None, *, broken: bool = False) -> None:
        self._failure = self._failure or failure
        if self._capture is None:
            self._said = False
            return
        try:
            self._capture.finish(failure, broken=broken)
        except CaptureFailed as error:
            self._failure, self._said = self._failure or error.failure, False
        self._failure = self._failure or self._capture.failure

    def _list(self) -> None:
        """Write the manifest; that it can't be written is seen by who reads it."""
        try:
            replace(self._out / MANIFEST, self._manifest)
        except OSError:
            self._said = False
