"""Reading a journal as it stands and grows, and going to any position of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.journal import index, reduce, verify
from sessionpipe.journal.bundle import find
from sessionpipe.journal.index import Journal, Replaced
from tests.journal.making import Story, at, capture, conversation, line, lines, put, write
from tests.journal.recipes import Case, cases, edit, sound

START = 1785405600.0  # of tests.journal.making


def opened(root: Path) -> Journal:
    """The journal of a bundle's last session, nothing read."""
    bundle = find(root)
    return Journal(bundle, bundle.sessions[-1])


def long_story() -> Story:
    """A thousand events: deltas in long and short messages, tools, some of it never finished."""
    story = conversation()
    for turn in range(3, 12):
        story.event("turn_started", {"turnIndex": turn}, turnId=f"t{turn}")
        story.begin(f"t{turn}", f"m{turn}x")
        story.text(f"t{turn}", f"m{turn}x", *(f"{n} " for n in range(100)))
        story.tool(f"t{turn}", f"m{turn}x", "call_1", "ls", {}, {"turn": turn}, updates=turn % 3)
        if turn % 4:
            story.settle(f"t{turn}", f"m{turn}x", "e2" if turn % 2 else None)
        story.event("turn_finished", {"turnIndex": turn, "toolCallIds": []}, turnId=f"t{turn}")
    return story


# --- positions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stretch", [1, 7, 100, 10_000])
def test_any_position_is_what_the_events_until_there_reduce_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stretch: int
) -> None:
    monkeypatch.setattr(index, "STRETCH", stretch)
    story = long_story()
    journal = opened(write(tmp_path / "bundle", story)).read_all()
    last = len(story.events)
    for seq in {*range(0, last, 61), *range(30), *range(last - 3, last + 3)}:
        assert journal.seek(seq).state() == reduce(story.entries, story.events, seq)


def test_seeking_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "STRETCH", 10)
    story = long_story()
    journal = opened(write(tmp_path / "bundle", story)).read_all()
    for seq in (500, 3, 700, 500, 0, 3):
        assert journal.seek(seq).state() == reduce(story.entries, story.events, seq)
    assert journal.reducer.state() == reduce(story.entries, story.events)


def test_seeking_folds_no_more_than_a_stretch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = long_story()
    journal = opened(write(tmp_path / "bundle", story)).read_all()
    read = 0

    def counting(data: bytes) -> dict[str, Any]:
        nonlocal read
        read += 1
        return parse(data)

    parse = index.parse
    monkeypatch.setattr(index, "parse", counting)
    for seq in range(0, len(story.events), 17):
        read = 0
        journal.seek(seq)
        assert read <= index.STRETCH + 1


def test_a_journal_that_ends_nothing_is_not_copied_over_and_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "STRETCH", 1)
    story = Story()
    for n in range(2000):
        story.begin("t", f"m{n}")
    journal = opened(write(tmp_path / "bundle", story)).read_all()
    assert sum(len(point.snapshot.open) for point in journal._checkpoints) < 2000
    assert journal.seek(1234).state() == reduce([], story.events, 1234)


_TIMES = st.lists(st.integers(0, 30), min_size=1, max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(times=_TIMES, stretch=st.integers(1, 4))
def test_a_time_is_the_last_event_that_nothing_later_came_before(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], stretch: int
) -> None:
    """Ties are one moment, and an event after a step back is as late as the latest one before."""
    story = Story()
    for ms in times:
        story.event("tick")["at"] = at(ms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "STRETCH", stretch)
        journal = opened(write(tmp_path_factory.mktemp("times") / "bundle", story)).read_all()
    for ms in range(-1, 32):
        expected = sum(max(times[: n + 1]) <= ms for n in range(len(times)))
        assert journal.seq_at(START + (ms + 0.5) / 1000) == expected
    assert journal.ended == pytest.approx(START + max(times) / 1000)


def test_an_event_whose_time_is_none_is_with_the_one_before(tmp_path: Path) -> None:
    story = Story()
    for when in (at(0), "noon", at(20)):
        story.event("tick")["at"] = when
    journal = opened(write(tmp_path / "bundle", story)).read_all()
    assert [journal.seq_at(START + ms / 1000) for ms in (-1, 0, 10, 20)] == [0, 2, 2, 3]


def test_events_from_a_position_on(tmp_path: Path) -> None:
    story = long_story()
    journal = opened(write(tmp_path / "bundle", story)).read_all()
    assert [event["seq"] for event in journal.events(990)] == list(range(991, len(story.events) + 1))
    assert list(journal.events(10_000)) == []


# --- growing ------------------------------------------------------------------------------------


def test_what_is_appended_is_handed_over_once_and_whole(tmp_path: Path) -> None:
    story = conversation()
    root = write(tmp_path / "bundle", story)
    whole = (root / "session/events.ndjson").read_bytes()
    (root / "session/events.ndjson").write_bytes(b"")
    journal, seen = opened(root), []
    with (root / "session/events.ndjson").open("ab", buffering=0) as file:
        for start in range(0, len(whole), 100):
            file.write(whole[start : start + 100])
            seen += [event["seq"] for event, _ in journal.read()]
            assert journal.reducer.state() == reduce(story.entries, story.events, len(seen))
    assert seen == list(range(1, len(story.events) + 1))


def test_files_may_come_after_their_reader(tmp_path: Path) -> None:
    (tmp_path / "session").mkdir()
    journal = opened(tmp_path)
    assert list(journal.read()) == []
    assert journal.verdict.rule == "capture-missing"
    write(tmp_path)
    assert len(list(journal.read())) == len(conversation().events)
    assert journal.verdict.status == "complete"


def test_an_entry_that_came_late_is_found_when_it_is_wanted(tmp_path: Path) -> None:
    story = conversation()
    root = write(tmp_path / "bundle", story)
    put(root / "session/entries.ndjson", b"")
    journal = opened(root).read_all()
    assert len(journal.reducer.diagnostics()) == 4
    assert journal.entry("e1") is None
    put(root / "session/entries.ndjson", lines(story.entries))
    assert journal.entry("e2") == story.entries[1]["entry"]
    assert journal.reducer.diagnostics() == []


@pytest.mark.parametrize("how", ["cut", "replaced", "removed"])
def test_a_journal_that_is_not_the_one_that_was_read_is_read_anew(tmp_path: Path, how: str) -> None:
    story = conversation()
    root = write(tmp_path / "bundle", story)
    path = root / "session/events.ndjson"
    journal = opened(root).read_all()
    if how == "cut":
        os.truncate(path, 100)
    else:
        path.rename(path.with_suffix(".old"))
    if how != "removed":
        put(path, lines(story.events[:3]) if how == "cut" else lines(story.events))
    with pytest.raises(Replaced):
        list(journal.read())
    count = {"cut": 3, "replaced": len(story.events), "removed": 0}[how]
    assert [event["seq"] for event, _ in journal.read()] == list(range(1, count + 1))
    assert journal.reducer.state() == reduce(story.entries, story.events, count)


# --- what it comes to ---------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name.replace(" ", "-"))
def test_who_looks_and_who_verifies_judge_a_capture_alike(case: Case, tmp_path: Path) -> None:
    root = sound(tmp_path / "bundle")
    for change in case.edits:
        edit(root, change)
    report = verify(root)
    if report.sessions:
        journal = opened(root).read_all()
        assert journal.verdict.status == case.status
        (session,) = report.sessions
        assert journal.counts == (session.counts["events"], session.counts["entries"])


def test_events_of_another_schema_are_not_read(tmp_path: Path) -> None:
    story = conversation()
    root = write(tmp_path / "bundle", story)
    put(root / "session/capture.json", capture(story, eventSchema="pi-workflows.session-event.v2"))
    journal = opened(root).read_all()
    assert (journal.available, journal.reducer.through_seq) == (False, 0)


def test_a_capture_is_stale_from_the_moment_the_run_is_over(tmp_path: Path) -> None:
    story = conversation()
    root = write(tmp_path / "bundle", story)
    put(root / "session/capture.json", capture(story, "recording"))
    finished = (root / "manifest.json").read_bytes()
    put(
        root / "manifest.json", finished.replace(b'"finishedAt"', b'"then"').replace(b"completed", b"running")
    )
    journal = opened(root).read_all()
    assert journal.verdict.status == "recording"
    put(root / "manifest.json", finished)
    assert journal.read_all().verdict.rule == "capture-stale"


def test_a_line_that_is_no_event_is_passed_over_and_remembered(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle")
    with (root / "session/events.ndjson").open("ab") as file:
        file.write(b"nonsense\n" + line([1]) + line({"seq": "x"}))
    journal = opened(root).read_all()
    assert journal.reducer.through_seq == len(conversation().events)
    assert journal.verdict.reason == (
        "events.ndjson, line 32: it can't be read; its capture says eventCount 31, the journal has 32"
    )
