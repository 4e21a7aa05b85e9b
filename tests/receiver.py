"""A real HTTP receiver on the loopback interface that answers as a test tells it to."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass
class Request:
    """What came: header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    port: int = 0

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events it carries, in order, as JSON or as log records."""
        if self.headers.get("content-type") == "application/x-protobuf":
            from tests.collector import received

            return [record.body for record in received(self)]
        events: list[dict[str, Any]] = json.loads(self.body)["events"]
        return events


@dataclass
class Answer:
    """What to say: JSON unless ``body`` is bytes; made of the request when ``body`` can be called.

    ``raw`` takes the whole answer into its own hands.
    """

    status: int = 202
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: Callable[[BaseHTTPRequestHandler], None] | None = None


# --- receivers that misbehave: what ``Answer.raw`` can be ----------------------------------------------


def reset(handler: BaseHTTPRequestHandler) -> None:
    """The request was read, and the connection is torn down without a word."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    """The connection is closed politely, without a word."""
    handler.connection.shutdown(socket.SHUT_RDWR)


def hang(handler: BaseHTTPRequestHandler) -> None:
    """Nothing is answered for as long as the sender waits."""
    with contextlib.suppress(OSError):
        handler.connection.recv(1)


def garbage(handler: BaseHTTPRequestHandler) -> None:
    """Something that is not HTTP."""
    handler.wfile.write(b"220 mail.example ESMTP\r\n")


def cut_head(handler: BaseHTTPRequestHandler) -> None:
    """Half a line of an answer, and no more."""
    handler.wfile.write(b"HTTP/1.1 202 Acc")


def drip(handler: BaseHTTPRequestHandler) -> None:
    """A header every moment, and never the last one."""
    _for_ever(handler, b"HTTP/1.1 202 Accepted\r\n", b"x-slow: 1\r\n")


def drip_body(status: int) -> Callable[[BaseHTTPRequestHandler], None]:
    """A whole head, and a body that takes for ever."""
    head = f"HTTP/1.1 {status} Said\r\ncontent-length: 100000\r\n\r\n".encode()
    return lambda handler: _for_ever(handler, head, b" ")


def cut(status: int) -> Callable[[BaseHTTPRequestHandler], None]:
    """A body that breaks off before the length it was said to have."""
    head = f"HTTP/1.1 {status} Said\r\ncontent-length: 500\r\n\r\n".encode()
    return lambda handler: _write(handler, head + b'{"accepted": 1, "reas')


def endless(status: int) -> Callable[[BaseHTTPRequestHandler], None]:
    """A body without an end, as fast as it is taken."""
    head = f"HTTP/1.1 {status} Said\r\n\r\n".encode()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(head)
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(b" " * 65536)

    return answer


def bomb(status: int) -> Callable[[BaseHTTPRequestHandler], None]:
    """A small body that is 16 MiB when it is unpacked."""
    packed = gzip.compress(b'{"x": "' + b" " * (16 << 20), compresslevel=1)
    head = f"HTTP/1.1 {status} Said\r\ncontent-encoding: gzip\r\ncontent-length: {len(packed)}\r\n\r\n"
    return lambda handler: _write(handler, head.encode() + packed)


def _write(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    with contextlib.suppress(OSError):
        handler.wfile.write(data)


def _for_ever(handler: BaseHTTPRequestHandler, first: bytes, then: bytes) -> None:
    with contextlib.suppress(OSError):
        handler.wfile.write(first)
        while True:
            handler.wfile.write(then)
            time.sleep(0.02)


class Receiver:
    """Takes ``POST``s; answers them with ``answers`` in turn, then with 202.

    ``well_known`` is what ``GET /.well-known/sessionpipe`` gives, as a body or an :class:`Answer`;
    404 while it is None.
    """

    def __init__(self, *answers: Answer, well_known: Any = None) -> None:
        self.answers = list(answers)
        self.well_known: Any = well_known
        self.requests: list[Request] = []
        self.asked = 0
        self.arrived = threading.Condition()
        self._connections: set[socket.socket] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                outer._connections.add(self.request)
                super().setup()

            def finish(self) -> None:
                outer._connections.discard(self.request)
                super().finish()

            def do_GET(self) -> None:
                outer.asked += 1
                if outer.well_known is None:
                    self.say(Answer(404, {}))
                elif isinstance(outer.well_known, Answer):
                    self.say(outer.well_known)
                else:
                    self.say(Answer(200, outer.well_known))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request("POST", self.path, headers, body, self.client_address[1])
                with outer.arrived:
                    answer = outer.answers.pop(0) if outer.answers else None
                    outer.requests.append(request)
                    outer.arrived.notify_all()
                self.say(answer or outer.taken(request), request)

            def say(self, answer: Answer, request: Request | None = None) -> None:
                if answer.raw is not None:
                    answer.raw(self)
                    self.close_connection = True
                    return
                body = answer.body(request) if callable(answer.body) else answer.body
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if answer.status != 204:
                    self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(b"" if answer.status == 204 else body)

            def log_message(self, format: str, *args: Any) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                return  # A sender that hangs up is part of the tests.

        self._make = lambda port: Server(("127.0.0.1", port), Handler)
        self._server = self._make(0)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread: threading.Thread | None = None

    def taken(self, request: Request) -> Answer:
        """What is answered when nothing else was said: all of it is taken."""
        count = len(request.events)
        return Answer(202, {"accepted": count, "duplicates": 0, "rejected": [], "max_tier": 3})

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every event that came, in order."""
        return [event for request in self.requests for event in request.events]

    def leave(self) -> None:
        """Be away: nobody listens, and kept connections are closed."""
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join()

    def come_back(self) -> None:
        """Listen again, at the same address."""
        self._server = self._make(self._server.server_address[1])
        self._listen()

    def _listen(self) -> None:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Receiver:
        self._listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
