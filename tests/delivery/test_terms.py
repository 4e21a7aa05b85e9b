"""Terms: what is kept of how a sink's events were made, and since when."""

from __future__ import annotations

import pytest

from sessionpipe.delivery import terms
from sessionpipe.delivery.batch import Limits, Policy
from sessionpipe.redaction import PLAIN

POLICY = Policy(2, pii=True, tools="main", without=frozenset({"session.backfill"}), home="/home/x")
NOW = terms.of(POLICY, Limits(9, 1000, envelope=10, strict=True))


def test_they_are_read_as_they_were_kept() -> None:
    found = terms.read(terms.since({}, NOW, 7), PLAIN)
    assert found == terms.Terms(POLICY, Limits(500, 990, strict=True), 7, PLAIN.stamp)


def test_a_sink_without_a_bound_has_none() -> None:
    found = terms.read(terms.since({}, terms.of(POLICY, Limits(9, 1000)), 0), PLAIN)
    assert found is not None
    assert not found.limits.strict


def test_they_go_on_until_one_changes() -> None:
    first = terms.since({}, NOW, 7)
    assert terms.since(first, NOW, 20) == first
    changed = terms.of(Policy(1), Limits(9, 1000))
    assert terms.since(first, changed, 20)["since"] == 20


def test_a_sink_that_starts_over_has_them_from_there() -> None:
    assert terms.since(terms.since({}, NOW, 7), NOW, 3)["since"] == 3


@pytest.mark.parametrize("stored", [{}, {"tier": "x"}, {"tier": 1}])
def test_what_was_not_kept_is_none(stored: dict[str, object]) -> None:
    assert terms.read(stored, PLAIN) is None
