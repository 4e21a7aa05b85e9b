"""What verify says of bundles: each rule, and that nothing whatever makes it raise or hang."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.journal import verify
from sessionpipe.journal.validator import KEPT, RULES, Report
from tests.journal.making import artifact, binding, capture, conversation, line, lines, manifest, put, write
from tests.journal.recipes import Case, cases, edit, sound

CASES = cases()


def found(report: Report) -> list[tuple[str, str, int | None]]:
    """A report's violations without their words."""
    return [(item.rule, item.file, item.line) for item in report.violations]


# --- the cases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_a_case(case: Case, tmp_path: Path) -> None:
    root = sound(tmp_path / "bundle")
    for change in case.edits:
        edit(root, change)
    report = verify(root)
    assert sorted(found(report), key=str) == sorted(case.violations, key=str)
    warnings = [(item.rule, item.file, item.line) for item in report.warnings]
    assert sorted(warnings, key=str) == sorted(case.warnings, key=str)
    assert (report.status, report.ok) == (case.status, not case.violations)
    assert (report.reason is None) == (case.status in ("complete", "failed", "recording"))


def test_every_rule_has_a_case_of_its_own() -> None:
    alone = {case.violations[0][0] for case in CASES if len({rule for rule, *_ in case.violations}) == 1}
    warned = {rule for case in CASES for rule, *_ in case.warnings}
    assert set(RULES) == alone | warned | {"bundle-missing"}  # Nothing in a folder is the cause of that.


def test_no_folder_is_a_violation_too(tmp_path: Path) -> None:
    report = verify(tmp_path / "nowhere")
    assert (found(report), report.status, report.sessions) == (
        [("bundle-missing", ".", None)],
        "unverified",
        [],
    )


# --- what is looked at --------------------------------------------------------------------------


def test_a_session_folder_stands_for_itself(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle")
    edit(root, {"file": "session/events.ndjson", "line": 3, "text": "{"})
    report = verify(root / "session")
    assert ("line-malformed", "session/events.ndjson", 3) in found(report)
    assert report.bundle == str(root)


def test_a_session_folder_without_a_bundle_around_it_is_checked_for_what_it_is(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle")
    (root / "manifest.json").unlink()
    (root / "session").rename(root / "elsewhere")
    report = verify(root / "elsewhere")
    assert (report.ok, report.status) == (True, "complete")
    assert report.unchecked == ["changed-after-end: the manifest says no time at which the run ended"]


def test_every_segment_is_checked_and_the_worst_tells(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle")
    for name, when in (("a3", 2), ("a2", 1)):
        write(root, folder=f"session/segments/{name}")
        put(root / f"session/segments/{name}/binding.json", binding(boundAt=f"2026-07-30T10:00:0{when}Z"))
    (root / "session/segments/.DS_Store").write_bytes(b"not a segment")
    edit(root, {"file": "session/segments/a3/capture.json", "set": {"eventCount": 1}})
    report = verify(root)
    paths = [session.path for session in report.sessions]
    assert paths == ["session", "session/segments/a2", "session/segments/a3"]
    assert found(report) == [("capture-counts", "session/segments/a3/capture.json", None)]
    assert (report.status, report.counts["entries"]) == ("unverified", 12)


def test_artifacts_are_the_bundles_for_a_segment_too(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle")
    story = conversation()
    story.event("turn_started", {"turnIndex": 0}, turnId="t9")
    story.tool("t9", "m9", "c9", "read", {}, artifact(root, "x" * 5000))
    write(root, story, folder="session/segments/a2")
    report = verify(root / "session/segments/a2")
    assert (report.ok, report.counts["artifacts"]) == (True, 1)


def test_the_first_failure_of_a_capture_is_told(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle")
    failure = {"failedAt": "2026-07-30T10:00:01Z", "code": "queue_limit", "message": "too much at once"}
    edit(root, {"file": "session/capture.json", "set": {"status": "failed", "failure": failure}})
    (session,) = verify(root).sessions
    assert session.failure == failure


def test_a_copy_younger_than_its_run_is_a_warning_and_no_violation(tmp_path: Path) -> None:
    report = verify(write(tmp_path / "bundle"))
    assert report.ok
    assert [(item.rule, item.file) for item in report.warnings] == [("changed-after-end", "session")]


def test_a_change_while_it_is_read_is_a_violation_once_the_run_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = sound(tmp_path / "bundle")
    from sessionpipe.journal.files import Strict

    parse = Strict.parse

    def meddling(self: Strict, data: bytes) -> dict[str, Any]:
        (root / "session/entries.ndjson").touch()
        return parse(self, data)

    monkeypatch.setattr(Strict, "parse", meddling)
    assert found(verify(root)) == [("changed-after-end", "session/entries.ndjson", None)]


def test_of_one_rule_in_one_file_so_many_are_listed_and_the_rest_counted(tmp_path: Path) -> None:
    story = conversation()
    for _ in range(KEPT + 7):
        story.event("turn_started", turnId="t9")
    report = verify(write(tmp_path / "bundle", story))
    assert len([item for item in report.violations if item.rule == "payload-field"]) == KEPT
    assert report.omitted == {"payload-field": 7, "start-repeated": 6}


def test_the_report_as_json_has_all_of_it(tmp_path: Path) -> None:
    root = sound(tmp_path / "bundle")
    edit(root, {"file": "session/events.ndjson", "line": 12, "text": ""})
    shown = json.loads(json.dumps(verify(root).to_json()))
    assert shown["violations"][0] == {
        "rule": "line-malformed",
        "file": "session/events.ndjson",
        "line": 12,
        "message": "it is not JSON (Expecting value)",
    }
    assert (shown["ok"], shown["status"], shown["sessions"][0]["counts"]["events"]) == (
        False,
        "unverified",
        26,
    )


# --- whatever there is --------------------------------------------------------------------------

_FILES = [
    "manifest.json",
    *(f"session/{name}" for name in ("binding.json", "entries.ndjson", "events.ndjson")),
]
_FILES.append("session/capture.json")
_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = {
    "manifest.json": manifest(),
    "session/binding.json": binding(),
    "session/capture.json": capture(conversation()),
    "session/entries.ndjson": conversation().entries[0],
    "session/events.ndjson": conversation().events[8],
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("fuzz") / "bundle")


_fuzz = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@_fuzz
@given(name=st.sampled_from(_FILES), data=st.binary(max_size=200))
def test_bytes_of_any_kind_raise_nothing(bundle: Path, name: str, data: bytes) -> None:
    before = (bundle / name).read_bytes()
    try:
        (bundle / name).write_bytes(data)
        assert not verify(bundle).ok
    finally:
        (bundle / name).write_bytes(before)


@_fuzz
@given(name=st.sampled_from(_FILES), at=st.floats(0, 1), cut=st.integers(0, 3), data=st.binary(max_size=3))
def test_bytes_changed_anywhere_raise_nothing(
    bundle: Path, name: str, at: float, cut: int, data: bytes
) -> None:
    before = (bundle / name).read_bytes()
    place = int(at * len(before))
    try:
        (bundle / name).write_bytes(before[:place] + data + before[place + cut :])
        verify(bundle)
    finally:
        (bundle / name).write_bytes(before)


@_fuzz
@given(name=st.sampled_from(_FILES), data=st.data())
def test_a_field_of_any_value_raises_nothing(bundle: Path, name: str, data: st.DataObject) -> None:
    before = (bundle / name).read_bytes()
    record = dict(_FIELDS[name])
    record[data.draw(st.sampled_from(sorted(record)))] = data.draw(_anything)
    try:
        (bundle / name).write_bytes((before if name.endswith("ndjson") else b"") + line(record))
        json.dumps(verify(bundle).to_json())
    finally:
        (bundle / name).write_bytes(before)


def test_a_line_longer_than_any_that_is_read_is_named_and_costs_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sessionpipe.journal.files as files

    monkeypatch.setattr(files, "LONGEST_LINE", 4096)
    monkeypatch.setattr("sessionpipe.journal.validator.MAX_RECORD_BYTES", 1024)
    root = write(tmp_path / "bundle")
    edit(root, {"file": "session/events.ndjson", "line": 12, "fill": {"payload.note": 5000}})
    assert found(verify(root)) == [
        ("line-size", "session/events.ndjson", 12),
        ("capture-counts", "session/capture.json", None),
    ]


# --- while it is recorded -----------------------------------------------------------------------


def test_a_bundle_is_sound_at_every_moment_of_its_recording(tmp_path: Path) -> None:
    story = conversation()
    root = write(tmp_path / "bundle", story)
    running = manifest(status="running")
    del running["finishedAt"]
    put(root / "manifest.json", running)
    events, seen = lines(story.events), set()
    for end in range(0, len(events) + 1, 97):
        put(root / "session/events.ndjson", events[:end])
        whole = events[:end].count(b"\n")
        for lag in {0, whole // 2, whole}:
            said = capture(story, "recording", eventCount=lag, lastEventSeq=lag, entryCount=0)
            put(root / "session/capture.json", said)
            report = verify(root)
            assert found(report) == []
            seen.add(report.status)
    assert seen == {"recording"}
