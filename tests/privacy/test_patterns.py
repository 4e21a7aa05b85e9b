"""What every pattern of ours keeps to, because some CPython this runs on reads it wrongly otherwise."""

from __future__ import annotations

import ast
import re
import re._constants as op  # type: ignore[import-untyped]
import re._parser as parser  # type: ignore[import-untyped]
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sessionpipe
from sessionpipe.paths import data_dir
from sessionpipe.privacy import (
    assignments,
    engine,
    expressions,
    pem,
    rules,
    shapes,
    terminal,
    ties,
    urls,
    values,
    wrapped,
)

SINGLE = {op.IN, op.LITERAL, op.NOT_LITERAL, op.ANY, op.CATEGORY, op.RANGE}


def possessive_groups(node: Any) -> Iterator[Any]:
    """The possessive repeats in a parsed pattern that repeat more than one character's class."""
    for code, value in node:
        if code is op.POSSESSIVE_REPEAT:
            repeated = value[2]
            single = len(repeated) == 1 and repeated[0][0] in SINGLE
            # A repeat of nothing is in a string of ours that is no pattern at all.
            if not single and repeated.getwidth() != (0, 0):
                yield value
        for inner in _parts(value):
            yield from possessive_groups(inner)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, parser.SubPattern):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _parts(part)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def patterns() -> Iterator[str]:
    """Whatever in our tables and our modules reads as a pattern with a possessive repeat."""
    for name in ("secrets@1", "pii@1"):
        yield from strings(rules.load(name))
    for module in (assignments, engine, expressions, pem, shapes, terminal, ties, urls, values, wrapped):
        for value in vars(module).values():
            if isinstance(value, re.Pattern):
                yield value.pattern if isinstance(value.pattern, str) else value.pattern.decode()
    for path in Path(sessionpipe.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
                text = node.value
                yield text if isinstance(text, str) else text.decode("latin-1")


def test_no_pattern_puts_a_possessive_repeat_on_a_group() -> None:
    # CPython up to 3.11.4 (Debian 12 has 3.11.2) lets such a repeat keep the place that its last,
    # failed round had reached, so that the pattern matches past what it should or not at all. An
    # atomic group around an ordinary repeat says the same and is read rightly everywhere.
    assert data_dir("rulesets").is_dir()
    seen = 0
    for pattern in patterns():
        if "+" not in pattern:
            continue
        try:
            parsed = parser.parse(pattern)
        except (re.error, OverflowError):
            continue  # No pattern, a sentence.
        seen += 1
        assert list(possessive_groups(parsed)) == [], pattern
    assert seen > 100


def test_the_test_knows_one_when_it_sees_one() -> None:
    assert list(possessive_groups(parser.parse("(?:ab|c)*+")))
    assert list(possessive_groups(parser.parse("a(?:(?:b|cd)++)?")))
    assert not list(possessive_groups(parser.parse("[ab]*+c{2,3}+(?>(?:ab)*)")))


@pytest.mark.parametrize("text", ["line {} end", "{}", "a\n{}\n"])
def test_a_token_after_other_words_is_found(text: str) -> None:
    from sessionpipe.privacy.secrets import redact

    token = "ghp_" + "".join("abcdefghijABCDEFGHIJ0123456789"[(i * 7 + 3) % 30] for i in range(36))
    assert redact(text.format(token)) == text.format("[redacted]")
