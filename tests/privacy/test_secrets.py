"""``redact`` and ``redact_value``: the laws they keep, and what a key says about its value."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionpipe.conformance.redaction import text_of as vector_input
from sessionpipe.privacy import walk
from sessionpipe.privacy.secrets import redact, redact_value
from tests.laws import MANY
from tests.privacy.recipes import generated
from tests.privacy.test_vectors import SECRETS

TOKEN = "ghp_" + generated(36)
PASSWORD = generated(14)

# Pieces of what real texts with secrets are made of, glued together in ways nobody thought of.
_TEXTS = [vector_input(case) for case in SECRETS["cases"]]
_SIGNS = [
    *" \n\t\"'`\\=:;,@/&?#[]{}()<>.-_$%!*|~^",
    "\\n",
    '\\"',
    "[redacted]",
    "://",
    "\x1b[31m",
    "é",
    "\ud800",
    "\0",
]
_PIECES = [*_TEXTS, *(text[: len(text) // 2] for text in _TEXTS), *_SIGNS]


def _piece(index: int) -> str:
    return _PIECES[index]


pieces = st.integers(0, len(_PIECES) - 1).map(_piece) | st.text(max_size=8)
texts = st.lists(pieces, max_size=5).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(texts)
@settings(max_examples=MANY)
def test_a_second_time_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@given(texts)
@settings(max_examples=MANY)
def test_what_has_no_secret_is_the_same_object(text: str) -> None:
    found = redact(text)
    assert found is text or "[redacted]" in found


@given(texts, texts)
@settings(max_examples=MANY)
def test_a_line_of_json_stays_json(one: str, other: str) -> None:
    line = json.dumps({"a": one, "b": [other]}, ensure_ascii=False)
    assert json.loads(redact(line)).keys() == {"a", "b"}


@given(values)
@settings(max_examples=MANY)
def test_a_value_is_never_changed_in_place_and_once_is_enough(value: Any) -> None:
    before = copy.deepcopy(value)
    once = redact_value(value)
    assert value == before
    assert redact_value(once) == once


@given(st.lists(texts, max_size=4))
@settings(max_examples=MANY)
def test_looking_at_all_strings_together_hides_none(strings: list[str]) -> None:
    assert redact_value({f"k{index}": text for index, text in enumerate(strings)}) == {
        f"k{index}": redact(text) for index, text in enumerate(strings)
    }


def test_a_value_without_secrets_is_the_same_object() -> None:
    value = {"tool": "Bash", "input": {"command": "ls -l", "n": [1, None, True, 2.5, {"deep": "text"}]}}
    assert redact_value(value) is value


def test_what_did_not_change_is_not_copied() -> None:
    clean = {"a": ["b"]}
    found = redact_value({"clean": clean, "x": TOKEN})
    assert found == {"clean": {"a": ["b"]}, "x": "[redacted]"}
    assert found["clean"] is clean


def test_every_nested_string_is_looked_at() -> None:
    assert redact_value({"a": [{"b": [f"x {TOKEN}"]}], "c": (TOKEN, 1)}) == {
        "a": [{"b": ["x [redacted]"]}],
        "c": ("[redacted]", 1),
    }


SECRET_KEYS = """
password DB_PASSWORD apiKey client-secret x-api-key access_token Authorization pgPassword STRIPE_API_KEY
secretAccessKey jwt passphrase private_key webhookSecret authToken PASSWORD_1 tokenValue
"""
OTHER_KEYS = """
password_hash tokenizer max_tokens input_tokens token_type public_key cache_key primaryKey author secretary monkey
key session_id tool_use_id PWD keyboard passed token_count secretName
"""


@pytest.mark.parametrize("key", SECRET_KEYS.split())
def test_under_a_key_that_names_a_secret_the_value_goes(key: str) -> None:
    assert redact_value({key: "correct horse"}) == {key: "[redacted]"}
    assert redact_value({key: ["correct horse", 7]}) == {key: ["[redacted]", 7]}


@pytest.mark.parametrize("key", OTHER_KEYS.split())
def test_under_any_other_key_it_stays(key: str) -> None:
    value = {key: "correct horse"}
    assert redact_value(value) is value


@pytest.mark.parametrize(
    "placeholder", ["", "<your-key>", "${API_KEY}", "$API_KEY", "***", "[redacted]", "string", "null"]
)
def test_a_placeholder_stays_under_any_key(placeholder: str) -> None:
    value = {"password": placeholder}
    assert redact_value(value) is value


@pytest.mark.parametrize("scalar", [None, True, 0, 4096, 1.5, 10**40])
def test_what_is_no_string_stays_under_any_key(scalar: Any) -> None:
    value = {"password": scalar, "token": [scalar]}
    assert redact_value(value) is value


def test_numbers_that_are_none_and_lone_surrogates_survive() -> None:
    value = {"a": math.nan, "b": math.inf, "c": "\ud800", "password": "\udfff" + PASSWORD}
    found = redact_value(value)
    assert math.isnan(found["a"])
    assert found["c"] == "\ud800"
    assert found["password"] == "[redacted]"


def test_a_key_shaped_like_a_token_is_replaced() -> None:
    assert redact_value({TOKEN: 1, "b": {f"x {TOKEN}": 2}}) == {"[redacted]": 1, "b": {"x [redacted]": 2}}


def test_a_schema_that_speaks_of_a_secret_stays() -> None:
    schema = {
        "properties": {"password": {"type": "string", "description": "The password"}},
        "required": ["password"],
    }
    assert redact_value(schema) is schema


def test_a_scheme_stays_before_its_credential() -> None:
    assert redact_value({"Authorization": f"Bearer {PASSWORD}"}) == {"Authorization": "Bearer [redacted]"}


@pytest.mark.parametrize("value", ["x", "pw", "admin", "changeme", "letmein", "secret", "correct horse"])
def test_under_a_member_called_password_the_name_decides(value: str) -> None:
    assert redact_value({"db": {"password": value}}) == {"db": {"password": "[redacted]"}}


@pytest.mark.parametrize(
    "value", ["", "***", "${DB_PASSWORD}", "<your-password>", "string", "null", "[redacted]"]
)
def test_what_only_stands_for_a_password_stays_even_there(value: str) -> None:
    assert redact_value({"password": value}) == {"password": value}


def test_a_cookie_keeps_its_names() -> None:
    assert redact_value({"Cookie": f"sid={PASSWORD}; theme=dark"}) == {
        "Cookie": "sid=[redacted]; theme=[redacted]"
    }


@pytest.mark.parametrize(("name", "value"), [("name", "value"), ("Name", "Value"), ("key", "value")])
def test_a_name_beside_a_value_names_it(name: str, value: str) -> None:
    assert redact_value([{name: "DB_PASSWORD", value: "hunter"}]) == [
        {name: "DB_PASSWORD", value: "[redacted]"}
    ]
    harmless = [{name: "LOG_LEVEL", value: "hunter"}]
    assert redact_value(harmless) is harmless


def test_an_argument_behind_its_flag_goes() -> None:
    argv = ["deploy", "--user", "bob", "--password", "hunter", "--verbose"]
    assert redact_value(argv) == ["deploy", "--user", "bob", "--password", "[redacted]", "--verbose"]


def test_the_private_members_of_a_key_as_json_go_and_its_public_ones_stay() -> None:
    public = {"kty": "EC", "crv": "P-256", "kid": "2026-01", "x": generated(43), "y": generated(42)}
    assert redact_value({"keys": [public | {"d": generated(41)}]}) == {"keys": [public | {"d": "[redacted]"}]}
    assert redact_value(public) is public
    point = {"p": "north", "q": "south", "d": "12 km"}
    assert redact_value(point) is point


@pytest.mark.parametrize("jar", ["cookies", "cookieJar"])
def test_what_a_jar_of_cookies_holds_goes(jar: str) -> None:
    assert redact_value({jar: {"sid": PASSWORD, "theme": "dark"}}) == {
        jar: {"sid": "[redacted]", "theme": "dark"}
    }


def test_a_long_name_names_a_secret_as_a_short_one_does() -> None:
    name = "the_" * 20 + "password"
    assert redact_value({name: "hunter"}) == {name: "[redacted]"}


# What one value says of another does so however often either came by itself, when nothing was in it.
@pytest.mark.parametrize(
    ("value", "once"),
    [
        ({"password": "hunter"}, {"password": "[redacted]"}),
        ({"name": "password", "value": "hunter"}, {"name": "password", "value": "[redacted]"}),
        (
            {"kind": "Secret", "data": {"a": "aHVudGVy"}},
            {"kind": "Secret", "data": {"a": "[redacted]"}},
        ),
        ({"kty": "oct", "k": "aHVudGVy"}, {"kty": "oct", "k": "[redacted]"}),
        ({"id": "password", "value": "hunter"}, {"id": "password", "value": "[redacted]"}),
        (
            {"ParameterKey": "password", "ParameterValue": "hunter"},
            {"ParameterKey": "password", "ParameterValue": "[redacted]"},
        ),
        (["--password", "hunter"], ["--password", "[redacted]"]),
    ],
)
def test_what_recurs_says_no_less(value: Any, once: Any) -> None:
    for _ in range(4):
        for one in walk.strings(value):
            assert redact_value({"x": one}) == {"x": one}
        assert redact_value({key: "x" for key in ("kind", "id", "value", "kty", "ParameterValue")})
    for _ in range(4):
        assert redact_value(value) == once


def test_a_token_that_recurs_goes_every_time() -> None:
    for _ in range(5):
        assert redact_value({"id": TOKEN, TOKEN: "id"}) == {"id": "[redacted]", "[redacted]": "id"}


def test_depth_is_no_limit() -> None:
    value: Any = {"password": PASSWORD}
    for _ in range(50_000):
        value = [value]
    found = redact_value(value)
    while isinstance(found, list):
        (found,) = found
    assert found == {"password": "[redacted]"}


@pytest.mark.parametrize("scalar", [None, 7, 1.5, True, b"bytes"])
def test_a_scalar_is_itself(scalar: Any) -> None:
    assert redact_value(scalar) is scalar


def test_a_long_text_under_a_secret_s_key_is_a_text() -> None:
    text = f"CREATE TABLE credential ({', '.join(f'column_{n} text' for n in range(30))}) -- {TOKEN}"
    assert redact_value({"credential": text}) == {"credential": text.replace(TOKEN, "[redacted]")}


def test_places_are_right_where_lower_case_is_longer() -> None:
    # "İ" in lower case is two characters.
    assert redact(f"İİİ password: {PASSWORD} İ") == "İİİ password: [redacted] İ"


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from sessionpipe.privacy.secrets import redact; redact('password = x' * 9);"
        "print(sorted({'click', 'rich', 'httpx', 'msgspec', 'jsonschema'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_recorded_payloads_keep_all_but_their_keys(shared: Path) -> None:
    changed = set()
    for path in sorted((shared / "recordings").rglob("*.json*")):
        for line in path.read_text("utf-8", "surrogateescape").splitlines():
            if (found := redact(line)) != line:
                changed.add((line.strip(), found.strip()))
    # The recordings' own made-up key, in a config file.
    assert {line for line, _ in changed} <= {'"apiKey": "made-up"'}
    assert {found for _, found in changed} <= {'"apiKey": "[redacted]"'}


@pytest.mark.parametrize("key", ["pass", "contraseña", "senha", "пароль", "密码", "hasło"])
def test_a_key_in_any_language_is_read_as_in_a_text(key: str) -> None:
    value = {key: f"Falcon-{len(key)}024!"}
    assert redact_value(value) == {key: "[redacted]"}


@pytest.mark.parametrize("margin", ["", "+", " "])
def test_the_lines_of_a_key_go_from_a_list_as_from_a_text(margin: str) -> None:
    dashes = "-" * 5
    body = [generated(64 + number) for number in range(6)]
    lines = [f"{dashes}BEGIN RSA PRIVATE KEY{dashes}", *body, f"{dashes}END RSA PRIVATE KEY{dashes}"]
    found = redact_value({"lines": ["-a", *(margin + line for line in lines), "+b"]})["lines"]
    assert len(found) == len(lines) + 2
    assert [one for one in body if any(one in line for line in found)] == []
    assert (found[0], found[-1]) == ("-a", "+b")


@given(st.lists(texts, min_size=2, max_size=5))
@settings(max_examples=MANY)
def test_a_list_keeps_no_more_than_the_text_of_its_rows(rows: list[str]) -> None:
    found = redact_value(rows)
    assert redact_value(found) == found
    if redact("\n".join(rows)) == "\n".join(rows) and all(redact(row) is row for row in rows):
        assert found is rows or any(row[:1] == "-" for row in rows)
