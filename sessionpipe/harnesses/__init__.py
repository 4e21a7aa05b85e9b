"""What no table can say about a harness: facts from its own files, git, transcripts.

One module per harness, named as its table is; what a module doesn't define is a no-op. All of it
returns raw text, which intake redacts before anything is stored, and none of it raises on any file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.adapters import registry
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.history import Past
from sessionpipe.harnesses.transcripts import Exchange, Reading, Want

Draft = dict[str, Any]


def _no_facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    return {}


def _as_they_are(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    return drafts


def _no_exchanges(path: object, cursor: dict[str, Any], want: Want, files: Files) -> Reading:
    # Complete, or a read would wait for ever for a transcript that nobody reads.
    return Reading([], cursor, complete=True)


def _nowhere(draft: Draft, context: Context, files: Files) -> str | None:
    return None


def _no_history(context: Context, since_ms: int, files: Files) -> Iterable[Past]:
    return ()


class Harness(NamedTuple):
    """What is known of one harness beyond its table.

    ``facts(draft, context, files)``: fields of the session block (protocol §3), and ``version`` for the
    harness block; a title is one line, but not yet cut to its length. Called once per hook.
    ``amend(drafts, context, files)``: the drafts with what only the harness's files say of them.
    ``missed(drafts, context, files)``: the drafts, and in their places among them those of what no hook told
    and the files do: an interrupted turn's end (its memo says ``only_running``), new usage limits.
    ``transcript(draft, context, files)``: where the session's transcript is, when the payload doesn't say.
    ``exchanges(path, cursor, want, files)``: see :mod:`sessionpipe.harnesses.transcripts`.
    ``history(context, since_ms, files)``: see :mod:`sessionpipe.harnesses.history`.
    """

    facts: Callable[[Draft, Context, Files], dict[str, Any]] = _no_facts
    amend: Callable[[list[Draft], Context, Files], list[Draft]] = _as_they_are
    missed: Callable[[list[Draft], Context, Files], list[Draft]] = _as_they_are
    transcript: Callable[[Draft, Context, Files], str | None] = _nowhere
    exchanges: Callable[[str | Path | None, dict[str, Any], Want, Files], Reading] = _no_exchanges
    history: Callable[[Context, int, Files], Iterable[Past]] = _no_history


@cache
def get(name: str) -> Harness:
    """The harness of that name; one that knows nothing when there is no module for it."""
    # The name comes from a job: it becomes a module's only where a table and a module are named so.
    if name not in _with_module():
        return Harness()
    module = import_module(f"sessionpipe.harnesses.{_stem(name)}")
    return Harness(**{field: getattr(module, field) for field in Harness._fields if hasattr(module, field)})


@cache
def _with_module() -> frozenset[str]:
    """The harnesses that have a module in this package beside their table."""
    there = {path.stem for path in Path(__file__).parent.glob("*.py")}
    return frozenset(name for name in registry.names() if _stem(name) in there)


def _stem(name: str) -> str:
    return name.replace("-", "_")


__all__ = ["Context", "Draft", "Exchange", "Files", "Harness", "Past", "Reading", "Want", "get"]
