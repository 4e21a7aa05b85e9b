"""Credentials with a shape of their own: vendors' tokens, headers, cookies, URLs, commands. Pure.

The rows of ``rulesets/secrets@1.toml`` as rules that look at one place each: where one of their words
stands. :func:`words` says which words those are, for :mod:`.prefilter`; what a text has none of costs
nothing, however many rows there are. A rule looks a bounded way around its place, and says how far it
has looked, so that time is linear in the text whatever stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from sessionpipe.privacy import pem, sql, urls, values
from sessionpipe.privacy.rules import load
from sessionpipe.privacy.sought import TOKEN, Run, Step, Word

Span = tuple[int, int]
#: Looks at a text where a rule's word stands: the secrets found, and the place up to which the
#: rule's word need not be looked at again.
Look = Callable[[str, int], tuple[Sequence[Span], int]]

# What belongs to a shape but stands before the word it is found by.
_BEFORE = 160
# A command with its options, over lines that end in a backslash.
_COMMAND = re.compile(r"(?>(?:[^\n\\|;&]|\\[\s\S]|&(?!&)){0,2000})")
# An object's members beside the one that tells what it is.
_BESIDE = 2048


class Rule(NamedTuple):
    """One shape."""

    id: str
    look: Look
    #: How far before its word it reaches; -1 when it looks at what belongs together and no further.
    back: int = -1


def edge() -> str:
    """An expression for where a word begins: behind no letter or digit, or behind an escape (``\\n``, ``%20``)."""
    escapes = (r"\\[nrtbfv]", r"%[0-9A-Fa-f]{2}", r"\\u[0-9A-Fa-f]{4}", r"\\x[0-9A-Fa-f]{2}")
    behind = "|".join(f"(?<={escape})" for escape in escapes)
    return rf"(?:(?<![A-Za-z0-9])(?!(?<=\\)[nrtbfv])|{behind})"


def _always(_: str) -> bool:
    return True


#: What a command's option is given, in quotes or not: no variable, no redirection, no other option.
_VALUE = r"""\\{0,4}["']?(?P<v>[^\s"'\\$<>|\[-][^\s"'\\]{2,}+)"""

#: What a rule may ask of its value besides its shape.
_LOOKS: dict[str, Callable[[str], bool]] = {
    "any": _always,
    "digits": lambda token: any(map(str.isdigit, token)),
    "opaque": values.is_opaque,
    "credential": values.is_credential,
    "generated": values.is_generated,
    "random": values.is_random,
    "base64": values.is_base64,
    "said": values.is_said,
}


# The characters of what stands before a token and belongs to it.
_ONE_WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/*[]~+%|"


def _row(row: dict[str, Any]) -> Look:
    """How a row of the ruleset looks at a place."""
    fits = _LOOKS[row.get("look", "any")]
    if "starts" in row:
        starts = "|".join(map(re.escape, sorted(row["starts"], key=len, reverse=True)))
        start = "" if "before" in row else edge()
        pattern = f"{start}(?:{starts}){row['body']}"
    else:
        pattern = row["pattern"].replace("{edge}", edge()).replace("{value}", _VALUE)
    before = row["before"].replace("{edge}", edge()) if "before" in row else None
    within = row.get("within", "")
    compiled: list[re.Pattern[str]] = []

    # A word goes back no further than its characters do.
    one_word = row.get("before", "").startswith("{edge}") and "[^" not in row["before"]

    def look(text: str, at: int) -> tuple[Sequence[Span], int]:
        if not compiled:
            # Most rules are never asked: compiled when first needed.
            compiled.extend(re.compile(part) for part in (pattern, rf"(?:{before})\Z") if part)
        if within:
            start, end = _REGIONS[within](text, at)
            found: list[Span] = []
            for option in compiled[0].finditer(text, start, end):
                _take(text, option, fits, found)
            return found, end
        match = compiled[0].match(text, at)
        if match is None:
            return (), at
        first = at
        found = []
        if before is not None:
            # What stands further back cannot matter, nor what another word is.
            start = max(0, at - _BEFORE)
            if one_word:
                start = at - len(text[start:at]) + len(text[start:at].rstrip(_ONE_WORD))
            head = compiled[1].search(text, start, at)
            if head is None:
                return found, at
            first = head.start()
            _take(text, head, fits, found)
            if head.re.groupindex and not match.re.groupindex:
                return found, at
        _take(text, match, fits, found, first)
        return found, at

    return look


def _take(
    text: str,
    match: re.Match[str],
    fits: Callable[[str], bool],
    found: list[Span],
    first: int | None = None,
) -> None:
    """Add the values of ``match`` to ``found``: its groups, or from ``first`` to its end when it has none."""
    groups = match.re.groupindex
    if "pairs" in groups:
        found += _cookies(text, *match.span("pairs"))
        return
    if not groups:
        if first is None:
            return
        spans = [(first, match.end())]
    else:
        spans = [match.span(name) for name in groups]
    for start, end in spans:
        if start < 0:
            continue
        value = text[start:end]
        if not fits(value) or text.startswith(values.MARK, end):
            continue
        if not (values.is_placeholder(value.rstrip(".,;:!?)")) if groups else values.is_made_up(value)):
            found.append((start, end))


def _command(text: str, at: int) -> Span:
    # A line that a diff takes out begins with a dash.
    if (
        at
        and (text[at - 1].isalnum() or text[at - 1] in "_-.")
        and text[max(0, at - 2) : at] not in ("\n-", "-")
    ):
        return at, at
    command = _COMMAND.match(text, at)
    return at, command.end() if command else at


def _line(text: str, at: int) -> Span:
    end = text.find("\n", at, at + _BESIDE)
    return at, end if end >= 0 else min(len(text), at + _BESIDE)


def _after(text: str, at: int) -> Span:
    return at, at + _BESIDE // 2


def _beside(text: str, at: int) -> Span:
    return max(0, at - _BESIDE), at + _BESIDE


#: Where, around its word, a rule with ``within`` looks.
_REGIONS: dict[str, Callable[[str, int], Span]] = {
    "command": _command,
    "line": _line,
    "after": _after,
    "beside": _beside,
}


_ATTRIBUTES = frozenset(
    ("path", "domain", "expires", "max-age", "samesite", "priority", "version", "comment")
)
_PAIR = re.compile(r"([^=;\s]{1,64})=([^;]*+)")


def _cookies(text: str, start: int, end: int) -> Iterator[Span]:
    for pair in _PAIR.finditer(text, start, end):
        if pair[1].lower() not in _ATTRIBUTES and not values.is_placeholder(pair[2]):
            yield pair.span(2)


_BACK = {"command": 0, "line": 0, "after": 0, "beside": _BESIDE}
_FINDERS: dict[str, tuple[Look, int]] = {
    "userinfo": (urls.userinfo, 0),
    "pem": (pem.private_key, 0),
    "insert": (sql.inserted, 0),
}

# What the start of a token consists of; see Word.
_RUN = re.compile(f"[{TOKEN}]*")
#: Keywords that every text has. A rule of theirs is asked where its sign stands in one of these runs, each the
#: least that some rules ask for (a test tries their examples). What is rare in texts is looked for fastest.
SIGNS = frozenset(".:_-")
RUNS = (
    Step(
        "[A-Za-z0-9_-]{24}",
        (Run("[sbrt]", ".", ("A-Za-z0-9", 24)), Run("[0t]", ".", ("0-9a-f-", 24))),
    ),
    Step(
        "",
        (
            Run("[0-9a-f]{8}", ":", ("A-Za-z0-9_-", 32)),
            Run(r"\.[A-Za-z0-9_-]{6,7}", ".:", ("A-Za-z0-9_-", 27)),
        ),
    ),
    Step("[A-Za-z0-9]{28}", (Run("[a-z]", "._-", ("A-Za-z0-9", 28)),)),
    Step(
        "[0-9a-f]{32}",
        (Run("[0-9a-f]{32}", ".-", ("0-9A-Za-z", 8)), Run("[A-Za-z0-9_-]", ".", ("0-9a-f", 48))),
    ),
)


class Tables(NamedTuple):
    """The rules by the words that call for them."""

    words: list[Word]
    rules: list[tuple[Rule, ...]]
    #: The rules of each sign that every text has, which are asked where it stands beside a long run, and
    #: one expression that tells whether any of them may find something there.
    signs: dict[str, tuple[re.Pattern[str], tuple[Rule, ...]]]
    #: The words that are not ASCII, which only a text that is not has.
    foreign: list[tuple[str, tuple[Rule, ...]]]


@cache
def tables() -> Tables:
    """The rules of ``secrets@1``."""
    by_word: dict[Word, list[Rule]] = {}
    by_sign: dict[str, list[Rule]] = {}
    patterns: dict[str, list[str]] = {}
    foreign: dict[str, list[Rule]] = {}
    rows = load("secrets@1")
    for row in (*rows["vendor"], *rows["rule"]):
        look, back = _FINDERS[row["find"]] if "find" in row else (_row(row), _BACK.get(row.get("within"), -1))
        rule = Rule(row["id"], look, back)
        for start in row.get("starts", ()):
            plain = "before" in row or row.get("anywhere") or not _RUN.fullmatch(start)
            by_word.setdefault(Word(start.lower()) if plain else Word(start, True), []).append(rule)
        for keyword in row.get("keywords", ()):
            if keyword in SIGNS:
                by_sign.setdefault(keyword, []).append(rule)
                patterns.setdefault(keyword, []).append(row["pattern"])
            elif keyword.isascii():
                by_word.setdefault(Word(keyword), []).append(rule)
            else:
                foreign.setdefault(keyword, []).append(rule)
    return Tables(
        list(by_word),
        [tuple(rules) for rules in by_word.values()],
        {sign: (re.compile("|".join(patterns[sign])), tuple(rules)) for sign, rules in by_sign.items()},
        [(word, tuple(rules)) for word, rules in foreign.items()],
    )
