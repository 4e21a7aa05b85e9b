"""What a person is told about a sink: what it gets, what goes to it now, what is not as it should be."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sessionpipe import config as settings
from sessionpipe.config import SinkConfig
from sessionpipe.delivery.batch import Policy, wanted
from sessionpipe.kinds import kind_of
from sessionpipe.outbox import Outbox, SinkState
from sessionpipe.protocol.vocabulary import VOCABULARY
from sessionpipe.sinks.discovery import Discovery, remembered

if TYPE_CHECKING:
    from sessionpipe.sinks.wire import Unreachable

#: What a tier carries, in the words a person decides by; each one adds to those before it.
TIERS = (
    "presence: which sessions run, their folder, repository, branch, model, title and link; turns; that one needs you",
    "actions: and tool names, durations, errors, files touched, what it asks you",
    "conversation: and your prompts and its answers",
    "everything: and what went into and came out of its tools",
)


def keeps(sink: SinkConfig) -> str:
    """What of a sink can't be undone, where that lies in its kind."""
    if sink.kind == "otlp":
        return "OTLP has no way to take anything back: what it was sent stays wherever the collector puts it"
    return ""


def effective_tier(sink: SinkConfig, row: SinkState) -> int:
    """The lower of what the person set and what the receiver takes (protocol §5)."""
    return sink.tier if row.max_tier is None else min(sink.tier, row.max_tier)


def ahead(outbox: Outbox, sink: SinkConfig, row: SinkState) -> tuple[int, str]:
    """How many recorded events lie before the sink, and that as words: ``at most 3 recorded events``.

    Counted by type, without reading an event: at most so many go where tool events are thinned, or
    where the receiver has not said yet which types it takes.
    """
    receiver = remembered(row.discovery, sink.url or "")
    tier = effective_tier(sink, row)
    unasked = sink.kind == "http" and receiver is None
    thinned = tier > 0 and (sink.tools or (receiver.tools if receiver else "all")) != "all"
    refused = receiver is not None and "backfill" not in receiver.capabilities
    policy = Policy(tier, without=frozenset({"session.backfill"}) if refused else frozenset())
    count = outbox.behind_of(row.position, [kind for kind in VOCABULARY if wanted(kind, policy)])
    most = "at most " if count and (thinned or unasked) else ""
    return count, f"{most}{count} recorded event{'s' * (count != 1)}"


def introduction(
    sink: SinkConfig,
    old: SinkConfig | None,
    said: Discovery | Unreachable | None,
    row: SinkState,
    outbox: Outbox,
    start: str | None,
    *,
    lifted: bool = False,
) -> Iterator[str]:
    """What the person should know now that ``sink`` was added, or changed from ``old``.

    ``lifted``: its receiver's answer had paused it, and that is over.
    """
    tier = effective_tier(sink, row)
    verb = "added" if old is None else "changed" if old != sink else "kept"
    change = f" (was {old.tier})" if old is not None and old.tier != sink.tier else ""
    yield f"{verb} {sink.name}, tier {sink.tier}{change}, to {sink.target}"
    if old is None or old.tier != sink.tier:
        for number in range(tier + 1):
            yield f"  tier {number} is {TIERS[number]}"
    if tier < sink.tier:
        yield f"  its receiver takes tier {tier} at most, so that is what it gets"
    if old is not None and old.tier < sink.tier:
        yield "  that is for what has not gone yet; what it has stays as it was sent"
    if sink.pii:
        yield "  e-mail addresses, phone numbers, home paths and the machine's name are masked"
    if lifted and not sink.paused:
        count, words = ahead(outbox, sink, row)
        waits = f"; {words} wait{'s' * (count == 1)} for it" if count else ""
        yield f"  its receiver had it paused; it is sent to again{waits}"
    yield from _recorded(sink, row, outbox, start, new=old is None)
    if said is not None:
        yield from _about_receiver(sink, said, row)
    if kind_of(sink.kind).takes:
        yield from _about_keys(sink)
    if old is None and (remark := keeps(sink)):
        yield f"  {remark}"
    if sink.paused:
        yield f"  you paused it; `sessionpipe sinks resume {sink.name}` starts it"


def _recorded(
    sink: SinkConfig, row: SinkState, outbox: Outbox, start: str | None, *, new: bool
) -> Iterator[str]:
    if start == "now":
        yield "  it gets what happens from now on; nothing recorded before is sent"
        return
    if not new and start is None:
        return
    if start is None and row.position:
        yield "  the file holds events already; it goes on behind the last of them"
    count, words = ahead(outbox, sink, row)
    if count:
        yield (
            f"  {words} go{'es' * (count == 1)} first;"
            f" `sessionpipe sinks add {shlex.quote(sink.target)} --name {sink.name} --from now`"
            " skips what has not gone yet"
        )
    else:
        yield "  nothing is recorded for it yet"


def _about_receiver(sink: SinkConfig, said: Discovery | Unreachable, row: SinkState) -> Iterator[str]:
    if isinstance(said, Exception):
        yield f"  warning: its receiver can't be reached just now ({said}); events wait until it can"
        return
    if said.problem:
        yield f"  warning: its well-known file could not be read ({said.problem}); the defaults are used"
    if row.paused:
        yield f"  warning: nothing is sent: {row.paused}"
    if settings.origin(said.events) != settings.origin(sink.url or ""):
        where = settings.origin(said.events)
        yield f"  its receiver takes events at {where}, so they go there, token included"
    if not said.problem and not said.forgets:
        yield "  its receiver does not say that it can forget a session; `sessionpipe forget` can only ask"


def _about_keys(sink: SinkConfig) -> Iterator[str]:
    from sessionpipe.sinks import keys

    try:
        if keys.token(sink, os.environ) is None and sink.kind == "http":
            yield "  no token is sent; --token-env, --token-file or --token - gives one"
        keys.secret(sink, os.environ)
        keys.headers(sink, os.environ)
    except keys.KeyMissing as missing:
        yield f"  warning: it waits, because {missing}"
    for path in keys.readable_by_others(sink, os.environ):
        yield f"  warning: others can read {path}; run `chmod 600` on it"
