"""Measuring: medians of alternating runs, and one line a figure."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping


def show(name: str, value: float, unit: str, budget: float, *, at_most: bool = True) -> None:
    """Print one figure against its budget."""
    fine = value <= budget if at_most else value >= budget
    sign = "<=" if at_most else ">="
    print(f"{name} {value:.2f} {unit} {sign}{budget:g} {'ok' if fine else 'OVER'}", flush=True)


def seconds(command: list[str], stdin: bytes, env: Mapping[str, str]) -> float:
    """How long a whole process takes, from before it starts to after it ended."""
    start = time.perf_counter()
    subprocess.run(
        command, input=stdin, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - start


def ratio(one: Callable[[], float], other: Callable[[], float], runs: int) -> tuple[float, float]:
    """The medians of both, measured alternately so that a slow moment touches both alike."""
    pairs = [(one(), other()) for _ in range(runs)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)
