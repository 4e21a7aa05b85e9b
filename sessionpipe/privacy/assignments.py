"""Secrets known by what is said about them: ``NAME=value``, ``--flag value``, "the password is ...". Pure.

:func:`look` looks at one place where a stem of such a name stands ("pass", "token"), and a bounded way
around it. :mod:`.names` says what the name means, :mod:`.values` what the value looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from sessionpipe.privacy import columns, values
from sessionpipe.privacy.expressions import tree
from sessionpipe.privacy.names import Kind, kind
from sessionpipe.privacy.rules import load
from sessionpipe.privacy.ties import MAKER, SIGN, WORDLY, Tied

Span = tuple[int, int]

_NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_LONGEST_NAME = 64


def look(text: str, at: int, after: Tied) -> tuple[Sequence[Span], int, int]:
    """The secret that the name with a stem at ``at`` tells of, ``after`` being what :func:`.ties.tied` found there.

    With it, where its name or its value ends, and, for a sentence, how far it was read (else 0).
    """
    end, tie = after.end, after.kind
    if tie == "said" and not _leads_on(text, after.closed):
        return (), end, end + _SENTENCE
    name, start = _whole_name(text, at, end)
    if tie == "option" and not name.startswith("-") and not _leads_on(text, after.closed):
        return (), end, end + _SENTENCE
    reach = 0
    if tie in ("head", "cells"):
        column = columns.between_blanks(text, name, start) if tie == "head" else []
        return (column, end, column[-1][1]) if column else columns.between_signs(text, start, end)
    if tie not in ("gap", "option", "said"):
        span = _assigned(text, name, start, after)
        if (
            span is None
            and tie == "sign"
            and after.tie[0][-1] in "|│┃"
            and (column := columns.between_borders(text, name, start, after.tie[0].strip()))
        ):
            return column, end, column[-1][1]
        if span is None and tie == "table" and (column := columns.between_blanks(text, name, start)):
            return column, end, column[-1][1]
    elif name.startswith("-"):
        span = _flag(text, name, start, end)
    else:
        span, reach = _spoken(text, name, start, after.closed)
    return ([span], span[1], reach) if span else ([], end, reach)


#: Unquoted values: in a program, in a query, and on a line of their own, up to an escape in them; of a
#: longer one, as much as tells what it is.
_BARE = 512
_IN_PROGRAM = re.compile(rf"""[^\s"'`,;&<>|(){{}}\[\]\x00-\x1f]{{1,{_BARE}}}+""")
_IN_QUERY = re.compile(rf"""[^\s"'`,;&#<>|(){{}}\[\]\x00-\x1f]{{1,{_BARE}}}+""")
_ON_LINE = re.compile(rf"""[^\s"'`<>\x00-\x1f]{{1,{_BARE}}}+""")
#: A value in a URL in a URL.
_ENCODED = re.compile(
    rf"""(?:[A-Za-z0-9_.~+/!*-]|%(?!(?:25)?(?:26|22|27|2[Cc]|7[Dd]|0[AaDd]|20|23))[0-9A-Fa-f]{{2}}){{1,{_BARE}}}"""
)
_ESCAPE = re.compile(r"""\\[nrtu"'\\/`]""")
_VALUE = re.compile(
    r"""[ \t]{0,16}+(?:(?P<pre>[bBrRuUfFN$@]{0,2})(?P<quote>\\{0,15}+["'`]|%(?:25)?2[27]|&quot;|&#3[49];)"""
    r"""|(?P<bare>)(?=[^\s"'`,;&<>|(){}\[\]\x00-\x1f]))"""
)
_TYPED = re.compile(
    r"""[ \t]*+[&A-Za-z_][\w.\[\]|?&'<>]{0,40}+(?: \w{1,20})?[ \t]{0,2}+=[ \t]{0,2}+(?=[bBrRuUfF]{0,2}["'`])"""
)
_BLOCK = re.compile(r"[ \t]{0,4}[|>][+-]?[ \t]{0,4}\r?\n[ \t]{1,40}")
_XML_VALUE = re.compile(r"\s{0,8}+([^<>\s][^<>]{0,400}?)\s{0,8}</")
_LONGEST = 8192
_PUNCTUATION = ".,;:)*"
_CALL = re.compile(r"[\w.$]+[(\[{]")
_VARIABLE = re.compile(r"[A-Za-z_]+\d{1,2}")
_EXPRESSION = re.compile(r"[\[\](\\^*+?|]")
# Inside the quotes, the end of a string of JSON around them: these two quotes are no pair.
_STRUCTURE = re.compile(r"""(?<!\\)"\s{0,4}[,:}\]]""")


#: Signs that assign nothing: what stands behind them is a secret only when it looks like one.
_COMPARING = frozenset(("==", "===", "!=", "!==", "||", "??", "?"))
#: Signs of a table or a note.
_LOOSE = frozenset(("->", "→", "⇒", "|", "│", "┃", "table"))


class _Place(NamedTuple):
    """What stands around a name: enough to tell a shell's line from a program's."""

    kind: Kind
    #: A sign as it is written, or one of the other ties.
    sign: str
    #: As a shell or a query assigns: whatever stands there is the value.
    strict: bool
    #: Where the name begins.
    start: int
    quoted_name: bool
    constant: bool
    #: In the query of a URL, or between the semicolons of a connection string.
    query: bool = False
    #: Named by more than one word.
    two_words: bool = False


_TWO_WORDS = re.compile(r"[A-Za-z][_.-][A-Za-z]|[a-z][A-Z]")


# What may stand before a name on a line of its own: blanks, a list's dash, a diff's sign, a quote, a number, a border.
_LINE = re.compile(r"""[ \t]*+(?:[0-9]{1,6}[\t:→│ ]{1,4}[ \t]*+)?(?:[-+<>|│*#][ \t]*+){0,2}["'\\]{0,4}""")
# The same without blanks, as a program's arguments have them.
_FLUSH = re.compile(r"""(?:[ \t]*+(?:[0-9]{1,6}[\t:→│ ]{1,4}|-[ ]{1,3}))?[-+<>|│]?["'\\]{0,4}""")
_MARGIN = 64


def _lead(text: str, start: int) -> str | None:
    """What stands on its line before ``start``; None when that is much."""
    lead = text[max(0, start - _MARGIN) : start]
    for end in ("\n", "\\n"):
        _, found, behind = lead.rpartition(end)
        if found:
            return behind
    return lead if start <= _MARGIN else None


def _stands(form: re.Pattern[str], text: str, start: int) -> bool:
    """Whether a name at ``start`` stands on its line as ``form`` says."""
    lead = _lead(text, start)
    return lead is not None and form.fullmatch(lead) is not None


def _assigned(text: str, name: str, start: int, after: Tied) -> Span | None:
    before = text[start - 1 : start]
    found = _two_words(text, start, name) if before == " " and name.isalpha() else kind(name.strip("-_."))
    if found is None or (found == "key" and "cookie" in name.lower()):
        return None  # A cookie has a rule of its own.
    tie, at = after.kind, after.tie.end()
    if text[max(0, start - 3) : start] == "://" or (before == ":" and _is_part(text, start, after)):
        return None  # A user in a URL is the URL's; what colons separate are the parts of one name.
    if tie == "block" and not _deeper(text, start, after.tie["indent"]):
        return None
    sign = after.tie[0].strip(" \t*") if tie == "sign" else tie
    if sign.startswith(("As", "{")):
        sign = "="
    encoded = sign.startswith("%")
    if encoded:
        sign = "=" if sign[-1] in "Dd" else ":"
    quoted_name = bool(after.closers)
    if tie in ("xml", "list"):
        if tie == "xml" and quoted_name and (named := _NAMED.search(text, max(0, start - 64), start)):
            span = _xml(text, at, found)
            return span if span and (named["element"] or values.is_credential(text[slice(*span)])) else None
        fine = before == "<" and not quoted_name if tie == "xml" else before == ">"
        return _xml(text, at, found) if fine else None
    if tie == "part" and text[start - 6 : start] != 'name="':
        return None
    if tie == "call" and (quoted_name != text.startswith(".", after.closed) or not _gives(name)):
        return None
    if sign == ":":
        if text.startswith("//", at):
            return None
        if further := _TYPED.match(text, at) or _BLOCK.match(text, at):
            at = further.end()
    constant = len(name) >= 3 and name == name.upper()
    tight = sign == "=" and (
        encoded or (not text[at - 2 : at - 1].isspace() and not text[at : at + 1].isspace())
    )
    query = encoded or before in ("?", "&", ";")
    strict = tight and (constant or name.startswith("--") or query or _stands(_FLUSH, text, start))
    if made := _MADE_OF.match(text, at):
        at = made.end()
    place = _Place(
        found, sign, strict, start, quoted_name, constant, query, _TWO_WORDS.search(name) is not None
    )
    value = _VALUE.match(text, at)
    if value is None:
        return None
    if value["quote"]:
        return _quoted(text, value, place)
    form = _ENCODED if encoded else _IN_QUERY if query else _ON_LINE if strict else _IN_PROGRAM
    return _bare(text, value.start("bare"), place, form)


_MADE_OF = re.compile(rf"[ \t]{{0,4}}{MAKER}")
# An attribute that names what its element holds; of some elements that is a setting, of others a label as well.
_NAMED = re.compile(
    r"<(?:(?P<element>property|entry|setting|param|parameter|env|environmentVariable|prop)|[A-Za-z:]{2,24})"
    r"""\s[^<>\n]{0,40}?(?:name|key|id)=\\?["']\Z"""
)
_SPACE = re.compile(r"""[ \t]{0,16}["'\\]{0,2}[\w-]{2,40}:""")
# What `grep` puts before the lines it found.
_PATH = 280
_FOUND = re.compile(
    r"""(?:\A|[\n"])(?:[^\s:"]{0,200}\.\w{1,10}|[^\s:"]{0,200}/[^\s:"/]{1,60})?(?::?[0-9]{1,6})?:\Z"""
)


def _is_part(text: str, start: int, after: Tied) -> bool:
    """Whether a name behind a colon is the part of another: no setting with its space, `shop:dbPassword: value`."""
    if text[start - 2 : start] == "::":
        return True
    if after.kind != "sign" or after.tie[0].strip() != ":":
        return False
    if text[after.tie.end() : after.tie.end() + 1] not in (" ", "\n"):
        return True
    return not _stands(_SPACE, text, start) and not _FOUND.search(text, max(0, start - _PATH), start)


def _deeper(text: str, start: int, indent: str) -> bool:
    """Whether ``indent`` is more than the line has on which a name stands at ``start``."""
    lead = _lead(text, start)
    return lead is None or len(indent) > len(lead) - len(lead.lstrip(" \t"))


# A function with one of these words first is given what is no secret: a name, something to look at.
_TAKING = re.compile(
    r"(?i)(?:get|fetch|read|load|find|look|is|has|have|check|verify|validate|require|parse|decode|delete|remove|create"
    r"|generate|make|hash|encrypt|decrypt|refresh|revoke|by|test|it|describe|t|i18n|on|handle|next|peek|match|expect|consume)(?=[A-Z_]|$)"
)


def _gives(name: str) -> bool:
    """Whether a function called ``name`` is given the secret."""
    return _TAKING.match(name.rpartition(".")[2]) is None


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
    if value is None or not values.may_go(value[1], found):
        return None
    return value.span(1)


def _quoted(text: str, value: re.Match[str], place: _Place) -> Span | None:
    start, quote = value.end("quote"), value["quote"]
    end = _closing(text, start, quote)
    if end is None:
        return _bare(text, start, place, _IN_PROGRAM)
    content = text[start:end]
    if len(content) < 3 or values.MARK in content:
        return None
    if quote in "'`" and _STRUCTURE.search(content):
        return _bare(text, start, place, _IN_PROGRAM)
    prefix = value["pre"].lower()
    if ("f" in prefix and "{" in content) or ("r" in prefix and _EXPRESSION.search(content)):
        return None
    if content[0] in ")]};," and ("(" in content or " " in content):
        return None  # What stands between two strings of a program: `expect("password:"); send("`.
    if content != content.strip():
        return None  # A part of a longer text, put together by a program.
    if place.sign in _COMPARING or place.sign in _LOOSE:
        return (start, end) if place.kind != "key" and values.is_generated(content) else None
    if place.sign == "call" and not values.is_generated(content):
        return None
    if place.sign == "comma":
        # The default of a variable, what is typed into a field; elsewhere a list of words.
        fits = values.is_generated(content) and (
            place.constant or values.is_random(content) or not values.is_code(content)
        )
        if place.constant and place.kind == "password" and not fits:
            fits = values.is_chosen(content) or _is_passphrase(content)
        if not place.quoted_name or (place.kind == "key" and not place.constant) or not fits:
            return None
    if place.kind == "token" and not place.two_words and not place.constant and values.is_spelt(content):
        return None  # A lexer's token: `token: "keyword.control"`, `token: 'TokenIdentifier'`.
    return (start, end) if values.may_go(content, place.kind) else None


def _is_passphrase(content: str) -> bool:
    """Whether ``content`` is words joined by signs, as generators of passwords that one can say make them."""
    return _JOINED.fullmatch(content) is not None


_JOINED = re.compile(r"[A-Za-z]{3,12}(?:[-_.][A-Za-z0-9]{2,12}){2,7}")


def _closing(text: str, start: int, quote: str) -> int | None:
    """Where the quoted value ends: at the same quote, escaped as often. None: not on this line."""
    if quote[0] in "%&":
        end = text.find(quote, start, start + _BARE)
        return end if end >= 0 else None
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
    if place.sign in _COMPARING or place.sign in ("comma", "call"):
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
        not place.query
        and values.is_code(value)
        and ("." in value or "->" in value or "::" in value)
        and not values.is_random(value)
    ):
        return None
    if place.sign in _LOOSE:
        chosen = place.kind == "password" and values.is_chosen(value)
        if place.kind == "key" or len(value) < 8 or not (chosen or values.is_generated(value)):
            return None
    if "_" in value and value.isupper() and not place.strict:
        return None  # A program's constant.
    if (
        values.is_code(value)
        and not place.constant
        and kind(value.strip("_"))
        and not values.is_chosen(value)
    ):
        return None  # One variable is given to another.
    if place.strict and place.kind != "key":
        goes = len(value) >= 3 and not (values.is_path(value) and not values.is_random(value))
        if goes and not place.constant and value.isalpha() and _GOES_ON.match(text, start + len(whole)):
            return None  # `password=Mot de passe`: a translation.
    else:
        goes = _looks(value, place)
        if not goes and place.kind == "password" and text[start - 1 : start] == "=":
            # An option's or a log's: a program goes on behind it.
            rest = text[start + len(whole) : start + len(whole) + 2]
            said = rest[:1] in _BLANKS or (rest == ", " and not values.is_code(value))
            goes = values.is_chosen(value) and said
    if (
        not goes
        and place.kind == "password"
        and place.sign in (":", "=")
        and _stands(_LINE, text, place.start)
    ):
        rest = text[start + len(whole) : start + len(whole) + 2]
        if rest[:1] in "\r\n" or rest == "\\n" or rest[:1] in "\"'" or rest == " #":
            goes, value = _on_its_line(whole, place), whole
    if goes and place.kind == "password":
        value = whole.rstrip(_PUNCTUATION)  # "!" and "?" are a password's: here no sentence ends.
    return _to_the_end(text, start, value, form) if goes else None


_BLANKS = frozenset(("", " ", "\n", "\r", '"', "'"))


def _on_its_line(value: str, place: _Place) -> bool:
    """Whether a whole line's ``value`` of a password is one though it may have been typed by a person."""
    if values.is_code(value) or values.is_path(value) or len(value) < 6:
        return False
    if place.constant or place.quoted_name or _is_passphrase(value):
        return True
    return values.is_chosen(value) and (place.sign == ":" or not value.isalnum())


def _unquoted(text: str, start: int, form: re.Pattern[str]) -> str:
    """The value at ``start``, or as much of it as tells what it is."""
    match = form.match(text, start)
    if match is None:
        return ""
    escape = _ESCAPE.search(text, start, match.end() + 1)
    # One that is escaped again begins with more than one backslash.
    return text[start : escape.start()].rstrip("\\") if escape else match[0]


def _to_the_end(text: str, start: int, value: str, form: re.Pattern[str]) -> Span:
    """The whole of a value that begins with ``value``."""
    end = start + len(value)
    if len(value) >= _BARE:
        while (more := form.match(text, end)) and not _ESCAPE.search(text, end, more.end() + 1):
            end = more.end()
    return start, start + len(text[start:end].rstrip(_PUNCTUATION))


_PARTS = re.compile(r"[-_.:/]")


def _looks(value: str, place: _Place) -> bool:
    if values.is_jumbled(value) and len(value) >= 20:
        return True
    if place.kind == "key":
        if place.strict:
            return len(value) >= 8 and values.is_generated(value)
        long = len(value) >= 16 and values.is_generated(value)
        return long and not any(map(values.is_digest, _PARTS.split(value)))
    if not values.is_generated(value):
        if place.kind == "password" and values.is_chosen(value):
            # Where a program gives one variable to another, a name with a number is no password.
            return place.strict or place.sign != "=" or not values.is_code(value)
        if values.is_uuid(value):
            # What is called a token is often an id; what is called an API key is none.
            return place.two_words
        return place.kind == "password" and value.isdigit() and len(value) >= 6
    # `token = result2` is a program's; `password: hunter2` is not.
    return place.kind == "password" or place.sign != "=" or not _VARIABLE.fullmatch(value)


def _flag(text: str, name: str, start: int, end: int) -> Span | None:
    """``--password VALUE``."""
    if text[start - 1 : start] == "]" or not name.lstrip("-")[:1].isalpha():
        return None
    found = kind(name.lstrip("-"))
    value = _VALUE.match(text, end)
    if found is None or value is None or text[value.end() : value.end() + 1] in _NO_ARGUMENT:
        return None
    place = _Place(found, " ", False, start, False, False)
    if value["quote"]:
        return _quoted(text, value, place)
    begin = value.start("bare")
    bare = _unquoted(text, begin, _IN_PROGRAM).rstrip(_PUNCTUATION)
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


class _Prose(NamedTuple):
    """The nouns that name a secret, the words before one that need no verb, and the verbs' last words."""

    nouns: frozenset[str]
    before: frozenset[str]
    verbs: frozenset[str]
    #: A verb, or a word with a colon, before a word with a sign.
    lead: re.Pattern[str]


@cache
def _prose() -> _Prose:
    words = load("secrets@1")["prose"]
    verbs = frozenset(verb.rpartition(" ")[2] for verb in words["verbs"])
    return _Prose(
        frozenset(words["nouns"]),
        frozenset(words["before"]),
        verbs,
        re.compile(rf"(?:[ \t](?:{tree(verbs, longest=True)})|:)[ \t]{{1,16}}{WORDLY}{{0,255}}+{SIGN}"),
    )


# From a noun to what it is: words, a verb and the value, on one line.
_SAID, _WORDS = re.compile(r"[ \t]{1,3}(\S{1,64})"), 10


def _leads(text: str, end: int, verbs: frozenset[str]) -> Iterator[int]:
    """Where behind a noun that ends at ``end`` a value may stand: behind each verb of its sentence."""
    for _ in range(_WORDS):
        word = _SAID.match(text, end)
        if word is None:
            return
        end = word.end()
        if word[1][-1:] == ":" or word[1] in verbs:
            if blank := _BLANK.match(text, end):
                yield blank.end()
        elif word[1][-1] in ".!?;,\"'`)" or "=" in word[1]:
            return


# How far a sentence is read: six words, a verb and a value.
_SENTENCE = 256
# Commands that name a variable and give it a value with a blank between.
_SETTING = frozenset(
    (
        "set",
        "setx",
        "setenv",
        "ENV",
        "ARG",
        "export",
        "#define",
        "define",
        "put",
        "add",
        "create",
        "declare",
        "typeset",
        "config",
    )
)


def _leads_on(text: str, start: int) -> bool:
    """Whether what is said from ``start`` on has a verb or a colon before a word that no sentence is made of."""
    end = text.find("\n", start, start + _SENTENCE)
    return _prose().lead.search(text, start, end if end >= 0 else start + _SENTENCE) is not None


# A blank and a word that is not only letters.
_MADE = re.compile(r"""[ \t]{1,16}["'\\]{0,4}[A-Za-z]*+[^A-Za-z\s"']""")
_BLANK = re.compile(r"[ \t]{1,16}")
# Words before "key" that leave open which; others say that it is no secret's: a public key, a cache's.
_WHOSE = frozenset(("the", "a", "this", "my", "your", "our", "his", "her", "their", "that"))
# "the password (X) is", "the API key, X, was".
_BESIDE = re.compile(r" \((?=\S)|, (?=\S{6,200},)| (?=[A-Za-z0-9_-]{20})")
_SPOKEN_QUOTE = re.compile(r"""[ \t]{1,2}(?P<quote>\\{0,3}["'`])""")


def _spoken(text: str, name: str, start: int, end: int) -> tuple[Span | None, int]:
    """A secret behind a name and a blank, and how far was read for it (0: the name says nothing).

    ``ENV NAME value``, a line that is a name and its value, or a sentence: only a value that looks
    generated is one there.
    """
    nouns, befores, verbs, _ = _prose()
    found = _two_words(text, start, name) if text[start - 1 : start] == " " else kind(name.strip("-_."))
    if found and _MADE.match(text, end) and (span := _set(text, start, end, found)):
        return span, 0
    before = text[max(0, start - 32) : start]
    noun, words = name.lower(), before.lower().split()
    if noun not in nouns and noun.removesuffix("s") not in nouns:
        if words and f"{words[-1]} {noun.removesuffix('s')}" in nouns:
            words.pop()
        elif noun == "key" and (found == "key" or (words and words[-1] in _WHOSE)):
            found = None
        elif not found or found == "key" or (name == noun and noun != "key"):
            return None, 0
    else:
        found = "password" if noun[:1] == "p" else found or "token"
    quote = _SPOKEN_QUOTE.match(text, end)
    if quote and (closing := _closing(text, quote.end(), quote["quote"])) and found != "key":
        content = text[quote.end() : closing]
        if (
            len(content) >= 8
            and (values.is_generated(content) or (found == "password" and values.is_chosen(content)))
            and not values.is_digest(content)
            and values.may_go(content, "token")
        ):
            return (quote.end(), closing), end + _SENTENCE
    for at in _leads(text, end, verbs):
        if text.startswith(values.MARK, at):
            break  # What it is has gone; what is said next is something else's.
        if span := _told(text, at, 0, found):
            return span, end + _SENTENCE
    lead = [word.lstrip("(") for word in words if word != "the"][-1:]
    if lead and (lead[0] in befores or lead[0].endswith((",", "/")) or not lead[0]):
        return _told(text, end + 1, 8, found), end + _SENTENCE
    if (beside := _BESIDE.match(text, end)) and "=" not in text[beside.end() : beside.end() + 24]:
        return _told(text, beside.end(), 6, found), end + _SENTENCE
    return None, end + _SENTENCE


def _set(text: str, start: int, end: int, found: Kind) -> Span | None:
    """The value of ``ENV NAME value``, or of a line that is a name and a value."""
    lead = text[max(0, start - _MARGIN) : start]
    setting = False
    if text[start - 1 : start] in (" ", "\t", '"', "'"):
        words = lead.rstrip("\"'\\").split()
        while len(words) > 1 and words[-1].startswith("-") and words[-1] != "--var":
            words.pop()
        setting = bool(words) and words[-1].lstrip("\"'`>$") in _SETTING
    if not setting and not _stands(_LINE, text, start):
        return None
    blank = _BLANK.match(text, end)
    value = _VALUE.match(text, blank.end()) if blank else None
    if value is None:
        return None
    if value["quote"]:
        place = _Place(found, " ", False, start, False, True)
        return _quoted(text, value, place) if setting else None
    begin = value.start("bare")
    bare = _unquoted(text, begin, _ON_LINE)
    rest = text[begin + len(bare) : begin + len(bare) + 2]
    if not setting and not (rest[:1] in "\r\n" or rest == "\\n" or rest[:1] in "\"'"):
        return None
    bare = bare.rstrip(".,;:)")
    if (
        not (values.is_generated(bare) or (found == "password" and values.is_chosen(bare)))
        or values.is_placeholder(bare)
        or (found == "key" and values.is_digest(bare))
    ):
        return None
    if len(bare) < 8 and not setting:
        return None
    return _to_the_end(text, begin, bare, _ON_LINE)


def _told(text: str, at: int, shortest: int, found: Kind | None) -> Span | None:
    opening = _OPENING.match(text, at)
    at = opening.end() if opening else at
    word = _unquoted(text, at, _ON_LINE)
    # "!" and "?" are the value's own where its sentence goes on behind them.
    goes_on = found == "password" and _GOES_ON.match(text, at + len(word)) is not None
    word = word.rstrip(_PUNCTUATION if goes_on else _PUNCTUATION + "!?")
    if (
        values.is_placeholder(word)
        or "(" in word
        or "${" in word
        or word.endswith("[]")
        or len(word) < shortest
    ):
        return None
    # A commit's name is no secret, however it is spoken of; what is longer and called one is.
    called = len(word) >= 32 and (values.is_uuid(word) or values.is_random(word))
    if found == "password":
        called = called or values.is_chosen(word)
    if not called and (not values.is_generated(word) or values.is_digest(word)):
        return None
    if found is None and not values.is_random(word):
        return None  # A key may be any thing's; what stands there must speak for itself.
    return _to_the_end(text, at, word, _ON_LINE)


_GOES_ON = re.compile(r" [a-z(]")
_OPENING = re.compile(r"""\\{0,3}["'`(*]{0,3}""")
