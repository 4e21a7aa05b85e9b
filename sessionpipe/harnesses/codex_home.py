"""Codex's folder: whose account it is, what its threads are called, and where their rollouts are."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.codex_rollout import find
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.tail import Tail

_LOGIN = 1 << 20
# How many threads' names are remembered, the last ones.
_NAMED = 4096
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def account_of(context: Context, files: Files) -> str | None:
    """The account's id of the login (protocol §3, ``account_id``): nothing else of that file."""
    home = home_of(context)
    return files.learn(f"{home}/auth.json", "codex.account", _account_id, follow=True) if home else None


def home_of(context: Context) -> str | None:
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


def name_of(thread: str, context: Context, files: Files) -> str | None:
    """What Codex calls a thread; None when it has no name."""
    home = home_of(context)
    index = f"{home}/session_index.jsonl"
    names = files.learn(index, "codex.names", lambda _: Names(), per="file") if home else None
    if names is None:
        return None
    names.catch_up(files.open(index))
    return names.of.get(thread)


_UUID7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def rollout_of(thread: str, context: Context, files: Files) -> str | None:
    """The rollout of a thread, in the folder of the day on which its id was made; None where there is none."""
    home, told = home_of(context), _UUID7.fullmatch(thread)
    if home is None or told is None:
        return None
    try:
        born = datetime.fromtimestamp(int(told[1] + told[2], 16) / 1000, UTC).date()
        # The folder is named by the day where the person is, which may be the one before or after.
        days = [born + timedelta(days) for days in (0, -1, 1)]
    except (ValueError, OverflowError, OSError):
        return None  # An id whose time no calendar has.
    for day in days:
        folder = f"{home}/sessions/{day:%Y/%m/%d}"
        for name in files.names(folder):
            if f"-{thread}.jsonl" in name and (found := find(f"{folder}/{name}", files)):
                return str(found)
    return None
