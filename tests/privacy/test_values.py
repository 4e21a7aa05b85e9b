"""What a value looks like: a placeholder, a word, a path, or something generated."""

from __future__ import annotations

import pytest

from sessionpipe.privacy import values
from tests.privacy.recipes import ALPHABETS, generated

WORDS = """
wrong Wrong required a1 v1.2.3 1.2.3-beta.1 2026-09-28 2026-09-28T01:03:11Z SHA256 base64 OAuth2 utf-8
ed25519 8-characters step2 claude-opus-4-5-20251101 src/auth2/token.py README.md 12345 user1 x86_64
550e8400-e29b-41d4-a716-446655440000 well-known
"""
PLACEHOLDERS = """\
<your-key>
${VAR}
$VAR
%VAR%
{{ x }}
{x}
process.env.X
os.environ["X"]
string
***
[redacted]
your-api-key
xxxx
...
null
None
YOUR_TOKEN_HERE
changeme
$(cat file)
op://vault/item
https://example.com/token
sk-...
password
"""


@pytest.mark.parametrize(
    "value", ["hunter2", "Tr0ub4dor&3", "aB3dE6gH", "p@ssWord", "x9k2m4", "dkryFMT07els"]
)
def test_generated(value: str) -> None:
    assert values.is_generated(value)


@pytest.mark.parametrize("value", WORDS.split())
def test_not_generated(value: str) -> None:
    assert not values.is_generated(value)


@pytest.mark.parametrize("value", PLACEHOLDERS.splitlines())
def test_a_placeholder(value: str) -> None:
    assert values.is_placeholder(value)


@pytest.mark.parametrize(
    "value", ["hunter2", "correct horse battery staple", "p4ss", "my-Secret-42", "x{y}z"]
)
def test_not_a_placeholder(value: str) -> None:
    assert not values.is_placeholder(value)


@pytest.mark.parametrize(
    "value", ["/etc/ssl/key.pem", "~/.ssh/id_rsa", "./a/b", "src/x.py", "C:\\keys\\x", "key.pem"]
)
def test_a_path(value: str) -> None:
    assert values.is_path(value)


def test_a_digest_is_a_uuid_or_a_commit() -> None:
    assert values.is_digest("550e8400-e29b-41d4-a716-446655440000")
    assert values.is_digest("4f2a9c1e" * 5)
    assert not values.is_digest("4f2a9c1e" * 4)


def test_prose_speaks_about_a_secret() -> None:
    assert values.is_prose("Enter your password")
    assert values.is_prose("must be at least 8 characters")
    assert not values.is_prose("correct horse battery staple")
    assert not values.is_prose("password")


@pytest.mark.parametrize(
    "value", ["keyword.control", "StringLiteralToken", "meta.tag-name.html", "the word", "punctuation"]
)
def test_names_of_things_in_a_program_are_spelt(value: str) -> None:
    assert values.is_spelt(value)
    assert not values.is_jumbled(value)


@pytest.mark.parametrize("length", [20, 32, 40])
def test_letters_that_make_no_words_are_jumbled_and_no_name(length: int) -> None:
    made = generated(length, "tRwYbHnLqMxGdJ")
    assert values.is_jumbled(made)
    assert not values.is_spelt(made)


@pytest.mark.parametrize(
    "value", ["getUserById2FromTheDatabase", "isApiKeyProvider", "ThirdPartyHttpClient42Factory"]
)
def test_a_name_written_as_one_word_is_neither_random_nor_jumbled(value: str) -> None:
    assert not values.is_random(value)
    assert not values.is_jumbled(value)


def test_a_long_mixture_of_small_letters_and_digits_is_random_and_a_digest_s_is_of_hexadecimal() -> None:
    assert values.is_random(generated(44, ALPHABETS["low"]))
    assert not values.is_random("a-name-of-many-small-words-with-a-number-2-in-it")
