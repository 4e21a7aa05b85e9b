"""A terminal's rows: a token that goes on in the next one goes in both, and the next line stays."""

from __future__ import annotations

import pytest

from sessionpipe.privacy.secrets import redact
from tests.privacy.recipes import generated

TOKEN = "sk-ant-api03-" + generated(93) + "AA"
LINE = f"export ANTHROPIC_API_KEY={TOKEN}"
NEXT = "Next line of output 42 here"


def rows(line: str, width: int) -> list[str]:
    return [line[at : at + width] for at in range(0, len(line), width)]


def left(text: str) -> list[str]:
    return [TOKEN[at : at + 6] for at in range(len(TOKEN) - 5) if TOKEN[at : at + 6] in text]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("form", ["{}", "  {}", "│ {:{}} │", "{:{}}"])
def test_every_row_of_a_wrapped_token_goes(form: str, width: int) -> None:
    inner = width - form.count(" ") - form.count("│")
    text = "\n".join(form.format(row, inner) for row in ["$ cat .env", *rows(LINE, inner), NEXT])
    out = redact(text)
    assert left(out) == []
    assert NEXT in out
    assert out.count("\n") == text.count("\n")
    assert redact(out) == out


@pytest.mark.parametrize(
    "behind",
    ["PORT=8080", "Done in 1.2s.", "OK", "2026-03-04T10:11:12Z done", "always-auth=true", "total 48", "next"],
)
def test_the_next_line_stays(behind: str) -> None:
    assert redact(f"{LINE}\n{behind}\n") == f"export ANTHROPIC_API_KEY=[redacted]\n{behind}\n"


def test_a_row_that_is_not_full_is_not_gone_on_with() -> None:
    longer = "x" * 90
    token = "ghp_" + generated(36)
    assert redact(f"{longer}\ntoken {token}\naB3dE6gH9\n") == f"{longer}\ntoken [redacted]\naB3dE6gH9\n"
