"""The kinds of sinks: the table, the packaging, and what a start costs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sessionpipe.kinds import GROUP, NAME, OURS, kind_of
from sessionpipe.sinks.base import Setup, Sink
from sessionpipe.sinks.plugins import load

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def test_ours_are_registered_as_anybodys_are() -> None:
    registered = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["entry-points"][GROUP]
    assert registered == {name: kind.code for name, kind in OURS.items()}


@pytest.mark.parametrize("name", OURS)
def test_the_code_of_each_makes_sinks(name: str) -> None:
    make = load(name)
    assert issubclass(make.__self__, Sink)  # type: ignore[attr-defined]
    assert NAME.fullmatch(name) and kind_of(name).name == name


@pytest.mark.parametrize("name", ["redis", "x", "git+ssh", "a.b-c"])
def test_any_other_name_is_of_a_kind_that_a_package_may_bring(name: str) -> None:
    kind = kind_of(name)
    assert (kind.code, kind.place, kind.network) == (None, "url", False)
    assert {"token", "secret_file", "headers"} <= set(kind.takes)


def test_a_sink_of_ours_looks_through_no_packages_and_loads_no_other_kind() -> None:
    """A worker starts with every hook that finds none: what it does not need it must not load."""
    code = """
import sys
from sessionpipe.config import SinkConfig
from sessionpipe.outbox import SinkState
from sessionpipe.sinks import build
sink = build(SinkConfig(name="f", kind="file", path=sys.argv[1]), SinkState(name="f"), log=print)
sink.learn(0)
sink.close()
heavy = ("importlib.metadata", "httpcore", "opentelemetry", "google.protobuf", "sessionpipe.sinks.http")
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, "/dev/null/x"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[]\n", done.stderr


def test_setup_hands_over_what_the_person_gave() -> None:
    from sessionpipe.config import SinkConfig

    config = SinkConfig(name="m", kind="m", url="x", token_env="T", headers={"a": "b", "c": {"env": "C"}})
    setup = Setup(config, {}, {"T": "tok", "C": "d"}, print)
    assert (setup.token(), setup.headers()) == ("tok", {"a": "b", "c": "d"})
