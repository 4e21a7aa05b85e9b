"""Secrets known by what is said about them: ``NAME=value``, ``--flag value``, "the password is ...". Pure.

:func:`look` looks at one place where a stem of such a name stands ("pass", "token"), and a bounded way
around it. :mod:`.names` says what the name means, :mod:`.values` what the value looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from sessionpipe.privacy import values
from sessionpipe.privacy.names import Kind, kind
from sessionpipe.privacy.rules import load

Span = tuple[int, int]

_NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
#: Between a name and the sign: quotes (escaped ones too), brackets, Markdown's stars.
_CLOSERS = r"""["'`\\\])*]{0,8}+"""
_SIGN = (
    # "name": ..., "value": as in lists of variables
    r"""(?>(?:\s|\\n|,){1,40})["'\\]{0,4}+[Vv]alue["'\\]{0,4}+[ \t]{0,4}+[:=]"""
    r"""|[ \t]{0,16}+(?:=>|:=|[=!]==?|\|\|=?|\?\??=?|->|\|(?=[ \t])|=|:(?!:))\*{0,2}+"""
    r"""|\t{1,4}+(?=[^\s|=:])|>|[ \t]{0,4}+,[ \t]{0,4}+(?=["'`\\])"""
)
#: From a stem to the sign behind its name, or to the space there.
_AFTER = re.compile(
    rf"(?P<rest>[A-Za-z0-9_.\-]{{0,48}}+)(?:(?P<closers>{_CLOSERS})(?P<sign>{_SIGN})|(?=[ \t]))"
)
_WORD = r"""[^\s.!?:=;,"'`]{1,30}"""
_LONGEST_NAME = 64


def look(text: str, at: int) -> tuple[list[Span], int, int]:
    """The secret that the name with a stem at ``at`` tells of.

    With it, where its name or its value ends, and, for a sentence, how far it was read (else 0).
    """
    after = _AFTER.match(text, at)
    if after is None:
        return [], at, 0
    end = after.end("rest")
    name, start = _whole_name(text, at, end)
    reach = 0
    if after["sign"] is not None:
        span = _assigned(text, name, start, after)
    elif name.startswith("-"):
        span = _flag(text, name, start, end)
    elif leads := _noun(text, name, start):
        span, reach = _said(text, end, leads), end + _SENTENCE
    else:
        return [], end, 0
    return ([span], span[1], reach) if span else ([], end, reach)


def _either(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


#: Unquoted values: in a program, in a query, and on a line of their own, up to an escape in them; of a
#: longer one, as much as tells what it is.
_BARE = 512
_IN_PROGRAM = re.compile(rf"""[^\s"'`,;&<>|(){{}}\[\]\x00-\x1f]{{1,{_BARE}}}+""")
_IN_QUERY = re.compile(rf"""[^\s"'`,;&#<>|(){{}}\[\]\x00-\x1f]{{1,{_BARE}}}+""")
_ON_LINE = re.compile(rf"""[^\s"'`<>\x00-\x1f]{{1,{_BARE}}}+""")
_ESCAPE = re.compile(r"""\\[nrtu"'\\/`]""")
_VALUE = re.compile(
    r"""[ \t]{0,16}+(?:(?P<pre>[bBrRuUfF$@]{0,2})(?P<quote>\\{0,15}+["'`])"""
    r"""|(?P<bare>)(?=[^\s"'`,;&<>|(){}\[\]\x00-\x1f]))"""
)
_TYPED = re.compile(r"""[ \t]*+[A-Za-z_][\w.\[\]|?]{0,40}+[ \t]{0,2}+=[ \t]{0,2}+(?=[bBrRuUfF]{0,2}["'`])""")
_BLOCK = re.compile(r"[ \t]{0,4}[|>][+-]?[ \t]{0,4}\r?\n[ \t]{1,40}")
_XML_VALUE = re.compile(r"\s{0,8}+([^<>\s][^<>]{0,400}?)\s{0,8}</")
_TEMPLATE = re.compile(r"\$?\{[^{}]{0,80}\}|%\(?\w{0,20}\)?[sdr]|\$\w{2,60}")
_LONGEST = 8192
_PUNCTUATION = ".,;:!?)*"
_CALL = re.compile(r"[\w.$]+[(\[{]")
_VARIABLE = re.compile(r"[A-Za-z_]+\d{1,2}")
_EXPRESSION = re.compile(r"[\[\](\\^*+?|]")
# Inside the quotes, the end of a string of JSON around them: these two quotes are no pair.
_STRUCTURE = re.compile(r"""(?<!\\)"\s{0,4}[,:}\]]""")


#: Signs that assign nothing: what stands behind them is a secret only when it looks like one.
_COMPARING = frozenset(("==", "===", "!=", "!==", "||", "??", "?", ","))
#: Signs of a table or a note.
_LOOSE = frozenset(("->", "|", ""))


class _Place(NamedTuple):
    """What stands around a name: enough to tell a shell's line from a program's."""

    kind: Kind
    strict: bool
    sign: str
    name_quoted: bool


def _assigned(text: str, name: str, start: int, after: re.Match[str]) -> Span | None:
    before = text[start - 1 : start]
    found = _two_words(text, start, name) if before == " " and name.isalpha() else kind(name.strip("-_."))
    if found is None or text.startswith("://", max(0, start - 3)):
        return None  # A user in a URL is the URL's.
    sign = after["sign"].strip(" \t*")
    at = after.end()
    name_quoted = bool(after["closers"])
    if sign == ">":
        return _xml(text, at, found) if before == "<" and not name_quoted else None
    if sign == ":":
        if text.startswith("//", at):
            return None
        if further := _TYPED.match(text, at) or _BLOCK.match(text, at):
            at = further.end()
    tight = sign == "=" and not text[at - 2 : at - 1].isspace() and not text[at : at + 1].isspace()
    constant = len(name) >= 3 and name == name.upper()
    first_on_line = start == 0 or before in "\n" or text[start - 2 : start] == "\\n"
    strict = tight and (constant or name.startswith("--") or before in ("?", "&", ";") or first_on_line)
    place = _Place(found, strict, sign, name_quoted)
    value = _VALUE.match(text, at)
    if value is None or (found == "key" and "cookie" in name.lower()):
        return None  # A cookie has a rule of its own.
    if value["quote"]:
        return _quoted(text, value, place)
    form = _IN_QUERY if before in ("?", "&", ";") else _ON_LINE if strict else _IN_PROGRAM
    return _bare(text, value.start("bare"), place, form)


def _whole_name(text: str, start: int, end: int) -> tuple[str, int]:
    back = text[max(0, start - _LONGEST_NAME) : start]
    kept = len(back.rstrip(_NAME))
    first = start - (len(back) - kept)
    # The letter of an escaped line end belongs to the escape, not to the name.
    if kept and back[kept - 1] == "\\" and text[first] in "nrt" and first + 1 < end:
        first += 1
    return text[first:end], first


def _two_words(text: str, start: int, name: str) -> Kind | None:
    """The kind of a name written as words: "API key", "max tokens"; the word before may say more."""
    back = text[max(0, start - 32) : start - 1]
    word = back[len(back.rstrip(_NAME)) :]
    return kind(f"{word}_{name}" if word else name)


def _xml(text: str, at: int, found: Kind) -> Span | None:
    value = _XML_VALUE.match(text, at)
    if value is None or not _may_go(value[1], found):
        return None
    return value.span(1)


def _quoted(text: str, value: re.Match[str], place: _Place) -> Span | None:
    start = value.end("quote")
    end = _closing(text, start, value["quote"])
    if end is None:
        return _bare(text, start, place, _IN_PROGRAM)
    content = text[start:end]
    if len(content) < 3:
        return None
    if value["quote"] in "'`" and _STRUCTURE.search(content):
        return _bare(text, start, place, _IN_PROGRAM)
    prefix = value["pre"].lower()
    if ("f" in prefix and "{" in content) or ("r" in prefix and _EXPRESSION.search(content)):
        return None
    if content != content.strip():
        return None  # A part of a longer text, put together by a program.
    if place.sign in _COMPARING or place.sign in _LOOSE:
        named = place.sign != "," or place.name_quoted
        if place.kind == "key" or not named or not values.is_generated(content):
            return None
    return (start, end) if _may_go(content, place.kind) else None


def _closing(text: str, start: int, quote: str) -> int | None:
    """Where the quoted value ends: at the same quote, escaped as often. None: not on this line."""
    sign, depth = quote[-1], len(quote) - 1
    stop = text.find("\n", start, start + _LONGEST)
    stop = min(len(text), start + _LONGEST) if stop < 0 else stop
    at = text.find(sign, start, stop)
    while at >= 0:
        slashes = at - len(text[start:at].rstrip("\\")) - start
        if slashes < depth or slashes % (2 * depth + 2) == depth:
            return at - min(slashes, depth)
        at = text.find(sign, at + 1, stop)
    return None


def _bare(text: str, start: int, place: _Place, form: re.Pattern[str]) -> Span | None:
    if place.sign in _COMPARING:
        return None
    whole = _unquoted(text, start, form)
    if not whole or values.is_placeholder(whole):
        return None
    value = whole.rstrip(".,;:!?)")
    following = text[start + len(value) : start + len(value) + 1]
    if not value or (value[0] in "$%@" and not values.is_generated(value[1:])):
        return None
    if values.is_placeholder(value) or following in ("(", "[", "{", "<") or _CALL.match(value):
        return None
    if place.kind != "password" and value.isdigit() and len(value) < 12:
        return None
    if (
        values.is_code(value)
        and ("." in value or "->" in value or "::" in value)
        and not values.is_random(value)
    ):
        return None
    if place.sign in _LOOSE and not (place.kind != "key" and len(value) >= 8 and values.is_generated(value)):
        return None
    if "_" in value and value.isupper() and not place.strict:
        return None  # A program's constant.
    if place.strict and place.kind != "key":
        goes = len(value) >= 3 and not (values.is_path(value) and not values.is_random(value))
    else:
        goes = _looks(value, place)
    return _to_the_end(text, start, value, form) if goes else None


def _unquoted(text: str, start: int, form: re.Pattern[str]) -> str:
    """The value at ``start``, or as much of it as tells what it is."""
    match = form.match(text, start)
    if match is None:
        return ""
    escape = _ESCAPE.search(text, start, match.end() + 1)
    return text[start : escape.start() if escape else match.end()]


def _to_the_end(text: str, start: int, value: str, form: re.Pattern[str]) -> Span:
    """The whole of a value that begins with ``value``."""
    end = start + len(value)
    if len(value) >= _BARE:
        while (more := form.match(text, end)) and not _ESCAPE.search(text, end, more.end() + 1):
            end = more.end()
    return start, start + len(text[start:end].rstrip(_PUNCTUATION))


def _looks(value: str, place: _Place) -> bool:
    if place.kind == "key":
        if place.strict:
            return len(value) >= 8 and values.is_generated(value)
        return len(value) >= 16 and values.is_generated(value) and not values.is_digest(value)
    if not values.is_generated(value):
        return place.kind == "password" and value.isdigit() and len(value) >= 6
    # `token = result2` is a program's; `password: hunter2` is not.
    return place.kind == "password" or place.sign != "=" or not _VARIABLE.fullmatch(value)


def _may_go(content: str, found: Kind) -> bool:
    """Whether a quoted ``content`` under a name of this kind is a secret."""
    if values.is_placeholder(content) or values.is_prose(content):
        return False
    if values.is_path(content) and not values.is_random(content):
        return False
    if (inner := _TEMPLATE.sub("", content)) != content and not values.is_generated(inner):
        return False
    if found == "password":
        return True
    if " " in content:
        return False
    if found == "token":
        return values.is_opaque(content) and not values.is_technical(content)
    return len(content) >= 16 and values.is_generated(content) and not values.is_digest(content)


def _flag(text: str, name: str, start: int, end: int) -> Span | None:
    """``--password VALUE``."""
    if text[start - 1 : start] == "]" or not name.lstrip("-")[:1].isalpha():
        return None
    found = kind(name.lstrip("-"))
    value = _VALUE.match(text, end)
    if found is None or value is None or text[value.end() : value.end() + 1] in _NO_ARGUMENT:
        return None
    place = _Place(found, False, " ", False)
    if value["quote"]:
        return _quoted(text, value, place)
    begin = value.start("bare")
    bare = _unquoted(text, begin, _IN_PROGRAM).rstrip(".,;:!?)")
    if (
        not bare
        or values.is_placeholder(bare)
        or not values.is_opaque(bare)
        or bare[0] in "$%"
        or values.is_path(bare)
    ):
        return None
    if found == "key" and (not values.is_generated(bare) or values.is_digest(bare)):
        return None
    return _to_the_end(text, begin, bare, _IN_PROGRAM)


_NO_ARGUMENT = tuple("=:|&>-")


@cache
def _prose() -> tuple[frozenset[str], frozenset[str], re.Pattern[str]]:
    """The nouns that name a secret, the words before one that need no verb, and what leads to the value."""
    words = load("secrets@1")["prose"]
    verbs = re.compile(rf"(?:[ \t]{_WORD}){{0,6}}?[ \t]{{1,3}}(?i:{_either(words['verbs'])}):?[ \t]{{1,3}}")
    return frozenset(words["nouns"]), frozenset(words["before"]), verbs


def _noun(text: str, name: str, start: int) -> list[str]:
    """The words before a noun that names a secret, the noun last; none when it names none."""
    nouns, _, _ = _prose()
    noun = name.lower()
    words = text[max(0, start - 32) : start].lower().split()
    if noun not in nouns and noun.removesuffix("s") not in nouns:
        if not words or f"{words[-1]} {noun.removesuffix('s')}" not in nouns:
            return []
        words.pop()
    return [*words, noun]


# How far a sentence is read: six words, a verb and a value.
_SENTENCE = 256


def _said(text: str, end: int, leads: list[str]) -> Span | None:
    """A sentence that says a secret: only a value that looks generated is one."""
    _, befores, verbs = _prose()
    verb = verbs.match(text, end)
    if verb and (span := _told(text, verb.end(), 0)):
        return span
    before = [word for word in leads[:-1] if word != "the"][-1:]
    return _told(text, end + 1, 8) if before and before[0] in befores else None


def _told(text: str, at: int, shortest: int) -> Span | None:
    opening = _OPENING.match(text, at)
    at = opening.end() if opening else at
    word = _unquoted(text, at, _ON_LINE).rstrip(_PUNCTUATION)
    if values.is_placeholder(word) or not values.is_generated(word) or values.is_digest(word) or "(" in word:
        return None
    return _to_the_end(text, at, word, _ON_LINE) if len(word) >= shortest else None


_OPENING = re.compile(r"""\\{0,3}["'`(*]{0,3}""")
