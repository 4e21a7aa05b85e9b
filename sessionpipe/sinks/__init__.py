"""Sinks: how a batch is handed over, and which outcome the answer is; nothing else.

One module per kind, imported when a sink of that kind is used: a worker without an HTTP sink loads
no HTTP client, and none looks through installed packages unless a sink is of a kind that one brings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import deepcopy

from sessionpipe.config import SinkConfig
from sessionpipe.outbox import SinkState
from sessionpipe.sinks.base import Held, Learned, Log, Setup, Sink, Tail
from sessionpipe.sinks.guard import Guarded


def build(config: SinkConfig, state: SinkState, *, log: Log, env: Mapping[str, str] = os.environ) -> Guarded:
    """The sink that ``config`` describes; ``state`` holds what was learnt of its receiver earlier.

    ``log`` takes a level and a message. Nothing is loaded, opened or sent yet, and nothing that goes
    wrong with its code is more than an outcome.
    """
    # Copies: what a sink's code changes in them is not to be taken for what was set or learnt.
    return Guarded(Setup(deepcopy(config), deepcopy(state.discovery), env, log))


__all__ = ["Held", "Learned", "Log", "Setup", "Sink", "Tail", "build"]
