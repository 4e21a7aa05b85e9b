"""Pi's messages put together into exchanges: one rule for its session file and for its event stream.

The rule looks at messages alone, because they are all that both sources tell:

* What a person sends opens an exchange. Sent while the model works and has said nothing yet it belongs to
  the ask; later it opens the next one (steered and queued messages are messages of the user's like others).
* A message that an extension or Pi itself put there is nobody's ask. It opens an exchange without a user's
  side where the one before is over, and changes nothing inside one.
* What the model said before an error counts only when it did not try again: the retry says it anew. What it
  had said when it was stopped, or when it ran into its limit, was said. Thinking, calls and an error's text
  never are.

Pure, and bounded: a side keeps :data:`~sessionpipe.harnesses.transcripts.SIDE_CHARS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sessionpipe.harnesses.transcripts import Side

#: The stop reasons after which the model is not going on by itself.
STOPPED = ("stop", "length", "error", "aborted")


def texts(content: object) -> Iterator[str]:
    """The texts of a message's content, which is a string or a list of blocks; nothing of anything else."""
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            yield block["text"]


def asked(content: object) -> str:
    """A user message as one text, as it was typed; empty when it holds pictures alone."""
    return typed("\n".join(texts(content)))


_SKILL = re.compile(r'<skill name="([^"\n]{1,200})" location="[^"\n]*">\n')
_SKILL_END = "\n</skill>"


def typed(text: str) -> str:
    """What a person typed: in the place of ``/skill:name words`` Pi puts the skill's whole text."""
    skill = _SKILL.match(text)
    if skill is None:
        return text
    command, at = f"/skill:{skill[1]}", skill.end() - 1
    while (at := text.find(_SKILL_END, at)) >= 0:
        at += len(_SKILL_END)
        if at == len(text):
            break
        if text.startswith("\n\n", at):
            return f"{command} {text[at:].strip()}".rstrip()
    return command


class Talk:
    """One exchange, so far.

    ``start``: where its first message is in its source. ``asked_ms``, ``at_ms``: when its first and its
    last message ended, epoch milliseconds. ``is_over``: nothing but a next message goes on from here.
    ``last_id``, ``last_words``: of the model's last message, for who knows one of them.
    """

    def __init__(self, start: int, ms: int | None, *, by_a_person: bool) -> None:
        self.start = start
        self.by_a_person = by_a_person
        self.asked_ms = self.at_ms = ms
        self.is_over = False
        self.last_id: str | None = None
        self.last_words = ""
        self._user = Side("\n\n")
        self._assistant = Side("\n\n")
        self._attempt = Side("\n\n")

    @property
    def user(self) -> str:
        return str(self._user)

    @property
    def assistant(self) -> str:
        whole = Side("\n\n", str(self._assistant))
        whole.add(str(self._attempt))
        return str(whole)

    @property
    def counts(self) -> bool:
        """Whether anything was exchanged: somebody asked, or something was said."""
        return self.by_a_person or self.has_words

    @property
    def has_words(self) -> bool:
        return bool(self._assistant) or bool(self._attempt)

    @property
    def chars(self) -> int:
        """About how long it is."""
        return len(self._user) + len(self._assistant) + len(self._attempt)

    def ask(self, text: str, ms: int | None) -> None:
        self._user.add(text)
        self.at_ms = self.at_ms if ms is None else ms

    def say(self, message: dict[str, Any], message_id: str | None, ms: int | None) -> None:
        stop = message.get("stopReason")
        self._attempt = Side("\n\n")
        said = self._attempt if stop == "error" else self._assistant
        words = list(texts(message.get("content")))
        for text in words:
            said.add(text.strip())
        self.is_over = stop in STOPPED
        self.last_id, self.last_words = message_id, "".join(words)
        self.at_ms = self.at_ms if ms is None else ms


class Conversation:
    """Messages, in order, become exchanges: the completed ones that count are in ``over``, one may be ``open``."""

    def __init__(self) -> None:
        self.over: list[Talk] = []
        self.open: Talk | None = None
        #: How much text the exchanges in ``over`` hold.
        self.chars = 0

    def take(
        self, message: object, *, ms: int | None = None, start: int = 0, message_id: str | None = None
    ) -> None:
        """The next message. ``ms``: when it ended. ``start``, ``message_id``: where and what it is in its source."""
        if not isinstance(message, dict):
            return
        talk = self.open
        match message.get("role"):
            case "user":
                if talk is None or talk.is_over or talk.has_words or not talk.by_a_person:
                    self.close()
                    talk = self.open = Talk(start, ms, by_a_person=True)
                talk.ask(asked(message.get("content")), ms)
            case "custom" | "hookMessage":
                if talk is None or talk.is_over:
                    self.close()
                    self.open = Talk(start, ms, by_a_person=False)
            case "assistant":
                if talk is None:
                    talk = self.open = Talk(start, ms, by_a_person=False)
                talk.say(message, message_id, ms)
            case "toolResult" if talk:
                talk.is_over = False

    def close(self) -> None:
        """Nothing more belongs to the open exchange: the run has ended, or another branch goes on."""
        if self.open and self.open.counts:
            self.over.append(self.open)
            self.chars += self.open.chars
        self.open = None
