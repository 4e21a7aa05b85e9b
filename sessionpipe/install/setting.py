"""A program of ours as one key at the top level of a TOML file: Codex's ``notify``.

The same four functions as :mod:`sessionpipe.install.entries`. The key stands behind the last one of the
top level, before the first table: anywhere else it would belong to a table. A line of ours that a table
has swallowed (another program wrote a table's header above it) is moved back. What the key says when it
is not ours stays, and so does a file in which an edit would mean anything else than it should.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sessionpipe.install.entries import Memory
from sessionpipe.install.launcher import program, recognise_program
from sessionpipe.install.leftalone import WrongShape
from sessionpipe.install.targets import Target
from sessionpipe.install.tomltext import Statement, parse, statements


def merge(text: str, target: Target, launcher: Path, memory: Memory | None) -> str:
    """``text`` with our program under the key; raises :class:`NotToml` and :class:`WrongShape`."""
    key, wanted = _key(target), _program(target, launcher)
    meant = parse(text)
    if key in meant and not _is_ours(meant[key], target):
        raise WrongShape(f'its "{key}" is taken: {target.table["taken"]}')
    ours = _ours(text, target)
    if [statement.table for statement in ours] == [False] and ours[0].value(key) == wanted:
        return text
    new = _inserted(_without(text, ours), f"{key} = {_rendered(wanted)}")
    if parse(new) != {**parse(_without(text, ours)), key: wanted}:
        raise WrongShape(f'no place was found for "{key}"')
    return new


def strip(text: str, target: Target, memory: Memory | None) -> str:
    """``text`` without our program, wherever it stands; raises :class:`NotToml`."""
    parse(text)
    return _without(text, _ours(text, target))


def look(text: str, target: Target, launcher: Path) -> str:
    """``installed``, ``stale`` (another launcher's, or within a table) or ``missing``."""
    parse(text)
    ours = _ours(text, target)
    if not ours:
        return "missing"
    right = [(statement.table, statement.value(_key(target))) for statement in ours]
    return "installed" if right == [(False, _program(target, launcher))] else "stale"


def launchers(text: str, target: Target) -> set[Path]:
    """The launchers that our program runs."""
    parse(text)
    values = [statement.value(_key(target)) for statement in _ours(text, target)]
    return {found.launcher for value in values if (found := recognise_program(value))}


def _key(target: Target) -> str:
    return str(target.table["key"])


def _program(target: Target, launcher: Path) -> list[str]:
    return program(launcher, target.harness, str(target.table["event"]))


def _is_ours(value: Any, target: Target) -> bool:
    found = recognise_program(value)
    return found is not None and found.harness == target.harness


def _ours(text: str, target: Target) -> list[Statement]:
    key = _key(target)
    return [statement for statement in statements(text) if _is_ours(statement.value(key), target)]


def _rendered(value: list[str]) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _inserted(text: str, line: str) -> str:
    newline = "\r\n" if text.find("\n") > 0 and text[text.find("\n") - 1] == "\r" else "\n"
    everything = statements(text)
    top = [statement for statement in everything if not statement.table and not statement.is_header]
    keys = [statement for statement in top if statement.text.strip() and not statement.is_comment]
    if keys:
        at = keys[-1].end
    elif len(top) == len(everything):
        at = len(text)
    else:
        # No key yet: before the first table and the comment that stands right above it.
        while top and top[-1].is_comment:
            top.pop()
        at = top[-1].end if top else 0
    if at and not text.endswith("\n", 0, at):
        return text[:at] + newline + line + text[at:]
    return text[:at] + line + newline + text[at:]


def _without(text: str, gone: list[Statement]) -> str:
    for statement in reversed(gone):
        before, after = text[: statement.start], text[statement.end :]
        if not statement.text.endswith("\n"):
            before = before.removesuffix("\n").removesuffix("\r")
        text = before + after
    return text


__all__ = ["launchers", "look", "merge", "strip"]
