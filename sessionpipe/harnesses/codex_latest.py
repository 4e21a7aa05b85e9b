"""What the rollout of a Codex thread said last: ends that no hook tells, usage limits, who began the turn."""

from __future__ import annotations

import math
import re
from collections import deque
from typing import Any

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.codex_rollout import DECODER, Line, own, string
from sessionpipe.harnesses.ends import End
from sessionpipe.harnesses.files import Opened
from sessionpipe.harnesses.tail import Tail
from sessionpipe.protocol import rfc3339

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


class Latest(Tail):
    """What a rollout said last of what changes."""

    SAYING = (b'"task_started"', b'"task_complete"', b'"turn_aborted"', b'"rate_limits"')

    def __init__(self) -> None:
        super().__init__()
        #: Turns that failed or were interrupted.
        self.ends: deque[End] = deque(maxlen=16)
        #: The usage limits that the last turn was told, as ``limits.observed`` has them.
        self.limits: dict[str, Any] | None = None
        #: Whether a person's program began the last turn, or a run that nobody watches.
        self.attended: bool | None = None

    def begins(self, opened: Opened) -> int | None:
        return own(opened)

    def see(self, line: bytes) -> None:
        if read := jsonl.decode(line, DECODER):
            self._see(read)

    def _see(self, line: Line) -> None:
        event, ms = line.event, jsonl.epoch_ms(line.timestamp)
        turn_id = string(event.get("turn_id"))
        match event.get("type"):
            case "task_started":
                self.limits = None
                attribution = event.get("turn_attribution")
                trigger = attribution.get("turn_trigger") if isinstance(attribution, dict) else None
                self.attended = {"user": True, "exec": False}.get(string(trigger) or "")
            case "token_count":
                self.limits = limits(event.get("rate_limits")) or self.limits
            case "task_complete" if event.get("error") is not None and ms:
                self.ends.append(End(ms, turn_id, "error", _class(event["error"]), _ms(event)))
            case "turn_aborted" if event.get("reason") in _BY_A_PERSON and ms:
                self.ends.append(End(ms, turn_id, "interrupt", None, _ms(event)))


# Stopped, or stopped by another prompt.
_BY_A_PERSON = ("interrupted", "replaced")


def _class(failure: object) -> str:
    """Codex's own word for what went wrong: a word, or what an object is called by."""
    told = failure.get("codex_error_info") if isinstance(failure, dict) else None
    if isinstance(told, dict):
        told = next(iter(told), None)
    return told if isinstance(told, str) and _WORD.fullmatch(told) else "unknown"


def _ms(event: dict[str, Any]) -> int | None:
    told = event.get("duration_ms")
    return told if isinstance(told, int) and not isinstance(told, bool) and 0 <= told < 1 << 53 else None


# --- limits ---------------------------------------------------------------------------------------


def limits(told: object) -> dict[str, Any] | None:
    """A ``rate_limits`` of the rollout as the data of a ``limits.observed`` (protocol §4), or None.

    Other limits than those of the account's use of Codex have an id of their own, and are other sets.
    """
    if not isinstance(told, dict) or told.get("limit_id", "codex") not in (None, "codex"):
        return None
    windows = [window for name in ("primary", "secondary") if (window := _window(name, told.get(name)))]
    plan = string(told.get("plan_type"))
    return {"windows": windows, **({"plan": plan} if plan else {})} if windows else None


def _window(name: str, told: object) -> dict[str, Any] | None:
    used = _number(told.get("used_percent")) if isinstance(told, dict) else None
    if not isinstance(told, dict) or used is None:
        return None
    window: dict[str, Any] = {"id": name, "used_percent": used}
    resets, minutes = _number(told.get("resets_at")), _number(told.get("window_minutes"))
    if resets is not None and resets * 1000 < _LAST_MOMENT:
        window["resets_at"] = rfc3339(int(resets * 1000))
    if minutes is not None and minutes < 1 << 53:
        window["window_minutes"] = int(minutes)
    return window


_LAST_MOMENT = 253_402_300_800_000  # the year 10000, which RFC 3339 can't say


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if math.isfinite(value) and value >= 0 else None
