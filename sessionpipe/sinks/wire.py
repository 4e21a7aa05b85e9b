"""One HTTP request, within one deadline, to one host: the only module that opens a connection.

Built on httpcore, the engine below httpx: half the start-up and a third less memory than httpx, and
the network itself is a documented seam there, which is what makes the deadline hold. httpx's own
timeouts bound each read, so that a receiver that drips a byte a second would hold a sink for hours;
here every read, write and connect gets only what is left of the request's time.

No redirect is followed, no cookie kept, no compression asked for. TLS is always verified, against
the system's authorities and certifi's. A proxy is used where ``HTTPS_PROXY`` names one and
``NO_PROXY`` does not except the host: it sees which host is spoken to, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpcore
import msgspec

from sessionpipe import __version__
from sessionpipe.config import LOOPBACK

DEADLINE_S = 15.0
#: How much of an answer is read; what a receiver says beyond it is not worth a sink's memory.
LONGEST_ANSWER = 64 * 1024
#: Below what servers commonly keep a connection for, so that we are the one who closes it.
_KEEPALIVE_S = 4.0
_WRITE_AT_ONCE = 16 * 1024


class Unreachable(Exception):
    """There was no answer; the message says why. ``connect``: not even a connection."""

    def __init__(self, message: str, *, connect: bool) -> None:
        super().__init__(message)
        self.connect = connect


class Answer(msgspec.Struct, frozen=True):
    """A status, the headers (names in lower case) and what was read of the body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def without(self, credentials: Iterable[str | None]) -> Answer:
        """The answer with every echo of our own credentials taken out."""
        body, headers = self.body, self.headers
        for credential in filter(None, credentials):
            body = body.replace(credential.encode(), b"[redacted]")
            headers = {name: value.replace(credential, "[redacted]") for name, value in headers.items()}
        return Answer(self.status, headers, body)


class Wire:
    """Requests to one host over one kept connection. Used by one thread."""

    def __init__(self, env: Mapping[str, str] = os.environ, deadline_s: float = DEADLINE_S) -> None:
        self._env = env
        self._deadline_s = deadline_s
        self._clock = _Clock()
        self._pools: dict[str, httpcore.ConnectionPool] = {}

    def request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """Send a request and read its answer. Raises :class:`Unreachable`."""
        target = _target(url)
        sent = {
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": f"sessionpipe/{__version__}",
            **(headers or {}),
        }
        self._clock.start(self._deadline_s)
        connected = False

        def trace(event: str, info: Mapping[str, Any]) -> None:
            nonlocal connected
            # The first thing a proxy is sent is a request too, for the connection that is not there yet.
            if event == "http11.send_request_headers.started":
                connected = info["request"].method != b"CONNECT"

        try:
            pool = self._pool(target)
            with pool.stream(
                method,
                target,
                headers=[(name.encode(), value.encode()) for name, value in sent.items()],
                content=body,
                extensions={"timeout": {"pool": self._deadline_s}, "trace": trace},
            ) as response:
                return Answer(response.status, _headers(response.headers), _body(response))
        except (httpcore.TimeoutException, TimeoutError):
            raise Unreachable(
                f"no answer within {self._deadline_s:.0f} s" if connected else "no connection in time",
                connect=not connected,
            ) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError, OSError) as error:
            what = re.sub(r"^\[(Errno -?\d+|SSL: \w+)\] ", "", str(error)) or type(error).__name__
            raise Unreachable(
                f"the connection broke off: {what}" if connected else f"no connection: {what}",
                connect=not connected,
            ) from None

    def close(self) -> None:
        """Close the kept connection."""
        for pool in self._pools.values():
            with contextlib.suppress(OSError):
                pool.close()
        self._pools.clear()

    def _pool(self, url: httpcore.URL) -> httpcore.ConnectionPool:
        host = url.host.decode()
        if host not in self._pools:
            options: dict[str, Any] = {
                "ssl_context": _tls() if url.scheme == b"https" else None,
                "max_connections": 1,
                "keepalive_expiry": _KEEPALIVE_S,
                "network_backend": _Backend(self._clock),
            }
            proxy = proxy_for(url.scheme.decode(), host, self._env)
            self._pools[host] = (
                httpcore.ConnectionPool(**options)
                if proxy is None
                else httpcore.HTTPProxy(proxy[0], proxy_auth=proxy[1], **options)
            )
        return self._pools[host]


def proxy_for(scheme: str, host: str, env: Mapping[str, str]) -> tuple[str, tuple[str, str] | None] | None:
    """The proxy that ``env`` names for a host, as (URL, (user, password) or None). Pure.

    Only for https: plain http never leaves this machine. Raises OSError for a proxy of a kind that
    can't be used.
    """
    if scheme != "https" or host in LOOPBACK:
        return None
    named = next(
        (env[name] for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY") if env.get(name)), ""
    )
    if not named or _excepted(host, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    try:
        parts = urlsplit(named if "://" in named else f"http://{named}")
        where = f"{parts.scheme}://{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    except ValueError:
        raise OSError(0, "the proxy in HTTPS_PROXY is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OSError(0, "the proxy in HTTPS_PROXY is not an http proxy")
    user = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
    return where, user


def _excepted(host: str, exceptions: str) -> bool:
    names = [name.strip().lower().lstrip("*").lstrip(".") for name in exceptions.split(",")]
    bare = exceptions.strip() == "*"
    return bare or any(name and (host == name or host.endswith(f".{name}")) for name in names)


def _target(url: str) -> httpcore.URL:
    parts = urlsplit(url)
    host = parts.hostname or ""
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    return httpcore.URL(
        scheme=parts.scheme.encode(),
        host=host.encode() if ":" in host else host.encode("idna"),
        port=parts.port,
        target=(path + (f"?{query}" if query else "")).encode(),
    )


def _headers(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in raw}


def _body(response: httpcore.Response) -> bytes:
    """What arrives of the body, up to the bound. An answer that breaks off after its status stays one."""
    parts: list[bytes] = []
    size = 0
    try:
        for part in response.iter_stream():
            parts.append(part)
            size += len(part)
            if size >= LONGEST_ANSWER:
                break
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError):
        pass
    return b"".join(parts)[:LONGEST_ANSWER]


def _tls() -> ssl.SSLContext:
    import certifi

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


class _Clock:
    """What is left of a request's time."""

    def __init__(self) -> None:
        self._end = 0.0

    def start(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left


class _Backend(httpcore.NetworkBackend):
    """Real sockets whose every operation gets what is left of the request's time."""

    def __init__(self, clock: _Clock) -> None:
        self._clock = clock
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(f"{host} has no address ({error.strerror})") from None
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        # One address that swallows packets must leave time for the next.
        for position, (*_, address) in enumerate(found):
            share = self._clock.left() / (len(found) - position)
            try:
                stream = self._sockets.connect_tcp(
                    str(address[0]), port, timeout=share, socket_options=socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _Stream(stream, self._clock)
        raise failure


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, clock: _Clock) -> None:
        self._stream = stream
        self._clock = clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._clock.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # In parts: the stream below gives its timeout anew to each piece the receiver deigns to take.
        for start in range(0, len(buffer), _WRITE_AT_ONCE):
            self._stream.write(buffer[start : start + _WRITE_AT_ONCE], self._clock.left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, self._clock.left())
        return _Stream(secured, self._clock)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
