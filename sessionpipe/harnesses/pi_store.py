"""Where Pi keeps its sessions on this machine, and what each of them is.

Pi's own rules: the agent's folder is ``PI_CODING_AGENT_DIR`` or ``~/.pi/agent``; sessions lie below its
``sessions``, one folder for each working directory, or all together in ``PI_CODING_AGENT_SESSION_DIR`` or
in the folder that ``sessionDir`` in ``settings.json`` names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.pi_exchanges import asked
from sessionpipe.harnesses.pi_session import MAX_LINE, Model, Session, Usage, read_record
from sessionpipe.harnesses.titles import first_ask, titled
from sessionpipe.protocol import short_id

_SETTINGS = 1 << 20
_HEADER = 8 << 10


class _Settings(msgspec.Struct):
    sessionDir: Any = None


_SETTINGS_OF = msgspec.json.Decoder(_Settings)


# --- places ---------------------------------------------------------------------------------------


def agent_dir(env: Mapping[str, str]) -> Path:
    """The agent's folder, where its settings are."""
    return _expanded(env.get("PI_CODING_AGENT_DIR") or "~/.pi/agent", env)


def default_folder(cwd: str, env: Mapping[str, str]) -> Path:
    """The folder of the sessions begun in ``cwd``, where nothing else was chosen."""
    name = re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", cwd))
    return agent_dir(env) / "sessions" / f"--{name}--"


def chosen_folders(env: Mapping[str, str], files: Files) -> list[Path]:
    """Folders that were chosen for sessions instead: by variable, and in the settings."""
    found = files.learn(agent_dir(env) / "settings.json", "pi.session_dir", _session_dir, follow=True)
    chosen = [env.get("PI_CODING_AGENT_SESSION_DIR"), found]
    return [_expanded(folder, env) for folder in chosen if folder]


def _session_dir(opened: Opened) -> str | None:
    settings = jsonl.decode(opened.head(_SETTINGS), _SETTINGS_OF) if opened.size <= _SETTINGS else None
    folder = settings.sessionDir if settings else None
    return folder if isinstance(folder, str) else None


def _expanded(folder: str, env: Mapping[str, str]) -> Path:
    if folder.startswith("file://"):
        folder = unquote(urlsplit(folder).path)
    home = env.get("HOME") or env.get("USERPROFILE") or "~"
    if folder == "~" or folder.startswith("~/"):
        folder = home + folder[1:]
    return Path(folder).expanduser()


def session_files(env: Mapping[str, str], files: Files, folder: Path | None = None) -> list[Path]:
    """Every session file of this machine, or those in ``folder``, the latest written first.

    Only names are looked at: whether one is a session shows when it is read.
    """
    flat = [folder] if folder else chosen_folders(env, files)
    kept = [] if folder else _listed(agent_dir(env) / "sessions")
    found: dict[tuple[int, int], tuple[int, str, Path]] = {}
    for place in [*flat, *kept]:
        for path in _listed(place):
            if path.suffix != ".jsonl":
                continue
            try:
                info = path.stat(follow_symlinks=False)
            except OSError:
                continue
            # One place may be reached by two names.
            found.setdefault((info.st_dev, info.st_ino), (info.st_mtime_ns, path.name, path))
    return [path for *_, path in sorted(found.values(), reverse=True)]


def _listed(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries]
    except (OSError, ValueError):
        return []


def read_id(opened: Opened) -> str | None:
    """The id of a session file, from its header alone; None when it isn't one."""
    line, end, _ = opened.head(_HEADER).partition(b"\n")
    record = read_record(line) if end else None
    # A header is short; only for a longer one, or what may stand before it, are more lines looked at.
    more = (
        (read_record(each.data) for each in jsonl.forward(opened, longest=MAX_LINE, within=_HEADER))
        if record is None
        else ()
    )
    record = record or next((found for found in more if found), None)
    is_header = record is not None and record.type == "session" and isinstance(record.id, str)
    return record.id if record and is_header else None


def find(argument: str, paths: Iterable[Path], files: Files) -> list[tuple[Path, str]]:
    """The sessions that ``argument`` may mean: an id, ``pi:id``, or the beginning of an id or of a short id.

    A whole id hides those that only begin like it.
    """
    whole: list[tuple[Path, str]] = []
    some: list[tuple[Path, str]] = []
    for path in paths:
        opened = files.open(path)
        if opened is None:
            continue
        with opened:
            name = read_id(opened)
        if name is None:
            continue
        if argument in (name, f"pi:{name}"):
            whole.append((path, name))
        elif name.startswith(argument) or short_id("pi", name).startswith(argument.lower()):
            some.append((path, name))
    return whole or some


# --- what a session is ----------------------------------------------------------------------------


class Summary(NamedTuple):
    """A session in a list. What a fork copied counts for its parent: ``messages`` and ``usage`` are its own.

    ``title``, ``title_source``: the person's name for it (``custom``), else what was asked first
    (``first-ask``); raw, on one line. ``active_ms``: of the last message of a person's or a model's.
    ``messages``: of those two. ``parent``: the path of the session it was forked from, ``parent_id`` its id
    where the file is there. ``copied``: entries. ``skipped``: lines that could not be read.
    """

    path: Path
    id: str
    cwd: str | None
    created_ms: int | None
    active_ms: int | None
    name: str | None
    title: str | None
    title_source: str | None
    model: Model | None
    thinking_level: str
    messages: int
    usage: Usage
    parent: str | None
    parent_id: str | None
    copied: int
    skipped: int
    torn: bool


class Parents:
    """The ids in the files that sessions were forked from, read once each."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[Path, tuple[str, frozenset[str]] | None] = {}

    def find(self, session: Session, path: Path) -> tuple[str, frozenset[str]] | None:
        """The parent's id and its entries' ids; None when its file is gone.

        A header may name a file of the machine it was written on: then one of that name beside the
        session's own is its parent.
        """
        if session.parent is None:
            return None
        named = self._files.resolve(session.parent, suffix=".jsonl", name_ok=lambda name: len(name) <= 255)
        for place in [named, path.parent / named.name] if named else []:
            if place == path:
                continue
            if place not in self._known:
                self._known[place] = self._read(place)
            if known := self._known[place]:
                return known
        return None

    def _read(self, place: Path) -> tuple[str, frozenset[str]] | None:
        opened = self._files.open(place)
        if opened is None:
            return None
        with opened:
            session = Session.read(opened)
            return (str(session.header["id"]), frozenset(session.rows)) if session else None


def summarize(path: Path, session: Session, parents: Parents) -> Summary:
    """What a session is, for a list of many."""
    parent = parents.find(session, path)
    copied = session.copied(parent[1] if parent else None)
    own = [row for row in session.rows.values() if row.role in ("user", "assistant") and row.id not in copied]
    title = titled(session.name, "custom") or first_ask(_first_asked(session, copied))
    cwd = session.header.get("cwd")
    return Summary(
        path=path,
        id=session.header["id"],
        cwd=cwd if isinstance(cwd, str) and cwd else None,
        created_ms=session.created_ms,
        active_ms=max((row.ms for row in own if row.ms is not None), default=session.created_ms),
        name=session.name,
        title=title.get("title"),
        title_source=title.get("title_source"),
        model=session.model(),
        thinking_level=session.thinking_level(),
        messages=len(own),
        usage=session.usage(without=copied),
        parent=session.parent,
        parent_id=parent[0] if parent else None,
        copied=len(copied),
        skipped=session.skipped,
        torn=session.torn,
    )


def _first_asked(session: Session, copied: Container[str]) -> str:
    """The first thing asked in a session itself, or in what it copied when nothing was asked since."""
    asks = [row for row in session.rows.values() if row.role == "user"]
    for row in sorted(asks, key=lambda row: row.id in copied):
        message = session.load(row).get("message")
        if text := asked(message.get("content")).strip() if isinstance(message, dict) else "":
            return text
    return ""


def summaries(paths: list[Path], files: Files) -> Iterator[Summary]:
    """What the files are, those that are sessions; one after the other, so that memory stays with one."""
    parents = Parents(files)
    for path in paths:
        if opened := files.open(path):
            with opened:
                if session := Session.read(opened):
                    yield summarize(path, session, parents)
