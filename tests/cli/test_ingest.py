"""``ingest``: how it may be called. What it does is tried on the whole process, in tests/e2e."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--tee", "--normalized"], "both want standard output"),
        (["--no-record"], "goes with --normalized"),
        (["--no-record", "--tee"], "goes with --normalized"),
        (["--raw"], "No such option"),
    ],
)
def test_what_makes_no_sense_is_refused(run: Callable[..., Result], words: list[str], why: str) -> None:
    done = run("ingest", "pi", *words)
    assert done.exit_code == 2
    assert why in done.stderr
    assert done.stdout == ""


def test_a_terminal_is_no_stream(run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionpipe.cli.ingest._is_terminal", lambda: True)
    done = run("ingest", "pi")
    assert done.exit_code == 2
    assert "nothing is piped in" in done.stderr


@pytest.mark.parametrize("words", [["ingest"], ["ingest", "--help"], ["ingest", "pi", "--help"]])
def test_the_help_has_an_example(run: Callable[..., Result], words: list[str]) -> None:
    done = run(*words)
    assert done.exit_code in (0, 2)
    assert "pi --mode json" in done.stdout + done.stderr
