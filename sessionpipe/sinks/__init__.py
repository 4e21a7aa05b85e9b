"""Sinks: how a batch is handed over, and which outcome the answer is; nothing else.

One module per kind, imported when a sink of that kind is built: a worker without an HTTP sink loads
no HTTP client.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from sessionpipe.config import SinkConfig
from sessionpipe.outbox import SinkState
from sessionpipe.sinks.base import Held, Learned, Log, Sink, Tail


def build(config: SinkConfig, state: SinkState, *, log: Log, env: Mapping[str, str] = os.environ) -> Sink:
    """The sink that ``config`` describes; ``state`` holds what was learnt of its receiver earlier.

    ``log`` takes a level and a message. Nothing is opened or sent yet.
    """
    if config.kind == "http":
        from sessionpipe.sinks.http import HttpSink

        return HttpSink(config, state.discovery, env=env, log=log)
    if config.kind == "file":
        from sessionpipe.sinks.file import FileSink

        return FileSink(config.path or "", env=env)
    from sessionpipe.sinks.stdout import StdoutSink

    return StdoutSink()


__all__ = ["Held", "Learned", "Log", "Sink", "Tail", "build"]
