"""The redaction benchmark's cases are what they say, so that its figures mean something."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.benchmarks.redaction import cases, seen, sessions
from tests.benchmarks.redaction.cases import Case, strings
from tests.benchmarks.redaction.judge import changed, masked, recall
from tests.benchmarks.redaction.template import seeded, written

SECRETS = list(cases.secrets())
PERSONAL, PERSONAL_STAYS = cases.personal()
STAYS = list(cases.stays())


def replaced(case: Case, value: Any) -> Any:
    """``value`` with exactly the secrets of ``case`` taken out."""
    if isinstance(value, dict):
        return {replaced(case, key): replaced(case, item) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(case, item) for item in value]
    if not isinstance(value, str):
        return value
    for secret in sorted(case.gone, key=len, reverse=True):
        value = value.replace(secret, "[redacted]")
    return value


@pytest.mark.parametrize("found", [SECRETS, PERSONAL], ids=["secrets", "personal"])
class TestCases:
    def test_each_has_its_secrets_and_its_surroundings(self, found: list[Case]) -> None:
        for case in found:
            text = strings(case.value)
            assert case.windows, (case.kind, case.context)
            assert [part for part in (*case.gone, *case.kept) if part not in text] == [], (
                case.kind,
                case.context,
            )

    def test_a_redactor_that_does_nothing_finds_nothing_and_damages_nothing(self, found: list[Case]) -> None:
        seen = recall(lambda value: value, found)
        assert (seen.removed, seen.around) == (0.0, 100.0)

    def test_one_that_takes_out_exactly_the_secrets_is_perfect(self, found: list[Case]) -> None:
        for case in found:
            out = replaced(case, case.value)
            assert (case.leak(out), case.damage(out)) == (None, None), (case.kind, case.context)

    def test_one_that_takes_out_everything_damages_what_is_around(self, found: list[Case]) -> None:
        with_rest = [case for case in found if case.kept]
        assert recall(lambda value: "[redacted]", with_rest).around == 0.0

    def test_half_a_secret_left_counts(self, found: list[Case]) -> None:
        case = next(case for case in found if isinstance(case.value, str) and len(case.gone[0]) >= 16)
        half = case.gone[0][: len(case.gone[0]) // 2]
        assert case.leak(case.value.replace(half, "[redacted]"))

    def test_no_template_is_left_unwritten(self, found: list[Case]) -> None:
        assert [case.context for case in found if set(strings(case.value)) & set("‹›⟦⟧")] == []

    def test_printing_one_shows_no_secret(self, found: list[Case]) -> None:
        for case in found:
            shown = masked(strings(case.value), case.gone, 10_000)
            assert [secret for secret in case.gone if secret in shown] == []


def test_there_are_enough_of_them() -> None:
    assert len(SECRETS) >= 400
    assert len(STAYS) >= 300
    assert len({case.kind for case in SECRETS}) >= 150
    assert len({case.context for case in SECRETS}) >= 100


def test_no_context_has_most_of_a_benchmark() -> None:
    assert max(Counter(case.context for case in SECRETS).values()) <= len(SECRETS) / 50


def test_they_are_the_same_every_time() -> None:
    assert [case.value for case in cases.secrets()] == [case.value for case in SECRETS]


def test_no_two_texts_that_must_stay_are_the_same() -> None:
    texts = [strings(stay.value) for stay in STAYS]
    assert [text for text, count in Counter(texts).items() if count > 1] == []
    assert not {character for text in texts for character in text} & set("‹›⟦⟧")


def test_a_changed_text_is_counted() -> None:
    assert len(changed(lambda value: "", STAYS + PERSONAL_STAYS)) == len(STAYS) + len(PERSONAL_STAYS)


def test_the_corpus_has_the_shares_of_a_session_and_no_message_twice() -> None:
    texts = sessions.corpus(1 << 20)
    assert len(set(texts)) == len(texts)
    assert 1 << 20 <= sum(map(sessions.size, texts)) < 2 << 20
    assert sum(sessions.SHARES.values()) == 100


def test_what_agents_see_is_cut_at_line_ends_and_nothing_of_it_is_lost() -> None:
    whole = "".join(f"line {number}\n" for number in range(2000))
    messages = list(seen._messages(whole, seeded("seen")))
    assert len(messages) > 2
    assert "\n".join(messages).rstrip("\n") == whole.rstrip("\n")


def test_names_of_secrets_are_counted() -> None:
    assert seen.names(["API_KEY and a Token" + "." * 481, "." * 500]) == 2.0


def test_events_hold_the_whole_text() -> None:
    assert [event["data"]["output"]["stdout"] for event in sessions.events(["a", "b"])] == ["a", "b"]


def test_a_wrapped_secret_is_two_parts_and_what_is_kept_keeps_its_line_break() -> None:
    made = written("‹wrap:8›⟦0123456789⟧‹!10:hex›‹/wrap›", seeded("wrap"))
    assert made.kept == ("01234567\n89",)
    assert [len(part) for part in made.gone] == [6, 4]
    assert made.text == "01234567\n89" + made.gone[0] + "\n" + made.gone[1]


def test_an_encoded_secret_is_what_stands_in_the_text() -> None:
    made = written('‹json›"‹json›‹!quoted›‹/json›"‹/json›', seeded("encoded"))
    assert made.text == f'\\"{made.gone[0]}\\"'
    assert "\\" in made.gone[0]
