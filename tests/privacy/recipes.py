"""Credentials made when a test runs: the repository holds none, not even a false one."""

from __future__ import annotations

import re

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
ALPHABETS = {
    "hex": "0123456789abcdef",
    "uphex": "0123456789ABCDEF",
    "up": "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "low": "abcdefghijklmnopqrstuvwxyz0123456789",
    "num": "0123456789",
    "b32": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "b58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "bech": "qpzry9x8gf2tvdw0s3jn54khce6mua7l",
}
_PART = re.compile(r"<(\d+)(?::(\w+))?>")


def generated(length: int, alphabet: str = ALPHABET) -> str:
    """``length`` characters that look generated and are always the same."""
    return "".join(alphabet[(index * 7 + 3) % len(alphabet)] for index in range(length))


def expand(example: str) -> str:
    """A ruleset's example with its ``<36:hex>`` parts made (rulesets/README.md)."""
    return _PART.sub(lambda part: _made(int(part[1]), part[2]), example)


def parts(example: str) -> list[str]:
    """What :func:`expand` makes of the parts of ``example``."""
    return [_made(int(part[1]), part[2]) for part in _PART.finditer(example)]


def _made(length: int, name: str | None) -> str:
    if name == "uuid":
        digits = generated(32, ALPHABETS["hex"])
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return generated(length, ALPHABETS[name] if name else ALPHABET)
