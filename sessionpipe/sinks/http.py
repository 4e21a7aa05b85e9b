"""The HTTP sink: ``POST {"events":[…]}`` and what each answer means (the HTTP binding)."""

from __future__ import annotations

import email.utils
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from sessionpipe.config import SinkConfig, Tools, origin
from sessionpipe.delivery.batch import Batch, Limits
from sessionpipe.delivery.outcome import Acked, Drop, LowerTier, Outcome, Pause, Retry, Split
from sessionpipe.protocol import PROTOCOL
from sessionpipe.sinks import discovery, keys, signing
from sessionpipe.sinks.base import Learned, Log, Sink
from sessionpipe.sinks.discovery import Discovery
from sessionpipe.sinks.wire import Answer, Unreachable, Wire

_OPEN, _CLOSE = b'{"events":[', b"]}"

#: How long a sink waits for a file with its token that is not there: looking costs nothing.
_KEY_WAIT_S = 60.0
_LONGEST_REASON = 200


class HttpSink(Sink):
    """Sends to the receiver at ``config.url``; ``known`` is what was learnt of it earlier."""

    kind: ClassVar[str] = "http"
    knows_messages: ClassVar[bool] = True

    def __init__(
        self,
        config: SinkConfig,
        known: dict[str, Any],
        *,
        env: Mapping[str, str] = os.environ,
        log: Log,
        wire: Wire | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._url = config.url or ""
        self._env = env
        self._log = log
        self._wire = wire or Wire(env)
        self._clock = clock
        self._known = discovery.remembered(known, self._url)
        self._warned = False

    def limits(self) -> Limits:
        said = self._said()
        return Limits(said.max_events, said.max_bytes, envelope=len(_OPEN + _CLOSE), strict=True)

    def tools(self) -> Tools:
        return self._said().tools

    def without(self) -> frozenset[str]:
        return frozenset() if "backfill" in self._said().capabilities else frozenset({"session.backfill"})

    def learn(self, now_ms: int) -> Learned | Retry | Pause | None:
        if self._known is not None and not self._known.is_due(now_ms):
            return self._refused(self._known)
        try:
            said = ask(self._url, now_ms, self._wire)
            anew = said.problem is None
        except Unreachable as error:
            if self._known is None:
                # Nothing is known of it yet, and it can't be spoken to anyway.
                return Retry(str(error), connect=True)
            anew = False
            said = msgspec.structs.replace(self._known, asked_ms=now_ms, until_ms=now_ms + discovery.DAY_MS)
        if said.problem is not None and self._known is not None and self._known.problem is None:
            # What it said when it could be read is a better guide than the defaults.
            said = msgspec.structs.replace(self._known, asked_ms=said.asked_ms, until_ms=said.until_ms)
        accepted = {origin(self._url)} | ({origin(self._known.events)} if self._known else set())
        if origin(said.events) not in accepted:
            return Pause(
                f"the receiver wants its events at {origin(said.events)}, another host than the one you named;"
                f" `sessionpipe sinks add {self._url} --name {self._config.name}` accepts that"
            )
        if refused := self._refused(said):
            return refused
        self._known = said
        # As it comes back from the sink's row, so that the two compare equal.
        return Learned(msgspec.json.decode(msgspec.json.encode(said)), said.max_tier, anew)

    def _refused(self, said: Discovery) -> Pause | None:
        return Pause(f"{said.refusal}; {_resume(self._config.name)}") if said.refusal else None

    def send(self, batch: Batch) -> Outcome:
        try:
            token, secret = keys.token(self._config, self._env), keys.secret(self._config, self._env)
        except keys.KeyMissing as missing:
            if missing.elsewhere:
                # Whoever starts next may have it, and is to look at once.
                return Retry(str(missing), after_s=0, connect=True, elsewhere=True)
            return Retry(str(missing), after_s=_KEY_WAIT_S)
        self._warn_once()
        body = _OPEN + b",".join(batch.events) + _CLOSE
        headers = {"content-type": "application/json", "sessionpipe-protocol": str(PROTOCOL)}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        try:
            if secret is not None:
                headers |= signing.headers(secret, batch.id, int(self._clock()), body)
            answer = self._wire.request("POST", self._said().events, headers, body)
        except ValueError as error:
            return Retry(str(error), after_s=_KEY_WAIT_S)
        except Unreachable as error:
            return Retry(str(error), connect=error.connect)
        return outcome(
            answer.without((token, secret)),
            batch.ids,
            name=self._config.name,
            url=self._said().events,
            now_s=self._clock(),
            shown=self._shown(token, secret),
        )

    def _shown(self, token: str | None, secret: str | None) -> str:
        """What the receiver was shown of the person's credentials, in words."""
        named = [] if token is None else ["the token"]
        if token is not None and self._config.token_env is not None:
            named = [f"the token that {self._config.token_env} held when the worker was started"]
        return " or ".join(named + ([] if secret is None else ["the signature"]))

    def forgets(self) -> bool:
        """Whether the receiver says that it erases a session it is told to forget."""
        return self._said().forgets

    def close(self) -> None:
        self._wire.close()

    def _said(self) -> Discovery:
        return self._known or discovery.unread(self._url, "not asked yet", 0)

    def _warn_once(self) -> None:
        if not self._warned:
            self._warned = True
            for path in keys.readable_by_others(self._config, self._env):
                self._log(
                    "warning", f"sink {self._config.name}: others can read {path}; run `chmod 600` on it"
                )


def ask(url: str, now_ms: int, wire: Wire) -> Discovery:
    """Read the receiver's well-known file; no credential is sent with it.

    Raises :class:`Unreachable` when the receiver can't be connected to. One that can, and gives no
    answer here, may take events all the same.
    """
    try:
        answer = wire.request("GET", discovery.well_known(url))
    except Unreachable as error:
        if error.connect:
            raise
        return discovery.unread(url, str(error), now_ms, discovery.HOUR_MS)
    if answer.cut:
        return discovery.unread(url, "it broke off", now_ms, discovery.HOUR_MS)
    return discovery.read(url, answer.status, answer.headers, answer.body, now_ms)


# --- the table of answers ---------------------------------------------------------------------------


def outcome(
    answer: Answer,
    sent: tuple[str, ...],
    *,
    name: str = "NAME",
    url: str = "",
    now_s: float = 0.0,
    shown: str = "the token",
) -> Outcome:
    """What ``answer`` to a batch of the events ``sent`` (ids) means: the binding's error table. Pure.

    A status the table does not have is tried again by the ladder: nothing is given up, and nobody
    has to act, because of an answer nobody foresaw. So is one whose meaning was in a body that
    broke off.
    """
    said = _json(answer.body)
    reason = _text(said.get("reason"))
    because = f" ({reason})" if reason else ""
    match answer.status:
        case status if 200 <= status < 300:
            return Acked(_rejected(said, sent), _tier(said), _odd(status, said, sent))
        case status if 300 <= status < 400:
            where = discovery.pointed(answer.headers.get("location", ""), url)
            return Pause(
                f"HTTP {status}: it points to {where}, and no redirect is followed; if that is its address now,"
                f" add that one in its place, or {_resume(name)}"
            )
        case 400 | 403 as status if answer.cut:
            return Retry(f"HTTP {status}, and the answer broke off before its reason")
        case 400 if said.get("reason") == "unsupported_protocol":
            return Pause(
                f"the receiver does not speak protocol {PROTOCOL}{_supported(said)}; {_resume(name)}"
            )
        case 400:
            return Drop(f"HTTP 400{because}")
        case 401:
            told = f"refused {shown}" if shown else "wants a token"
            return Pause(f"HTTP 401: the receiver {told}{because}; {_resume(name)}")
        case 403 if said.get("reason") == "tier_above_max" and (tier := _tier(said)) is not None:
            return LowerTier(tier)
        case 403 if said.get("reason") == "tier_above_max":
            return Pause(
                "HTTP 403: the receiver refuses this tier and does not say which it takes;"
                f" `sessionpipe sinks set {name} --tier` with a lower one goes on"
            )
        case 403:
            return Pause(f"HTTP 403: the receiver refuses this sink{because}; {_resume(name)}")
        case 404 | 405 | 410 as status:
            path = url.partition("?")[0]
            return Retry(f"HTTP {status}{because}: nothing takes events at {path}; is the address right?")
        case 413:
            return Split(f"HTTP 413{because}")
        case 429:
            return Retry(f"HTTP 429, too many requests{because}", _retry_after(answer.headers, now_s))
        case status:
            return Retry(f"HTTP {status}{because}")


def _resume(name: str) -> str:
    return f"once that is mended: `sessionpipe sinks resume {name}`"


def _json(body: bytes) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _text(value: Any) -> str:
    """A receiver's words, in one bounded line."""
    if not isinstance(value, str):
        return ""
    line = "".join(c if c.isprintable() else " " for c in value[: 2 * _LONGEST_REASON]).strip()
    return line[:_LONGEST_REASON]


def _tier(said: dict[str, Any]) -> int | None:
    tier = said.get("max_tier")
    return tier if type(tier) is int and 0 <= tier <= 3 else None


def _rejected(said: dict[str, Any], sent: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    rejected, known = said.get("rejected"), frozenset(sent)
    reasons = {
        entry["id"]: _text(entry.get("reason")) or "no reason given"
        for entry in (rejected if isinstance(rejected, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"] in known
    }
    return tuple(reasons.items())


def _odd(status: int, said: dict[str, Any], sent: tuple[str, ...]) -> str | None:
    """What is strange about an answer that took the batch: it does not account for every event."""
    rejected = said.get("rejected", [])
    counts = [_count(said.get("accepted")), _count(said.get("duplicates"))]
    if None in counts or not isinstance(rejected, list):
        return f"it answers HTTP {status} without saying what it took; is the address right?"
    total = sum(filter(None, counts)) + len(rejected)
    if total != len(sent):
        return f"it answers for {total} events where {len(sent)} were sent"
    return None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1_000_000 else None


def _supported(said: dict[str, Any]) -> str:
    supported = said.get("supported")
    if not isinstance(supported, list) or not supported:
        return ""
    spoken = [str(p) for p in supported[:8] if type(p) is int and 0 <= p < 1_000_000]
    return f" (it speaks {', '.join(spoken)})" if spoken else ""


def _retry_after(headers: dict[str, str], now_s: float) -> float | None:
    """Seconds to wait, from a number of seconds or a date; None when it says neither.

    A date is measured against the receiver's own ``date`` where it sends one: its clock need not be ours.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    until, now = _date(value), _date(headers.get("date", ""))
    return None if until is None else max(0.0, until - (now_s if now is None else now))


def _date(value: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
