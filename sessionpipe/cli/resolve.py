"""Which session a person means: a full id, ``harness:id``, or the beginning of a short id."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from sessionpipe.cli.common import Fail, printable
from sessionpipe.cli.render import session_name, stamp
from sessionpipe.outbox import Outbox, SessionRow
from sessionpipe.protocol import short_id

_HEX = re.compile("[0-9a-f]{1,8}")


def named_in(outbox: Outbox | None, argument: str) -> list[SessionRow]:
    """The sessions among which to :func:`resolve` ``argument``: those that are called so, else all."""
    if outbox is None:
        return []
    return outbox.sessions_named(argument) or outbox.sessions()


def matches(argument: str, sessions: Sequence[SessionRow]) -> list[SessionRow]:
    """Every session ``argument`` may mean, in the given order. A whole id hides short ids."""
    whole = [row for row in sessions if argument in (row.id, f"{row.harness}:{row.id}")]
    short = argument.lower()
    if whole or not _HEX.fullmatch(short):
        return whole
    return [row for row in sessions if short_id(row.harness, row.id).startswith(short)]


def resolve(argument: str, sessions: Sequence[SessionRow]) -> SessionRow:
    """The one session meant. Several are listed on stderr and never guessed; raises :class:`Fail`."""
    found = matches(argument, sessions)
    if not found:
        raise Fail(f"no session is called {argument!r}; `sessionpipe sessions` lists them")
    if len(found) > 1:
        for row in found:
            click.echo(candidate(row), err=True)
        raise Fail(f"{argument!r} means {len(found)} sessions, the ones above; say more of the id")
    return found[0]


def candidate(row: SessionRow) -> str:
    """A session in a list to choose from."""
    name = session_name(row.block)
    return printable(
        f"  {short_id(row.harness, row.id)}  {row.harness}:{row.id}  {stamp(row.last_ms)}  {name}"
    ).rstrip()
