"""What a harness's own files say of sessions that were there before us (protocol §4, ``session.backfill``)."""

from __future__ import annotations

from typing import Any, NamedTuple


class Past(NamedTuple):
    """A session found in a harness's files; its texts are raw, redacted before anything is stored.

    ``session_id`` as the harness's hooks spell it, or the session would come twice. ``started_ms`` and
    ``last_ms`` are epoch milliseconds of its first and last record, ``turns`` how many prompts of a person
    it has (None where counting would mean reading it whole). ``block`` has fields of the session block
    (protocol §3: ``cwd``, ``model``, ``title`` with ``title_source``, ``parent_id``, ``account_id``, ``branch``,
    ``repo`` …), ``version`` the harness's.

    A reader yields sessions in any order, those last touched at ``since_ms`` or later (a file's time of
    change decides before it is opened), the person's visible ones only: no subagent's, no hidden title
    thread's, none without a prompt. It looks at a file's beginning and end, never at all of a large one.
    """

    session_id: str
    started_ms: int
    last_ms: int
    turns: int | None
    block: dict[str, Any]
    version: str | None = None
