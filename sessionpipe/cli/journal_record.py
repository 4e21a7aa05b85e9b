"""``journal record``: recording the timed history of a Pi session while it runs."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import click

from sessionpipe.cli.common import Fail, printable, reason, usage


def _name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    from sessionpipe.journal.recorder import is_name

    if not is_name(value):
        raise click.BadParameter(
            "letters, digits, '.', '_' and '-', at most 64, beginning with a letter or digit"
        )
    return value


@click.command(
    short_help="Record what a Pi session does and when, into a folder.",
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
    Examples:
      sessionpipe journal record --out run -- pi --mode json -p "Fix the tests"
      pi --mode json -p "Fix the tests" | sessionpipe journal record --out run --tee | jq .type
      sessionpipe journal record --out run --extension -- pi
    """,
)
@click.option(
    "--out",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="Where the journal goes: a folder that isn't there yet, or is empty.",
)
@click.option("--extension", is_flag=True, help="COMMAND is Pi in any mode; record it from inside.")
@click.option("--tee", is_flag=True, help="Copy the stream to standard output, byte for byte.")
@click.option(
    "--session-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The session's file, where Pi doesn't keep it in its usual place.",
)
@click.option("--verbatim", is_flag=True, help="Write texts as they are, credentials included.")
@click.option(
    "--node", metavar="NAME", default="pi", show_default=True, callback=_name, help="The node it belongs to."
)
@click.option(
    "--attempt", metavar="NAME", default="a1", show_default=True, callback=_name, help="The node's attempt."
)
@click.option(
    "--name", metavar="NAME", default="pi", show_default=True, help="The workflow's name, in the run's id."
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def record(
    out: Path,
    extension: bool,
    tee: bool,
    session_file: Path | None,
    verbatim: bool,
    node: str,
    attempt: str,
    name: str,
    command: tuple[str, ...],
) -> None:
    """Record every turn, message, delta and tool call of a Pi session with the time it came.

    The source is Pi's `--mode json` stream: from standard input, or from COMMAND, which is run as it
    stands, with this command's standard input, standard error and terminal. With --extension COMMAND is
    Pi in whatever mode, its screen included: it gets one more argument, an extension of ours for this
    run alone, and keeps all of its input and output. Signals are passed on to COMMAND, and its exit status is
    returned. Nothing about recording makes it wait or fail.

    \b
    DIR becomes the run's bundle, readable by you alone:
      manifest.json           the run
      session/events.ndjson   what happened, when
      session/entries.ndjson  Pi's own entries, as they were settled
      session/binding.json    which session that was
      session/capture.json    whether all of it is there: recording, complete, failed
      artifacts/              texts too large for a line

    Credentials are taken out of every text before it is written (secrets@1). A credential may be split
    over many deltas, so the deltas of a text, a thought or a tool call are written when that ends, each
    with its own time: who follows the journal live is late by so much. --verbatim writes everything at
    once and as it is.

    A recording that breaks off, on a full disk or in a stream that is cut off, says so in capture.json and
    on standard error; COMMAND goes on. When this is asked to stop while it reads standard input,
    it waits for the turn that is going on, 30 seconds at most.

    Of a session that is continued only what is new is recorded. Messages of a stream are matched with Pi's
    session file, which is looked for where Pi keeps it; where none is found, or Pi keeps none, they are
    recorded as not settled. A stream that was saved can be recorded later, with its --session-file; its
    times are then those of the reading.
    """
    if extension and not command:
        usage("--extension needs Pi's command line behind --")
    if extension and (tee or session_file):
        usage("--tee and --session-file are for Pi's JSON stream, not for --extension")
    if not command and sys.stdin is not None and sys.stdin.isatty():
        usage("nothing is piped in; pipe Pi's stream into it, or give it the command to run behind --")
    from sessionpipe.journal.recorder import NotEmpty, claim
    from sessionpipe.stream.child import NotStarted

    try:
        claim(out)
    except NotEmpty:
        raise Fail(f"{out} holds something already; name a folder that isn't there yet") from None
    except OSError as error:
        raise Fail(f"{out} can't be made: {reason(error)}; name another folder") from error
    options: dict[str, Any] = {"node": node, "attempt": attempt, "name": name, "verbatim": verbatim}
    try:
        if extension:
            status = _from_extension(out, options, command)
        else:
            status = _from_stream(out, options, command, tee, session_file)
    except NotStarted as failed:
        click.echo(f"sessionpipe: {printable(command[0])} cannot be run: {printable(failed)}", err=True)
        status = failed.status
    sys.exit(status)


def _from_stream(
    out: Path, options: dict[str, Any], command: tuple[str, ...], tee: bool, session_file: Path | None
) -> int:
    from sessionpipe.journal.along import LAST_WORDS_S, Along
    from sessionpipe.journal.format import FAILED
    from sessionpipe.journal.recorder import COMPLETED, abandon
    from sessionpipe.stream.front import Front, end_by

    along = Along(out, options, session_file, is_command=bool(command))
    ended = Front(along, command=command or None, tee=tee, last_words=LAST_WORDS_S).run()
    with contextlib.suppress(OSError):
        abandon(out, FAILED if ended.status or ended.by_signal else COMPLETED)
    _say(ended.say)
    if ended.by_signal:
        end_by(ended.by_signal)
    # Without a command, recording is all there was to do.
    return ended.status or int(bool(ended.say) and not command)


def _from_extension(out: Path, options: dict[str, Any], command: tuple[str, ...]) -> int:
    from sessionpipe.journal.along import said
    from sessionpipe.journal.channel import Channel
    from sessionpipe.journal.format import FAILED
    from sessionpipe.journal.recorder import COMPLETED, Recorder
    from sessionpipe.stream.child import Child, Signals, attend

    with Signals() as signals, Channel() as channel:
        child = Child([*command, *channel.words], env=channel.environment)
        try:
            recorder = Recorder(out, **options)
        except OSError as error:
            status = attend(child, signals)
            _say([f"nothing was recorded in {out}: {reason(error)}"])
            return status
        channel.feed(recorder)
        status = attend(child, signals)
        channel.finish()
        outcome = recorder.end(FAILED if status else COMPLETED)
    _say(said(out, outcome))
    return status


def _say(lines: list[str]) -> None:
    for line in lines:
        click.echo(f"sessionpipe: {printable(line)}", err=True)


COMMANDS = {"record": record}
