"""Loading the rulesets: the data in ``rulesets/*.toml`` as tables, read once.

Parsing 130 KB of TOML takes longer than a bare interpreter's start, so the tables are kept where
:mod:`.keeping` says, as JSON, under a digest of the file they are of.
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from typing import Any

from sessionpipe.paths import data_dir
from sessionpipe.privacy import keeping


@cache
def load(name: str) -> dict[str, Any]:
    """The ruleset ``name`` (``secrets@1``, ``pii@1``) as it is written; do not change what you get."""
    text = (data_dir("rulesets") / f"{name}.toml").read_bytes()
    key = sha256(b"json of\0" + text).hexdigest()
    tables: dict[str, Any]
    if (kept := keeping.get(key)) is not None:
        tables = json.loads(kept)
        return tables
    import tomllib

    tables = tomllib.loads(text.decode())
    keeping.put(key, json.dumps(tables).encode())
    return tables
