"""A SESSION argument: a full id, harness:id, or a short id's beginning; several are never guessed."""

from __future__ import annotations

import pytest

from sessionpipe.cli.common import Fail
from sessionpipe.cli.resolve import matches, resolve
from sessionpipe.outbox import SessionRow
from sessionpipe.protocol import short_id


def row(harness: str, id_: str) -> SessionRow:
    return SessionRow(harness, id_, 1, 0, 0, "session.started", b"{}", b"{}")


CLAUDE = row("claude-code", "8c132906-8c3f-4814-870a-afc3d05e1d2e")
CODEX = row("codex", "01a10860-a43f-7ce2-b12f-a7911ae8a880")
SAME_ID = row("pi", "8c132906-8c3f-4814-870a-afc3d05e1d2e")
ALL = [CLAUDE, CODEX]


@pytest.mark.parametrize(
    "said",
    [CLAUDE.id, f"claude-code:{CLAUDE.id}", "58ab6602", "58ab", "58AB", "5"],
)
def test_a_session_has_these_names(said: str) -> None:
    assert resolve(said, ALL) is CLAUDE


@pytest.mark.parametrize("said", ["8c132906", "codex:8c132906", "58ab66021", "", "zz", "claude-code:"])
def test_the_ids_own_beginning_and_what_is_no_name_mean_nothing(said: str) -> None:
    with pytest.raises(Fail, match="no session is called"):
        resolve(said, ALL)


def test_two_harnesses_may_use_one_id_and_then_both_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Fail, match="means 2 sessions"):
        resolve(CLAUDE.id, [*ALL, SAME_ID])
    listed = capsys.readouterr().err
    assert f"58ab6602  claude-code:{CLAUDE.id}" in listed
    assert f"{short_id('pi', SAME_ID.id)}  pi:{SAME_ID.id}" in listed


def test_a_short_beginning_lists_all_it_may_mean_newest_first() -> None:
    many = [row("pi", f"session-{number}") for number in range(64)]
    letter = short_id("pi", "session-0")[0]
    found = matches(letter, many)
    assert len(found) > 1
    assert found == [one for one in many if short_id("pi", one.id).startswith(letter)]


def test_a_whole_id_is_never_taken_for_a_short_one() -> None:
    named_like_a_short_id = row("pi", "58ab6602")
    assert matches("58ab6602", [CLAUDE, named_like_a_short_id]) == [named_like_a_short_id]
