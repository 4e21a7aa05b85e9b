"""Telling open pages that something changed: server-sent events that say "look again", and nothing else.

A page that is told fetches itself anew, so that what a browser shows first and what it shows later are
made by the same code, and a reader that is slow costs no memory: changes it has not been told of are one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

#: How many pages may be open at once.
CONNECTIONS = 32
#: So often something is sent, that one which is gone be noticed.
HEARTBEAT_S = 15.0
#: Changes within this time are told as one.
PAUSE_S = 0.25


class Hub:
    """Who looks, and at which session (None: at the board). Used from one event loop."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Event, str | None] = {}
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether no more may look."""
        return len(self._open) >= CONNECTIONS

    def tell(self, sessions: Iterable[str]) -> None:
        """``sessions`` (``harness:id``) have changed."""
        changed = set(sessions)
        for woken, of in self._open.items():
            if changed and (of is None or of in changed):
                woken.set()

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for woken in self._open:
            woken.set()

    async def watch(self, of: str | None) -> AsyncIterator[bytes]:
        """The stream of a page that looks at ``of``."""
        woken = asyncio.Event()
        self._open[woken] = of
        try:
            # At once, and again on every new connection: whatever was missed meanwhile is one look away.
            yield b"retry: 2000\n\ndata: look\n\n"
            while not self._closed:
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await woken.wait()
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if self._closed:
                    return
                woken.clear()
                yield b"data: look\n\n"
                await asyncio.sleep(PAUSE_S)
        finally:
            del self._open[woken]
