"""A session block from many: nothing fuller is blanked, no better title replaced."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.receiver.merge import FIELDS, merge

FULL = {
    "machine": "studio",
    "cwd": "~/src/app",
    "repo": "https://example.org/app",
    "branch": "main",
    "model": "large-1",
    "title": "The person's own",
    "title_source": "custom",
    "url": "https://example.org/s/1",
    "account_id": "a1",
    "launched_by": "codex:c-1",
    "delegated_by": "pi:p-1",
    "attended": True,
}


@pytest.mark.parametrize(
    "nothing",
    [{}, dict.fromkeys(FULL, ""), dict.fromkeys(FULL), dict.fromkeys(FULL, 7), {name: [] for name in FULL}],
)
def test_what_is_absent_empty_or_of_another_type_blanks_nothing(nothing: dict[str, Any]) -> None:
    assert merge(FULL, nothing) == FULL


def test_what_is_said_later_holds() -> None:
    merged = merge(FULL, {"branch": "fix", "model": "large-2", "attended": False})
    assert merged == {**FULL, "branch": "fix", "model": "large-2", "attended": False}


def test_the_folder_is_the_one_it_started_in() -> None:
    assert merge(FULL, {"cwd": "~/elsewhere"})["cwd"] == "~/src/app"


@pytest.mark.parametrize("known", ["custom", "harness", "first-ask", "of-2031", None])
@pytest.mark.parametrize("said", ["custom", "harness", "first-ask", "of-2031", None])
def test_a_title_gives_way_to_an_equal_or_better_source(known: str | None, said: str | None) -> None:
    rank = {"custom": 3, "harness": 2, "first-ask": 1}
    old = {"title": "old", **({"title_source": known} if known else {})}
    new = {"title": "new", **({"title_source": said} if said else {})}
    gives_way = rank.get(said or "", 0) >= rank.get(known or "", 0)
    assert merge(merge({}, old), new)["title"] == ("new" if gives_way else "old")


def test_a_subagents_parent_is_nothing_about_the_session() -> None:
    assert merge({}, {"parent_id": "s", "model": "small"}, of_subagent=True) == {"model": "small"}
    assert merge({}, {"parent_id": "s"}) == {"parent_id": "s"}


def test_what_it_does_not_know_and_what_is_too_long_is_not_kept() -> None:
    merged = merge({}, {"id": "s", "seq": 4, "later": "x", "title": "t" * 9999})
    assert merged == {"title": "t" * FIELDS["title"]}


values = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
blocks = st.dictionaries(st.sampled_from([*FULL, "id", "later"]), values)


@given(blocks, blocks)
def test_nothing_is_ever_lost(first: dict[str, Any], second: dict[str, Any]) -> None:
    known = merge({}, first)
    merged = merge(known, second)
    assert set(known) <= set(merged)
    assert all(value not in ("", None) for value in merged.values())
    assert merge(merged, second) == merged
