"""What a sink's answer means for the batch it was handed: a closed set.

A sink translates whatever its medium says into one of these; the courier acts on them in one place
and knows nothing of media.
"""

from __future__ import annotations

import msgspec


class Acked(msgspec.Struct, frozen=True):
    """The batch is the receiver's now; the cursor moves past it.

    ``rejected`` are the events the receiver will never store, as (event id, reason): they are
    logged. ``max_tier`` is the highest tier the receiver says it takes, where it says so. ``odd``
    is what is strange about an answer that counts as taken all the same. ``unnamed`` counts events that
    will never be stored either, but of which it is not said which they are.
    """

    rejected: tuple[tuple[str, str], ...] = ()
    max_tier: int | None = None
    odd: str | None = None
    unnamed: int = 0


class Retry(msgspec.Struct, frozen=True):
    """Nothing was taken; try the same batch again.

    After ``after_s`` seconds where the receiver or the sink says how long, else by the ladder.
    ``connect`` is true when this process could not even reach the receiver, or lacks what it needs
    to speak to it: a worker started from somewhere else may. ``elsewhere``: it will go on lacking it,
    so that to wait here is in vain.
    """

    error: str
    after_s: float | None = None
    connect: bool = False
    elsewhere: bool = False


class Split(msgspec.Struct, frozen=True):
    """The batch is too big for the receiver: send half; one event alone is given up."""

    error: str


class Drop(msgspec.Struct, frozen=True):
    """The receiver will never take this batch: give it up, say so, go on behind it."""

    error: str


class Pause(msgspec.Struct, frozen=True):
    """Send nothing more until the person acts.

    ``lasting`` is false where the reason ends with this process (a closed stdout).
    """

    reason: str
    lasting: bool = True


class LowerTier(msgspec.Struct, frozen=True):
    """The receiver takes at most ``tier``: filter the batch again and send it at once."""

    tier: int


Outcome = Acked | Retry | Split | Drop | Pause | LowerTier
