"""A program of ours as one key of somebody's TOML: it comes and goes, and every other byte stays."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.install.entries import Memory
from sessionpipe.install.launcher import program
from sessionpipe.install.leftalone import WrongShape
from sessionpipe.install.setting import launchers, look, merge, strip
from sessionpipe.install.targets import Target
from sessionpipe.install.tomltext import NotToml, statements

LAUNCHER = Path("/home/dev/.local/state/sessionpipe/bin/sessionpipe-hook")
ELSEWHERE = Path("/old/place/bin/sessionpipe-hook")
TARGET = Target(
    "codex", ("notify",), {"kind": "setting", "key": "notify", "event": "notify", "taken": "so it is"}
)
OURS = "notify = " + json.dumps(program(LAUNCHER, "codex", "notify"))

scalars = (
    st.booleans() | st.integers(-9, 9) | st.sampled_from(["a", '"', "[t]", "#", "notify = 1", "'''", "\\"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
blank = st.sampled_from(["", "\n", "# a word [t] 'x\n", "   \n", "\t# notify = []\n", "\r\n"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """The text of a TOML file: keys, tables, arrays over several lines, every kind of string, comments."""

    def rendered(value: Any) -> str:
        if isinstance(value, str) and "'" not in value:
            literal = [f"'{value}'", f"'''{value}\n[x]\nnotify = 1'''"]
            return draw(st.sampled_from([inline(value), *literal]))
        if isinstance(value, str):
            return draw(st.sampled_from([inline(value), f'"""\n{inline(value)[1:-1]}"""']))
        if isinstance(value, list):
            gap = draw(st.sampled_from(["", " ", "\n  ", "\r\n  # ] in a comment\r\n  "]))
            return "[" + gap + ("," + gap).join(map(rendered, value)) + gap + "]"
        return inline(value)

    def inline(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {inline(inner)}" for key, inner in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(inline, value)) + "]"
        return json.dumps(value)  # JSON's words, numbers and strings are TOML's too

    def keys(prefix: str) -> str:
        lines = ""
        for number in range(draw(st.integers(0, 2))):
            comment = draw(st.sampled_from(["", " # why", "  "]))
            lines += draw(blank) + f"{prefix}{number} = {rendered(draw(values))}{comment}{draw(ends)}"
        return lines + draw(blank)

    ends = st.sampled_from(["\n", "\r\n"])
    text = keys("k")
    for number in range(draw(st.integers(0, 2))):
        header = draw(st.sampled_from([f"[t{number}]", f"[[a{number}]]", f'["x.{number}"] # notify']))
        text += header + draw(ends) + keys("notify" if draw(st.booleans()) else "m")
    return text.rstrip("\r\n") if draw(st.booleans()) else text


@given(documents())
def test_the_statements_are_all_of_the_text(text: str) -> None:
    found = statements(text)
    assert "".join(statement.text for statement in found) == text
    together: dict[str, Any] = {}
    for statement in found:
        if not statement.table and not statement.is_header:
            together |= tomllib.loads(statement.text)
    tables = {key for key, value in tomllib.loads(text).items() if key not in together}
    assert together == {key: value for key, value in tomllib.loads(text).items() if key not in tables}


@given(documents())
def test_what_is_put_in_stands_at_the_top_level_and_comes_out_to_the_byte(text: str) -> None:
    merged = merge(text, TARGET, LAUNCHER, Memory())
    assert tomllib.loads(merged) == {**tomllib.loads(text), "notify": program(LAUNCHER, "codex", "notify")}
    assert look(merged, TARGET, LAUNCHER) == "installed"
    assert merge(merged, TARGET, LAUNCHER, Memory()) == merged
    assert strip(merged, TARGET, None) == text


@given(documents())
def test_another_place_s_is_replaced(text: str) -> None:
    old = merge(text, TARGET, ELSEWHERE, None)
    assert look(old, TARGET, LAUNCHER) == "stale"
    assert launchers(old, TARGET) == {ELSEWHERE}
    assert merge(old, TARGET, LAUNCHER, None) == merge(text, TARGET, LAUNCHER, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "{}\n"),
        ('model = "x"\n', 'model = "x"\n{}\n'),
        ('model = "x"', 'model = "x"\n{}'),
        ('model = "x"\r\n[t]\r\n', 'model = "x"\r\n{}\r\n[t]\r\n'),
        ("# mine\n\n# the table\n[t]\n", "# mine\n\n{}\n# the table\n[t]\n"),
        ("[t]\na = 1\n", "{}\n[t]\na = 1\n"),
        ("# mine", "# mine\n{}"),
        ('a = """\n[t]\n"""\nb = [\n  1, # ]\n]\n[t]\n', 'a = """\n[t]\n"""\nb = [\n  1, # ]\n]\n{}\n[t]\n'),
    ],
)
def test_it_stands_behind_the_last_key_before_the_first_table(before: str, after: str) -> None:
    assert merge(before, TARGET, LAUNCHER, None) == after.replace("{}", OURS)


@pytest.mark.parametrize("where", ["[t]\n", "[t]\na = 1\n", "[[t]]\n", "a = 1\n\n[t.u]\nb = [\n 1\n]\n"])
def test_a_line_of_ours_in_a_table_is_moved_to_the_top_level(where: str) -> None:
    text = f"{where}{OURS}\n"
    assert look(text, TARGET, LAUNCHER) == "stale"
    assert merge(text, TARGET, LAUNCHER, None) == merge(where, TARGET, LAUNCHER, None)
    assert strip(text, TARGET, None) == where


@pytest.mark.parametrize(
    "theirs",
    [
        'notify = ["bell"]\n',
        '"notify" = "bell"\n',
        "notify.x = 1\n",
        "[notify]\nx = 1\n",
        "notify = []\n",
        "[[notify]]\n",
    ],
)
def test_another_program_stays_and_that_is_said(theirs: str) -> None:
    with pytest.raises(WrongShape, match='its "notify" is taken: so it is'):
        merge(theirs, TARGET, LAUNCHER, None)
    assert look(theirs, TARGET, LAUNCHER) == "missing"
    assert strip(theirs, TARGET, None) == theirs


@pytest.mark.parametrize(
    "text",
    ["a = ", "a = 1\na = 2\n", "\ufeffa = 1\n", "[t\n", "secret = hunter2\n", "\0", "a = " + "[" * 9000],
)
def test_what_is_no_toml_is_left_alone_and_not_quoted(text: str) -> None:
    for work in (lambda: merge(text, TARGET, LAUNCHER, None), lambda: strip(text, TARGET, None)):
        with pytest.raises(NotToml, match=r"^not valid TOML: something unexpected at [a-z0-9 ]+$") as caught:
            work()
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ['a "b"', "a 'b'", "a\\b", "a $b `c`", "a\x7fb", "Zoë \U0001f600", "a\nb"])
def test_any_path_survives(name: str) -> None:
    awkward = Path("/tmp") / name / "bin/sessionpipe-hook"
    merged = merge('model = "x"\n', TARGET, awkward, None)
    assert launchers(merged, TARGET) == {awkward}
    assert look(merged, TARGET, awkward) == "installed"
    assert strip(merged, TARGET, None) == 'model = "x"\n'


@given(st.text())
def test_any_text_is_taken_or_left_alone(text: str) -> None:
    try:
        merged = merge(text, TARGET, LAUNCHER, None)
    except (NotToml, WrongShape):
        return
    assert strip(merged, TARGET, None) == text
