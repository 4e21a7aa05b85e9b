"""The harnesses we know: one table per file in ``adapters/``, read and compiled when first asked for."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

from sessionpipe.adapters.engine import PROTOCOL_ENVIRONMENT, Adapter, compile_adapter
from sessionpipe.paths import data_dir


@cache
def names() -> tuple[str, ...]:
    """The names of all harnesses we have a table for, sorted."""
    return tuple(sorted(path.stem for path in data_dir("adapters").glob("*.toml")))


@cache
def table(name: str) -> Mapping[str, Any]:
    """The table of one harness as its file has it, ``[install]`` included. Raises :class:`KeyError`."""
    if name not in names():
        raise KeyError(name)
    with (data_dir("adapters") / f"{name}.toml").open("rb") as file:
        return tomllib.load(file)


@cache
def adapter(name: str) -> Adapter:
    """One harness's compiled adapter. Raises :class:`KeyError` for one we don't know."""
    return compile_adapter(name, table(name))


def environment() -> frozenset[str]:
    """The exact names of the variables a hook hands on: all that some adapter or the protocol reads."""
    wanted = (table(name).get("hook", {}).get("environment", []) for name in names())
    return frozenset(PROTOCOL_ENVIRONMENT).union(*wanted)
