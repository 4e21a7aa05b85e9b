"""Whether the code of a sink can be used here, looked at when the person adds the sink."""

from __future__ import annotations

import os

from sessionpipe.cli.common import Fail
from sessionpipe.config import SinkConfig
from sessionpipe.kinds import kind_of
from sessionpipe.outbox import SinkState

#: What comes with sessionpipe and needs nothing more.
_ALWAYS = frozenset(("http", "file", "stdout"))


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
    from sessionpipe.sinks.apart import TooSlow, apart

    made = build(sink, SinkState(name=sink.name), log=lambda _level, _message: None, env=os.environ)

    def look() -> None:
        try:
            made.loaded()
        finally:
            made.close()

    try:
        apart(sink.kind, look)
    except ValueError as error:
        raise Fail(f"{sink.shown} can't be used: {error}") from None
    except TooSlow as error:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # As where it is used: nothing it does is more than its own trouble.
        return made.fault(error)
    return None


def _package(kind: str) -> str:
    from sessionpipe.sinks.plugins import installed

    return installed().get(kind, "")
