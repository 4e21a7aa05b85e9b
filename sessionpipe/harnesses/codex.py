"""Codex: what its rollout and its login file say about a session and its calls.

A hook says what a tool printed, not whether it worked: the rollout's ``item_completed`` does, which is
on disk before the hook runs. A turn that ended on an API error fires no hook; its ``task_complete``
with an ``error`` in the rollout is not read yet, so such a turn has no end of its own.

Compressed rollouts (``.jsonl.zst``) are past sessions' and are not read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.titles import first_ask

Draft = dict[str, Any]

_HEAD = 1 << 20
# Where a call that just ended is looked for: at the very end first, then as far as a few large outputs
# of other calls may have pushed it.
_TAILS = (64 << 10, 4 << 20)
_LOGIN = 1 << 20
_NAME = re.compile(r"rollout-[0-9A-Za-z._-]{1,200}\.jsonl")
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class _Line(msgspec.Struct):
    type: Any = None
    payload: Any = None


_LINES = msgspec.json.Decoder(_Line)


# --- facts ----------------------------------------------------------------------------------------


class Head(NamedTuple):
    """What a rollout's beginning says: the version that wrote it, what the person first asked for."""

    version: str | None
    asked: str | None
    is_whole: bool


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """The session as Codex's files know it: ``account_id``, ``title`` (first-ask), ``version``.

    The model is in every payload, and a name of the session's own is nowhere.
    """
    found: dict[str, Any] = {}
    if account := _account(context, files):
        found["account_id"] = account
    memo = draft.get("memo", {})
    rollout = _rollout(memo, files)
    # A subagent's rollout is another thread's, though written by the same program.
    own = memo.get("thread") is None
    head = _head(rollout, files) if rollout else None
    if head and head.version:
        found["version"] = head.version
    if not own or draft["session"].get("title"):
        return found
    asked = head.asked if head else None
    prompt = memo.get("prompt")
    if asked is None and (head is None or head.is_whole) and isinstance(prompt, str) and is_ask(prompt):
        # The rollout holds the first prompt only after its hook ran.
        asked = prompt
    return found | first_ask(asked or "")


def _rollout(memo: dict[str, Any], files: Files) -> Path | None:
    claimed = memo.get("file") or (memo.get("transcript") or {}).get("path")
    return files.resolve(claimed, suffix=".jsonl", name_ok=lambda name: bool(_NAME.fullmatch(name)))


def _head(rollout: Path, files: Files) -> Head | None:
    settled = files.learn(rollout, "codex.head", _settled_head, per="file")
    return settled or files.learn(rollout, "codex.beginning", read_head)


def _settled_head(opened: Opened) -> Head | None:
    head = read_head(opened)
    return head if head.version and (head.asked or not head.is_whole) else None


def read_head(opened: Opened) -> Head:
    """The rollout's own beginning, in its first MiB.

    A forked rollout may begin with a copy of its parent, whose events name the parent's thread: nothing
    in it counts until an event names this one's. Before there were such events, a message of the user's
    that isn't one of the harness's blocks is an ask.
    """
    own, version, forked, asked = None, None, False, None
    is_whole = True
    for line in jsonl.forward(opened):
        if line.end > _HEAD:
            is_whole = False
            break
        read = jsonl.decode(line.data, _LINES)
        payload = read.payload if read and isinstance(read.payload, dict) else None
        if read is None or payload is None:
            continue
        if read.type == "session_meta" and own is None:
            own, forked = payload.get("id"), payload.get("forked_from_id") is not None
            version = _string(payload.get("cli_version"))
        elif payload.get("thread_id") is not None and payload.get("thread_id") == own:
            forked = False
        elif forked or payload.get("thread_id") is not None:
            continue
        asked = next(filter(is_ask, _asks(read.type, payload)), None)
        if asked:
            break
    return Head(version, asked, is_whole)


def _asks(kind: object, payload: dict[str, Any]) -> Iterator[str]:
    if kind == "event_msg" and payload.get("type") == "item_completed":
        item = payload.get("item")
        if isinstance(item, dict) and item.get("type") == "UserMessage":
            yield _text(item.get("content"), "text")
    elif kind == "response_item" and payload.get("type") == "message" and payload.get("role") == "user":
        yield _text(payload.get("content"), "input_text")


_BLOCK = re.compile(r"\s*<([A-Za-z_][A-Za-z0-9_ -]*)>.*</\1>\s*", re.DOTALL)
_INSTRUCTIONS = re.compile(r"\s*# AGENTS\.md instructions\b.*<INSTRUCTIONS>", re.DOTALL)


def is_ask(text: str) -> bool:
    """Whether a user message is the person's: not a block the harness wrote, nor an instruction file.

    A sentence that merely mentions such a file is the person's.
    """
    return bool(text.strip()) and not _BLOCK.fullmatch(text) and not _INSTRUCTIONS.match(text)


def _account(context: Context, files: Files) -> str | None:
    home = context.env.get("CODEX_HOME") or (f"{context.home}/.codex" if context.home else "")
    if not os.path.isabs(home):  # noqa: PTH117 - every hook asks
        return None
    return files.learn(f"{home.rstrip('/')}/auth.json", "codex.account", _account_id, follow=True)


class _Tokens(msgspec.Struct):
    account_id: Any = None


class _Login(msgspec.Struct):
    tokens: _Tokens | None = None


_LOGINS = msgspec.json.Decoder(_Login)


def _account_id(opened: Opened) -> str | None:
    # Decoded as these types, so that no token of that file is ever made into a string here.
    login = jsonl.decode(opened.head(_LOGIN), _LOGINS) if opened.size <= _LOGIN else None
    value = login.tokens.account_id if login and login.tokens else None
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


# --- calls ----------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """How a call ended: ``ok``, a short ``error`` when it isn't, and ``ms`` when the rollout says."""

    ok: bool
    error: str | None
    ms: int | None


_COMMAND = "exec_command"
_REFUSED = Outcome(ok=False, error=None, ms=None)


def amend(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """The drafts, each ``tool.ended`` with what the rollout says of its call: ``ok``, ``error``, ``ms``.

    A call the rollout doesn't mention stays as its table mapped it. One that failed changed no files.
    """
    amended = [_amended(draft, files) if draft["type"] == "tool.ended" else draft for draft in drafts]
    if any(draft["type"] == "tool.ended" and not draft["data"]["ok"] for draft in amended):
        amended = [draft for draft in amended if draft["type"] != "files.changed"]
    return amended


def _amended(draft: Draft, files: Files) -> Draft:
    call = draft["data"].get("call_id")
    rollout = _rollout(draft.get("memo", {}), files)
    if not isinstance(call, str) or not call or rollout is None:
        return draft
    opened = files.open(rollout)
    if opened is None:
        return draft
    with opened:
        outcome = find_outcome(opened, call)
    if outcome is None:
        return draft
    data = {**draft["data"], "ok": outcome.ok}
    data.pop("error", None)
    if outcome.error:
        data["error"] = outcome.error
    if outcome.ms is not None:
        data["ms"] = outcome.ms
    return {**draft, "data": data}


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
            read = jsonl.decode(line.data, _LINES) if needle in line.data else None
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
    status, code = _string(item.get("status")), item.get("exit_code")
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
    if isinstance(result, dict) and (text := _text(result.get("content"), "text").strip()):
        return text
    failure = item.get("error")
    if isinstance(failure, dict):
        failure = failure.get("message")
    return _string(failure) or _string(item.get("stderr"))


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


def _text(content: object, kind: str) -> str:
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == kind]
    return "\n".join(text for text in texts if isinstance(text, str))


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
