"""The adapters: what a hook's payload means, in the protocol's words. Pure but for loading the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sessionpipe.adapters import registry
from sessionpipe.adapters.refused import Draft, Refused


def map_hook(
    harness: str,
    event: str,
    payload: bytes,
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str],
    cwd: str,
    at_ms: int,
    partial: bool = False,
) -> list[Draft]:
    """The event drafts that one hook's payload makes, in the order they happened; often none.

    ``harness`` and ``event`` are what the hook was run with and ``args`` what followed them; ``env``
    has its forwarded variables, ``cwd`` its working directory, ``at_ms`` its time in epoch
    milliseconds; ``partial`` says that the payload's end is missing. Nothing is remembered from one
    call to the next, cut or redacted.

    Raises :class:`Refused` for a payload that can't be read, lacks what this harness's payloads have
    or is another's, and for a harness or an event that no table names. Raises nothing else.
    """
    try:
        adapter = registry.adapter(harness)
    except KeyError:
        raise Refused("no adapter has this harness's name") from None
    return adapter.map(event, payload, args=args, env=env, cwd=cwd, at_ms=at_ms, partial=partial)


def map_anyones(
    harness: str,
    event: str,
    payload: bytes,
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str],
    cwd: str,
    at_ms: int,
    partial: bool = False,
) -> list[Draft]:
    """:func:`map_hook`, and where the payload certainly is another harness's, its drafts as that one's.

    Several agents run the hooks they find in Claude Code's settings, with payloads of their own. The event
    is the one the payload names, where its harness knows that; else the one the hook was run for. The
    drafts say so in their memo (``foreign``): where that harness runs our own entry besides, each event
    comes twice, and :func:`~sessionpipe.adapters.fold.fold` takes one of the two.

    Raises :class:`Refused` where nobody takes it; ``belongs_to`` then still says whose it is.
    """
    told: dict[str, str] = {}
    owner, called = harness, event
    while True:
        try:
            drafts = map_hook(
                owner, called, payload, args=args, env=env, cwd=cwd, at_ms=at_ms, partial=partial
            )
        except Refused as refused:
            told[owner] = refused.reason
            owner = refused.belongs_to or ""
            reason = ", and yet ".join(told.values())
            # One that is named may know better whose it is. Where they name each other nobody knows.
            if owner in told or owner not in registry.known():
                raise Refused(reason, refused.belongs_to if len(told) == 1 else None) from None
        else:
            break
        adapter = registry.adapter(owner)
        found = next((name for name in (*_named(payload), event) if adapter.knows(name)), None)
        if found is None:
            raise Refused(f"{reason}, which has no such event", owner) from None
        called = found
    if owner == harness:
        return drafts
    return [{**draft, "memo": {**draft["memo"], "foreign": True}} for draft in drafts]


def _named(payload: bytes) -> list[str]:
    """What a payload calls its event, in the two spellings that there are."""
    from sessionpipe.adapters.payload import Unreadable, read

    try:
        found = read(payload).value
    except Unreadable:
        return []
    names = (found.get(key) for key in ("hook_event_name", "hookEventName"))
    return [name for name in names if isinstance(name, str)]


__all__ = ["Draft", "Refused", "map_anyones", "map_hook", "registry"]
