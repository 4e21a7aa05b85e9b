"""Finding the code of a kind of sink among the installed packages."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionpipe.config import SinkConfig
from sessionpipe.outbox import SinkState
from sessionpipe.sinks import build
from sessionpipe.sinks.base import NotReady, Setup
from sessionpipe.sinks.http import HttpSink
from sessionpipe.sinks.plugins import installed, load
from tests.plugin import install, metadata, written

SINK = """
from sessionpipe.sinks.base import Acked, Limits, Sink

class sink(Sink):
    def __init__(self, setup):
        self.setup = setup
    def limits(self):
        return Limits(10, 1000)
    def send(self, batch):
        return Acked()
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages; what is imported from it is forgotten afterwards."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def reason(kind: str) -> str:
    with pytest.raises(NotReady) as caught:
        load(kind)
    return str(caught.value)


def waits(kind: str) -> str:
    """What a sink of ``kind`` says before its first batch; empty when nothing is wrong."""
    config = SinkConfig(name="s", kind=kind, url="x")
    learned = build(config, SinkState(name="s"), log=lambda _level, _line: None).learn(0)
    return getattr(learned, "error", "")


def test_a_class_that_a_package_registered_makes_sinks(packages: Path) -> None:
    written(packages, "paper", SINK)
    assert waits("paper") == ""
    assert installed()["paper"] == "paper-package"


def test_so_does_a_function(packages: Path) -> None:
    written(
        packages, "paper", SINK.replace("class sink", "class Paper") + "\nsink = lambda setup: Paper(setup)\n"
    )
    assert waits("paper") == ""


def test_the_example_is_found(packages: Path) -> None:
    install(packages)
    assert installed()["sqlite"] == "sessionpipe-sqlite"
    assert "absolute path" in waits("sqlite")


def test_one_that_is_installed_later_is_found_then(packages: Path) -> None:
    assert "no installed package brings the sink kind paper" in waits("paper")
    info = written(packages, "paper", SINK)
    assert waits("paper") == ""
    shutil.rmtree(info)
    assert "no installed package" in waits("paper")


def test_a_kind_that_is_misspelt_is_told_what_is_meant() -> None:
    assert reason("htpp").endswith("did you mean http?")


def test_two_packages_of_one_kind_are_not_chosen_between(packages: Path) -> None:
    written(packages, "paper", SINK)
    written(packages, "paper", SINK, package="other")
    assert "(other and paper-package); uninstall all but one" in reason("paper")
    assert installed()["paper"] == "other and paper-package"


def test_one_package_in_two_folders_is_one(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(packages, "paper", SINK)
    again = tmp_path / "again"
    written(again, "paper", SINK)
    monkeypatch.syspath_prepend(str(again))
    assert waits("paper") == ""


def test_no_package_takes_the_name_of_ours(packages: Path) -> None:
    written(packages, "http", SINK, package="impostor")
    assert load("http") == HttpSink.make
    assert "http" not in installed()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import redis_that_nobody_has", "ModuleNotFoundError: No module named 'redis_that_nobody_has'"),
        ("raise RuntimeError('no')", "RuntimeError: no"),
        ("raise SystemExit(1)", "SystemExit"),
        ("sink = (", "SyntaxError"),
        ("other = 1", "AttributeError"),
        ("sink = 7", "neither a Sink nor a function"),
        ("class sink: pass", "neither a Sink nor a function"),
        ("sink = lambda setup: 7", "it makes a int, which is no Sink"),
        (SINK.replace("def limits", "def bounds"), "TypeError"),
        (SINK.replace("return Limits(10, 1000)", "return None"), "its limits"),
    ],
)
def test_code_that_is_no_sink_makes_it_wait_with_a_reason(packages: Path, code: str, says: str) -> None:
    written(packages, "paper", code)
    assert says in waits("paper")


def test_what_its_code_changes_in_what_it_is_handed_is_changed_nowhere_else(packages: Path) -> None:
    """Else a courier would take its sink for one that was set up anew, before every batch."""
    does = "setup.known['a']['b'] = setup.config.headers['a']['env'] = 'changed'"
    written(packages, "paper", SINK.replace("self.setup = setup", does))
    config = SinkConfig(name="s", kind="paper", url="x", headers={"a": {"env": "NAME"}})
    state = SinkState(name="s", discovery={"a": {}})
    assert build(config, state, log=lambda _level, _line: None).learn(0) is None
    assert (config.headers, state.discovery) == ({"a": {"env": "NAME"}}, {"a": {}})


def test_what_it_is_handed_shows_no_credential() -> None:
    """It may stand in a traceback, or in somebody's log."""
    config = SinkConfig(name="s", kind="paper", url="x", token="Zq7Zq7", headers={"a": "Zq7Zq7"})
    assert "Zq7" not in repr(Setup(config, {"a": "Zq7"}, {"TOKEN": "Zq7"}, lambda _level, _line: None))


@pytest.mark.parametrize(
    "value", ["", "paper_package", "paper_package:", ":sink", "a b:c", "paper_package:sink.x"]
)
def test_so_does_an_entry_point_that_leads_nowhere(packages: Path, value: str) -> None:
    metadata(packages, "paper-package", "1.0", {"sessionpipe.sinks": {"paper": value}})
    (packages / "paper_package.py").write_text(SINK)
    assert waits("paper") != ""


def test_metadata_that_can_not_be_read_is_no_others_trouble(packages: Path) -> None:
    info = written(packages, "paper", SINK)
    broken = metadata(packages, "broken", "1.0", {"sessionpipe.sinks": {"broken": "x:y"}})
    (broken / "METADATA").write_bytes(b"\xff\xfe")
    assert info.is_dir() and waits("paper") == "" and installed()["paper"] == "paper-package"
    assert "broken" in installed() and "ModuleNotFoundError" in waits("broken")
    (broken / "entry_points.txt").write_text("[sessionpipe.sinks\nnothing here\n")
    assert waits("paper") == "" and "broken" not in installed()
