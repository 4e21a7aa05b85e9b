"""The laws of ``secrets@1`` over its own rules: nothing planted survives, nothing else changes, nothing grows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sessionpipe.conformance.redaction import text_of
from sessionpipe.privacy import shapes, terminal
from sessionpipe.privacy.rules import load
from sessionpipe.privacy.secrets import redact, redact_value
from tests.laws import MANY
from tests.privacy.recipes import expand, parts
from tests.privacy.test_vectors import SECRETS

RULES = load("secrets@1")

#: Where a session has a token, each with the token for `{}`; none says what it is.
CONTEXTS = [
    "{}",
    "use {} for it.",
    "export X={}",
    "set X={}\r\n",
    "$env:X = '{}'",
    "cat <<EOF\n{}\nEOF",
    "X: {}\n",
    "  - name: X\n    value: {}\n",
    'curl -H "X-Thing: {}" https://x.example',
    "https://x.example/a?b={}&c=d",
    '{{"old_string":"a","new_string":"b = \\"{}\\""}}',
    "+x = '{}'\n-x = ''",
    "`{}`",
    "({}), then",
    "<a>{}</a>",
    "\x1b[32m{}\x1b[0m",
    "a\\n{}\\nb",
    "\t{}\t",
    "['{}', 1]",
    "{};{}",
]


#: Whole files in base64 rather than tokens: they go on over lines, and what ends one is not what ends a token.
BLOBS = {"private-key-in-base64"}


def test_a_planted_token_survives_nowhere() -> None:
    survived: list[tuple[str, str]] = []
    for rule in RULES["vendor"]:
        for example in rule["match"] if rule["id"] not in BLOBS else ():
            if isinstance(example, str):
                survived += [(rule["id"], text) for text in surviving(example)]
    assert survived == []


def surviving(example: str) -> Iterator[str]:
    """Each text that a token of a rule is left in."""
    token, made = expand(example), max(parts(example), key=len)
    planted = [context.replace("{}", token) for context in CONTEXTS]
    # A start with a sign that a URL writes otherwise is another start.
    if quote(token, safe="") == token:
        planted.append(f"https://x.example/?x={token}&y=1")
    yield from (
        text for text in (*planted, *map(json.dumps, planted[: len(CONTEXTS)])) if made in redact(text)
    )
    value = json.dumps(redact_value({"a": [{"b": f"x {token}"}], token: 1}))
    if made in value:
        yield value


TEXTS = [text_of(case) for case in SECRETS["cases"]]
MARK = len("[redacted]")


def text(index: int) -> str:
    return TEXTS[index]


@given(st.lists(st.integers(0, len(TEXTS) - 1).map(text) | st.text(max_size=8), max_size=4).map(" ".join))
@settings(max_examples=MANY)
def test_nothing_grows_but_by_its_marks(given_text: str) -> None:
    once = redact(given_text)
    assert len(once) <= len(given_text) + MARK * once.count("[redacted]")


WORDS = {
    *(word.text.lower() for word in shapes.tables().words),
    *RULES["names"]["stems"],
    *terminal.SIGNS,
    *shapes.SIGNS,
}
PLAIN = [
    "\nthe",
    "loop",
    "stops",
    "here",
    "and",
    "nobody",
    "minds",
    "(12",
    "of",
    "40)",
    "=",
    "7",
    "x",
    "<a>",
    "{b}",
    "[c]",
    "'d'",
    '"e"',
    "é",
    "日本",
    "\t",
    "#!?*\n",
]


@given(st.lists(st.sampled_from(PLAIN) | st.text(max_size=12), max_size=12).map(" ".join))
@settings(max_examples=MANY)
def test_a_text_without_any_rule_s_word_is_the_same_object(given_text: str) -> None:
    low = given_text.lower()
    assume(not any(word in low for word in WORDS))
    assert redact(given_text) is given_text
