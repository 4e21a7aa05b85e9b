"""A real HTTP receiver on the loopback interface that answers as a test tells it to."""

from __future__ import annotations

import json
import threading
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
        events: list[dict[str, Any]] = json.loads(self.body)["events"]
        return events


@dataclass
class Answer:
    """What to say: JSON unless ``body`` is bytes. ``raw`` takes the whole answer into its own hands."""

    status: int = 202
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: Callable[[BaseHTTPRequestHandler], None] | None = None


class Receiver:
    """Takes ``POST``s; answers them with ``answers`` in turn, then with 202.

    ``well_known`` is what ``GET /.well-known/sessionpipe`` gives; 404 while it is None.
    """

    def __init__(self, *answers: Answer, well_known: Any = None) -> None:
        self.answers = list(answers)
        self.well_known: Any = well_known
        self.well_known_headers: dict[str, str] = {}
        self.requests: list[Request] = []
        self.asked = 0
        self.arrived = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                outer.asked += 1
                if outer.well_known is None:
                    self.say(Answer(404, {}))
                else:
                    self.say(Answer(200, outer.well_known, outer.well_known_headers))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request("POST", self.path, headers, body, self.client_address[1])
                with outer.arrived:
                    answer = outer.answers.pop(0) if outer.answers else None
                    outer.requests.append(request)
                    outer.arrived.notify_all()
                if answer is None:
                    count = len(request.events)
                    answer = Answer(202, {"accepted": count, "duplicates": 0, "rejected": [], "max_tier": 3})
                self.say(answer)

            def say(self, answer: Answer) -> None:
                if answer.raw is not None:
                    answer.raw(self)
                    self.close_connection = True
                    return
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                return  # A sender that hangs up is part of the tests.

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every event that came, in order."""
        return [event for request in self.requests for event in request.events]

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
