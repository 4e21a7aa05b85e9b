"""The event vocabulary of protocol v1 (§2 to §5) as types: the one table everything is read from.

Each type of event is a struct whose name carries nothing and whose metadata carries all: the
lowest tier of the type, of each field, and how long a field may be. From these structs come

* :data:`VOCABULARY`: per type its tier and, per field, the lowest tier that carries it and its cap.
  The privacy filter allows nothing else, and intake drops and cuts by it;
* the JSON Schemas in ``conformance/schema`` (:mod:`sessionpipe.protocol.schemas`).
"""

# Without `from __future__ import annotations`: as text each of a hundred would be compiled, and once more by msgspec.
from collections.abc import Mapping
from functools import cache
from inspect import get_annotations
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, UnsetType

ULID = Annotated[str, Meta(pattern="^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]
Time = Annotated[
    str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", extra_json_schema={"format": "date-time"})
]
Tier = Annotated[int, Meta(ge=0, le=3)]
Natural = Annotated[int, Meta(ge=0)]
Lineage = Annotated[str, Meta(pattern="^[a-z0-9-]{1,64}:[A-Za-z0-9._:-]{1,128}$")]
ToolName = Annotated[str, Meta(pattern="^[A-Za-z0-9_.:-]{1,120}$")]
Opaque = Annotated[str, Meta(min_length=1)]

SESSION_ID = "^[A-Za-z0-9._:-]{1,128}$"
#: What a submitter may be called (§4, *Who started a turn*): tier 0 carries it as the harness says it.
SUBMITTER = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$"

#: How many characters a field keeps, where the protocol or the adapters' conventions bound it.
MESSAGE, TEXT, ERROR, SIDE = 200, 200, 2_000, 20_000
#: How many bytes of JSON a tool's input or output keeps.
BLOB = 64 * 1024


def at(tier: int, *, cap: int | None = None, blob: bool = False) -> Meta:
    """Mark a field: carried from ``tier`` up; cut to ``cap`` characters, or a ``blob`` to 64 KB of JSON."""
    return Meta(extra={"tier": tier, "cap": cap, "blob": blob})


class Harness(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Which agent said it (§2)."""

    name: Annotated[str, Meta(pattern="^[a-z0-9-]{1,64}$")]
    version: str | UnsetType = UNSET
    event: str | UnsetType = UNSET


class Session(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The session as the sender knows it at that moment (§3). Every field is tier 0."""

    id: Annotated[str, Meta(pattern=SESSION_ID)]
    seq: Natural
    machine: str | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    repo: str | UnsetType = UNSET
    branch: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    title_source: Literal["custom", "harness", "first-ask"] | UnsetType = UNSET
    url: str | UnsetType = UNSET
    account_id: str | UnsetType = UNSET
    attended: bool | UnsetType = UNSET
    parent_id: Annotated[str, Meta(pattern=SESSION_ID)] | UnsetType | None = UNSET
    launched_by: Lineage | UnsetType = UNSET
    delegated_by: Lineage | UnsetType = UNSET


class Privacy(msgspec.Struct, forbid_unknown_fields=True):
    """Which rulesets ran (§2)."""

    rulesets: list[str]
    pii: bool


class Event(msgspec.Struct, forbid_unknown_fields=True):
    """The envelope: exactly these members (§2)."""

    protocol: Literal[1]
    id: ULID
    type: Annotated[str, Meta(pattern=r"^([a-z][a-z0-9]*(\.[a-z][a-z0-9_]*)+|native)$")]
    time: Time
    tier: Tier
    harness: Harness
    session: Session
    privacy: Privacy
    data: dict[str, Any]


class Data(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What an event carries besides its session. Extra keys are allowed by the protocol, not by us."""


class SessionStarted(Data):
    source: Annotated[Literal["startup", "resume", "clear", "compact", "fork", "unknown"], at(0)]


class SessionHeartbeat(Data):
    pass


class SessionEnded(Data):
    reason: Annotated[Literal["clear", "logout", "exit", "other"], at(0)]


class SessionBackfill(Data):
    started_at: Annotated[Time, at(0)]
    last_at: Annotated[Time, at(0)]
    turns: Annotated[Natural | UnsetType, at(0)] = UNSET


class SessionForgotten(Data):
    pass


class TurnStarted(Data):
    turn_id: Annotated[Opaque | UnsetType, at(0)] = UNSET
    submitted_by: Annotated[Annotated[str, Meta(pattern=SUBMITTER)] | UnsetType, at(0)] = UNSET
    injected: Annotated[bool | UnsetType, at(0)] = UNSET
    prompt_chars: Annotated[Natural | UnsetType, at(1)] = UNSET


class TurnEnded(Data):
    reason: Annotated[Literal["stop", "interrupt", "error"], at(0)]
    turn_id: Annotated[Opaque | UnsetType, at(0)] = UNSET
    ms: Annotated[Natural | UnsetType, at(0)] = UNSET
    background: Annotated[Natural | UnsetType, at(0)] = UNSET
    error: Annotated[str | UnsetType, at(1, cap=ERROR)] = UNSET


class TurnTranscript(Data):
    turn: Annotated[Natural, at(2)]
    user: Annotated[Annotated[str, Meta(max_length=SIDE)], at(2, cap=SIDE)]
    assistant: Annotated[Annotated[str, Meta(max_length=SIDE)], at(2, cap=SIDE)]
    at: Annotated[str, at(2)]


class TurnProgress(Data):
    turn: Annotated[Natural, at(2)]
    user: Annotated[Annotated[str, Meta(max_length=SIDE)], at(2, cap=SIDE)]
    assistant: Annotated[Annotated[str, Meta(max_length=SIDE)], at(2, cap=SIDE)]
    at: Annotated[str, at(2)]


class ToolStarted(Data):
    tool: Annotated[ToolName, at(1)]
    call_id: Annotated[Opaque | UnsetType, at(1)] = UNSET
    turn_id: Annotated[Opaque | UnsetType, at(1)] = UNSET
    agent_id: Annotated[Opaque | UnsetType, at(1)] = UNSET
    input: Annotated[Any, at(3, blob=True)] = UNSET


class ToolEnded(Data):
    tool: Annotated[ToolName, at(1)]
    ok: Annotated[bool, at(1)]
    call_id: Annotated[Opaque | UnsetType, at(1)] = UNSET
    turn_id: Annotated[Opaque | UnsetType, at(1)] = UNSET
    agent_id: Annotated[Opaque | UnsetType, at(1)] = UNSET
    ms: Annotated[Natural | UnsetType, at(1)] = UNSET
    error: Annotated[str | UnsetType, at(1, cap=ERROR)] = UNSET
    input: Annotated[Any, at(3, blob=True)] = UNSET
    output: Annotated[Any, at(3, blob=True)] = UNSET


class FilesChanged(Data):
    paths: Annotated[Annotated[list[Opaque], Meta(min_length=1)], at(1)]


class AttentionNeeded(Data):
    attention_id: Annotated[Opaque, at(0)]
    kind: Annotated[Literal["permission", "question", "elicitation", "idle", "error"], at(0)]
    tool: Annotated[ToolName | UnsetType, at(1)] = UNSET
    message: Annotated[Annotated[str, Meta(max_length=MESSAGE)] | UnsetType, at(1, cap=MESSAGE)] = UNSET
    agent_id: Annotated[Opaque | UnsetType, at(1)] = UNSET


class AttentionCleared(Data):
    attention_id: Annotated[Opaque, at(0)]
    how: Annotated[Literal["answered", "cancelled", "timeout", "unknown"], at(0)]


class SubagentStarted(Data):
    agent_id: Annotated[Opaque, at(1)]
    agent_type: Annotated[str | UnsetType, at(1)] = UNSET


class SubagentEnded(Data):
    agent_id: Annotated[Opaque, at(1)]
    agent_type: Annotated[str | UnsetType, at(1)] = UNSET
    background: Annotated[Natural | UnsetType, at(1)] = UNSET


class ContextCompacted(Data):
    trigger: Annotated[Literal["manual", "auto"], at(1)]


class Window(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One usage window of an account (§4, ``limits.observed``)."""

    id: Opaque
    used_percent: Annotated[float, Meta(ge=0)]
    resets_at: Time | UnsetType = UNSET
    window_minutes: Natural | UnsetType = UNSET


class LimitsObserved(Data):
    windows: Annotated[Annotated[list[Window], Meta(min_length=1, max_length=8)], at(1)]
    plan: Annotated[str | UnsetType, at(1)] = UNSET
    account_id: Annotated[str | UnsetType, at(1)] = UNSET


class DelegationStarted(Data):
    ask_id: Annotated[ULID, at(0)]
    via: Annotated[Literal["ask", "handoff"], at(0)]
    harness: Annotated[str, at(0)]
    to: Annotated[Lineage | UnsetType, at(0)] = UNSET
    text: Annotated[Annotated[str, Meta(max_length=TEXT)] | UnsetType, at(1, cap=TEXT)] = UNSET


class DelegationEnded(Data):
    ask_id: Annotated[ULID, at(0)]
    ok: Annotated[bool, at(0)]
    ms: Annotated[Natural, at(0)]
    to: Annotated[Lineage | UnsetType, at(0)] = UNSET
    error: Annotated[Annotated[str, Meta(max_length=TEXT)] | UnsetType, at(0, cap=TEXT)] = UNSET
    relayed: Annotated[Literal["delivered", "unsupported", "failed"] | UnsetType, at(0)] = UNSET
    reply: Annotated[Annotated[str, Meta(max_length=SIDE)] | UnsetType, at(2, cap=SIDE)] = UNSET


class Field(NamedTuple):
    """A field of a type: the lowest ``tier`` that carries it, its ``cap`` in characters, if it is a ``blob``."""

    tier: int
    cap: int | None = None
    blob: bool = False


class Type(NamedTuple):
    """A type of event: the lowest ``tier`` that carries it, its ``fields``, its ``struct``."""

    tier: int
    fields: Mapping[str, Field]
    struct: type[Data]


@cache
def hints(struct: type[msgspec.Struct]) -> Mapping[str, Any]:
    """The type of each field of ``struct``, annotations included."""
    return {name: hint for base in reversed(struct.__mro__) for name, hint in get_annotations(base).items()}


def _fields(struct: type[Data]) -> dict[str, Field]:
    found = {}
    for name, hint in hints(struct).items():
        marks = [m.extra for m in get_args(hint) if isinstance(m, Meta) and m.extra and "tier" in m.extra]
        if get_origin(hint) is not Annotated or len(marks) != 1:
            raise TypeError(f"{struct.__name__}.{name} must say its tier once")
        found[name] = Field(**marks[0])
    return found


def _table(*rows: tuple[str, int, type[Data]]) -> dict[str, Type]:
    return {name: Type(tier, _fields(struct), struct) for name, tier, struct in rows}


#: Every type we send (§4). ``native`` is the protocol's too, but is never emitted by a sender.
VOCABULARY: Mapping[str, Type] = _table(
    ("session.started", 0, SessionStarted),
    ("session.heartbeat", 0, SessionHeartbeat),
    ("session.ended", 0, SessionEnded),
    ("session.backfill", 0, SessionBackfill),
    ("session.forgotten", 0, SessionForgotten),
    ("turn.started", 0, TurnStarted),
    ("turn.ended", 0, TurnEnded),
    ("turn.transcript", 2, TurnTranscript),
    ("turn.progress", 2, TurnProgress),
    ("tool.started", 1, ToolStarted),
    ("tool.ended", 1, ToolEnded),
    ("files.changed", 1, FilesChanged),
    ("attention.needed", 0, AttentionNeeded),
    ("attention.cleared", 0, AttentionCleared),
    ("subagent.started", 1, SubagentStarted),
    ("subagent.ended", 1, SubagentEnded),
    ("context.compacted", 1, ContextCompacted),
    ("limits.observed", 1, LimitsObserved),
    ("delegation.started", 0, DelegationStarted),
    ("delegation.ended", 0, DelegationEnded),
)

#: The fields of the envelope, the harness block and the session block (§2, §3): all tier 0.
ENVELOPE: frozenset[str] = frozenset(Event.__struct_fields__)
HARNESS_FIELDS: frozenset[str] = frozenset(Harness.__struct_fields__)
SESSION_FIELDS: frozenset[str] = frozenset(Session.__struct_fields__)
