"""Bundles for tests: a journal is a list of events and a list of entries, written as a recorder would."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

RUN = "20260730T100000Z-review-3f2a9c1b"
START = datetime(2026, 7, 30, 10, tzinfo=UTC)


def at(ms: int) -> str:
    """A time so many milliseconds after the start."""
    return (START + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Story:
    """Events and entries as they come about, each event 10 ms after the one before unless told."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.entries: list[dict[str, Any]] = []
        self.ms = 0

    def event(self, type_: str, payload: Any = None, **ids: Any) -> dict[str, Any]:
        """Append an event."""
        self.ms += 10
        record = {
            "seq": len(self.events) + 1,
            "at": at(self.ms),
            "nodeId": "review",
            "attemptId": "a1",
            **ids,
            "type": type_,
            "payload": {} if payload is None else payload,
        }
        self.events.append(record)
        return record

    def entry(self, id_: str, message: Any) -> dict[str, Any]:
        """Append a message's entry."""
        record = {
            "seq": len(self.entries) + 1,
            "at": at(self.ms),
            "entry": {
                "type": "message",
                "id": id_,
                "parentId": None,
                "timestamp": at(self.ms),
                "message": message,
            },
        }
        self.entries.append(record)
        return record

    def said(self, turn: str, message: str, kind: str, index: int = 0, **fields: Any) -> None:
        """Append an assistant event; those about a block with their ``contentIndex``."""
        payload = {"type": kind, **({"contentIndex": index} if "_" in kind else {}), **fields}
        self.event("assistant_event", payload, turnId=turn, messageId=message)

    def text(self, turn: str, message: str, *deltas: str, kind: str = "text", index: int = 0) -> None:
        """Append a whole block of text or thinking."""
        self.said(turn, message, f"{kind}_start", index)
        for delta in deltas:
            self.said(turn, message, f"{kind}_delta", index, delta=delta)
        self.said(turn, message, f"{kind}_end", index, content="".join(deltas))

    def begin(self, turn: str, message: str, role: str = "assistant") -> None:
        """Append a message's start."""
        self.event("message_started", {"role": role}, turnId=turn, messageId=message)

    def settle(self, turn: str, message: str, entry: str | None, role: str = "assistant") -> None:
        """Append a message's end."""
        payload = {"role": role, "settled": entry is not None}
        if entry is not None:
            payload["entryId"] = entry
        self.event("message_finished", payload, turnId=turn, messageId=message)

    def tool(self, turn: str, message: str, call: str, name: str, args: Any, result: Any, *, updates: int = 0,
             error: bool = False) -> None:  # fmt: skip
        """Append a whole execution."""
        ids = {"turnId": turn, "messageId": message, "toolCallId": call}
        self.event("tool_execution_started", {"toolName": name, "args": args}, **ids)
        for _ in range(updates):
            self.event("tool_execution_updated", **ids)
        done = {"toolName": name, "isError": error, "result": result}
        self.event("tool_execution_finished", done, **ids)


def conversation() -> Story:
    """A question, thinking, a tool call, an answer: two turns, everything settled."""
    story = Story()
    story.event("turn_started", {"turnIndex": 0}, turnId="t1")
    story.begin("t1", "m1", "user")
    story.entry("e1", {"role": "user", "content": [{"type": "text", "text": "What is in README.md?"}]})
    story.settle("t1", "m1", "e1", "user")
    call = {"type": "toolCall", "id": "call_1", "name": "read", "arguments": {"path": "README.md"}}
    story.begin("t1", "m2")
    story.said("t1", "m2", "start")
    story.text("t1", "m2", "I should ", "read it.", kind="thinking")
    story.said("t1", "m2", "toolcall_start", 1)
    story.said("t1", "m2", "toolcall_delta", 1, delta='{"path":"READ')
    story.said("t1", "m2", "toolcall_delta", 1, delta='ME.md"}')
    story.said("t1", "m2", "toolcall_end", 1, toolCall=call)
    story.said("t1", "m2", "done", reason="toolUse")
    thinking = {"type": "thinking", "thinking": "I should read it."}
    story.entry("e2", {"role": "assistant", "content": [thinking, call]})
    story.settle("t1", "m2", "e2")
    result = {"content": [{"type": "text", "text": "# Hello\nA greeting."}]}
    story.tool("t1", "m2", "call_1", "read", {"path": "README.md"}, result, updates=2)
    story.begin("t1", "m3", "toolResult")
    story.entry(
        "e3", {"role": "toolResult", "toolCallId": "call_1", "toolName": "read", **result, "isError": False}
    )
    story.settle("t1", "m3", "e3", "toolResult")
    story.event("turn_finished", {"turnIndex": 0, "messageId": "m2", "toolCallIds": ["call_1"]}, turnId="t1")
    story.event("turn_started", {"turnIndex": 1}, turnId="t2")
    story.begin("t2", "m4")
    story.text("t2", "m4", "It says ", "hello.")
    story.said("t2", "m4", "done", reason="stop")
    story.entry("e4", {"role": "assistant", "content": [{"type": "text", "text": "It says hello."}]})
    story.settle("t2", "m4", "e4")
    story.event("turn_finished", {"turnIndex": 1, "messageId": "m4", "toolCallIds": []}, turnId="t2")
    return story


def line(record: Any) -> bytes:
    """A record as a line, with half a surrogate pair escaped as JavaScript does."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text).encode() + b"\n"


def lines(records: Iterable[Any]) -> bytes:
    """Records as a journal."""
    return b"".join(line(record) for record in records)


def capture(story: Story, status: str = "complete", **more: Any) -> dict[str, Any]:
    """What ``capture.json`` says of a story."""
    return {
        "schema": "pi-workflows.session-capture.v1",
        "eventSchema": "pi-workflows.session-event.v1",
        "status": status,
        "eventCount": len(story.events),
        "entryCount": len(story.entries),
        "lastEventSeq": len(story.events),
        **more,
    }


def failure(code: str = "event_write_failed") -> dict[str, Any]:
    """What a failed capture says of why."""
    return {"failure": {"failedAt": at(5000), "code": code, "message": "no space left"}}


def binding(**more: Any) -> dict[str, Any]:
    """``binding.json``."""
    return {
        "schema": "pi-workflows.session-binding.v1",
        "runId": RUN,
        "piSessionId": "01a22870-4a12-71ea-9449-b7f39273f321",
        "cwd": "/repo",
        "boundAt": at(0),
        **more,
    }


def manifest(**more: Any) -> dict[str, Any]:
    """``manifest.json`` of a run that is over."""
    return {
        "schema": "pi-workflows.run-bundle.v1",
        "runId": RUN,
        "workflowName": "review",
        "startedAt": at(0),
        "finishedAt": at(60_000),
        "status": "completed",
        "paths": {"session": "session", "artifacts": "artifacts"},
        **more,
    }


def put(path: Path, content: bytes | dict[str, Any]) -> Path:
    """Write a file as a recorder does: for its owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(line(content) if isinstance(content, dict) else content)
    path.chmod(0o600)
    return path


def write(root: Path, story: Story | None = None, *, folder: str = "session") -> Path:
    """Write a whole, sound, complete bundle, or the session ``folder`` of one."""
    story = story or conversation()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    (root / "artifacts").mkdir(mode=0o700, exist_ok=True)
    if not (root / "manifest.json").exists():
        put(root / "manifest.json", manifest())
    session = root / folder
    put(session / "binding.json", binding())
    put(session / "entries.ndjson", lines(story.entries))
    put(session / "events.ndjson", lines(story.events))
    put(session / "capture.json", capture(story))
    return root


def artifact(root: Path, text: str) -> dict[str, Any]:
    """Put a text into the artifacts; the reference to it."""
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    path = f"artifacts/sha256-{digest}.txt"
    put(root / path, data)
    return {"$artifact": {"path": path, "mediaType": "text/plain", "bytes": len(data), "sha256": digest}}
