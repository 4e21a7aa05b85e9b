"""What a receiver says about itself: its well-known file (the HTTP binding, *Discovery*). Pure.

Read when a sink is added and again at most once a day; a longer ``Cache-Control: max-age`` is kept
to, up to a month. Only a receiver whose own trouble kept its file from being read is asked again
within the day. Everything in it is bounded before it is believed.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec

from sessionpipe.config import Tools, origin, refuse_url
from sessionpipe.protocol import PROTOCOL

WELL_KNOWN = "/.well-known/sessionpipe"
DEFAULT_EVENTS = "/api/sessionpipe/v1/events"
DEFAULT_MAX_EVENTS, DEFAULT_MAX_BYTES = 50, 262_144

#: What we ourselves put into a request at most, however much a receiver would take.
_MOST_EVENTS, _MOST_BYTES, _LEAST_BYTES = 1_000, 4 << 20, 512
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_MONTH_MS = 30 * DAY_MS


class Discovery(msgspec.Struct, frozen=True, omit_defaults=True):
    """A receiver's file as we act on it, defaults filled in.

    ``url`` is the sink's address it was read for, ``events`` the absolute URL batches go to.
    ``problem`` says why the file could not be read: the defaults then stand. ``refusal`` says why
    nothing can be sent to this receiver at all. Times are epoch milliseconds.
    """

    url: str
    events: str
    asked_ms: int
    until_ms: int
    max_tier: int | None = None
    capabilities: tuple[str, ...] = ("events",)
    tools: Tools = "all"
    max_events: int = DEFAULT_MAX_EVENTS
    max_bytes: int = DEFAULT_MAX_BYTES
    problem: str | None = None
    refusal: str | None = None

    @property
    def forgets(self) -> bool:
        """Whether the receiver says that it erases a session it is told to forget."""
        return "forget" in self.capabilities

    def is_due(self, now_ms: int) -> bool:
        """Whether the file may be read again; also when the clock was set back behind the last reading."""
        return now_ms >= self.until_ms or now_ms < self.asked_ms - DAY_MS


def well_known(url: str) -> str:
    """Where the file of the receiver at ``url`` is."""
    return origin(url) + WELL_KNOWN


def unread(url: str, problem: str, now_ms: int, for_ms: int = DAY_MS) -> Discovery:
    """What stands for a receiver whose file can't be read: the defaults, for a day."""
    return Discovery(url, _events(url, None), now_ms, now_ms + for_ms, problem=problem)


def remembered(known: dict[str, Any], url: str) -> Discovery | None:
    """What was learnt earlier of the receiver at ``url``; None when that was of another, or kept otherwise."""
    try:
        found = msgspec.convert(known, Discovery)
    except msgspec.ValidationError:
        return None
    return found if found.url == url else None


def pointed(location: str, url: str) -> str:
    """Where a redirect from ``url`` points, as one printable line without what a query may hold."""
    if not location:
        return "nowhere"
    try:
        parts = urlsplit(urljoin(url, location))
        where = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "") + parts.path
    except ValueError:
        return "nowhere readable"
    return "".join(c if c.isprintable() else " " for c in where[:200])


def read(url: str, status: int, headers: dict[str, str], body: bytes, now_ms: int) -> Discovery:
    """The answer to a GET of :func:`well_known` for the sink at ``url``."""
    if 300 <= status < 400:
        where = pointed(headers.get("location", ""), well_known(url))
        return unread(url, f"HTTP {status}, which points to {where}", now_ms)
    if status != 200:
        passing = status >= 500 or status == 429
        return unread(url, f"HTTP {status}", now_ms, HOUR_MS if passing else DAY_MS)
    try:
        said = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return unread(url, "it is not JSON", now_ms)
    # A server that answers every path with some JSON has not said anything about the protocol.
    if not isinstance(said, dict) or not isinstance(said.get("protocol"), list):
        return unread(url, "it names no protocol", now_ms)
    capabilities = _capabilities(said.get("capabilities"))
    batch = _table(said.get("batch"))
    endpoint = _table(said.get("endpoints")).get("events")
    return Discovery(
        url=url,
        events=_events(url, endpoint),
        asked_ms=now_ms,
        until_ms=now_ms + max(DAY_MS, min(_fresh_ms(headers), _MONTH_MS)),
        max_tier=_whole(said.get("max_tier"), 0, 3),
        capabilities=capabilities,
        tools=said["tools"] if said.get("tools") in ("all", "main", "beat") else "all",
        max_events=min(_whole(batch.get("max_events"), 1) or DEFAULT_MAX_EVENTS, _MOST_EVENTS),
        max_bytes=min(_whole(batch.get("max_bytes"), 1) or DEFAULT_MAX_BYTES, _MOST_BYTES),
        refusal=_refusal(said, capabilities, endpoint),
    )


def _refusal(said: dict[str, Any], capabilities: tuple[str, ...], endpoint: Any) -> str | None:
    protocols = [number for p in said["protocol"] if (number := _whole(p, 0, 999_999)) is not None]
    if PROTOCOL not in protocols:
        spoken = ", ".join(map(str, protocols[:8])) or "none"
        return f"the receiver speaks protocol {spoken}, this sessionpipe {PROTOCOL}: one of them needs an upgrade"
    if "events" not in capabilities:
        return "the receiver does not take events (its capabilities leave them out)"
    auth = said.get("auth")
    if isinstance(auth, list) and "bearer" not in auth:
        return "the receiver does not take bearer tokens, which is all this sessionpipe has"
    if isinstance(endpoint, str) and _absolute(endpoint) and refuse_url(endpoint):
        return "the receiver wants its events at an address that can't be trusted with them"
    room = _whole(_table(said.get("batch")).get("max_bytes"), 1)
    if room is not None and room < _LEAST_BYTES:
        # Sent by the letter, every event would be given up.
        return f"the receiver takes {room} bytes at once, and events need more"
    return None


def _capabilities(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ("events",)
    return tuple(name for name in value[:256] if isinstance(name, str) and len(name) <= 64)


def _events(url: str, endpoint: Any) -> str:
    """Where batches go: what the person named with a path, else what the receiver says."""
    base = origin(url)
    if urlsplit(url).path.strip("/"):
        return url
    if not isinstance(endpoint, str) or not endpoint or len(endpoint) > 2048:
        return base + DEFAULT_EVENTS
    if _absolute(endpoint):
        return base + DEFAULT_EVENTS if refuse_url(endpoint) else endpoint
    try:
        joined = urljoin(f"{base}/", endpoint)
    except ValueError:
        return base + DEFAULT_EVENTS
    return joined if not refuse_url(joined) and origin(joined) == base else base + DEFAULT_EVENTS


def _absolute(endpoint: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", endpoint) is not None


def _fresh_ms(headers: dict[str, str]) -> int:
    """For how long the receiver lets its file be kept; 0 where it says not to, or nothing (RFC 9111)."""
    said = headers.get("cache-control", "").lower().split(",")
    directives = {
        name.strip(): value.strip(' "') for name, _, value in (part.partition("=") for part in said)
    }
    if "no-store" in directives or "no-cache" in directives:
        return 0
    return max(0, _seconds(directives.get("max-age", "")) - _seconds(headers.get("age", ""))) * 1000


def _seconds(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _whole(value: Any, least: int, most: int | None = None) -> int | None:
    if type(value) is float and value.is_integer():
        value = int(value)  # JSON has one kind of number.
    return value if type(value) is int and value >= least and (most is None or value <= most) else None
