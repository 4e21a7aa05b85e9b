"""The [install] of people's own adapters: what of it is refused, and why."""

from __future__ import annotations

from typing import Any

import pytest

from sessionpipe.install.own import mistake, tried
from sessionpipe.install.targets import Target

TABLE: dict[str, Any] = {"events": {"Begin": {}, "End": {}}, "ignore": ["Hum"]}
PLACE: dict[str, Any] = {
    "kind": "entries",
    "dirs": ["${ACME_HOME:-~/.acme}"],
    "file": "settings.json",
    "at": ["hooks"],
    "entry": {"command": "{command}"},
}


def test_entries_in_a_file_are_what_it_may_write() -> None:
    assert mistake(TABLE, PLACE) is None
    assert tried(Target("acme", ("Begin",), PLACE)) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "file", "source": "../../x.js"}, "install.kind"),
        ({"kind": "setting"}, "install.kind"),
        ({"answer": "{}"}, "install.answer: the hook is silent"),
        ({"colour": "red"}, "install.colour: nothing reads it"),
        ({"dirs": []}, "install.dirs: it is needed, as a list"),
        ({"dirs": ["relative"]}, "install.dirs: each is a folder"),
        ({"dirs": [3]}, "install.dirs: each is a folder"),
        ({"file": 3}, "install.file: it is needed, as a string"),
        ({"file": "../../.bashrc"}, "install.file: it is a path below"),
        ({"file": "..\\x"}, "install.file: it is a path below"),
        ({"file": "/etc/x"}, "install.file: it is a path below"),
        ({"entry": "x"}, "install.entry: it is needed, as a table"),
        ({"events": ["Begin", "Explode"]}, "install.events: the adapter has no event Explode"),
        ({"matched": ["Explode"]}, "install.events: the adapter has no event Explode"),
    ],
)
def test_what_it_may_not_say_is_refused_with_its_place(change: dict[str, Any], reason: str) -> None:
    found = mistake(TABLE, {**PLACE, **change})
    assert found is not None and found.startswith(reason)


def test_what_looks_right_and_does_not_work_is_refused_too() -> None:
    found = tried(Target("acme", ("Begin",), {**PLACE, "timeouts": 3}))
    assert found is not None and found.startswith("install: ")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"entry": {"command": "run {command}"}}, "install.entry: nothing in it is {command} alone"),
        ({"entry": {"name": "{event}"}}, "install.entry: nothing in it is {command} alone"),
        ({"entry": {"command": "{command}", "odd": float("nan")}}, "install: "),
        ({"beside": "version"}, "install: "),
        ({"at": [3]}, "install: "),
        ({"at": ["version"], "beside": {"version": 1}}, "install: "),
        ({"unless_beside": 3}, "install: "),
        ({"unless_beside": "../other.json"}, "install: "),
    ],
)
def test_what_would_not_come_out_again_is_not_written(change: dict[str, Any], reason: str) -> None:
    found = tried(Target("acme", ("Begin",), {**PLACE, **change}))
    assert found is not None and found.startswith(reason)
