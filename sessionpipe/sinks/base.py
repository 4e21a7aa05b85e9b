"""What every sink can do, and what most of them need not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import msgspec

from sessionpipe.config import Tools
from sessionpipe.delivery.batch import Batch, Limits
from sessionpipe.delivery.outcome import Outcome, Pause, Retry

#: Takes a level (``info``, ``warning``, ``error``) and a message.
Log = Callable[[str, str], None]


class Learned(msgspec.Struct, frozen=True):
    """What a receiver said about itself: to be kept in the sink's row, and its highest tier if said.

    ``anew`` is false when it could not be asked, and what is to be kept is from earlier or assumed.
    """

    discovery: dict[str, Any]
    max_tier: int | None = None
    anew: bool = True


class Held(NamedTuple):
    """An event that a sink holds: its id and what identifies it (protocol §6.1)."""

    id: str
    harness: str
    session: str
    seq: int


class Tail(msgspec.Struct, frozen=True):
    """What a sink that keeps the events itself ends with.

    ``events`` are its last ones, oldest first, at least one batch's worth where it has them;
    ``torn`` says that a half-written event behind them was cut off.
    """

    events: tuple[Held, ...]
    torn: bool


class Sink(ABC):
    """A place that takes batches. Used by one thread.

    ``knows_messages``: whoever takes a batch knows it by its id, so that a repeat has to be the
    same batch to the byte.
    """

    kind: ClassVar[str]
    knows_messages: ClassVar[bool] = False

    @abstractmethod
    def limits(self) -> Limits:
        """What it takes at once."""

    @abstractmethod
    def send(self, batch: Batch) -> Outcome:
        """Hand over a batch. Raises nothing: whatever goes wrong is an outcome."""

    def close(self) -> None:
        """Let go of whatever is open."""
        return None

    def learn(self, now_ms: int) -> Learned | Retry | Pause | None:
        """Ask the receiver about itself when it is time to; None when there is nothing new."""
        return None

    def tools(self) -> Tools:
        """The thinning the receiver asks for; the sink's own setting wins."""
        return "all"

    def without(self) -> frozenset[str]:
        """Types the receiver does not take."""
        return frozenset()

    def tail(self) -> Tail | None:
        """How it ends, for a sink that can be resumed behind its last event. May raise OSError."""
        return None
