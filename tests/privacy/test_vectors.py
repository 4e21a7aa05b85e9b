"""The redaction vectors of ``conformance/redaction``: what any implementation must do, done by ours."""

from __future__ import annotations

from typing import Any

import pytest

from sessionpipe.conformance.redaction import Ours, check_adversarial, check_case, check_session, load
from sessionpipe.paths import data_dir

FILES = {path.stem: load(path) for path in sorted((data_dir("conformance") / "redaction").glob("*.json"))}
SECRETS, PII = FILES["secrets@1"], FILES["pii@1"]


def cases(part: str) -> list[Any]:
    return [
        pytest.param(ruleset, case, id=f"{ruleset}-{case['name']}")
        for ruleset, vectors in FILES.items()
        for case in vectors.get(part, ())
    ]


@pytest.mark.parametrize(("ruleset", "case"), cases("cases"))
def test_a_text(ruleset: str, case: dict[str, Any]) -> None:
    for result in check_case(case, Ours(ruleset)):
        assert result.got == result.wanted, result.kind


@pytest.mark.parametrize(("ruleset", "case"), cases("session"))
def test_a_session_block(ruleset: str, case: dict[str, Any]) -> None:
    result = check_session(case, Ours(ruleset))
    assert result.got == result.wanted


@pytest.mark.parametrize(("ruleset", "case"), cases("adversarial"))
def test_a_hostile_text_holds_up_nothing(ruleset: str, case: dict[str, Any]) -> None:
    assert check_adversarial(case, Ours(ruleset)).why == ""


def test_names_are_unique() -> None:
    for vectors in FILES.values():
        names = [case["name"] for key in ("cases", "adversarial", "session") for case in vectors.get(key, ())]
        assert len(names) == len(set(names))
