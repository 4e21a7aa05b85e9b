"""A small soak; ``python -m tests.soak`` is the large one."""

from __future__ import annotations

from pathlib import Path

from tests.soak import soak


def test_killed_at_random_beside_a_receiver_that_dies_nothing_is_lost_and_nothing_is_changed(
    tmp_path: Path, compiled: Path | None
) -> None:
    figures = soak(tmp_path / "soak", events=400, kills=12, seed=20, mortality=3, compiled=compiled)
    assert figures.wrong == [], figures.show()
    assert (figures.lost, figures.changed, figures.file_lost, figures.file_duplicates) == (0, 0, 0, 0)
    assert figures.kills == 12
    assert compiled is None or figures.hooks_killed > 0
    assert figures.delivered == figures.file_lines >= 400
    assert sum(figures.deaths.values()) > 0
