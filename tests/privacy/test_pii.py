"""``pii@1`` beyond its vectors: its rules' examples, and the laws it keeps."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionpipe.privacy import pii
from sessionpipe.privacy.rules import load
from tests.laws import MANY

RULES = load("pii@1")
# What the rules of each revision were.
REVISIONS = {1: "91e080c918ae4e25", 2: "b4c9eb24c61f6d70"}

ROWS = {
    "email": RULES["email"],
    **{f"phone-{form['id']}": form for form in RULES["phone"]["form"]},
    "home": RULES["home"],
    "home-dashed": RULES["home"]["dashed"],
}
MATCHES = [(name, *pair) for name, row in ROWS.items() for pair in row["match"]]
KEEPS = [(name, text) for name, row in ROWS.items() for text in row.get("keep", ())]

SIGNS = [*" \n'\"/\\:@.+-()=,<>", "/home/", "C:\\Users\\", "[email]", "~", "%40", "é", "\ud800", "tel "]
PIECES = [*(text for _, text, _ in MATCHES), *(text for _, text in KEEPS), *SIGNS]


def piece(index: int) -> str:
    return PIECES[index]


texts = st.lists(st.integers(0, len(PIECES) - 1).map(piece) | st.text(max_size=6), max_size=5).map("".join)


def test_the_rules_find_what_names_a_person() -> None:
    failed = [
        (rule, text, pii.reduce(text)) for rule, text, becomes in MATCHES if pii.reduce(text) != becomes
    ]
    assert MATCHES and failed == []


def test_what_looks_alike_stays() -> None:
    failed = [(rule, text, pii.reduce(text)) for rule, text in KEEPS if pii.reduce(text) is not text]
    assert KEEPS and failed == []


@pytest.mark.parametrize(
    "around",
    ["{}", "'{}'", '"{}"', "({})", "<{}>", "see {}, then", "a\\n{}\\nb", "\x1b[32m{}\x1b[0m", "\t{}\n"],
)
@pytest.mark.parametrize(
    "text", ["jane@example.com", "+49 30 1234567", "555-234-5678", "/home/jane", "C:\\Users\\jane"]
)
def test_it_is_found_between_any_signs(text: str, around: str) -> None:
    marks = {"j": "[email]", "+": "[phone]", "5": "[phone]", "/": "~", "C": "~"}
    assert pii.reduce(around.format(text)) == around.format(marks[text[0]])


@given(texts, st.sampled_from([None, "/home/jane", "/data/jane", "C:\\Users\\jane", "/", ""]))
@settings(max_examples=MANY)
def test_a_second_time_changes_nothing(text: str, home: str | None) -> None:
    once = pii.reduce(text, home)
    assert pii.reduce(once, home) == once


@given(texts)
@settings(max_examples=MANY)
def test_nothing_grows_but_by_its_marks(text: str) -> None:
    once = pii.reduce(text)
    assert len(once) <= len(text) + 7 * (once.count("[email]") + once.count("[phone]"))


def test_nothing_to_reduce_is_the_same_object() -> None:
    text = "v1.2.3 on 10.0.0.1:8080, 2026-09-28, 5552345678, src/home/x"
    assert pii.reduce(text) is text


def test_a_home_of_another_person_is_shortened_too() -> None:
    assert pii.reduce("/home/ann/x /home/jane/y", home="/home/jane") == "~/x ~/y"


def test_a_folder_that_only_begins_like_home_is_another() -> None:
    assert (
        pii.reduce("/data/jane-old/x /data/jane.bak /data/jane", home="/data/jane")
        == "/data/jane-old/x /data/jane.bak ~"
    )


@pytest.mark.parametrize("name", ["desk", "jane's Mac", "é", "\ud800"])
def test_a_machine_is_8_digits(name: str) -> None:
    hashed = pii.machine(name)
    assert len(hashed) == 8
    assert hashed == pii.machine(name)
    assert int(hashed, 16) >= 0


def _rules(value: Any) -> Any:
    """The rules without their examples, which do nothing."""
    if isinstance(value, dict):
        return {
            key: _rules(inner) for key, inner in value.items() if key not in ("revision", "match", "keep")
        }
    return [_rules(inner) for inner in value] if isinstance(value, list) else value


def test_a_changed_rule_has_a_new_revision() -> None:
    is_now = hashlib.sha256(json.dumps(_rules(RULES), sort_keys=True).encode()).hexdigest()[:16]
    hint = f"the rules changed: raise `revision` in pii@1.toml, and add {is_now} here"
    assert REVISIONS.get(RULES["revision"]) == is_now, hint
    assert RULES["revision"] == max(REVISIONS)
    assert RULES["name"] == pii.RULESET


@pytest.mark.parametrize("apart", [" ", ",", ", ", "\n", ";"])
def test_of_numbers_in_a_row_none_stays(apart: str) -> None:
    numbers = [f"+49 30 12345{number:02}" for number in range(30)]
    assert pii.reduce(apart.join(numbers)) == apart.join(["[phone]"] * len(numbers))
