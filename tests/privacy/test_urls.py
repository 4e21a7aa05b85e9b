"""Passwords in URLs go, whatever signs they have; the rest of the URL, and an "@" elsewhere in one, stay."""

from __future__ import annotations

import pytest

from sessionpipe.privacy.secrets import redact
from tests.privacy.recipes import generated


@pytest.mark.parametrize("password", ["hunter2x", "p@ss:w0rd!", "a/b?c#d9", "100%sure9"])
@pytest.mark.parametrize("rest", ["db.example.com:5432/app", "localhost", "[::1]:6379/0"])
def test_a_password_goes_up_to_its_host(password: str, rest: str) -> None:
    assert redact(f"at postgres://app:{password}@{rest} now") == f"at postgres://app:[redacted]@{rest} now"


def test_a_token_alone_goes() -> None:
    token = generated(40)
    assert redact(f"https://{token}@git.example.com/a.git") == "https://[redacted]@git.example.com/a.git"


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/@scope/package@1.2.3",
        "https://example.com:8080/a?mail=ada@example.com",
        "ssh://git@example.com/a.git",
        "https://user:${PASSWORD}@example.com",
        "https://user@example.com",
        "http://a.example http://b.example me@example.com",
    ],
)
def test_a_url_without_one_stays(text: str) -> None:
    assert redact(text) is text
