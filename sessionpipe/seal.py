"""Sealing: the pure step from a draft to the event that is stored.

What a draft may carry (protocol §4), without secrets, cut to size, in the envelope of §2; and the
session block of §3 from what was learnt about a session. Redacted first and cut afterwards: a cut
could leave half a credential that no rule knows any more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sessionpipe.harnesses.titles import cut_title
from sessionpipe.outbox import encode
from sessionpipe.protocol import PROTOCOL, new_id, rfc3339
from sessionpipe.protocol.vocabulary import BLOB, HARNESS_FIELDS, SESSION_FIELDS, VOCABULARY
from sessionpipe.redaction import FREE_TEXT, Redaction, in_force

Draft = dict[str, Any]

TITLE_CHARS = 80
_WINDOWS = re.compile(r"[A-Za-z]:|[/\\]{2}")
# A session fact is a name, a folder or a link; what is longer is none.
_FACT_CHARS = 1024


def session_block(facts: Mapping[str, Any], home: str | None) -> dict[str, Any]:
    """A session block (protocol §3) without ``id`` and ``seq``: shortened, redacted, then cut."""
    redact = in_force().short
    block: dict[str, Any] = {}
    for name, value in facts.items():
        if name not in SESSION_FIELDS or name in ("id", "seq") or value is None or value == "":
            continue
        if isinstance(value, str):
            if name == "cwd" or (name == "repo" and value.startswith("/")):
                value = shorten(value, home)
            value = redact(value)
            value = cut_title(value, TITLE_CHARS) if name == "title" else value[:_FACT_CHARS]
            if not value:
                continue
        block[name] = value
    if "title" not in block:
        block.pop("title_source", None)
    return block


def redact_ids(draft: Draft) -> None:
    """Redact the opaque ids of a draft in place, before a session's memory sees them.

    Memory is stored, and what it keeps of a draft is its ids. They name the same thing afterwards,
    since the same id always becomes the same.
    """
    redact = in_force().short
    data, memo = draft["data"], draft.get("memo", {})
    for part, names in ((data, ("turn_id", "call_id", "agent_id", "attention_id")), (memo, ("thread",))):
        for name in names:
            if isinstance(value := part.get(name), str):
                part[name] = redact(value)


def seal(
    draft: Draft,
    block: Mapping[str, Any],
    seq: int,
    *,
    root: str | None,
    home: str | None,
    rules: Redaction | None = None,
) -> dict[str, Any]:
    """The tier-3 event a draft becomes (protocol §2): allowed fields, redacted, then cut.

    ``block`` is a finished session block; ``root`` the folder that paths are relative to when they
    lie below it; ``home`` what is written ``~``. ``rules`` redact it: those in force unless given.
    """
    rules = rules or in_force()
    fields = VOCABULARY[draft["type"]].fields
    raw = {
        name: bound_blob(value, BLOB) if fields[name].blob else value
        for name, value in draft["data"].items()
        if name in fields and value is not None
    }
    if "paths" in raw:
        base = root or draft["session"].get("cwd")
        raw["paths"] = [relative(path, base, home) for path in raw["paths"]]
    data: dict[str, Any] = rules.redact_fields(raw)
    caps = draft.get("memo", {}).get("caps", {})
    # Cut only now: a cut before redaction could leave half a credential that no rule knows.
    for name, value in data.items():
        field = fields[name]
        if field.blob:
            data[name] = cut_blob(value, BLOB)
        elif isinstance(value, str):
            cap = min((c for c in (field.cap, caps.get(name)) if c is not None), default=None)
            if cap is not None and len(value) > cap:
                data[name] = value[:cap]
    # A block may have been learnt when other rules were in force.
    texts = {name: rules.short(block[name]) for name in FREE_TEXT if name in block}
    session = {"id": draft["session"]["id"], "seq": seq, **block, **texts}
    if parent := draft["session"].get("parent_id"):
        session["parent_id"] = parent
    harness = {name: value for name, value in draft["harness"].items() if name in HARNESS_FIELDS}
    if "version" in harness:
        harness["version"] = rules.short(harness["version"])[:64]
    return {
        "protocol": PROTOCOL,
        "id": new_id(),
        "type": draft["type"],
        "time": rfc3339(draft["at_ms"]),
        "tier": 3,
        "harness": harness,
        "session": session,
        "privacy": {"rulesets": list(rules.rulesets), "pii": False},
        "data": data,
    }


def shorten(path: str, home: str | None) -> str:
    """``path`` with the home directory written ``~`` (protocol §3, ``cwd``)."""
    inside = _below(path, home)
    return path if inside is None else ("~/" + inside if inside else "~")


def relative(path: str, root: str | None, home: str | None) -> str:
    """``path`` as ``files.changed`` carries it: below the repository, else below ``~``, else as it is."""
    inside = _below(path, root)
    return inside or shorten(path, home)


def _below(path: str, folder: str | None) -> str | None:
    folder = (folder or "").rstrip("/\\")
    rest, windows = path[len(folder) :], bool(_WINDOWS.match(folder))
    inside = _spelt(path[: len(folder)]) == _spelt(folder) if windows else path.startswith(folder)
    if not folder or not inside or (rest and rest[0] not in "/\\"):
        return None
    rest = rest.lstrip("/\\")
    return rest.replace("\\", "/") if windows else rest


def _spelt(path: str) -> str:
    """On Windows two spellings name one folder: either slash, and letters of either case."""
    return path.replace("/", "\\").casefold()


def bound_blob(value: Any, limit: int) -> Any:
    """``value`` without the leaves that :func:`cut_blob` could not keep in ``limit`` bytes anyway.

    A leaf takes two bytes of JSON at least. Millions of them would take the redactor a minute. Whole
    leaves go, never a part of one, so that no credential is cut in half.
    """
    try:
        return _bounded(value, [limit])
    except RecursionError:
        return value  # Nested too deeply: for cut_blob to say so.


def _bounded(value: Any, left: list[int]) -> Any:
    """``value`` with as many leaves as are ``left``, one number that all levels count down."""
    left[0] -= 1
    if isinstance(value, list):
        kept: list[Any] = []
        for inner in value:
            if left[0] <= 0:
                break
            kept.append(_bounded(inner, left))
        return kept
    if isinstance(value, dict):
        some: dict[Any, Any] = {}
        for key, inner in value.items():
            if left[0] <= 0:
                break
            some[key] = _bounded(inner, left)
        return some
    return value


def cut_blob(value: Any, limit: int) -> Any:
    """``value`` as it is when its JSON fits in ``limit`` bytes, else with its long strings cut until it does.

    What has too many short strings even so becomes one string: the beginning of its JSON.
    """
    if isinstance(value, str) and len(value) * 6 + 2 <= limit:
        return value
    try:
        encoded = encode(value)
        if len(encoded) <= limit:
            return value
        longest = limit
        while longest >= 128:
            shorter = _cut_strings(value, longest)
            if len(encode(shorter)) <= limit:
                return shorter
            longest //= 2
    except RecursionError:
        return "(nested too deeply to be kept)"
    return encoded[: limit // 2].decode("utf-8", "ignore")[: limit // 4] + "…"


def _cut_strings(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return (
            value if len(value) <= longest else f"{value[:longest]}… ({len(value) - longest} characters cut)"
        )
    if isinstance(value, dict):
        return {key: _cut_strings(inner, longest) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cut_strings(inner, longest) for inner in value]
    return value
