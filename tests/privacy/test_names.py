"""What a name says about its value: its last word what it is, the words before which one."""

from __future__ import annotations

import pytest

from sessionpipe.privacy.names import kind

PASSWORDS = """
password DB_PASSWORD smtp_pass userPassword passwd pgpassword PGPASSWORD passphrase client-secret clientSecret SECRET
credentials aws_credentials db.password spring.datasource.password MYSQL_PWD password1 PASSWORD_PROD
"""
TOKENS = """
token access_token authToken GITHUB_TOKEN apiKey API_KEY api-key x-api-key apikey OPENAI_API_KEY
secretAccessKey private_key signing-key encryptionKey jwt Authorization gittoken APIKey
token_value DATADOG_KEY GITHUB_PAT ghPat TOTP_SEED AUTH_SALT SNMP_COMMUNITY RABBITMQ_ERLANG_COOKIE security_answer
ACCESS_CODE WIFI_PSK PASSWORD_PEPPER RECOVERY_KEY unsealKey
"""
KEYS = """
some_key CUSTOM_KEY tokens auth _auth session_cookie secrets
"""
OTHERS = """
password_hash passwordHash file_path compat random_seed password_salt status_code exit_code community answer
tokenizer max_tokens maxTokens input_tokens token_count token_type public_key
publicKey primary_key cache-key sortKey key keys author secretary monkey keyboard passed bypass compass pass
secret_name secretKeyRef token_url password_file eos_token next_token PWD OLDPWD passwordless user
"""


@pytest.mark.parametrize("name", PASSWORDS.split())
def test_a_password_is_one_whatever_it_looks_like(name: str) -> None:
    assert kind(name) == "password"


@pytest.mark.parametrize("name", TOKENS.split())
def test_a_token_is_one_unless_it_could_be_a_word(name: str) -> None:
    assert kind(name) == "token"


@pytest.mark.parametrize("name", KEYS.split())
def test_a_key_of_something_must_look_generated(name: str) -> None:
    assert kind(name) == "key"


@pytest.mark.parametrize("name", OTHERS.split())
def test_any_other_name_says_nothing(name: str) -> None:
    assert kind(name) is None


@pytest.mark.parametrize("name", ["", "___", "9", "é", "x" * 200 + "_password", "\ud800"])
def test_what_is_hardly_a_name_says_nothing(name: str) -> None:
    assert kind(name) is None
