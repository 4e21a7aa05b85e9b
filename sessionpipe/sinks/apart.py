"""Running a package's code from a command: in a thread of its own, as it runs in a worker.

So it can't keep the command from ending, and what it prints is no part of what the command prints.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from threading import Thread
from typing import TypeVar

from sessionpipe.kinds import kind_of

_Value = TypeVar("_Value")

#: How long it may take: it may connect, and wait for an answer as long as ours do, a few times.
PATIENCE_S = 60.0


class TooSlow(Exception):
    """A package's code did not come to an end."""


def apart(kind: str, call: Callable[[], _Value]) -> _Value:
    """What ``call``, which runs the code of the sink ``kind``, gives or raises.

    Raises :class:`TooSlow` when a package's code takes longer than :data:`PATIENCE_S`; it is then left
    to itself.
    """
    if kind_of(kind).code is not None:
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
    with redirect_stdout(sys.stderr):
        thread.start()
        thread.join(PATIENCE_S)
    if went_wrong:
        raise went_wrong[0]
    if not came:
        raise TooSlow(f"the code of the sink kind {kind} did not come to an end within {PATIENCE_S:.0f} s")
    return came[0]
