"""Where each harness wants its hooks, read from the ``[install]`` tables of ``adapters/*.toml``.

The keys of ``[install]``, all of which but the last four may also stand in one of its ``places``, for a
harness whose hooks go into several files; a place has what ``[install]`` says and what it says itself:

``kind``        ``entries``: our entries in a JSON file that others may share; ``file``: a file of our own;
                ``setting``: a program of ours as one key at the top level of a TOML file.
``dirs``        the harness's config folders: ``~`` is the home, ``${NAME}`` a variable (a folder with an
                unset one is skipped), ``${NAME:-other}`` the variable or else the other; ``*`` globs.
``marks``       a globbed folder is a config folder only when it holds one of these names.
``others``      names of other programs' in such a folder: one that holds nothing but those is not this harness's.
``there``       folders, any of which shows that the harness is here; else those of ``dirs`` do.
``file``        the file below each folder; with a ``*`` in its name, every such file that exists.
``exists``      true where only a file that is there already is written to.
``unless_beside``  the name of a file that the harness reads in this one's stead where it stands beside it.
``events``      the events registered here; else all that the adapter makes something of.
``optional``    true for a place that others make good for: what is left alone there is no failure.
``inactive``    a list of what keeps the harness from running the hooks: ``when`` and ``unless`` (conditions
                in the language of the adapters, over what a file says), ``file`` (which; else the file
                itself), ``why`` and ``mend`` in words.
``windows``, ``macos``  keys that are different there.
``note``        what the person must do once, told after an installation that changed something.
``never``       events that must not be registered, whatever the adapter makes of them.
``answer``      what the harness must be answered on stdout; ``unanswered`` the events that get nothing.

for ``entries``:

``at``          the members that lead to the event lists, outermost first; or several such ways, of which the
                first that a file has is taken, else the last.
``listed``      true where ``at`` is one list of all entries, each of which names its event.
``beside``      members that must stand in the file beside the entries: added where they are missing.
``entry``       what is appended to an event's list; ``{command}`` (for a shell), ``{bash}`` and
                ``{powershell}`` (where they are), ``{event}``, ``{timeout}`` and ``{matcher}`` stand for their
                values, and a member whose value is absent is left out.
``plain``       the same for an event that gets no matcher, where that has another form.
``timeout``     in the harness's own unit; ``timeouts`` per event where it differs.
``matcher``     given to the events named in ``matched`` and to no other.
``reads``       what the harness takes beside plain JSON, of :data:`~sessionpipe.install.jsontree.TOLERANCES`.
``allowed``     the only event names it takes: any other, whoever wrote it, disables the whole file.
``strict``      what members of anybody's entries must be: a ``whole`` number (of 32 bits), or one of some
                words. Any other disables the whole file.
``own``         true for a file that is ours by its name, and goes when nothing but ours was in it.
``trust``       ``codex`` where the person must trust each entry first, as Codex keeps account of it.

for ``file``:

``source``      the file below ``adapters/`` that is written; ``@LAUNCHER@`` in it becomes the launcher's
                path as a JSON string.

for ``setting``:

``key``         the key; ``event`` the event that its program is run for; ``taken`` what to say of another's.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from sessionpipe.adapters import registry
from sessionpipe.install import own
from sessionpipe.install.launcher import Answer, command, powershell
from sessionpipe.paths import data_dir

_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)(?::-([^}]*))?\}")


SYSTEM = "windows" if os.name == "nt" else "macos" if sys.platform == "darwin" else "linux"


@dataclass(frozen=True)
class Target:
    """One place where a harness wants hooks: what is registered there, and what its table says."""

    harness: str
    #: The events, or what finds them: most harnesses are not here, and nobody asks.
    registered: tuple[str, ...] | Callable[[], tuple[str, ...]]
    table: Mapping[str, Any]

    @cached_property
    def events(self) -> tuple[str, ...]:
        """What is registered, in the adapter's order."""
        return self.registered() if callable(self.registered) else self.registered

    @property
    def kind(self) -> str:
        """``entries``, ``file`` or ``setting``."""
        return str(self.table["kind"])

    @property
    def ats(self) -> tuple[tuple[str, ...], ...]:
        """The possible ways to the event lists, each the members that lead there."""
        at = self.table["at"]
        ways = at if at and isinstance(at[0], list) else [at]
        return tuple(tuple(way) for way in ways)

    @property
    def listed(self) -> bool:
        """Whether all entries stand in one list."""
        return bool(self.table.get("listed"))

    @property
    def beside(self) -> Mapping[str, Any]:
        """What must stand in the file beside the entries."""
        return self.table.get("beside", {})  # type: ignore[no-any-return]

    @property
    def reads(self) -> tuple[str, ...]:
        """What the harness takes beside plain JSON."""
        return tuple(self.table.get("reads", ()))

    @property
    def allowed(self) -> tuple[str, ...]:
        """The only event names that the harness takes; none where it passes over others."""
        return tuple(self.table.get("allowed", ()))

    @property
    def strict(self) -> Mapping[str, Any]:
        """What members of entries must be, or the harness passes over the whole file."""
        return self.table.get("strict", {})  # type: ignore[no-any-return]

    @property
    def own(self) -> bool:
        """Whether the file is ours by its name."""
        return self.kind == "file" or bool(self.table.get("own"))

    @property
    def optional(self) -> bool:
        """Whether it is no failure when the file is left alone."""
        return bool(self.table.get("optional"))

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
        there = any(_is_folder(place) for place in self._expanded("there", env))
        for pattern in self.table["dirs"]:
            expanded = expand(pattern, env)
            if expanded is None:
                continue
            named = missing and any(env.get(name) for name in _variables(pattern))
            for folder in self._folders(pattern, expanded):
                possible.append(folder)
                if there or named or self._is_ours(folder):
                    found.setdefault(os.path.realpath(folder), folder)
        folders = list(found.values()) or (possible[:1] if missing else [])
        return [path for folder in folders for path in self._in(folder)]

    def instead(self, path: Path) -> Path | None:
        """The file that the harness reads in the stead of ``path``, if there is one."""
        beside = self.table.get("unless_beside")
        other = path.with_name(beside) if beside else None
        return other if other and os.path.lexists(other) else None

    def absence(self, env: Mapping[str, str]) -> str:
        """Why the harness counts as not being here, in words."""
        folders = [*self._expanded("there", env), *self._expanded("dirs", env)]
        return (
            f"there is no {folders[0]}" if folders else "the variable that names its folder is no full path"
        )

    def elsewhere(self, env: Mapping[str, str]) -> str | None:
        """The set variable that moves this harness out of the home folder, if one does."""
        for pattern in self.table["dirs"]:
            for name in _variables(pattern):
                if env.get(name) and not Path(env[name]).is_relative_to(home(env)):
                    return name
        return None

    def base(self, path: Path) -> Path:
        """The config folder of the file at ``path``."""
        return path.parents[len(Path(self.table["file"]).parts) - 1]

    def _is_ours(self, folder: Path) -> bool:
        """Whether ``folder`` is the harness's: it is there, and not for another program alone."""
        others = set(self.table.get("others", ()))
        if not others or not _is_folder(folder):
            return _is_folder(folder)
        try:
            found = set(os.listdir(folder))  # noqa: PTH208
        except OSError:
            return False
        return not found or bool(found - others)

    def _in(self, folder: Path) -> list[Path]:
        file = str(self.table["file"])
        if "*" in file:
            return sorted(Path(found) for found in glob.glob(f"{glob.escape(str(folder))}/{file}"))  # noqa: PTH207
        path = folder / file
        return [path] if not self.table.get("exists") or os.path.lexists(path) else []

    def _expanded(self, key: str, env: Mapping[str, str]) -> list[Path]:
        return [Path(found) for pattern in self.table.get(key, ()) if (found := expand(pattern, env))]

    def _folders(self, pattern: str, expanded: str) -> list[Path]:
        if "*" not in pattern:
            return [Path(expanded)]
        marks = self.table.get("marks", ())
        folders = [Path(folder) for folder in sorted(glob.glob(expanded))]  # noqa: PTH207  # of an absolute path
        return [folder for folder in folders if any(os.path.lexists(folder / mark) for mark in marks)]

    def _entry(self, event: str, launcher: Path) -> Any:
        matched = event in self.table.get("matched", ())
        windows = os.name == "nt"
        values = {
            "{bash}": None if windows else command(launcher, self.harness, event),
            "{command}": command(launcher, self.harness, event),
            "{event}": event,
            "{matcher}": self.table.get("matcher") if matched else None,
            "{powershell}": powershell(launcher, self.harness, event) if windows else None,
            "{timeout}": self.table.get("timeouts", {}).get(event, self.table.get("timeout")),
        }
        entry = self.table["entry"] if matched else self.table.get("plain", self.table["entry"])
        return _filled(entry, values)


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  # Path.is_dir raises where we may not look


def _variables(pattern: str) -> list[str]:
    return [match[1] for match in _VARIABLE.finditer(pattern)]


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, dict):
        filled = {key: _filled(value, values) for key, value in template.items()}
        return {key: value for key, value in filled.items() if value is not None}
    if isinstance(template, list):
        return [_filled(value, values) for value in template]
    if isinstance(template, str):
        return values[template] if template in values else template.replace("{event}", values["{event}"])
    return template


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


def targets(system: str = SYSTEM) -> dict[str, tuple[Target, ...]]:
    """Every harness that has an ``[install]`` table, by name, with its places; the person's own ones last."""
    return _shipped(system) | _own(registry.own(), system)[0]


def refused(system: str = SYSTEM) -> dict[str, str]:
    """The own adapters whose ``[install]`` can't be used, and why."""
    return _own(registry.own(), system)[1]


@cache
def _shipped(system: str) -> dict[str, tuple[Target, ...]]:
    tables = {name: registry.install_table(name) for name in registry.names()}
    return {
        name: tuple(places(name, table, partial(registry.table, name), system))
        for name, table in tables.items()
        if table
    }


@cache
def _own(found: registry.Own, system: str) -> tuple[dict[str, tuple[Target, ...]], dict[str, str]]:
    usable: dict[str, tuple[Target, ...]] = {}
    problems: dict[str, str] = {}
    for name, (_, table, _) in found.tables.items():
        if "install" not in table:
            continue
        try:
            made = tuple(places(name, table["install"], partial(registry.table, name), system))
            reasons = [own.mistake(table, place.table) or own.tried(place) for place in made]
        except Exception as error:  # A person wrote it, and it stops nothing.
            reasons = [f"install: {type(error).__name__}: {error}"]
        if reason := next(filter(None, reasons), None):
            problems[name] = reason
        else:
            usable[name] = made
    return usable, problems


def places(
    name: str, install: Mapping[str, Any], table: Callable[[], Mapping[str, Any]], system: str
) -> Iterator[Target]:
    """The places that an adapter's ``install`` has, as they are on ``system``; ``table`` is all of the adapter."""
    shared: dict[str, Any] = dict(install)
    rows = shared.pop("places", [{}])
    never = shared.get("never", ())
    for row in rows:
        keys = {**shared, **row}
        keys |= keys.get(system, {})

        def registered(named: Iterable[str] | None = keys.get("events")) -> tuple[str, ...]:
            return tuple(event for event in named or _mapped(table()) if event not in never)

        yield Target(name, registered, keys)


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
        name: Answer(first.table["answer"], tuple(first.table.get("unanswered", ())))
        for name, (first, *_) in _shipped(SYSTEM).items()
        if "answer" in first.table
    }


__all__ = ["SYSTEM", "Target", "account_home", "answers", "expand", "home", "places", "refused", "targets"]
