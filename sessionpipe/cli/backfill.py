"""``sessionpipe backfill``: the sessions that were there before the hooks."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from sessionpipe.cli.common import Fail, config_path, echo_json, printable, reason, state, usage
from sessionpipe.cli.render import ago, cut, session_name, table
from sessionpipe.cli.rouse import rouse
from sessionpipe.cli.store import looking
from sessionpipe.clock import now_ms
from sessionpipe.paths import State
from sessionpipe.protocol import rfc3339, short_id

#: How long it reads other programs' files, at most; `install` does not keep a person waiting so long.
PATIENCE_S, AT_INSTALL_S = 600.0, 60.0
_SHOWN = 20


@click.command(short_help="Record the sessions that were there before the hooks.")
@click.option(
    "--days", type=click.IntRange(1, 3650), default=30, show_default=True, help="How far to look back."
)
@click.option(
    "--harness", "named", multiple=True, metavar="HARNESS", help="Only this agent's; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Show what was found, and record nothing.")
@click.option("--json", "as_json", is_flag=True, help="What was found and done, as JSON.")
def backfill(days: int, named: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Record the sessions that were there before the hooks, from the agents' own files.

    One event for each session that was active in the last DAYS: when it began and was last active, how
    many prompts it had, its folder, model and title; none of what was said. Sessions that are recorded
    already are left alone, and so are those you had forgotten. It can be interrupted and done again.

    \b
    Examples:
      sessionpipe backfill
      sessionpipe backfill --days 365 --harness codex
      sessionpipe backfill --dry-run
    """
    from sessionpipe.adapters import registry

    if odd := [name for name in named if name not in registry.names()]:
        usage(f"no harness is called {printable(odd[0])}; there are {', '.join(registry.names())}")
    run = Run(state(), named or registry.names(), days, PATIENCE_S)
    if not dry_run:
        run.record()
    if as_json:
        echo_json(run.as_json())
    else:
        run.show(dry_run)


class Run:
    """One look into the agents' files, and what was made of it."""

    def __init__(self, place: State, names: Collection[str], days: int, patience_s: float) -> None:
        from sessionpipe.backfill import DAY_MS, context_of, search, unknown

        self._place = place
        self._days = days
        self.recorded = 0
        self.context = context_of(os.environ, "/")
        since_ms = self.context.at_ms - days * DAY_MS
        with _bar("looking") as told:
            self.search = search(
                names,
                self.context,
                since_ms,
                until=time.monotonic() + patience_s,
                told=lambda name, found: told(f"looking at {name}", found, None),
            )
        self.new = self.search.found
        if self.search.found:
            with looking(place) as outbox:
                self.new = unknown(outbox, self.search.found) if outbox else self.search.found

    def record(self) -> None:
        """Record what is new, and let the worker know."""
        if not self.new:
            return
        from sessionpipe.backfill import record
        from sessionpipe.config import machine_name
        from sessionpipe.outbox import Outbox
        from sessionpipe.outboxfile import OutboxError
        from sessionpipe.paths import make_private

        try:
            machine = machine_name(config_path())
            make_private(self._place.root)
            outbox = Outbox.open(self._place.outbox)
            try:
                with _bar("recording") as told:
                    self.recorded = record(
                        outbox,
                        self.new,
                        machine=machine,
                        home=self.context.home,
                        told=lambda seen: told("recording", seen, len(self.new)),
                    )
            finally:
                outbox.close()
        except (OSError, OutboxError) as error:
            raise Fail(
                f"the sessions cannot be recorded: {reason(error)}; see `sessionpipe doctor`"
            ) from error
        rouse(self._place)

    def as_json(self) -> dict[str, Any]:
        return {
            "days": self._days,
            "found": len(self.search.found),
            "known": len(self.search.found) - len(self.new),
            "recorded": self.recorded,
            "late": self.search.late,
            "failed": self.search.failed,
            "sessions": [
                {
                    "short_id": short_id(one.harness, one.past.session_id),
                    "harness": one.harness,
                    "id": one.past.session_id,
                    "started_at": rfc3339(one.past.started_ms),
                    "last_at": rfc3339(one.past.last_ms),
                    "turns": one.past.turns,
                }
                for one in self.new
            ],
        }

    def show(self, dry_run: bool) -> None:
        found, new = len(self.search.found), len(self.new)
        if dry_run:
            self._list()
        if not found:
            click.echo(f"no session of the last {_count(self._days, 'day')} was found in the agents' files")
        elif not new:
            click.echo(
                f"all {_count(found, 'session')} of the last {_count(self._days, 'day')} are known already"
            )
        else:
            known = f"; {found - new} more known already" if found - new else ""
            done = "would be recorded" if dry_run else "recorded"
            count = new if dry_run else self.recorded
            click.echo(f"{_count(count, 'session')} {done} ({self._shares()}){known}")
        self.warn()

    def warn(self) -> None:
        """Say what was not looked at."""
        for name, why in self.search.failed.items():
            click.echo(
                f"sessionpipe: the files of {name} could not be read: {printable(cut(why, 200))}", err=True
            )
        if self.search.late:
            click.echo(
                "sessionpipe: there was no time to look at all of them; `sessionpipe backfill` again goes on,"
                " with --harness at one agent's alone",
                err=True,
            )

    def _shares(self) -> str:
        shares = Counter(one.harness for one in self.new)
        return ", ".join(f"{name} {count}" for name, count in shares.most_common())

    def _list(self) -> None:
        now = now_ms()
        rows = [
            (
                short_id(one.harness, one.past.session_id),
                one.harness,
                ago(one.past.last_ms, now),
                "" if one.past.turns is None else _count(one.past.turns, "prompt"),
                cut(_title(one.past.block), 50),
            )
            for one in self.new[:_SHOWN]
        ]
        for line in table(rows):
            click.echo(printable(line))
        if len(self.new) > _SHOWN:
            click.echo(f"and {len(self.new) - _SHOWN} older ones; --json has them all")


def _title(block: dict[str, Any]) -> str:
    from sessionpipe.seal import session_block

    return session_name(session_block(block, os.environ.get("HOME")))


def after_install(place: State, names: Sequence[str]) -> None:
    """The first time hooks are installed: what was there before, so that the list does not begin empty.

    Nothing of it makes an installation fail.
    """
    try:
        with looking(place) as outbox:
            if outbox is not None and outbox.count() != (0, 0):
                return
        run = Run(place, names, 30, AT_INSTALL_S)
        run.record()
    except Fail as error:
        click.echo(f"sessionpipe: {error.message}", err=True)
        return
    except KeyboardInterrupt:
        # The hooks are in; this is what the person did not want to wait for.
        click.echo(
            "sessionpipe: earlier sessions are left out; `sessionpipe backfill` records them", err=True
        )
        return
    if run.recorded:
        click.echo(
            f"{_count(run.recorded, 'session')} of the last 30 days that were there before the hooks:"
            f" `sessionpipe sessions` lists them ({run._shares()})"
        )
    run.warn()


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


@contextmanager
def _bar(what: str) -> Iterator[Callable[[str, int, int | None], None]]:
    """A progress bar on the terminal, if standard error is one: called with words, how many, and of how many."""
    if not sys.stderr.isatty():
        yield lambda words, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda words, done, total: progress.update(task, description=words, completed=done, total=total)


COMMANDS = {"backfill": backfill}
