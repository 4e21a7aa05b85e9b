"""The terms of what a sink was sent: under which settings its events were made, and since when. Pure.

Kept with the cursor, so that the events a sink has can be made once more as it got them, also when a
setting was changed since (``sessionpipe privacy show``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from sessionpipe.config import Tools
from sessionpipe.delivery.batch import Limits, Policy
from sessionpipe.redaction import Redaction

#: No receiver takes an event of this size.
_ANY_SIZE = 1 << 40


class Terms(NamedTuple):
    """``policy`` and ``limits`` as they were, for the rows behind position ``since``.

    ``rules`` is the stamp of the rules then in force; the policy has those of today.
    """

    policy: Policy
    limits: Limits
    since: int
    rules: int


class _Stored(msgspec.Struct):
    tier: int
    pii: bool
    tools: Tools
    without: list[str]
    most: int
    home: str | None
    rules: int
    since: int


def of(policy: Policy, limits: Limits) -> dict[str, Any]:
    """The terms of a batch, as plain JSON; :func:`since` adds from where they hold."""
    return {
        "tier": policy.tier,
        "pii": policy.pii,
        "tools": policy.tools,
        "without": sorted(policy.without),
        "most": limits.max_bytes - limits.envelope if limits.strict else 0,
        "home": policy.home,
        "rules": policy.rules.stamp,
    }


def since(known: dict[str, Any], now: dict[str, Any], position: int) -> dict[str, Any]:
    """The terms to keep with a batch that begins behind ``position``: the known ones when they go on."""
    goes_on = {**known, "since": 0} == {**now, "since": 0} and known.get("since", position + 1) <= position
    return known if goes_on else {**now, "since": position}


def read(stored: dict[str, Any], rules: Redaction) -> Terms | None:
    """What :func:`since` gave; None when nothing was kept."""
    try:
        kept = msgspec.convert(stored, _Stored)
    except msgspec.ValidationError:
        return None
    policy = Policy(
        tier=kept.tier,
        pii=kept.pii,
        tools=kept.tools,
        without=frozenset(kept.without),
        home=kept.home,
        rules=rules,
    )
    limits = Limits(500, kept.most or _ANY_SIZE, strict=bool(kept.most))
    return Terms(policy, limits, kept.since, kept.rules)
