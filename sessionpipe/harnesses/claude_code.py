"""Claude Code: what its own files say about a session.

* The transcript: model, title, version, the link of a session that is open to a remote control, and how the
  turns ended whose end no hook tells.
* ``.claude.json`` of the config directory the session ran with: the account, by its id alone.
* ``settings.json`` there: whether the account is another API's.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.claude_code_transcript import (
    DECODER,
    FORMAT,
    SYNTHETIC,
    Record,
    exchanges,
    find,
    is_ask,
    steps,
)
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.conversation import Interrupted, Prompt
from sessionpipe.harnesses.ends import End
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.history import Past, glimpse, listed
from sessionpipe.harnesses.tail import Tail
from sessionpipe.harnesses.titles import first_ask, titled

Draft = dict[str, Any]

_HEAD = 256 << 10
_ACCOUNT = 32 << 20
_SETTINGS = 1 << 20

# How many of the last ends that no hook told are remembered: more than can come between two hooks.
_ENDS = 16
# A quote inside a text is escaped, so this is no text's.
_PROMPT_ID = re.compile(rb'"promptId":\s*"([0-9a-fA-F-]{36})"')
_WORD = re.compile(r"[a-z][a-z0-9_]{0,63}")

# When the transcript may say something new: what happens between these changes no name and no model.
_TELLING = frozenset({"session.started", "turn.started", "turn.ended", "session.ended", "context.compacted"})


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """The session as Claude Code's files know it now: fields of the session block, and ``version``.

    ``model``: the last one that answered, unless the hook names one. ``title``: the person's own
    (``custom``), else Claude Code's (``harness``), else the first ask of this session (``first-ask``).
    ``account_id``, ``url``: when a file tells.
    """
    found: dict[str, Any] = {}
    if account := _account(context, files):
        found["account_id"] = account
    memo, session = draft.get("memo", {}), draft["session"]
    if memo.get("thread") is not None:
        return found  # A subagent has a model and a prompt of its own.
    transcript = find(memo.get("file") or (memo.get("transcript") or {}).get("path"), files)
    latest = _latest(transcript, files) if transcript else None
    if transcript is None or latest is None:
        return found | _title(None, None, memo, session)
    if draft["type"] in _TELLING or latest.is_new:
        latest.catch_up(files.open(transcript))
        asked = files.learn(transcript, "claude-code.asked", _first_ask, per="file")
        found |= _title(latest, asked, memo, session)
        if latest.url:
            found["url"] = latest.url
        if latest.model and not session.get("model"):
            found["model"] = latest.model
    if latest.version:
        # The session block remembers; an event's harness block does not, and every event may say it.
        found["version"] = latest.version
    return found


def missed(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """The drafts behind the ends of turns that no hook tells and the transcript does.

    A turn that the person interrupted in the terminal fires nothing at all; a headless run that an overloaded
    API or ``--max-turns`` stopped fires only SessionEnd. Each is told again at every hook: what is known of
    the session says whether it is news.
    """
    first = drafts[0]
    memo = first.get("memo", {})
    if memo.get("thread") is not None or first["type"] not in _TELLING:
        return drafts
    transcript = find(memo.get("file"), files)
    latest = _latest(transcript, files) if transcript else None
    if transcript is None or latest is None:
        return drafts
    latest.catch_up(files.open(transcript))
    # A job may be read long after its hook ran: what has happened since is not this hook's to tell.
    ends = [end for end in latest.ends if end.ms <= first["at_ms"]]
    failed = latest.failed
    if failed and failed.ms <= first["at_ms"] and _is_behind(first, failed):
        ends.append(failed)
    return [*(end.draft(first) for end in ends), *drafts]


def _is_behind(draft: Draft, failed: End) -> bool:
    """Whether the turn that failed is over: while it goes on the error may be survived yet."""
    kind: str = draft["type"]
    if kind == "turn.started":
        return bool(failed.turn_id != draft["data"].get("turn_id"))
    return kind == "session.ended"


def _latest(transcript: Path, files: Files) -> Latest | None:
    return files.learn(transcript, "claude-code.latest", lambda _: Latest(), per="file")


def _title(
    latest: Latest | None, asked: str | None, memo: dict[str, Any], session: dict[str, Any]
) -> dict[str, str]:
    if latest and (title := titled(latest.custom_title, "custom")):
        return title
    if session.get("title"):
        return {}
    if latest and (title := titled(latest.ai_title, "harness")):
        return title
    if asked is None and (latest is None or latest.is_short):
        # The transcript of a session's first prompt is written after the hook ran.
        prompt = memo.get("prompt")
        asked = prompt if isinstance(prompt, str) and is_ask(prompt) else None
    return first_ask(asked or "")


class Latest(Tail):
    """What a transcript said last of what changes."""

    SAYING = (
        b'"assistant"',
        b"-title",
        b"remote_session_change",
        b"max_turns_reached",
        b"[Request interrupted",
    )

    def __init__(self) -> None:
        super().__init__()
        self.is_short = True
        self.model: str | None = None
        self.version: str | None = None
        self.url: str | None = None
        self.custom_title: str | None = None
        self.ai_title: str | None = None
        #: Turns that were interrupted, or stopped by a limit of the run's.
        self.ends: deque[End] = deque(maxlen=_ENDS)
        #: The API error that the model has not been heard behind.
        self.failed: End | None = None
        self._turn_id: str | None = None

    def catch_up(self, opened: Opened | None) -> None:
        if opened is not None:
            self.is_short = opened.size <= _HEAD
        super().catch_up(opened)

    def pass_by(self, line: bytes) -> None:
        if of_turn := _PROMPT_ID.search(line):
            self._turn_id = of_turn[1].decode()

    def see(self, line: bytes) -> None:
        record = jsonl.decode(line, DECODER)
        if record and record.isSidechain is not True:
            self._see(record)

    def _see(self, record: Record) -> None:
        if isinstance(record.version, str):
            self.version = record.version
        match record.type:
            case "assistant" if record.isApiErrorMessage is True:
                if ms := jsonl.epoch_ms(record.timestamp):
                    self.failed = End(ms, self._turn_id, "error", _word(record.error) or "unknown")
            case "assistant" if isinstance(record.message, dict):
                model = record.message.get("model")
                if isinstance(model, str) and model and model != SYNTHETIC:
                    self.model, self.failed = model, None
            case "user":
                for step in steps(record):
                    if isinstance(step, Interrupted) and step.ms:
                        self.ends.append(End(step.ms, self._turn_id, "interrupt"))
            case "custom-title" if isinstance(record.customTitle, str):
                self.custom_title = record.customTitle
            case "ai-title" if isinstance(record.aiTitle, str):
                self.ai_title = record.aiTitle
            case "attachment" if isinstance(record.attachment, dict):
                match record.attachment.get("type"):
                    case "remote_session_change":
                        self.url = session_link(record.attachment.get("url"))
                    case "max_turns_reached" if ms := jsonl.epoch_ms(record.timestamp):
                        self.ends.append(End(ms, self._turn_id, "error", "max_turns_reached"))


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def _first_ask(opened: Opened) -> str | None:
    """The first thing the person asked for in this session; None when its beginning doesn't hold it.

    A forked session begins with a copy of its parent, whose answers name the session they were given in.
    """
    asked = None
    for line in jsonl.forward(opened, within=_HEAD):
        if line.end > _HEAD:
            return asked
        record = jsonl.decode(line.data, DECODER)
        if record is None:
            continue
        if record.type == "assistant" and record.isSidechain is not True:
            if record.requestSessionId is None and asked:
                return asked
            asked = None
        for step in steps(record):
            if isinstance(step, Prompt):
                if asked:
                    return asked
                asked = step.text if step.kind == "ask" and is_ask(step.text) else None
    return asked


_LINK = re.compile(r"https://(?:[a-z0-9-]+\.)*claude\.ai/[A-Za-z0-9._~/?=&%-]{1,200}")


def session_link(url: object) -> str | None:
    """A link that opens the session (protocol §3, ``url``), or None."""
    return url if isinstance(url, str) and _LINK.fullmatch(url) else None


# --- what was there before us ---------------------------------------------------------------------

_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def history(context: Context, since_ms: int, files: Files) -> Iterable[Past]:
    """The sessions below ``projects`` of every one of Claude Code's folders: see :mod:`sessionpipe.harnesses.history`.

    A subagent's transcripts lie in a folder of its session's, or are named for the agent.
    """
    for config in _folders(context, files):
        account = _account_of(config, context, files)
        for found in listed(f"{config}/projects", ".+", rf"{_UUID}\.jsonl", since_ms=since_ms):
            if past := _past(found.path, files):
                yield past._replace(block=past.block | ({"account_id": account} if account else {}))


def _folders(context: Context, files: Files) -> list[str]:
    """Claude Code's folders: the one that is set, the default one, and those that are named like it."""
    home, chosen = context.home, context.env.get("CLAUDE_CONFIG_DIR") or ""
    found = [chosen.rstrip("/")] if os.path.isabs(chosen) else []  # noqa: PTH117
    if home:
        alike = (name for name in files.names(home) if name.startswith(".claude-"))
        found += [f"{home}/.claude", *(f"{home}/{name}" for name in alike)]
    return list(dict.fromkeys(found))


def _past(transcript: Path, files: Files) -> Past | None:
    opened = files.open(transcript)
    if opened is None:
        return None
    with opened:
        seen = glimpse(opened, FORMAT)
        asked, place = _first_ask(opened), _place(opened)
    if seen is None or seen.asked is None or seen.first_ms is None or seen.last_ms is None:
        return None
    latest = Latest()
    latest.catch_up(files.open(transcript))
    title = titled(latest.custom_title, "custom") or titled(latest.ai_title, "harness")
    block = {"model": latest.model, "url": latest.url, **place, **(title or first_ask(asked or ""))}
    known = {name: value for name, value in block.items() if value is not None}
    return Past(transcript.stem, seen.first_ms, seen.last_ms, seen.turns, known, latest.version)


def _place(opened: Opened) -> dict[str, str]:
    """Where a session began: ``cwd`` and ``branch``, of the first record that says it."""
    for line in jsonl.forward(opened, within=_HEAD):
        record = jsonl.decode(line.data, DECODER) if b'"cwd"' in line.data else None
        if record and isinstance(record.cwd, str) and os.path.isabs(record.cwd):  # noqa: PTH117
            # A detached HEAD is called so.
            branch = record.gitBranch if isinstance(record.gitBranch, str) else ""
            return {"cwd": record.cwd, **({"branch": branch} if branch not in ("", "HEAD") else {})}
        if line.end > _HEAD:
            break
    return {}


# --- the account ----------------------------------------------------------------------------------


class _Account(msgspec.Struct):
    oauthAccount: Any = None


class _Settings(msgspec.Struct):
    env: Any = None


_ACCOUNTS = msgspec.json.Decoder(_Account)
_SETTINGS_OF = msgspec.json.Decoder(_Settings)
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def _account(context: Context, files: Files) -> str | None:
    """The account's id (protocol §3, ``account_id``): never an address, nothing else of those files."""
    default = f"{context.home}/.claude" if context.home else None
    config = context.env.get("CLAUDE_CONFIG_DIR") or default
    if not config or not os.path.isabs(config):  # noqa: PTH117 - every hook asks
        return None
    return _account_of(config.rstrip("/"), context, files)


def _account_of(config: str, context: Context, files: Files) -> str | None:
    """The account of one of Claude Code's folders; several folders are how a person keeps several."""
    endpoint = files.learn(f"{config}/settings.json", "claude-code.endpoint", _endpoint, follow=True)
    if endpoint:
        return endpoint
    # The default directory's file lies beside it, in the home directory.
    is_default = config == f"{context.home}/.claude"
    place = f"{context.home}/.claude.json" if is_default else f"{config}/.claude.json"
    return files.learn(place, "claude-code.account", _account_uuid, follow=True)


def _account_uuid(opened: Opened) -> str | None:
    if opened.size > _ACCOUNT:
        return None
    read = jsonl.decode(opened.head(_ACCOUNT), _ACCOUNTS)
    account = read.oauthAccount if read else None
    value = account.get("accountUuid") if isinstance(account, dict) else None
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def _endpoint(opened: Opened) -> str | None:
    if opened.size > _SETTINGS:
        return None
    read = jsonl.decode(opened.head(_SETTINGS), _SETTINGS_OF)
    env = read.env if read else None
    return endpoint_account(env.get("ANTHROPIC_BASE_URL")) if isinstance(env, dict) else None


def endpoint_account(base_url: object) -> str | None:
    """The account of a home that runs on another API: ``api-`` and a hash of the endpoint's origin (§3).

    None when the endpoint is Anthropic's own, or no URL.
    """
    if not isinstance(base_url, str):
        return None
    try:
        parts = urlsplit(base_url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    if host == "anthropic.com" or host.endswith(".anthropic.com"):
        return None
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}[parts.scheme]
    origin = f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, default) else "")
    return "api-" + hashlib.sha256(origin.encode()).hexdigest()[:16]


__all__ = ["exchanges", "facts", "history", "missed"]
