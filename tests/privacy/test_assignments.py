"""Values behind names: which are secrets depends on the name, the sign and what the value looks like."""

from __future__ import annotations

import pytest

from sessionpipe.privacy.secrets import redact
from tests.privacy.recipes import generated

MADE = generated(20)


@pytest.mark.parametrize(
    "text",
    [
        "DB_PASSWORD={}",
        "export API_TOKEN={}\n",
        'password: "{}"',
        "  api_key: {}\n",
        "{{'client_secret': '{}'}}",
        '{{\\"token\\": \\"{}\\"}}',
        "?access_token={}&page=2",
        "Server=db;Password={};Timeout=3",
        "--password {} --verbose",
        "ENV APP_SECRET {}\n",
        "the password for staging is {}.",
        "| password | {} |",
        "setenv('DB_PASSWORD', '{}')",
        "<password>{}</password>",
        '{{"name": "DB_PASSWORD", "value": "{}"}}',
        "db_password:\n    default: {}\n",
    ],
)
def test_a_generated_value_goes_and_all_around_it_stays(text: str) -> None:
    assert redact(text.format(MADE)) == text.format("[redacted]")


@pytest.mark.parametrize(
    "text",
    [
        "password = get_password()",
        "password: str",
        "token = result.token",
        'apiKey: "your-api-key"',
        "PASSWORD=${DB_PASSWORD}",
        "secret: <secret>",
        "cache_key = 'user:42'",
        "max_tokens: 4096",
        "password_hash = digest",
        "the password is required",
        'keyPassword System.getenv("KEY_PASSWORD")',
        "storePassword keystoreProperties['storePassword']",
        "token=$(cat token.txt)",
        "- `password`: what a person types",
        "'password' => 'required|string|min:8|confirmed',",
        "'token' => 'nullable|size:40|regex:/^[a-z]+$/',",
        "Enter your user name / password please",
        "public string Password { get; set; } = null;",
        "name,token,line\nIDENTIFIER,NAME,12\nNUMBER,NUMBER,13\n",
        "user,password\nada,<hidden>\nbob,\n",
    ],
)
def test_a_word_a_reference_or_a_program_stays(text: str) -> None:
    assert redact(text) is text


def test_a_name_decides_for_a_password_that_looks_like_a_word() -> None:
    assert redact('{"password": "hunter"}') == '{"password": "[redacted]"}'
    assert redact('{"token": "hunter"}') == '{"token": "hunter"}'
