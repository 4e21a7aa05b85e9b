"""A receiver that keeps what it is sent and can be told to be down, in a thread of the benchmark's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec


class Kept:
    """The batches that were taken, as they came; ``down`` while every request is refused."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[bytes] = []
        self.refused = 0
        self.down = False

    def events(self) -> list[dict[str, Any]]:
        """Every event that was taken, in the order in which they came."""
        return [event for body in self.bodies for event in msgspec.json.decode(body)["events"]]


@contextmanager
def receiving(*, down: bool = False) -> Iterator[Kept]:
    """Run one on loopback."""
    kept = Kept("")
    kept.down = down

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._say(404, {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if kept.down:
                kept.refused += 1
                self._say(503, {})
                return
            kept.bodies.append(body)
            self._say(
                202, {"accepted": len(msgspec.json.decode(body)["events"]), "duplicates": 0, "rejected": []}
            )

        def _say(self, status: int, said: dict[str, Any]) -> None:
            text = msgspec.json.encode(said)
            self.send_response(status)
            if status == 503:
                self.send_header("retry-after", "1")  # An hour of the day is a moment here.
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kept.url = f"http://127.0.0.1:{server.server_port}/events"
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
