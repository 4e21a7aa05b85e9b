"""Running the receiver: one socket, one process, until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sessionpipe.receiver.app import Receiver

#: How long the head of a request may take.
HEAD_S = 10.0
#: Connections at once, open pages included; more are told to come again.
CONNECTIONS = 200
#: How long answers under way get when it ends.
_GRACE_S = 3


def listen(host: str, port: int) -> list[socket.socket]:
    """Listening sockets, one port for all; raises OSError where there can be none.

    ``localhost`` is both of this machine's own addresses: on the one that was left free, another user's
    program could be sent what is meant for this one, the token with it.
    """
    if host != "localhost":
        return [_listener(host, port)]
    listeners = [_listener("127.0.0.1", port)]
    try:
        listeners.append(_listener("::1", listeners[0].getsockname()[1]))
    except OSError as error:
        if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            listeners[0].close()
            raise
    return listeners


def _listener(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    # With its protocol said: asyncio turns off Nagle's algorithm for nothing else, and 40 ms a request go by.
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener


def run(
    receiver: Receiver, listeners: list[socket.socket], names: frozenset[str], ready: Callable[[], None]
) -> None:
    """Serve until SIGINT or SIGTERM; ``ready`` is called once requests are answered."""
    log = logging.getLogger("uvicorn.error")
    log.addHandler(_OneLine())
    log.propagate = False
    config = uvicorn.Config(
        receiver.app(names),
        http=_Patient,
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        # Nobody in front of it is believed about who asks.
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_S,
    )
    asyncio.run(_Server(config, receiver, ready).serve(sockets=listeners))


class _Server(uvicorn.Server):
    """Ends when told to, its open pages first, and then like any program that did what it was told."""

    def __init__(self, config: uvicorn.Config, receiver: Receiver, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._receiver, self._ready = receiver, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._end)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _end(self) -> None:
        self.force_exit = self.should_exit  # Told twice: at once.
        self.should_exit = True
        self._receiver.hub.close()


class _Patient(H11Protocol):
    """HTTP/1.1 with a bound on how long a request's head may take, which uvicorn has none for."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._late is not None:
            self._late.cancel()

    def _await_head(self) -> None:
        awaited = self.conn.their_state is h11.IDLE
        if awaited and self._late is None:
            self._late = self.loop.call_later(HEAD_S, self._hang_up)
        elif not awaited and self._late is not None:
            self._late.cancel()
            self._late = None

    def _hang_up(self) -> None:
        self._late = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


class _OneLine(logging.Handler):
    """What the server says of a fault, in one line and without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        error: Any = record.exc_info[1] if record.exc_info else None
        what = f"{type(error).__name__}: {error}" if error else record.getMessage()
        print(
            f"sessionpipe: the receiver failed: {' '.join(what.split())[:300]}", file=sys.stderr, flush=True
        )
