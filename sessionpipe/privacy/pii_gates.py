"""Which kinds of what names a person a text may have, asked before the rules of ``pii@1``: most have none. Pure.

A text is scanned as ASCII, a ``?`` for any other character. The gate of a kind asks for what its rules ask
for at least, as far as that is compiled and scanned fast; a changed rule may need another gate. Without
hyperscan every gate is open (see :mod:`.prefilter`).

Measured on 21 MB of synthetic sessions: a gate takes 13 to 45 ms, and 1 to 10 to compile; looking at every run
of digits took 900. Tried and not kept: one expression for all numbers (no faster, 100 ms to compile), one for
those that begin with `0` or `8` (70 ms to compile), the cues' whole words (no faster, twice as long to compile).
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from sessionpipe.privacy import prefilter
from sessionpipe.privacy.sought import Occurring

#: A table of ``pii@1``.
Kind = Literal["home", "email", "phone"]

_HOME = r"(?:home|[Uu]sers|USERS|Settings)[/\\%]|[/\\-]-(?:home|Users)-"
_EMAIL = r"""[A-Za-z0-9_+"'.?-](?:@|%40|%2540|&#64;|\?)[A-Za-z0-9?][A-Za-z0-9_.?-]*\.[A-Za-z?]{2}"""
# Seven digits that stand in groups, which every number has.
_GROUPS = r"(?:[0-9][ ./()?-]{0,3}){7}"


def _number(pattern: str) -> str:
    """An expression in which ``D`` is a digit, though perhaps no ASCII, and ``S`` a sign between groups."""
    return pattern.replace("D", "[0-9?]").replace("S", "[ .?-]")


# What a number begins behind: nothing of a word or of another number, but an escape's or a colour's end.
_BEGINS = r"(?:^|[^0-9A-Za-z_+/.#$-]|[\\ux%][0-9A-Za-z]{1,4}|m)"
_BY_SIGN = _number(
    r"(?:\+|%2[Bb])[1-9][ .()0-9?-]{7}|\([0-9]D{1,5}\)S?D"
    r"|[2-9]DD[.-][2-9]DD[.-]DDDD|1[3-9]D[ -]DDDD[ -]DDDD"
)
_BY_ZERO = _BEGINS + _number(
    r"(?:0[1-9](?:D{0,4}[ ?/-]{1,3}DD[ .?-]?D|\.DD\.DD\.DD)|00[1-9]D{0,2}[ .()?-]{1,5}D)"
)
_BY_EIGHT = r"(?:^|[^0-9+/.#$_-]|[ux%][0-9A-Fa-f]{1,3}[0-9])" + _number(r"8S?\(?[3489]DD\)?S?DDDS?DDS?DD")
# How the words begin that announce a number; without case, some letters beyond ASCII are an `i` or an `s`.
_CUES = (
    "tel|t[?]l|pho(?:ne-)?|mob|m[o?]v|cel|hand|fax|g[s?]m|tlf|puh|nat|wha|[s?][i?]g|[s?]m[s?]|call|r[i?]n|d[i?]al"
    "|appe|lla|ch[i?]a|bel|l[i?]g|ruf|cont|numb|nr"
)
_ANNOUNCED = rf"(?i:(?:(?:^|[^0-9A-Za-z_])(?:{_CUES})|\?\?)[0-9A-Za-z_?.:='\" \t(]*)" + _number(
    r"\(?[0-9]D{0,5}\)?(?: ?/ ?|S)DD"
)

#: The gates of each kind: one that is open is enough.
_KINDS: dict[Kind, tuple[str, ...]] = {
    "home": (_HOME,),
    "email": (_EMAIL,),
    "phone": (_BY_SIGN, _BY_ZERO, _BY_EIGHT, _ANNOUNCED),
}
_ANYTHING = f"{_HOME}|{_EMAIL}|{_GROUPS}"
# A shorter text is looked at as fast as all the gates are asked.
_SHORT = 96


@cache
def _gate(expression: str) -> Occurring:
    return prefilter.gate(expression)


def may_have(text: str) -> list[Kind]:
    """The kinds of which ``text``, or a part of it, may have something."""
    if text.isidentifier():  # Most keys and ids: without a sign nothing names a person.
        return []
    piece = text.encode("ascii", "replace")
    if not _gate(_ANYTHING)(piece):
        return []
    if len(piece) < _SHORT:
        return list(_KINDS)
    return [kind for kind, gates in _KINDS.items() if any(_gate(one)(piece) for one in gates)]
