"""The circumstances of one hook, as its job recorded them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Context(NamedTuple):
    """Where and when a hook ran.

    ``env`` holds the variables the hook forwarded, never the environment of the process that reads
    this: facts are those of the session's own shell. ``cwd`` is the hook's working directory,
    ``at_ms`` its time (epoch milliseconds), ``home`` the person's home directory when it is known.
    """

    env: Mapping[str, str]
    cwd: str
    at_ms: int
    home: str | None
