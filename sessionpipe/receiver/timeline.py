"""A session's events as its turns: what was asked, what was done, what was answered. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sessionpipe.receiver.board import spoken_in
from sessionpipe.receiver.incoming import Event, moment
from sessionpipe.words import Words, describe, text_of

#: Said elsewhere on the page, or of no interest in hindsight.
_SILENT = frozenset({"session.heartbeat", "turn.transcript", "turn.progress"})


class Step(msgspec.Struct):
    """One thing that happened; ``at`` in epoch milliseconds."""

    at: int
    words: Words
    call: str = ""
    running: bool = False


class Part(msgspec.Struct):
    """A turn: from its prompt to its end; or what happened outside of any, when ``at`` is None.

    ``key`` is the ``seq`` it began with. ``user`` and ``assistant`` are what was said, where the tier
    carried it; ``progress``: so far.
    """

    key: int = -1
    at: int | None = None
    id: str = ""
    opening: Words | None = None
    closing: Words | None = None
    spoken: bool = False
    user: str = ""
    assistant: str = ""
    progress: str = ""
    steps: list[Step] = []


def parts(events: Iterable[tuple[Event, int]]) -> list[Part]:
    """The turns of ``events``, which come in the order of ``seq``, each with when it arrived."""
    found: list[Part] = [Part()]
    for event, arrived_ms in events:
        at, data = min(event.at_ms, arrived_ms), event.data
        said = describe({"type": event.type, "data": data})
        match event.type:
            case "turn.started" if not _goes_on(found[-1], data):
                found.append(Part(event.seq, at, text_of(data, "turn_id"), said))
            case "turn.ended":
                _part_of(found, data).closing = said
            case "turn.transcript":
                part = spoken_in(found, _at(data))
                if part is None:
                    # Of a turn that is not among these.
                    part = Part(event.seq)
                    found.insert(len(found) - 1, part)
                part.spoken = True
                part.user, part.assistant = text_of(data, "user"), text_of(data, "assistant")
            case "turn.progress":
                found[-1].user = found[-1].user or text_of(data, "user")
                found[-1].progress = text_of(data, "assistant")
            case "tool.started":
                found[-1].steps.append(Step(at, said, _call(data), running=True))
            case "tool.ended":
                _ended(found[-1], Step(at, said, _call(data)))
            case type_ if type_ not in _SILENT:
                found[-1].steps.append(Step(at, said))
    return [part for part in found if part.at is not None or part.steps or part.closing or part.user]


def _goes_on(part: Part, data: Mapping[str, Any]) -> bool:
    """Whether a prompt was taken into the turn that runs."""
    return bool(part.id) and part.closing is None and part.id == text_of(data, "turn_id")


def _part_of(found: list[Part], data: Mapping[str, Any]) -> Part:
    name = text_of(data, "turn_id")
    return next((part for part in reversed(found) if name and part.id == name), found[-1])


def _at(data: Mapping[str, Any]) -> int:
    try:
        return moment(text_of(data, "at"))
    except ValueError:
        return 1 << 62


def _call(data: Mapping[str, Any]) -> str:
    return text_of(data, "call_id") or f"{text_of(data, 'agent_id')} {text_of(data, 'tool')}"


def _ended(part: Part, step: Step) -> None:
    """A call's end stands where its start stood, and says more."""
    for index in reversed(range(len(part.steps))):
        begun = part.steps[index]
        if begun.running and begun.call == step.call:
            step.at = begun.at
            part.steps[index] = step
            return
    part.steps.append(step)
