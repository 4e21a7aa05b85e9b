"""Session files of Pi's, made up for the commands that read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

from sessionpipe.protocol import rfc3339

START = 1_795_975_000_000


class PiFile:
    """A session file; an entry a call, a second after the one before, going on from it."""

    def __init__(self, name: str = "01a22870-0000-7000-8000-000000000001", **header: Any) -> None:
        self.name = name
        self.now = START
        self.leaf: str | None = None
        self.lines: list[dict[str, Any]] = [
            {
                "type": "session",
                "version": 3,
                "id": name,
                "timestamp": rfc3339(START),
                "cwd": "/src/page",
                **header,
            }
        ]

    def put(self, kind: str, **more: Any) -> Self:
        self.now += 1000
        parent, self.leaf = self.leaf, f"{len(self.lines):08x}"
        self.lines.append(
            {"type": kind, "id": self.leaf, "parentId": parent, "timestamp": rfc3339(self.now), **more}
        )
        return self

    def message(self, role: str, content: Any, **more: Any) -> Self:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return self.put("message", message={"role": role, "content": blocks, **more})

    def asks(self, content: Any) -> Self:
        return self.message("user", content)

    def says(self, content: Any, **more: Any) -> Self:
        told = {"provider": "maker", "model": "model-1", "stopReason": "stop", "usage": usage(100)}
        return self.message("assistant", content, **{**told, **more})

    def calls(self, tool: str, arguments: Any, call: str = "call_1", **result: Any) -> Self:
        block = {"type": "toolCall", "id": call, "name": tool, "arguments": arguments}
        self.says([block], stopReason="toolUse")
        if result:
            content = result.pop("content", "out")
            self.message("toolResult", content, toolCallId=call, toolName=tool, **result)
        return self

    def goes_back(self, entry: str | None) -> Self:
        """/tree: what comes next goes on from another entry."""
        self.leaf = entry
        return self

    @property
    def text(self) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"2026-11-29T17-56-40-000Z_{self.name}.jsonl"
        file.write_bytes(self.text)
        return file


def usage(tokens: int) -> dict[str, Any]:
    return {"input": tokens, "output": 10, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.25}}
