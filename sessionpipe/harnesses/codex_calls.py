"""How the calls of a Codex thread ended, from its rollout: their hook tells only what they printed."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.codex_rollout import DECODER, string, texts
from sessionpipe.harnesses.files import Opened

# Where a call that just ended is looked for: at the very end first, then as far as a few large outputs
# of other calls may have pushed it.
_TAILS = (64 << 10, 4 << 20)


class Outcome(NamedTuple):
    """How a call ended: ``ok``, a short ``error`` when it isn't, and ``ms`` when the rollout says."""

    ok: bool
    error: str | None
    ms: int | None


_COMMAND = "exec_command"
_REFUSED = Outcome(ok=False, error=None, ms=None)


def find_outcome(opened: Opened, call: str) -> Outcome | None:
    """How the call of that id ended, from the end of the rollout.

    ``item_completed`` tells. A command the sandbox refused has none: its ``function_call_output`` gives
    the exit code in words, but moments after the hook ran. So a command that was called, and of which
    neither is there although this Codex writes such items, is one the sandbox refused.
    """
    needle = msgspec.json.encode(call)
    in_words: Outcome | None = None
    answered = called = False
    for tail in _TAILS:
        for line in jsonl.backward(opened, tail):
            if called and b'"item_completed"' in line.data:
                return _REFUSED
            read = jsonl.decode(line.data, DECODER) if needle in line.data else None
            payload = read.payload if read and isinstance(read.payload, dict) else {}
            item = payload.get("item")
            if isinstance(item, dict) and item.get("id") == call:
                return _of_item(item, payload)
            if payload.get("call_id") != call:
                continue
            if payload.get("type") == "function_call_output":
                answered, in_words = True, _of_words(payload.get("output"))
            elif payload.get("type") in ("function_call", "custom_tool_call"):
                called = not answered and payload.get("name") == _COMMAND
                if not called:
                    return in_words
        if opened.size <= tail:
            break
    return in_words


def _of_item(item: dict[str, Any], payload: dict[str, Any]) -> Outcome | None:
    status, code = string(item.get("status")), item.get("exit_code")
    if status in (None, "in_progress", "inProgress"):
        return None
    ok = status == "completed" and code in (None, 0)
    error = None
    if not ok:
        # The output itself is no error message: it goes with the tool's output, at its tier.
        told = f"Exit code {code}" if isinstance(code, int) and code else None
        error = told or _message(item) or status
    return Outcome(ok, error, _duration(item, payload))


def _message(item: dict[str, Any]) -> str | None:
    result = item.get("result")
    if isinstance(result, dict) and (text := "\n".join(texts(result.get("content"))).strip()):
        return text
    failure = item.get("error")
    if isinstance(failure, dict):
        failure = failure.get("message")
    return string(failure) or string(item.get("stderr"))


def _duration(item: dict[str, Any], payload: dict[str, Any]) -> int | None:
    duration = item.get("duration")
    if isinstance(duration, dict):
        seconds, nanos = duration.get("secs"), duration.get("nanos")
        if isinstance(seconds, int) and isinstance(nanos, int) and seconds >= 0 and nanos >= 0:
            return seconds * 1000 + nanos // 1_000_000
    begun, ended = payload.get("started_at_ms"), payload.get("completed_at_ms")
    return max(0, ended - begun) if isinstance(begun, int) and isinstance(ended, int) else None


_EXITED = re.compile(r"^Process exited with code (-?\d{1,10})$", re.MULTILINE)
_WALL = re.compile(r"^Wall time: (\d{1,9}(?:\.\d{1,9})?) seconds$", re.MULTILINE)


def _of_words(output: object) -> Outcome | None:
    # Only what stands before the output counts: the output may say anything.
    words = f"\n{output}".partition("\nOutput:\n")[0] if isinstance(output, str) else ""
    exited, wall = _EXITED.search(words), _WALL.search(words)
    if exited is None:
        return None
    code = int(exited[1])
    ms = int(float(wall[1]) * 1000) if wall else None
    return Outcome(code == 0, f"Exit code {code}" if code else None, ms)
