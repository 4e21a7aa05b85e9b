"""What ties a value to a name: found where it is, and for most names nothing, before any value is looked at."""

from __future__ import annotations

import pytest

from sessionpipe.privacy.ties import finder


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
