"""The redaction vectors of ``conformance/redaction``: what any implementation must do, done by ours."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from sessionpipe.paths import data_dir
from sessionpipe.privacy.filter import filter_event
from sessionpipe.privacy.pii import reduce
from sessionpipe.privacy.secrets import redact
from tests.privacy.recipes import hostile, vector_input


def load(name: str) -> dict[str, Any]:
    vectors: dict[str, Any] = json.loads((data_dir("conformance") / "redaction" / name).read_text("utf-8"))
    return vectors


SECRETS, PII = load("secrets@1.json"), load("pii@1.json")


def by_name(case: dict[str, Any]) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", SECRETS["cases"], ids=by_name)
def test_secrets(case: dict[str, Any]) -> None:
    once = redact(vector_input(case))
    assert once == case["out"]
    assert redact(once) == once


@pytest.mark.parametrize("case", PII["cases"], ids=by_name)
def test_pii(case: dict[str, Any]) -> None:
    once = reduce(vector_input(case), home=case["home"])
    assert once == case["out"]
    assert reduce(once, home=case["home"]) == once


@pytest.mark.parametrize("case", PII["session"], ids=by_name)
def test_pii_of_a_session_block(case: dict[str, Any]) -> None:
    event = {"type": "session.ended", "tier": 0, "session": case["in"], "data": {"reason": "exit"}}
    filtered = filter_event(event, 0, True)
    assert filtered is not None
    assert filtered["session"] == case["out"]


@pytest.mark.parametrize("case", SECRETS["adversarial"], ids=by_name)
def test_hostile_texts_do_not_hold_up_secrets(case: dict[str, Any]) -> None:
    text = hostile(case["recipe"])
    before = time.process_time()
    redact(text)
    assert (time.process_time() - before) * 1000 < case["max_ms"]


@pytest.mark.parametrize("case", PII["adversarial"], ids=by_name)
def test_hostile_texts_do_not_hold_up_pii(case: dict[str, Any]) -> None:
    text = hostile(case["recipe"])
    before = time.process_time()
    reduce(text)
    assert (time.process_time() - before) * 1000 < case["max_ms"]


def test_names_are_unique() -> None:
    for vectors in (SECRETS, PII):
        names = [case["name"] for key in ("cases", "adversarial", "session") for case in vectors.get(key, ())]
        assert len(names) == len(set(names))
