"""People's own adapters: what may be written, what is refused and why, and that it is taken up at once."""

from __future__ import annotations

import copy
import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessionpipe import ownfiles
from sessionpipe.adapters import Refused, map_hook, registry
from sessionpipe.adapters.engine import compile_adapter
from sessionpipe.adapters.own import parse
from sessionpipe.adapters.values import Mistake
from sessionpipe.install.own import mistake, tried
from sessionpipe.install.targets import Target
from sessionpipe.paths import data_dir

ACME = """
harness = "acme"

[session]
id = "sid"

[events.Begin]
standing = "documented"
emit = [{ type = "session.started", source = "=startup" }]
"""
SHIPPED, HANDED_ON = ("claude-code", "codex"), ("HOME", "CODEX_HOME")


def read(text: str, file: str = "acme.toml") -> str:
    return parse(file, text, shipped=SHIPPED, forwarded=HANDED_ON).adapter.name


def test_a_table_like_the_shipped_ones_is_one() -> None:
    assert read(ACME) == "acme"


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("codex.toml", ACME, "codex comes with sessionpipe"),
        ("Acme Agent.toml", ACME, "other signs than a-z"),
        (".toml", ACME, "other signs than a-z"),
        ("acme.toml", "\nharness = = 3", "it is no TOML: .*line 2"),
        ("acme.toml", "[" * 5000, "it is no TOML"),
        ("other.toml", ACME, "harness must be the file's name"),
        ("acme.toml", 'harness = "acme"\nevents = {}\n[session]\nid = "s"', "nothing would come of it"),
        ("acme.toml", ACME + "colour = 3", "an event has standing"),
        ("acme.toml", ACME.replace("=startup", "$env.AWS_SECRET"), "no AWS_SECRET; it hands on CODEX_HOME, HOME"),
        ("acme.toml", ACME + '[hook]\nenvironment = ["PATH"]', "hands on no PATH"),
        ("acme.toml", ACME + '[hook]\nenvironment = "HOME"', "is a list of names"),
        ("acme.toml", 'hook = "HOME"' + ACME, "hook is a table"),
        (
            "acme.toml",
            ACME.replace('"=startup"', "{ from = \"x\", find = '(a+)+b' }"),
            "acme, events, Begin, emit, source, find: its pattern has a repeat without end",
        ),
        (
            "acme.toml",
            ACME + "[[claim.foreign]]\nharness = 'codex'\nwhen = { matches = { x = '(.*)*y' } }",
            "acme, claim, foreign, when, matches: its pattern",
        ),
    ],
)  # fmt: skip
def test_what_can_not_be_used_is_refused_with_its_place_and_reason(file: str, text: str, reason: str) -> None:
    with pytest.raises(Mistake, match=reason):
        read(text, file)


def test_the_guides_example_is_one() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (data_dir("adapters") / "README.md").read_text(), re.DOTALL)
    found = parse("acme.toml", example, shipped=registry.names(), forwarded=registry.environment())
    place = Target("acme", tuple(found.table["events"]), found.table["install"])
    assert mistake(found.table, place.table) is None
    assert tried(place) is None


def test_a_variable_that_the_hook_hands_on_may_be_read() -> None:
    assert read(ACME.replace('"sid"', '["sid", "$env.CODEX_HOME"]') + '[hook]\nenvironment = ["CODEX_HOME"]')


EVERYTHING = """
version = "v"
at = { from = "when", time = "rfc3339" }
ignore = ["Hum"]

[claim]
has = ["sid"]

[[claim.foreign]]
harness = "codex"
when = { matches = { kind = "x" } }
[[claim.foreign]]
harness = "codex"
when = { above = { n = 30 } }
[[claim.foreign]]
harness = "codex"
when = { close = { of = ["n", "m"], within = 3 } }

[session]
id = "sid"
cwd = { from = "folder", local = true }

[fields]
tool = "tool.name"
input = { from = "tool.arguments", json = true, at = "a.b" }

[ask]
without = ["description"]

[transcript]
path = "file"

[events.Tool]
standing = "documented"
also = ["ToolToo"]
emit = [{ type = "tool.ended", ok = { from = "word", map = { a = true, "*" = false } }, ms = { from = "n", scaled = 10 } }]

[events.Begin]
standing = "documented"
payload = "stdin"
emit = [
  { type = "session.started", source = { from = "word", last = 7, find = "([a-z]+)" } },
  { type = "turn.started", injected = { from = "word", starts = ["a"] }, when = { is = { word = "a" } }, memo = { prompt = "word" } },
  { type = "turn.ended", reason = "=stop", background = { count = "list", only = { has = "x" }, not = { holds = { y = 1 } }, except = { id = "n" } } },
  { type = "files.changed", paths = { from = "word", find_all = "[a-z]+" }, unless = { lacks = "word" } },
  { type = "limits.observed", windows = { all = [{ record = { name = "word", used_percent = "n", resets_at = { from = "n", moment = true } } }] } },
]
"""  # noqa: E501
ODD: tuple[Any, ...] = (3, 1.5, "word", "a..b", [], [1], [[]], {}, {"a": 1})


def odd_tables(table: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """``table`` with something odd in the place of everything in it, one place at a time."""
    for place in places(table):
        for odd in ODD:
            changed = copy.deepcopy(table)
            inner: Any = changed
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = odd
            yield f"{odd!r} in {place}", changed


def places(inner: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in inner.items() if isinstance(inner, dict) else enumerate(inner):
        yield (*place, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*place, key))


def test_whatever_a_person_writes_is_a_mistake_or_works() -> None:
    payload = {"sid": "s", "n": 31, "m": 30, "word": "a", "list": [{"x": 1, "y": [1]}], "kind": "k"}
    payload |= {"tool": {"name": "Sh", "arguments": '{"a": {"b": {"command": "ls"}}}'}}
    data = json.dumps(payload).encode()
    failed = []
    for what, table in odd_tables(tomllib.loads('harness = "acme"' + EVERYTHING)):
        try:
            adapter = compile_adapter("acme", table)
        except Mistake:
            continue
        for event in adapter.events:
            try:
                adapter.map(event, data, args=(), env={}, cwd="/w", at_ms=1, partial=False)
            except Refused:
                continue
            except Exception as error:
                failed.append(f"{what}: {error!r}")
    assert failed == []


class TestFolder:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Iterator[Path]:
        """The person's own adapters, and this process with none of them afterwards."""
        made = tmp_path / "config" / registry.FOLDER
        made.mkdir(parents=True)
        registry.refresh(tmp_path / "config")
        yield made
        for path in made.iterdir():
            path.unlink()
        registry.refresh(tmp_path / "config")

    @staticmethod
    def begins(payload: bytes = b'{"sid": "s-1"}') -> list[str]:
        return [draft["type"] for draft in map_hook("acme", "Begin", payload, env={}, cwd="/w", at_ms=1)]

    def test_it_is_known_beside_the_shipped_ones(self, folder: Path) -> None:
        (folder / "acme.toml").write_text(ACME)
        registry.refresh()
        assert set(registry.known()) == {*registry.names(), "acme"}
        assert "acme" not in registry.names()
        assert registry.table("acme")["harness"] == "acme"
        assert self.begins() == ["session.started"]

    def test_what_changed_is_taken_up_and_what_went_is_gone(self, folder: Path) -> None:
        file = folder / "acme.toml"
        file.write_text(ACME)
        first = registry.refresh()
        assert registry.refresh() is first
        file.write_text(ACME.replace("events.Begin", "events.Start"))
        registry.refresh()
        with pytest.raises(Refused, match="no event of this name"):
            self.begins()
        file.unlink()
        registry.refresh()
        with pytest.raises(Refused, match="no adapter has this harness's name"):
            self.begins()

    def test_one_that_is_nested_beyond_reason_stops_no_other(self, folder: Path) -> None:
        (folder / "acme.toml").write_text(ACME)
        (folder / "deep.toml").write_text(
            ACME.replace('"acme"', '"deep"') + "[install." + "a." * 1000 + "a]\n"
        )
        found = registry.refresh()
        assert list(found.tables) == ["acme"]
        assert [problem.file for problem in found.problems] == ["deep.toml"]

    def test_one_that_is_refused_stops_no_other(self, folder: Path) -> None:
        (folder / "acme.toml").write_text(ACME)
        (folder / "bad.toml").write_text("harness = 3")
        (folder / "latin.toml").write_bytes(b'harness = "\xe9"')
        (folder / "large.toml").write_bytes(b"#" * (ownfiles.LARGEST + 1))
        (folder / "claude-code.toml").write_text(ACME)
        os.mkfifo(folder / "pipe.toml")
        found = registry.refresh()
        assert list(found.tables) == ["acme"]
        told = {problem.file: str(problem) for problem in found.problems}
        assert set(told) == {"bad.toml", "latin.toml", "large.toml", "claude-code.toml", "pipe.toml"}
        assert "larger than 1 MiB" in told["large.toml"]
        assert told["pipe.toml"] == "pipe.toml: it is no file"
        assert map_hook("claude-code", "PostCompact", b"{}", env={}, cwd="/", at_ms=1) == []

    def test_more_files_than_anybody_writes_are_not_read(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ownfiles, "MOST_FILES", 2)
        for name in ("a", "b", "c"):
            (folder / f"{name}.toml").write_text(ACME.replace('"acme"', f'"{name}"'))
        found = registry.load(folder)
        assert list(found.tables) == ["a", "b"]
        assert "more than 2 files" in found.problems[0].reason

    def test_a_name_of_ours_beside_the_adapters_is_no_harness_module(self, folder: Path) -> None:
        from sessionpipe import harnesses

        (folder / "git.toml").write_text(ACME.replace('"acme"', '"git"'))
        registry.refresh()
        assert harnesses.get("git") == harnesses.Harness()
