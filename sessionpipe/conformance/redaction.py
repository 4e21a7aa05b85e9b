"""Redaction vectors (conformance/redaction/README.md), run against ours or any program that filters text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import click

from sessionpipe.conformance.programs import argv_of, unusable

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

Kind = Literal["case", "again", "session", "adversarial"]
#: Rulesets we have an implementation of.
OURS = ("secrets@1", "pii@1")

_NEEDS = {
    "cases": ("name", "out"),
    "session": ("name", "in", "out"),
    "adversarial": ("name", "recipe", "max_ms"),
}
_SHOWN = 300
_TIMEOUT_S = 60


# --- vectors -------------------------------------------------------------------------------------


def load(path: Path) -> dict[str, Any]:
    """A file of vectors. Raises :class:`ValueError` naming what is wrong with it, :class:`OSError`."""
    vectors = json.loads(path.read_text("utf-8"))
    if not isinstance(vectors, dict) or not isinstance(vectors.get("ruleset"), str):
        raise ValueError("it names no ruleset")
    for part, needs in _NEEDS.items():
        for number, case in enumerate(vectors.get(part, []), 1):
            if not isinstance(case, dict) or any(key not in case for key in needs):
                raise ValueError(f"{part} {number} needs {', '.join(needs)}")
            try:
                if part == "cases":
                    text_of(case)
                elif part == "adversarial":
                    hostile({**case["recipe"], "times": 1, "then_times": 1})
                    int(case["recipe"]["times"])
            except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
                raise ValueError(f"{part} {number} is no case: {error!r}") from error
    return vectors


def made(recipe: Sequence[Mapping[str, Any]]) -> list[str]:
    """The parts of a case's secret: a prefix each, and as many characters of its alphabet behind it."""
    return [
        part["prefix"]
        + "".join(
            (abc := part.get("abc", ALPHABET))[(index * 7 + 3) % len(abc)] for index in range(part["len"])
        )
        for part in recipe
    ]


def text_of(case: Mapping[str, Any]) -> str:
    """The text of a case."""
    if "in" in case:
        return str(case["in"])
    return str(case["template"]).replace("{t}", "".join(made(case["t"])))


def hostile(recipe: Mapping[str, Any]) -> str:
    """The text of an adversarial case."""
    return str(
        recipe.get("prefix", "")
        + recipe["repeat"] * recipe["times"]
        + recipe.get("then", "")
        + recipe.get("then_repeat", "") * recipe.get("then_times", 0)
        + recipe.get("suffix", "")
    )


# --- who is tested -------------------------------------------------------------------------------


class Redactor(Protocol):
    """An implementation of a ruleset."""

    def text(self, text: str, home: str | None) -> str:
        """``text`` as it leaves it."""

    def session(self, block: dict[str, Any]) -> dict[str, Any] | None:
        """A session block as it leaves it; None when it knows no blocks."""

    def elapsed_ms(self, run: Callable[[], object]) -> float:
        """How long ``run`` took, in milliseconds that are its own."""


class Ours:
    """The library's own."""

    def __init__(self, ruleset: str) -> None:
        self._persons = ruleset == "pii@1"

    def text(self, text: str, home: str | None) -> str:
        from sessionpipe.privacy import pii, secrets

        return pii.reduce(text, home) if self._persons else secrets.redact(text)

    def session(self, block: dict[str, Any]) -> dict[str, Any] | None:
        from sessionpipe.privacy.filter import filter_event

        event = {"type": "session.ended", "tier": 0, "session": block, "data": {"reason": "exit"}}
        filtered = filter_event(event, 0, self._persons)
        return filtered["session"] if filtered else None

    def elapsed_ms(self, run: Callable[[], object]) -> float:
        before = time.process_time()
        run()
        return (time.process_time() - before) * 1000


class Failed(Exception):
    """The program that is tested did not do what a filter does."""


class Program:
    """A program that takes a text on stdin and prints what it leaves of it; ``HOME`` is a case's home."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)
        self._start_ms: float | None = None

    def text(self, text: str, home: str | None) -> str:
        environment = {**os.environ, **({"HOME": home} if home else {})}
        try:
            done = subprocess.run(  # noqa: S603 (what the person named, and no shell)
                self._argv,
                input=text.encode("utf-8", "surrogatepass"),
                capture_output=True,
                timeout=_TIMEOUT_S,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"it did not end within {_TIMEOUT_S} s") from None
        if done.returncode:
            raise Failed(f"exit status {done.returncode}")
        printed = done.stdout.decode("utf-8", "surrogateescape")
        # Many a filter ends its last line where the text did not.
        return printed[:-1] if printed.endswith("\n") and not text.endswith("\n") else printed

    def session(self, block: dict[str, Any]) -> dict[str, Any] | None:
        return None

    def elapsed_ms(self, run: Callable[[], object]) -> float:
        if self._start_ms is None:
            self._start_ms = min(_wall_ms(lambda: self.text("", None)) for _ in range(3))
        return max(0.0, _wall_ms(run) - self._start_ms)


def _wall_ms(run: Callable[[], object]) -> float:
    before = time.monotonic()
    run()
    return (time.monotonic() - before) * 1000


# --- running -------------------------------------------------------------------------------------


class Result(NamedTuple):
    """What became of one case. ``why`` is empty when it holds; None in ``passed`` when it was not tried."""

    kind: Kind
    name: str
    passed: bool | None
    given: str = ""
    wanted: str = ""
    got: str = ""
    why: str = ""


def run(vectors: Mapping[str, Any], redactor: Redactor) -> Iterator[Result]:
    """Every case of a file, the applying of each twice included."""
    for case in vectors.get("cases", ()):
        yield from check_case(case, redactor)
    for case in vectors.get("session", ()):
        yield check_session(case, redactor)
    for case in vectors.get("adversarial", ()):
        yield check_adversarial(case, redactor)


def check_case(case: Mapping[str, Any], redactor: Redactor) -> Iterator[Result]:
    """A text, and then what it became once more."""
    given, wanted, home = text_of(case), str(case["out"]), case.get("home")
    try:
        once = redactor.text(given, home)
        twice = once if once == given else redactor.text(once, home)
    except Failed as error:
        yield Result("case", case["name"], False, given, wanted, why=str(error))
        return
    yield Result("case", case["name"], once == wanted, given, wanted, once)
    yield Result("again", case["name"], twice == once, once, once, twice)


def check_session(case: Mapping[str, Any], redactor: Redactor) -> Result:
    """A session block."""
    got = redactor.session(dict(case["in"]))
    passed = None if got is None else got == case["out"]
    return Result(
        "session",
        case["name"],
        passed,
        *(json.dumps(block, sort_keys=True) for block in (case["in"], case["out"], got)),
    )


def check_adversarial(case: Mapping[str, Any], redactor: Redactor) -> Result:
    """A text that must not take long."""
    text = hostile(case["recipe"])
    try:
        took = redactor.elapsed_ms(lambda: redactor.text(text, None))
    except Failed as error:
        return Result("adversarial", case["name"], False, why=str(error))
    passed = took < case["max_ms"]
    return Result(
        "adversarial", case["name"], passed, why="" if passed else f"{took:.0f} ms, of {case['max_ms']}"
    )


# --- the command ---------------------------------------------------------------------------------


@click.command(
    short_help="Run redaction vectors against ours, or against any program.",
    epilog="""\b
    Examples:
      sessionpipe-conformance redaction
      sessionpipe-conformance redaction --command 'sessionpipe redact' secrets.json
    """,
)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--command", help="A program that takes a text on stdin and prints what it leaves of it.")
@click.option("--only", "ruleset", help="Only the files of this ruleset.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, with stable names.")
def redaction(files: tuple[Path, ...], command: str | None, ruleset: str | None, as_json: bool) -> None:
    """Run FILES of redaction vectors, ours unless named, and print a score and every failure.

    Without --command they are run against this library. The command is split into words as a shell
    would, and no shell runs it. Exit status 1 when a case fails.
    """
    from sessionpipe.paths import data_dir

    argv = argv_of(command)
    paths = files or sorted((data_dir("conformance") / "redaction").glob("*.json"))
    reports = []
    for path in paths:
        try:
            vectors = load(path)
        except (OSError, ValueError) as error:
            unusable(f"{path}: {error}")
        if ruleset is not None and vectors["ruleset"] != ruleset:
            continue
        if argv is None and vectors["ruleset"] not in OURS:
            unusable(f"{path}: there is no {vectors['ruleset']} here; name a program with --command")
        redactor: Redactor = Program(argv) if argv else Ours(vectors["ruleset"])
        reports.append((path, vectors, list(run(vectors, redactor))))
    if not reports:
        unusable("no file of that ruleset")
    if as_json:
        click.echo(json.dumps([_json(*report) for report in reports], indent=2))
    else:
        for report in reports:
            for line in _lines(*report):
                click.echo(line)
    sys.exit(1 if any(result.passed is False for _, _, results in reports for result in results) else 0)


def _lines(path: Path, vectors: Mapping[str, Any], results: Sequence[Result]) -> Iterator[str]:
    from sessionpipe.cli.common import printable

    secrets = [part for case in vectors.get("cases", ()) for part in made(case.get("t", ())) if len(part) > 8]
    for result in results:
        if result.passed is False:
            yield printable(f"{result.kind} {result.name!r} fails{f': {result.why}' if result.why else ''}")
            if not result.why:
                yield f"  in    {_masked(result.given, secrets)}"
                yield f"  must  {_masked(result.wanted, secrets)}"
                yield f"  got   {_masked(result.got, secrets)}"
    scores = ", ".join(f"{kind} {passed}/{tried}" for kind, (passed, tried) in _score(results).items())
    skipped = sum(result.passed is None for result in results)
    yield printable(f"{path.name} ({vectors['ruleset']}): {scores}{f', {skipped} not tried' * bool(skipped)}")


def _score(results: Sequence[Result]) -> dict[str, tuple[int, int]]:
    scores: dict[str, tuple[int, int]] = {}
    for result in results:
        if result.passed is not None:
            passed, tried = scores.get(result.kind, (0, 0))
            scores[result.kind] = (passed + result.passed, tried + 1)
    return scores


def _masked(text: str, secrets: Sequence[str]) -> str:
    """``text`` on one line, with what is shaped like a credential cut to its beginning."""
    for secret in secrets:
        text = text.replace(secret, f"{secret[:6]}…")
    shown = json.dumps(text[:_SHOWN], ensure_ascii=True)
    return shown if len(text) <= _SHOWN else f"{shown} …"


def _json(path: Path, vectors: Mapping[str, Any], results: Sequence[Result]) -> dict[str, Any]:
    return {
        "file": path.name,
        "ruleset": vectors["ruleset"],
        "score": {kind: {"passed": one[0], "of": one[1]} for kind, one in _score(results).items()},
        "not_tried": sum(result.passed is None for result in results),
        "failed": [
            {"kind": result.kind, "name": result.name, "why": result.why}
            for result in results
            if result.passed is False
        ],
    }


COMMAND = redaction
