"""Loading the rulesets: the data in ``rulesets/*.toml`` as tables, read once."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from sessionpipe.paths import data_dir


@cache
def load(name: str) -> dict[str, Any]:
    """The ruleset ``name`` (``secrets@1``, ``pii@1``) as it is written; do not change what you get."""
    return tomllib.loads((data_dir("rulesets") / f"{name}.toml").read_text("utf-8"))
