"""``sessionpipe status``: what is recorded, what waits, where it goes. Writes nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from sessionpipe import __version__, places
from sessionpipe.cli.common import Fail, config_path, echo_json, printable, reason, state
from sessionpipe.cli.render import STYLES, Tone, ago, colour_wanted, duration, table, tilde
from sessionpipe.cli.store import looking
from sessionpipe.clock import now_ms
from sessionpipe.config import FILE, Config, ConfigError, SinkConfig, load
from sessionpipe.liveness import worker_alive, worker_trouble
from sessionpipe.log import last_error
from sessionpipe.outbox import Outbox, SinkState
from sessionpipe.outboxfile import those_set_aside
from sessionpipe.paths import State
from sessionpipe.protocol import rfc3339
from sessionpipe.spool import Spool

#: From what share of ``max_mb`` on it is said what will be let go.
NEAR = 0.8


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON, with stable names.")
def status(as_json: bool) -> None:
    """Show what is recorded, what waits, and how each sink does.

    \b
    Examples:
      sessionpipe status
      sessionpipe status --json | jq '.sinks[] | {name, behind}'
    """
    report = gather(state(), config_path(), now_ms())
    if as_json:
        echo_json(report)
    else:
        _show(report, now_ms())


def gather(place: State, config_dir: Path, now_ms: int) -> dict[str, Any]:
    """What ``status --json`` prints. What cannot be read is a problem, and hides nothing else."""
    problems = list(_places(place))
    alive, pid = worker_alive(place)
    waiting, rejected = _jobs(place, problems)
    problems += _waiting_for(place, alive, waiting)
    config = _config(config_dir, problems)
    events = sessions = 0
    sinks = [sink_data(sink, None, 0, now_ms) for sink in config.sinks] if config else []
    kept: dict[str, Any] = {
        "days": config.retention_days if config else None,
        "max_mb": config.max_mb if config else None,
        "bytes": 0,
        "at_risk": [],
    }
    try:
        with looking(place) as outbox:
            if outbox is not None:
                events, sessions = outbox.count()
                sinks = list(_sinks(config, outbox, events, now_ms))
                kept["bytes"] = outbox.occupied()
                kept["at_risk"] = list(at_risk(config, outbox, sinks, events)) if config else []
    except (Fail, OSError) as error:
        problems.append(str(error))
    aside = [str(path) for path in those_set_aside(place.outbox)]
    problems += [
        f"a damaged outbox was set aside as {path}; `sessionpipe doctor` says more" for path in aside
    ]
    problems += map(warning, kept["at_risk"])
    return {
        "version": __version__,
        "state_dir": str(place.root),
        "config": str(config_dir / FILE),
        "problems": problems,
        "worker": {"alive": alive, "pid": pid},
        "jobs": {"waiting": waiting, "rejected": rejected},
        "events": events,
        "sessions": sessions,
        "bytes": _size(place.outbox),
        "retention": kept,
        "set_aside": aside,
        "harnesses": harness_data(place),
        "sinks": sinks,
    }


def _places(place: State) -> Iterator[str]:
    for wrong in places.wrong(place):
        yield wrong.what
    free = places.room(place.root)
    # The log cannot say it: it has no room either.
    if free is not None and free < places.NO_ROOM:
        yield f"the disk is full ({_bytes(free)} are free below {place.root}): what hooks leave waits or is lost"


def _waiting_for(place: State, alive: bool, jobs: int) -> Iterator[str]:
    """What keeps the worker from its work, or why there is none though there is work for one."""
    if alive:
        if trouble := worker_trouble(place):
            yield f"the worker waits: {trouble}"
    elif jobs and (said := last_error(place)):
        yield f"no worker is at work, and jobs wait; the last one said: {said}"


def at_risk(
    config: Config, outbox: Outbox, sinks: list[dict[str, Any]], events: int
) -> Iterator[dict[str, Any]]:
    """The sinks whose events will be let go when the outbox reaches ``max_mb``, from four fifths of it on.

    The oldest events go first, those that every sink has before any that one lacks: a sink is at risk
    once what waits for it fills so much by itself (told from its share of the events).
    """
    if config.max_mb is None or not events:
        return
    near = (config.max_mb << 20) * NEAR
    for sink in sinks:
        if sink["kind"] == "stdout" or outbox.occupied() * sink["behind"] / events < near:
            continue
        since = outbox.waiting_since(sink["position"])
        yield {
            "sink": sink["name"],
            "events": sink["behind"],
            "since": None if since is None else rfc3339(since),
            "full": round(outbox.occupied() / (config.max_mb << 20), 2),
        }


def warning(risk: dict[str, Any]) -> str:
    """What will be lost, before it is."""
    return (
        f"{risk['sink']} lacks {count(risk['events'], 'event')}, the oldest of {risk['since']}, and the outbox"
        f" is {risk['full']:.0%} full (max_mb): when it is full the oldest of them are let go"
    )


def _jobs(place: State, problems: list[str]) -> tuple[int, int]:
    spool = Spool(place.spool)
    try:
        return len(spool.names()), len(spool.rejected_names())
    except OSError as error:
        problems.append(f"the spool cannot be read: {reason(error)}")
        return 0, 0


def _config(config_dir: Path, problems: list[str]) -> Config | None:
    try:
        return load(config_dir)
    except ConfigError as error:
        problems.append(f"{error}; nothing is delivered until it is mended")
        return None


def harness_data(place: State) -> list[dict[str, Any]]:
    """Per harness the files its hooks stand in, and in which state they are."""
    from sessionpipe.install import inspect

    return [
        {"name": name, "files": [{"path": str(f.path), "state": f.state, "why": f.why} for f in files]}
        for name, files in inspect(env=os.environ, state=place)
    ]


def sinks_data(place: State, config: Config, now_ms: int) -> list[dict[str, Any]]:
    """Each sink as ``--json`` shows it; as one that nothing is known of where the outbox cannot be read."""
    with suppress(Fail, OSError), looking(place) as outbox:
        if outbox is not None:
            return list(_sinks(config, outbox, None, now_ms))
    return [sink_data(sink, None, 0, now_ms) for sink in config.sinks]


def _sinks(
    config: Config | None, outbox: Outbox, events: int | None, now_ms: int
) -> Iterator[dict[str, Any]]:
    known = {sink.name: sink for sink in outbox.sinks()}
    if config is not None:
        rows = [known.get(sink.name) for sink in config.sinks]
        behind = outbox.all_behind([row.position if row else 0 for row in rows], events)
        for sink, row, lacks in zip(config.sinks, rows, behind, strict=True):
            yield sink_data(sink, row, lacks, now_ms)
        return
    # Which sinks there are cannot be read: what is remembered of them is shown instead.
    behind = outbox.all_behind([row.position for row in known.values()], events)
    for row, lacks in zip(known.values(), behind, strict=True):
        unread = {"kind": None, "target": None, "tier": None, "effective_tier": None, "paused": True}
        shown = sink_data(SinkConfig(name=row.name, kind="stdout"), row, lacks, now_ms)
        yield {**shown, **unread, "reason": "the settings cannot be read"}


def sink_data(sink: SinkConfig, row: SinkState | None, behind: int, now_ms: int) -> dict[str, Any]:
    """One sink as ``--json`` shows it.

    ``reason`` is why it is paused or what its last attempt met, ``since`` when that began; ``dropped``
    events were given up, ``withheld`` are of types its receiver does not take.
    """
    row = row or SinkState(name=sink.name)
    # A wait that was asked for (by the receiver, or for a missing token) counts no failure.
    waits = bool(row.failures or row.next_attempt_ms)
    reason = row.paused or (row.last_error if waits else None)
    later = row.next_attempt_ms > now_ms
    return {
        "name": sink.name,
        "kind": sink.kind,
        "target": sink.shown,
        "tier": sink.tier,
        "effective_tier": sink.tier if row.max_tier is None else min(sink.tier, row.max_tier),
        "position": row.position,
        "behind": behind,
        "paused": sink.paused or row.paused is not None,
        "reason": "paused by you" if sink.paused else reason,
        "since": rfc3339(row.since_ms) if reason and row.since_ms else None,
        "next_attempt": rfc3339(row.next_attempt_ms) if later else None,
        "sent": row.sent,
        "dropped": row.dropped,
        "withheld": row.withheld,
        "lost": row.lost,
    }


def _size(path: Path) -> int:
    size = 0
    for file in (path, path.with_name(path.name + "-wal")):
        with suppress(OSError):
            size += file.stat().st_size
    return size


# --- for people ---------------------------------------------------------------------------------


def _show(report: dict[str, Any], now_ms: int) -> None:
    colour = colour_wanted(sys.stdout)

    def say(text: str, tone: Tone = "plain") -> None:
        text = printable(text).rstrip()
        click.echo(click.style(text, **STYLES[tone]) if colour else text)

    worker, jobs = report["worker"], report["jobs"]
    say(f"sessionpipe {report['version']}")
    for problem in report["problems"]:
        say(f"  problem   {problem}", "bad")
    say(f"  state     {tilde(report['state_dir'])} ({_bytes(report['bytes'])})")
    say(f"  settings  {tilde(report['config'])}")
    life = f"running, process {worker['pid']}" if worker["alive"] else "at rest; the next hook starts it"
    say(f"  worker    {life}")
    say(f"  recorded  {count(report['events'], 'event')} of {count(report['sessions'], 'session')}")
    rejected = f", {jobs['rejected']} set aside (`sessionpipe doctor` says why)" if jobs["rejected"] else ""
    say(f"  jobs      {jobs['waiting']} waiting{rejected}", "needs" if jobs["rejected"] else "plain")
    say("")
    say("hooks")
    rows = [
        (harness["name"], tilde(file["path"]), ": ".join(filter(None, (file["state"], file["why"]))))
        for harness in report["harnesses"]
        for file in harness["files"]
    ]
    for text in table(rows) or ["none; `sessionpipe install` puts them in"]:
        say(f"  {text}")
    say("")
    say("sinks")
    if not report["sinks"]:
        say("  none: events stay on this machine; `sessionpipe sinks add` sends them somewhere")
    cells = [
        (sink["name"], sink["kind"] or "?", _tier(sink), standing(sink, now_ms)) for sink in report["sinks"]
    ]
    for text, sink in zip(table(cells), report["sinks"], strict=True):
        say(f"  {text}", "bad" if sink["reason"] else "plain")


def standing(sink: dict[str, Any], now_ms: int) -> str:
    """How a sink does, in words."""
    said = [f"{count(sink['behind'], 'event')} behind" if sink["behind"] else "up to date"]
    since = _epoch_ms(sink["since"]) if sink["since"] else None
    if sink["reason"] == "paused by you":
        said.append(sink["reason"])
    elif sink["paused"]:
        when = f" {ago(since, now_ms)}" if since is not None else ""
        said.append(f"paused{when}: {sink['reason']}")
    elif sink["reason"]:
        lasts = f", for {duration(max(now_ms - since, 0))}" if since is not None else ""
        said.append(f"{sink['reason']}{lasts}")
    elif sink["kind"] == "stdout" and sink["behind"]:
        said.append("`sessionpipe flush` and `worker --foreground` serve it")
    if sink["next_attempt"]:
        said.append(f"next attempt in {duration(max(_epoch_ms(sink['next_attempt']) - now_ms, 0))}")
    if sink["dropped"]:
        said.append(f"{count(sink['dropped'], 'event')} given up")
    if sink["withheld"]:
        said.append(f"{count(sink['withheld'], 'event')} of a type its receiver does not take")
    if sink["lost"]:
        said.append(f"{count(sink['lost'], 'event')} let go before it had them (max_mb was reached)")
    return "; ".join(said)


def _epoch_ms(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def _tier(sink: dict[str, Any]) -> str:
    if sink["tier"] is None:
        return "tier ?"
    capped = sink["effective_tier"] != sink["tier"]
    return f"tier {sink['tier']}" + (f" (the receiver takes {sink['effective_tier']})" if capped else "")


def count(number: int, what: str) -> str:
    """``1 event``, ``2 events``."""
    return f"{number:,} {what}{'s' * (number != 1)}".replace(",", " ")


def _bytes(size: int) -> str:
    amount, units = float(size), ["B", "KB", "MB", "GB"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1000
        del units[0]
    return f"{amount:.0f} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"


COMMANDS = {"status": status}
