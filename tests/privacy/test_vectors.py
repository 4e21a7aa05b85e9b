"""The redaction vectors of ``conformance/redaction``: what any implementation must do, done by ours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionpipe.conformance.redaction import (
    Ours,
    check_adversarial,
    check_case,
    check_session,
    load,
    text_of,
)
from sessionpipe.paths import data_dir
from sessionpipe.privacy.secrets import redact

FILES = {path.stem: load(path) for path in sorted((data_dir("conformance") / "redaction").glob("*.json"))}
SECRETS, PII = FILES["secrets@1"], FILES["pii@1"]


# The vectors are many and each takes next to no time: those of a file are one test, which names all that fail.


@pytest.mark.parametrize("ruleset", FILES)
def test_every_text(ruleset: str) -> None:
    ours = Ours(ruleset)
    results = [result for case in FILES[ruleset]["cases"] for result in check_case(case, ours)]
    assert len(results) == 2 * len(FILES[ruleset]["cases"])
    assert [result for result in results if not result.passed] == []


@pytest.mark.parametrize("ruleset", FILES)
def test_every_session_block(ruleset: str) -> None:
    ours = Ours(ruleset)
    results = [check_session(case, ours) for case in FILES[ruleset].get("session", ())]
    assert [result for result in results if not result.passed] == []


HOSTILE = [
    pytest.param(ruleset, case, id=f"{ruleset}-{case['name']}")
    for ruleset, vectors in FILES.items()
    for case in vectors.get("adversarial", ())
]


@pytest.mark.parametrize(("ruleset", "case"), HOSTILE)
def test_a_hostile_text_holds_up_nothing(ruleset: str, case: dict[str, Any]) -> None:
    assert check_adversarial(case, Ours(ruleset)).why == ""


def test_names_are_unique() -> None:
    for vectors in FILES.values():
        names = [case["name"] for key in ("cases", "adversarial", "session") for case in vectors.get(key, ())]
        assert len(names) == len(set(names))


def test_every_text_within_a_line_of_json_leaves_json() -> None:
    broken = []
    for case in SECRETS["cases"]:
        line = json.dumps({"a": text_of(case), "b": [text_of(case)]}, ensure_ascii=False)
        try:
            json.loads(redact(line))
        except ValueError:
            broken.append(case["name"])
    assert broken == []
