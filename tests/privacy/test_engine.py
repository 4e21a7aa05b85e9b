"""The engine: what is found at a place depends on what stands near it, and looking takes time linear in the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.conformance.redaction import text_of
from sessionpipe.privacy import engine
from sessionpipe.privacy.secrets import redact
from tests.privacy.recipes import generated
from tests.privacy.test_vectors import SECRETS

CASES = [case for case in SECRETS["cases"] if case.get("t")]
FILLING = "All quiet here, nothing to report from this line of the log.\n"


@given(st.integers(0, len(CASES) - 1), st.integers(0, 400), st.integers(0, 400))
def test_a_far_away_context_changes_nothing(case: int, before: int, behind: int) -> None:
    text, becomes = text_of(CASES[case]), CASES[case]["out"]
    lead, tail = FILLING * before + "\n\n", "\n\n" + FILLING * behind
    assert redact(lead + text + tail) == lead + becomes + tail


@pytest.mark.parametrize("place", [8_150, 8_180, 8_192, 16_370, 40_000])
def test_a_secret_on_the_border_of_two_pieces_is_found(place: int) -> None:
    token = "ghp_" + generated(36)
    lead = (FILLING * 1000)[: place - 1] + " "
    assert redact(f"{lead}{token} and so on") == f"{lead}[redacted] and so on"


def test_what_repeats_is_found_each_time() -> None:
    unit = f"password={generated(12)} \n"
    assert redact(unit * 20_000) == "password=[redacted] \n" * 20_000


@pytest.mark.parametrize(
    "unit",
    [
        "password=a1 ", "password ", "token:", "://", "-----BEGIN ", "-----BEGIN PRIVATE " + "KEY-----", "\\",
        "\x1b[31m", "@", " ", "aB3", "key", "\"'`", "Cookie: a=b; ", "curl ", "eyJ", "ghp_", "https://a:b@",
        "kty ", "a\n", "│ ", "password is ", "-us1", ":*:", "sudo -S ", '{"password":"x"},',
        "name: password\n value: x\n", "| password |\n",
    ],
)  # fmt: skip
def test_twice_the_text_is_at_most_twice_the_looking(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Time lives in the benchmarks; here the steps are counted, on texts that never repeat so that
    # nothing is remembered.
    def looks(size: int) -> int:
        seen = 0

        def count(look: object) -> object:
            def counted(*arguments: object) -> object:
                nonlocal seen
                seen += 1
                return look(*arguments)  # type: ignore[operator]

            return counted

        with monkeypatch.context() as patch:
            patch.setattr(engine.assignments, "look", count(engine.assignments.look))
            text, number = [], 0
            while sum(map(len, text)) < size:
                text.append(unit * 9 + f"{number}")
                number += 1
            redact("".join(text))
        return seen

    few, many = looks(6_000), looks(12_000)
    assert many <= 2.5 * few + 20
