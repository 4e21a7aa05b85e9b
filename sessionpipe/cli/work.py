"""``worker`` and ``flush``: running the pipe by hand."""

from __future__ import annotations

import sys

import click

from sessionpipe.cli.common import Fail, config_path, reason, state
from sessionpipe.cli.rouse import rouse


@click.command()
@click.option("--foreground", is_flag=True, help="Stay until interrupted, and serve stdout sinks too.")
def worker(foreground: bool) -> None:
    """Record what hooks left and deliver it.

    Hooks start a worker by themselves; this is for running one by hand.

    \b
    Example:
      sessionpipe worker --foreground
    """
    from sessionpipe.liveness import worker_alive
    from sessionpipe.worker import foreground as stay
    from sessionpipe.worker import main

    if not foreground:
        sys.exit(main())
    try:
        if worker_alive(state())[0]:
            click.echo("another worker is at work; waiting for it to leave", err=True)
        if not stay(state(), config_path()):
            raise Fail(
                "another worker is at work; it leaves by itself, or stop it (`sessionpipe status` names it)"
            )
    except KeyboardInterrupt:
        sys.exit(130)  # While it waited: one at work ends by itself.
    except OSError as error:
        raise Fail(_unusable(error)) from error


@click.command()
def flush() -> None:
    """Record and deliver everything now, and say what could not be.

    One attempt per sink, whatever its backoff; at most 30 seconds. Exit status 1 when something is
    left of what was there when it began.

    \b
    Example:
      sessionpipe flush
    """
    from sessionpipe.flush import flush as run
    from sessionpipe.outbox import OutboxError

    try:
        left, more = run(state(), config_path())
    except (OSError, OutboxError) as error:
        raise Fail(_unusable(error)) from error
    if more:
        rouse(state())  # Hooks that came meanwhile may have taken this for a worker that stays.
    if left:
        raise Fail("; ".join(left))


def _unusable(error: Exception) -> str:
    where = f"the state directory {state().root} cannot be used"
    return f"{where}: {reason(error)}; `sessionpipe doctor` says how to mend it"


COMMANDS = {"worker": worker, "flush": flush}
