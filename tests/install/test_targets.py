"""The ``[install]`` tables say where hooks go, and a person's folder names are only ever names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessionpipe.adapters import registry
from sessionpipe.install.targets import Target, answers, expand, home, targets

ENV = {"HOME": "/home/dev", "PLACE": "/srv/place", "EMPTY": "", "RELATIVE": "place"}


@pytest.mark.parametrize(
    ("pattern", "expanded"),
    [
        ("~/.claude", "/home/dev/.claude"),
        ("~", "/home/dev"),
        ("~other/x", None),
        ("${PLACE}", "/srv/place"),
        ("${PLACE}/x", "/srv/place/x"),
        ("${ABSENT}", None),
        ("${EMPTY}", None),
        ("${RELATIVE}", None),
        ("${PLACE:-~/.codex}", "/srv/place"),
        ("${ABSENT:-~/.codex}/x", "/home/dev/.codex/x"),
        ("${EMPTY:-~/.codex}", "/home/dev/.codex"),
    ],
)
def test_patterns_become_absolute_folders_or_nothing(pattern: str, expanded: str | None) -> None:
    assert expand(pattern, ENV) == expanded


def test_a_star_in_somebody_s_name_is_no_pattern(tmp_path: Path) -> None:
    odd = tmp_path / "a*[b]"
    for name in (odd, tmp_path / "axb"):
        (name / ".claude-work").mkdir(parents=True)
        (name / ".claude-work" / "settings.json").touch()
    target = Target("x", (), {"dirs": ["~/.claude-*"], "marks": ["settings.json"], "file": "settings.json"})
    assert target.files({"HOME": str(odd)}) == [odd / ".claude-work" / "settings.json"]


def test_a_folder_that_may_not_be_looked_into_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = Target("x", (), {"dirs": ["${PLACE}", "~/file"], "file": "f"})
    assert target.files({"HOME": str(tmp_path), "PLACE": "/proc/1/root/x"}) == []


def test_the_home_is_the_environment_s_before_the_account_s() -> None:
    assert home({"HOME": "/home/dev"}) == Path("/home/dev")
    assert home({"HOME": "", "USERPROFILE": "/users/dev"}) == Path("/users/dev")
    assert home({}).is_absolute()


def test_every_table_is_whole() -> None:
    known = {
        "entries": {"at", "entry", "timeout", "timeouts", "matcher", "matched", "trust"},
        "file": {"source"},
    }
    shared = {"kind", "dirs", "marks", "file", "note", "answer", "unanswered"}
    assert set(targets()) == {name for name in registry.names() if "install" in registry.table(name)}
    for target in targets().values():
        assert set(target.table) <= shared | known[target.kind], target.harness
        assert target.events, target.harness
        assert set(target.table.get("matched", ())) | set(target.table.get("timeouts", ())) <= set(
            target.events
        )
        assert isinstance(target.table.get("answer", ""), str)


def test_what_comes_as_an_argument_is_no_hook() -> None:
    assert registry.table("codex")["events"]["notify"]["payload"] == "argument"
    assert "notify" not in targets()["codex"].events


def test_nobody_is_answered_who_does_not_want_it() -> None:
    assert set(answers()) == {name for name, target in targets().items() if "answer" in target.table}
