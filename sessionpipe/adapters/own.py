"""People's own adapters: tables for agents we never heard of, held to what is safe to run. Pure.

A file is a table like the shipped ones (adapters/README.md), for a name that none of those has. The hook
is the same for everybody and hands on what the shipped tables ask for, so an own one can have no other
variable; its patterns run over whatever an agent says, so they must take time linear in it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from sessionpipe.adapters.engine import Adapter, compile_adapter
from sessionpipe.adapters.values import Mistake
from sessionpipe.privacy.safe import Unsafe, check
from sessionpipe.protocol.ids import is_harness_name


class Table(NamedTuple):
    """One own adapter: its file's name, what it says, and what that compiles to."""

    file: str
    table: Mapping[str, Any]
    adapter: Adapter


class Problem(NamedTuple):
    """An own adapter that was refused whole: the file's name, and why."""

    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


def parse(file: str, text: str, *, shipped: Collection[str], forwarded: Collection[str]) -> Table:
    """The adapter in ``text``, which came from ``file``. Raises :class:`Mistake`, saying where and why.

    ``shipped`` are the names that are taken, ``forwarded`` the variables a hook hands on.
    """
    name = file.removesuffix(".toml")
    if name in shipped:
        raise Mistake(f"{name} comes with sessionpipe; give yours a name of its own, and the file that name")
    if not is_harness_name(name):
        raise Mistake("its name has other signs than a-z, 0-9 and -, or more than 64; rename it")
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Mistake(f"it is no TOML: {error}") from error
    adapter = compile_adapter(name, table)
    if not adapter.events:
        raise Mistake("it has no [events.<Name>], so nothing would come of it")
    hook = table.get("hook", {})
    if not isinstance(hook, dict):
        raise Mistake("hook is a table")
    wanted = {*_listed(hook.get("environment", [])), *_variables(table)}
    if unknown := sorted(wanted - set(forwarded)):
        raise Mistake(
            f"the hook hands on no {', '.join(unknown)}; it hands on {', '.join(sorted(forwarded))}, and nothing"
            " else, because agents keep keys in their environment"
        )
    for where, pattern in _patterns(table, name):
        try:
            check(pattern)
        except Unsafe as problem:
            raise Mistake(f"{where}: its pattern {problem}") from problem
    return Table(file, table, adapter)


def _listed(said: Any) -> list[str]:
    if not isinstance(said, list) or not all(isinstance(name, str) for name in said):
        raise Mistake("hook.environment is a list of names")
    return said


def _variables(spec: Any) -> Iterator[str]:
    """The variables that values look at."""
    if isinstance(spec, str):
        yield from re.findall(r"^\$env\.(\w+)$", spec)
    elif isinstance(spec, (dict, list)):
        for inner in [*spec, *spec.values()] if isinstance(spec, dict) else spec:
            yield from _variables(inner)


def _patterns(spec: Any, where: str) -> Iterator[tuple[str, str]]:
    """The regular expressions in a table, and where they stand."""
    if isinstance(spec, list):
        for inner in spec:
            yield from _patterns(inner, where)
    elif isinstance(spec, dict):
        for key, inner in spec.items():
            here = f"{where}, {key}"
            if key == "matches" and isinstance(inner, dict):
                yield from ((here, pattern) for pattern in inner.values() if isinstance(pattern, str))
            elif key in ("find", "find_all") and isinstance(inner, str):
                yield here, inner
            elif key not in ("is", "map"):
                yield from _patterns(inner, here)
