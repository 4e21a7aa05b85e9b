"""Rewriting the strings of a JSON-like value, however deep, copying only what changes. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

#: Containers of a JSON-like value; an adapter may have made a list a tuple.
CONTAINERS = (dict, list, tuple)


class Place(NamedTuple):
    """Where a string stands."""

    #: The key it stands under, through lists.
    name: Any
    #: The container it is in, its key or index there, and the key that container stands under.
    container: Any
    at: Any
    under: Any
    #: The container of the container.
    above: Any


#: What is to become of a string that stands at a place.
Text = Callable[[str, Place], str]
_NOWHERE = Place(None, None, None, None, None)


def strings(value: Any) -> list[str]:
    """Every string of ``value``, keys included, in no promised order."""
    found: list[str] = []
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            found.append(node)
        elif isinstance(node, dict):
            found += [key for key in node if isinstance(key, str)]
            stack += node.values()
        elif isinstance(node, (list, tuple)):
            stack += node
    return found


def rewrite(value: Any, text: Text, key: Callable[[str], str]) -> Any:
    """``value`` with every string passed through ``text`` and every key through ``key``.

    The same object comes back when nothing changed, and nothing given is changed in place. Two
    keys that become one keep the later value, as two equal keys in JSON do. Iterative: a payload
    may be nested deeper than Python recurses.
    """
    if isinstance(value, str):
        return text(value, _NOWHERE)
    if not isinstance(value, CONTAINERS):
        return value
    # Each container with its parent's index, its place there, and the key it stands under. Parents
    # come before their children, so walking back settles children first.
    nodes: list[tuple[Any, int, Any, Any]] = [(value, -1, None, None)]
    values: dict[int, dict[Any, Any]] = {}
    keys: dict[int, dict[str, str]] = {}
    for index, (node, parent, _, under) in enumerate(nodes):
        above = nodes[parent][0] if parent >= 0 else None
        is_dict = isinstance(node, dict)
        for place, inner in node.items() if is_dict else enumerate(node):
            name = place if is_dict else under
            if isinstance(inner, str):
                new = text(inner, Place(name, node, place, under, above))
                if new is not inner:
                    values.setdefault(index, {})[place] = new
            elif isinstance(inner, CONTAINERS):
                nodes.append((inner, index, place, name))
        if is_dict:
            for name in node:
                if isinstance(name, str) and (new := key(name)) is not name:
                    keys.setdefault(index, {})[name] = new
    for index in range(len(nodes) - 1, -1, -1):
        if index not in values and index not in keys:
            continue
        node, parent, place, _ = nodes[index]
        copy = _copy(node, values.get(index, {}), keys.get(index, {}))
        if parent < 0:
            return copy
        values.setdefault(parent, {})[place] = copy
    return value


def _copy(node: Any, values: dict[Any, Any], keys: dict[str, str]) -> Any:
    if isinstance(node, dict):
        return {keys.get(name, name): values.get(name, inner) for name, inner in node.items()}
    return type(node)(values.get(place, inner) for place, inner in enumerate(node))
