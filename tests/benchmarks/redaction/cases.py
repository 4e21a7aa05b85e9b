"""The benchmark's cases: secrets in the contexts sessions have them in, and texts that must stay.

Vendors' shapes (vendors.toml) and passwords go into contexts (contexts.toml) in a fixed rotation, so that
every context holds several kinds; secrets.toml has the ones that come with a form of their own.
"""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.benchmarks.redaction.template import Written, dedented, seeded, written

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """One text or value: which parts of it are secret and which must survive."""

    kind: str
    context: str
    value: Any
    gone: tuple[str, ...]
    kept: tuple[str, ...]

    @cached_property
    def windows(self) -> frozenset[str]:
        """Pieces of the secret of which none may be left: what stands elsewhere in the text does not count."""
        rest = strings(self.value)
        for secret in self.gone:
            rest = rest.replace(secret, "\0")
        found: set[str] = set()
        for secret in self.gone:
            width = 8 if len(secret) >= 16 else min(len(secret), 5)
            found.update(secret[at : at + width] for at in range(len(secret) - width + 1))
        return frozenset(window for window in found if window not in rest)

    def leak(self, out: Any) -> str | None:
        """What of the secret is left in ``out``."""
        text = strings(out)
        return next((window for window in self.windows if window in text), None)

    def damage(self, out: Any) -> str | None:
        """What of the rest is missing in ``out``; also when JSON went in and none came out."""
        text = strings(out)
        for part in self.kept:
            if part not in text:
                return part
        if isinstance(self.value, str) and parses(self.value) and not parses(out):
            return "(no JSON any more)"
        return None


@dataclass(frozen=True)
class Stay:
    """One text or value without a secret."""

    kind: str
    value: Any


def strings(value: Any) -> str:
    """All strings of a value, keys included, as one text."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(f"{strings(key)}\n{strings(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "\n".join(map(strings, value))
    return str(value)


def parses(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def table(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def spelled(name: str) -> dict[str, str]:
    """``DB_PASSWORD`` in the spellings of languages and formats."""
    words = name.lower().split("_")
    return {
        "NAME": name,
        "name": name.lower(),
        "kebab": "-".join(words),
        "camel": words[0] + "".join(map(str.capitalize, words[1:])),
        "Pascal": "".join(map(str.capitalize, words)),
        "Header": "-".join(map(str.capitalize, words)),
        "spoken": " ".join(words),
    }


def case(
    kind: str, context: str, template: dict[str, Any], rng: random.Random, values: dict[str, str]
) -> Case:
    made = written(dedented(template.get("text") or template["value"]), rng, values)
    if "value" not in template:
        return Case(kind, context, made.text, made.gone, made.kept)
    return Case(kind, context, json.loads(made.text), _decoded(made.gone), _decoded(made.kept))


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def _decoded(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Parts of JSON source as the strings they stand for: ``"a": "b"`` holds two, ``a\\nb`` is part of one."""
    found: list[str] = []
    for part in parts:
        found += map(json.loads, _STRING.findall(part) or [f'"{part}"'])
    return tuple(filter(None, found))


class _Turn:
    """Contexts in rotation: each suitable one comes up about as often as any other."""

    def __init__(self, contexts: dict[str, dict[str, Any]], rng: random.Random) -> None:
        self._contexts = contexts
        self._used = dict.fromkeys(rng.sample(sorted(contexts), len(contexts)), 0)

    def next(self, secret: Written, *, whole: bool) -> str:
        """A context that can hold ``secret``; with ``whole`` none that cuts it."""
        long = max(map(len, secret.gone)) >= 24
        token = all(character.isalnum() or character in "_-." for character in secret.text)
        bare = token or all(character.isalnum() or character in "!@%^*_+-=.?~/:" for character in secret.text)
        suitable = [
            name
            for name in self._used
            if (long or not self._contexts[name].get("long"))
            and (bare or self._contexts[name].get("quoted"))
            and (token or not self._contexts[name].get("token"))
            and not (whole and self._contexts[name].get("cuts"))
        ]
        chosen = min(suitable, key=self._used.__getitem__)
        self._used[chosen] += 1
        return chosen


def secrets(folder: Path = HERE, seed: str = "sessionpipe") -> Iterator[Case]:
    """Every case with a secret of the tables in ``folder``."""
    contexts = table(folder / "contexts.toml")
    named = {name: row for name, row in contexts.items() if _names(row)}
    shaped = {name: row for name, row in contexts.items() if not _names(row)}
    by_name, by_shape = _Turn(named, seeded(seed, "named")), _Turn(shaped, seeded(seed, "shaped"))

    def planted(kind: str, template: str, name: str, turn: _Turn, *, whole: bool = False) -> Case:
        rng = seeded(seed, kind, template, name, turn is by_name)
        sample = written("‹$secret›", seeded("sample"), {"secret": template})
        context = turn.next(sample, whole=whole)
        return case(kind, context, contexts[context], rng, {"secret": template, **spelled(name)})

    for vendor, row in table(folder / "vendors.toml").items():
        shape, names = row["shape"], row["names"]
        yield planted(vendor, shape, names[0], by_name)
        if row.get("by_name"):
            yield planted(vendor, shape, names[-1], by_name)
        else:
            for name in names[0], names[-1]:
                yield planted(vendor, shape, name, by_shape, whole=row.get("whole", False))
    yield from _own(table(folder / "own.toml"), named, seed)
    for kind, places in table(folder / "secrets.toml").items():
        for context, row in places.items():
            yield case(kind, context, row, seeded(seed, kind, context), {})


def _own(sorts: dict[str, dict[str, Any]], contexts: dict[str, dict[str, Any]], seed: str) -> Iterator[Case]:
    """Three secrets of no vendor in each context that has a name, an odd password in the ones that can hold it."""
    for round_ in range(3):
        for position, (context, row) in enumerate(contexts.items()):
            odd = round_ == 2 and row.get("quoted")
            sort = "password" if odd else list(sorts)[(position + round_) % len(sorts)]
            names = sorts[sort]["names"].split()
            shapes = sorts[sort]["odd" if odd else "holds"]
            shape = shapes[(position // 3 + round_) % len(shapes)]
            if row.get("long"):
                shape = "‹40›"
            elif row.get("prose") and shape in sorts[sort].get("words", ()):
                shape = "‹strong›"  # In prose nothing tells a word that is a password from a word.
            values = {"secret": shape, **spelled(names[(position * 5 + round_) % len(names)])}
            yield case(f"own-{sort}", context, row, seeded(seed, context, round_), values)


def personal(folder: Path = HERE, seed: str = "sessionpipe") -> tuple[list[Case], list[Stay]]:
    """The cases and the texts that must stay of ``pii@1``."""
    cases: list[Case] = []
    stays: list[Stay] = []
    for kind, row in table(folder / "pii.toml").items():
        for position, template in enumerate(row["texts"]):
            made = written(template, seeded(seed, kind, position))
            if made.gone:
                cases.append(Case(kind, f"{kind}-{position}", made.text, made.gone, made.kept))
            else:
                stays.append(Stay(kind, made.text))
    return cases, stays


def _names(row: dict[str, Any]) -> bool:
    text = row.get("text") or row["value"]
    return any(f"‹${name}›" in text for name in spelled("A"))


def stays(folder: Path = HERE, seed: str = "sessionpipe") -> Iterator[Stay]:
    """Every text that must stay of the tables in ``folder``."""
    for kind, row in table(folder / "stay.toml").items():
        for sort in ("texts", "values"):
            for position, template in enumerate(row.get(sort, ())):
                made = written(dedented(template).strip("\n"), seeded(seed, kind, sort, position))
                yield Stay(kind, made.text if sort == "texts" else json.loads(made.text))
