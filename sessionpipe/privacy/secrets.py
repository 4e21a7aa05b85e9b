"""``secrets@1``: credentials out of every string before anything is stored (protocol §5, §6).

:func:`redact` is for text, :func:`redact_value` for JSON-like values, where a key is context for
its value. Both replace a secret by ``[redacted]`` and leave everything around it, give back the
same object when there was nothing to do, do nothing more the second time, and take time linear in
their input. The rules are data in ``rulesets/secrets@1.toml``; :mod:`.shapes` and
:mod:`.assignments` say how they are run.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from sessionpipe.privacy import engine, percent, values, walk
from sessionpipe.privacy.names import kind, told
from sessionpipe.privacy.recurring import SHORT, Recurring
from sessionpipe.privacy.shapes import Span
from sessionpipe.privacy.values import MARK
from sessionpipe.privacy.walk import Place

RULESET = "secrets@1"
#: The revision of the rules, kept with each stored event; equal to ``revision`` in the ruleset.
RULESET_VERSION = 3

# Shorter than any secret with what names it ("pw=x" says nothing).
_SHORTEST = 8
_ROUNDS = 4


def redact(text: str) -> str:
    """``text`` with every secret replaced by ``[redacted]``; the same object when it has none."""
    # What was hidden behind one secret may show once it is gone; hardly ever, and then once.
    near: list[int] | None = None
    for _ in range(_ROUNDS):
        if len(text) < _SHORTEST:
            return text
        spans, again = _find(text, near)
        if spans:
            text = _replaced(text, spans)
        if not again:
            return text
        near = _marks(spans)
    return text


def _find(text: str, near: Sequence[int] | None = None) -> engine.Found:
    """The secrets of ``text``, and those whose signs are percent-encoded in it."""
    found = engine.find(text, near)
    if "%" not in text or not (view := percent.View(text)).text:
        return found
    spans = [*found.spans, *map(view.place, engine.find(view.text).spans)]
    if len(spans) == len(found.spans):
        return found
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return engine.Found(merged, True)


def _replaced(text: str, spans: list[Span]) -> str:
    """``text`` with a mark for each of ``spans``."""
    parts: list[str] = []
    upto = 0
    for start, end in spans:
        parts.append(text[upto:start])
        upto = end
    parts.append(text[upto:])
    return MARK.join(parts)


def _marks(spans: list[Span]) -> list[int]:
    """Where the marks of ``spans`` are in the text that has them."""
    marks, shift = [], 0
    for start, end in spans:
        marks.append(start + shift)
        shift += len(MARK) - (end - start)
    return marks


def redact_value(obj: Any) -> Any:
    """``obj`` with the secrets of all its strings redacted, nested ones and keys included.

    A string under a key that names a secret goes unless it is a placeholder; so does the ``value``
    beside a ``name`` that names one, what a Secret or a cookie holds, and what stands behind
    ``--password`` or another command's option in a list of arguments. A list of strings is read as the
    rows of a text as well: a private key has many. Anything but strings stays as it is. Iterative, so
    depth is no limit.
    """
    if isinstance(obj, str):
        return redact(obj)
    if not isinstance(obj, walk.CONTAINERS):
        return obj
    new = _new(obj)
    if new.lists and (after := _rows(obj, new.lists)) is not obj:
        return _each(after, _new(after))
    return _each(obj, new)


def _rows(obj: Any, lists: list[Sequence[str]]) -> Any:
    """``obj`` without the secrets that its ``lists`` of strings have as rows of a text."""
    changed = {id(one): rows for one in lists if (rows := _as_rows(one))}
    if not changed:
        return obj

    def text(value: str, place: Place) -> str:
        return changed.get(id(place.container), {}).get(place.at, value)

    return walk.rewrite(obj, text, lambda key: key)


def _as_rows(items: Sequence[str]) -> dict[int, str]:
    """What becomes of which of ``items``, the rows of a text."""
    rows: dict[int, str] = {}
    for _ in range(_ROUNDS):
        now = [rows.get(index, one) for index, one in enumerate(items)]
        found = _find("\n".join(now))
        if not found.spans:
            break
        starts = list(accumulate((len(one) + 1 for one in now), initial=0))
        for start, end in reversed(found.spans):
            for index in range(bisect_right(starts, start) - 1, bisect_right(starts, end - 1)):
                row, begin = rows.get(index, now[index]), max(0, start - starts[index])
                upto = min(len(now[index]), end - starts[index])
                if begin < upto:
                    rows[index] = row[:begin] + MARK + row[upto:]
        if not found.again:
            break
    return rows


def _each(obj: Any, new: _New) -> Any:
    """``obj`` without the secrets of each of its ``new`` strings, and of what stands with another."""
    keys, short, long, _, named = new
    # One pass over all strings together decides; a line end between two of them joins nothing. Short ones come
    # first: behind the rows of a text one may look like a row that goes on.
    strings = [*keys, *short, *long]
    spans = _find("\n".join(strings)).spans if strings else []
    _keys.meet(keys)
    _texts.meet(short)
    if not spans and not named:
        return obj
    dirty = _touched(strings, spans)
    commands: dict[int, dict[int, str]] = {}

    def text(value: str, place: Place) -> str:
        new = _under(_name_of(place), value)
        if new is None and isinstance(place.container, (list, tuple)):
            if (known := commands.get(id(place.container))) is None:
                known = commands[id(place.container)] = _arguments(place.container)
            new = known.get(place.at)
        return new if new is not None else redact(value) if value in dirty else value

    return walk.rewrite(obj, text, lambda key: redact(key) if key in dirty else key)


class _New(NamedTuple):
    """The strings of a value that are not known to hold nothing, and whether one names what stands with it."""

    keys: list[str]
    short: list[str]
    long: list[str]
    #: The lists of strings alone.
    lists: list[Sequence[str]]
    named: bool


_USUAL = frozenset((str, dict, list, int, float, bool, type(None)))


def _new(obj: Any) -> _New:
    """What is new in a container."""
    keys: list[str] = []
    short: list[str] = []
    long: list[str] = []
    lists: list[Sequence[str]] = []
    named = False
    known_keys, known = _keys.known, _texts.known
    nodes = [obj]
    for node in nodes:
        if isinstance(node, dict):
            if not known_keys.issuperset(node):
                fresh = [key for key in node if isinstance(key, str) and key not in known_keys]
                named = named or any(map(_may_name, fresh)) or _tells(node)
                keys += fresh
            node = node.values()
        else:
            named = named or any(isinstance(one, str) and _is_option(one) for one in node)
            if len(node) > 1 and all(isinstance(one, str) for one in node):
                lists.append(node)
        for inner in node:
            # The types of most, by which they are told apart sooner.
            if (made := type(inner)) is str or (made not in _USUAL and isinstance(inner, str)):
                if len(inner) > SHORT:
                    long.append(inner)
                elif inner not in known:
                    short.append(inner)
            elif made is dict or made is list or (made not in _USUAL and isinstance(inner, walk.CONTAINERS)):
                nodes.append(inner)
    return _New(keys, short, long, lists, named)


def _may_name(one: str) -> bool:
    """Whether ``one`` may say something of the value that stands under it, or with it."""
    return len(one) <= _LONGEST_NAME and (kind(one) is not None or told(one) or one in _COOKIES)


def _is_option(one: str) -> bool:
    return one[:1] == "-" and len(one) <= _LONGEST_ARGUMENT


# The keys beside which a value tells something.
_TELLING = ("value", "Value", "ParameterValue", "kind", "kty")


def _tells(node: dict[Any, Any]) -> bool:
    """Whether a value in ``node`` may say something of another."""
    if any(key in node for key in _VALUE_KEYS) and any(
        isinstance(name := node.get(key), str) and _may_name(name) for key in _NAME_KEYS
    ):
        return True
    return node.get("kind") == _OF_SECRETS or "kty" in node


_keys = Recurring(lambda key: key not in _TELLING and not _may_name(key) and redact(key) is key)
_texts = Recurring(lambda text: redact(text) is text)


def _touched(strings: list[str], spans: list[Span]) -> set[str]:
    """Those of ``strings`` that a span of their joined text touches."""
    starts = list(accumulate((len(one) + 1 for one in strings), initial=0))
    touched: set[str] = set()
    for start, end in spans:
        touched.update(strings[bisect_right(starts, start) - 1 : bisect_right(starts, end - 1)])
    return touched


# A name, and an option's.
_LONGEST_NAME, _LONGEST_OPTION = 128, 64
# A command has no more arguments than this, nor are they longer.
_ARGUMENTS, _LONGEST_ARGUMENT = 64, 512


def _arguments(items: Sequence[Any]) -> dict[int, str]:
    """What becomes of which of ``items``, when they are the words of a command."""
    if not 2 <= len(items) <= _ARGUMENTS or not any(isinstance(one, str) and one[:1] == "-" for one in items):
        return {}
    if not all(isinstance(one, str) and len(one) <= _LONGEST_ARGUMENT for one in items):
        return {}
    found: dict[int, str] = {}
    starts = list(accumulate((len(one) + 1 for one in items), initial=0))
    for start, end in reversed(engine.find(" ".join(items)).spans):
        index = bisect_right(starts, start) - 1
        word, at = found.get(index, items[index]), start - starts[index]
        found[index] = word[:at] + MARK + word[max(at, end - starts[index]) :]
    return found


_NAME_KEYS = ("name", "Name", "key", "Key", "keyName", "variable", "env", "ParameterKey", "label", "id")
_VALUE_KEYS = ("value", "Value", "ParameterValue")
_COOKIES = ("cookies", "Cookies", "cookieJar")
#: The private members of a key written as JSON (RFC 7518 §6).
_PRIVATE_KEY = ("d", "p", "q", "dp", "dq", "qi", "k")
#: The kind of what holds secrets as its data.
_OF_SECRETS = "Secret"
#: What :func:`_under` is told of a value that its place alone makes one.
_COOKIE, _SECRET = "cookie", "secret"


def _name_of(place: Place) -> str | None:
    """What names a value: its key, the flag before it, the name beside it, or what its container is."""
    name, container, at, under, above = place
    if isinstance(container, (list, tuple)):
        before = container[at - 1] if at else None
        if (
            isinstance(before, str)
            and before[:1] == "-"
            and len(before) <= _LONGEST_OPTION
            and "=" not in before
        ):
            return before.lstrip("-")
        # Each of "passwords" is a password.
        if isinstance(name, str) and name[-1:] in "sS" and kind(name) == "key" and kind(name[:-1]) != "key":
            one = kind(name[:-1]) == "password" or values.is_opaque(container[at])
            return name[:-1] if one else name  # A text's tokens are words.
    elif under in _COOKIES and (at == "value" or isinstance(above, dict)):
        return _COOKIE if at == "value" or "name" not in container else None
    elif at in _PRIVATE_KEY and isinstance(container.get("kty"), str):
        return _SECRET
    elif at in _VALUE_KEYS:
        beside = next((container[key] for key in _NAME_KEYS if isinstance(container.get(key), str)), None)
        if beside is None and isinstance(under, str) and kind(under):
            beside = under
        name = beside or name
    elif under in ("data", "stringData") and isinstance(above, dict) and above.get("kind") == _OF_SECRETS:
        return _SECRET
    return name if isinstance(name, str) else None


# A seed phrase has 24 words; a value of more is a text, in which the rules for texts look.
_WORDS = 24
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|apikey|bot|digest)\s+")


def _under(name: str | None, value: str) -> str | None:
    """What ``value`` becomes under ``name``; None when the name says nothing."""
    if name is None:
        return None
    if name == _COOKIE and "=" not in value.rstrip("="):
        made = len(value) >= 8 and values.is_generated(value) and not values.is_technical(value)
        return MARK if made else None
    if (found := kind(name)) is None:
        return redact(f"{name}: {value}")[len(name) + 2 :] if told(name) else None
    if values.is_stand_in(value) if found == "password" else values.is_placeholder(value):
        return None
    if not value.strip() or MARK in value or len(value.split(None, _WORDS)) > _WORDS:
        return None
    if found == "key":
        if "cookie" in name.lower():
            return redact(f"cookie: {value}")[len("cookie: ") :]
        generated = len(value) >= 16 and " " not in value and values.is_generated(value)
        return MARK if generated and not values.is_digest(value) else None
    if found == "token" and values.is_path(value) and not values.is_random(value):
        return None
    scheme = _SCHEME.match(value)
    return value[: scheme.end()] + MARK if scheme else MARK
