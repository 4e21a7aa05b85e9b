"""Names and times as protocol v1 spells them (§2, §3, and the adapters' conventions)."""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

_SESSION_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_HARNESS = re.compile(r"[a-z0-9-]{1,64}")
_LINEAGE = re.compile(r"[a-z0-9-]{1,64}:[A-Za-z0-9._:-]{1,128}")
_TOOL = re.compile(r"[A-Za-z0-9_.:-]{1,120}")
_SURROGATE = re.compile("[\ud800-\udfff]")


def is_session_id(value: object) -> bool:
    """Whether ``value`` is a session id: at most 128 of ``[A-Za-z0-9._:-]`` (§3)."""
    return isinstance(value, str) and _SESSION_ID.fullmatch(value) is not None


def is_harness_name(value: object) -> bool:
    """Whether ``value`` is a harness name (§2)."""
    return isinstance(value, str) and _HARNESS.fullmatch(value) is not None


def is_lineage(value: object) -> bool:
    """Whether ``value`` names a session as ``<harness>:<id>`` (§3, launched_by and delegated_by)."""
    return isinstance(value, str) and _LINEAGE.fullmatch(value) is not None


def is_tool_name(value: object) -> bool:
    """Whether ``value`` is a tool name (§4): a tool without one gives no tool event."""
    return isinstance(value, str) and _TOOL.fullmatch(value) is not None


def short_id(harness: str, session_id: str) -> str:
    """The name a person sees for a session: 8 lowercase hex digits (§3)."""
    digest = _SESSION.copy()
    digest.update(f"{harness}:{session_id}".encode("utf-8", "surrogatepass"))
    return digest.digest()[:4].hex()


# Going on from what every name begins with takes half as long as beginning.
_SESSION = hashlib.sha256(b"sessionpipe.session:")

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _CROCKFORD for second in _CROCKFORD]
#: From the first pair of characters to the last: 26 of 5 bits.
_SHIFTS = range(120, -1, -10)


def new_id() -> str:
    """A fresh ULID: an event's id (§2). 48 bits of milliseconds, 20 of nanoseconds within, 60 of chance.

    Those of one process stand in the order in which they were made, as far as the clock tells, without a memory
    that threads and forked processes would have to share.
    """
    # By ourselves: importing python-ulid takes as long as everything else between a worker's start and its
    # first job's file. It is what the tests compare with.
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    number = milliseconds << 80 | rest << 60 | int.from_bytes(os.urandom(8)) >> 4
    return "".join([_PAIRS[number >> shift & 0x3FF] for shift in _SHIFTS])


def rfc3339(epoch_ms: int) -> str:
    """``epoch_ms`` as UTC RFC 3339 with milliseconds and ``Z`` (§2, ``time``)."""
    seconds, milliseconds = divmod(epoch_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    try:
        clock = f"{_TWO[hours]}:{_TWO[minutes]}:{_TWO[seconds]}.{_TWO[milliseconds // 10]}{milliseconds % 10}"
        return f"{_date(days)}T{clock}Z"
    except (OverflowError, TypeError, ValueError, OSError):
        return "1970-01-01T00:00:00.000Z"


# Looked up in half the time that formatting takes.
_TWO = [f"{number:02d}" for number in range(100)]


@lru_cache(512)
def _date(days: int) -> str:
    # Asking for it is most of the work, and times come by the thousand of a few days.
    return datetime.fromtimestamp(days * 86_400, UTC).date().isoformat()


def attention_id(turn_id: str | None, tool: str | None, tool_input: Any) -> str:
    """The id of a permission request that has none of its own.

    ``perm-`` and 16 hex digits of the SHA-256 over ``<turn>|<tool>|<input>``, the input printed
    as JavaScript prints it, so that the same request has the same id wherever it is computed.
    """
    text = f"{turn_id or ''}|{tool or ''}|{javascript_json(tool_input)}"
    # Lone surrogates are escaped by the printer, but an id may still hold one: JavaScript writes U+FFFD.
    text = _SURROGATE.sub("\ufffd", text)
    return "perm-" + hashlib.sha256(text.encode()).hexdigest()[:16]


def javascript_json(value: Any) -> str:
    """``value`` as ``JSON.stringify`` prints it: compact, keys in an object's order, numbers as doubles.

    Iterative, because a payload may be nested deeper than Python recurses.
    """
    out: list[str] = []
    stack: list[Iterator[str | tuple[Any]]] = [iter([(value,)])]
    while stack:
        for item in stack[-1]:
            if isinstance(item, str):
                out.append(item)
                continue
            (inner,) = item
            if isinstance(inner, dict):
                stack.append(_object_parts(inner))
            elif isinstance(inner, (list, tuple)):
                stack.append(_array_parts(inner))
            else:
                out.append(_scalar(inner))
                continue
            break
        else:
            stack.pop()
    return "".join(out)


def _object_parts(value: dict[str, Any]) -> Iterator[str | tuple[Any]]:
    yield "{"
    for index, (key, inner) in enumerate(_in_order(value)):
        yield ("," if index else "") + _string(key) + ":"
        yield (inner,)
    yield "}"


_INDEX = re.compile("0|[1-9][0-9]{0,9}")
_INDEX_LIMIT = (1 << 32) - 1


def _in_order(value: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """Members as a JavaScript object has them: array indices first, ascending, then the rest as they came."""
    indices = [key for key in value if _INDEX.fullmatch(key) and int(key) < _INDEX_LIMIT]
    if not indices:
        return value.items()
    ordered = {key: value[key] for key in sorted(indices, key=int)}
    return {**ordered, **value}.items()


def _array_parts(value: list[Any] | tuple[Any, ...]) -> Iterator[str | tuple[Any]]:
    yield "["
    for index, inner in enumerate(value):
        if index:
            yield ","
        yield (inner,)
    yield "]"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (int, float)):
        return _number(value)
    return "null"


_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')


def _string(value: str) -> str:
    return '"' + _ESCAPED.sub(lambda m: _SHORT.get(m[0]) or f"\\u{ord(m[0]):04x}", value) + '"'


def _number(value: int | float) -> str:
    """ECMAScript's Number::toString: shortest round-trip digits, exponents from 1e21 and below 1e-6."""
    try:
        number = float(value)
    except OverflowError:
        return "null"
    if not math.isfinite(number):
        return "null"
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = f"{abs(number)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0)
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    power = point - 1
    tail = "." + digits[1:] if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if power > 0 else '-'}{abs(power)}"
