"""The code of a sink, run by a command: whether it can be used here, and whatever else is asked of it.

A package's code runs in a thread of its own, as it does in a worker: so it can't keep a command from
ending, and what it prints is no part of what a command prints.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from threading import Thread
from typing import TypeVar

from sessionpipe.cli.common import Fail
from sessionpipe.config import SinkConfig
from sessionpipe.kinds import kind_of
from sessionpipe.outbox import SinkState

_Value = TypeVar("_Value")

#: What comes with sessionpipe and needs nothing more.
_ALWAYS = frozenset(("http", "file", "stdout"))

#: How long a package's code may take: it may connect, and wait for an answer as long as ours do, a few times.
PATIENCE_S = 60.0


class TooSlow(Exception):
    """A package's code did not come to an end."""


def look_at_code(sink: SinkConfig) -> list[str]:
    """Load it; what to say of it. Raises :class:`Fail` where its target is not one it can use."""
    trouble = missing(sink)
    remarks = [f"  warning: it waits, because {trouble}"] if trouble else []
    if not trouble and kind_of(sink.kind).code is None and (package := _package(sink.kind)):
        remarks.insert(0, f"  it is served by the package {package}, whose code runs as you")
    return remarks


def missing(sink: SinkConfig) -> str | None:
    """Why the code of ``sink`` can't be used here and now; None when it can."""
    if sink.kind in _ALWAYS:
        return None
    from sessionpipe.sinks import build

    made = build(sink, SinkState(name=sink.name), log=lambda _level, _message: None, env=os.environ)

    def look() -> None:
        try:
            made.loaded()
        finally:
            made.close()

    try:
        apart(sink, look)
    except ValueError as error:
        raise Fail(f"{sink.shown} can't be used: {error}") from None
    except TooSlow as error:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # As where it is used: nothing it does is more than its own trouble.
        return made.fault(error)
    return None


def apart(sink: SinkConfig, call: Callable[[], _Value], patience_s: float | None = None) -> _Value:
    """What ``call``, which runs the code of ``sink``, gives or raises.

    Raises :class:`TooSlow` when a package's code takes longer than ``patience_s``, :data:`PATIENCE_S`
    unless said; it is then left to itself.
    """
    if kind_of(sink.kind).code is not None:
        return call()
    came: list[_Value] = []
    went_wrong: list[BaseException] = []

    def run() -> None:
        try:
            came.append(call())
        except KeyboardInterrupt as error:
            # Nobody presses Ctrl-C in a thread.
            went_wrong.append(RuntimeError("it raises KeyboardInterrupt").with_traceback(error.__traceback__))
        except BaseException as error:
            went_wrong.append(error)

    # A daemon, and so are the threads it starts, as in a worker.
    thread = Thread(target=run, daemon=True)
    patience_s = PATIENCE_S if patience_s is None else patience_s
    with redirect_stdout(sys.stderr):
        thread.start()
        thread.join(patience_s)
    if went_wrong:
        raise went_wrong[0]
    if not came:
        raise TooSlow(
            f"the code of the sink kind {sink.kind} did not come to an end within {patience_s:.0f} s"
        )
    return came[0]


def _package(kind: str) -> str:
    from sessionpipe.sinks.plugins import installed

    return installed().get(kind, "")
