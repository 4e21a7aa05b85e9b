"""A receiver in a process of its own: ``python -m tests.benchmarks.receiver MAX_EVENTS MAX_BYTES``.

It prints its port, then takes everything that is sent to it, a thread a connection, and says how
many events that were, which it counts without reading them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    batch: dict[str, int]

    def do_GET(self) -> None:
        self._say(200, {"protocol": [1], "capabilities": ["events"], "batch": self.batch})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/logs":
            self.send_response(200)  # An empty message: a collector took everything.
            self.send_header("content-length", "0")
            self.end_headers()
        else:
            self._say(202, {"accepted": body.count(b'{"protocol":1'), "duplicates": 0, "rejected": []})

    def _say(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: object) -> None:
        return


@contextmanager
def receiver(max_events: int, max_bytes: int) -> Iterator[str]:
    """Run one; its URL."""
    command = [sys.executable, "-m", "tests.benchmarks.receiver", str(max_events), str(max_bytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def main(max_events: str, max_bytes: str) -> None:
    Handler.batch = {"max_events": int(max_events), "max_bytes": int(max_bytes)}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
