"""``sinks``: where events go, and how much of them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

from sessionpipe import config as settings
from sessionpipe.cli.common import Fail, config_path, printable, state, usage
from sessionpipe.cli.sink_options import changes, existing, free_name, target_of, with_settings
from sessionpipe.cli.sink_words import ahead, introduction
from sessionpipe.clock import now_ms
from sessionpipe.config import Config, ConfigError, SinkConfig
from sessionpipe.outbox import Outbox, OutboxError, SinkState
from sessionpipe.paths import make_private

if TYPE_CHECKING:
    from sessionpipe.sinks.base import Held
    from sessionpipe.sinks.discovery import Discovery
    from sessionpipe.sinks.wire import Unreachable


@click.group()
def sinks() -> None:
    """Say where events go, and how much of them.

    \b
    Example:
      sessionpipe sinks add https://board.example --tier 1 --token-env BOARD_TOKEN
      sessionpipe sinks list
    """


@sinks.command(short_help="Send events to a receiver, a file, or stdout.")
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
    """Send events to TARGET: a receiver's URL, file:PATH, or stdout.

    Adding a sink again changes what is said and keeps the rest, its token included. What a tier
    carries: 0 presence, 1 actions, 2 conversation, 3 everything.

    \b
    Examples:
      sessionpipe sinks add file:~/agents.ndjson --tier 1
      sessionpipe sinks add https://board.example --tier 1 --token-env BOARD_TOKEN
      sessionpipe sinks add https://board.example --token - < token.txt
    """
    target_ = target_of(target)
    said = changes(target_.kind, **options)
    with mended():
        known = settings.load(config_path())
        old = existing(known, target_, name)
        sink = old or msgspec.structs.replace(target_, name=name or free_name(known, target_))
        sink = msgspec.structs.replace(sink, **said)
        # Asked before anything is written: what it takes decides what goes first.
        lines = _put(known, old, sink, start, _ask(sink) if sink.kind == "http" else None)
    for line in lines:
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
        old = _found(known, name)
        said = changes(old.kind, **options)
        if not said:
            usage("say what is to change, as in --tier 1")
        # Without asking the receiver: a lower tier must not wait for one that is slow.
        lines = _put(known, old, msgspec.structs.replace(old, **said), None, None)
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
        for sink in known.sinks:
            row = rows.get(sink.name)
            behind = outbox.behind(row.position if row else 0) if outbox else 0
            shown = sink_data(sink, row, behind, now)
            capped = shown["effective_tier"] != sink.tier
            # A tier like 2→1 is one that the receiver lowered.
            tier = f"{sink.tier}→{shown['effective_tier']}" if capped else str(sink.tier)
            pii = "masked" if sink.pii else "-"
            lines.append((sink.name, tier, pii, sink.target, standing(shown, now)))
    for line in table(lines):
        click.echo(line)


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


# --- putting a sink into place ----------------------------------------------------------------------


def _put(
    known: Config,
    old: SinkConfig | None,
    sink: SinkConfig,
    start: str | None,
    said: Discovery | Unreachable | None,
) -> list[str]:
    """Write the sink's row and settings, have them looked at; what to tell the person."""
    held = _file_holds(known, sink) if sink.kind == "file" else ()
    before: SinkState | None = None
    with outbox_of() as outbox:
        if old is None:
            row = _put_row(outbox, sink, said, held, new=True, start=start)
            settings.put_sink(config_path(), sink)
        else:
            # A worker may be at it: what is skipped must not go at the new tier, and what was stopped,
            # or goes once more, not at the one of before.
            before = outbox.sink(sink.name)
            if start == "now":
                outbox.change_sink(sink.name, lambda row: row.placed(outbox.last_position()))
            settings.put_sink(config_path(), sink)
            row = _put_row(outbox, sink, said, held, new=False, start=None if start == "now" else start)
        lifted = before is not None and before.paused is not None and row.paused is None
        lines = list(introduction(sink, old, said, row, outbox, start, lifted=lifted))
        owed = sink.kind != "stdout" and outbox.behind(row.position) > 0
    look_again(owed=owed)
    return lines


def _file_holds(known: Config, sink: SinkConfig) -> tuple[Held, ...]:
    """The events a file ends with; it is opened as delivery would, so that what is wrong is known now."""
    from sessionpipe.sinks.file import FileSink, expand

    there = os.path.realpath(expand(sink.path or ""))
    for other in known.sinks:
        if other.name != sink.name and other.path and os.path.realpath(expand(other.path)) == there:
            raise Fail(f"{other.name} writes to that file already; give each sink its own file")
    file = FileSink(sink.path or "")
    try:
        if known.sink(sink.name) is not None:
            # A worker may be writing to it: its end is not to be touched.
            file.check()
            return ()
        return file.tail().events
    except OSError as error:
        raise Fail(f"{file.path} can't be written: {error.strerror}") from None
    finally:
        file.close()


def _ask(sink: SinkConfig) -> Discovery | Unreachable:
    """What the receiver says about itself, or why it can't be asked just now."""
    from sessionpipe.sinks.http import ask
    from sessionpipe.sinks.wire import Unreachable, Wire

    wire = Wire()
    try:
        return ask(sink.url or "", now_ms(), wire)
    except Unreachable as error:
        return error
    finally:
        wire.close()


def _put_row(
    outbox: Outbox,
    sink: SinkConfig,
    said: Discovery | Unreachable | None,
    held: tuple[Held, ...],
    *,
    new: bool,
    start: str | None,
) -> SinkState:
    """Bring the sink's row in line with what was said, before a worker sees it in the config."""
    if new:
        # A row of that name is of a sink that was taken out of the config by hand.
        outbox.remove_sink(sink.name)
    outbox.add_sink(sink.name, 0)

    def change(row: SinkState) -> SinkState:
        # What was learnt of the receiver may be what stopped it: then it is asked again.
        row = cleared(row, discovery={} if row.paused else row.discovery)
        if held and start is None:
            from sessionpipe.delivery.courier import last_held

            row = row.placed(last_held(outbox, held)[1])
        elif start is not None:
            row = row.placed(outbox.last_position() if start == "now" else 0)
        if held:
            # What the file holds was there before: nothing of it is taken for a batch of this sink.
            row.last_id = held[-1].id
        # One that can't be reached now is asked by its courier once it can.
        if said is None or isinstance(said, Exception):
            return row
        # A receiver whose file can't be read now, but could earlier, is known better from then.
        if said.problem and row.discovery and not row.discovery.get("problem"):
            return row
        return msgspec.structs.replace(
            row,
            discovery=msgspec.to_builtins(said),
            max_tier=said.max_tier,
            paused=said.refusal,
            since_ms=now_ms() if said.refusal else 0,
        )

    row = outbox.change_sink(sink.name, change)
    if row is None:
        raise Fail(f"{sink.name} was removed while it was added; try again")
    return row


def cleared(row: SinkState, **fields: Any) -> SinkState:
    """The row without what stopped it: the person acted."""
    return msgspec.structs.replace(
        row, paused=None, failures=0, next_attempt_ms=0, since_ms=0, last_error=None, **fields
    )


# --- what the others need ---------------------------------------------------------------------------


def find(name: str) -> SinkConfig:
    """The sink of that name. Raises :class:`Fail`."""
    return _found(settings.load(config_path()), name)


def _found(known: Config, name: str) -> SinkConfig:
    found = known.sink(name)
    if found is None:
        names = ", ".join(sink.name for sink in known.sinks) or "none"
        raise Fail(f"there is no sink {name}; there is: {names}")
    return found


@contextmanager
def mended() -> Iterator[None]:
    """Whatever goes wrong with the settings or the outbox, in one line."""
    try:
        yield
    except (ConfigError, OutboxError) as error:
        raise Fail(str(error)) from None
    except sqlite3.Error as error:
        raise Fail(
            f"the outbox {state().outbox} can't be used: {error}; `sessionpipe doctor` says more"
        ) from None
    except OSError as error:
        raise Fail(f"{error.filename or state().root} can't be used: {error.strerror}") from None


@contextmanager
def outbox_of() -> Iterator[Outbox]:
    """This person's outbox, made if there is none yet."""
    make_private(state().root)
    outbox = Outbox.open(state().outbox)
    try:
        yield outbox
    finally:
        outbox.close()


def look_again(*, owed: bool = False) -> None:
    """Have a living worker look at what was changed; start one when something is ``owed``."""
    from sessionpipe.cli.rouse import rouse
    from sessionpipe.wake import wake

    if owed:
        rouse(state())
    else:
        wake(state())
