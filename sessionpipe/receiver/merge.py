"""A session block from many (protocol §3): what is known of a session, from what each event said. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessionpipe.adapters.fold import merge_block

#: What a receiver knows a session by, and how many characters of it are kept.
FIELDS: Mapping[str, int] = {
    "machine": 200,
    "cwd": 1000,
    "repo": 500,
    "branch": 300,
    "model": 200,
    "title": 500,
    "title_source": 20,
    "url": 2000,
    "account_id": 200,
    "parent_id": 128,
    "launched_by": 200,
    "delegated_by": 200,
}


def merge(known: Mapping[str, Any], said: Mapping[str, Any], *, of_subagent: bool = False) -> dict[str, Any]:
    """``known`` after an event whose session block is ``said``; neither is changed.

    An absent or empty field, or one of another type than the protocol's, blanks nothing; a title gives
    way only to one of an equal or better source. A subagent's event carries its parent in the block of
    the session they share: that is nothing about the session.
    """
    learnt: dict[str, Any] = {
        name: said[name][:most].strip()
        for name, most in FIELDS.items()
        if isinstance(said.get(name), str) and not (of_subagent and name == "parent_id")
    }
    if isinstance(said.get("attended"), bool):
        learnt["attended"] = said["attended"]
    return merge_block(known, learnt)
