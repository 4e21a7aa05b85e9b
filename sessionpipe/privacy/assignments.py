"""Secrets known by what is said about them: ``NAME=value``, ``--flag value``, "the password is ...". Pure.

One regular expression over the lower-cased text finds every place where a name that may name a
secret is followed by a sign, and every keyword of :mod:`.shapes`; only those places are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from sessionpipe.privacy import shapes, values
from sessionpipe.privacy.names import Kind, kind
from sessionpipe.privacy.rules import load
from sessionpipe.privacy.shapes import Span

_NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
#: Between a name and the sign: quotes (escaped ones too), brackets, Markdown's stars.
_CLOSERS = r"""["'`\\\])*]{0,8}+"""
_SIGN = (
    # "name": ..., "value": as in lists of variables
    r"""(?>(?:\s|\\n|,){1,40})["'\\]{0,4}+value["'\\]{0,4}+[ \t]{0,4}+[:=]"""
    r"""|[ \t]{0,16}+(?:=>|:=|[=!]==?|\|\|=?|\?\??=?|->|\|(?=[ \t])|=|:(?!:))\*{0,2}+"""
    r"""|\t{1,4}+(?=[^\s|=:])|>|[ \t]{0,4}+,[ \t]{0,4}+(?=["'`\\])"""
)
_WORD = r"""[^\s.!?:=;,"'`]{1,30}"""
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def lowered(text: str) -> str:
    """``text`` in lower case, character by character, so that places are the same in both."""
    low = text.lower()
    # Two characters become one or the reverse for a handful of letters of the world, İ among them.
    return low if len(low) == len(text) else text.translate(_LOWER)


class _Scan(NamedTuple):
    """The one pass: its pattern, and what the last group of a match says was found."""

    pattern: re.Pattern[str]
    #: By group: a way to look closer, or a keyword.
    found: dict[int, str | tuple[str, str]]


@cache
def _scan() -> _Scan:
    rules = load("secrets@1")
    names, prose = rules["names"], rules["prose"]
    stems, nouns = _either(names["stems"]), _either(prose["nouns"])
    assigned = rf"([a-z0-9_.\-]{{0,48}}+)({_CLOSERS})({_SIGN})"
    named = rf"(?=[a-z][a-z0-9_-]{{0,40}}(?:{stems})|(?:{stems}))([a-z][a-z0-9_-]{{1,60}}+)"
    flag = rf"(?<![\w\]-]-)-?+{named}[ \t]{{1,4}}+(?=[^\s=:|&>-])"
    said = rf"s?(?:[ \t]{_WORD}){{0,6}}?[ \t]{{1,3}}(?:{_either(prose['verbs'])}):?[ \t]{{1,3}}()"
    rows: list[tuple[str | tuple[str, str], str, str]] = [
        *(((word, then), word, f"()(?={then})" if then else "()") for word, then in shapes.keywords()),
        *(("assigned", stem, assigned) for stem in names["stems"]),
        ("flag", "-", flag),
        *(("said", noun, said) for noun in prose["nouns"]),
        *(("said", word, rf"[ \t](?:the[ \t])?(?:{nouns})[ \t]()") for word in prose["before"]),
    ]
    # Each word is looked for at its rarest letter, what comes before it being looked back at, and
    # each alternative begins with that letter: `re` then skips, in C, all that cannot begin one.
    letters: dict[str, list[tuple[str | tuple[str, str], str]]] = {}
    for what, word, rest in rows:
        at = min(range(len(word)), key=lambda index: _RARITY.find(word[index]))
        back = f"(?<={re.escape(word)})" if at else ""
        letters.setdefault(word[at], []).append((what, re.escape(word[at + 1 :]) + back + rest))
    branches, found, groups = [], {}, 0
    for letter, same in letters.items():
        for what, _ in same:
            groups += 3 if what == "assigned" else 1
            found[groups] = what
        branches.append(f"{re.escape(letter)}(?:{'|'.join(rest for _, rest in same)})")
    return _Scan(re.compile("|".join(branches)), found)


#: Letters and signs of code, JSON and prose, rarest first.
_RARITY = "&^!;|?@~$+%*<>#`][jqz=}{k/(v)wxb\\.'-gypfmuc_:h,ldrnsoiat\"e0123456789 "


def _either(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


class Found(NamedTuple):
    """What one pass over a text found: the secrets, and the keywords that call for other rules."""

    spans: list[Span]
    keywords: set[tuple[str, str]]


def find(text: str) -> Found:
    """The secrets that names and sentences tell of in ``text``, and the keywords of the other rules."""
    pattern, found = _scan()
    spans: list[Span] = []
    words: set[tuple[str, str]] = set()
    low = lowered(text)
    at = 0
    while match := pattern.search(low, at):
        at = match.end()
        what = found[match.lastindex or 0]
        if isinstance(what, tuple):
            words.add(what)
        elif span := _LOOK[what](text, match):
            spans.append(span)
            # What stands inside a secret goes with it.
            at = max(at, span[1])
        else:
            at = match.start() + 1  # A keyword may stand inside a name.
    return Found(spans, words)


#: Unquoted values: in a program, in a query, and on a line of their own, up to an escape in them.
_IN_PROGRAM = re.compile(r"""[^\s"'`,;&<>|(){}\[\]\x00-\x1f]++""")
_IN_QUERY = re.compile(r"""[^\s"'`,;&#<>|(){}\[\]\x00-\x1f]++""")
_ON_LINE = re.compile(r"""[^\s"'`<>\x00-\x1f]++""")
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


def _assigned(text: str, match: re.Match[str]) -> Span | None:
    sign_group = match.lastindex or 0
    start, end = match.start(), match.end(sign_group - 2)
    name, start = _whole_name(text, start, end)
    before = text[start - 1 : start]
    found = _two_words(text, start, name) if before == " " and name.isalpha() else kind(name.strip("-_."))
    if found is None or text.startswith("://", max(0, start - 3)):
        return None  # A user in a URL is the URL's.
    sign = match[sign_group].strip(" \t*")
    at = match.end()
    if sign == ">":
        return _xml(text, at, found) if before == "<" and not match[sign_group - 1] else None
    if sign == ":":
        if text.startswith("//", at):
            return None
        if further := _TYPED.match(text, at) or _BLOCK.match(text, at):
            at = further.end()
    tight = sign == "=" and not text[at - 2 : at - 1].isspace() and not text[at : at + 1].isspace()
    constant = len(name) >= 3 and name == name.upper()
    first_on_line = start == 0 or before in "\n" or text[start - 2 : start] == "\\n"
    strict = tight and (constant or name.startswith("--") or before in ("?", "&", ";") or first_on_line)
    place = _Place(found, strict, sign, bool(match[sign_group - 1]))
    value = _VALUE.match(text, at)
    if value is None or (found == "key" and "cookie" in name.lower()):
        return None  # A cookie has a rule of its own.
    if value["quote"]:
        return _quoted(text, value, place)
    form = _IN_QUERY if before in ("?", "&", ";") else _ON_LINE if strict else _IN_PROGRAM
    return _bare(text, value.start("bare"), place, form)


def _whole_name(text: str, start: int, end: int) -> tuple[str, int]:
    back = text[max(0, start - 64) : start]
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
    return (start, start + len(value)) if goes else None


def _unquoted(text: str, start: int, form: re.Pattern[str]) -> str:
    match = form.match(text, start)
    if match is None:
        return ""
    escape = _ESCAPE.search(text, start, match.end() + 1)
    return text[start : escape.start() if escape else match.end()]


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


def _flag(text: str, match: re.Match[str]) -> Span | None:
    """``--password VALUE``."""
    found = kind(text[slice(*match.span(match.lastindex or 0))])
    value = _VALUE.match(text, match.end())
    if found is None or value is None:
        return None
    place = _Place(found, False, " ", False)
    if value["quote"]:
        return _quoted(text, value, place)
    start = value.start("bare")
    bare = _unquoted(text, start, _IN_PROGRAM).rstrip(".,;:!?)")
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
    return start, start + len(bare)


def _prose(text: str, match: re.Match[str]) -> Span | None:
    """A sentence that says a secret: only a value that looks generated is one."""
    at = match.end()
    opening = _OPENING.match(text, at)
    at = opening.end() if opening else at
    word = _unquoted(text, at, _ON_LINE).rstrip(".,;:!?)*")
    verbless = not match[0].rstrip().endswith(tuple(load("secrets@1")["prose"]["verbs"]))
    if values.is_placeholder(word) or not values.is_generated(word) or values.is_digest(word) or "(" in word:
        return None
    if verbless and len(word) < 8:
        return None
    return at, at + len(word)


_OPENING = re.compile(r"""\\{0,3}["'`(*]{0,3}""")
_LOOK = {"assigned": _assigned, "flag": _flag, "said": _prose}
