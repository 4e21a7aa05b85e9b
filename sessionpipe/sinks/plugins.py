"""Finding the code of a kind of sink: one of ours, or what an installed package registered.

Looking through the installed packages takes tens of milliseconds, so it is done for a kind that is
not ours alone; and the code of a package runs only where the person added a sink of its kind.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from sessionpipe.kinds import GROUP, OURS, kind_of
from sessionpipe.sinks.base import NotReady, Setup, Sink

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Make = Callable[[Setup], Sink]


def load(kind: str) -> Make:
    """What makes sinks of ``kind``. Raises :class:`NotReady`, and whatever its import raises."""
    code = kind_of(kind).code
    if code is not None:
        module, _, name = code.partition(":")
        found = getattr(importlib.import_module(module), name)
    else:
        found = _entry(kind).load()
    if isinstance(found, type) and issubclass(found, Sink):
        return found.make
    if callable(found) and not isinstance(found, type):
        return found  # type: ignore[no-any-return]  # What it makes is looked at by whoever calls it.
    raise NotReady(f"what the package registered as {kind} is neither a Sink nor a function that makes one")


def installed() -> dict[str, str]:
    """The kinds that installed packages bring, and of which package each is; ``A and B`` where two do."""
    found: dict[str, set[str]] = {}
    for entry in _entries():
        if entry.name not in OURS:
            found.setdefault(entry.name, set()).add(_owner(entry))
    return {kind: " and ".join(sorted(owners)) for kind, owners in found.items()}


def _entry(kind: str) -> EntryPoint:
    # One that was installed a moment ago must not be missed by a worker that is long at work.
    importlib.invalidate_caches()
    found = {(entry.value, _owner(entry)): entry for entry in _entries(kind)}
    if not found:
        raise NotReady(_missing(kind))
    if len(found) > 1:
        packages = " and ".join(sorted(package for _, package in found))
        raise NotReady(
            f"more than one package brings the sink kind {kind} ({packages}); uninstall all but one"
        )
    return next(iter(found.values()))


def _owner(entry: EntryPoint) -> str:
    try:
        name = entry.dist.name if entry.dist else None
    except Exception:  # Metadata can be broken in as many ways as there are tools that write it.
        name = None
    return name or "an unnamed package"


def _missing(kind: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(kind, OURS, 1)
    meant = f"; did you mean {close[0]}?" if close else "; install the one that does beside sessionpipe"
    return f"no installed package brings the sink kind {kind}{meant}"


def _entries(name: str | None = None) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return list(entry_points(group=GROUP) if name is None else entry_points(group=GROUP, name=name))
