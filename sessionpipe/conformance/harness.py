"""Recorded hooks (conformance/README.md), and the events that ours or any program makes of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from sessionpipe.conformance.programs import argv_of, unusable

#: Stands for any value in an expected event.
ANY = "*"
_TIMEOUT_S = 60
_SHOWN = 400


class Hook(NamedTuple):
    """One hook as its harness ran it; ``stdin`` is byte for byte what it was given."""

    file: Path
    harness: str
    event: str
    args: tuple[str, ...]
    env: dict[str, str]
    stdin: bytes
    at_ms: int
    made: bool

    @property
    def words(self) -> list[str]:
        """The arguments of ``sessionpipe map`` for it."""
        files = self.file.parent / "files"
        variables = [word for name, content in self.env.items() for word in ("--env", f"{name}={content}")]
        return [
            *(self.harness, self.event, "--cwd", "/", "--at", str(self.at_ms)),
            *variables,
            *(("--files", str(files)) if files.is_dir() else ()),
            *("--", *self.args),
        ]


def scenarios(root: Path, harnesses: Sequence[str] = ()) -> list[Path]:
    """The scenarios below ``root``, ``<harness>/<scenario>`` each, of some harnesses or of all."""
    return sorted(
        path
        for path in root.glob("*/*")
        if (path / "expected.ndjson").is_file() and (not harnesses or path.parent.name in harnesses)
    )


def hooks(scenario: Path) -> Iterator[Hook]:
    """The hooks of one scenario, in the order of their arrival. Raises :class:`ValueError` for what is none."""
    harness = scenario.parent.name
    for file in sorted(scenario.glob("*.json")):
        try:
            record = json.loads(file.read_text("utf-8"))
            _, event, *args = record["argv"]
            payload = record["stdin"]
            text = payload if isinstance(payload, str) else json.dumps(payload, separators=(",", ":"))
            # Claude Code alone ends its one line.
            end = "\n" if harness == "claude-code" else ""
            yield Hook(
                file,
                harness,
                event,
                tuple(args),
                dict(record["env"]),
                (text + end).encode("utf-8", "surrogatepass"),
                int(record["at_ms"]),
                bool(record.get("made")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} is no hook: {error!r}") from None


def expected(scenario: Path) -> list[dict[str, Any]]:
    """The events that a scenario's payloads shall become."""
    return _events((scenario / "expected.ndjson").read_text("utf-8"))


def _events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]


# --- who is tested -------------------------------------------------------------------------------

#: A hook in, what the implementation prints of it out. Raises :class:`Failed`.
Mapper = Callable[[Hook], str]


class Failed(Exception):
    """The implementation did not map."""


def ours(hook: Hook) -> str:
    """``sessionpipe map``, in this process."""
    from click.testing import CliRunner

    from sessionpipe.cli.map import map_command

    done = CliRunner().invoke(map_command, hook.words, input=hook.stdin)
    if done.exit_code:
        raise Failed(f"exit status {done.exit_code}: {done.exception!r}")
    return done.stdout


def program(argv: Sequence[str]) -> Mapper:
    """A program that takes the arguments and the input of ``sessionpipe map``, and prints what it prints."""

    def run(hook: Hook) -> str:
        try:
            done = subprocess.run(  # noqa: S603 (what the person named, and no shell)
                [*argv, *hook.words], input=hook.stdin, capture_output=True, timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"it did not end within {_TIMEOUT_S} s") from None
        if done.returncode:
            raise Failed(f"exit status {done.returncode}")
        return done.stdout.decode("utf-8", "replace")

    return run


# --- running -------------------------------------------------------------------------------------


class Result(NamedTuple):
    """What became of one scenario; ``why`` is empty when it holds."""

    scenario: Path
    made: bool
    events: int
    why: str = ""

    @property
    def name(self) -> str:
        return f"{self.scenario.parent.name}/{self.scenario.name}"


def check(scenario: Path, mapper: Mapper) -> Result:
    """Every payload of a scenario by itself, and all of their events against the expected ones.

    Raises :class:`ValueError` and :class:`OSError` for a scenario that is none.
    """
    given, wanted = list(hooks(scenario)), expected(scenario)
    made = any(hook.made for hook in given)
    got: list[tuple[Hook, dict[str, Any]]] = []
    for hook in given:
        try:
            got += [(hook, event) for event in _events(mapper(hook))]
        except (Failed, ValueError) as error:
            return Result(scenario, made, len(wanted), f"{hook.file.name}: {error}")
    for number, ((hook, event), want) in enumerate(zip(got, wanted, strict=False), 1):
        if not fits(event, want):
            why = f"event {number}, of {hook.file.name}\n  must  {_line(want)}\n  got   {_line(event)}"
            return Result(scenario, made, len(wanted), why)
    if len(got) != len(wanted):
        return Result(scenario, made, len(wanted), f"{len(got)} events, and {len(wanted)} are expected")
    return Result(scenario, made, len(wanted))


def fits(value: object, wanted: object) -> bool:
    """Whether a value is the expected one, in which ``"*"`` stands for anything that is there."""
    if wanted == ANY:
        return True
    if isinstance(wanted, dict) and isinstance(value, dict):
        return wanted.keys() == value.keys() and all(fits(value[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list) and isinstance(value, list):
        return len(wanted) == len(value) and all(map(fits, value, wanted))
    # True is 1 for Python, and not for JSON.
    return type(value) is type(wanted) and value == wanted


def _line(event: dict[str, Any]) -> str:
    line = json.dumps(event, ensure_ascii=True, sort_keys=True)
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]} …"


# --- the command ---------------------------------------------------------------------------------


@click.command(
    short_help="Run recorded hooks through our adapters, or through any program.",
    epilog="""\b
    Examples:
      sessionpipe-conformance harness
      sessionpipe-conformance harness codex gemini-cli
      sessionpipe-conformance harness --command 'my-sender map' --from my-fixtures
    """,
)
@click.argument("harnesses", nargs=-1)
@click.option("--command", help="A program that is called as `sessionpipe map` is.")
@click.option(
    "--from",
    "root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Scenarios of your own: DIR/<harness>/<scenario>/.  [default: those that ship]",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, with stable names.")
def harness(harnesses: tuple[str, ...], command: str | None, root: Path | None, as_json: bool) -> None:
    """Map every hook of the scenarios, of HARNESSES or of all, and print a score and every failure.

    A scenario is a folder of payloads as a harness sent them, and the events they become. Those that
    nobody recorded, made from a harness's documentation, are counted by themselves. Exit status 1 when
    a scenario fails.
    """
    from sessionpipe.paths import data_dir

    argv = argv_of(command)
    found = scenarios(root or data_dir("conformance") / "harness", harnesses)
    there = {scenario.parent.name for scenario in found}
    if lacking := [name for name in harnesses if name not in there]:
        unusable(f"there is no scenario of {lacking[0]}")
    if not found:
        unusable("there is no scenario")
    try:
        results = [check(scenario, program(argv) if argv else ours) for scenario in found]
    except (OSError, ValueError) as error:
        unusable(str(error))
    if as_json:
        click.echo(json.dumps([_json(name, results) for name in sorted(there)], indent=2))
    else:
        for line in _lines(sorted(there), results):
            click.echo(line)
    sys.exit(1 if any(result.why for result in results) else 0)


def _lines(names: Sequence[str], results: Sequence[Result]) -> Iterator[str]:
    from sessionpipe.cli.common import printable

    for result in results:
        if result.why:
            first, *rest = result.why.split("\n")
            yield printable(f"{result.name} fails: {first}")
            yield from map(printable, rest)
    for name in names:
        of = [result for result in results if result.scenario.parent.name == name]
        parts = [
            f"{sum(not one.why for one in some)}/{len(some)} {word}"
            for word, made in (("recorded", False), ("documented", True))
            if (some := [one for one in of if one.made is made])
        ]
        yield printable(f"{name}: {', '.join(parts)}, {sum(one.events for one in of)} events")


def _json(name: str, results: Sequence[Result]) -> dict[str, Any]:
    of = [result for result in results if result.scenario.parent.name == name]
    return {
        "harness": name,
        "recorded": sum(not one.made for one in of),
        "documented": sum(one.made for one in of),
        "passed": sum(not one.why for one in of),
        "events": sum(one.events for one in of),
        "failed": [{"scenario": one.scenario.name, "why": one.why} for one in of if one.why],
    }


COMMAND = harness
