"""What a sink of a tier may see of an event (protocol §5): an allowlist by type and tier. Pure.

Everything that may leave is named by a struct of :mod:`sessionpipe.protocol.vocabulary`; a field no
struct names, a field above the tier, and a value that is not what its field holds do not leave.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sessionpipe.privacy import PERSONS, SECRETS, walk
from sessionpipe.protocol.vocabulary import VOCABULARY, Event, Field, Harness, Session, hints

#: A field's value as it may leave, or :data:`_GONE`.
_Keep = Callable[[Any], Any]
_GONE = object()

_HASHED = re.compile("[0-9a-f]{8}")
#: What identifies a session never changes, whatever it looks like.
_IDENTITY = frozenset(("id", "seq", "parent_id", "launched_by", "delegated_by"))


def filter_event(
    event: Mapping[str, Any], tier: int, pii: bool, home: str | None = None
) -> dict[str, Any] | None:
    """``event`` as a sink of ``tier`` may see it, or None when its type is above the tier or unknown.

    The result's tier is the lower of ``tier`` and the event's own: what an event no longer has, no
    filter brings back. With ``pii``, ``pii@1`` runs over every string, ``home`` being one more home
    directory to it. An event that does not say ``secrets@1`` ran is redacted here. The event is
    never changed, filtering twice changes nothing more, and nothing a malformed event holds raises.
    """
    name = event.get("type")
    if not isinstance(name, str):
        return None
    row = VOCABULARY.get(name)
    own = event.get("tier")
    if isinstance(own, int) and not isinstance(own, bool) and 0 <= own <= 3:
        tier = min(tier, own)
    if row is None or row.tier > tier:
        return None
    ran = _ran(event.get("privacy"))
    harness, session, data = event.get("harness"), event.get("session"), event.get("data")
    allowed = {field: rule for field, rule in row.fields.items() if rule.tier <= tier}
    if SECRETS not in ran.rulesets:
        harness, session, data = _without_secrets(harness, session, _named(data, allowed))
    if pii:
        from sessionpipe.privacy import pii as persons

        def reduce(text: str) -> str:
            return persons.reduce(text, home)

        data = _reduced(data, reduce, allowed)
        session = _without_person(session, reduce, persons.machine, hashed=ran.pii)
    rulesets = [SECRETS, *_own(ran), *([PERSONS] if pii or ran.pii else [])]
    return {
        **_picked(_Head, event),
        "tier": tier,
        "harness": _picked(Harness, harness),
        "session": _picked(Session, session),
        "privacy": {"rulesets": rulesets, "pii": pii or ran.pii},
        "data": _picked(row.struct, _cut(name, data, allowed), allowed),
    }


def _without_secrets(harness: Any, session: Any, data: Any) -> tuple[Any, Any, Any]:
    """The three blocks redacted: looked at together, for each look costs more than such short texts."""
    # Rules are loaded where they run: who looks at events that were redacted needs none.
    from sessionpipe.privacy import secrets

    blocks = harness, session, data
    clean = secrets.redact_value(blocks)
    return blocks if clean is blocks else (clean[0], _rewritten(session, secrets.redact), clean[2])


_Head = msgspec.defstruct("Head", [(name, hints(Event)[name]) for name in ("protocol", "id", "type", "time")])


class _Ran(msgspec.Struct):
    rulesets: list[str]
    pii: bool


def _ran(privacy: Any) -> _Ran:
    try:
        return msgspec.convert(privacy, _Ran)
    except msgspec.ValidationError:
        return _Ran([], False)


# The id of a person's own ruleset.
_OWN = re.compile(r"[a-z0-9][a-z0-9._-]{0,47}@[1-9][0-9]{0,5}")


def _own(ran: _Ran) -> list[str]:
    """The person's own rulesets that ran over an event."""
    ours = (SECRETS, PERSONS)
    return list(dict.fromkeys(name for name in ran.rulesets if _OWN.fullmatch(name) and name not in ours))


def _named(data: Any, allowed: Mapping[str, Field]) -> dict[str, Any]:
    """What of ``data`` may leave."""
    return {name: data[name] for name in allowed if name in data} if isinstance(data, dict) else {}


def _reduced(data: Any, reduce: Callable[[str], str], allowed: Mapping[str, Field]) -> Any:
    if not isinstance(data, dict):
        return data
    # Only what may leave is worth the time; an account is a person's.
    mine = {name: value for name, value in data.items() if name in allowed and name != "account_id"}
    return walk.rewrite(mine, lambda value, _: reduce(value), reduce)


def _rewritten(session: Any, change: Callable[[str], str]) -> Any:
    if not isinstance(session, dict):
        return session
    return {
        name: change(value) if isinstance(value, str) and name not in _IDENTITY else value
        for name, value in session.items()
    }


def _without_person(
    session: Any, reduce: Callable[[str], str], machine_of: Callable[[str], str], *, hashed: bool
) -> Any:
    if not isinstance(session, dict):
        return session
    kept = {name: value for name, value in session.items() if name not in ("account_id", "machine")}
    kept = _rewritten(kept, reduce)
    machine = session.get("machine")
    if isinstance(machine, str) and machine:
        kept["machine"] = machine if hashed and _HASHED.fullmatch(machine) else machine_of(machine)
    return kept


def _cut(name: str, data: Any, allowed: Mapping[str, Field]) -> Any:
    """``data`` with its texts within their caps: reducing one may have made it longer."""
    if not isinstance(data, dict):
        return data
    long = {
        field: value[-rule.cap :] if (name, field) == ("turn.progress", "assistant") else value[: rule.cap]
        for field, rule in allowed.items()
        if rule.cap and isinstance(value := data.get(field), str) and len(value) > rule.cap
    }
    return {**data, **long} if long else data


def _picked(struct: type[msgspec.Struct], block: Any, names: Collection[str] | None = None) -> dict[str, Any]:
    """The fields of ``block`` that ``struct`` names (of ``names`` alone, where given) and that hold what it says."""
    if not isinstance(block, dict):
        return {}
    fields = _fields(struct)
    sound = _is_sound(struct, block)
    kept = {}
    for name in fields if names is None else names:
        if name in block:
            value = block[name] if sound else fields[name](block[name])
            if value is not _GONE:
                kept[name] = value
    return kept


def _is_sound(struct: type[msgspec.Struct], block: dict[str, Any]) -> bool:
    """Whether every field of ``block`` is what ``struct`` says: one look, where the rest is one a field."""
    check = _check(struct)
    if check is None:
        return False
    try:
        msgspec.convert(block, check.struct)
    except (msgspec.ValidationError, RecursionError):
        return False
    return not any(isinstance(value := block.get(name), str) and value.endswith("\n") for name in check.lines)


class _Check(NamedTuple):
    struct: type[msgspec.Struct]
    #: The fields with a pattern, whose "$" would let a line end pass.
    lines: tuple[str, ...]


@cache
def _check(struct: type[msgspec.Struct]) -> _Check | None:
    """A struct that checks the fields of ``struct``; None where one holds what only a closer look tells."""
    types = hints(struct)
    plain = {name: _plain(hint) for name, hint in types.items()}
    if any(get_origin(hint) is list or hint is float for hint, _ in plain.values()):
        return None
    # What may be anything is not looked into: converting it would copy it.
    fields = [(name, types[name] | UnsetType, UNSET) for name, (hint, _) in plain.items() if hint is not Any]
    lines = tuple(name for name, (hint, metas) in plain.items() if _is_line(hint, metas))
    return _Check(msgspec.defstruct(struct.__name__, fields), lines)


def _is_line(hint: Any, metas: list[Meta]) -> bool:
    inner = [meta for one in get_args(hint) for meta in _plain(one)[1]] if get_origin(hint) in _UNIONS else []
    return any(meta.pattern for meta in metas + inner)


@cache
def _fields(struct: type[msgspec.Struct]) -> dict[str, _Keep]:
    return {name: _keeper(hint) for name, hint in hints(struct).items()}


def _keeper(hint: Any) -> _Keep:
    """What lets a value through when it is what ``hint`` says, its inside pruned to what ``hint`` names."""
    inner, metas = _plain(hint)
    if inner is Any:
        return lambda value: value
    if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        return _struct_keeper(inner)
    if get_origin(inner) is list:
        return _list_keeper(get_args(inner)[0], metas)
    return _value_keeper(hint, _is_line(inner, metas))


_UNIONS = (Union, UnionType)


def _plain(hint: Any) -> tuple[Any, list[Meta]]:
    """``hint`` without "may be unset", and what is said about it."""
    metas: list[Meta] = []
    while True:
        if get_origin(hint) is Annotated:
            hint, *said = get_args(hint)
            metas += [one for one in said if isinstance(one, Meta)]
        elif get_origin(hint) in _UNIONS and UnsetType in get_args(hint):
            hint = Union[tuple(one for one in get_args(hint) if one is not UnsetType)]  # noqa: UP007
        else:
            return hint, metas


def _value_keeper(hint: Any, is_line: bool) -> _Keep:
    # msgspec looks a struct over once and remembers it; a bare type it would take apart every time.
    box = msgspec.defstruct("Box", [("value", hint)])

    def keep(value: Any) -> Any:
        if is_line and isinstance(value, str) and value.endswith("\n"):
            return _GONE
        if isinstance(value, float) and not math.isfinite(value):
            return _GONE  # JSON has no such number.
        try:
            msgspec.convert({"value": value}, box)
        except (msgspec.ValidationError, RecursionError):
            return _GONE
        return value

    return keep


def _struct_keeper(struct: type[msgspec.Struct]) -> _Keep:
    required = {field.name for field in msgspec.structs.fields(struct) if field.required}

    def keep(value: Any) -> Any:
        kept = _picked(struct, value)
        return kept if required <= kept.keys() else _GONE

    return keep


def _list_keeper(inner: Any, metas: list[Meta]) -> _Keep:
    keep_one = _keeper(inner)
    low = max((meta.min_length or 0 for meta in metas), default=0)
    high = min((meta.max_length for meta in metas if meta.max_length is not None), default=None)

    def keep(value: Any) -> Any:
        if not isinstance(value, list):
            return _GONE
        kept = [one for one in map(keep_one, value) if one is not _GONE][:high]
        return kept if len(kept) >= low else _GONE

    return keep
