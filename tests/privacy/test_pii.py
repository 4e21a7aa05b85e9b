"""``pii@1`` beyond its vectors: the laws it keeps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionpipe.privacy import pii
from sessionpipe.privacy.rules import load

EXAMPLES = [
    text
    for rule in load("pii@1")["rule"]
    for text in (*(pair[0] for pair in rule["match"]), *rule.get("keep", ()))
]
SIGNS = [*" \n'\"/\\:@.+-()=,<>", "/home/", "C:\\Users\\", "[email]", "~", "%40", "é", "\ud800"]
PIECES = [*EXAMPLES, *SIGNS]


def piece(index: int) -> str:
    return PIECES[index]


texts = st.lists(st.integers(0, len(PIECES) - 1).map(piece) | st.text(max_size=6), max_size=5).map("".join)


@given(texts, st.sampled_from([None, "/home/jane", "/data/jane", "C:\\Users\\jane", "/", ""]))
@settings(deadline=None)
def test_a_second_time_changes_nothing(text: str, home: str | None) -> None:
    once = pii.reduce(text, home)
    assert pii.reduce(once, home) == once


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
