"""What a value looks like: a placeholder, a word, or something that was generated. Pure.

The judgements behind the rules of ``secrets@1`` that go by a name or a sentence, where the value
alone has no shape to be known by. The word lists are in ``rulesets/secrets@1.toml``.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from sessionpipe.privacy.names import Kind, kind
from sessionpipe.privacy.rules import load

MARK = "[redacted]"

_KEBAB = re.compile("[A-Za-z]+(?:-[A-Za-z]+)*")
_LOWER = re.compile("[a-z]")
_UPPER = re.compile("[A-Z]")
_DIGIT = re.compile("[0-9]")
_OTHER = re.compile(r"[^A-Za-z0-9_\s]")
_PIECES = re.compile(r"[-_./:\\ ]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DIGEST = re.compile(r"(?:sha\d{1,3}[:-])?(?:[0-9a-f]{40}|[0-9A-F]{40}|[0-9a-f]{64}|[0-9a-f]{7,12})")
_EXTENSIONS = (
    "pem|key|crt|cer|der|p12|pfx|jks|pub|asc|gpg|json|ya?ml|toml|txt|env|cfg|conf|ini|xml|csv|sql|lock|log|md|sh|html|css"
    "|py|js|ts|tsx|jsx|go|rs|rb|java|kt|c|h|cpp|php"
)
_FILE = re.compile(rf"[\w.-]{{1,200}}\.(?:{_EXTENSIONS})")
_STEPS = re.compile(r"[/\\._@~+: -]+")
_STEP = re.compile(r"[^\W\d]*[0-9]{0,6}")
#: A name, a member path, a call's or an index's beginning: what stands unquoted in a program.
_CODE = re.compile(r"[&*!]?[A-Za-z_$][\w$]*(?:(?:\?\.|\.|->|::)[A-Za-z_$#][\w$]*)*")


@cache
def _words() -> frozenset[str]:
    return frozenset(load("secrets@1")["values"]["placeholder_words"])


@cache
def _alternatives(table: str) -> re.Pattern[str]:
    return re.compile("|".join(load("secrets@1")["values"][table]))


@cache
def _prose() -> frozenset[str]:
    return frozenset(load("secrets@1")["values"]["prose_words"])


# A word of a translation: what a field is called.
_LABEL = re.compile(r"[^\W\d_]+(?:[-' ][^\W\d_]+){0,3}")
# As manuals write what they cannot show.
_SHOWN = re.compile(r"EXAMPLE(?:KEY|TOKEN)?$|X{6}|x{6}")


@lru_cache(maxsize=2048)
def is_placeholder(value: str) -> bool:
    """Whether ``value`` stands for a secret without being one: ``<your-key>``, ``${VAR}``, ``***``, a type."""
    low = value.lower()
    if low in _words() or _SHOWN.search(value) or (not value.isascii() and _LABEL.fullmatch(value)):
        return True
    return len(low) <= 420 and _alternatives("placeholder_patterns").fullmatch(low) is not None


@lru_cache(maxsize=2048)
def is_stand_in(value: str) -> bool:
    """Whether ``value`` stands for a password even as the value of a member that is called one.

    There the name decides: ``admin`` and ``x`` are passwords that somebody has. Only references, masks
    and the names of types are none.
    """
    low = value.lower()
    if low in load("secrets@1")["values"]["stand_in_words"]:
        return True
    mask = not low.strip("x") and len(low) < 3
    return not mask and low not in _words() and is_placeholder(value)


_MADE_UP = re.compile(
    r"x{6}|X{6}|\*{3}|\.{3}|…|EXAMPLE(?:KEY)?$"
    r"|(?i:(?<![a-z0-9])(?:your|example|placeholder|insert|replace|dummy|fake|sample|changeme|redacted)(?![a-z0-9]))"
    r"|^[A-Za-z0-9]{2,12}(?>(?:[-_.](?:[a-z]{1,14}|[A-Z]{1,14})){2,12})$"
)


def is_made_up(token: str) -> bool:
    """Whether ``token``, of a vendor's shape, is one as a manual writes it: ``xoxb-your-token``, ``ghp_xxxxxxxx``."""
    return len(set(token[-12:])) <= 2 or _MADE_UP.search(token) is not None


def is_opaque(value: str) -> bool:
    """Whether ``value`` is more than a word: it has a digit, a sign, or changes case inside."""
    return (
        _DIGIT.search(value) is not None
        or _OTHER.search(value.strip("-_.")) is not None
        or (value[1:] != value[1:].lower() and value != value.upper())
        or len(value) >= 24
    )


def is_credential(value: str) -> bool:
    """Whether ``value`` is more than a word, and no members of a program's object."""
    if is_generated(value):
        return True
    return is_opaque(value) and not (is_code(value) and "." in value) and not _KEBAB.fullmatch(value)


@lru_cache(maxsize=2048)
def is_generated(value: str) -> bool:
    """Whether ``value`` looks generated: letters with digits, or three classes of characters.

    Not a version, a date, an algorithm, a path, or words and numbers joined by signs.
    """
    if len(value) < 5:
        return False
    letters = _LOWER.search(value) is not None, _UPPER.search(value) is not None
    digit = _DIGIT.search(value) is not None
    if not (any(letters) and digit) and sum((*letters, digit, _OTHER.search(value) is not None)) < 3:
        return False
    if is_technical(value) or _UUID.fullmatch(value):
        return False
    pieces = [piece for piece in _PIECES.split(value) if piece]
    if pieces != [value] and all(map(_is_word, pieces)):
        return False
    return not (is_path(value) and not is_random(value))


def _is_word(piece: str) -> bool:
    return piece.isdigit() or piece.isalpha() or is_technical(piece)


def is_technical(value: str) -> bool:
    """Whether ``value`` is a number, a version, a date, an algorithm: digits, and nobody's secret."""
    return len(value) <= 48 and _alternatives("technical").fullmatch(value.lower()) is not None


def is_random(value: str) -> bool:
    """Whether ``value`` has a long run in which small and capital letters and digits are mixed, and no words.

    Or one of small letters and digits that is longer still, or of hexadecimal digits alone.
    """
    return any(
        len(piece) >= 16
        and _LOWER.search(piece)
        and _UPPER.search(piece)
        and _DIGIT.search(piece)
        and 3 * sum(map(len, _SPELT.findall(piece))) < 2 * len(piece)
        for piece in re.split(r"[^A-Za-z0-9+]", value)
    ) or bool(_LONG.search(value) or re.fullmatch(r"(?=[^0-9]*[0-9])(?=[^a-f]*[a-f])[0-9a-f]{32,}", value))


def is_spelt(value: str) -> bool:
    """Whether ``value`` is words, joined by signs or by their capitals: the name of something in a program."""
    if _DIGIT.search(value):
        return False
    for piece in _PIECES.split(value):
        words = _SPELT.findall(piece)
        if len(piece) > 3 and 4 * sum(map(len, words)) < 3 * len(piece):
            return False
        if any(len(word) > 16 for word in words):
            return False
    return True


def is_jumbled(value: str) -> bool:
    """Whether ``value`` is many letters, small and capital, that make no words."""
    return (
        len(value) >= 16
        and value.isascii()
        and value.isalpha()
        and not value.isupper()
        and value[1:] != value[1:].lower()
        and 3 * sum(map(len, _SYLLABLES.findall(value))) < 2 * len(value)
    )


_SYLLABLES = re.compile("[A-Z][a-z]{2,}|[a-z]{3,}")


_LONG = re.compile(
    r"(?<![A-Za-z0-9])(?=(?:[0-9a-f]{0,40}+[g-z]){4})(?=(?:[a-z]{0,16}+[0-9]{1,6}+){4})[a-z0-9]{40,}+(?![A-Za-z0-9])"
)


# Words of a name written as one, `getUserById2`: what was generated is not made of such.
_SPELT = re.compile("[A-Z]?[a-z]{3,}")


def is_base64(value: str) -> bool:
    """Whether ``value`` can be something encoded, and no word."""
    return len(value) % 4 == 0 and (value.endswith("=") or is_opaque(value)) and not is_technical(value)


def is_said(value: str) -> bool:
    """Whether what a sentence in any language says of a password is one: it looks generated or chosen."""
    bare = value.rstrip(".,;:!?)\"'`*")
    looks = is_generated(bare) or is_chosen(bare) or is_jumbled(bare)
    return looks and not is_digest(bare) and not is_placeholder(bare)


_CHOSEN = re.compile(
    r"(?!(?i:sha|md|base|utf|argon|oauth|bcrypt|scrypt|pbkdf|hmac|aes|rsa|ed|version|http|step|type|tls|ipv|rfc|part|phase)-?[0-9])"
    r"(?:(?:[A-Za-z]{3,16}[^A-Za-z0-9\s(){}\[\]<>\"'`,;:/\\|]{1,2}){1,4}[0-9]{2,6}[^A-Za-z0-9\s(){}\[\]<>\"'`\\|]{0,3}"
    r"|[A-Za-z]{3,16}[0-9]{2,6}[^A-Za-z0-9\s(){}\[\]<>\"'`\\|]{0,3})"
)


def is_chosen(value: str) -> bool:
    """Whether ``value``, said to be a password, is one as people choose them: ``Falcon-42!``, ``blue.tiger.77``."""
    return _CHOSEN.fullmatch(value) is not None


def is_uuid(value: str) -> bool:
    """Whether ``value`` is a UUID."""
    return _UUID.fullmatch(value) is not None


def is_digest(value: str) -> bool:
    """Whether ``value`` is a UUID, or a commit or digest in hexadecimal."""
    return _UUID.fullmatch(value) is not None or _DIGEST.fullmatch(value) is not None


def is_path(value: str) -> bool:
    """Whether ``value`` is the path or the name of a file: words, at most with a number behind each."""
    if "/" not in value and "\\" not in value:
        return _FILE.fullmatch(value) is not None
    return len(value) <= 1024 and all(map(_STEP.fullmatch, _STEPS.split(value)))


def is_code(value: str) -> bool:
    """Whether ``value`` can be an expression of a program: a name, or names joined as members."""
    return _CODE.fullmatch(value) is not None


def is_prose(value: str) -> bool:
    """Whether ``value`` is a sentence or a label about a secret."""
    words = value.split()
    return len(words) > 1 and any(word.strip(".,:;!?()'\"").lower() in _prose() for word in words)


_TEMPLATE = re.compile(r"\$?\{[^{}]{0,80}\}|%\(?\w{0,20}\)?[sdr]|\$[A-Za-z_]\w{1,60}")
_NAMES = re.compile(r"[A-Za-z]{1,20}(?:[_-][A-Za-z]{1,20}[0-9]?){1,6}")


def may_go(content: str, found: Kind) -> bool:
    """Whether ``content``, in quotes or in a cell of its own under a name of this kind, is a secret."""
    if is_placeholder(content) or is_prose(content):
        return False
    if _NAMES.fullmatch(content) and (content.isupper() or kind(content)):
        return False  # The name of a variable, of a header.
    if content[0].isupper() and content.isalpha() and kind(content):
        return False  # A label.
    if is_path(content) and not is_random(content):
        return False
    if (inner := _TEMPLATE.sub("", content)) != content and not is_generated(inner):
        return False
    if found == "password":
        return True
    if " " in content:
        return False
    if found == "token":
        return is_opaque(content) and not is_technical(content)
    generated = is_generated(content) and not is_digest(content)
    return len(content) >= 16 and (generated or is_jumbled(content))
