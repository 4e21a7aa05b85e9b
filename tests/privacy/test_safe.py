"""Which expressions are let in: none that a text could make slow."""

from __future__ import annotations

import pytest

from sessionpipe.privacy.safe import STEPS, Unsafe, check, literal


@pytest.mark.parametrize(
    "pattern",
    [
        r"acme_[A-Za-z0-9]{24,}",
        r"acme-[a-z]{1,40}-[0-9]+",
        r"(?i)kunde:? (?P<name>.{1,80}) gmbh",
        r"[A-Z]{2,5}-\d{4,8}",
        r"(?:\w{1,20} ){1,5}foo",
        r"PRJ-\d{4}(?!\d)",
        r"(?<=key=)[a-f0-9]{32}\b",
        r"(?:[a-z]{1,8}-){2,4}[0-9]{4}",
        r"(?>[a-z]{1,30})[a-z0-9]{1,30}x",
        r"Projekt [^\n]+",
    ],
)
def test_what_people_write_is_let_in(pattern: str) -> None:
    assert check(pattern).pattern == pattern


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b",
        r"(a|a)*b",
        r"(?:a?){30}a{30}",
        r"(?:a{1,10}){1,10}b",
        r"(?:[a-z]{1,9}){1,9}!",
        r"x[a-z]*y",
        r".*acme",
        r"[a-z]{0,900}[a-z]{0,900}1",
        r"(?=.*acme)x",
        r"((?:ab)+)?x",
        r"(a)(?(1)b|c)",
        r"x{5000}y",
    ],
)
def test_what_could_be_made_slow_is_not(pattern: str) -> None:
    with pytest.raises(Unsafe):
        check(pattern)


@pytest.mark.parametrize("pattern", ["", "a*", "a?", "^", r"\b", "(?:)", "a{0}"])
def test_what_matches_nothing_is_not(pattern: str) -> None:
    with pytest.raises(Unsafe):
        check(pattern)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"Acme_[a-z]{4}", "acme_"),
        (r"\d{4}-internal-\d{4}", "-internal-"),
        (r"(acme|globex)_x", None),
        (r"[ab]c\d", None),
        (r"é{2}abc", "abc"),
    ],
)
def test_the_text_every_match_has_is_its_keyword(pattern: str, found: str | None) -> None:
    assert literal(pattern) == found


def test_a_place_of_a_text_costs_at_most_so_much() -> None:
    assert STEPS <= 2_000
