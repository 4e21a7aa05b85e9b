"""Between the courier and a sink's code, which may be anybody's: what goes wrong there stays there.

Code that is missing, can't be imported, raises, or answers what is no answer makes its own sink wait,
with a reason that ``status`` and ``doctor`` show; nothing is taken for delivered that was not said to be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, TypeVar, assert_never

import msgspec

from sessionpipe.config import Tools
from sessionpipe.delivery.batch import Batch, Limits
from sessionpipe.delivery.outcome import Acked, Drop, LowerTier, Outcome, Pause, Retry, Split
from sessionpipe.sinks.base import Learned, NotReady, Setup, Sink, Tail
from sessionpipe.sinks.plugins import Make, load

_Value = TypeVar("_Value")

#: What a sink says is shown in a line, and what it wants to have kept stands in its row.
_LONGEST, _MOST_KEPT = 1_000, 64 * 1024
_MOST_EVENTS, _MOST_BYTES, _LEAST_BYTES = 10_000, 64 << 20, 512


class Nonsense(Exception):
    """A sink's code said what it can't mean; the message says what."""


class Guarded(Sink):
    """The sink of ``setup``, whose code is loaded when it is first needed, and again when that failed."""

    def __init__(self, setup: Setup, load: Callable[[str], Make] = load) -> None:
        self._setup = setup
        self._load = load
        self._sink: Sink | None = None
        self._limits = Limits(1, 1)
        self._tools: Tools = "all"
        self._without: frozenset[str] = frozenset()

    def learn(self, now_ms: int) -> Learned | Retry | Pause | None:
        def ask() -> Learned | Retry | Pause | None:
            sink = self.loaded()
            learned = sink.learn(now_ms)
            if learned is None or isinstance(learned, Learned):
                # Asked here, where a failure has an outcome.
                self._limits = _sound_limits(sink.limits())
                self._tools = _typed(sink.tools(), Tools, "tools")
                self._without = frozenset(_typed(sink.without(), frozenset[str], "types"))
            return learned if learned is None else _sound_learned(learned)

        return self._tried(ask)

    def send(self, batch: Batch) -> Outcome:
        return self._tried(lambda: sound(self.loaded().send(batch), batch.ids))

    def limits(self) -> Limits:
        return self._limits

    def tools(self) -> Tools:
        return self._tools

    def without(self) -> frozenset[str]:
        return self._without

    def tail(self) -> Tail | None:
        try:
            tail = self.loaded().tail()
            return None if tail is None else _typed(tail, Tail, "its tail")
        except OSError:
            raise
        except BaseException as error:
            if _interrupted(error):
                raise
            raise OSError(0, self.fault(error)) from error

    def forgets(self) -> bool:
        return self._tried(lambda: bool(self.loaded().forgets())) is True

    def close(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            self._tried(sink.close)

    def loaded(self) -> Sink:
        """The sink itself. Raises whatever its code raises."""
        if self._sink is None:
            sink = self._load(self._setup.config.kind)(self._setup)
            if not isinstance(sink, Sink):
                raise Nonsense(f"it makes a {type(sink).__name__}, which is no Sink")
            self._sink = sink
            self.knows_messages = bool(sink.knows_messages)
        return self._sink

    def _tried(self, call: Callable[[], _Value]) -> _Value | Retry:
        try:
            return call()
        except NotReady as missing:
            return msgspec.structs.replace(missing.outcome(), error=self.fault(missing))
        except BaseException as error:
            if _interrupted(error):
                raise
            # A sys.exit in it, or a task of its own that was cancelled, must not end a thread of ours.
            return Retry(self.fault(error))

    def fault(self, error: BaseException) -> str:
        """What went wrong with the sink's code, in one line, and where in it."""
        kind = self._setup.config.kind
        words = _words(error)
        if isinstance(error, NotReady):
            return _line(words)
        if isinstance(error, Nonsense):
            return f"the code of the sink kind {kind} is at fault: {words}"
        import traceback  # Which only a fault needs.

        frames = traceback.extract_tb(error.__traceback__)
        where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        said = f": {words}" if words else ""
        return _line(f"the code of the sink kind {kind} failed with {type(error).__name__}{said} ({where})")


def _interrupted(error: BaseException) -> bool:
    """Whether the person pressed Ctrl-C: in any other thread code raised that by itself."""
    return isinstance(error, KeyboardInterrupt) and current_thread() is main_thread()


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # Also what an error says of itself is a package's code.
        return ""


# --- what can be meant -----------------------------------------------------------------------------


def sound(outcome: object, sent: tuple[str, ...]) -> Outcome:
    """``outcome`` of a batch of the events ``sent`` (ids), as far as it can be meant. Raises :class:`Nonsense`."""
    if not isinstance(outcome, Outcome):
        raise Nonsense(f"it answers with a {type(outcome).__name__}, which is no outcome")
    said: Outcome = _typed(outcome, type(outcome), "an outcome")
    match said:
        case Acked():
            known = frozenset(sent)
            rejected = {id_: _line(reason) for id_, reason in said.rejected if id_ in known}
            unnamed = max(0, min(said.unnamed, len(sent) - len(rejected)))
            odd = None if said.odd is None else _line(said.odd)
            return Acked(tuple(rejected.items()), _tier(said.max_tier), odd, unnamed)
        case Retry(error, after_s):
            after_s = after_s if after_s is not None and math.isfinite(after_s) else None
            return msgspec.structs.replace(said, error=_line(error), after_s=after_s)
        case Split(error) | Drop(error):
            return msgspec.structs.replace(said, error=_line(error))
        case Pause(reason, lasting):
            return Pause(_line(reason), lasting)
        case LowerTier(tier):
            return LowerTier(_tier(tier) or 0)
        case _:
            assert_never(said)


def _sound_learned(learned: object) -> Learned | Retry | Pause:
    if isinstance(learned, (Retry, Pause)):
        said = sound(learned, ())
        assert isinstance(said, (Retry, Pause))
        return said
    found = _typed(learned, Learned, "what it learnt")
    try:
        kept = msgspec.json.encode(found.discovery)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Nonsense(f"what it learnt can't be kept as JSON: {error}") from None
    if len(kept) > _MOST_KEPT:
        raise Nonsense(f"what it learnt is {len(kept)} bytes, more than the {_MOST_KEPT} that are kept")
    # As it comes back from the sink's row, so that the two compare equal.
    return Learned(msgspec.json.decode(kept), _tier(found.max_tier), found.anew)


def _sound_limits(limits: object) -> Limits:
    said = _typed(limits, Limits, "its limits")
    # Bounds that are kept to the letter would have every larger event given up.
    least = said.envelope + _LEAST_BYTES if said.strict else 1
    if said.max_events < 1 or said.max_bytes < least or said.envelope < 0:
        raise Nonsense("its limits leave no room for an event")
    return Limits(
        min(said.max_events, _MOST_EVENTS), min(said.max_bytes, _MOST_BYTES), said.envelope, said.strict
    )


def _tier(tier: int | None) -> int | None:
    if tier is not None and not 0 <= tier <= 3:
        raise Nonsense(f"it speaks of a tier {tier}; there are 0 to 3")
    return tier


def _typed(value: Any, type_: Any, what: str) -> Any:
    """``value`` as a ``type_``, whatever its fields were given. Raises :class:`Nonsense`."""
    try:
        plain = value
        if isinstance(value, msgspec.Struct):
            plain = msgspec.to_builtins(value, builtin_types=(bytes,))
        return msgspec.convert(plain, type_)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise Nonsense(f"{what} of it can't be read ({_line(str(error))})") from None


def _line(text: str) -> str:
    """A sink's words, in one bounded line."""
    return "".join(c if c.isprintable() else " " for c in text[:_LONGEST])
