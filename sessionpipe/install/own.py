"""The ``[install]`` of people's own adapters: entries in a JSON file, and nothing that runs or replaces.

The language is that of :mod:`sessionpipe.install.targets`. What an own table may not say is what the hook
has built in (an answer to the agent), and what only a file that ships with us can bring (``source``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

_KEYS = frozenset(
    {
        "kind",
        "dirs",
        "marks",
        "others",
        "there",
        "file",
        "exists",
        "unless_beside",
        "events",
        "optional",
        "places",
    }
    | {"windows", "macos", "linux", "note", "never", "at", "listed", "beside", "entry", "plain", "timeout"}
    | {"timeouts", "matcher", "matched", "reads", "allowed", "own"}
)
_NEEDED: Mapping[str, type] = {"dirs": list, "file": str, "at": list, "entry": dict}
_WORDS: Mapping[type, str] = {list: "list", str: "string", dict: "table"}


def mistake(table: Mapping[str, Any], keys: Mapping[str, Any]) -> str | None:
    """Why the hooks of an own adapter can't be written to a place of ``keys``; None when they can."""
    if keys.get("kind") != "entries":
        return 'install.kind: an own adapter\'s hooks are entries in a JSON file: kind = "entries"'
    if "answer" in keys or "unanswered" in keys:
        return "install.answer: the hook is silent for every agent but those that come with sessionpipe"
    if odd := sorted(keys.keys() - _KEYS):
        return f"install.{odd[0]}: nothing reads it"
    for name, kind in _NEEDED.items():
        if not isinstance(keys.get(name), kind) or not keys[name]:
            return f"install.{name}: it is needed, as a {_WORDS[kind]}"
    if not all(isinstance(folder, str) and folder.startswith(("~", "$", "/")) for folder in keys["dirs"]):
        return "install.dirs: each is a folder below ~, of a ${VARIABLE}, or absolute"
    parts = {*PurePosixPath(keys["file"]).parts, *PureWindowsPath(keys["file"]).parts}
    if ".." in parts or os.path.isabs(keys["file"]):  # noqa: PTH117
        return "install.file: it is a path below each of dirs"
    known = {*table.get("events", {}), *table.get("ignore", [])}
    if unknown := sorted({*keys.get("events", []), *keys.get("matched", [])} - known):
        return f"install.events: the adapter has no event {unknown[0]}"
    return None


def tried(target: Any) -> str | None:
    """Why a target that looks right still does not work; None when it does.

    It is put into an empty file and taken out again: entries that are not known again as ours would be added
    once more with each installation, and stay for ever.
    """
    from sessionpipe.install.entries import Memory, is_empty, look, merge, strip

    launcher, memory = Path("/bin/sessionpipe-hook"), Memory()
    try:
        target.files({"HOME": os.devnull})
        target.instead(Path("/settings.json"))
        target.allowed, target.note  # noqa: B018  # each reads its key
        written = merge("", target, launcher, memory)
        if target.events and look(written, target, launcher) != "installed":
            return "install.entry: nothing in it is {command} alone, so the hooks would not be known as ours"
        if not is_empty(strip(written, target, memory)):
            return "install.entry: what is written by it can't be taken out again"
    except Exception as error:
        return f"install: {type(error).__name__}: {error}"
    return None
