"""The bytes a harness handed to its hook, as one JSON object: read whatever state they are in.

Payloads come from programs we do not control, by way of pipes that break. A fast parser takes the
sound ones; a forgiving one those with lone surrogates, ``NaN``, numbers out of range or bytes that
are no UTF-8. What neither takes, because it is nested deeper than a parser's stack or because its end
is missing, is first made shallow and whole: in one pass over its strings and brackets, in linear time.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import msgspec

#: Containers nested deeper than this are read as null, so that nothing behind us has to be iterative.
DEPTH = 200
#: Nesting deeper than this is nobody's payload, and is not worth the time it takes to close.
ABSURD = 1_000_000

_BOM = b"\xef\xbb\xbf"


class Unreadable(ValueError):
    """The payload is no JSON object; the message says what it is instead, without quoting it."""


class Payload(NamedTuple):
    """One payload: the object, and whether its strings and numbers may hold what JSON can't say.

    ``rough`` is true when the forgiving parser read it: lone surrogates, infinities and NaN may be in
    it, and :func:`smooth` takes them out of what is passed on.
    """

    value: dict[str, Any]
    rough: bool


def read(data: bytes, *, cut: bool = False) -> Payload:
    """The JSON object in ``data``; ``cut`` says that its end is missing.

    Raises :class:`Unreadable` for anything but an object. Of duplicate keys the last one counts, as it
    does where these payloads are made. A member that is not complete at the cut is left out, down to
    the innermost object: half a path, an id or a number would be a wrong one.
    """
    data = data.removeprefix(_BOM)
    if not data or data.isspace():
        raise Unreadable("an empty payload")
    value, rough = _parse(data, cut)
    if not isinstance(value, dict):
        kinds = {
            list: "a JSON array",
            str: "a JSON string",
            type(None): "a JSON null",
            bool: "a JSON boolean",
        }
        raise Unreadable(f"{kinds.get(type(value), 'a JSON number')}, not an object")
    # Counting brackets is cheap and bounds the depth: only payloads that could be deep are walked.
    if data.count(b"{") + data.count(b"[") > DEPTH:
        _prune(value)
    return Payload(value, rough)


def _parse(data: bytes, cut: bool) -> tuple[Any, bool]:
    try:
        return msgspec.json.decode(data), False
    except (msgspec.MsgspecError, ValueError, RecursionError):
        versions = _mended(data, cut)
    problem: ValueError | None = None
    for version in versions:
        try:
            return _forgiving(version), True
        except ValueError as error:
            problem = error
    raise Unreadable("not JSON") from problem


def _forgiving(data: bytes) -> Any:
    import json

    return json.loads(data.decode("utf-8", "replace"), strict=False, parse_int=_integer)


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        # More digits than Python turns into an integer; it is a double where it comes from anyway.
        return float(digits)


# A string that does not end runs to the end of the data. The quantifiers are possessive: no backing up.
_TOKEN = re.compile(rb'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_CLOSERS = {b"{": b"}", b"[": b"]"}
#: How a value ends that no further byte could change: a string, a container, true, false, null.
_COMPLETE = b'"}]el'


def _mended(data: bytes, cut: bool) -> list[bytes]:
    """``data`` with null for what is nested below :data:`DEPTH` and, if it was ``cut``, with an end.

    Where it looks as if the last member were complete there are two versions, the fuller one first: if
    that one is no JSON, the member was not complete.
    """
    closers: list[bytes] = []
    kept: list[bytes] = []
    start = 0  # where the part begins that is not in `kept` yet
    safe = 0  # everything before this is complete but for the containers that are open there
    end = 0  # of the last token
    for token in _TOKEN.finditer(data):
        # Any comma since the last token lies in the innermost container and completes a member of it.
        comma = data.rfind(b",", end, token.start())
        safe = comma if comma >= 0 else safe
        char, end = token[0][:1], token.end()
        if char in _CLOSERS:
            closers.append(_CLOSERS[char])
            if len(closers) == DEPTH + 1:
                kept += [data[start : token.start()], b"null"]
            elif len(closers) > ABSURD:
                raise Unreadable("nested too deeply")
            safe = end
        elif char != b'"':
            if not closers or closers.pop() != char:
                raise Unreadable("not JSON")
            if len(closers) == DEPTH:
                start = end
            safe = end
    if not cut or not closers:
        return [b"".join([*kept, data[start:]])]
    if len(closers) > DEPTH:
        # The cut is below the depth that is read: nothing of it is left but the null put there.
        return [b"".join([*kept, *reversed(closers[:DEPTH])])]
    comma = data.rfind(b",", end)
    safe = comma if comma >= 0 else safe
    tail = b"".join(reversed(closers))
    surely = b"".join([*kept, data[start:safe], tail])
    if data.rstrip()[-1] in _COMPLETE:
        return [b"".join([*kept, data[start:], tail]), surely]
    return [surely]


def _prune(value: dict[str, Any]) -> None:
    """Put null in place of every container below :data:`DEPTH`."""
    level: list[Any] = [value]
    for _ in range(DEPTH - 1):
        level = [inner for outer in level for inner in _inner(outer) if isinstance(inner, (dict, list))]
        if not level:
            return
    for outer in level:
        for key, inner in list(outer.items() if isinstance(outer, dict) else enumerate(outer)):
            if isinstance(inner, (dict, list)):
                outer[key] = None


def _inner(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


_SURROGATE = re.compile("[\ud800-\udfff]")


def smooth(value: Any) -> Any:
    """``value`` without what JSON can't say: lone surrogates become U+FFFD, NaN and infinities null."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {smooth(key): smooth(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [smooth(inner) for inner in value]
    return value
