"""``sessionpipe tail``: what happens, live, one line an event."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from datetime import date
from typing import Any, NamedTuple

import click
import msgspec

from sessionpipe.cli.common import printable, printable_json, state, usage, watching
from sessionpipe.cli.render import colour_wanted, columns_of, line, paint
from sessionpipe.cli.resolve import named_in, resolve
from sessionpipe.cli.store import looking
from sessionpipe.outbox import Outbox, Row
from sessionpipe.paths import State
from sessionpipe.privacy.filter import filter_event

#: How many events there are to see before the first new one.
LAST = 20
#: How often the outbox is asked for more: one look at its newest rows, which costs some 20 µs.
INTERVAL = 0.15
BATCH = 500


class Wanted(NamedTuple):
    """Which events are shown: of one harness, of one session, as a sink at ``tier`` would get them."""

    tier: int
    harness: str | None = None
    session: str | None = None

    def of(self, row: Row) -> dict[str, Any] | None:
        """The event of a row, or None when it isn't wanted."""
        if self.harness not in (None, row.harness) or self.session not in (None, row.session):
            return None
        # What a courier does: heartbeats are for sinks that get no tool events.
        if row.type == "session.heartbeat" and self.tier >= 1:
            return None
        event: dict[str, Any] = msgspec.json.decode(row.body)
        return filter_event(event, self.tier, False)


@click.command()
@click.option(
    "--tier", type=click.IntRange(0, 3), default=3, show_default=True, help="As a sink at this tier gets it."
)
@click.option(
    "--session", "named", metavar="SESSION", help="One session: an id, harness:id, or a short id's beginning."
)
@click.option("--harness", metavar="NAME", help="One harness only, e.g. claude-code.")
@click.option("--json", "as_json", is_flag=True, help="The events themselves, one JSON object a line.")
@click.option(
    "--all", "everything", is_flag=True, help=f"From the first event kept, not from the last {LAST}."
)
@click.option("--no-follow", is_flag=True, help="End after what is there.")
def tail(
    tier: int, named: str | None, harness: str | None, as_json: bool, everything: bool, no_follow: bool
) -> None:
    """Watch what your agents do, one line an event.

    It reads what is recorded on this machine, which has everything; --tier shows what would leave.

    \b
    Examples:
      sessionpipe tail
      sessionpipe tail --tier 0 --harness codex
      sessionpipe tail --session 58ab --all --no-follow
      sessionpipe tail --json --no-follow | jq .type
    """
    if named == "" or harness == "":
        usage("--session and --harness need a name")
    if harness is not None:
        from sessionpipe.adapters import registry

        if harness not in (known := registry.known()):
            usage(f"no harness is called {printable(harness)}; there are {', '.join(known)}")
    place = state()
    wanted = Wanted(tier, harness)
    if named is not None:
        with looking(place) as outbox:
            meant = resolve(named, named_in(outbox, named))
        wanted = Wanted(tier, meant.harness, meant.id)
        if harness not in (None, meant.harness):
            usage(f"the session {named} is one of {meant.harness}")
    show = _shower(as_json)
    with watching():
        for event in _events(place, wanted, LAST if not everything else None, follow=not no_follow):
            show(event)


def _shower(as_json: bool) -> Callable[[dict[str, Any]], None]:
    out = sys.stdout
    if as_json:

        def show_json(event: dict[str, Any]) -> None:
            out.buffer.write(printable_json(msgspec.json.encode(event).decode()).encode() + b"\n")
            out.buffer.flush()

        return show_json
    colour = colour_wanted(out)
    if hasattr(out, "reconfigure"):
        out.reconfigure(errors="replace")  # A title in letters this terminal's encoding has not.

    def show(event: dict[str, Any]) -> None:
        row = line(event, today=date.today(), home=os.environ.get("HOME"))
        # The width is asked anew: a terminal is resized while it is watched.
        out.write(paint(row, colour=colour, columns=columns_of(out)) + "\n")
        out.flush()

    return show


def _events(place: State, wanted: Wanted, last: int | None, *, follow: bool) -> Iterator[dict[str, Any]]:
    """The wanted events that are there (the ``last`` ones, or all), then, to ``follow``, each new one."""
    waiting = False
    position = 0
    while True:
        with looking(place, follow=follow) as outbox:
            if outbox is not None:
                reading = _read(outbox, wanted, None if waiting else last, position, follow=follow)
                position = yield from reading
                if not follow:
                    return
                waiting, last = True, None
                continue  # Another file has its name now, in which the positions go on.
        if not follow:
            return
        if not waiting:
            click.echo("nothing is recorded yet; waiting (`sessionpipe install` hooks your agents)", err=True)
        waiting = True
        time.sleep(INTERVAL)


def _read(
    outbox: Outbox, wanted: Wanted, last: int | None, position: int, *, follow: bool
) -> Generator[dict[str, Any], None, int]:
    """The events behind ``position``, until the outbox loses its name; how far it came."""
    if last is not None:
        position = outbox.last_position()
        yield from _last(outbox, wanted, last, position)
    elif outbox.last_position() < position:
        position = 0  # Somebody moved the old one away, and this one began from nothing.
    while True:
        rows = outbox.read(position, BATCH)
        for row in rows:
            position = row.position
            event = wanted.of(row)
            if event is not None:
                yield event
        if not rows:
            if not follow or not outbox.still_there():
                return position
            time.sleep(INTERVAL)


def _last(outbox: Outbox, wanted: Wanted, count: int, upto: int) -> list[dict[str, Any]]:
    """The last ``count`` wanted events at or before ``upto``, reading back only as far as needed."""
    reach = count
    while True:
        rows = outbox.recent(reach, harness=wanted.harness, session=wanted.session)
        events = [event for row in rows if row.position <= upto and (event := wanted.of(row)) is not None]
        if len(events) >= count or len(rows) < reach:
            return events[-count:]
        reach *= 4


COMMANDS = {"tail": tail}
