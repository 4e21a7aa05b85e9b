"""Our entries come and go without a trace, whatever else is in the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.install.entries import Memory, launchers, look, merge, strip
from sessionpipe.install.jsonedit import Document
from sessionpipe.install.jsontree import NotPlainJson
from sessionpipe.install.launcher import command
from sessionpipe.install.leftalone import WrongShape
from sessionpipe.install.targets import Target, targets

from .test_jsonedit import commented, documents, values

LAUNCHER = Path("/home/dev/.local/state/sessionpipe/bin/sessionpipe-hook")
ELSEWHERE = Path("/old/place/bin/sessionpipe-hook")
HANDLER = {"type": "command", "command": "{command}", "timeout": "{timeout}"}
GROUPS = Target(
    "claude-code",
    ("SessionStart", "PreToolUse", "Stop"),
    {
        "at": ["hooks"],
        "entry": {"matcher": "{matcher}", "hooks": [HANDLER]},
        "timeout": 5,
        "timeouts": {"Stop": 3},
        "matcher": "*",
        "matched": ["PreToolUse"],
    },
)
FLAT = Target("cursor", ("stop", "preToolUse"), {"at": ["hooks"], "entry": HANDLER, "timeout": 5})
DEEP = Target("devin", ("Stop",), {"at": ["a", "b"], "entry": {"hooks": [HANDLER]}, "timeout": 1})
TARGETS = [GROUPS, FLAT, DEEP]
AT = {target.harness: target.ats[0] for target in TARGETS}

# Files as harnesses have them: other hooks, and anything at all beside them.
foreign = st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=9)})
groups = st.fixed_dictionaries(
    {"hooks": st.lists(foreign, max_size=2)}, optional={"matcher": st.text(max_size=3)}
)
events = st.sampled_from(["SessionStart", "PreToolUse", "Stop", "stop", "Other"])
hooks = st.dictionaries(events, st.lists(groups | foreign, max_size=3), max_size=4)
settings = st.fixed_dictionaries(
    {},
    optional={
        "hooks": hooks,
        "a": st.just({}) | st.fixed_dictionaries({"b": hooks}),
        "model": values,
        "zz": values,
    },
)


# Every place that harnesses really have, and what may stand where our entries go.
REAL = [target for places in targets().values() for target in places if target.kind == "entries"]
names = st.sampled_from(sorted({event for target in REAL for event in target.events} | {"Other"}))
lists = st.dictionaries(names, st.lists(groups | foreign, max_size=2), max_size=3)
anything = st.fixed_dictionaries(
    {},
    optional={
        "hooks": lists | st.lists(foreign, max_size=2),
        "sessionpipe": lists | st.just({"enabled": True}),
        "version": st.sampled_from([1, "v1", 2]),
        "Stop": st.lists(groups, max_size=2),
        "zz": st.just([{}, {"a": []}]),
    },
)


@st.composite
def real_files(draw: st.DrawFn, of: Sequence[Target] = REAL) -> tuple[str, Target]:
    """A file in any formatting, with comments where the harness reads them."""
    target = draw(st.sampled_from(of))
    plain = documents(anything) | st.text(" \t\r\n", max_size=3)
    text = draw(plain if "comments" not in target.reads else plain | commented(anything, marks=target.reads))
    return text, target


@given(real_files() | st.tuples(documents(settings), st.sampled_from(TARGETS)))
def test_what_is_put_in_comes_out_to_the_byte_and_a_second_time_changes_nothing(
    case: tuple[str, Target],
) -> None:
    text, target = case
    memory = Memory()
    try:
        once = merge(text, target, LAUNCHER, memory)
    except WrongShape:
        assert strip(text, target, memory) == text
        return
    assert look(once, target, LAUNCHER) == "installed"
    assert merge(once, target, LAUNCHER, memory) == once
    assert strip(once, target, memory) == text


@given(real_files())
def test_entries_of_another_installation_are_replaced_and_go_with_their_memory(
    case: tuple[str, Target],
) -> None:
    text, target = case
    memory = Memory()
    try:
        old = merge(text, target, ELSEWHERE, memory)
    except WrongShape:
        return
    assert (look(old, target, LAUNCHER), launchers(old, target)) == ("stale", {ELSEWHERE})
    new = merge(old, target, LAUNCHER, memory)
    assert new == merge(text, target, LAUNCHER, Memory())
    assert strip(new, target, memory) == text
    assert launchers(strip(new, target, None), target) == set()


@given(documents(settings), st.sampled_from(TARGETS))
def test_nothing_else_in_the_file_changes(text: str, target: Target) -> None:
    before, after = Document(text or "{}"), Document(merge(text, target, LAUNCHER, Memory()))
    for path, node in before.walk(()):
        if node.kind == "value":
            moved = after.get(path)
            assert moved is not None
            assert after.text[moved.at : moved.end] == before.text[node.at : node.end]


@given(documents(settings), st.sampled_from(TARGETS))
def test_entries_of_another_place_are_replaced_where_they_stand(text: str, target: Target) -> None:
    memory = Memory()
    old = merge(text, target, ELSEWHERE, memory)
    assert look(old, target, LAUNCHER) == "stale"
    new = merge(old, target, LAUNCHER, memory)
    assert new == merge(text, target, LAUNCHER, Memory())
    assert strip(new, target, memory) == text


@given(documents(settings), st.sampled_from(TARGETS), st.data())
def test_what_others_add_meanwhile_stays(text: str, target: Target, data: st.DataObject) -> None:
    """Other programs insert entries before and after ours; removal then takes exactly ours."""
    memory = Memory()
    document = Document(merge(text, target, LAUNCHER, memory))
    event = data.draw(st.sampled_from(target.events))
    place = (*AT[target.harness], event)
    theirs = {"hooks": [{"type": "command", "command": "theirs"}]}
    document.insert(place, None, theirs)
    document.insert(AT[target.harness], "Fresh", [theirs])
    document.insert((), "fresh", 1)
    left = json.loads(strip(document.text, target, memory))
    plain = json.loads(text)
    expected = plain
    for step in AT[target.harness]:
        expected = expected.setdefault(step, {})
    expected.setdefault(event, []).append(theirs)
    expected["Fresh"] = [theirs]
    plain["fresh"] = 1
    assert left == plain


@given(documents(settings), st.sampled_from(TARGETS))
def test_without_a_memory_ours_go_and_nothing_of_others(text: str, target: Target) -> None:
    left = json.loads(strip(merge(text, target, LAUNCHER, Memory()), target, None))

    def without_empty(value: Any, path: tuple[str, ...]) -> Any:
        # What we may have made cannot be told from what was there and empty.
        if isinstance(value, dict):
            kept = {key: without_empty(inner, (*path, key)) for key, inner in value.items()}
            ours = [(*AT[target.harness], event) for event in target.events] + [
                AT[target.harness][:n] for n in range(1, 3)
            ]
            return {
                key: inner for key, inner in kept.items() if inner not in ([], {}) or (*path, key) not in ours
            }
        return value

    assert without_empty(left, ()) == without_empty(json.loads(text), ())


@pytest.mark.parametrize("target", REAL, ids=lambda target: f"{target.harness} {target.table['file']}")
def test_what_others_add_to_the_file_meanwhile_stays(target: Target) -> None:
    memory = Memory()
    document = Document(merge("", target, LAUNCHER, memory), target.reads)
    at = target.ats[-1]
    theirs = {"command": "theirs"}
    if target.listed:
        document.insert(at, None, theirs)
    else:
        document.insert((*at, target.events[0]), None, theirs)
        document.insert(at, "Fresh", [theirs])
    document.insert((), "fresh", 1)
    left = Document(strip(document.text, target, memory), target.reads).root.plain()
    wanted: Any = [theirs] if target.listed else {target.events[0]: [theirs], "Fresh": [theirs]}
    for step in reversed(at):
        wanted = {step: wanted}
    # In a file that we made, what the file needs stays with what is left.
    for key, value in target.beside.items():
        wanted[key] = {**wanted[key], **value} if isinstance(value, dict) else value
    assert left == {**wanted, "fresh": 1}


COMMENTED = [target for target in REAL if "comments" in target.reads]


@given(real_files(COMMENTED), st.sampled_from(COMMENTED), st.data())
def test_a_comment_that_somebody_adds_meanwhile_stays(
    case: tuple[str, Target], target: Target, data: st.DataObject
) -> None:
    """Wherever it stands outside of our entries: in what we made, and in what we would take away whole."""
    memory = Memory()
    try:
        merged = merge("" if data.draw(st.booleans()) else case[0], target, LAUNCHER, memory)
    except WrongShape:
        return
    document = Document(merged, target.reads)
    lists = [(*target.ats[0], event) for event in target.events]
    open_ = [node.start + 1 for place in ((), target.ats[0], *lists) if (node := document.get(place))]
    text = merged
    for number, at in enumerate(sorted(data.draw(st.sets(st.sampled_from(open_), max_size=3)), reverse=True)):
        aside = data.draw(st.sampled_from(["/* keep {} */", "// keep {}\n"])).format(number)
        text = text[:at] + aside + text[at:]
    left = strip(text, target, memory)
    assert left.count("keep ") == text.count("keep ")
    assert b"sessionpipe-hook" not in left.encode()


@given(real_files())
def test_where_nothing_of_ours_is_nothing_is_taken_out(case: tuple[str, Target]) -> None:
    text, target = case
    if text.strip(" \t\r\n"):
        assert strip(text, target, None) == text


def test_groups_carry_a_matcher_only_where_the_adapter_wants_one() -> None:
    merged = json.loads(merge("{}", GROUPS, LAUNCHER, Memory()))
    assert merged["hooks"]["PreToolUse"] == [
        {
            "matcher": "*",
            "hooks": [
                {"type": "command", "command": command(LAUNCHER, "claude-code", "PreToolUse"), "timeout": 5}
            ],
        }
    ]
    assert merged["hooks"]["Stop"] == [
        {"hooks": [{"type": "command", "command": command(LAUNCHER, "claude-code", "Stop"), "timeout": 3}]}
    ]


def test_entries_of_events_no_longer_registered_go() -> None:
    wider = Target("claude-code", (*GROUPS.events, "Setup"), GROUPS.table)
    memory = Memory()
    wide = merge('{"a": 1}', wider, LAUNCHER, memory)
    assert look(wide, GROUPS, LAUNCHER) == "stale"
    narrow = merge(wide, GROUPS, LAUNCHER, memory)
    assert "Setup" not in json.loads(narrow)["hooks"]
    assert look(narrow, GROUPS, LAUNCHER) == "installed"


def test_doubled_entries_become_one() -> None:
    document = Document(merge("{}", GROUPS, LAUNCHER, Memory()))
    stop = document.get(("hooks", "Stop", 0))
    assert stop is not None
    document.insert(("hooks", "Stop"), None, stop.plain())
    document.insert(("hooks", "Stop", 0, "hooks"), None, stop.plain()["hooks"][0])
    assert look(document.text, GROUPS, LAUNCHER) == "stale"
    mended = merge(document.text, GROUPS, LAUNCHER, Memory())
    assert look(mended, GROUPS, LAUNCHER) == "installed"
    assert "Stop" not in strip(document.text, GROUPS, None)


def test_our_handler_in_somebody_s_group_is_ours_and_the_group_is_not() -> None:
    theirs = {"type": "command", "command": "theirs"}
    ours = {"type": "command", "command": command(ELSEWHERE, "claude-code", "Stop"), "timeout": 9}
    text = json.dumps({"hooks": {"Stop": [{"matcher": "x", "hooks": [theirs, ours]}]}})
    merged = json.loads(merge(text, GROUPS, LAUNCHER, Memory()))["hooks"]["Stop"]
    assert merged == [
        {
            "matcher": "x",
            "hooks": [theirs, {**ours, "command": command(LAUNCHER, "claude-code", "Stop"), "timeout": 3}],
        }
    ]
    stripped = strip(text, GROUPS, None)
    assert json.loads(stripped) == {"hooks": {"Stop": [{"matcher": "x", "hooks": [theirs]}]}}


@pytest.mark.parametrize(
    "similar",
    [
        "sessionpipe-hook claude-code Stop",
        "/usr/bin/sessionpipe-hook claude-code Stop",
        '"/opt/x/bin/sessionpipe-hook" claude-code Stop',
        '"/opt/x/bin/sessionpipe-hooks" claude-code Stop',
        '"/opt/x/bin/my-sessionpipe-hook" claude-code Stop',
        '"/opt/x/bin/sessionpipe-hook" claude-code Stop && rm -rf x',
        'echo "/opt/x/bin/sessionpipe-hook" claude-code Stop',
        '[ ! -x "/a/bin/sessionpipe-hook" ] || exec "/b/bin/sessionpipe-hook" claude-code Stop',
        command(LAUNCHER, "codex", "Stop"),
    ],
)
def test_a_similar_command_is_not_ours(similar: str) -> None:
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": similar}]}]}})
    assert look(text, GROUPS, LAUNCHER) == "missing"
    assert strip(text, GROUPS, None) == text
    assert (
        json.loads(merge(text, GROUPS, LAUNCHER, Memory()))["hooks"]["Stop"][0]["hooks"][0]["command"]
        == similar
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "the top level is no object at line 1"),
        ('{\n  "hooks": []}', '"hooks" is no object at line 2'),
        ('{"hooks": {\n"Stop": {}}}', '"Stop" is no array at line 2'),
        ('{"hooks": null}', '"hooks" is no object at line 1'),
    ],
)
def test_another_shape_is_not_written_into(text: str, complaint: str) -> None:
    with pytest.raises(WrongShape, match=complaint):
        merge(text, GROUPS, LAUNCHER, Memory())
    assert look(text, GROUPS, LAUNCHER) == "missing"
    assert strip(text, GROUPS, None) == text


def test_comments_are_refused_both_ways() -> None:
    for work in (
        lambda text: merge(text, GROUPS, LAUNCHER, Memory()),
        lambda text: strip(text, GROUPS, None),
    ):
        with pytest.raises(NotPlainJson, match="a comment at line 2"):
            work('{\n  // mine\n  "a": 1\n}')


def test_launchers_of_our_entries_are_told() -> None:
    awkward = Path('/tmp/a "b" $c `d` \\e/bin/sessionpipe-hook')
    merged = merge("{}", GROUPS, awkward, Memory())
    assert launchers(merged, GROUPS) == {awkward}
    assert look(merged, GROUPS, awkward) == "installed"
