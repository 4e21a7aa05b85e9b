"""A receiver that keeps the protocol's rules for receivers, in memory: what the scenarios are tried on.

Each rule is a method of its own, so that a test can break one and see which scenario notices.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sessionpipe.sinks import signing

Key = tuple[str, str, int]
Answer = tuple[int, Any]
EVENTS = "/api/sessionpipe/v1/events"
_RANK = {"custom": 3, "harness": 2, "first-ask": 1}


class Reference:
    """Takes batches at ``url``, with ``token``, up to ``max_tier``; ``read`` gives back a session."""

    def __init__(
        self,
        token: str,
        *,
        max_tier: int = 2,
        max_events: int = 50,
        max_bytes: int = 262_144,
        secret: str | None = None,
    ) -> None:
        self.token, self.max_tier, self.secret = token, max_tier, secret
        self.max_events, self.max_bytes = max_events, max_bytes
        self.events: dict[Key, dict[str, Any]] = {}
        self.seen: set[Key] = set()
        self.forgotten: dict[tuple[str, str], int] = {}
        self.duplicates = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self.say(*outer.get(self.path, self.lower()))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.say(*outer.answer(self.lower(), body))

            def lower(self) -> dict[str, str]:
                return {name.lower(): value for name, value in self.headers.items()}

            def say(self, status: int, body: Any) -> None:
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
        self.well_known: Any = {
            "protocol": [1],
            "max_tier": max_tier,
            "capabilities": ["events", "forget"],
            "endpoints": {"events": EVENTS, "sessions": "/sessions"},
            "batch": {"max_events": max_events, "max_bytes": max_bytes},
        }

    # -- what is asked --

    def get(self, path: str, headers: dict[str, str]) -> Answer:
        asked = dict(parse_qsl(urlsplit(path).query))
        if path == "/.well-known/sessionpipe":
            return 200, self.well_known
        if not self.may_read(headers):
            return 401, {"reason": "unknown_token"}
        if path == "/sessions":
            return 200, {"sessions": [{"id": name[1], "session": self.block(name)} for name in self.names()]}
        return 200, {"events": self.read(asked["session"], asked.get("harness"))}

    def answer(self, headers: dict[str, str], body: bytes) -> Answer:
        """The answer to a batch: the first rule that is against it, or what became of each event."""
        for against in (self.no_token, self.not_signed, self.other_protocol, self.too_many_bytes):
            if refused := against(headers, body):
                return refused
        events = self.parsed(body)
        if isinstance(events, tuple):
            return events
        for refuses in (self.too_many_events, self.too_high):
            if refused := refuses(events):
                return refused
        taken, rejected = 0, []
        for event in events:
            if reason := self.unfit(event):
                rejected.append({"id": event["id"], "reason": reason})
            else:
                taken += self.take(event)
        duplicates = len(events) - taken - len(rejected)
        self.duplicates += duplicates
        count = {"accepted": taken, "duplicates": duplicates, "rejected": rejected}
        return self.status(), {**count, "max_tier": self.max_tier}

    # -- one rule each --

    def status(self) -> int:
        return 202

    def no_token(self, headers: dict[str, str], _body: bytes) -> Answer | None:
        right = headers.get("authorization") == f"Bearer {self.token}"
        return None if right else (401, {"reason": "unknown_token"})

    def may_read(self, headers: dict[str, str]) -> bool:
        return headers.get("authorization") == f"Bearer {self.token}"

    def not_signed(self, headers: dict[str, str], body: bytes) -> Answer | None:
        if self.secret is None:
            return None
        stamp = headers.get("webhook-timestamp", "0")
        message = f"{headers.get('webhook-id')}.{stamp}.".encode() + body
        right = base64.b64encode(
            hmac.new(signing.key(self.secret), message, hashlib.sha256).digest()
        ).decode()
        fresh = abs(time.time() - int(stamp)) < 300
        good = headers.get("webhook-signature") == f"v1,{right}" and fresh
        return None if good else (401, {"reason": "signature"})

    def other_protocol(self, headers: dict[str, str], _body: bytes) -> Answer | None:
        if headers.get("sessionpipe-protocol") == "1":
            return None
        return 400, {"reason": "unsupported_protocol", "supported": [1]}

    def too_many_bytes(self, _headers: dict[str, str], body: bytes) -> Answer | None:
        return (413, {"reason": "too_big"}) if len(body) > self.max_bytes else None

    def parsed(self, body: bytes) -> list[dict[str, Any]] | Answer:
        try:
            events = json.loads(body)["events"]
        except (ValueError, KeyError, TypeError):
            return 400, {"reason": "no_batch"}
        return events if events else (400, {"reason": "empty"})

    def too_many_events(self, events: list[dict[str, Any]]) -> Answer | None:
        return (413, {"reason": "too_big"}) if len(events) > self.max_events else None

    def too_high(self, events: list[dict[str, Any]]) -> Answer | None:
        if all(event["tier"] <= self.max_tier for event in events):
            return None
        return 403, {"reason": "tier_above_max", "max_tier": self.max_tier}

    def unfit(self, event: dict[str, Any]) -> str | None:
        if event["session"]["seq"] < 0:
            return "seq"
        return "tier_type" if event["type"].startswith("tool.") and event["tier"] == 0 else None

    def identity(self, event: dict[str, Any]) -> Key:
        return event["harness"]["name"], event["session"]["id"], event["session"]["seq"]

    def take(self, event: dict[str, Any]) -> bool:
        key = self.identity(event)
        if key in self.seen or self.is_gone(key):
            return False
        self.seen.add(key)
        if event["type"] == "session.forgotten":
            self.forget(key)
        else:
            self.events[key] = self.kept(event)
        return True

    def kept(self, event: dict[str, Any]) -> dict[str, Any]:
        return event

    def forget(self, key: Key) -> None:
        self.events = {k: e for k, e in self.events.items() if k[:2] != key[:2]}
        self.forgotten[key[:2]] = key[2]

    def is_gone(self, key: Key) -> bool:
        return key[2] <= self.forgotten.get(key[:2], -1)

    # -- reads --

    def read(self, session: str, harness: str | None = None) -> list[dict[str, Any]]:
        held = sorted(self.events.items(), key=self.place)
        return [event for key, event in held if key[1] == session and harness in (None, key[0])]

    def place(self, item: tuple[Key, dict[str, Any]]) -> Any:
        return item[0]

    def names(self) -> set[tuple[str, str]]:
        return {key[:2] for key in self.events}

    def block(self, name: tuple[str, str]) -> dict[str, Any]:
        block: dict[str, Any] = {}
        for key in sorted(key for key in self.events if key[:2] == name):
            block = self.merged(block, self.events[key]["session"])
        return block

    def merged(self, known: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
        said = {field: value for field, value in said.items() if value not in (None, "")}
        if _RANK.get(said.get("title_source", ""), 0) < _RANK.get(known.get("title_source", ""), 0):
            said = {field: value for field, value in said.items() if not field.startswith("title")}
        return known | said

    def __enter__(self) -> Reference:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
