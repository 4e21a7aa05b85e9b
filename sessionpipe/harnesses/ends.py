"""What no hook told and a harness's files do: ends of turns above all (protocol §4, ``turn.ended``)."""

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
        """The event, to be put before what the hook itself tells."""
        told = {"turn_id": self.turn_id, "reason": self.reason, "error": self.error, "ms": self.took_ms}
        data = {name: value for name, value in told.items() if value is not None}
        return learnt("turn.ended", self.ms, data, hook)


def learnt(kind: str, ms: int, data: dict[str, Any], hook: dict[str, Any]) -> dict[str, Any]:
    """An event that happened in a turn, learnt when a hook ran.

    A file tells it again at every hook: it counts while the turn runs in which it was.
    """
    return {
        "type": kind,
        "at_ms": ms,
        "harness": dict(hook["harness"]),
        "session": dict(hook["session"]),
        "data": data,
        "memo": {"only_running": True},
    }
