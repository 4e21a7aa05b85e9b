"""A receiver that keeps the protocol's rules for receivers, in memory: what the scenarios are tried on."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

Key = tuple[str, str, int]


class Reference:
    """Takes batches at ``url``, with ``token``, up to ``max_tier``; ``read`` gives back a session."""

    def __init__(
        self, token: str, *, max_tier: int = 2, max_events: int = 50, max_bytes: int = 262_144
    ) -> None:
        self.token, self.max_tier = token, max_tier
        self._max_events, self._max_bytes = max_events, max_bytes
        self._events: dict[Key, dict[str, Any]] = {}
        self._seen: set[Key] = set()
        self.duplicates = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self.say(200, outer.well_known)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                self.say(*outer.answer(headers, body))

            def say(self, status: int, body: dict[str, Any]) -> None:
                encoded = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(encoded)))
                self.end_headers()
                self.wfile.write(encoded)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.well_known = {
            "protocol": [1],
            "max_tier": max_tier,
            "capabilities": ["events", "forget"],
            "batch": {"max_events": max_events, "max_bytes": max_bytes},
        }

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        if headers.get("authorization") != f"Bearer {self.token}":
            return 401, {"reason": "unknown_token"}
        if headers.get("sessionpipe-protocol") != "1":
            return 400, {"reason": "unsupported_protocol", "supported": [1]}
        events = json.loads(body)["events"]
        if len(events) > self._max_events or len(body) > self._max_bytes:
            return 413, {"reason": "too_big"}
        if any(event["tier"] > self.max_tier for event in events):
            return 403, {"reason": "tier_above_max", "max_tier": self.max_tier}
        fresh = [event for event in events if self._store(event)]
        self.duplicates += len(events) - len(fresh)
        count = {"accepted": len(fresh), "duplicates": len(events) - len(fresh)}
        return 202, {**count, "rejected": [], "max_tier": self.max_tier}

    def _store(self, event: dict[str, Any]) -> bool:
        key = (event["harness"]["name"], event["session"]["id"], event["session"]["seq"])
        if key in self._seen:
            return False
        self._seen.add(key)
        if event["type"] == "session.forgotten":
            self._events = {k: e for k, e in self._events.items() if k[:2] != key[:2]}
        else:
            self._events[key] = event
        return True

    def read(self, session: str) -> list[dict[str, Any]]:
        return [event for key, event in sorted(self._events.items()) if key[1] == session]

    def __enter__(self) -> Reference:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
