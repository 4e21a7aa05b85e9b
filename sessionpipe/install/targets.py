"""Where each harness wants its hooks, read from the ``[install]`` tables of ``adapters/*.toml``.

The keys of ``[install]``:

``kind``        ``entries``: one entry an event in a JSON file that others share; ``file``: a file of our own.
``dirs``        the harness's config folders: ``~`` is the home, ``${NAME}`` a variable (a folder with an
                unset one is skipped), ``${NAME:-other}`` the variable or else the other; ``*`` globs.
``marks``       a globbed folder is a config folder only when it holds one of these names.
``file``        the file below each folder.
``note``        what the person must do once, told after an installation that changed something.
``answer``      what the harness must be answered on stdout; ``unanswered`` the events that get nothing.

for ``entries``:

``at``          the members that lead to the event lists, outermost first.
``entry``       what is appended to an event's list; ``{command}``, ``{timeout}`` and ``{matcher}`` stand
                for their values, and a member whose value is absent for an event is left out.
``timeout``     in the harness's own unit; ``timeouts`` per event where it differs.
``matcher``     given to the events named in ``matched`` and to no other.

for ``file``:

``source``      the file below ``adapters/`` that is written; ``@LAUNCHER@`` in it becomes the launcher's
                path as a JSON string.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sessionpipe.adapters import registry
from sessionpipe.install.launcher import Answer, command
from sessionpipe.paths import data_dir

_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)(?::-([^}]*))?\}")


@dataclass(frozen=True)
class Target:
    """One harness: its name, the events its adapter maps, and its ``[install]`` table."""

    harness: str
    events: tuple[str, ...]
    table: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """``entries`` or ``file``."""
        return str(self.table["kind"])

    @property
    def at(self) -> tuple[str, ...]:
        """The members that lead to the event lists."""
        return tuple(self.table["at"])

    @property
    def note(self) -> str:
        """What the person must do once after an installation."""
        return str(self.table.get("note", ""))

    def entries(self, launcher: Path) -> dict[str, Any]:
        """The entry of every event, in the adapter's order."""
        return {event: self._entry(event, launcher) for event in self.events}

    def content(self, launcher: Path) -> str:
        """The text of a file of our own."""
        import json

        source = (data_dir("adapters") / str(self.table["source"])).read_text("utf-8")
        return source.replace('"@LAUNCHER@"', json.dumps(str(launcher)))

    def files(self, env: Mapping[str, str], *, missing: bool = False) -> list[Path]:
        """The file in every config folder that exists, each real folder once.

        ``missing``: also in a folder that does not exist yet but that a variable names, and in the
        first one possible when there is none at all.
        """
        found: dict[str, Path] = {}
        possible: list[Path] = []
        for pattern in self.table["dirs"]:
            expanded = expand(pattern, env)
            if expanded is None:
                continue
            named = missing and any(env.get(name) for name in _variables(pattern))
            for folder in self._folders(pattern, expanded):
                possible.append(folder)
                if os.path.isdir(folder) or named:  # noqa: PTH112  # Path.is_dir raises where we may not look
                    found.setdefault(os.path.realpath(folder), folder)
        folders = list(found.values()) or (possible[:1] if missing else [])
        return [folder / self.table["file"] for folder in folders]

    def folder(self, env: Mapping[str, str]) -> Path:
        """The config folder that would be made for a harness that has none."""
        file = self.files(env, missing=True)[0]
        return file.parents[len(Path(self.table["file"]).parts) - 1]

    def elsewhere(self, env: Mapping[str, str]) -> str | None:
        """The set variable that moves this harness out of the home folder, if one does."""
        for pattern in self.table["dirs"]:
            for name in _variables(pattern):
                if env.get(name) and not Path(env[name]).is_relative_to(home(env)):
                    return name
        return None

    def _folders(self, pattern: str, expanded: str) -> list[Path]:
        if "*" not in pattern:
            return [Path(expanded)]
        marks = self.table.get("marks", ())
        folders = [Path(folder) for folder in sorted(glob.glob(expanded))]  # noqa: PTH207  # of an absolute path
        return [folder for folder in folders if any(os.path.lexists(folder / mark) for mark in marks)]

    def _entry(self, event: str, launcher: Path) -> Any:
        values = {
            "{command}": command(launcher, self.harness, event),
            "{timeout}": self.table.get("timeouts", {}).get(event, self.table.get("timeout")),
            "{matcher}": self.table.get("matcher") if event in self.table.get("matched", ()) else None,
        }
        return _filled(self.table["entry"], values)


def _variables(pattern: str) -> list[str]:
    return [match[1] for match in _VARIABLE.finditer(pattern)]


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, dict):
        filled = {key: _filled(value, values) for key, value in template.items()}
        return {key: value for key, value in filled.items() if value is not None}
    if isinstance(template, list):
        return [_filled(value, values) for value in template]
    return values.get(template, template) if isinstance(template, str) else template


def home(env: Mapping[str, str]) -> Path:
    """The home folder that ``env`` names, else the account's."""
    return Path(env.get("HOME") or env.get("USERPROFILE") or os.path.expanduser("~"))  # noqa: PTH111


def account_home() -> Path | None:
    """The home folder of the account itself, whatever the environment says; None where there is no such."""
    try:
        import pwd

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        return None


def expand(pattern: str, env: Mapping[str, str]) -> str | None:
    """``pattern`` with the home and the variables put in; None when it needs one that is not set.

    In a pattern that globs, what is put in is escaped, so that it stands for itself.
    """
    literal = glob.escape if "*" in pattern else str
    missing = False

    def value(match: re.Match[str]) -> str:
        nonlocal missing
        if found := env.get(match[1]):
            return literal(found)
        missing = missing or match[2] is None
        return at_home(match[2] or "")

    def at_home(text: str) -> str:
        return re.sub(r"^~(?=/|$)", lambda _: literal(str(home(env))), text)

    expanded = _VARIABLE.sub(value, at_home(pattern))
    return expanded if not missing and os.path.isabs(expanded) else None  # noqa: PTH117


@cache
def targets() -> dict[str, Target]:
    """Every harness that has an ``[install]`` table, by name."""
    tables = {name: registry.table(name) for name in registry.names()}
    return {
        name: Target(name, tuple(_mapped(table)), table["install"])
        for name, table in tables.items()
        if "install" in table
    }


def _mapped(table: Mapping[str, Any]) -> Iterable[str]:
    """The hooks that the adapter makes something of; what comes as an argument comes by another way."""
    return [
        event
        for event, meaning in table.get("events", {}).items()
        if meaning.get("emit") and meaning.get("payload") != "argument"
    ]


def answers() -> dict[str, Answer]:
    """What each harness that wants an answer is answered, for the launcher."""
    return {
        name: Answer(target.table["answer"], tuple(target.table.get("unanswered", ())))
        for name, target in targets().items()
        if "answer" in target.table
    }


__all__ = ["Target", "account_home", "answers", "expand", "home", "targets"]
