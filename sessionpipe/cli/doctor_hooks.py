"""What ``doctor`` knows of each agent: its files, which of its hooks fired, how long they took."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from sessionpipe import firings
from sessionpipe.adapters import registry
from sessionpipe.cli.common import Fail
from sessionpipe.cli.findings import Finding, Level
from sessionpipe.cli.render import ago, tilde
from sessionpipe.cli.store import looking
from sessionpipe.firings import Firings
from sessionpipe.install import FileState, inspect
from sessionpipe.install.targets import targets
from sessionpipe.paths import State
from sessionpipe.protocol import rfc3339

#: An agent that waited so long for one hook in twenty has noticed.
SLOW_MS = 500
#: So many turns begin before it means something that none of them ends.
BEGUN = 3
_DAY_MS = 24 * 3_600_000

_LEVELS: Mapping[str, Level] = {"installed": "ok", "skipped": "ok", "stale": "fail"}


class File(NamedTuple):
    """A file that holds, or could hold, an agent's hooks. ``state`` is a word or two, ``why`` more of it."""

    path: str
    state: str
    why: str
    mend: str


class Agent(NamedTuple):
    """A harness that we know: ``events`` are the hooks that ``install`` registers, ``fired`` what they did.

    Of one that is not on this machine they are none, unless :func:`agents` was asked for them.
    """

    name: str
    note: str
    events: Sequence[str]
    files: Sequence[File]
    fired: Firings


def agents(place: State, env: Mapping[str, str] = os.environ, *, all_events: bool = False) -> list[Agent]:
    """Every harness that we know, those that are not on this machine included.

    The events of those only with ``all_events``: they stand in the whole of their tables.
    """
    told: dict[str, Firings] = {}
    # A damaged outbox is another finding.
    with suppress(Fail, OSError), looking(place) as outbox:
        told = firings.read(outbox.note(firings.KEY) if outbox else None)
    there = dict(inspect(env=env, state=place))
    return [
        Agent(
            name,
            " ".join(dict.fromkeys(target.note for target in places if target.note)),
            list(dict.fromkeys(event for target in places for event in target.events))
            if all_events or name in there
            else [],
            [_file(name, found) for found in there.get(name, ())],
            told.get(name, Firings()),
        )
        for name, places in targets().items()
    ]


def _file(name: str, found: FileState) -> File:
    return File(str(found.path), found.state, found.why, found.mend or _mend(name, found.state))


def _mend(name: str, state: str) -> str:
    match state:
        case "installed" | "skipped":
            return ""
        case "missing" | "stale" | "inactive":
            return f"sessionpipe install {name}"
        case "needs trust":
            return f"start {name} once and trust the hooks it asks about"
        case _:
            return f"see to what is said of the file, then `sessionpipe install {name}`"


def as_json(agent: Agent) -> dict[str, Any]:
    """An agent as ``doctor --json`` shows it.

    ``hook_ms`` has the median and the 95th percentile of the latest ``hooks``, each from its first
    instruction to its job on disk; both are null when none fired.
    """
    seen = agent.fired.events
    return {
        "name": agent.name,
        "found": bool(agent.files),
        "version": agent.fired.version,
        "files": [file._asdict() for file in agent.files],
        "events": [
            {
                "event": event,
                "last": rfc3339(seen[event].last_ms) if event in seen else None,
                "count": seen[event].count if event in seen else 0,
            }
            for event in dict.fromkeys((*agent.events, *seen))
        ],
        "hook_ms": {
            "p50": firings.percentile(agent.fired.took, 0.50),
            "p95": firings.percentile(agent.fired.took, 0.95),
            "hooks": len(agent.fired.took),
        },
    }


def findings(known: Iterable[Agent], now_ms: int) -> Iterator[Finding]:
    """What is to be said of them, and the names of those that are not here."""
    absent = []
    for agent in known:
        if not agent.files:
            absent.append(agent.name)
            continue
        yield from (_of_file(agent.name, file) for file in agent.files)
        if any(file.state == "installed" for file in agent.files):
            yield _of_events(agent, now_ms)
            yield from _of_turns(agent)
            yield from _of_times(agent)
    if absent:
        yield Finding("hooks", "ok", f"not on this machine: {', '.join(absent)}")


def _of_file(name: str, file: File) -> Finding:
    said = f"{name}: {tilde(file.path)}: {file.state}"
    if file.why:
        said += f": {file.why}"
    elif file.state == "stale":
        said += ", which is not as this sessionpipe would write it, so events may not be recorded here"
    return Finding("hooks", _LEVELS.get(file.state, "warn"), said, file.mend)


def _of_events(agent: Agent, now_ms: int) -> Finding:
    seen = agent.fired.events
    who = f"{agent.name} {agent.fired.version}" if agent.fired.version else agent.name
    if not seen:
        hint = f" ({agent.note})" if agent.note else ""
        return Finding("hooks", "ok", f"{who}: no hook of it has fired yet{hint}")
    last = max(seen, key=lambda event: seen[event].last_ms)
    registered = [event for event in agent.events if event in seen]
    said = f"{who}: the last hook was {last}, {ago(seen[last].last_ms, now_ms)}"
    said += f"; {len(registered)} of {len(agent.events)} kinds have fired"
    p50, p95 = (firings.percentile(agent.fired.took, share) for share in (0.50, 0.95))
    if p50 is not None:
        said += f"; a hook records in {p50} ms, 19 of 20 in {p95} ms"
    return Finding("hooks", "ok", said)


def _of_turns(agent: Agent) -> Iterator[Finding]:
    """Turns that begin and never end: the hooks of the end are not run, and sessions seem to work for ever."""
    begun = [agent.fired.events[name] for name in _making(agent, "turn.started")]
    ended = [agent.fired.events[name] for name in _making(agent, "turn.ended")]
    last = max((event.last_ms for event in begun), default=0)
    if sum(event.count for event in begun) >= BEGUN and all(
        last - event.last_ms > _DAY_MS for event in ended
    ):
        yield Finding(
            "hooks",
            "warn",
            f"{agent.name}: turns begin, and for a day none was seen to end",
            f"sessionpipe install {agent.name}; then start {agent.name} anew",
        )


def _making(agent: Agent, kind: str) -> list[str]:
    """The events that fired and may become one of ``kind``."""
    known = registry.adapter(agent.name).events
    return [
        name
        for name in agent.fired.events
        if name in known and any(emission.type == kind for emission in known[name].emissions)
    ]


def _of_times(agent: Agent) -> Iterator[Finding]:
    p95 = firings.percentile(agent.fired.took, 0.95)
    if p95 is not None and p95 > SLOW_MS:
        yield Finding(
            "hooks",
            "warn",
            f"{agent.name}: one hook in twenty took {p95} ms or more, and {agent.name} waited for it",
            "is the state directory on a slow disk, or does the agent leave the hook's input open?",
        )


__all__ = ["Agent", "File", "agents", "as_json", "findings"]
