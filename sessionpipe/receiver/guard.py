"""What holds for every request and every answer of the receiver.

A name that is not this receiver's own in ``Host`` is refused: a web page whose name was rebound to this
machine's address must not get to read. Answers are for whoever asked and for now; nothing of a page may
come from elsewhere, be framed, or run that is not a file of ours.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sessionpipe.config import LOOPBACK

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # With no-referrer a browser would not say either where a form of ours comes from.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """``app`` behind these rules; ``names`` are what it may be called besides loopback's names."""

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = LOOPBACK | {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, as ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._allowed(Headers(scope=scope))(scope, receive, guarded)

    def _allowed(self, headers: Headers) -> ASGIApp:
        if "transfer-encoding" in headers and "content-length" in headers:
            # Where a body ends is then two things to two readers, and what follows it a request of nobody's.
            return _AMBIGUOUS
        return self._app if self._is_ours(headers.get("host", "")) else _MISDIRECTED

    def _is_ours(self, host: str) -> bool:
        name = host_of(host)
        # An address can't be rebound: a page that shows one in its own URL is served from it.
        return name in self._names or _is_address(name)


_MISDIRECTED = JSONResponse({"reason": "unknown_host"}, 421)
_AMBIGUOUS = JSONResponse({"reason": "two_lengths"}, 400, {"connection": "close"})


_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s:@/\[\]]+))(?::[0-9]*)?", re.IGNORECASE)


def host_of(host: str) -> str:
    """The name in a ``Host`` header, in lower case, without port and brackets; nothing where it has none."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_same_origin(origin: str | None, host: str, scheme: str) -> bool:
    """Whether a form came from a page of the host it is sent to; a browser that says nothing is believed."""
    return origin is None or origin.lower() == f"{scheme}://{host.lower()}"
