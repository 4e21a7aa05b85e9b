"""``sessionpipe install`` and ``sessionpipe uninstall``."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from sessionpipe import redaction
from sessionpipe.adapters import registry
from sessionpipe.cli.backfill import after_install
from sessionpipe.cli.common import Fail, config_path, printable, reason, state, usage
from sessionpipe.cli.render import table, tilde
from sessionpipe.compiled import Compiled, use
from sessionpipe.install import Elsewhere, Report, UnknownHarness
from sessionpipe.install import install as install_hooks
from sessionpipe.install import uninstall as uninstall_hooks
from sessionpipe.install.targets import refused


@click.command(short_help="Hook the agents on this machine.")
@click.argument("harness", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    "--no-backfill", is_flag=True, help="Leave alone what the agents' files tell of earlier sessions."
)
def install(harness: tuple[str, ...], dry_run: bool, no_backfill: bool) -> None:
    """Hook the agents on this machine, or only the HARNESSes named.

    Entries are added to the agents' own settings beside whatever is there; a file that is not
    understood is left alone and the reason is said. Doing it again changes nothing.

    The first time, the sessions of the last 30 days are recorded from the agents' own files, one event
    for each: `sessionpipe backfill --help` says what of them.

    \b
    Examples:
      sessionpipe install                       every agent that is here
      sessionpipe install claude-code codex pi
      sessionpipe install codex --dry-run       show the changes as a diff
    """
    own = registry.refresh(config_path())
    for problem in own.problems:
        if problem.file.removesuffix(".toml") in harness:
            raise Fail(f"own adapter {problem}; mend it in {tilde(str(own.folder))}")
    for name, why in refused().items():
        if name in harness:
            raise Fail(f"own adapter {name}: {why}; mend it in {tilde(str(own.folder))}")
    try:
        reports = install_hooks(harness, dry_run=dry_run, env=os.environ, state=state(), config=config_path())
    except UnknownHarness as error:
        usage(str(error))
    except (OSError, ValueError) as error:
        raise Fail(
            f"the launcher cannot be written: {reason(error)};"
            " make room or the place yours, or set SESSIONPIPE_STATE_DIR to another"
        ) from error
    new = not dry_run and any(report.did in ("created", "added") for report in reports[1:])
    if not dry_run:
        _keep_rules()
    try:
        _tell(reports, dry_run)
    finally:
        if new and not no_backfill:
            hooked = {
                report.harness for report in reports[1:] if report.did not in ("not found", "left alone")
            }
            after_install(state(), sorted(hooked))
    if new:
        click.echo("Now `sessionpipe tail` shows what they do, `sessionpipe doctor` whether all is well.")
    absent = [report for report in reports if report.did == "not found"]
    if absent and harness:
        raise Fail(f"{absent[0].harness} was not found: {absent[0].why}")
    if len(absent) == len(reports) - 1:
        raise Fail("no agent was found here; name one to make its folder: `sessionpipe install claude-code`")


def _keep_rules() -> None:
    """Compile what redacts, and keep it: the worker of the first hook need not."""
    use(Compiled(state()))
    redaction.load(config_path() / redaction.FOLDER).redaction.redact("long enough to be looked at")


@click.command(short_help="Take every hook out again, byte for byte.")
@click.argument("harness", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--everywhere", is_flag=True, help="Also when a variable points some agents out of the home.")
def uninstall(harness: tuple[str, ...], dry_run: bool, everywhere: bool) -> None:
    """Take every hook out again, or only those of the HARNESSes named.

    Files come back byte for byte, and files and folders that were made for it go. What was recorded
    stays; the README says where it is.

    \b
    Examples:
      sessionpipe uninstall
      sessionpipe uninstall codex
      sessionpipe uninstall --dry-run
    """
    try:
        reports = uninstall_hooks(
            harness, dry_run=dry_run, env=os.environ, state=state(), everywhere=everywhere
        )
    except (UnknownHarness, Elsewhere) as error:
        usage(str(error))
    except OSError as error:
        raise Fail(
            f"the hooks cannot be taken out: {reason(error)}; `sessionpipe doctor` says how to mend it"
        ) from error
    if not reports:
        click.echo("nothing is installed")
    _tell(reports, dry_run)


def _tell(reports: Sequence[Report], dry_run: bool) -> None:
    """A line a file, then the diffs and what the person must do; exit status 1 when one was left alone."""
    rows = []
    for report in reports:
        if report.path:
            did = printable(f"{report.did}: {report.why}" if report.why else report.did)
            rows.append([report.harness, tilde(str(report.path)), did])
    for line in table(rows):
        click.echo(line)
    if absent := [report.harness for report in reports if report.did == "not found"]:
        click.echo(f"not on this machine: {', '.join(absent)}")
    for report in reports:
        for line in report.diff.split("\n") if report.diff else ():
            click.echo(printable(line))
    for note in dict.fromkeys(report.note for report in reports if report.note):
        click.echo(printable(note))
    if dry_run:
        click.echo("This was a dry run: nothing was written.")
    if count := sum(report.did == "left alone" for report in reports):
        files = "1 file was" if count == 1 else f"{count} files were"
        raise Fail(f"{files} left alone for the reason above; mend it and try again")


COMMANDS = {"install": install, "uninstall": uninstall}
