"""Over config folders as people have them: all comes back as it was, or is left alone with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessionpipe.install.targets import targets

from .corpus import CORPUS, Case
from .person import Person


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_the_corpus_is_of_every_harness() -> None:
    assert {case.harness for case in CORPUS.values()} == set(targets())
    assert sum(len([name for name in case.files if not name.endswith("/")]) for case in CORPUS.values()) >= 40


@pytest.mark.parametrize("case", CORPUS.values(), ids=CORPUS)
def test_what_was_there_comes_back_or_is_left_alone_with_the_reason(person: Person, case: Case) -> None:
    case.put(person.home)
    before = person.everything()
    installed = person.install()
    once = person.everything()
    assert (once != before) == bool({report.did for report in installed} & {"created", "added"})
    assert once != before or case.left
    for report in installed:
        name = str(report.path.relative_to(person.home)) if report.path else ""
        if name in case.left:
            assert report.did in ("left alone", "skipped")
            assert report.why.startswith(case.left[name])
            assert once[name] == before[name]
        elif report.path:
            assert report.did in ("created", "added")
            assert (report.harness, report.why) == (case.harness, "")
    assert case.left.keys() <= {
        str(report.path.relative_to(person.home)) for report in installed if report.path
    }
    assert {report.did for report in person.install()} <= {"unchanged", "left alone", "skipped", "not found"}
    assert person.everything() == once
    assert {report.did for report in person.uninstall()} <= {"restored", "deleted"}
    assert person.everything() == before


@pytest.mark.parametrize("case", CORPUS.values(), ids=CORPUS)
def test_a_dry_run_shows_what_would_change_and_changes_nothing(person: Person, case: Case) -> None:
    case.put(person.home)
    before = person.everything()
    dry = person.install(dry_run=True)
    assert person.everything() == before
    wet = person.install()
    assert [report[:4] for report in dry] == [report[:4] for report in wet]
    for report in dry:
        added = [line for line in report.diff.splitlines() if line.startswith("+") and "sessionpipe" in line]
        assert bool(added) == (report.did in ("created", "added"))
    hooked = person.everything()
    assert all(
        bool(report.diff) for report in person.uninstall(dry_run=True) if report.harness != "sessionpipe"
    )
    assert person.everything() == hooked
