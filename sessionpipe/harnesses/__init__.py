"""What no table can say about a harness: facts from its own files, git, transcripts.

One module per harness, named as its table is; what a module doesn't define is a no-op. All of it
returns raw text, which intake redacts before anything is stored, and none of it raises on any file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.transcripts import Exchange, Reading, Want

Draft = dict[str, Any]


def _no_facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    return {}


def _as_they_are(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    return drafts


def _no_exchanges(path: object, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    # Complete, or a read would wait for ever for a transcript that nobody reads.
    return Reading([], cursor, complete=True)


class Harness(NamedTuple):
    """What is known of one harness beyond its table.

    ``facts(draft, context, files)``: fields of the session block (protocol §3), and ``version`` for the
    harness block; a title is one line, but not yet cut to its length. Called once per hook.
    ``amend(drafts, context, files)``: the drafts with what only the harness's files say.
    ``exchanges(path, cursor, want, files)``: see :mod:`sessionpipe.harnesses.transcripts`.
    """

    facts: Callable[[Draft, Context, Files], dict[str, Any]] = _no_facts
    amend: Callable[[list[Draft], Context, Files], list[Draft]] = _as_they_are
    exchanges: Callable[[str | Path | None, dict[str, Any], Want, Files], Reading] = _no_exchanges


_MODULES = frozenset({"claude-code", "codex", "pi"})


@cache
def get(name: str) -> Harness:
    """The harness of that name; one that knows nothing when there is no module for it."""
    if name not in _MODULES:
        return Harness()
    module = import_module(f"sessionpipe.harnesses.{name.replace('-', '_')}")
    return Harness(**{field: getattr(module, field) for field in Harness._fields if hasattr(module, field)})


__all__ = ["Context", "Draft", "Exchange", "Files", "Harness", "Reading", "Want", "get"]
