"""Our entries in a JSON file that other tools share: put in, recognised, taken out.

All of it is pure, on the file's text. An entry is ours when a string in it is our command in its
exact form (:func:`sessionpipe.install.launcher.recognise`) for this harness, whatever state
directory it names; a similar name is somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sessionpipe.install.jsonedit import Document
from sessionpipe.install.jsonedit import Path as Place
from sessionpipe.install.launcher import recognise
from sessionpipe.install.targets import Target


class WrongShape(ValueError):
    """The file is plain JSON, but something else stands where our entries would go."""


@dataclass
class Memory:
    """What giving a file back exactly needs, beyond the file: never any of its content.

    ``made`` are the containers that we added, as their member names joined by ``/``. ``blanks`` is
    the white space that stood in a container which was there and empty. ``blank_file`` is a whole
    file of white space, or none at all.
    """

    made: list[str] = field(default_factory=list)
    blanks: dict[str, str] = field(default_factory=dict)
    blank_file: str | None = None


def merge(text: str, target: Target, launcher: Path, memory: Memory | None) -> str:
    """``text`` with every entry of ``target`` in it; what had to be made for it goes into ``memory``.

    An entry of ours that differs (another launcher, another timeout) is replaced where it stands,
    a second one is removed, and so are those of events that are no longer registered. Raises
    :class:`NotPlainJson` and :class:`WrongShape`.
    """
    if not text.strip(" \t\r\n"):
        if memory is not None:
            memory.blank_file = text
        text = "{}\n"
    document = Document(text)
    entries = target.entries(launcher)
    for depth in range(len(target.at) + 1):
        _container(document, target.at[:depth], "object", {}, memory)
    for event, entry in entries.items():
        place = (*target.at, event)
        if _container(document, place, "array", [entry], memory):
            continue
        while len(found := _units(document, place, target.harness)) > 1:
            document.remove(found[-1])
        if not found:
            _insert(document, place, None, entry, memory)
        elif _plain(document, found[0]) != (wanted := _form(entry, place, found[0])):
            document.replace(found[0], wanted)
    _drop(document, target, set(entries), memory)
    return document.text


def strip(text: str, target: Target, memory: Memory | None) -> str:
    """``text`` without any entry of ours, and without what was made only for them.

    Without a ``memory`` (it was lost, or another installation wrote the entries) a container that
    our removal empties goes too. Raises :class:`NotPlainJson`.
    """
    document = Document(text)
    _drop(document, target, set(), memory)
    if memory is not None and memory.blank_file is not None and not document.root.items:
        return memory.blank_file
    return document.text


def look(text: str, target: Target, launcher: Path) -> str:
    """``installed``, ``stale`` (ours, but not as they would be written now) or ``missing``.

    Raises :class:`NotPlainJson`.
    """
    document = Document(text)
    holder = document.get(target.at)
    names = [item.key for item in holder.items if item.key is not None] if holder else []
    entries = target.entries(launcher)
    found = fitting = 0
    for name in names:
        place = (*target.at, name)
        units = _units(document, place, target.harness)
        found += len(units)
        if len(units) == 1 and name in entries:
            fitting += _plain(document, units[0]) == _form(entries[name], place, units[0])
    if not found:
        return "missing"
    return "installed" if found == fitting == len(entries) else "stale"


def launchers(text: str, target: Target) -> set[Path]:
    """The launchers that our entries run. Raises :class:`NotPlainJson`."""
    document = Document(text)
    return {
        ours.launcher
        for _, node in document.walk(target.at)
        if isinstance(node.value, str) and (ours := recognise(node.value)) and ours.harness == target.harness
    }


def places(document: Document, target: Target) -> Iterator[tuple[str, Place]]:
    """Each of our entries: its event and where the object that holds the command stands."""
    for event in target.events:
        for handler in _handlers(document, (*target.at, event), target.harness):
            yield event, handler


def _form(entry: Any, place: Place, unit: Place) -> Any:
    """What should stand at ``unit``: the entry, or its handler alone within somebody else's group."""
    return entry if len(unit) == len(place) + 1 else _handler(entry)


def _plain(document: Document, place: Place) -> Any:
    node = document.get(place)
    return node.plain() if node else None


def _handler(entry: Any) -> Any:
    """The object in ``entry`` that holds the command itself."""
    if isinstance(entry, dict):
        if any(isinstance(value, str) and recognise(value) for value in entry.values()):
            return entry
        entry = list(entry.values())
    if isinstance(entry, list):
        return next((found for value in entry if (found := _handler(value)) is not None), None)
    return None


def _handlers(document: Document, place: Place, harness: str) -> Iterator[Place]:
    """Where, below ``place``, the objects stand that hold a command of ours."""
    for path, node in document.walk(place):
        if isinstance(node.value, str) and (ours := recognise(node.value)) and ours.harness == harness:
            yield path[:-1]


def _units(document: Document, place: Place, harness: str) -> list[Place]:
    """Where, in the event list at ``place``, what we may remove stands, in the list's order.

    That is a whole element of the list, unless the element holds other people's handlers as well.
    """
    events = document.get(place)
    if events is None or events.kind != "array":
        return []
    units = []
    for handler in _handlers(document, place, harness):
        element, group = handler[: len(place) + 1], document.get(handler[:-1])
        if len(handler) > len(place):
            units.append(element if group is not None and len(group.items) == 1 else handler)
    return units


def _container(document: Document, place: Place, kind: str, content: Any, memory: Memory | None) -> bool:
    """See to it that a container of ``kind`` is at ``place``; True when it had to be made, of ``content``."""
    node = document.get(place)
    if node is None:
        if memory is not None:
            memory.made.append(_name(place))
        _insert(document, place[:-1], str(place[-1]), content, memory)
        return True
    if node.kind != kind:
        what = f'"{place[-1]}"' if place else "the top level"
        raise WrongShape(f"{what} is no {kind} at line {document.line(node)}")
    return False


def _insert(document: Document, place: Place, key: str | None, value: Any, memory: Memory | None) -> None:
    blank = document.insert(place, key, value)
    if blank is not None and memory is not None and _name(place) not in memory.made:
        memory.blanks[_name(place)] = blank


def _drop(document: Document, target: Target, keep: set[str], memory: Memory | None) -> None:
    """Remove our entries of every event but those in ``keep``, and what they alone were made for."""
    holder = document.get(target.at)
    if holder is None or holder.kind != "object":
        return
    for event in [item.key for item in holder.items if item.key is not None and item.key not in keep]:
        place: Place = (*target.at, event)
        removed = False
        while units := _units(document, place, target.harness):
            removed = True
            if _alone(document, place, units) and _mine(place, memory):
                break
            _remove(document, units[-1], memory)
        while removed and place and _mine(place, memory) and (units or _emptied(document, place)):
            _remove(document, place, memory)
            place, units = place[:-1], []


def _remove(document: Document, place: Place, memory: Memory | None) -> None:
    blanks = memory.blanks if memory else {}
    document.remove(place, blanks.get(_name(place[:-1]), ""))


def _alone(document: Document, place: Place, units: list[Place]) -> bool:
    """Whether the list at ``place`` consists of ``units``, each a whole element."""
    events = document.get(place)
    return events is not None and len(events.items) == len({u for u in units if len(u) == len(place) + 1})


def _emptied(document: Document, place: Place) -> bool:
    node = document.get(place)
    return node is not None and node.kind != "value" and not node.items


def _mine(place: Place, memory: Memory | None) -> bool:
    return memory is None or _name(place) in memory.made


def _name(place: Place) -> str:
    return "/".join(map(str, place))


__all__ = ["Memory", "WrongShape", "launchers", "look", "merge", "places", "strip"]
