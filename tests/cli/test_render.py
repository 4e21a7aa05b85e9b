"""One event, one line: what a person reads at each tier, and that nothing can break the terminal."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.cli import render
from sessionpipe.cli.render import describe, line, paint
from sessionpipe.protocol.vocabulary import VOCABULARY
from sessionpipe.words import SAYERS

DAY = date(2026, 11, 29)
SESSION = {
    "id": "8c132906-8c3f-4814-870a-afc3d05e1d2e",
    "seq": 1,
    "cwd": "~/src",
    "title": "Fix the login page",
}


def event(type_: str, data: dict[str, Any], **session: Any) -> dict[str, Any]:
    return {
        "type": type_,
        "time": "2026-11-29T19:43:03.204Z",
        "harness": {"name": "claude-code"},
        "session": {**SESSION, **session},
        "data": data,
    }


def words(type_: str, **data: Any) -> str:
    return describe(event(type_, data)).text


@pytest.mark.parametrize(
    ("said", "data"),
    [
        ("session.started", {"source": "startup"}),
        ("tool.ended", {"tool": "Bash", "ok": True}),
    ],
)
def test_a_line_names_when_who_and_where(said: str, data: dict[str, Any]) -> None:
    got = paint(line(event(said, data), today=DAY, zone=UTC), colour=False)
    assert got.startswith("19:43:03 claude-code 58ab6602 src: Fix the login page  ")


def test_a_day_that_is_not_today_is_named() -> None:
    assert line(event("session.ended", {}), today=date(2026, 11, 30), zone=UTC).when == "29 Nov 19:43:03"


def test_a_time_that_is_none_does_not_matter() -> None:
    assert line({"type": "session.ended", "time": 7}, today=DAY).when == "--:--:--"


@pytest.mark.parametrize(
    ("expected", "type_", "data"),
    [
        ("session started", "session.started", {"source": "startup"}),
        ("session started (resumed)", "session.started", {"source": "resume"}),
        ("session first seen", "session.started", {"source": "unknown"}),
        ("session ended", "session.ended", {"reason": "exit"}),
        ("session ended (clear)", "session.ended", {"reason": "clear"}),
        ("prompt", "turn.started", {"turn_id": "t"}),
        ("prompt (9 characters)", "turn.started", {"prompt_chars": 9, "submitted_by": "user"}),
        ("prompt by schedule_wakeup", "turn.started", {"submitted_by": "schedule_wakeup"}),
        ("woken", "turn.started", {"injected": True, "prompt_chars": 300}),
        ("done in 12 s", "turn.ended", {"reason": "stop", "ms": 12_345}),
        ("done", "turn.ended", {"reason": "stop"}),
        (
            "done in 1 min 5 s, 2 still running in the background",
            "turn.ended",
            {"reason": "stop", "ms": 65_000, "background": 2},
        ),
        (
            "failed after 3.0 s: rate_limit",
            "turn.ended",
            {"reason": "error", "ms": 3000, "error": "rate_limit"},
        ),
        ("interrupted", "turn.ended", {"reason": "interrupt"}),
        ("Bash …", "tool.started", {"tool": "Bash"}),
        ("Bash … make test", "tool.started", {"tool": "Bash", "input": {"command": "make\n  test"}}),
        ("Bash ok 1.8 s", "tool.ended", {"tool": "Bash", "ok": True, "ms": 1830}),
        (
            "Read ok 40 ms a.py",
            "tool.ended",
            {"tool": "Read", "ok": True, "ms": 40, "input": {"file_path": "a.py"}},
        ),
        (
            "Bash failed 0.3 s: Exit code 3 out",
            "tool.ended",
            {"tool": "Bash", "ok": False, "ms": 300, "error": "Exit code 3\nout"},
        ),
        ("[ab9497b8] Bash ok", "tool.ended", {"tool": "Bash", "ok": True, "agent_id": "ab9497b82924ede84"}),
        ("edited src/a.py", "files.changed", {"paths": ["src/a.py"]}),
        ("edited a, b, c and 2 more", "files.changed", {"paths": ["a", "b", "c", "d", "e"]}),
        ("needs you: permission", "attention.needed", {"attention_id": "x", "kind": "permission"}),
        (
            "needs you: permission Bash rm -rf build",
            "attention.needed",
            {"kind": "permission", "tool": "Bash", "message": "Bash rm -rf build"},
        ),
        (
            "needs you: a question: Which one?",
            "attention.needed",
            {"kind": "question", "message": "Which\none?"},
        ),
        ("needs you: your next prompt", "attention.needed", {"kind": "idle"}),
        ("answered", "attention.cleared", {"how": "answered"}),
        ("no longer waiting for you (cancelled)", "attention.cleared", {"how": "cancelled"}),
        ("[a1] subagent explorer started", "subagent.started", {"agent_id": "a1", "agent_type": "explorer"}),
        ("[a1] subagent ended", "subagent.ended", {"agent_id": "a1"}),
        ("context compacted (auto)", "context.compacted", {"trigger": "auto"}),
        ("“hi” → “hello there”", "turn.transcript", {"user": "hi", "assistant": "hello\nthere"}),
        ("“hi” → nothing", "turn.transcript", {"user": "hi", "assistant": ""}),
        ("usage: five_hour 42 %", "limits.observed", {"windows": [{"id": "five_hour", "used_percent": 42}]}),
        ("something.new", "something.new", {}),
    ],
)
def test_what_happened_in_words(expected: str, type_: str, data: dict[str, Any]) -> None:
    assert words(type_, **data) == expected


def test_every_type_of_the_vocabulary_has_words() -> None:
    assert set(SAYERS) == set(VOCABULARY)


def test_a_need_stands_out() -> None:
    assert describe(event("attention.needed", {"kind": "question"})).tone == "needs"


def test_the_home_is_written_as_people_write_it() -> None:
    said = event("tool.ended", {"tool": "Read", "ok": True, "input": {"file_path": "/home/dev/src/a.py"}})
    assert line(said, today=DAY, home="/home/dev").words.text == "Read ok ~/src/a.py"


def test_colour_is_only_added() -> None:
    import click

    row = line(event("tool.ended", {"tool": "Bash", "ok": False}), today=DAY, zone=UTC)
    assert click.unstyle(paint(row, colour=True)).rstrip() == paint(row, colour=False)


def test_a_terminal_gets_one_line_of_its_own_width() -> None:
    row = line(event("turn.transcript", {"user": "u" * 200, "assistant": "界" * 200}), today=DAY, zone=UTC)
    assert render.width(paint(row, colour=False, columns=100)) <= 100


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
FIELDS = sorted({name for kind in VOCABULARY.values() for name in kind.fields})


@given(
    type_=st.sampled_from(sorted(VOCABULARY)),
    data=st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=8),
    title=json_values,
    time=json_values,
)
def test_whatever_an_event_holds_it_is_one_printable_line(
    type_: str, data: Any, title: Any, time: Any
) -> None:
    said = {**event(type_, data, title=title), "time": time}
    got = paint(line(said, today=DAY, zone=UTC), colour=False)
    assert "\x1b" not in got
    assert len(got.splitlines()) == 1
    got.encode()


@given(st.text(max_size=60), st.integers(1, 40))
def test_cut_fits_and_pad_fills(text: str, columns: int) -> None:
    assert render.width(render.cut(text, columns)) <= columns
    assert render.width(render.pad(text, columns)) == columns


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2999, 1, 1)))
def test_a_clock_reads_protocol_times(moment: datetime) -> None:
    assert (
        render.clock(f"{moment:%Y-%m-%dT%H:%M:%S}.000Z", today=moment.date(), zone=UTC)
        == f"{moment:%H:%M:%S}"
    )
