"""``pii@1``: what names a person, reduced where a sink asks for it, at delivery (protocol §5).

The rules are data in ``rulesets/pii@1.toml``. Pure: the home directory is the caller's to say.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache, lru_cache
from typing import NamedTuple

from sessionpipe.privacy.rules import load

RULESET = "pii@1"

_ROUNDS = 4


class _Rule(NamedTuple):
    keywords: tuple[str, ...]
    pattern: re.Pattern[str]
    replacement: str
    #: How few and how many digits a match has, where a pattern alone cannot say.
    digits: tuple[int, int] | None


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(
        _Rule(
            tuple(row["keywords"]),
            re.compile(row["pattern"]),
            row["replacement"],
            tuple(row["digits"]) if "digits" in row else None,
        )
        for row in load(RULESET)["rule"]
    )


@lru_cache(maxsize=8)
def _home(home: str) -> re.Pattern[str] | None:
    """``home`` wherever it stands as a whole folder, its backslashes escaped or not."""
    folder = home.rstrip("/\\")
    if len(folder) < 2:
        return None
    pattern = re.escape(folder).replace(r"\\", r"(?:\\|/){1,8}")
    return re.compile(rf"{pattern}(?![\w-]|\.\w)")


def reduce(text: str, home: str | None = None) -> str:
    """``text`` with e-mail addresses, phone numbers and home directories reduced.

    ``home`` is one more folder to write ``~``, for a home that lies where homes usually do not.
    The same object comes back when nothing changed; a second time changes nothing.
    """
    # What stood against a number or a name may have kept it from being seen; hardly ever, and then once.
    for _ in range(_ROUNDS):
        if (reduced := _reduced(text, home)) == text:
            return text
        text = reduced
    return text


def _reduced(text: str, home: str | None) -> str:
    if home and (own := _home(home)):
        text = own.sub("~", text)
    for rule in _rules():
        if any(word in text for word in rule.keywords):
            text = _apply(rule, text)
    return text


def _apply(rule: _Rule, text: str) -> str:
    if rule.digits is None:
        return rule.pattern.sub(rule.replacement, text)
    low, high = rule.digits

    def replace(match: re.Match[str]) -> str:
        return rule.replacement if low <= sum(map(str.isdigit, match[0])) <= high else match[0]

    return rule.pattern.sub(replace, text)


def machine(name: str) -> str:
    """What stands for a machine's name: the first 8 hex digits of its SHA-256."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
