"""``sessionpipe journal``: the session event journal, recorded, checked and looked at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import click

from sessionpipe.cli import Commands
from sessionpipe.cli.common import Fail, echo_json, printable


class JournalCommands(Commands):
    """The journal's own commands, each of them loaded when it is wanted."""

    modules: ClassVar[Mapping[str, str]] = {
        "record": "journal_record",
        "verify": "journal",
        "show": "journal_show",
        "replay": "journal_play",
        "follow": "journal_play",
        "serve": "journal_serve",
    }


@click.command(cls=JournalCommands, short_help="Record, check, show and replay what a Pi session did when.")
def journal() -> None:
    """The timed history of a Pi session, as a folder of files.

    DIR is the folder a journal was recorded into, or one of its session folders.

    \b
    Examples:
      sessionpipe journal record --out DIR --extension -- pi
      sessionpipe journal show DIR                 read the conversation
      sessionpipe journal show DIR --at +1m30s     as it stood a minute and a half in
      sessionpipe journal replay DIR --speed 4     watch it happen again
      sessionpipe journal follow DIR               watch it happen
      sessionpipe journal verify DIR               is everything there, and sound?
    """


@click.command(short_help="Check a journal against every rule of its format.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The whole report, as one JSON object.")
def verify(folder: Path, as_json: bool) -> None:
    """Check a journal: its files, every line, every reference, every artifact.

    \b
    Examples:
      sessionpipe journal verify DIR
      sessionpipe journal verify DIR --json | jq '.violations[].rule'

    Every violation is a line with the file, the line in it, the rule that is broken, and how.

    \b
    The status is the capture's, as far as the files bear it out:
      complete     everything that was seen is there
      failed       the recording broke off, and says so; what is there is sound
      recording    it may still go on
      unverified   its capture is missing, invalid or stale, or the journal says otherwise
      unavailable  its events are of a format this version does not read

    Exit status: 0 when no rule is broken, which a recording that failed and says so can be; 1 when
    one is; 2 for a wrong command line.
    """
    from sessionpipe.journal.validator import verify as check

    report = check(folder)
    if as_json:
        echo_json(report.to_json())
    elif not report.sessions and any(item.rule == "bundle-missing" for item in report.violations):
        raise Fail(f"{folder}: there is no such folder")
    else:
        for kind, items in (("", report.violations), ("warning: ", report.warnings)):
            for item in items:
                place = item.file if item.line is None else f"{item.file}:{item.line}"
                click.echo(printable(f"{kind}{place}: {item.rule}: {item.message}"))
        for rule, number in report.omitted.items():
            click.echo(f"and {number:,} more of {rule}")
        for missing in report.unchecked:
            click.echo(printable(f"not checked: {missing}"))
        for session in report.sessions:
            counts = f"{session.counts['events']:,} events, {session.counts['entries']:,} entries"
            words = f"{session.status}: {session.reason}" if session.reason else session.status
            if session.failure:
                words += f" ({session.failure.get('code')}: {session.failure.get('message')})"
            click.echo(printable(f"{session.path}: {words}; {counts}"))
        broken = len(report.violations)
        click.echo("no rule is broken" if report.ok else f"{broken:,} violation{'s' * (broken != 1)}")
    if not report.ok:
        raise SystemExit(1)


COMMANDS = {"journal": journal, "verify": verify}
