"""How our hooks stand in one file, and whether the harness runs them: for ``doctor`` and ``status``.

Nothing is written here. What switches a harness's hooks off is in its ``[install]`` table
(``inactive``), as conditions over what its own settings say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from sessionpipe.adapters.values import Scope, conditions
from sessionpipe.install import entries, files, owned, setting
from sessionpipe.install.jsonedit import Document
from sessionpipe.install.jsontree import TOLERANCES
from sessionpipe.install.launcher import trouble
from sessionpipe.install.leftalone import LeftAlone
from sessionpipe.install.targets import Target, expand
from sessionpipe.install.tomltext import parse
from sessionpipe.install.trust import trusted

KINDS: Mapping[str, ModuleType] = {"entries": entries, "file": owned, "setting": setting}


class FileState(NamedTuple):
    """One file of a harness and how our hooks stand in it.

    ``state`` is ``installed``, ``stale`` (ours but not as it would be written now, or without a
    launcher), ``missing``, ``inactive`` (there, and the harness does not run them), ``needs trust``,
    ``left alone`` where ``install`` would say so, or ``skipped`` where it would too and another file
    makes good for it. ``why`` and ``mend`` are for the person; ``mend`` is empty where ``install`` mends it.
    """

    path: Path
    state: str
    why: str = ""
    mend: str = ""


def file_state(target: Target, path: Path, launcher: Path, env: Mapping[str, str]) -> FileState:
    """How the hooks of ``target`` stand in the file at ``path``."""
    try:
        seen, kind = files.read(path), KINDS[target.kind]
        text = seen.text
        found: str = kind.look(text, target, launcher) if text.strip() else "missing"
        if found == "missing":
            kind.merge(text, target, launcher, None)
            files.check_writable(seen)
    except LeftAlone as error:
        return FileState(path, "skipped" if target.optional else "left alone", str(error))
    if found == "missing":
        return FileState(path, found)
    if other := target.instead(path):
        return FileState(path, "inactive", f"{other.name} beside it is read in its stead")
    if reason := _switched_off(target, path, text, env):
        return FileState(path, "inactive", *reason)
    if found == "installed" and (reason := trouble(launcher))[0]:
        return FileState(path, "stale", *reason)
    if found == "installed" and target.table.get("trust") == "codex" and not trusted(path, text, target):
        return FileState(path, "needs trust")
    return FileState(path, found)


def _switched_off(target: Target, path: Path, text: str, env: Mapping[str, str]) -> tuple[str, str] | None:
    """Why the harness does not run what stands in ``text``, and how to mend that."""
    if target.allowed and (strangers := entries.strangers(text, target)):
        name = strangers[0][:60]
        return (
            f'it also has hooks for "{name}", an event that this agent may not know:'
            " it then runs no hook of the file",
            f'take "{name}" out, or see to it that the agent is new enough to know it',
        )
    if target.strict and (misfit := entries.misfit(text, target)):
        return f"{misfit} is not as this agent takes it: it then passes over the whole file", f"mend {misfit}"
    for switch in target.table.get("inactive", ()):
        test = conditions({key: switch[key] for key in ("when", "unless") if key in switch}, target.harness)
        for where in _settings(switch, target, path, env):
            said = _said(where)
            if said is None or not test:
                continue
            if test(Scope(said, env, (), str(path.parent), lambda _scope, _name: None)):
                return switch["why"], switch["mend"]
    return None


def _settings(switch: Mapping[str, Any], target: Target, path: Path, env: Mapping[str, str]) -> list[Path]:
    """The files in which a switch may stand: paths from the config folder, the home or the root."""
    files = switch.get("file", path.name)
    names = [files] if isinstance(files, str) else files
    expanded = [expand(name, env) if name.startswith(("~", "$")) else name for name in names]
    base = path.parent if "file" not in switch else target.base(path)
    return [base / name for name in expanded if name]


def _said(path: Path) -> dict[str, Any] | None:
    """What the settings at ``path`` say; None where there are none, or none that can be read."""
    try:
        text = files.read(path).text
        if path.suffix == ".toml":
            return parse(text)
        said = Document(text, TOLERANCES).root.plain()
        return said if isinstance(said, dict) else None
    except LeftAlone:
        return None


__all__ = ["KINDS", "FileState", "file_state"]
