"""faults: places where a test may make a process die or fail, and nobody else may."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import sessionpipe

#: Passes one.a, then one.b three times, saying so; a failure is said and survived.
PROGRAM = """
from sessionpipe import faults
try:
    for name in ("one.a", "one.b", "one.b", "one.b"):
        try:
            faults.point(name)
        except OSError as error:
            print("failed:", error, flush=True)
        else:
            print("passed", name, flush=True)
finally:
    print("the end", flush=True)
"""

A, B, END = "passed one.a", "passed one.b", "the end"


def run(fault: str | None) -> tuple[int, list[str]]:
    """The exit status of the program under ``SESSIONPIPE_FAULT=fault``, and the lines it printed."""
    env = {**os.environ, **({"SESSIONPIPE_FAULT": fault} if fault is not None else {})}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=60)
    assert ran.stderr == ""
    return ran.returncode, ran.stdout.splitlines()


@pytest.mark.parametrize("fault", [None, "", "=kill", ":1", "one", "one.c", "ONE.A=error"])
def test_points_that_nothing_names_are_passed(fault: str | None) -> None:
    assert run(fault) == (0, [A, B, B, B, END])


@pytest.mark.parametrize("fault", ["one.b", "one.b=kill", "one.b:1"])
def test_the_process_dies_at_the_point_that_is_named_without_cleaning_up(fault: str) -> None:
    assert run(fault) == (-signal.SIGKILL, [A])


@pytest.mark.parametrize(("fault", "before"), [("one.b:2", [A, B]), ("one.b:3=kill", [A, B, B])])
def test_it_may_pass_some_times_first(fault: str, before: list[str]) -> None:
    assert run(fault) == (-signal.SIGKILL, before)


def test_a_point_passed_less_often_than_that_is_passed() -> None:
    assert run("one.b:4") == (0, [A, B, B, B, END])


def test_it_may_fail_instead_and_does_so_once() -> None:
    assert run("one.b=error") == (0, [A, "failed: fault injected at one.b", B, B, END])


def test_it_may_fail_later() -> None:
    assert run("one.b:3=error") == (0, [A, B, B, "failed: fault injected at one.b", END])


def points() -> Counter[str]:
    """The points in the package's source, and how often each stands there."""
    names: Counter[str] = Counter()
    for module in Path(sessionpipe.__file__).parent.rglob("*.py"):
        text = module.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "faults.point" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "faults.point":
                (argument,) = node.args
                assert isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                names[argument.value] += 1
    return names


def test_every_point_in_the_package_has_a_name_of_its_own() -> None:
    """Or a test that names one would not know where the process dies."""
    names = points()
    assert names and [name for name, count in names.items() if count > 1] == []
