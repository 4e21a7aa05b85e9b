"""Who is told that something changed, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sessionpipe.receiver import live
from sessionpipe.receiver.live import CONNECTIONS, Hub

LOOK = b"data: look\n\n"


async def first(stream: AsyncIterator[bytes]) -> bytes:
    async with asyncio.timeout(5):
        return await anext(stream)


def test_it_says_look_at_once_and_at_every_change() -> None:
    async def scenario() -> None:
        hub = Hub()
        stream = hub.watch(None)
        assert LOOK in await first(stream)
        hub.tell({"pi:a"})
        assert await first(stream) == LOOK

    asyncio.run(scenario())


def test_many_changes_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PAUSE_S", 0)
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.01)

    async def scenario() -> None:
        hub = Hub()
        stream = hub.watch(None)
        await first(stream)
        for n in range(100):
            hub.tell({f"pi:{n}"})
        assert await first(stream) == LOOK
        assert await first(stream) == b": still here\n\n"

    asyncio.run(scenario())


def test_a_page_of_one_session_hears_of_that_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.01)

    async def scenario() -> None:
        hub = Hub()
        stream = hub.watch("pi:a")
        await first(stream)
        hub.tell({"pi:b"})
        hub.tell(set())
        assert await first(stream) == b": still here\n\n"
        hub.tell({"pi:a", "pi:b"})
        assert await first(stream) == LOOK

    asyncio.run(scenario())


def test_it_has_so_many_places_and_takes_them_back() -> None:
    async def scenario() -> None:
        hub = Hub()
        streams = [hub.watch(None) for _ in range(CONNECTIONS)]
        for stream in streams:
            await first(stream)
        assert hub.full
        await streams[0].aclose()  # type: ignore[attr-defined]
        assert not hub.full

    asyncio.run(scenario())


def test_it_ends_every_stream_when_it_closes() -> None:
    async def scenario() -> None:
        hub = Hub()
        stream = hub.watch(None)
        await first(stream)
        hub.close()
        with pytest.raises(StopAsyncIteration):
            await first(stream)
        assert [chunk async for chunk in hub.watch(None)] == [b"retry: 2000\n\ndata: look\n\n"]

    asyncio.run(scenario())
