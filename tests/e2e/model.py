"""A model on loopback that says what a script tells it: the real agents talk to it, and to nobody else.

A script is a list of turns, one for each request. A turn is a text to say, or a tool call as
``(tool, arguments)``, a :class:`Held` text, or the status of a failure. It is spoken in the dialects the
agents use: chat completions (Pi), responses (Codex), messages (Claude Code) and Gemini's own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import PATIENCE_S


class Held(str):
    """A text behind which nothing comes any more, until the one who asked goes away."""


Said = str | tuple[str, dict[str, Any]]
Turn = Said | int


class Model(ThreadingHTTPServer):
    """The server; ``asked`` holds the bodies it was sent."""

    daemon_threads = True

    def __init__(self, script: Sequence[Turn]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, Any]] = []
        self._script = iter(script)
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def script(self, turns: list[Turn]) -> None:
        """Say these; what is put into the list later is said, too."""
        self._script = iter(turns)

    def turn(self, body: dict[str, Any]) -> Turn:
        with self._lock:
            self.asked.append(body)
            return next(self._script, "That is all.")


@contextmanager
def model(*script: Turn) -> Iterator[Model]:
    server = Model(script)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Model
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or b"{}")
        path = self.path.partition("?")[0]
        if path.endswith("/chat/completions"):
            self._speak(body, _chat, named=False)
        elif path.endswith("/responses"):
            self._speak(body, _responses, named=True)
        elif path.endswith("/messages") and body.get("stream"):
            self._speak(body, _messages, named=True)
        elif path.endswith(":streamGenerateContent"):
            self._speak(body, _generate, named=False, closed=False)
        else:
            self._answer({"input_tokens": 1} if "count_tokens" in path else {}, 200)

    def do_GET(self) -> None:
        self._answer({"data": [], "models": []}, 200)

    def _answer(self, value: Any, status: int) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _speak(
        self,
        body: dict[str, Any],
        dialect: Callable[[Said], list[dict[str, Any]]],
        *,
        named: bool,
        closed: bool = True,
    ) -> None:
        turn = self.server.turn(body)
        if isinstance(turn, int):
            self._answer({"error": {"message": "made up", "type": "server_error"}}, turn)
            return
        held = isinstance(turn, Held)
        text = ""
        for event in dialect(turn)[: 1 if held else None]:
            text += f"event: {event['type']}\n" if named else ""
            text += f"data: {json.dumps(event)}\n\n"
        text += "data: [DONE]\n\n" if closed and not named and not held else ""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(text.encode())
        self.close_connection = True
        if held:
            self.connection.settimeout(PATIENCE_S)
            with suppress(OSError):
                self.rfile.read(1)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _chat(turn: Said) -> list[dict[str, Any]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "made-up",
            "choices": [choice],
        }

    if isinstance(turn, str):
        return [chunk({"role": "assistant", "content": turn}), chunk({}, "stop")]
    tool, arguments = turn
    function = {"name": tool, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": f"call_{tool}", "type": "function", "function": function}
    return [chunk({"role": "assistant", "tool_calls": [call]}), chunk({}, "tool_calls")]


def _responses(turn: Said) -> list[dict[str, Any]]:
    item: dict[str, Any]
    if isinstance(turn, str):
        content = [{"type": "output_text", "text": turn, "annotations": []}]
        item = {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    else:
        tool, arguments = turn
        item = {"type": "function_call", "id": "fc_1", "call_id": f"call_{tool}", "name": tool}
        item["arguments"] = json.dumps(arguments)
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": usage}
    return [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]


def _messages(turn: Said) -> list[dict[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "made-up", "content": []}
    if isinstance(turn, str):
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta, stop = {"type": "text_delta", "text": turn}, "end_turn"
    else:
        tool, arguments = turn
        block = {"type": "tool_use", "id": f"toolu_{tool}", "name": tool, "input": {}}
        delta, stop = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}, "tool_use"
    return [
        {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def _generate(turn: Said) -> list[dict[str, Any]]:
    def chunk(part: dict[str, Any], **more: Any) -> dict[str, Any]:
        candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, **more}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "made-up"}

    if isinstance(turn, str):
        return [chunk({"text": turn}), chunk({"text": ""}, finishReason="STOP")]
    tool, arguments = turn
    return [chunk({"functionCall": {"name": tool, "args": arguments}}, finishReason="STOP")]
