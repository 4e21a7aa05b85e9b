"""``sinks``: where events go, and how much of them."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from sessionpipe import config as settings
from sessionpipe.cli.common import Fail, config_path, printable, state, usage
from sessionpipe.cli.sink_code import look_at_code
from sessionpipe.cli.sink_options import changed, changes, existing, free_name, target_of, with_settings
from sessionpipe.cli.sink_place import ask, cleared, find, look_again, mended, named, outbox_of, put
from sessionpipe.cli.sink_words import ahead, keeps
from sessionpipe.clock import now_ms
from sessionpipe.outbox import SinkState


@click.group()
def sinks() -> None:
    """Say where events go, and how much of them.

    \b
    Example:
      sessionpipe sinks add https://board.example --tier 1 --token-env BOARD_TOKEN
      sessionpipe sinks list
    """


@sinks.command(short_help="Send events to a receiver, a Collector, a file, or stdout.")
@click.argument("target")
@click.option("--name", help="What to call it; made from the target unless said.")
@with_settings
@click.option(
    "--from",
    "start",
    type=click.Choice(["start", "now"]),
    help="Send what is recorded already, or only what comes; start unless said.",
)
def add(target: str, name: str | None, start: str | None, **options: Any) -> None:
    """Send events to TARGET: a receiver's URL, otlp:URL, file:PATH, or stdout.

    otlp: stands before the URL of an OpenTelemetry Collector, which gets events as log records. An installed
    package may bring further kinds (KIND:… or KIND://…).

    Adding a sink again changes what is said and keeps the rest, its token included. What a tier
    carries: 0 presence, 1 actions, 2 conversation, 3 everything.

    \b
    Examples:
      sessionpipe sinks add file:~/agents.ndjson --tier 1
      sessionpipe sinks add https://board.example --tier 1 --token-env BOARD_TOKEN
      sessionpipe sinks add https://board.example --token - < token.txt
      sessionpipe sinks add otlp:https://collector.example:4318 --header-env api-key=OTLP_KEY
    """
    target_ = target_of(target)
    said = changes(target_.kind, **options)
    with mended():
        known = settings.load(config_path())
        old = existing(known, target_, name)
        sink = old or msgspec.structs.replace(target_, name=name or free_name(known, target_))
        sink = changed(sink, said)
        remarks = look_at_code(sink)
        # Asked before anything is written: what it takes decides what goes first.
        lines = put(known, old, sink, start, ask(sink) if sink.kind == "http" else None)
    for line in (*lines, *remarks):
        click.echo(printable(line))


@sinks.command("set", short_help="Change what a sink gets, or how it is spoken to.")
@click.argument("name")
@with_settings
def set_(name: str, **options: Any) -> None:
    """Change what NAME gets, or how it is spoken to; what is not said stays.

    It takes effect at once, for what has not gone yet.

    \b
    Examples:
      sessionpipe sinks set board --tier 1 --pii
      sessionpipe sinks set board --token - < token.txt
    """
    with mended():
        known = settings.load(config_path())
        old = named(known, name)
        said = changes(old.kind, **options)
        if not said:
            usage("say what is to change, as in --tier 1")
        # Without asking the receiver: a lower tier must not wait for one that is slow.
        lines = put(known, old, changed(old, said), None, None)
    for line in lines:
        click.echo(printable(line))


@sinks.command("list")
def list_() -> None:
    """List the sinks: what each one gets, where, and how it does.

    \b
    Example:
      sessionpipe sinks list
    """
    from sessionpipe.cli.render import table
    from sessionpipe.cli.status import sink_data, standing
    from sessionpipe.cli.store import looking

    with mended():
        known = settings.load(config_path())
    if not known.sinks:
        click.echo("no sinks yet; add one: sessionpipe sinks add file:~/agents.ndjson")
        return
    now = now_ms()
    lines = [("NAME", "TIER", "PII", "TARGET", "STATE")]
    with looking(state()) as outbox:
        rows = {row.name: row for row in outbox.sinks()} if outbox else {}
        found = [rows.get(sink.name) for sink in known.sinks]
        positions = [row.position if row else 0 for row in found]
        behind = outbox.all_behind(positions) if outbox else [0] * len(found)
        for sink, row, lacks in zip(known.sinks, found, behind, strict=True):
            shown = sink_data(sink, row, lacks, now)
            capped = shown["effective_tier"] != sink.tier
            # A tier like 2→1 is one that the receiver lowered.
            tier = f"{sink.tier}→{shown['effective_tier']}" if capped else str(sink.tier)
            pii = "masked" if sink.pii else "-"
            headers = f" ({', '.join(sink.headers)})" if sink.headers else ""
            lines.append((sink.name, tier, pii, sink.shown + headers, standing(shown, now)))
    for line in table(lines):
        click.echo(line)
    for sink in known.sinks:
        if remark := keeps(sink):
            click.echo(printable(f"{sink.name}: {remark}"))


@sinks.command(short_help="Send nothing more to a sink, and forget its token.")
@click.argument("name")
def remove(name: str) -> None:
    """Send nothing more to NAME, and forget its place and its token.

    What it already has stays with it; what is recorded stays on this machine.

    \b
    Example:
      sessionpipe sinks remove board
    """
    with mended():
        find(name)
        settings.remove_sink(config_path(), name)
        with outbox_of() as outbox:
            outbox.remove_sink(name)
        look_again()
    click.echo(f"removed {name}")


@sinks.command(short_help="Try a sink: send it a made-up session and take it back.")
@click.argument("name")
def test(name: str) -> None:
    """Try NAME: send it a heartbeat of a made-up session, and take that session back.

    A file is opened as delivery would open it; nothing is written.

    \b
    Example:
      sessionpipe sinks test board
    """
    with mended():
        sink = find(name)
    if sink.kind == "stdout":
        click.echo("stdout gets its events from `sessionpipe worker --foreground` and `sessionpipe flush`")
    elif sink.kind == "file":
        from sessionpipe.sinks.file import FileSink

        file = FileSink(sink.path or "")
        try:
            file.check()
        except OSError as error:
            raise Fail(f"{file.path} can't be written: {error.strerror}") from None
        finally:
            file.close()
        click.echo(f"{printable(file.path)} can be written")
    else:
        from sessionpipe.cli.sink_trial import try_receiver

        with mended(), outbox_of() as outbox:
            row = outbox.sink(sink.name) or SinkState(name=sink.name)
        for line in try_receiver(sink, row):
            click.echo(printable(line))


@sinks.command(short_help="Send nothing to a sink until it is resumed.")
@click.argument("name")
def pause(name: str) -> None:
    """Send nothing to NAME until it is resumed; what happens meanwhile waits for it.

    \b
    Example:
      sessionpipe sinks pause board
    """
    with mended():
        settings.put_sink(config_path(), msgspec.structs.replace(find(name), paused=True))
        look_again()
    click.echo(f"paused {name}; what happens meanwhile waits for it")


@sinks.command(short_help="Send to a sink again, whatever paused it.")
@click.argument("name")
def resume(name: str) -> None:
    """Send to NAME again, whether you paused it or its receiver's answer did.

    \b
    Example:
      sessionpipe sinks resume board
    """
    with mended():
        sink = find(name)
        with outbox_of() as outbox:
            outbox.add_sink(name, 0)
            # What was learnt of the receiver may be what stopped it: it is asked again.
            row = outbox.change_sink(name, lambda row: cleared(row, discovery={}, max_tier=None))
            row = row or SinkState(name=name)
            count, words = ahead(outbox, sink, row)
            owed = sink.kind != "stdout" and outbox.behind(row.position) > 0
        settings.put_sink(config_path(), msgspec.structs.replace(sink, paused=False))
        look_again(owed=owed)
    waits = f"; {words} wait{'s' * (count == 1)} for it" if count else ""
    click.echo(f"resumed {name}{waits}")


COMMANDS = {"sinks": sinks}
