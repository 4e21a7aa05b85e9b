"""Thinned tool events (protocol §4): which of a session's tool events a sink is sent. Pure.

``all`` thins nothing; ``main`` thins the subagents' threads; ``beat`` thins every thread. A thinned
thread is sent no ``tool.started``, and of its ``tool.ended`` events the first that is at least 60 s,
by event time and in either direction, from the last ``tool.ended`` the session was sent. A thread's
first ``tool.ended`` timed at or after its ``attention.needed`` always goes: it shows that the prompt
was answered. No other type is thinned.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sessionpipe.config import Tools

WINDOW_MS = 60_000

#: How many sessions a window remembers, and how many open prompts a thread: a bound on the sink's row.
_SESSIONS, _PROMPTS = 256, 64
#: From how many sessions on those that were silent for an hour, with no open prompt, are let go.
_TIDY, _STALE_MS = 64, 3_600_000


class Seen(msgspec.Struct, frozen=True, omit_defaults=True):
    """What thinning remembers of one session.

    ``last`` is the time of the last ``tool.ended`` it was sent (epoch ms); ``asked`` holds, per
    thread (an ``agent_id``; ``""`` is the main thread), when its prompts not yet answered were opened.
    """

    last: int | None = None
    asked: dict[str, tuple[int, ...]] = {}


def thin(seen: Seen, tools: Tools, type_: str, thread: str, time_ms: int) -> tuple[bool, Seen]:
    """Whether an event goes, and what is remembered of its session once it has gone."""
    thinned = tools == "beat" or (tools == "main" and thread != "")
    if type_ == "tool.started":
        return not thinned, seen
    if type_ == "attention.needed" and thinned:
        opened = (*seen.asked.get(thread, ()), time_ms)[-_PROMPTS:]
        return True, Seen(seen.last, {**seen.asked, thread: opened})
    if type_ != "tool.ended":
        return True, seen
    asked = seen.asked.get(thread, ())
    still = tuple(at for at in asked if at > time_ms)
    proves = len(still) < len(asked)
    if thinned and not proves and seen.last is not None and abs(time_ms - seen.last) < WINDOW_MS:
        return False, seen
    others = {name: times for name, times in seen.asked.items() if name != thread}
    return True, Seen(time_ms, {**others, thread: still} if still else others)


class Window:
    """The thinning of one sink over all sessions, as it is kept beside the sink's cursor.

    Made from the stored form with :meth:`load`; a stored window of another setting is forgotten.
    ``admit`` decides and remembers nothing until ``keep`` is called: an event that goes may still
    not fit the batch.
    """

    def __init__(self, tools: Tools, sessions: dict[str, Seen]) -> None:
        self._tools = tools
        self._sessions = sessions

    @classmethod
    def load(cls, tools: Tools, stored: dict[str, Any]) -> Window:
        if tools == "all" or stored.get("tools") != tools:
            return cls(tools, {})
        return cls(tools, msgspec.convert(stored.get("sessions", {}), dict[str, Seen]))

    def dump(self) -> dict[str, Any]:
        """The form that :meth:`load` reads; plain JSON."""
        if self._tools == "all":
            return {}
        return {"tools": self._tools, "sessions": msgspec.to_builtins(self._sessions)}

    def admit(self, session: str, type_: str, thread: str, time_ms: int) -> tuple[bool, Seen | None]:
        """Whether the event goes; what :meth:`keep` must be told when it has its place in the batch."""
        if self._tools == "all":
            return True, None
        seen = self._sessions.get(session, Seen())
        goes, then = thin(seen, self._tools, type_, thread, time_ms)
        return goes, then if then is not seen else None

    def keep(self, session: str, seen: Seen, time_ms: int) -> None:
        """Remember ``seen`` as the newest of the sessions."""
        self._sessions.pop(session, None)
        self._sessions[session] = seen
        if len(self._sessions) > _TIDY:
            self._tidy(time_ms)

    def _tidy(self, time_ms: int) -> None:
        stale = [
            name
            for name, seen in self._sessions.items()
            if not seen.asked and abs(time_ms - (seen.last or 0)) > _STALE_MS
        ]
        for name in stale:
            del self._sessions[name]
        while len(self._sessions) > _SESSIONS:
            # The longest silent, and one that waits for nobody's answer if there is one: without its
            # window a session is sent an event more, without its prompt one less.
            idle = (name for name, seen in self._sessions.items() if not seen.asked)
            del self._sessions[next(idle, None) or next(iter(self._sessions))]
