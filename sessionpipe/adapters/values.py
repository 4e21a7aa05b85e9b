"""The little language in which an adapter says where a value is found: compiled once, then called.

``adapters/README.md`` describes it for authors; in short, a value is

* ``"tool_input.file_path"``: a path into the payload; a number indexes a list, ``*`` takes the first
  element that has the rest. ``"$env.NAME"``, ``"$args.0"``, ``"$cwd"`` look at the hook instead, and
  ``"$ask.id"``, ``"$ask.message"`` are made from a permission request;
* ``"=word"``, ``true``, ``3``: itself;
* ``[…]``: the first of these that is present;
* ``{ from = value, … }``: transformed, by the closed registry :data:`TRANSFORMS`, in that order;
* ``{ all = […] }``: the list of those that are present; ``{ count = value, … }``: how many elements;
* ``{ record = { name = value, … } }``: those that are present, by name;

and may hold only ``when`` a condition is true and ``unless`` another is. Whatever a path does not
find, and whatever a transform can't work on, is ``None``: absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Getter = Callable[["Scope"], Any]
Test = Callable[["Scope"], bool]
Transform = Callable[[Any], Any]

#: How much of a string is searched for a pattern: what tells cases apart stands near the front.
SEARCHED = 64 * 1024


class Mistake(ValueError):
    """An adapter's file says something the language does not have; the message says where."""


@dataclass(slots=True)
class Scope:
    """All that an adapter's values can look at. ``ask`` makes ``id`` and ``message`` on demand."""

    payload: dict[str, Any]
    env: Mapping[str, str]
    args: Sequence[str]
    cwd: str
    ask: Callable[[Scope, str], Any]


def value(spec: Any, where: str) -> Getter:
    """Compile a value. Raises :class:`Mistake`, naming ``where`` it stands."""
    if isinstance(spec, str):
        return _constant(spec[1:]) if spec.startswith("=") else _path(spec, where)
    if isinstance(spec, (bool, int, float)):
        return _constant(spec)
    if isinstance(spec, list):
        return _first([value(item, where) for item in spec])
    if isinstance(spec, dict):
        return _table(dict(spec), where)
    raise Mistake(f"{where}: {spec!r} is no value")


def _constant(constant: Any) -> Getter:
    return lambda scope: constant


def _first(getters: Sequence[Getter]) -> Getter:
    def first(scope: Scope) -> Any:
        for getter in getters:
            if (found := getter(scope)) is not None:
                return found
        return None

    return first


def _path(text: str, where: str) -> Getter:
    root, *steps = text.split(".")
    if not all([root, *steps]):
        raise Mistake(f"{where}: {text!r} is no path")
    if root == "$env" and len(steps) == 1:
        # A variable that is set to nothing says nothing.
        return lambda scope: scope.env.get(steps[0]) or None
    if root == "$args" and len(steps) == 1:
        return lambda scope: _walk(list(scope.args), steps, 0)
    if root == "$cwd" and not steps:
        return lambda scope: scope.cwd
    if root == "$ask" and steps in (["id"], ["message"]):
        return lambda scope: scope.ask(scope, steps[0])
    if root.startswith("$"):
        raise Mistake(f"{where}: there is no {text!r}")
    if not steps:
        return lambda scope: scope.payload.get(root)
    return lambda scope: _walk(scope.payload.get(root), steps, 0)


def _walk(found: Any, steps: list[str], at: int) -> Any:
    for index in range(at, len(steps)):
        step = steps[index]
        if isinstance(found, dict):
            found = found.get(step)
        elif not isinstance(found, list):
            return None
        elif step == "*":
            return next((x for item in found if (x := _walk(item, steps, index + 1)) is not None), None)
        elif step.isdecimal():
            found = found[int(step)] if int(step) < len(found) else None
        else:
            return None
    return found


def _table(spec: dict[str, Any], where: str) -> Getter:
    test = conditions(spec, where)
    sources = [key for key in ("from", "all", "count", "record") if key in spec]
    if len(sources) != 1:
        raise Mistake(f"{where}: a value's table has one of from, all, count and record")
    (source,) = sources
    of = spec.pop(source)
    if source == "all":
        getter = _all([value(item, where) for item in of])
    elif source == "count":
        getter = _count(of, spec, where)
    elif source == "record":
        getter = _record({name: value(item, where) for name, item in of.items()})
    else:
        getter = value(of, where)
    steps = [
        make(_told(name, spec.pop(name), where), where) for name, make in TRANSFORMS.items() if name in spec
    ]
    if spec:
        raise Mistake(f"{where}: {', '.join(spec)} is no transform")
    return _transformed(getter, steps, test)


def _told(name: str, said: Any, where: str) -> Any:
    """What a table says for a transform or a bound, where that is of the kind it takes."""
    fits, kind = _TAKEN.get(name, (None, ""))
    if fits is not None and not fits(said):
        raise Mistake(f"{where}: {name} is {kind}")
    return said


def _transformed(getter: Getter, steps: list[Transform], test: Test | None) -> Getter:
    def transformed(scope: Scope) -> Any:
        if test is not None and not test(scope):
            return None
        found = getter(scope)
        for step in steps:
            if found is None:
                return None
            found = step(found)
        return found

    return transformed


def _all(getters: list[Getter]) -> Getter:
    def everything(scope: Scope) -> list[Any] | None:
        return [found for getter in getters if (found := getter(scope)) is not None] or None

    return everything


def _record(getters: dict[str, Getter]) -> Getter:
    def record(scope: Scope) -> dict[str, Any] | None:
        found = ((name, getter(scope)) for name, getter in getters.items())
        return {name: told for name, told in found if told is not None} or None

    return record


def _count(of: Any, spec: dict[str, Any], where: str) -> Getter:
    """Elements of a list: those that ``only`` and ``not`` leave, but not the one that is ``except``.

    ``only`` and ``not`` are conditions over the element; ``except = { id = value }`` leaves out the
    elements whose ``id`` is that value of the payload's.
    """
    getter = value(of, where)
    only = condition(spec.pop("only"), where) if "only" in spec else None
    no = condition(spec.pop("not"), where) if "not" in spec else None
    other = [(key, value(item, where)) for key, item in spec.pop("except", {}).items()]

    def count(scope: Scope) -> int | None:
        elements = getter(scope)
        if not isinstance(elements, list):
            return None
        left_out = [(key, of_payload(scope)) for key, of_payload in other]
        total = 0
        for element in elements:
            if not isinstance(element, dict):
                continue
            inner = replace(scope, payload=element)
            if any(found is not None and element.get(key) == found for key, found in left_out):
                continue
            total += (only is None or only(inner)) and (no is None or not no(inner))
        return total

    return count


def conditions(spec: dict[str, Any], where: str) -> Test | None:
    """Take ``when`` and ``unless`` out of ``spec``: what they ask together, or ``None``."""
    tests = []
    if "when" in spec:
        tests.append(condition(spec.pop("when"), where))
    if "unless" in spec:
        unless = condition(spec.pop("unless"), where)
        tests.append(lambda scope: not unless(scope))
    return _every(tests) if tests else None


def condition(spec: Any, where: str) -> Test:
    """Compile a condition: every one of its keys must hold.

    ``has``, ``lacks`` (all of these values are present, or none; an empty string is not present),
    ``any`` (one of these is), ``is = { path = value or [values] }``, ``holds = { path = element }`` (of
    a list), ``matches = { path = pattern }``, ``above = { path = number }``,
    ``close = { of = [value, value], within = number }``.
    """
    if not isinstance(spec, dict) or not spec:
        raise Mistake(f"{where}: a condition is a table")
    unknown = spec.keys() - _CONDITIONS.keys()
    if unknown:
        raise Mistake(f"{where}: {', '.join(sorted(unknown))} is no condition")
    return _every([_CONDITIONS[key](asked, where) for key, asked in spec.items()])


def _every(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    return lambda scope: all(test(scope) for test in tests)


def _values(spec: Any, where: str) -> list[Getter]:
    return [value(item, where) for item in (spec if isinstance(spec, list) else [spec])]


def _present(found: Any) -> bool:
    return found is not None and found != ""


def _has(spec: Any, where: str) -> Test:
    getters = _values(spec, where)
    return lambda scope: all(_present(getter(scope)) for getter in getters)


def _any(spec: Any, where: str) -> Test:
    getters = _values(spec, where)
    return lambda scope: any(_present(getter(scope)) for getter in getters)


def _lacks(spec: Any, where: str) -> Test:
    getters = _values(spec, where)
    return lambda scope: not any(_present(getter(scope)) for getter in getters)


def _is(spec: Any, where: str) -> Test:
    asked = [
        (value(path, where), wanted if isinstance(wanted, list) else [wanted])
        for path, wanted in spec.items()
    ]
    return lambda scope: all(_equals_one(getter(scope), wanted) for getter, wanted in asked)


def _equals_one(found: Any, wanted: list[Any]) -> bool:
    # In Python true equals 1; in a payload it does not.
    return any(found == one and isinstance(found, bool) == isinstance(one, bool) for one in wanted)


def _holds(spec: Any, where: str) -> Test:
    asked = [(value(path, where), wanted) for path, wanted in spec.items()]
    return lambda scope: all(isinstance(found := get(scope), list) and one in found for get, one in asked)


def _matches(spec: Any, where: str) -> Test:
    asked = [(value(path, where), re.compile(pattern)) for path, pattern in spec.items()]

    def matches(scope: Scope) -> bool:
        for getter, pattern in asked:
            found = getter(scope)
            if not isinstance(found, str) or not pattern.search(found[:SEARCHED]):
                return False
        return True

    return matches


def _above(spec: Any, where: str) -> Test:
    asked = [(value(path, where), _told("above", bound, where)) for path, bound in spec.items()]
    return lambda scope: all(_is_number(found := get(scope)) and found > bound for get, bound in asked)


def _close(spec: Any, where: str) -> Test:
    one, other = _values(_told("of", spec["of"], where), where)
    within = _told("within", spec["within"], where)

    def close(scope: Scope) -> bool:
        a, b = one(scope), other(scope)
        return _is_number(a) and _is_number(b) and abs(a - b) <= within

    return close


_CONDITIONS: Mapping[str, Callable[[Any, str], Test]] = {
    "has": _has,
    "any": _any,
    "lacks": _lacks,
    "is": _is,
    "holds": _holds,
    "matches": _matches,
    "above": _above,
    "close": _close,
}


def _is_number(found: Any) -> bool:
    return isinstance(found, (int, float)) and not isinstance(found, bool)


def _is_text(said: Any) -> bool:
    return isinstance(said, str)


#: What of a person's own table would only fail once a payload comes: asked when it is compiled.
_TAKEN: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "at": (_is_text, "a path"),
    "last": (lambda said: type(said) is int and said > 0, "how many characters, from 1"),
    "find": (_is_text, "a pattern"),
    "find_all": (_is_text, "a pattern"),
    "starts": (lambda said: isinstance(said, list) and all(map(_is_text, said)), "a list of beginnings"),
    "time": (lambda said: said in ("rfc3339", "uuid7"), "rfc3339 or uuid7"),
    "scaled": (_is_number, "a number"),
    "map": (lambda said: isinstance(said, dict), "a table of words"),
    "above": (_is_number, "a number"),
    "of": (lambda said: isinstance(said, list) and len(said) == 2, "two values"),
    "within": (_is_number, "a number"),
}


# The transforms. Each is made from what the table says and turns one value into another, or None.


def _json(said: Any, where: str) -> Transform:
    """A string that holds JSON, parsed."""
    from sessionpipe.adapters.payload import Unreadable, read, smooth

    def parse(found: Any) -> Any:
        try:
            inner = read(found.encode("utf-8", "replace")) if isinstance(found, str) else None
        except Unreadable:
            return None
        if inner is None:
            return None
        # A payload that is sound may hold one that isn't.
        return smooth(inner.value) if inner.rough else inner.value

    return parse


def _at(said: Any, where: str) -> Transform:
    """A path into what was found so far: after ``json``."""
    steps = said.split(".")
    return lambda found: _walk(found, steps, 0)


def _last(said: Any, where: str) -> Transform:
    """A string's last so many characters: what a harness says behind an output of any length."""
    return lambda found: found[-said:] if isinstance(found, str) else None


def _find(said: Any, where: str) -> Transform:
    """A string's first match of a pattern: its first group, or all of it."""
    pattern = re.compile(said)

    def find(found: Any) -> str | None:
        match = pattern.search(found[:SEARCHED]) if isinstance(found, str) else None
        return match[match.re.groups and 1] if match else None

    return find


def _find_all(said: Any, where: str) -> Transform:
    """Every match of a pattern in a string, in order, each once."""
    pattern = re.compile(said)
    return lambda found: list(dict.fromkeys(pattern.findall(found))) if isinstance(found, str) else None


def _starts(said: Any, where: str) -> Transform:
    """``true`` for a string that begins with one of these, after white space; else absent."""
    prefixes = tuple(said)
    return lambda found: (isinstance(found, str) and found.lstrip().startswith(prefixes)) or None


def _map(said: Any, where: str) -> Transform:
    """A table from words to values; ``"*"`` is any other word. Booleans and numbers are found by name."""

    def look_up(found: Any) -> Any:
        if isinstance(found, (dict, list)):
            return None
        name = found if isinstance(found, str) else str(found).lower()
        return said.get(name, said.get("*"))

    return look_up


def _chars(said: Any, where: str) -> Transform:
    """How many code points a string has."""
    return lambda found: len(found) if isinstance(found, str) else None


def _scaled(said: Any, where: str) -> Transform:
    """A number times this, to the nearest whole: milliseconds from seconds, or from a fraction."""
    return lambda found: round(found * said) if _is_number(found) and abs(found) < 1e18 else None


def _moment(said: Any, where: str) -> Transform:
    """Epoch milliseconds as the protocol writes a time."""

    def moment(found: Any) -> str | None:
        from sessionpipe.protocol import rfc3339

        return rfc3339(int(found)) if _is_number(found) and 0 <= found < _LAST_MOMENT else None

    return moment


_LAST_MOMENT = 253_402_300_800_000  # the year 10000, which RFC 3339 can't say


def _time(said: Any, where: str) -> Transform:
    """An RFC 3339 time (``rfc3339``), or the one in a version 7 UUID (``uuid7``), as epoch milliseconds."""
    return {"rfc3339": _from_rfc3339, "uuid7": _from_uuid7}[said]


def _from_rfc3339(found: Any) -> int | None:
    from datetime import datetime

    try:
        when = datetime.fromisoformat(found) if isinstance(found, str) else None
        return round(when.timestamp() * 1000) if when and when.tzinfo else None
    except (ValueError, OverflowError, OSError):
        return None


_UUID7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def _from_uuid7(found: Any) -> int | None:
    match = _UUID7.fullmatch(found) if isinstance(found, str) else None
    return int(match[1] + match[2], 16) if match else None


def _local(said: Any, where: str) -> Transform:
    return lambda found: local(found) if isinstance(found, str) else None


def local(path: str) -> str:
    """A ``file:`` URI as the path it names; a path as it is."""
    if not path.startswith("file://"):
        return path
    from urllib.parse import unquote

    host, slash, rest = path.removeprefix("file://").partition("/")
    rest = unquote(slash + rest)
    if host not in ("", "localhost"):
        return f"//{unquote(host)}{rest}"
    # file:///C:/x names C:/x
    return rest[1:] if re.match(r"/[A-Za-z]:(?:[/\\]|$)", rest) else rest


#: The transforms, in the order in which they are applied.
TRANSFORMS: Mapping[str, Callable[[Any, str], Transform]] = {
    "json": _json,
    "at": _at,
    "last": _last,
    "find": _find,
    "find_all": _find_all,
    "starts": _starts,
    "local": _local,
    "time": _time,
    "scaled": _scaled,
    "moment": _moment,
    "chars": _chars,
    "map": _map,
}
