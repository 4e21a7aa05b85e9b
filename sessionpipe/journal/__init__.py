"""The session event journal: the timed history of a Pi session as a bundle of files.

:func:`reduce` folds a journal into a view of the conversation; :func:`verify` says whether a bundle keeps
the format's rules. Both are loaded when they are asked for: the recorder needs neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sessionpipe.journal.reducer import reduce
    from sessionpipe.journal.validator import Report, verify

_PLACES = {"reduce": "reducer", "verify": "validator", "Report": "validator"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)


__all__ = ["Report", "reduce", "verify"]
