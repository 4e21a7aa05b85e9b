"""``sessionpipe replay``: what a sink has had is sent to it again."""

from __future__ import annotations

import re

import click

from sessionpipe.cli.common import Fail, printable, usage
from sessionpipe.cli.render import stamp, tilde
from sessionpipe.cli.sink_place import find, look_again, mended, outbox_of
from sessionpipe.cli.sink_words import ahead
from sessionpipe.clock import now_ms
from sessionpipe.config import SinkConfig
from sessionpipe.outbox import Outbox, SinkState

_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


@click.command(short_help="Send a sink again what it has had.")
@click.argument("sink")
@click.option(
    "--from",
    "start",
    default="start",
    metavar="start|POSITION|TIME",
    help="From where: the oldest that is kept (unless said), behind a position, or so long ago, as in 2h or 3d.",
)
def replay(sink: str, start: str) -> None:
    """Send SINK again what it has had, at the tier it has now.

    A receiver knows every event by its session and number, and keeps none twice: what it still has
    it ignores, what it lost it gets back. A file gets every line once more. POSITION is a sink's
    `position` in `sessionpipe status --json`: what lies behind it is sent.

    \b
    Examples:
      sessionpipe replay board
      sessionpipe replay board --from 2h
      sessionpipe replay board --from 1200
    """
    with mended():
        config = find(sink)
        with outbox_of() as outbox:
            before = outbox.add_sink(config.name, 0)
            row = _placed(outbox, config, _position(outbox, start))
            count, words = ahead(outbox, config, row)
            repeated = count - ahead(outbox, config, before)[0]
            oldest = outbox.read(row.position, 1)
        look_again(owed=bool(count) and config.kind != "stdout" and not config.paused)
    if not repeated:
        click.echo(f"nothing of what is kept goes to {sink} again")
        return
    again = " again" if repeated == count else f", {repeated} of them again"
    line = f"{words} go{'es' * (count == 1)} to {sink}{again}, from {stamp(oldest[0].time_ms)} on"
    for text in (line, *_what_it_means(config, row)):
        click.echo(printable(text))


def _placed(outbox: Outbox, config: SinkConfig, position: int) -> SinkState:
    """Put the sink's cursor back, and its thinning to its beginning (protocol §4)."""

    def change(row: SinkState) -> SinkState:
        if position > row.position:
            raise Fail(
                f"{config.name} is at position {row.position}: from {position} on it would miss what it has not"
                f" had; `sessionpipe sinks add {config.target} --name {config.name} --from now` skips that"
            )
        return row.placed(position)

    row = outbox.change_sink(config.name, change)
    if row is None:
        raise Fail(f"{config.name} was removed meanwhile")
    return row


def _position(outbox: Outbox, start: str) -> int:
    """The position behind which the replay begins."""
    if start == "start":
        return 0
    if re.fullmatch(r"[0-9]{1,18}", start):
        return int(start)
    if found := re.fullmatch(r"([0-9]{1,6})([mhd])", start):
        return outbox.before(now_ms() - int(found[1]) * _UNITS_MS[found[2]])
    usage("--from takes start, a position as in 1200, or how long ago as in 30m, 2h, 3d")


def _what_it_means(config: SinkConfig, row: SinkState) -> list[str]:
    said = {
        "file": f"  written to {tilde(str(config.path))} once more, behind what is there",
        "stdout": "  printed by `sessionpipe flush` and `sessionpipe worker --foreground`",
        "http": "  a receiver knows each by its session and number, and ignores those it has",
        "otlp": "  a collector is given each record once more, with the same log.record.uid",
    }
    lines = [
        said.get(config.kind, "  with the same ids as before: whether it knows them is up to its package")
    ]
    if config.paused:
        lines.append(f"  you paused it; `sessionpipe sinks resume {config.name}` starts it")
    elif row.paused:
        lines.append(f"  once it is no longer paused ({row.paused})")
    return lines


COMMANDS = {"replay": replay}
