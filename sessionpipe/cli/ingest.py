"""``sessionpipe ingest``: recording an agent's own event stream instead of its hooks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessionpipe.cli.common import printable, state, usage, use_kept_rules

if TYPE_CHECKING:
    from sessionpipe.stream.frames import Incoming
    from sessionpipe.stream.front import Report


@click.group(short_help="Record an agent's event stream, while it runs.")
def ingest() -> None:
    """Record what an agent does from the event stream it prints.

    \b
    Example:
      pi --mode json -p "Fix the tests" | sessionpipe ingest pi --tee
    """


@ingest.command(
    "pi",
    short_help="Record Pi's `--mode json` stream.",
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
    Examples:
      sessionpipe ingest pi -- pi --mode json -p "Fix the tests"
      pi --mode json -p "Fix the tests" | sessionpipe ingest pi --tee | jq .type
      sessionpipe ingest pi --normalized --no-record < run.ndjson
    """,
)
@click.option("--tee", is_flag=True, help="Copy the stream to standard output, byte for byte.")
@click.option("--normalized", is_flag=True, help="Print normalized events, one JSON object a line, redacted.")
@click.option("--no-record", is_flag=True, help="With --normalized: print, and record nothing.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def pi(tee: bool, normalized: bool, no_record: bool, command: tuple[str, ...]) -> None:
    """Record a run of Pi from its JSON event stream, as it happens.

    The stream comes from standard input, or from COMMAND. That is run as it stands, never by a shell, with
    this command's standard input, standard error and terminal; signals are passed on to it, and its exit
    status is returned. A stream that ends early ends the turn and the session.

    Pi never waits for the recording, and nothing about it is printed on standard output. What could not
    be recorded is said on standard error at the end. Without --tee or --normalized the stream is used up.

    Nothing is recorded twice. Where Pi's extension (`sessionpipe install pi`) tells the session, too, it is
    left to the extension, which is silent only when COMMAND is Pi itself with --mode json. Of a stream that
    was saved, what is not known yet is recorded, with the times the stream tells.
    """
    if tee and normalized:
        usage("--tee and --normalized both want standard output")
    if no_record and not normalized:
        usage("--no-record leaves nothing to do; it goes with --normalized")
    if not command and _is_terminal():
        usage("nothing is piped in; pipe Pi's stream into it, or give it the command to run behind --")
    from sessionpipe.clock import now_ms
    from sessionpipe.stream.child import NotStarted
    from sessionpipe.stream.front import Front, end_by

    where, since_ms = state(), now_ms()
    cwd = _here() if command else None

    def read_along(incoming: Incoming) -> Report:
        # All that is heavy is loaded here, beside the copying, which has begun meanwhile.
        from sessionpipe.cli.rouse import rouse
        from sessionpipe.ingest import ENVIRONMENT, Recorder

        use_kept_rules()
        env = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        recorder = Recorder(
            where,
            rouse=rouse,
            env=env,
            cwd=cwd,
            since_ms=since_ms,
            normalized=normalized,
            record=not no_record,
        )
        return recorder(incoming)

    front = Front(
        read_along,
        command=command or None,
        # Read by our extension in Pi, which is silent when its parent is the one named here.
        env={"SESSIONPIPE_INGEST": str(os.getpid())},
        tee=tee,
        prints=normalized,
    )
    try:
        ended = front.run()
    except NotStarted as failed:
        click.echo(f"sessionpipe: {printable(command[0])} cannot be run: {printable(failed)}", err=True)
        sys.exit(failed.status)
    for line in ended.say:
        click.echo(f"sessionpipe: {printable(line)}", err=True)
    if ended.by_signal:
        end_by(ended.by_signal)
    sys.exit(ended.status)


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _here() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:
        return None  # The folder was deleted.


COMMANDS = {"ingest": ingest}
