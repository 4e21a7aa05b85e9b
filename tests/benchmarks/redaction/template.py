"""Texts written at run time from templates, so that no file here holds a credential.

A template is plain text with

- ``‹36›`` or ``‹20-40›`` letters and digits, ``‹36:hex›`` of another alphabet (``ALPHABETS``),
- ``‹uuid›``, ``‹jwt›``, ``‹human›`` … what ``MAKERS`` makes (``‹pem:RSA PRIVATE KEY:12›`` takes arguments),
- ``‹$NAME›`` the template given under that name, written in its place,
- ``‹json›…‹/json›`` a part encoded as ``REGIONS`` says; regions nest,
- ``⟦…⟧`` a part that must still be there afterwards.

``‹!…›`` marks what is made as a secret. Inside ``‹$secret›`` everything made is one, except ``‹~…›``.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
import textwrap
import tomllib
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "b32": string.ascii_uppercase + "234567",
    "b58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "b64": string.ascii_letters + string.digits + "+/",
    "b64u": string.ascii_letters + string.digits + "-_",
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "crock": "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
    "digit": string.digits,
    "django": "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)",
    "hex": string.digits + "abcdef",
    "HEX": string.digits + "ABCDEF",
    "low": string.ascii_lowercase + string.digits,
    "lower": string.ascii_lowercase,
    "nz": "123456789",
    "28": "23456789",
    "up": string.ascii_uppercase + string.digits,
    "upper": string.ascii_uppercase,
    "word": string.ascii_letters + string.digits + "_",
}


_TABLE = tomllib.loads((Path(__file__).parent / "words.toml").read_text("utf-8"))
WORDS: list[str] = _TABLE["nouns"].split()
VERBS, PEOPLE, MNEMONIC = (_TABLE[name].split() for name in ("verbs", "people", "mnemonic"))
PARTS, SUSPICIOUS, EXTENSIONS = (_TABLE[name].split() for name in ("parts", "suspicious", "extensions"))


class Role(Enum):
    """What a redactor must do with a piece."""

    PLAIN = 0
    KEPT = 1
    GONE = 2


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text with one role; pieces of one ``group`` are one made secret or one kept part."""

    text: str
    role: Role = Role.PLAIN
    group: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """A text, the parts of secrets that must go from it and the parts that must stay."""

    text: str
    gone: tuple[str, ...]
    kept: tuple[str, ...]


Made = list[tuple[str, bool]]


def seeded(*names: object) -> random.Random:
    """A generator that is the same whenever it is made from the same names."""
    return random.Random(":".join(map(str, names)))


def run(rng: random.Random, alphabet: str, length: int) -> str:
    return "".join(rng.choices(ALPHABETS[alphabet], k=length))


def _b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def _b64u(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _uuid(rng: random.Random, version: str = "4") -> str:
    digits = run(rng, "hex", 32)
    start = digits[:8] + "-" + digits[8:12]
    if version == "7":
        start = f"0{rng.randrange(0x19000000000, 0x1A000000000):x}"
        start = start[:8] + "-" + start[8:12]
    return f"{start}-{version}{digits[13:16]}-{rng.choice('89ab')}{digits[17:20]}-{digits[20:]}"


def _mixed(rng: random.Random, alphabet: str, length: int) -> str:
    """Generated characters with at least one digit and both cases, as generators promise."""
    while True:
        made = "".join(rng.choices(alphabet, k=length))
        if (
            any(c.isdigit() for c in made)
            and any(c.islower() for c in made)
            and any(c.isupper() for c in made)
            and made[0].isalpha()
            and made[-1].isalnum()
        ):
            return made


def _strong(rng: random.Random) -> str:
    """What a password manager makes, of characters that need no quoting where values stand bare."""
    return _mixed(rng, ALPHABETS["alnum"] * 2 + "!@%^*_+-=.?~", rng.randint(12, 24))


def _odd(rng: random.Random) -> str:
    """What a password manager makes of everything a keyboard has, except quotes and blanks."""
    return _mixed(rng, ALPHABETS["alnum"] + "!#$%&()*+,-./:;<=>?@[]^_{|}~", rng.randint(14, 24))


def _quoted(rng: random.Random) -> str:
    """A password with quotes and a backslash in it, which JSON and code must escape."""
    half = _mixed(rng, ALPHABETS["alnum"] + "#$%&*", rng.randint(6, 9))
    return half + rng.choice(['"', "\\", '\\"']) + _mixed(rng, ALPHABETS["alnum"], rng.randint(6, 9))


def _human(rng: random.Random, signs: str = "!@%*_-.+") -> str:
    """What a person thinks up: a word bent a little, a sign and a number."""
    bent = "".join(
        {"o": "0", "a": "4", "e": "3", "i": "1", "s": "5"}.get(c, c) if rng.random() < 0.4 else c
        for c in rng.choice(WORDS)
    )
    number = rng.choice((rng.randint(10, 99), rng.randint(1960, 2026)))
    return f"{bent.capitalize()}{rng.choice(signs)}{number}{rng.choice(('', '', '!'))}"


def _weak(rng: random.Random) -> str:
    """A word and a digit or two: only its name says what it is."""
    return rng.choice(WORDS) + str(rng.randint(1, 99))


def _passwords(rng: random.Random, count: str = "4", between: str = "-") -> str:
    """A passphrase of words."""
    return between.join(rng.sample(WORDS, int(count)))


def _github(rng: random.Random, length: str) -> str:
    """Random characters and the check digits GitHub and npm put behind them (CRC-32 in base 62)."""
    body = run(rng, "alnum", int(length))
    check, digits = zlib.crc32(body.encode()), ""
    while check:
        check, digit = divmod(check, 62)
        digits = (string.digits + string.ascii_uppercase + string.ascii_lowercase)[digit] + digits
    return body + digits.rjust(6, "0")


def _claims(rng: random.Random) -> str:
    at = rng.randint(1_740_000_000, 1_790_000_000)
    return json.dumps(
        {
            "sub": str(_uuid(rng)),
            "iss": f"https://{rng.choice(WORDS)}.example.com",
            "iat": at,
            "exp": at + 3600,
        },
        separators=(",", ":"),
    )


def _jwt(rng: random.Random, algorithm: str = "HS256") -> Made:
    signature = {"HS256": 43, "RS256": 342, "ES256": 86}[algorithm]
    header = json.dumps({"alg": algorithm, "typ": "JWT"}, separators=(",", ":"))
    return [
        (_b64u(header) + ".", False),
        (_b64u(_claims(rng)), True),
        (".", False),
        (run(rng, "b64u", signature - 1) + rng.choice("AQgw"), True),
    ]


def _encoded(rng: random.Random, sort: str = "strong", user: str = "") -> str:
    """Base64 of a password, or of ``user:password`` as in a Basic header."""
    password = written(f"‹{sort}›", rng).text
    return _b64(f"{user}:{password}" if user else password)


def _pem(rng: random.Random, label: str, lines: str, line: str = "\n", end: str = "yes") -> Made:
    """A PEM block; ``line`` is what separates its lines, ``end`` whether its last line is there."""
    made: Made = [(f"-----BEGIN {label}-----", False)]
    body = [run(rng, "b64", 64) for _ in range(int(lines) - 1)] + [
        run(rng, "b64", rng.randint(20, 60)) + "=="
    ]
    if label.startswith("RSA"):
        body[0] = "MII" + body[0][3:]
    if "OPENSSH" in label:
        body[0] = "b3BlbnNzaC1rZXktdjEAAAAA" + body[0][24:]
    for row in body:
        made += [(line, False), (row, True)]
    if end == "yes":
        made += [(line, False), (f"-----END {label}-----", False)]
    return made


def _pgp(rng: random.Random, lines: str) -> Made:
    made: Made = [("-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n", False)]
    for _ in range(int(lines)):
        made += [("\n", False), (run(rng, "b64", 64), True)]
    return [*made, ("\n=" + run(rng, "b64", 4) + "\n-----END PGP PRIVATE KEY BLOCK-----", False)]


def _rows(rng: random.Random, count: str, alphabet: str = "b64", width: str = "64") -> Made:
    """``count`` lines of ``width`` characters, each a secret of its own."""
    made: Made = []
    for row in range(int(count)):
        made += [("\n" if row else "", False), (run(rng, alphabet, int(width)), True)]
    return made


def _grouped(rng: random.Random, count: str, size: str, alphabet: str = "lower", between: str = " ") -> str:
    return between.join(run(rng, alphabet, int(size)) for _ in range(int(count)))


def _int(rng: random.Random, low: str, high: str) -> str:
    return str(rng.randint(int(low), int(high)))


def _date(rng: random.Random) -> str:
    return f"20{rng.randint(24, 26)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def _time(rng: random.Random) -> str:
    return f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"


def _identifier(rng: random.Random) -> list[str]:
    """Parts of a name in a program, which may sound like a secret's."""
    return rng.sample([*PARTS, *SUSPICIOUS, *SUSPICIOUS, *SUSPICIOUS], rng.choice((1, 2, 2, 3)))


def _camel(words: list[str]) -> str:
    return words[0] + "".join(map(str.capitalize, words[1:]))


MAKERS: dict[str, Callable[..., str | Made]] = {
    "uuid": _uuid,
    "jwt": _jwt,
    "pem": _pem,
    "pgp": _pgp,
    "rows": _rows,
    "grouped": _grouped,
    "strong": _strong,
    "odd": _odd,
    "odd-long": lambda rng: _odd(rng) + _odd(rng) + _odd(rng),
    "strong-url": lambda rng: _mixed(rng, ALPHABETS["alnum"] * 2 + "!*_-.~", rng.randint(12, 24)),
    "human-url": lambda rng: _human(rng, "!*_-."),
    "human-word": lambda rng: _human(rng, "_"),
    "quoted": _quoted,
    "human": _human,
    "human-odd": lambda rng: _human(rng, "$&#"),
    "weak": _weak,
    "words": _passwords,
    "seed": lambda rng, count="12": " ".join(rng.sample(MNEMONIC, int(count))),
    "github": _github,
    "encoded": _encoded,
    "claims": lambda rng: _b64(_claims(rng)),
    "b64json": lambda rng: _b64(
        json.dumps({"a": run(rng, "hex", 32), "t": _uuid(rng), "s": run(rng, "b64", 40)})
    ),
    "discord-id": lambda rng: _b64(str(rng.randint(10**17, 10**18 - 1))).rstrip("="),
    "ulid": lambda rng: "01J" + run(rng, "crock", 23),
    "int": _int,
    "date": _date,
    "time": _time,
    "noun": lambda rng: rng.choice(WORDS),
    "verb": lambda rng: rng.choice(VERBS),
    "snake": lambda rng: "_".join(_identifier(rng)),
    "camel": lambda rng: _camel(_identifier(rng)),
    "pascal": lambda rng: "".join(map(str.capitalize, _identifier(rng))),
    "spoken": lambda rng: " ".join(_identifier(rng)),
    "setting": lambda rng: "_".join(rng.sample(PARTS, rng.choice((1, 2)))),
    "settingCamel": lambda rng: _camel(rng.sample(PARTS, rng.choice((1, 2)))),
    "file": lambda rng: f"{'_'.join(_identifier(rng))}.{rng.choice(EXTENSIONS)}",
    "sentence": lambda rng: written(rng.choice(_TABLE["sentences"]), rng).text,
    "person": lambda rng: rng.choice(PEOPLE),
    "esc": lambda rng: "\x1b",
    "tab": lambda rng: "\t",
    "cr": lambda rng: "\r",
    "ff": lambda rng: "\f",
}


def _each(encode: Callable[[str], str]) -> Callable[[list[Piece]], list[Piece]]:
    return lambda pieces: [replace(piece, text=encode(piece.text)) for piece in pieces]


def _between(piece: Piece, text: str) -> Piece:
    """``text`` put into ``piece``: kept with what is kept, no part of a secret."""
    return Piece(text) if piece.role is Role.GONE else replace(piece, text=text)


def _wrap(pieces: list[Piece], width: str = "80", indent: str = "0") -> list[Piece]:
    """Hard line breaks every ``width`` columns, as in text copied from a terminal."""
    made: list[Piece] = []
    column = 0
    for piece in pieces:
        part = ""
        for character in piece.text:
            if column == int(width) and character != "\n":
                made += [replace(piece, text=part), _between(piece, "\n" + " " * int(indent))]
                part, column = "", int(indent)
            part += character
            column = 0 if character == "\n" else column + 1
        made.append(replace(piece, text=part))
    return made


def _inside(pieces: list[Piece], between: str) -> list[Piece]:
    """``between`` in the middle of every secret."""
    made: list[Piece] = []
    for piece in pieces:
        if piece.role is not Role.GONE or len(piece.text) < 10:
            made.append(piece)
            continue
        middle = len(piece.text) // 2
        made += [
            replace(piece, text=piece.text[:middle]),
            Piece(between),
            replace(piece, text=piece.text[middle:]),
        ]
    return made


def _cut(pieces: list[Piece], percent: str = "60") -> list[Piece]:
    """The first ``percent`` of the text, as a preview has it."""
    room = sum(len(piece.text) for piece in pieces) * int(percent) // 100
    made: list[Piece] = []
    for piece in pieces:
        made.append(replace(piece, text=piece.text[:room]))
        room -= len(made[-1].text)
    return made


def _lines(pieces: list[Piece], before: str) -> list[Piece]:
    """``before`` at the start of every line; ``#`` in it is the line's number."""
    made: list[Piece] = []
    number = 1

    def start() -> Piece:
        return Piece(before.replace("#", f"{number:>4}"))

    made.append(start())
    for piece in pieces:
        for index, part in enumerate(piece.text.split("\n")):
            if index:
                number += 1
                made.append(_between(piece, "\n" + start().text))
            made.append(replace(piece, text=part))
    return made


def json_escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _gone(pieces: list[Piece]) -> list[Piece]:
    """All of it as one secret."""
    return [Piece("".join(piece.text for piece in pieces), Role.GONE)]


REGIONS: dict[str, Callable[..., list[Piece]]] = {
    "json": _each(json_escaped),
    "url": _each(lambda text: quote(text, safe="")),
    "xml": _each(lambda text: text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")),
    "gone": _gone,
    "wrap": _wrap,
    "cut": _cut,
    "colour": lambda pieces: _inside(pieces, "\x1b[0m\x1b[36m"),
    "highlight": lambda pieces: _inside(pieces, "\x1b[01;31m\x1b[K"),
    "plus": lambda pieces: _lines(pieces, "+"),
    "minus": lambda pieces: _lines(pieces, "-"),
    "quote": lambda pieces: _lines(pieces, "> "),
    "indent": lambda pieces, width="4": _lines(pieces, " " * int(width)),
    "numbered": lambda pieces: _lines(pieces, "  #\t"),
    "arrow": lambda pieces: _lines(pieces, "  #→"),
    "crlf": _each(lambda text: text.replace("\n", "\r\n")),
}

_TOKEN = re.compile(r"‹([^›]*)›|⟦|⟧")


@lru_cache(maxsize=1 << 14)
def _parsed(template: str) -> tuple[tuple[str, str], ...]:
    """``(text, token)`` pairs: the text before each token, the last with an empty one."""
    parts = []
    at = 0
    for match in _TOKEN.finditer(template):
        parts.append((template[at : match.start()], match[1] if match[1] is not None else match[0]))
        at = match.end()
    parts.append((template[at:], ""))
    return tuple(parts)


class _Writer:
    def __init__(self, rng: random.Random, values: Mapping[str, str]) -> None:
        self._rng = rng
        self._values = values
        self._groups = 0
        self._keeping = 0

    def write(self, template: str, secret: bool) -> list[Piece]:
        open_regions: list[tuple[str, list[Piece]]] = [("", [])]
        for text, token in _parsed(template):
            pieces = open_regions[-1][1]
            if text:
                pieces.append(self._piece(text))
            if not token:
                continue
            if token == "⟦":
                self._groups += 1
                self._keeping = self._groups
            elif token == "⟧":
                self._keeping = 0
            elif token[0] == "/":
                name, inner = open_regions.pop()
                region, *arguments = name.split(":")
                if region != token[1:]:
                    raise ValueError(f"‹{token}› closes ‹{name}›")
                open_regions[-1][1].extend(REGIONS[region](inner, *arguments))
            elif token.split(":")[0] in REGIONS:
                open_regions.append((token, []))
            elif token[0] == "$":
                pieces.extend(self.write(self._values[token[1:]], secret or token == "$secret"))
            else:
                marked = token[0] if token[0] in "!~" else ""
                pieces.extend(self._made(token[len(marked) :], marked == "!" or (secret and not marked)))
        if len(open_regions) > 1:
            raise ValueError(f"‹{open_regions[-1][0]}› is not closed")
        return open_regions[0][1]

    def _piece(self, text: str) -> Piece:
        return Piece(text, Role.KEPT, self._keeping) if self._keeping else Piece(text)

    def _made(self, token: str, secret: bool) -> Iterable[Piece]:
        name, *arguments = token.split(":")
        if name in MAKERS:
            made = MAKERS[name](self._rng, *arguments)
        else:
            low, _, high = name.partition("-")
            length = self._rng.randint(int(low), int(high or low))
            made = run(self._rng, arguments[0] if arguments else "alnum", length)
        self._groups += 1
        for text, hidden in [(made, True)] if isinstance(made, str) else made:
            yield Piece(text, Role.GONE, self._groups) if secret and hidden else self._piece(text)


def written(template: str, rng: random.Random, values: Mapping[str, str] | None = None) -> Written:
    """``template`` written with what ``rng`` makes and the templates in ``values``."""
    pieces = _Writer(rng, values or {}).write(template, secret=False)
    kept: dict[int, str] = {}
    for piece in pieces:
        if piece.role is Role.KEPT:
            kept[piece.group] = kept.get(piece.group, "") + piece.text
    return Written(
        "".join(piece.text for piece in pieces),
        tuple(piece.text for piece in pieces if piece.role is Role.GONE and len(piece.text) >= 4),
        tuple(part for part in kept.values() if part.strip()),
    )


def dedented(template: str) -> str:
    """A template of a TOML file as it is meant: without its indentation and last line break."""
    return textwrap.dedent(template).removesuffix("\n")
