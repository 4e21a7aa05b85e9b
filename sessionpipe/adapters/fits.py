"""Whether a payload's value may stand in a field: read off the vocabulary's types, never coerced.

A fit takes any value and gives what goes into the event, or ``None``: a value of an unexpected type
is absent, never stringified and never fatal. A whole number may come as ``3.0``; a boolean is no
number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Meta, Struct, UnsetType
from msgspec.structs import fields

from sessionpipe.protocol.vocabulary import Type, hints

Fit = Callable[[Any], Any]

#: Ids are opaque and the protocol does not bound them; one longer than this is not an id.
ID_LIMIT = 1024
_INTEGER_LIMIT = 1 << 53


def anything(value: Any) -> Any:
    return value


def boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def natural(value: Any) -> int | None:
    """A whole number from 0 that a double holds exactly."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < _INTEGER_LIMIT and value == int(value) else None


def text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def opaque(value: Any) -> str | None:
    """An id: a string that is not empty and not absurdly long."""
    return value if isinstance(value, str) and 0 < len(value) <= ID_LIMIT else None


def texts(value: Any) -> list[str] | None:
    """The strings of a list that are not empty, if there are any."""
    if not isinstance(value, list):
        return None
    return [item for item in value if isinstance(item, str) and item] or None


def amount(value: Any) -> float | None:
    """A number from 0 that is one: no NaN, and not endless."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if value >= 0 and math.isfinite(value) else None


def records(struct: type[Struct], most: int) -> Fit:
    """The elements of a list that are such records, by their members' own fits; at most so many."""
    members = _fits(struct)

    def record(value: Any) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            return None
        found = {name: fit(value[name]) for name, (fit, _) in members.items() if name in value}
        fitting = {name: told for name, told in found.items() if told is not None}
        whole = all(name in fitting for name, (_, required) in members.items() if required)
        return fitting if whole else None

    def fit(value: Any) -> list[dict[str, Any]] | None:
        elements = value if isinstance(value, list) else []
        return [told for item in elements if (told := record(item)) is not None][:most] or None

    return fit


def one_of(*words: Any) -> Fit:
    known = frozenset(words)
    return lambda value: value if isinstance(value, str) and value in known else None


def matching(pattern: str) -> Fit:
    compiled = re.compile(pattern.removeprefix("^").removesuffix("$"))
    return lambda value: value if isinstance(value, str) and compiled.fullmatch(value) else None


def fits_of(event: Type) -> dict[str, tuple[Fit, bool]]:
    """Per field of a type of event: its fit, and whether an event can't be without it."""
    return _fits(event.struct)


def _fits(struct: type[Struct]) -> dict[str, tuple[Fit, bool]]:
    of = hints(struct)
    return {field.name: (_fit(of[field.name]), field.required) for field in fields(struct)}


def _fit(hint: Any) -> Fit:
    kinds, metas = _unwrap(hint)
    (kind,) = (kind for kind in kinds if kind not in (UnsetType, type(None)))
    pattern = next((meta.pattern for meta in metas if meta.pattern), None)
    if get_origin(kind) is Literal:
        return one_of(*get_args(kind))
    if get_origin(kind) is list and _unwrap(get_args(kind)[0])[0] == [str]:
        return texts
    if get_origin(kind) is list:
        (element,) = _unwrap(get_args(kind)[0])[0]
        most = next(meta.max_length for meta in metas if meta.max_length)
        return records(element, most)
    if kind is str and pattern:
        return matching(pattern)
    if kind is str and any(meta.min_length for meta in metas):
        return opaque
    simple: dict[Any, Fit] = {Any: anything, bool: boolean, int: natural, float: amount, str: text}
    return simple[kind]


def _unwrap(hint: Any) -> tuple[list[Any], list[Meta]]:
    """The bare types of a hint, a union's each, and every annotation on the way to them."""
    if get_origin(hint) is Annotated:
        kinds, metas = _unwrap(hint.__origin__)
        return kinds, metas + [meta for meta in hint.__metadata__ if isinstance(meta, Meta)]
    if get_origin(hint) in (Union, UnionType):
        parts = [_unwrap(part) for part in get_args(hint)]
        return [kind for kinds, _ in parts for kind in kinds], [meta for _, metas in parts for meta in metas]
    return [hint], []
