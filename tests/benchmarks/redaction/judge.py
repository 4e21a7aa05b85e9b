"""What a redactor did with the cases."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.redaction.cases import Case, Stay, strings


def percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 100.0


@dataclass(frozen=True)
class Redactor:
    """Something that takes secrets out of a text and of a value."""

    text: Callable[[str], str]
    value: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        return self.text(value) if isinstance(value, str) else self.value(value)


@dataclass
class Recall:
    """Cases by kind, the ones whose secret was left and the ones whose surroundings were not."""

    total: Counter[str] = field(default_factory=Counter)
    leaked: list[tuple[Case, str]] = field(default_factory=list)
    damaged: list[tuple[Case, str]] = field(default_factory=list)

    @property
    def removed(self) -> float:
        """Per cent of the cases of whose secret nothing is left."""
        return percent(self.total.total() - len(self.leaked), self.total.total())

    @property
    def around(self) -> float:
        """Per cent of the cases in which everything around the secret is still there."""
        return percent(self.total.total() - len(self.damaged), self.total.total())


def recall(redactor: Callable[[Any], Any], cases: Iterable[Case]) -> Recall:
    found = Recall()
    for case in cases:
        found.total[case.kind] += 1
        out = redactor(case.value)
        if left := case.leak(out):
            found.leaked.append((case, left))
        if missing := case.damage(out):
            found.damaged.append((case, missing))
    return found


def changed(redactor: Callable[[Any], Any], stays: Iterable[Stay]) -> list[tuple[Stay, str]]:
    """The texts that came out different, with what became of them."""
    found = []
    for stay in stays:
        out = redactor(stay.value)
        if out != stay.value:
            found.append((stay, strings(out)))
    return found


_SHAPE = str.maketrans(
    string.ascii_lowercase + string.ascii_uppercase + string.digits, "a" * 26 + "A" * 26 + "d" * 10
)


def masked(text: str, secrets: Iterable[str], limit: int = 200) -> str:
    """``text`` on one line to print it: a short secret as its shape, a long one as its length."""
    for secret in sorted(secrets, key=len, reverse=True):
        shape = secret.translate(_SHAPE) if len(secret) <= 24 else f"{len(secret)} characters"
        text = text.replace(secret, f"<{shape}>")
    line = ascii(text)[1:-1]
    return line if len(line) <= limit else line[:limit] + " …"
