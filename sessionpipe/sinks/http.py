"""The HTTP sink: ``POST {"events":[…]}`` and what each answer means (the HTTP binding)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sessionpipe.config import SinkConfig, Tools, origin
from sessionpipe.delivery.batch import Batch, Limits
from sessionpipe.delivery.outcome import Acked, LowerTier, Outcome, Pause, Retry
from sessionpipe.protocol import PROTOCOL
from sessionpipe.sinks import answers, discovery, keys, signing
from sessionpipe.sinks.base import Learned, Log, NotReady, Setup, Sink
from sessionpipe.sinks.discovery import Discovery
from sessionpipe.sinks.wire import Answer, Unreachable, Wire

_OPEN, _CLOSE = b'{"events":[', b"]}"


class HttpSink(Sink):
    """Sends to the receiver at ``config.url``; ``known`` is what was learnt of it earlier."""

    knows_messages = True

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

    @classmethod
    def make(cls, setup: Setup) -> HttpSink:
        return cls(setup.config, setup.known, env=setup.env, log=setup.log)

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
        return Pause(f"{said.refusal}; {answers.resume(self._config.name)}") if said.refusal else None

    def send(self, batch: Batch) -> Outcome:
        try:
            token, secret = keys.token(self._config, self._env), keys.secret(self._config, self._env)
        except keys.KeyMissing as missing:
            return missing.outcome()
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
            return NotReady(str(error)).outcome()
        except Unreachable as error:
            return Retry(str(error), connect=error.connect)
        return outcome(
            answer.without((token, secret)),
            batch.ids,
            name=self._config.name,
            url=self._said().events,
            now_s=self._clock(),
            shown=answers.shown(self._config, token=token is not None, signed=secret is not None),
        )

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
            keys.warn(self._config, self._env, self._log)


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

    What it has in common with every HTTP answer is in :mod:`.answers`. One whose meaning was in a body
    that broke off is tried again.
    """
    said = _json(answer.body)
    reason = answers.line(said.get("reason"))
    match answer.status:
        case status if 200 <= status < 300:
            return Acked(_rejected(said, sent), _tier(said), _odd(status, said, sent))
        case 400 | 403 as status if answer.cut:
            return Retry(f"HTTP {status}, and the answer broke off before its reason")
        case 400 if said.get("reason") == "unsupported_protocol":
            return Pause(
                f"the receiver does not speak protocol {PROTOCOL}{_supported(said)}; {answers.resume(name)}"
            )
        case 403 if said.get("reason") == "tier_above_max" and (tier := _tier(said)) is not None:
            return LowerTier(tier)
        case 403 if said.get("reason") == "tier_above_max":
            return Pause(
                "HTTP 403: the receiver refuses this tier and does not say which it takes;"
                f" `sessionpipe sinks set {name} --tier` with a lower one goes on"
            )
        case _:
            return answers.refused(answer, reason, name=name, url=url, now_s=now_s, shown=shown)


def _json(body: bytes) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _tier(said: dict[str, Any]) -> int | None:
    tier = said.get("max_tier")
    return tier if type(tier) is int and 0 <= tier <= 3 else None


def _rejected(said: dict[str, Any], sent: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    rejected, known = said.get("rejected"), frozenset(sent)
    reasons = {
        entry["id"]: answers.line(entry.get("reason")) or "no reason given"
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
