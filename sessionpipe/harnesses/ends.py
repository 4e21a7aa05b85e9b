"""Ends of turns that no hook told, and that a harness's files do (protocol §4, ``turn.ended``)."""

from __future__ import annotations

from typing import Any, NamedTuple


class End(NamedTuple):
    """When it was (epoch ms), whose turn's, and how: ``reason``, the ``error``'s class, how long it took."""

    ms: int
    turn_id: str | None
    reason: str
    error: str | None = None
    took_ms: int | None = None

    def draft(self, hook: dict[str, Any]) -> dict[str, Any]:
        """The event, to be put before what the hook itself tells.

        A file tells it again at every hook: it counts while such a turn runs.
        """
        told = {"turn_id": self.turn_id, "reason": self.reason, "error": self.error, "ms": self.took_ms}
        return {
            "type": "turn.ended",
            "at_ms": self.ms,
            "harness": dict(hook["harness"]),
            "session": dict(hook["session"]),
            "data": {name: value for name, value in told.items() if value is not None},
            "memo": {"only_running": True},
        }
