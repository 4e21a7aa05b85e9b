"""What ties a value to the name of a secret: an equals sign, a colon, a table's border, a blank. Pure.

Where a stem of such a name stands ("pass", "token"), the name goes on to its end and to what stands behind
it: one expression for each sign that may. Most names are tied to nothing, or to what no secret can be; that
is said here, by one or two expressions a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from sessionpipe.privacy.expressions import tree
from sessionpipe.privacy.rules import load

#: Between a name and the sign: quotes (escaped and encoded ones too), brackets, Markdown's stars.
_CLOSERS = r"""(?>(?=["'`\\\])*%&])(?:["'`\])*]|\\(?![nrt])|\](?=\s=>\s)|%22|%27|&quot;|&#3[49];){0,8}|)"""
# The rest of a name from its stem on. A name that goes on is no secret's: `password_hash` holds a hash.
_REST = r"_?(?:[A-Za-z][a-z]{1,20}+(?:Word|Phrase|Code|Wd|)|[A-Z]{2,20}+)s?+"
# What a value must at least have to be looked at: something that no word has, in it or where it ends with a
# row that a terminal may have wrapped. Most of what is tied to a name is a word or an expression of a program.
_WRAPPED = r"\n(?<=[^\n]{36}\n)"
_QUOTE = r"""(?:\\{0,15}["'`]|%(?:25)?2[27]|&quot;|&#3[49];)"""
_UNQUOTED = r"""[^\s"'`,;&<>|(){}\[\]]"""
SIGN, WORDLY, _PROSAIC = r"[0-9!@#$%^&*+=~?]", r"[^\s0-9!@#$%^&*+=~?]", r"[^\n0-9!@#$%^&*+=~?]"
_ODD = rf"(?:[A-Za-z_$.:]{{0,255}}+(?:(?![A-Za-z_$.:]){_UNQUOTED}|{_WRAPPED})|[A-Za-z]{{20}})"
_MADE_TEXT = r"""\\{0,4}["'`][A-Za-z ]{0,255}+[^A-Za-z "'`\n]"""
#: What makes of a password what is stored, or of a text a secret.
MAKER = (
    r"(?:bcrypt|Hash::make|make_password|generate_password_hash|password_hash|hash_password|SecretStr|Secret"
    r"|BCrypt::Password\.create)\([ \t]{0,2}(?=[bBrRuU]?[\"'`])"
)
# Behind the sign: a quote, a type and then a quote, a block of text, something odd, or what a shell is given.
_ASSIGNED = (
    rf"(?=[ \t]{{0,16}}+(?:[bBrRuUfFN$@]{{0,2}}{_QUOTE}|{_ODD}|{MAKER})"
    rf"|(?<=:)[ \t]*[&A-Za-z_][\w.\[\]|?&'<>]{{0,40}}+(?: \w{{1,20}})?[ \t]{{0,2}}=[ \t]{{0,2}}[bBrRuUfF]{{0,2}}[\"'`]"
    r"|(?<=:)[ \t]{0,4}[|>][+-]?[ \t]{0,4}\r?\n"
    r"|(?<=[=Dd])\S|(?<=[|│┃])[^\n]{0,500}\n(?:[ \t]*│[^\n]{0,500}\n)?[ \t]*[|│├┼┡╞+][-:|│├┼┤┡╇┩╞╪╡+─━═ \t]{3})"
)
# Behind a blank: the same of a command's option, of a line that is a name and a value, and of a sentence.
_WORD = rf"{WORDLY}{{0,255}}+(?:{SIGN}|{_WRAPPED})"
_NEXT = rf"""[ \t]{{1,16}}+(?![=:|])(?:\\{{0,3}}["'`]|{_WORD})|,[ \t]{{1,16}}+{_WORD}"""
_OPTION = (
    r"[ \t]{1,16}+(?:(?:[A-Z]?[a-z]{1,64}+|[A-Z]{1,64}+)(?:(?<=[a-z])[A-Z]|[^\w\s\"'`,;&<>|(){}\[\].:][A-Za-z])"
    rf"|{_UNQUOTED}{{24}})"
)
#: A cell of such a table's head: a name, words.
CELL = r'(?:"[A-Za-z_][\w .()/-]{0,40}+"|[ ]{0,40}+[A-Za-z_][\w .()/-]{0,60}+)'
#: What ties a value to its name: the signs it begins with, and how it goes on.
_TIES = {
    # "name": ..., "value": as in lists of variables; what tells of a value may stand before it.
    "pair": (
        " \t\n\r\\,:",
        r"""(?=[ \t]{0,40}+["'\\Vvc,\r\n])(?>(?:\s|\\n|,){1,40})"""
        r"""(?:["'\\]{1,4}[A-Za-z]{4,12}["'\\]{1,4}\s?:\s?[\w"'\\]{1,24},\s{0,20})?"""
        r"""(?:["'\\]{0,4}+[Vv]alue["'\\]{0,4}+[ \t]{0,4}+[:=]|content=)"""
        r"""|(?=[ :])\s?:\s?\{(?:\s{0,20}["'\\]{1,4}[A-Za-z]{4,12}["'\\]{1,4}\s?:\s?[\w"'\\]{1,16},){0,2}"""
        r"""\s{0,20}["'\\]{1,4}(?:value|[Dd]efault)["'\\]{1,4}\s?:""",
    ),
    # A block of that name, and its value below.
    "block": (
        " :=",
        r"(?=[ :=])\s{0,2}(?::\s?\{?|=?\s?\{)[ \t]{0,4}(?:\r?\n|\\n)(?P<indent>[ \t]{1,40})"
        r"""(?:(?!["']?(?:[Dd]efault|[Vv]alue)["']?\s?[:=])[^\s}][^\n\\]{0,200}(?:\n|\\n)(?P=indent)[ \t]{0,8}){0,8}"""
        r"""["']?(?:[Dd]efault|[Vv]alue)["']?[ \t]{0,8}[:=]""",
    ),
    "list": (
        "<",
        r"</key>(?:\s|\\n){0,40}<string>",
    ),
    "sign": (
        " \t=:!|?-→⇒│┃%",
        r"[ \t]{0,80}+(?=[=:!|?→⇒│┃%A{-])(?:=>|:=|[=!]==?|\|\|=?|\?\??=?|->|→|⇒|[|│┃](?=\s)|=|:(?!:)|%(?:25)?3[ADad]"
        r"|(?<=[ \t])(?:As[ \t]\w{3,12}|\{[ \t]{0,2}get;[^{}\n]{0,40}\})[ \t]{1,2}=)\*{0,2}+" + _ASSIGNED,
    ),
    "table": (
        " \t",
        rf"(?:\t{{1,4}}+|[ ]{{3,40}}+)(?=[^\s|=:>-])(?={WORDLY}{{0,255}}+(?:{SIGN}|{_WRAPPED})"
        r"|(?:[A-Z][\w-]{1,30}[ \t]{0,40}){1,11}\r?\n)",
    ),
    # The head of a table whose cells a sign separates: CSV, or what psql prints.
    "cells": (
        " ,;\t|",
        rf"(?=[ ]{{0,40}}(?P<mark>[,;\t|]){CELL}(?:(?P=mark){CELL}){{0,40}}\r?\n)",
    ),
    "xml": (
        ">",
        r">(?=[^<>]{1,420}</)",
    ),
    "comma": (
        " \t,",
        rf"[ \t]{{0,4}}+,\s{{0,16}}+(?=[bBrRuUfFN@$]?{_MADE_TEXT})",
    ),
    "call": (
        ".(",
        rf"(?:\.(?:type|fill|send_?[kK]eys|set_?[vV]alue|val))?\([ \t]{{0,2}}(?={_MADE_TEXT})",
    ),
    "part": (
        "\n\r\\",
        r"(?<=\")(?:\r?\n|\\r\\n|\\n){2}(?=\S)",
    ),
    "gap": (" \t,", rf"(?=[ \t,])(?={_NEXT})"),
    "option": (" \t", rf"(?=[ \t])(?={_OPTION})"),
    # Only a sentence can tell of something further on.
    "said": (
        " \t",
        rf"(?=[ \t])(?![ \t]{{1,16}}=)(?={_PROSAIC}{{0,255}}+{SIGN})",
    ),
    "head": (
        " \n\r",
        r"(?=[ ]{0,40}\r?\n\S)",
    ),
}


class Tied(NamedTuple):
    """A name from its stem on, and what ties a value to it."""

    #: Where the name ends, what closes it (quotes, brackets), and where that ends.
    end: int
    closers: str
    closed: int
    #: One of the keys of the table above, and all that ties: behind it stands the value.
    kind: str
    tie: re.Match[str]


# Behind most names of a program stands one of these, and ties nothing: so much of how it begins is asked
# with the name itself.
_RARE = {".": r"\.(?=[tfsv])", "(": r"""\((?=[ \t"'`\\])"""}


# Of what may stand behind one blank and a word in small letters there is only this.
_PROSE = ("gap", "option", "said")
_BEFORE_WORD = "(?! [a-bd-uw-z])"


def _any_of(ties: dict[str, str]) -> str:
    """Any of ``ties``, in order."""
    groups = {kind: f"(?P<{kind}>{tie})" for kind, tie in ties.items()}
    others = "|".join(group for kind, group in groups.items() if kind not in _PROSE)
    prose = [group for kind, group in groups.items() if kind in _PROSE]
    return "|".join((f"{_BEFORE_WORD}(?:{others})", *prose)) if prose else others


class _Ties(dict[str, Callable[[str, int], "re.Match[str] | None"]]):
    """What ties a value, by the sign it begins with.

    Each is compiled when a text first has such a sign behind a name: together they take longer than all other
    expressions of a worker's start, and most texts of a short session have one or two of them.
    """

    def __missing__(self, sign: str) -> Callable[[str, int], re.Match[str] | None]:
        match = re.compile(
            _any_of({kind: tie for kind, (first, tie) in _TIES.items() if sign in first})
        ).match
        return self.setdefault(sign, match)


def _named() -> Callable[[str, int], re.Match[str] | None]:
    """Matches a name from its stem on, with what closes it, where a sign follows that may tie something."""
    words = load("secrets@1")["names"]["tail"]
    tail = tree({form for word in words for form in (word, word.capitalize(), word.upper())}, longest=True)
    more = rf"(?>(?=[_.\-A-Z0-9])(?:[_.-]{{0,2}}(?:{tail}(?![a-z])|[0-9]{{1,4}})){{0,3}}|)_?+"
    firsts = dict.fromkeys("".join(first for first, _ in _TIES.values()))
    common = "".join(re.escape(sign) for sign in firsts if sign not in _RARE)
    follows = "|".join((f"[{common}]", *_RARE.values()))
    return re.compile(
        rf"(?P<rest>{_REST}{more})(?: [0-9]{{1,2}}(?=:)|)(?P<closers>{_CLOSERS})(?={follows})"
    ).match


@cache
def finder() -> Callable[[str, int], Tied | None]:
    """Tells what the name with a stem at a place of a text is tied to its value by; None for most."""
    named: Callable[[str, int], re.Match[str] | None] | None = None
    ties = _Ties()

    def tied(text: str, at: int) -> Tied | None:
        nonlocal named
        if named is None:
            named = _named()
        name = named(text, at)
        if name is None:
            return None
        closed = name.end()
        tie = ties[text[closed]](text, closed)
        if tie is None:
            return None
        return Tied(name.end("rest"), name["closers"], closed, tie.lastgroup or "", tie)

    return tied
