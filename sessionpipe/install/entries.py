"""Our entries in a JSON file that other tools share: put in, recognised, taken out.

All of it is pure, on the file's text. An entry is ours when a string in it is our command in its
exact form (:func:`sessionpipe.install.launcher.recognise`) for this harness, whatever state
directory it names; a similar name is somebody else's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.install.jsonedit import Document
from sessionpipe.install.jsonedit import Path as Place
from sessionpipe.install.launcher import recognise
from sessionpipe.install.leftalone import WrongShape
from sessionpipe.install.targets import Target

_BLANK = " \t\r\n"


@dataclass
class Memory:
    """What giving a file back exactly needs, beyond the file: never any of its content.

    ``made`` are the members that we added, as their names joined by ``/``. ``blanks`` is the white
    space that stood in a container which was there and empty. ``blank_file`` is a whole file of white
    space, or none at all.
    """

    made: list[str] = field(default_factory=list)
    blanks: dict[str, str] = field(default_factory=dict)
    blank_file: str | None = None


class Unit(NamedTuple):
    """What we may remove: an element of a list, or our handler alone within somebody else's element."""

    event: str
    place: Place
    list: Place


def merge(text: str, target: Target, launcher: Path, memory: Memory | None) -> str:
    """``text`` with every entry of ``target`` in it; what had to be made for it goes into ``memory``.

    An entry of ours that differs (another launcher, another timeout) is replaced where it stands,
    a second one is removed, and so are those of events that are no longer registered. Raises
    :class:`NotPlainJson` and :class:`WrongShape`.
    """
    if not text.strip(_BLANK):
        if memory is not None:
            memory.blank_file = text
        text = "{}\n"
    document = Document(text, target.reads)
    at = _at(document, target)
    entries = target.entries(launcher)
    _container(document, (), "object", {}, memory)
    for place, value in _leaves(target.beside):
        for depth in range(1, len(place)):
            _container(document, place[:depth], "object", {}, memory)
        if document.get(place) is None:
            _make(document, place, value, memory)
    for depth in range(1, len(at) + (not target.listed)):
        _container(document, at[:depth], "object", {}, memory)
    for event, entry in entries.items():
        where = at if target.listed else (*at, event)
        if _container(document, where, "array", [entry], memory):
            continue
        while len(found := [unit for unit in _units(document, where, target) if unit.event == event]) > 1:
            document.remove(found[-1].place)
        if not found:
            _insert(document, where, None, entry, memory)
        elif _plain(document, found[0].place) != (wanted := _form(entry, found[0])):
            document.replace(found[0].place, wanted)
    _drop(document, target, entries, memory)
    return document.text


def strip(text: str, target: Target, memory: Memory | None) -> str:
    """``text`` without any entry of ours, and without what was made only for them.

    Without a ``memory`` (it was lost, or another installation wrote the entries) a container that
    our removal empties goes too, and in a file that is ours by its name what stands beside the
    entries. Raises :class:`NotPlainJson`.
    """
    document = Document(text, target.reads)
    if document.root.kind != "object":
        return text
    _drop(document, target, (), memory)
    if memory is not None or document.text != text:
        for place, value in reversed(list(_leaves(target.beside))):
            _unmake(document, place, value, target, memory)
    if memory is not None and memory.blank_file is not None and is_empty(document.text):
        return memory.blank_file
    return document.text


def look(text: str, target: Target, launcher: Path) -> str:
    """``installed``, ``stale`` (ours, but not as they would be written now) or ``missing``.

    Raises :class:`NotPlainJson`.
    """
    document = Document(text, target.reads)
    if not any(_units(document, where, target) for where in _lists(document, target)):
        return "missing"
    try:
        return "installed" if merge(text, target, launcher, None) == text else "stale"
    except WrongShape:
        return "stale"


def launchers(text: str, target: Target) -> set[Path]:
    """The launchers that our entries run. Raises :class:`NotPlainJson`."""
    document = Document(text, target.reads)
    return {
        ours.launcher
        for at in target.ats
        for _, node in document.walk(at)
        if isinstance(node.value, str) and (ours := recognise(node.value)) and ours.harness == target.harness
    }


def places(document: Document, target: Target) -> Iterator[tuple[str, Place]]:
    """Each of our entries: its event and where the object that holds the command stands."""
    for where in _lists(document, target):
        yield from _handlers(document, where, target)


def strangers(text: str, target: Target) -> list[str]:
    """The event names in the file, ours or anyone's, that are none of those the harness allows."""
    document = Document(text, target.reads)
    allowed = target.allowed
    return [str(where[-1]) for where in _lists(document, target) if where[-1] not in allowed]


def misfit(text: str, target: Target) -> str | None:
    """The first member of an entry, ours or anyone's, that the harness does not take, and its line."""
    document = Document(text, target.reads)
    for path, node in document.walk(()):
        # An entry stands in a list; elsewhere the name may be anybody's.
        wanted = target.strict.get(str(path[-1])) if any(isinstance(step, int) for step in path) else None
        if wanted is not None and not _is(node.plain(), wanted):
            return f'a "{path[-1]}" at line {document.line(node)}'
    return None


def _is(value: object, wanted: object) -> bool:
    if wanted == "whole":
        return type(value) is int and abs(value) < 1 << 31
    return isinstance(wanted, list) and value in wanted


def is_empty(text: str) -> bool:
    """Whether nothing is left in the file that anybody could miss."""
    return text.translate({ord(space): None for space in _BLANK}) in ("", "{}")


def _at(document: Document, target: Target) -> Place:
    """Where the lists are in this file: the first of the possible ways that exists, else the last."""
    return next((at for at in target.ats if document.get(at) is not None), target.ats[-1])


def _lists(document: Document, target: Target) -> list[Place]:
    """Where every list of entries stands, ours in it or not."""
    found: list[Place] = []
    for at in target.ats:
        holder = document.get(at)
        if holder is None:
            continue
        members = [(*at, item.key) for item in holder.items if item.key is not None]
        found += [at] if target.listed else members
    return found


def _leaves(table: Mapping[str, Any], path: Place = ()) -> Iterator[tuple[Place, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _form(entry: Any, unit: Unit) -> Any:
    """What should stand at ``unit``: the entry, or its handler alone within somebody else's group."""
    return entry if len(unit.place) == len(unit.list) + 1 else _handler(entry)


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


def _handlers(document: Document, where: Place, target: Target) -> Iterator[tuple[str, Place]]:
    """Below the list at ``where``, each object that holds a command of ours, with its event."""
    for path, node in document.walk(where):
        if isinstance(node.value, str) and (ours := recognise(node.value)) and ours.harness == target.harness:
            yield ours.event if target.listed else str(where[-1]), path[:-1]


def _units(document: Document, where: Place, target: Target) -> list[Unit]:
    """What of ours is in the list at ``where``, in its order.

    That is a whole element of the list, unless the element holds other people's handlers as well.
    """
    node = document.get(where)
    if node is None or node.kind != "array":
        return []
    units = []
    for event, handler in _handlers(document, where, target):
        element, group = handler[: len(where) + 1], document.get(handler[:-1])
        if len(handler) > len(where):
            # An object that holds the handler by name (an action) is no group.
            shared = group is not None and group.kind == "array" and len(group.items) > 1
            units.append(Unit(event, handler if shared and handler != element else element, where))
    return units


def _container(document: Document, place: Place, kind: str, content: Any, memory: Memory | None) -> bool:
    """See to it that a container of ``kind`` is at ``place``; True when it had to be made, of ``content``."""
    node = document.get(place)
    if node is None:
        _make(document, place, content, memory)
        return True
    if node.kind != kind:
        what = f'"{place[-1]}"' if place else "the top level"
        raise WrongShape(f"{what} is no {kind} at line {document.line(node)}")
    return False


def _make(document: Document, place: Place, value: Any, memory: Memory | None) -> None:
    if memory is not None:
        memory.made.append(_name(place))
    _insert(document, place[:-1], str(place[-1]), value, memory)


def _insert(document: Document, place: Place, key: str | None, value: Any, memory: Memory | None) -> None:
    blank = document.insert(place, key, value)
    if blank is not None and memory is not None and _name(place) not in memory.made:
        memory.blanks[_name(place)] = blank


def _drop(document: Document, target: Target, keep: Collection[str], memory: Memory | None) -> None:
    """Remove our entries of every event but those in ``keep``, and what they alone were made for."""
    for where in _lists(document, target):
        place, removed = where, False
        while units := [unit for unit in _units(document, where, target) if unit.event not in keep]:
            removed = True
            if _alone(document, units) and _mine(where, memory):
                break
            _remove(document, units[-1].place, memory)
        while removed and place and _mine(place, memory) and (units or _emptied(document, place)):
            _remove(document, place, memory)
            place, units = place[:-1], []


def _unmake(document: Document, place: Place, value: Any, target: Target, memory: Memory | None) -> None:
    """Remove what stands beside our entries, if it was made for them and nobody else's need it now.

    In a container that was there before us, what we made goes. In one that we made it goes with the
    container, when it is the last that is left there.
    """
    node, holder = document.get(place), document.get(place[:-1])
    if node is None or holder is None:
        return
    if memory is None:
        ours = around = len(place) > 1 or target.own
    else:
        ours = _name(place) in memory.made
        around = memory.blank_file is not None if len(place) == 1 else _mine(place[:-1], memory)
    fixed = {path[-1] for path, _ in _leaves(target.beside) if path[:-1] == place[:-1]}
    alone = all(item.key in fixed for item in holder.items) and not document.has_comment(holder)
    if ours and (alone if around else node.plain() == value):
        _remove(document, place, memory)
        inner = place[:-1]
        while inner and _mine(inner, memory) and _emptied(document, inner):
            _remove(document, inner, memory)
            inner = inner[:-1]


def _remove(document: Document, place: Place, memory: Memory | None) -> None:
    blanks = memory.blanks if memory else {}
    document.remove(place, blanks.get(_name(place[:-1]), ""))


def _alone(document: Document, units: list[Unit]) -> bool:
    """Whether their list consists of ``units``, each a whole element, and has no comment between them."""
    where = units[0].list
    events = document.get(where)
    whole = {unit.place for unit in units if len(unit.place) == len(where) + 1}
    return events is not None and len(events.items) == len(whole) and not document.has_comment(events)


def _emptied(document: Document, place: Place) -> bool:
    node = document.get(place)
    return node is not None and node.kind != "value" and not node.items and not document.has_comment(node)


def _mine(place: Place, memory: Memory | None) -> bool:
    return memory is None or _name(place) in memory.made


def _name(place: Place) -> str:
    return "/".join(map(str, place))


__all__ = [
    "Memory",
    "Unit",
    "is_empty",
    "launchers",
    "look",
    "merge",
    "misfit",
    "places",
    "strangers",
    "strip",
]
