"""The adapters: what a hook's payload means, in the protocol's words. Pure but for loading the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sessionpipe.adapters import registry
from sessionpipe.adapters.engine import Draft, Refused


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


__all__ = ["Draft", "Refused", "map_hook", "registry"]
