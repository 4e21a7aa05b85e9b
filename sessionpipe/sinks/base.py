"""What a sink is: the protocol between the courier and whatever takes events.

This is all that somebody who writes a sink of their own needs. A sink is a class that is registered as
an entry point of the group ``sessionpipe.sinks``; the entry point's name is its kind, and
``sessionpipe sinks add KIND:…`` (or ``KIND://…``) sets one up. Two methods are enough::

    from sessionpipe.sinks.base import Acked, Batch, Limits, Outcome, Retry, Setup, Sink

    class PaperSink(Sink):
        def __init__(self, setup: Setup) -> None:
            self.printer = open_printer(setup.config.url)

        def limits(self) -> Limits:
            return Limits(max_events=100, max_bytes=64 * 1024)

        def send(self, batch: Batch) -> Outcome:
            try:
                for event in batch.events:
                    self.printer.line(event)
            except OSError as error:
                return Retry(str(error))
            return Acked()

What it can count on:

* It is used by one thread, which may take its time: other sinks do not wait for it. Two sinks of one kind
  are two objects, each with its own thread.
* ``batch.events`` are JSON (bytes, UTF-8, no line feeds) of events as the protocol has them, in the order in
  which they happened, filtered to the sink's tier, with secrets taken out.
* Nothing counts as delivered before :meth:`Sink.send` has returned :class:`Acked`; a :class:`Retry`, an
  exception or a kill leads to the same events once more. So an event comes twice when an acknowledgement
  got lost: then with the same ``id`` and ``session.seq``.
* The ladder of retries, pauses, thinning, and what is shown in ``status`` are the courier's; a sink only
  says which :data:`Outcome` an attempt had.

And what it must not do: wait without an end (nobody else can end a ``send`` that hangs), print, change the
process (signals, the working folder, umask), or keep what it was sent after it was told to forget it
(``session.forgotten``), if it can. Its threads must be daemons, as they are unless said otherwise, for its
own is one.

It runs in the worker's process. What it raises is its own trouble, but what ends a process, as ``os._exit`` or a
crash of native code does, ends the worker for every sink: what risks that is better run in a process of
its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import msgspec

from sessionpipe.config import SinkConfig, Tools
from sessionpipe.delivery.batch import Batch, Limits
from sessionpipe.delivery.outcome import Acked, Drop, LowerTier, Outcome, Pause, Retry, Split

#: Takes a level (``info``, ``warning``, ``error``) and a message.
Log = Callable[[str, str], None]


#: How long a sink waits for what is not there: looking costs little.
_WAIT_S = 60.0


class NotReady(Exception):
    """What the sink needs is not there; the message says what, and how to get it, in one line.

    Raised while a sink is made, or out of any of its methods: it then waits, and nothing is lost.
    ``elsewhere``: a process started from another environment may have it.
    """

    def __init__(self, message: str, *, elsewhere: bool = False) -> None:
        super().__init__(message)
        self.elsewhere = elsewhere

    def outcome(self) -> Retry:
        """What it means for the attempt that met it."""
        if self.elsewhere:
            # Whoever starts next may have it, and is to look at once.
            return Retry(str(self), after_s=0, connect=True, elsewhere=True)
        return Retry(str(self), after_s=_WAIT_S)


class Setup(NamedTuple):
    """What a sink is made of.

    ``config`` is how the person set it up: ``url`` holds what was typed after ``KIND:``, or the whole
    of a ``KIND://…``. ``known`` is what :meth:`Sink.learn` gave earlier, empty before. ``env`` is the
    environment; ``log`` writes a line into the log, redacted, behind the sink's name.
    """

    config: SinkConfig
    known: dict[str, Any]
    env: Mapping[str, str]
    log: Log

    def __repr__(self) -> str:
        # In the environment are tokens, this sink's and others'.
        return f"Setup({self.config!r})"

    def token(self) -> str | None:
        """The token the person gave it, read at the time of the call; None when there is none.

        Raises :class:`~sessionpipe.sinks.keys.KeyMissing`, as :meth:`headers` does: let it pass.
        """
        from sessionpipe.sinks import keys

        return keys.token(self.config, self.env)

    def headers(self) -> dict[str, str]:
        """The headers the person gave it, names as they wrote them."""
        from sessionpipe.sinks import keys

        return keys.headers(self.config, self.env)


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

    knows_messages: bool = False

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """The sink that ``setup`` describes. Nothing is sent yet, and what takes time is better left to ``send``.

        Raises :class:`NotReady`, and ValueError where the target can't be one of this kind: ``sinks add``
        then refuses it in these words.
        """
        return cls(setup)  # type: ignore[call-arg]  # Whose constructor takes something else has its own make.

    @abstractmethod
    def limits(self) -> Limits:
        """What it takes at once. Asked before each batch."""

    @abstractmethod
    def send(self, batch: Batch) -> Outcome:
        """Hand over a batch. Whatever goes wrong should be an outcome; an exception counts as a Retry."""

    def close(self) -> None:
        """Let go of whatever is open."""
        return None

    def learn(self, now_ms: int) -> Learned | Retry | Pause | None:
        """Ask the receiver about itself when it is time to; None when there is nothing new.

        Called before each batch, with the time in epoch milliseconds.
        """
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

    def forgets(self) -> bool:
        """Whether it says that a session is erased there once it was sent ``session.forgotten``."""
        return False


__all__ = [
    "Acked",
    "Batch",
    "Drop",
    "Held",
    "Learned",
    "Limits",
    "Log",
    "LowerTier",
    "NotReady",
    "Outcome",
    "Pause",
    "Retry",
    "Setup",
    "Sink",
    "Split",
    "Tail",
]
