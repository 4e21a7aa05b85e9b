"""Codex: what its rollouts and its login file say about sessions, turns and calls.

A hook says what a tool printed, not whether it worked: the rollout's ``item_completed`` does, which is
on disk before the hook runs. A turn that ended on an API error fires no hook: its ``task_complete`` tells
it, at the session's next hook. The account's usage limits are in the rollout alone.
"""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.codex_rollout import (
    DECODER,
    FORMAT,
    HEAD,
    MESSAGES,
    Line,
    asked,
    exchanges,
    find,
    generation,
    header,
    is_ask,
    is_visible,
    open_rollout,
    own,
    texts,
)
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.ends import End
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.git import spell_remote
from sessionpipe.harnesses.history import Past, glimpse, listed
from sessionpipe.harnesses.tail import Tail
from sessionpipe.harnesses.titles import first_ask, titled
from sessionpipe.protocol import rfc3339

Draft = dict[str, Any]

# Where a call that just ended is looked for: at the very end first, then as far as a few large outputs
# of other calls may have pushed it.
_TAILS = (64 << 10, 4 << 20)
_LOGIN = 1 << 20
# How many threads' names are remembered, the last ones.
_NAMED = 4096
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")

# When the rollout may say something new of the session: what happens between these does not change it.
_TELLING = frozenset({"session.started", "turn.started", "turn.ended", "session.ended", "context.compacted"})
_ENDING = frozenset({"turn.ended", "session.ended"})


# --- facts ----------------------------------------------------------------------------------------


class Head(NamedTuple):
    """What a rollout's beginning says: the version that wrote it, what the person first asked for."""

    version: str | None
    asked: str | None
    is_whole: bool


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """The session as Codex's files know it: ``account_id``, ``attended``, ``version``, ``title``.

    The title is its name in Codex's index, else the first ask. The model is in every payload.
    """
    found: dict[str, Any] = {}
    if account := _account(context, files):
        found["account_id"] = account
    memo = draft.get("memo", {})
    rollout = _rollout(memo, files)
    # A subagent's rollout is another thread's, though written by the same program.
    own_thread = memo.get("thread") is None
    head = _head(rollout, files) if rollout else None
    if head and head.version:
        found["version"] = head.version
    if not own_thread:
        return found
    if rollout and draft["type"] in _TELLING and (latest := _latest(rollout, files)):
        latest.catch_up(open_rollout(rollout, files))
        if latest.attended is not None:
            found["attended"] = latest.attended
    if draft["session"].get("title"):
        return found
    name = _name(draft["session"]["id"], context, files) if draft["type"] in _TELLING else None
    first = head.asked if head else None
    prompt = memo.get("prompt")
    if first is None and (head is None or head.is_whole) and isinstance(prompt, str) and is_ask(prompt):
        # The rollout holds the first prompt only after its hook ran.
        first = prompt
    return found | _title(name, first)


def _title(name: str | None, first: str | None) -> dict[str, str]:
    """A thread is named by its first prompt until Codex has found a title, or the person gives it another.

    Which of the two it was the index doesn't say; so no title passes for the person's.
    """
    asked = first_ask(first or "")
    named = titled(name, "harness")
    return asked if named.get("title") == asked.get("title") else named or asked


class Names(Tail):
    """What Codex's ``session_index.jsonl`` says the threads are called, the last word on each."""

    SAYING = (b'"thread_name"',)

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, str] = {}

    def see(self, line: bytes) -> None:
        told = jsonl.decode(line, _NAMES)
        if told and isinstance(told.id, str) and isinstance(told.thread_name, str):
            self.of.pop(told.id, None)
            self.of[told.id] = told.thread_name
            if len(self.of) > _NAMED:
                self.of.pop(next(iter(self.of)))


class _Name(msgspec.Struct):
    id: Any = None
    thread_name: Any = None


_NAMES = msgspec.json.Decoder(_Name)


def _name(thread: str, context: Context, files: Files) -> str | None:
    index = f"{_home(context)}/session_index.jsonl"
    names = files.learn(index, "codex.names", lambda _: Names(), per="file")
    if names is None:
        return None
    names.catch_up(files.open(index))
    return names.of.get(thread)


def _rollout(memo: dict[str, Any], files: Files) -> Path | None:
    return find(memo.get("file") or (memo.get("transcript") or {}).get("path"), files)


def _head(rollout: Path, files: Files) -> Head | None:
    settled = files.learn(rollout, "codex.head", _settled_head, per="file")
    return settled or files.learn(rollout, "codex.beginning", read_head)


def _settled_head(opened: Opened) -> Head | None:
    head = read_head(opened)
    return head if head.version and (head.asked or not head.is_whole) else None


def read_head(opened: Opened) -> Head:
    """The rollout's own beginning, in the first MiB of it."""
    meta, first = header(opened), None
    version, start = _string(meta.get("cli_version")), own(opened)
    if start is None:
        return Head(version, None, is_whole=True)
    for line in jsonl.forward(opened, start):
        if line.end - start > HEAD:
            return Head(version, None, is_whole=False)
        read = jsonl.decode(line.data, DECODER)
        # What is told twice is told as an item, too: a message may hold what only the model was told.
        doubled = read and generation(read) == MESSAGES and read.ordinal is not None
        if read and read.is_of(meta.get("id")) and not doubled:
            first = asked(read)
        if first:
            break
    return Head(version, first, is_whole=True)


def _account(context: Context, files: Files) -> str | None:
    home = _home(context)
    return files.learn(f"{home}/auth.json", "codex.account", _account_id, follow=True) if home else None


def _home(context: Context) -> str | None:
    """Codex's folder, as an absolute path without a slash at its end."""
    home = context.env.get("CODEX_HOME") or (f"{context.home}/.codex" if context.home else "")
    return home.rstrip("/") if os.path.isabs(home) else None  # noqa: PTH117 - every hook asks


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


# --- where a thread's rollout is ------------------------------------------------------------------

_UUID7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def transcript(draft: Draft, context: Context, files: Files) -> str | None:
    """The rollout of a session whose payload doesn't name it, as ``notify``'s: found by its thread's id."""
    return _rollout_of(draft["session"]["id"], context, files)


def _rollout_of(thread: str, context: Context, files: Files) -> str | None:
    home, told = _home(context), _UUID7.fullmatch(thread)
    if home is None or told is None:
        return None
    born = datetime.fromtimestamp(int(told[1] + told[2], 16) / 1000, UTC).date()
    # The folder is named by the day where the person is, which may be the one before or after.
    for day in (born, born - timedelta(1), born + timedelta(1)):
        folder = f"{home}/sessions/{day:%Y/%m/%d}"
        for name in files.names(folder):
            if f"-{thread}.jsonl" in name and (found := find(f"{folder}/{name}", files)):
                return str(found)
    return None


# --- what no hook tells ---------------------------------------------------------------------------


def missed(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """The drafts behind the ends of turns that no hook told, and before what the last turn left of the limits.

    A turn that an API error ended fires nothing. Each end is told again at every hook: what is known of the
    session says whether it is news.
    """
    first = drafts[0]
    memo = first.get("memo", {})
    rollout = _rollout(memo, files)
    if memo.get("thread") is not None or first["type"] not in _TELLING or rollout is None:
        return drafts
    latest = _latest(rollout, files)
    if latest is None:
        return drafts
    latest.catch_up(open_rollout(rollout, files))
    ends = [end.draft(first) for end in latest.ends if end.ms <= first["at_ms"]]
    limits = latest.limits if first["type"] in _ENDING else None
    if limits is None:
        return [*ends, *drafts]
    told = {**first, "type": "limits.observed", "data": limits, "memo": {}}
    return [*ends, told, *drafts] if first["type"] == "session.ended" else [*ends, *drafts, told]


def _latest(rollout: Path, files: Files) -> Latest | None:
    return files.learn(rollout, "codex.latest", lambda _: Latest(), per="file")


class Latest(Tail):
    """What a rollout said last of what changes."""

    SAYING = (b'"task_started"', b'"task_complete"', b'"turn_aborted"', b'"rate_limits"')

    def __init__(self) -> None:
        super().__init__()
        #: Turns that failed or were interrupted.
        self.ends: deque[End] = deque(maxlen=16)
        #: The usage limits that the last turn was told, as ``limits.observed`` has them.
        self.limits: dict[str, Any] | None = None
        #: Whether a person's program began the last turn, or a run that nobody watches.
        self.attended: bool | None = None

    def begins(self, opened: Opened) -> int | None:
        return own(opened)

    def see(self, line: bytes) -> None:
        if read := jsonl.decode(line, DECODER):
            self._see(read)

    def _see(self, line: Line) -> None:
        event, ms = line.event, jsonl.epoch_ms(line.timestamp)
        turn_id = _string(event.get("turn_id"))
        match event.get("type"):
            case "task_started":
                self.limits = None
                attribution = event.get("turn_attribution")
                trigger = attribution.get("turn_trigger") if isinstance(attribution, dict) else None
                self.attended = {"user": True, "exec": False}.get(_string(trigger) or "")
            case "token_count":
                self.limits = limits(event.get("rate_limits")) or self.limits
            case "task_complete" if event.get("error") is not None and ms:
                self.ends.append(End(ms, turn_id, "error", _class(event["error"]), _ms(event)))
            case "turn_aborted" if event.get("reason") in _BY_A_PERSON and ms:
                self.ends.append(End(ms, turn_id, "interrupt", None, _ms(event)))


# Stopped, or stopped by another prompt.
_BY_A_PERSON = ("interrupted", "replaced")


def _class(failure: object) -> str:
    """Codex's own word for what went wrong: a word, or what an object is called by."""
    told = failure.get("codex_error_info") if isinstance(failure, dict) else None
    if isinstance(told, dict):
        told = next(iter(told), None)
    return told if isinstance(told, str) and _WORD.fullmatch(told) else "unknown"


def _ms(event: dict[str, Any]) -> int | None:
    told = event.get("duration_ms")
    return told if isinstance(told, int) and not isinstance(told, bool) and 0 <= told < 1 << 53 else None


# --- limits ---------------------------------------------------------------------------------------


def limits(told: object) -> dict[str, Any] | None:
    """A ``rate_limits`` of the rollout as the data of a ``limits.observed`` (protocol §4), or None.

    Other limits than those of the account's use of Codex have an id of their own, and are other sets.
    """
    if not isinstance(told, dict) or told.get("limit_id", "codex") not in (None, "codex"):
        return None
    windows = [window for name in ("primary", "secondary") if (window := _window(name, told.get(name)))]
    plan = _string(told.get("plan_type"))
    return {"windows": windows, **({"plan": plan} if plan else {})} if windows else None


def _window(name: str, told: object) -> dict[str, Any] | None:
    used = _number(told.get("used_percent")) if isinstance(told, dict) else None
    if not isinstance(told, dict) or used is None:
        return None
    window: dict[str, Any] = {"id": name, "used_percent": used}
    resets, minutes = _number(told.get("resets_at")), _number(told.get("window_minutes"))
    if resets is not None and resets * 1000 < _LAST_MOMENT:
        window["resets_at"] = rfc3339(int(resets * 1000))
    if minutes is not None and minutes < 1 << 53:
        window["window_minutes"] = int(minutes)
    return window


_LAST_MOMENT = 253_402_300_800_000  # the year 10000, which RFC 3339 can't say


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if math.isfinite(value) and value >= 0 else None


# --- what was there before us ---------------------------------------------------------------------

_ROLLOUT = r"rollout-.+\.jsonl(\.zst)?"


def history(context: Context, since_ms: int, files: Files) -> Iterable[Past]:
    """The visible threads of Codex's folder: see :mod:`sessionpipe.harnesses.history`."""
    home = _home(context)
    if home is None:
        return
    by_day = listed(f"{home}/sessions", r"\d{4}", r"\d\d", r"\d\d", _ROLLOUT, since_ms=since_ms)
    seen: set[str] = set()
    for rollout in chain(by_day, listed(f"{home}/archived_sessions", _ROLLOUT, since_ms=since_ms)):
        past = _past(rollout.path, context, files)
        # A rollout may lie there compressed and not.
        if past and past.session_id not in seen:
            seen.add(past.session_id)
            yield past


def _past(rollout: Path, context: Context, files: Files) -> Past | None:
    opened = open_rollout(rollout, files)
    if opened is None:
        return None
    with opened:
        meta, head, seen = header(opened), read_head(opened), glimpse(opened, FORMAT)
        thread, started = meta.get("id"), jsonl.epoch_ms(meta.get("timestamp"))
        if not isinstance(thread, str) or not is_visible(meta) or not head.asked or not seen or not started:
            return None
        model = _model(opened)
    told = meta.get("git")
    git: dict[str, Any] = told if isinstance(told, dict) else {}
    remote = _string(git.get("repository_url"))
    block = {
        "cwd": _string(meta.get("cwd")),
        "model": model,
        "branch": _string(git.get("branch")),
        "repo": spell_remote(remote) if remote else None,
        **_title(_name(thread, context, files), head.asked),
    }
    known = {name: value for name, value in block.items() if value is not None}
    return Past(thread, started, max(started, seen.last_ms or 0), seen.turns, known, head.version)


def _model(opened: Opened) -> str | None:
    """The model of the thread's first turn, if that is near its beginning."""
    start = own(opened) or 0
    for line in jsonl.forward(opened, start):
        read = jsonl.decode(line.data, DECODER) if b'"turn_context"' in line.data else None
        if read and read.type == "turn_context" and isinstance(read.payload, dict):
            return _string(read.payload.get("model"))
        if line.end - start > HEAD:
            break
    return None


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

    A call the rollout doesn't mention stays as its table mapped it. One that failed changed no files. What
    ``notify`` tells may be of a thread that no hook ever names: of a session where hooks are not trusted, and
    then its rollout says so, or of one that nobody sees.
    """
    if drafts[0].get("memo", {}).get("only_known") and (rollout := transcript(drafts[0], context, files)):
        drafts = [_opened_up(draft, rollout) for draft in drafts] if _is_seen(rollout, files) else drafts
    amended = [_amended(draft, files) if draft["type"] == "tool.ended" else draft for draft in drafts]
    if any(draft["type"] == "tool.ended" and not draft["data"]["ok"] for draft in amended):
        amended = [draft for draft in amended if draft["type"] != "files.changed"]
    return amended


def _is_seen(rollout: str, files: Files) -> bool:
    return bool(files.learn(rollout, "codex.visible", lambda opened: is_visible(header(opened)), per="file"))


def _opened_up(draft: Draft, rollout: str) -> Draft:
    """A draft that may open its session, with the rollout where that is read about."""
    memo = {name: value for name, value in draft["memo"].items() if name != "only_known"}
    if want := memo.get("transcript"):
        memo["transcript"] = {**want, "path": rollout}
    return {**draft, "memo": {**memo, "file": rollout}}


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
    if isinstance(result, dict) and (text := "\n".join(texts(result.get("content"))).strip()):
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


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


__all__ = ["amend", "exchanges", "facts", "history", "missed", "transcript"]
