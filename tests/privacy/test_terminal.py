"""A terminal's codes: what they stick to, split or stand between is found, and they stay."""

from __future__ import annotations

import pytest

from sessionpipe.privacy import terminal
from sessionpipe.privacy.secrets import redact
from tests.privacy.recipes import generated

TOKEN = "ghp_" + generated(36)
OTHER = "ghp_" + generated(36)[::-1]


@pytest.mark.parametrize(
    "code", ["\x1b[31m", "\x1b[0m", "\\u001b[1;32m", "\\x1b[0m", "\\033[38;5;12m", "\x1b[?25l"]
)
def test_a_token_beside_or_around_a_code_goes(code: str) -> None:
    assert redact(f"a {code}{TOKEN}{code} b") == f"a {code}[redacted]{code} b"
    out = redact(f"a {TOKEN[:20]}{code}{TOKEN[20:]} b")
    assert TOKEN[:20] not in out
    assert TOKEN[20:] not in out


def test_two_tokens_with_a_code_between_both_go() -> None:
    out = redact(f"{TOKEN}\x1b[0m{OTHER}")
    assert TOKEN[4:] not in out
    assert OTHER[4:] not in out


def test_a_coloured_name_has_a_coloured_value() -> None:
    assert redact("\x1b[32mDB_PASSWORD\x1b[0m=\x1b[33mhunter2x\x1b[0m") == (
        "\x1b[32mDB_PASSWORD\x1b[0m=\x1b[33m[redacted]\x1b[0m"
    )


def test_a_place_in_a_view_is_one_in_the_text() -> None:
    text = "one \x1b[31mtwo\x1b[0m three"
    for view in terminal.views(text):
        start = view.text.index("two")
        begin, end = view.place((start, start + 3))
        assert text[begin:end] == "two"
