"""The harnesses we know: one table per file, read and compiled when first asked for.

:func:`names` are those that come with us, in ``adapters/``. A person may have own ones besides, for agents
we never heard of, in ``adapters/`` of the config directory: :func:`known` are all. :func:`refresh` looks
whether those changed; what of them can't be used stops nothing.
"""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sessionpipe import ownfiles
from sessionpipe.paths import config_dir, data_dir

# The engine is loaded where something is compiled: most ask for names, or where hooks go.
if TYPE_CHECKING:
    from sessionpipe.adapters.engine import Adapter
    from sessionpipe.adapters.own import Problem, Table

FOLDER = ownfiles.ADAPTERS


@cache
def names() -> tuple[str, ...]:
    """The names of the harnesses that come with us, sorted."""
    return tuple(sorted(path.stem for path in data_dir("adapters").glob("*.toml")))


def known() -> tuple[str, ...]:
    """The names of all harnesses there is a table for, the person's own among them, sorted."""
    return tuple(sorted({*names(), *own().tables}))


def table(name: str) -> Mapping[str, Any]:
    """The table of one harness as its file has it, ``[install]`` included. Raises :class:`KeyError`."""
    return _shipped_table(name) if name in names() else own().tables[name].table


@cache
def install_table(name: str) -> Mapping[str, Any]:
    """The ``[install]`` of a harness that comes with us.

    It stands last in its file and is parsed alone: who asks where hooks are need not wait for all that
    every adapter says, which is six times as much.
    """
    _, mark, rest = (data_dir("adapters") / f"{name}.toml").read_text("utf-8").partition("\n[install]\n")
    return tomllib.loads(mark + rest).get("install", {})  # type: ignore[no-any-return]


def adapter(name: str) -> Adapter:
    """One harness's compiled adapter. Raises :class:`KeyError` for one we don't know."""
    return _shipped(name) if name in names() else own().tables[name].adapter


@cache
def environment() -> frozenset[str]:
    """The exact names of the variables a hook hands on: all that some shipped adapter or the protocol reads."""
    from sessionpipe.adapters.engine import PROTOCOL_ENVIRONMENT

    wanted = (table(name).get("hook", {}).get("environment", []) for name in names())
    return frozenset(PROTOCOL_ENVIRONMENT).union(*wanted)


@cache
def _shipped_table(name: str) -> Mapping[str, Any]:
    with (data_dir("adapters") / f"{name}.toml").open("rb") as file:
        return tomllib.load(file)


@cache
def _shipped(name: str) -> Adapter:
    from sessionpipe.adapters.engine import compile_adapter

    return compile_adapter(name, _shipped_table(name))


# --- people's own ---------------------------------------------------------------------------------


class Own:
    """What a folder of own adapters came to: those that can be used, by name, and what was refused."""

    def __init__(self, folder: Path, tables: Mapping[str, Table], problems: tuple[Problem, ...]) -> None:
        self.folder = folder
        self.tables = tables
        self.problems = problems


_lock = threading.Lock()
_folder: Path | None = None
_seen: object = None
_own: Own | None = None


def own() -> Own:
    """The own adapters of this process: read on first use, and again by :func:`refresh`."""
    return _own or refresh()


def refresh(config: Path | None = None) -> Own:
    """Read the own adapters again where they changed, from ``config`` from now on where given."""
    global _folder, _seen, _own
    with _lock:
        if config is not None:
            _folder = config / FOLDER
        folder = _folder or config_dir() / FOLDER
        # Taken before the files are read: one that changes meanwhile is read once more.
        seen = (folder, ownfiles.signature(folder))
        if _own is None or seen != _seen:
            _own, _seen = load(folder), seen
        return _own


def load(folder: Path) -> Own:
    """The adapters in ``folder``, and what of them was refused. Never raises."""
    files, reason = ownfiles.names(folder)
    if not files and not reason:
        return Own(folder, {}, ())
    from sessionpipe.adapters.own import Problem, parse

    tables: dict[str, Table] = {}
    problems: list[Problem] = []
    if reason:
        problems.append(Problem(str(folder), reason))
    if len(files) > ownfiles.MOST_FILES:
        problems.append(Problem(str(folder), f"more than {ownfiles.MOST_FILES} files: the rest is not read"))
    for file in files[: ownfiles.MOST_FILES]:
        try:
            text = ownfiles.text(folder / file)
            found = parse(file, text, shipped=names(), forwarded=environment())
        except (OSError, ValueError) as error:
            problems.append(Problem(file, getattr(error, "strerror", None) or str(error)))
            continue
        except Exception as error:  # A person wrote it: what we did not foresee stops nothing either.
            problems.append(Problem(file, f"it can't be used: {type(error).__name__}: {error}"))
            continue
        tables[found.adapter.name] = found
    return Own(folder, tables, tuple(problems))
