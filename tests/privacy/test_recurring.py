"""What recurs is looked at once by itself, and only what had nothing in it is remembered."""

from __future__ import annotations

from sessionpipe.privacy.recurring import SHORT, Recurring


def test_what_comes_a_third_time_is_looked_at_once() -> None:
    looked: list[str] = []
    recurring = Recurring(lambda one: looked.append(one) is None)
    for _ in range(3):
        assert recurring.known == set()
        recurring.meet(["cwd"])
    assert looked == ["cwd"]
    assert recurring.known == {"cwd"}


def test_what_has_something_in_it_is_not_remembered() -> None:
    recurring = Recurring(lambda one: "secret" not in one)
    for _ in range(10):
        recurring.meet(["a secret", "x" * (SHORT + 1)])
    assert recurring.known == set()
    assert all(isinstance(number, int) for number in recurring._met)


def test_what_is_remembered_has_a_bound() -> None:
    recurring = Recurring(lambda one: True)
    for number in range(10_000):
        recurring.meet([str(number)] * 3)
    assert len(recurring.known) <= 2048
    assert len(recurring._met) <= 2048 + 1
