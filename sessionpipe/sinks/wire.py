"""One HTTP request, within one deadline, to one host: the only module that opens a connection.

Built on httpcore, the engine below httpx: half the start-up and a third less memory than httpx, and
the network itself is a documented seam there, which is what makes the deadline hold. httpx's own
timeouts bound each read, so that a receiver that drips a byte a second would hold a sink for hours;
here every look-up, connect, write and read gets only what is left of the request's time.

No redirect is followed, no cookie kept, no compression asked for and none undone. TLS is always
verified, against the authorities of the system (or of ``SSL_CERT_FILE``) and certifi's. A proxy is
used where ``HTTPS_PROXY`` names one and ``NO_PROXY`` does not except the host: it sees which host is
spoken to, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpcore
import msgspec

from sessionpipe import __version__
from sessionpipe.config import LOOPBACK

DEADLINE_S = 15.0
#: How much of an answer is read: room to refuse each event of the largest batch for a reason.
LONGEST_ANSWER = 512 * 1024
#: Below what servers commonly keep a connection for, so that we are the one who closes it.
_KEEPALIVE_S = 4.0
_WRITE_AT_ONCE = 16 * 1024
#: What is shorter is no credential, or no part of one, and stands in other words too.
_SHORTEST_ECHO, _SHORTEST_WORD = 4, 8


class Unreachable(Exception):
    """There was no answer; the message says why. ``connect``: not even a connection."""

    def __init__(self, message: str, *, connect: bool) -> None:
        super().__init__(message)
        self.connect = connect


class Answer(msgspec.Struct, frozen=True):
    """A status, the headers (names in lower case) and what was read of the body.

    ``cut``: the body broke off before its end.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool = False

    def without(self, credentials: Iterable[str | None], *, body: bool = True) -> Answer:
        """The answer with every echo of our own credentials taken out; the ``body`` only where it is text."""
        told = list(filter(None, credentials))
        headers = {name: without_echoes(value, told) for name, value in self.headers.items()}
        text = self.body
        if body:
            text = without_echoes(text.decode("latin-1"), told).encode("latin-1")
        return Answer(self.status, headers, text, self.cut)


def without_echoes(text: str, credentials: Iterable[str]) -> str:
    """``text`` with every echo of ``credentials`` taken out, also as it stands in a URL.

    A header may be ``Api-Token abc…``, of which a receiver repeats the second word alone.
    """
    echoes = {value for value in credentials if len(value) >= _SHORTEST_ECHO}
    echoes |= {word for value in echoes for word in value.split() if len(word) >= _SHORTEST_WORD}
    echoes |= {quote(echo, safe="") for echo in echoes}
    for echo in sorted(echoes, key=len, reverse=True):
        text = text.replace(echo, "[redacted]")
    return text


class Wire:
    """Requests to one host over one kept connection. Used by one thread."""

    def __init__(self, env: Mapping[str, str] = os.environ, deadline_s: float = DEADLINE_S) -> None:
        self._env = env
        self._deadline_s = deadline_s
        self._network = _Network()
        self._pools: dict[tuple[str, str], httpcore.ConnectionPool] = {}

    def request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """Send a request and read its answer. Raises :class:`Unreachable`.

        A request must be one that may be repeated: where a kept connection turns out to be closed,
        it is sent once more on a new one, as if the first had not been there.
        """
        target = _target(url)
        sent = {
            "host": _host(target),
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": f"sessionpipe/{__version__}",
            **(headers or {}),
        }
        self._network.start(self._deadline_s)
        try:
            return self._send(method, target, sent, body)
        except _Closed:
            return self._send(method, target, sent, body)

    def _send(self, method: str, target: httpcore.URL, headers: dict[str, str], body: bytes) -> Answer:
        connected = False
        network = self._network
        network.fresh = network.heard = False

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
                headers=[(name.encode(), value.encode()) for name, value in headers.items()],
                content=body,
                extensions={"timeout": {"pool": self._deadline_s}, "trace": trace},
            ) as response:
                read, cut = _body(response)
                return Answer(response.status, _headers(response.headers), read, cut)
        except (httpcore.TimeoutException, TimeoutError):
            raise Unreachable(
                f"no answer within {self._deadline_s:.0f} s" if connected else "no connection in time",
                connect=not connected,
            ) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError, OSError) as error:
            if connected and not network.fresh and not network.heard:
                # The receiver closed a connection it had kept for us, just as we took it up again.
                raise _Closed("the connection broke off", connect=False) from None
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
        scheme, host = url.scheme.decode(), url.host.decode()
        if (scheme, host) not in self._pools:
            options: dict[str, Any] = {
                "ssl_context": _tls() if scheme == "https" else None,
                "max_connections": 1,
                "keepalive_expiry": _KEEPALIVE_S,
                "network_backend": self._network,
            }
            proxy = proxy_for(scheme, host, self._env)
            self._pools[scheme, host] = (
                httpcore.ConnectionPool(**options)
                if proxy is None
                else httpcore.HTTPProxy(proxy[0], proxy_auth=proxy[1], **options)
            )
        return self._pools[scheme, host]


def proxy_for(scheme: str, host: str, env: Mapping[str, str]) -> tuple[str, tuple[str, str] | None] | None:
    """The proxy that ``env`` names for a host, as (URL, (user, password) or None). Pure.

    Only for https: plain http never leaves this machine. Raises OSError for a proxy of a kind that
    can't be used.
    """
    if scheme != "https" or host in LOOPBACK:
        return None
    name = next((n for n in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY") if env.get(n)), "")
    if not name or _excepted(host, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    named = env[name]
    try:
        parts = urlsplit(named if "://" in named else f"http://{named}")
        where = f"{parts.scheme}://{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    except ValueError:
        raise OSError(0, f"the proxy in {name} is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OSError(0, f"the proxy in {name} is not an http proxy")
    user = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
    return where, user


def _excepted(host: str, exceptions: str) -> bool:
    # A port, as in `board.example:443`, says nothing here: there is one receiver at a host.
    names = [re.sub(r":\d+$", "", name.strip().lower()) for name in exceptions.split(",")]
    names = [name.lstrip("*").lstrip(".") for name in names]
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


def _host(target: httpcore.URL) -> str:
    host = target.host.decode()
    host = f"[{host}]" if ":" in host else host
    return host if target.port is None else f"{host}:{target.port}"


def _headers(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in raw}


def _body(response: httpcore.Response) -> tuple[bytes, bool]:
    """What arrives of the body, up to the bound, and whether it broke off."""
    parts: list[bytes] = []
    size = 0
    try:
        for part in response.iter_stream():
            parts.append(part)
            size += len(part)
            if size >= LONGEST_ANSWER:
                break
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError):
        return b"".join(parts)[:LONGEST_ANSWER], True
    return b"".join(parts)[:LONGEST_ANSWER], False


def _tls() -> ssl.SSLContext:
    import certifi

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


class _Closed(Unreachable):
    """A kept connection turned out to be closed before a word of the answer."""


class _Network(httpcore.NetworkBackend):
    """Real sockets whose every operation gets what is left of the request's time.

    ``fresh``: the request under way has made a connection of its own. ``heard``: something of its
    answer has come.
    """

    def __init__(self) -> None:
        self._sockets = httpcore.SyncBackend()
        self._end = 0.0
        self._lookups: dict[tuple[str, int], _Lookup] = {}
        self.fresh = self.heard = False

    def start(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        self.fresh = True
        found = self._look_up(host, port)
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        # One address that swallows packets must leave time for the next.
        for position, address in enumerate(found):
            share = self.left() / (len(found) - position)
            try:
                stream = self._sockets.connect_tcp(
                    address, port, timeout=share, socket_options=socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _Stream(stream, self)
        raise failure

    def _look_up(self, host: str, port: int) -> list[str]:
        lookup = self._lookups.pop((host, port), None)
        # One that hung when its request ran out of time is waited for again: a resolver that never
        # answers must not get a thread for each attempt.
        if lookup is None or not lookup.is_alive():
            lookup = _Lookup(host, port)
            lookup.start()
        lookup.join(self.left())
        if lookup.is_alive():
            self._lookups[host, port] = lookup
            raise httpcore.ConnectError(f"looking up {host} takes too long")
        if lookup.error is not None:
            raise httpcore.ConnectError(f"{host} has no address ({lookup.error})")
        return lookup.addresses


class _Lookup(threading.Thread):
    """Asks the system's resolver, which knows no timeout."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(daemon=True)
        self._where = host, port
        self.addresses: list[str] = []
        self.error: str | None = None

    def run(self) -> None:
        try:
            found = socket.getaddrinfo(*self._where, type=socket.SOCK_STREAM)
            self.addresses = [str(address[0]) for *_, address in found]
        except (OSError, UnicodeError) as error:
            self.error = getattr(error, "strerror", None) or "not a name"


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, network: _Network) -> None:
        self._stream = stream
        self._network = network

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        read = self._stream.read(max_bytes, self._network.left())
        self._network.heard |= bool(read)
        return read

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # In parts: the stream below gives its timeout anew to each piece the receiver deigns to take.
        for start in range(0, len(buffer), _WRITE_AT_ONCE):
            self._stream.write(buffer[start : start + _WRITE_AT_ONCE], self._network.left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, self._network.left())
        return _Stream(secured, self._network)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
