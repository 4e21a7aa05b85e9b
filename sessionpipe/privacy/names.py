"""What a name says about its value: whether ``DB_PASSWORD``, ``maxTokens`` or ``cache-key`` holds a secret. Pure."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Literal

from sessionpipe.privacy.rules import load

#: How sure a name is: a ``password`` is a secret whatever it looks like, a ``token`` when it could
#: not be a word of a program, a ``key`` when it looks generated.
Kind = Literal["password", "token", "key"]

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@cache
def _list(name: str) -> frozenset[str]:
    return frozenset(load("secrets@1")["names"][name])


@cache
def _fused() -> tuple[str, ...]:
    return tuple(load("secrets@1")["names"]["fused"])


@lru_cache(maxsize=4096)
def kind(name: str) -> Kind | None:
    """The kind of secret that ``name`` names, or None.

    The name is read as words (``apiKey``, ``API_KEY`` and ``api-key`` are the same two); its last
    word says what it holds, those before it which one.
    """
    if len(name) > 128 or name in ("PWD", "OLDPWD"):
        return None  # A shell's PWD is a folder.
    words = [word.lower() for word in _WORD.findall(name)]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _list("tail")):
        words.pop()
    if not words:
        return None
    *before, last = words
    if before and before[-1] in load("secrets@1")["names"]["behind"].get(last, ()):
        return "token"
    if last in _list("password"):
        return "password"
    if last == "pass":
        return ("password" if before[-1] in _list("pass_of") else "token") if before else None
    if last in _list("token"):
        if before[-2:] == ["public", "key"]:
            return None  # Names who signed an assembly.
        return None if before and before[-1] in _list("token_not") else "token"
    if last == "key":
        return _key(before)
    if last.endswith(_fused()):
        return (
            None
            if last == "oldpwd"
            else "password"
            if last.endswith(("password", "passwd", "passphrase", "secret", "pwd"))
            else "token"
        )
    if last.endswith(("pass", "pw")) and last != "sshpass":  # A command's name.
        return "password" if last.removesuffix("pass").removesuffix("pw") in _list("pass_of") else None
    if last in ("auth", "cookie", "cookies"):
        return "key"
    if last in ("keys", "tokens", "secrets", "passwords"):
        which = before[-1] if before else "any" if last == "keys" else ""
        return None if which in _list("token_not") | _list("key_not") else "key"
    if last.endswith("token"):
        return "token"
    return None


def _key(before: list[str]) -> Kind | None:
    if not before or before[-1] in _list("key_not"):
        return None
    return "token" if before[-1] in _list("key_of") else "key"


@cache
def _told() -> re.Pattern[str]:
    return re.compile(load("secrets@1")["names"]["told"])


@lru_cache(maxsize=4096)
def told(name: str) -> bool:
    """Whether what stands under ``name`` is a secret when it looks like one: a PIN's digits, a seed's words."""
    return len(name) <= 64 and _told().search(name) is not None
