"""What ties a value to a name: found where it is, and for most names nothing, before any value is looked at."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sessionpipe.privacy import ties
from sessionpipe.privacy.ties import finder
from tests.laws import MANY


def kind(text: str) -> str | None:
    """How the first "token" of ``text`` is tied to a value."""
    found = finder()(text, text.lower().index("token"))
    return found.kind if found else None


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("token = 'x'", "sign"),
        ("API_TOKEN=letmein", "sign"),
        ('"token": "x"', "sign"),
        ("token: a1b2c3", "sign"),
        ("token => 'x'", "sign"),
        ("token%3Da1b2c3", "sign"),
        ("token        a1b2c3", "table"),
        ("Token       Owner\n", "table"),
        ("setenv('TOKEN', 'a1')", "comma"),
        ("set_token('a1')", "call"),
        ("<token>a1</token>", "xml"),
        ("<key>token</key>\n<string>", "list"),
        ('{"name": "TOKEN", "value": "x"}', "pair"),
        ("token:\n  default: x", "block"),
        ("--token a1b2", "gap"),
        ("--token hunter-two", "option"),
        ("the token for staging is a1b2c3", "said"),
        ("| Token\nnext", "head"),
    ],
)
def test_a_name_is_tied_by_what_stands_behind_it(text: str, how: str) -> None:
    assert kind(text) == how


@pytest.mark.parametrize(
    "text",
    [
        "cancellationToken)\n    {",
        "tokenResponseKey = other",
        "token_count: 12",
        "let token = source.next",
        "token: string | null",
        "token and nothing else",
        "Promise<Token> {",
        "('token', 'user')",
        "token::parse",
    ],
)
def test_what_no_secret_stands_behind_is_tied_to_nothing(text: str) -> None:
    assert kind(text) is None


def test_the_name_ends_where_its_words_do() -> None:
    found = finder()("GITHUB_TOKEN_PROD2'] = 'x'", 7)
    assert found is not None
    assert "GITHUB_TOKEN_PROD2'] = 'x'"[: found.end] == "GITHUB_TOKEN_PROD2"
    assert found.closers == "']"
    assert found.tie[0].strip() == "="


# The model asks every tie of every name. The finder asks those that begin with the sign behind the name, and of
# what stands before a sentence's word those that a sentence has: it must leave out none that is there.
_NAMES = st.sampled_from(["token", "TOKEN", "Tokens", "TOKEN_PROD", "token2"])
_CLOSERS = st.sampled_from(["", '"', "']", "%22", "\\'"])
# fmt: off
_SIGNS = st.sampled_from(
    [
        " ", "  ", "   ", "\t", "\n", "\n\n", ", ", ".", "(", ".fill(", ">", "</key>", "=", ": ", "=>",
        "|", "│ ", "-", "->", "→", "!=", "??", " = ", " | ", " As str =", " content=", " is ", " value=",
    ]
)
_MORE = st.sampled_from(
    [
        "", " ", "\n", ",", "(", ")", "<string>", "</", "=", ":", '"', "'", "\\n", "\\", "{", "value",
        "v", "default:", "a b", "is", "been", "a1", "c", "hunter-two", "aB", "é", "A" * 40, "Owner",
        "|---|", "%20",
    ]
)
# fmt: on
# Here the name itself goes on.
_GOES_ON = re.compile(r"[.-]{1,2}(?:val|v(?![a-z])|default|[0-9])| [0-9]{1,2}:")


@given(_NAMES, _CLOSERS, _SIGNS, st.lists(_MORE, max_size=6).map("".join))
@settings(max_examples=MANY)
def test_no_tie_is_left_out_because_of_the_sign_it_begins_with(
    name: str, closers: str, sign: str, rest: str
) -> None:
    assume(closers or not _GOES_ON.match(sign + rest))
    before = "x" * 37 + " "
    text = f"{before}{name}{closers}{sign}{rest}"
    closed = len(before + name + closers)
    found = finder()(text, len(before))
    every = ((kind, re.compile(tie).match(text, closed)) for kind, (_, tie) in ties._TIES.items())
    expected = next(((kind, tie[0]) for kind, tie in every if tie), None)
    assert (found and (found.kind, found.tie[0])) == expected
