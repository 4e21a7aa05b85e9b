"""A conversation of steps: what the records of most transcripts come to, whichever harness wrote them.

A harness's format says what one record does (:data:`Step`); :class:`Conversation` puts steps together into
turns, purely. What holds for all of them:

* A prompt opens a turn, and ends the one before. A prompt that was typed while a turn runs
  (:class:`Absorbed`) is part of its ask as long as nothing was said, else it opens the next one.
* What is said without a prompt belongs to one that nobody typed: a harness may wake itself, or be sent on by
  somebody's hook after its end had been delivered.
* A message may be told in several records (Claude Code: one a block), or again as a whole (Gemini CLI, Droid:
  the last one counts).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.transcripts import JUST_BEFORE_MS, Side, Want, digest

# --- steps ----------------------------------------------------------------------------------------
# ``ms`` is when it happened, epoch milliseconds; None where the file does not say.


class Prompt(NamedTuple):
    """A prompt. ``ask``: the person's words; else a ``command`` of the harness's own, or its words (``injected``)."""

    kind: str
    text: str
    ms: int | None


class Begun(NamedTuple):
    """A turn begins, and whatever ran before is over. Its prompt follows, as something :class:`Absorbed`."""

    ms: int | None


class Absorbed(NamedTuple):
    """Words the person typed while a turn ran, taken into it; ``text`` is None where only the queue has them."""

    text: str | None
    ms: int | None


class Queued(NamedTuple):
    """Words that leave the queue to be absorbed."""

    text: str


class Said(NamedTuple):
    """What the assistant said: its texts, whether they are of a message that goes on with a tool.

    ``message``: the message's id, where it has one. ``again``: what the message said before, in a record
    with the same id, is replaced, not gone on from.
    """

    message: str | None
    texts: list[str]
    working: bool
    ms: int | None
    again: bool = False


class Failed(NamedTuple):
    """The harness's words for an error of the model's: they end a turn, and nobody said them."""

    text: str
    ms: int | None


class Worked(NamedTuple):
    """A tool's result: the turn goes on."""

    ms: int | None


class Interrupted(NamedTuple):
    """The person stopped the turn."""

    ms: int | None


class Ended(NamedTuple):
    """A turn's end. ``surely``: not only that its hooks ran, one of which may have continued it."""

    surely: bool
    ms: int | None


class Answered(NamedTuple):
    """The harness answered its own command."""

    ms: int | None


Step = Prompt | Begun | Absorbed | Queued | Said | Failed | Worked | Interrupted | Ended | Answered


class Meaning:
    """What a file's lines mean, one after the other; made anew for each reading, from where it starts."""

    #: Where a passage begins that can't be understood before its end is there, while one is open.
    held: int | None = None

    def steps(self, line: jsonl.Line) -> Iterable[Step]:
        """What the next line does to the conversation; nothing for most of them, and for one that is no record."""
        raise NotImplementedError


# --- turns ----------------------------------------------------------------------------------------

#: What a turn takes in memory beside its text, in characters: a session may be of very many short ones.
_TURN = 2_000


class Turn:
    """A prompt and what was said to it, so far."""

    __slots__ = (
        *("start", "kind", "asked_ms", "at_ms", "user", "assistant", "answered", "stopped"),
        *("last_words", "error", "hooks_ran_ms", "message", "_tail"),
    )

    def __init__(self, start: int, prompt: Prompt) -> None:
        self.start = start  # Where its first record starts.
        self.kind = prompt.kind
        self.asked_ms = prompt.ms
        self.at_ms = prompt.ms
        self.user = Side("\n\n", prompt.text)
        self.assistant = Side("\n\n")
        self.answered = False
        self.stopped = False  # By the person, or by an error.
        # What the turn's end could be recognised by, as long as nothing comes behind it:
        self.last_words: tuple[str, ...] = ()
        self.error: str | None = None
        self.hooks_ran_ms: int | None = None
        #: The message that spoke last.
        self.message: str | None = None
        self._tail: list[str] = []

    def say(self, step: Said) -> None:
        self.answered = True
        self.goes_on()
        if step.again and step.message is not None:
            self.assistant.put(step.message, "\n\n".join(step.texts))
        else:
            for text in step.texts:
                self.assistant.add(text)
        if not step.texts:
            return
        same = step.message is not None and step.message == self.message
        self._tail = [*self._tail, *step.texts] if same and not step.again else step.texts
        self.message = step.message
        self.at_ms = step.ms if step.ms is not None else self.at_ms
        if not step.working:
            self.last_words = (self._tail[-1], "".join(self._tail))

    def goes_on(self) -> None:
        self.last_words, self.error, self.hooks_ran_ms = (), None, None

    @property
    def known_by(self) -> tuple[str, ...]:
        """What a harness may tell as the turn's last words: its last text or message, or all that was said in it."""
        return (*self.last_words, str(self.assistant)) if self.last_words else ()

    @property
    def counts(self) -> bool:
        """Whether anything was exchanged: the harness answers its own commands, and wakes itself for nothing."""
        if self.assistant:
            return True
        return self.kind == "ask" or (self.kind == "command" and (self.answered or self.stopped))


class Conversation:
    """Turns put together from lines, in file order. Pure; what it keeps is bounded by the turns.

    ``told``: digests of what the last turn that was delivered is known by; ``ended_ms``: the latest end
    that was told of in what was delivered. ``settled``: the file will not
    change any more without a prompt.
    """

    def __init__(
        self,
        meaning: Meaning,
        start: int = 0,
        told: Collection[str] = (),
        *,
        ended_ms: int = 0,
        settled: bool = False,
    ) -> None:
        self.over: list[Turn] = []
        self.open: Turn | None = None
        #: About how much memory the turns in ``over`` take, in characters.
        self.chars = 0
        #: The latest time of a turn's sure end.
        self.ended_ms = ended_ms
        # The latest time of a prompt, or of a turn's end, in the records so far.
        self._latest_ms = 0
        self._ended_sometime = False  # In a file that does not say when.
        self._meaning = meaning
        self._read = start
        self._told = told
        self._settled = settled
        self._absorbed: deque[tuple[str, int]] = deque(maxlen=64)

    @property
    def resume(self) -> int:
        """Where reading starts again with nothing lost, once every turn in ``over`` is delivered."""
        read = self.open.start if self.open else self._read
        return read if self._meaning.held is None else min(read, self._meaning.held)

    def feed(self, line: jsonl.Line) -> None:
        """The next line of the file."""
        for step in self._meaning.steps(line):
            self._take(step, line.start)
        self._read = line.end

    def finish(self) -> None:
        """Nothing more belongs to the open turn."""
        if self.open and self.open.counts:
            self.over.append(self.open)
            self.chars += len(self.open.user) + len(self.open.assistant) + _TURN
        self.open = None

    def marks(self, turn: Turn) -> list[str]:
        """Digests of what the turn's last message may be known by: its words, or its id."""
        return [found for text in (*turn.known_by, turn.message or "") if (found := digest(text))]

    def is_over(self, turn: Turn, want: Want) -> bool:
        """Whether the awaited end is the end of this turn, and all of it is in the file."""
        if want.final:
            return True
        if turn.asked_ms is not None and turn.asked_ms > want.ended_ms:
            return False
        if self._settled and (turn.last_words or want.stopped):
            return True
        if turn.hooks_ran_ms is not None and turn.hooks_ran_ms >= want.ended_ms:
            return True
        if turn.error is not None and want.said in (None, digest(turn.error)):
            return True
        return want.said is not None and want.said in map(digest, turn.known_by)

    def has_passed(self, want: Want) -> bool:
        """Whether the file has got past the awaited end."""
        if self._latest_ms >= want.ended_ms:
            return True
        if want.said is not None or self.open is not None:
            return False
        # An end without words is the one the file told of a moment before its hook ran.
        return self._ended_sometime or want.ended_ms - self.ended_ms < JUST_BEFORE_MS

    def _take(self, step: Step, start: int) -> None:
        turn = self.open
        match step:
            case Prompt():
                self.finish()
                self._seen(step.ms)
                self.open = Turn(start, step)
            case Begun():
                self.finish()
                self._seen(step.ms)
            case Queued():
                self._absorbed.append((step.text, start))
            case Absorbed():
                self._absorb(step, start)
            case Said():
                self._hear(step, start)
            case Worked() if turn:
                turn.goes_on()
            case Failed() if turn:
                turn.goes_on()
                turn.stopped, turn.error = True, step.text
            case Interrupted():
                self._seen(step.ms, ended=True)
                if turn:
                    turn.stopped = True
                    self.finish()
            case Ended():
                self._seen(step.ms, ended=step.surely)
                # An end that is older than the prompt is the end of the turn before.
                if turn and (step.ms is None or turn.asked_ms is None or step.ms >= turn.asked_ms):
                    if step.surely:
                        self.finish()
                    else:
                        turn.hooks_ran_ms = step.ms
            case Answered() if turn and turn.kind == "command" and not turn.answered:
                self.open = None

    def _absorb(self, step: Absorbed, start: int) -> None:
        text, turn = step.text, self.open
        if text is None:
            text, start = self._absorbed.popleft() if self._absorbed else ("", start)
        else:
            self._absorbed.clear()
        if text and turn and not turn.assistant:
            turn.user.add(text)
            turn.kind = "ask"
        elif text:
            self.finish()
            self.open = Turn(start, Prompt("ask", text, step.ms))

    def _hear(self, step: Said, start: int) -> None:
        if step.again and step.message is not None:
            before = self.over[-1] if self.over else None
            if before and before.message == step.message:
                # The same message once more, of a turn whose end has been seen: with its costs, or its calls.
                before.say(step)
                return
            if self.open is None and not self.over and digest(step.message) in self._told:
                return
        if self.open is None and step.texts:
            # Somebody's hook sent the assistant on after its end had been delivered.
            self.open = Turn(start, Prompt("injected", "", step.ms))
        if self.open:
            self.open.say(step)

    def _seen(self, ms: int | None, *, ended: bool = False) -> None:
        self._latest_ms = max(self._latest_ms, ms or 0)
        if ended:
            self.ended_ms = max(self.ended_ms, ms or 0)
            self._ended_sometime = ms is None
