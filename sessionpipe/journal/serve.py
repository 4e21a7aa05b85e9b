"""The live view of a journal over HTTP on this machine: a snapshot, then patches, as server-sent events.

``GET /TOKEN/events`` is an endless ``text/event-stream``, which ``curl -N`` and a browser's ``EventSource``
read. Each event is one JSON message; of a connection's messages the first is a snapshot::

    {"type": "snapshot", "revision": 1,
     "view": {"session": {"binding": …, "capture": …, "entries": […], "events": […], "status": {…}}}}
    {"type": "patch", "revision": 2,
     "ops": [{"op": "append", "path": "/session/events", "value": [event, event, …]},
             {"op": "append", "path": "/session/entries", "value": [entry, …]},
             {"op": "replace", "path": "/session/capture", "value": {…}}, …]}

``revision`` counts up by one within a connection. ``append`` adds the records of ``value``, each as it is in
the journal and in its order, to the array at ``path``; ``replace`` puts ``value`` in its place, also at
``/session/binding`` and ``/session/status``. ``status`` is ours: ``{"status", "reason"}`` as ``sessionpipe
journal verify`` judges a capture, which says "unverified" where ``capture`` can't be believed. A later
snapshot replaces everything: a journal was cut, or a run has begun another session. A new connection begins
with a snapshot, so nothing of a lost one is missed. ``GET /TOKEN/session`` is one view as plain JSON.

The journal on disk is the queue: each connection has its own place in it and reads on as fast as it is read,
so a slow reader costs no memory, and one that takes nothing for :data:`PATIENCE_S` is let go.

Other people of this machine don't know the token. Other web pages have neither it nor leave to read: a name
that is not this machine's own in ``Host`` (a rebound DNS name) and any other ``Origin`` are refused, and no
CORS header is sent.
"""

from __future__ import annotations

import hmac
import secrets
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sessionpipe.journal.bundle import UNAVAILABLE, Bundle, Capture, Parts, Tally, find, read_capture
from sessionpipe.journal.files import Line, Malformed, Unusable, dump, parse, read_object
from sessionpipe.journal.format import BINDING, ENTRIES, EVENTS
from sessionpipe.journal.index import Replaced, Tail, judged
from sessionpipe.journal.reducer import seq_of

#: Records that come within this time go in one patch.
BATCH_S = 0.1
#: The bytes of records in a patch after which the next one begins.
PATCH_BYTES = 512 << 10
#: So often something is sent, that a reader which is gone be noticed.
HEARTBEAT_S = 15.0
#: How long one write, of no more than so many bytes, may stand still.
PATIENCE_S = 30.0
WRITE_BYTES = 64 << 10
CONNECTIONS = 32
_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class Feed:
    """One reader's view of the newest session in a folder, as JSON in pieces."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open()

    def _open(self) -> None:
        self._bundle: Bundle = find(self._folder)
        self._parts: Parts | None = self._bundle.sessions[-1] if self._bundle.sessions else None
        self._capture = Capture(None)
        self._tally = Tally()
        parts = self._parts or ()
        self._events = Tail(self._bundle, (*parts, EVENTS))
        self._entries = Tail(self._bundle, (*parts, ENTRIES))
        #: What was sent last of what is replaced as a whole.
        self._sent: dict[str, Any] = {}

    # -- What is sent --

    def view(self) -> Iterator[bytes]:
        """The whole view, anew; what is handed over has no line feed."""
        self._open()
        self._look()
        yield b'{"session":{"binding":' + dump(self._sent["binding"])
        yield b',"capture":' + dump(self._sent["capture"]) + b',"entries":['
        yield from _separated(self._new(self._entries, self._entry))
        yield b'],"events":['
        yield from _separated(self._new(self._events, self._event))
        self._sent["status"] = self._status()
        yield b'],"status":' + dump(self._sent["status"]) + b"}}"

    def changes(self) -> Iterator[bytes]:
        """What has changed since, as operations; raises :class:`Replaced` when only another view will do."""
        # The manifest is read here, then the capture, then the journals: each is the later for what it says.
        bundle = find(self._folder)
        if bundle.sessions != self._bundle.sessions:
            raise Replaced
        if self._parts is None:
            return
        self._bundle.manifest = bundle.manifest
        before = dict(self._sent)
        self._look()
        for name, records in (
            ("entries", self._new(self._entries, self._entry)),
            ("events", self._new(self._events, self._event)),
        ):
            for batch in _batches(records):
                yield b'{"op":"append","path":"/session/%s","value":[%s]}' % (name.encode(), b",".join(batch))
        # After the records that it counts: who has it has them.
        self._sent["status"] = self._status()
        for name, value in self._sent.items():
            if before[name] != value:
                yield b'{"op":"replace","path":"/session/%s","value":%s}' % (name.encode(), dump(value))

    # -- What there is --

    def _look(self) -> None:
        """Read what is replaced as a whole. Before the journals, which have by then what it counts."""
        binding = None
        if self._parts is not None:
            self._capture = read_capture(self._bundle.root, self._parts)
            with suppress(Unusable, Malformed):
                binding = read_object(self._bundle.root, (*self._parts, BINDING))
        self._sent |= {"binding": binding, "capture": self._capture.value}

    def _status(self) -> dict[str, Any]:
        if self._parts is None:
            return {"status": "unverified", "reason": "there is no journal yet"}
        tails = (self._entries, self._events)
        verdict = judged(self._capture, self._tally, tails, terminal=self._bundle.terminal)
        return {"status": verdict.status, "reason": verdict.reason}

    def _new(self, tail: Tail, accept: Any) -> Iterator[bytes]:
        problem = self._capture.problem
        unreadable = tail is self._events and problem is not None and problem.status == UNAVAILABLE
        if self._parts is None or unreadable:
            return
        for line in tail.new():
            try:
                accept(parse(line.data), line)
            except Malformed:
                self._tally.damaged(f"{tail.name}, line {line.number}: it can't be read")
                continue
            # A carriage return can only be white space here, and would end a line of the stream.
            yield line.data.replace(b"\r", b" ")

    def _event(self, record: dict[str, Any], line: Line) -> None:
        self._tally.event(seq_of(record), line.number)

    def _entry(self, record: dict[str, Any], line: Line) -> None:
        self._tally.entries += 1


def _separated(records: Iterator[bytes]) -> Iterator[bytes]:
    for number, record in enumerate(records):
        yield b"," + record if number else record


def _batches(pieces: Iterator[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece)
        if size >= PATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Handler(BaseHTTPRequestHandler):
    """One request: who asks, and what for."""

    server: Server
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        """Answer with the stream, one view, or why not."""
        if (refusal := self._refusal()) is not None:
            return self.send_error(*refusal)
        token, *rest = self.path.partition("?")[0].removeprefix("/").split("/")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            return self.send_error(
                HTTPStatus.NOT_FOUND, "No such page", "The address has a part nobody can guess."
            )
        if rest == ["events"]:
            return self._admitted(self._stream)
        if rest == ["session"]:
            return self._admitted(self._once)
        return self.send_error(HTTPStatus.NOT_FOUND, "No such page", "There are events and session.")

    def _refusal(self) -> tuple[HTTPStatus, str] | None:
        host = self.headers.get("Host", "")
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if name.lower() not in _HOSTS:
            return HTTPStatus.MISDIRECTED_REQUEST, "Not this machine's name"
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            return HTTPStatus.FORBIDDEN, "Not for other pages"
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return HTTPStatus.FORBIDDEN, "Not for other pages"
        return None

    def _admitted(self, answer: Any) -> None:
        if not self.server.places.acquire(blocking=False):
            return self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, "Too many readers")
        try:
            answer()
        except (OSError, Replaced):
            # Whoever read is gone, or takes nothing any more; or a view was cut while it was sent, and
            # half a message can't be taken back: the next connection gets a whole one.
            self.close_connection = True
        finally:
            self.server.places.release()

    def _head(self, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def end_headers(self) -> None:
        """What every answer has: it is for this reader alone, and for now."""
        for name, value in (
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
            ("Content-Security-Policy", "default-src 'none'"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        super().end_headers()

    def _once(self) -> None:
        self._head("application/json")
        self._write(Feed(self.server.folder).view())
        self._write([b"\n"])

    def _stream(self) -> None:
        self._head("text/event-stream; charset=utf-8")
        feed = Feed(self.server.folder)
        revision, wanted, sent_at = 0, True, 0.0
        while not self.server.closing.is_set():
            if wanted:
                revision += 1
                self._write([b'data: {"type":"snapshot","revision":%d,"view":' % revision])
                self._write(feed.view())
                self._write([b"}\n\n"])
                wanted, sent_at = False, time.monotonic()
            try:
                for ops in _batches(feed.changes()):
                    revision += 1
                    patch = b'data: {"type":"patch","revision":%d,"ops":[%s]}\n\n'
                    self._write([patch % (revision, b",".join(ops))])
                    sent_at = time.monotonic()
            except Replaced:
                wanted = True
            if time.monotonic() - sent_at > HEARTBEAT_S:
                self._write([b": still here\n\n"])
                sent_at = time.monotonic()
            self.server.closing.wait(BATCH_S)

    def _write(self, pieces: Iterable[bytes]) -> None:
        """Send all of it. Patience is for a write: short ones, so that slow is not taken for gone."""
        for batch in _batches(iter(pieces)):
            data = memoryview(b"".join(batch))
            while data:
                self.wfile.write(data[:WRITE_BYTES])
                data = data[WRITE_BYTES:]

    def version_string(self) -> str:
        """What the answers say they are from, and no more than that."""
        return "sessionpipe"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the address is a secret, and who reads is nobody's business."""


class Server(ThreadingHTTPServer):
    """Serves one folder's journal on the loopback interface; :attr:`url` is where."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.folder = folder
        self.token = secrets.token_urlsafe(18)
        self.closing = threading.Event()
        self.places = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        """The address of its pages, with the token."""
        return f"http://127.0.0.1:{self.server_address[1]}/{self.token}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that broke off is no event; a fault of ours is one line."""
        error = sys.exception()
        if not isinstance(error, OSError):
            print(f"sessionpipe: a reader's connection failed: {type(error).__name__}", file=sys.stderr)

    def server_close(self) -> None:
        """End every stream, and listen no longer."""
        self.closing.set()
        super().server_close()
