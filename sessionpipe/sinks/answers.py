"""What an HTTP answer that did not take a batch means, whoever gives it (the HTTP binding's error table). Pure.

A status the table does not have is tried again by the ladder: nothing is given up, and nobody has to
act, because of an answer nobody foresaw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessionpipe.config import SinkConfig
from sessionpipe.delivery.outcome import Drop, Outcome, Pause, Retry, Split
from sessionpipe.sinks.discovery import pointed

if TYPE_CHECKING:
    from sessionpipe.sinks.wire import Answer

_LONGEST_REASON = 200

#: The statuses of which ``Retry-After`` is heeded, unless a medium has others.
THROTTLED = frozenset({429})


def refused(
    answer: Answer,
    reason: str,
    *,
    name: str,
    url: str,
    now_s: float,
    shown: str,
    throttled: frozenset[int] = THROTTLED,
) -> Outcome:
    """What ``answer``, which is no 2xx, means for the batch it answers.

    ``reason`` is the receiver's own, as :func:`line` gives it; ``name`` the sink's, ``url`` where the
    batch went, ``shown`` what :func:`shown` says. A wait that was asked for is measured from ``now_s``.
    """
    because = f" ({reason})" if reason else ""
    match answer.status:
        case status if 300 <= status < 400:
            where = pointed(answer.headers.get("location", ""), url)
            return Pause(
                f"HTTP {status}: it points to {where}, and no redirect is followed; if that is its address now,"
                f" add that one in its place, or {resume(name)}"
            )
        case 400:
            return Drop(f"HTTP 400{because}")
        case 401:
            told = f"refused {shown}" if shown else "wants a token"
            return Pause(f"HTTP 401: the receiver {told}{because}; {resume(name)}")
        case 403:
            return Pause(f"HTTP 403: the receiver refuses this sink{because}; {resume(name)}")
        case 404 | 405 | 410 as status:
            path = url.partition("?")[0]
            return Retry(f"HTTP {status}{because}: nothing takes events at {path}; is the address right?")
        case 413:
            return Split(f"HTTP 413{because}")
        case status:
            many = ", too many requests" if status == 429 else ""
            after_s = _retry_after(answer.headers, now_s) if status in throttled else None
            return Retry(f"HTTP {status}{many}{because}", after_s)


def resume(name: str) -> str:
    """How the person goes on after a pause."""
    return f"once that is mended: `sessionpipe sinks resume {name}`"


def shown(config: SinkConfig, *, token: bool, signed: bool = False) -> str:
    """What the receiver was shown of the person's credentials, in words."""
    named = ["the token"] if token else []
    if token and config.token_env is not None:
        named = [f"the token that {config.token_env} held when the worker was started"]
    if config.headers:
        named.append(f"the header{'s' * (len(config.headers) > 1)} {', '.join(config.headers)}")
    return " or ".join(named + (["the signature"] if signed else []))


def line(value: Any) -> str:
    """A receiver's words, in one bounded line."""
    if not isinstance(value, str):
        return ""
    text = "".join(c if c.isprintable() else " " for c in value[: 2 * _LONGEST_REASON]).strip()
    return text[:_LONGEST_REASON]


def _retry_after(headers: dict[str, str], now_s: float) -> float | None:
    """Seconds to wait, from a number of seconds or a date; None when it says neither.

    A date is measured against the receiver's own ``date`` where it sends one: its clock need not be ours.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    if (until := _date(value)) is None:
        return None
    now = _date(headers.get("date", ""))
    return max(0.0, until - (now_s if now is None else now))


def _date(value: str) -> float | None:
    if not value:
        return None
    # Imported here: it is a tenth of what delivering imports, and hardly any answer has a date to wait for.
    import email.utils

    try:
        return email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
