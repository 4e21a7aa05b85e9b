"""Where a sink stands: its settings, its row in the outbox, and the worker that is to look at both."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from sessionpipe import config as settings
from sessionpipe.cli.common import Fail, config_path, state
from sessionpipe.cli.sink_words import introduction
from sessionpipe.clock import now_ms
from sessionpipe.config import Config, ConfigError, SinkConfig
from sessionpipe.outbox import Outbox, OutboxError, SinkState
from sessionpipe.paths import make_private

if TYPE_CHECKING:
    from sessionpipe.sinks.base import Held
    from sessionpipe.sinks.discovery import Discovery
    from sessionpipe.sinks.wire import Unreachable


def find(name: str) -> SinkConfig:
    """The sink of that name. Raises :class:`Fail`."""
    return named(settings.load(config_path()), name)


def named(known: Config, name: str) -> SinkConfig:
    """The sink of that name among those that are ``known``. Raises :class:`Fail`."""
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


def cleared(row: SinkState, **fields: Any) -> SinkState:
    """The row without what stopped it: the person acted."""
    return msgspec.structs.replace(
        row, paused=None, failures=0, next_attempt_ms=0, since_ms=0, last_error=None, **fields
    )


# --- putting a sink into place ----------------------------------------------------------------------


def put(
    known: Config,
    old: SinkConfig | None,
    sink: SinkConfig,
    start: str | None,
    said: Discovery | Unreachable | None,
) -> list[str]:
    """Write the row and settings of ``sink``, a new one or one changed from ``old``; what to say of it.

    ``start`` is where it begins (``start``, ``now``, or unsaid), ``said`` what its receiver said of itself.
    Raises :class:`Fail`, and what :func:`mended` turns into one.
    """
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


def ask(sink: SinkConfig) -> Discovery | Unreachable:
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
