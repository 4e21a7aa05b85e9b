"""Deltas of open content blocks, held back until what they add up to can be redacted. Pure.

A block's deltas wait for its end; then the whole is redacted and they are given their parts of it, each
still its own record with its own time. Only a block so long that the queue would run full is written in
part before: up to the end of a line, when enough has followed it that no rule looks further.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sessionpipe.journal.normalize import Record
from sessionpipe.journal.recut import recut, redact_json
from sessionpipe.redaction import redact

#: Characters that must have followed a text before it is written: more than any rule for one line looks on.
LOOKAHEAD = 4096
#: A key in a block of lines may go on this far, and its last line decides where it ends.
_KEY_LENGTH = 32 << 10
_TRIES = 4


@dataclass
class _Block:
    redact: Callable[[str], str]
    parts: list[str] = field(default_factory=list)  # as they came
    held: list[Record] = field(default_factory=list)  # the last of them
    written: str = ""  # what the first of them became


@dataclass
class Blocks:
    """The open blocks of a capture. Records are changed in place; ``waiting`` says which are not ready.

    ``late``: something was written before its end showed that it was a secret's.
    """

    late: bool = False
    _open: dict[tuple[str, int], _Block] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """Take note of the next record: hold it when it is a delta, or finish what it ends."""
        if record.type == "message_finished":
            self.finish(record.message)
        elif record.type in ("turn_finished", "turn_started"):
            self.finish()  # Nothing of a message that was left without an end holds up another turn.
        if record.type != "assistant_event" or record.message is None:
            return
        kind, _, what = str(record.payload["type"]).partition("_")
        key = (record.message, record.payload.get("contentIndex", 0))
        if what == "delta":
            block = self._open.setdefault(key, _Block(redact_json if kind == "toolcall" else redact))
            block.parts.append(record.payload["delta"])
            block.held.append(record)
            record.waiting = True
        elif what == "end" and (ended := self._open.pop(key, None)):
            self._finish(ended)
        elif not what:  # done, error
            self.finish(record.message)

    def finish(self, message: str | None = None) -> None:
        """Let go of a message's blocks, or of all: nothing more will come to them."""
        for key in [key for key in self._open if message in (None, key[0])]:
            self._finish(self._open.pop(key))

    def relieve(self) -> None:
        """Let go of what can be told to be no part of a secret, though its block goes on."""
        for block in self._open.values():
            if block.held:
                self._relieve(block)

    def _finish(self, block: _Block) -> None:
        whole = block.redact("".join(block.parts))
        if whole.startswith(block.written):
            rest = whole[len(block.written) :]
        else:
            self.late = True
            rest = block.redact("".join(block.parts[-len(block.held) :]))
        self._give(block.held, [record.payload["delta"] for record in block.held], rest)

    def _relieve(self, block: _Block) -> None:
        text = "".join(block.parts)
        first = len(block.parts) - len(block.held)
        at = sum(map(len, block.parts[:first]))
        whole = block.redact(text)
        end = _safe_end(text)
        for _ in range(_TRIES):
            end = max(text.rfind("\n", at, end), text.rfind("\\n", at, end), text.rfind(" ", at, end)) + 1
            if end <= at:
                return
            # What comes behind it doesn't change it, and what was written before is how it begins.
            before = block.redact(text[:end])
            if whole.startswith(before) and before.startswith(block.written):
                break
        else:
            return
        pieces, rest = [], end - at
        for part in block.parts[first:]:
            pieces.append(part[:rest])
            rest -= len(part)
            if rest <= 0:
                break
        go = len(pieces) - (rest < 0)
        cut = recut(pieces, before[len(block.written) :])
        ready, block.held = block.held[:go], block.held[go:]
        for record, delta in zip(ready, cut, strict=False):
            record.payload["delta"] = delta
            record.waiting = False
        block.written += "".join(cut[:go])

    @staticmethod
    def _give(records: list[Record], pieces: list[str], text: str) -> None:
        for record, delta in zip(records, recut(pieces, text), strict=True):
            record.payload["delta"] = delta
            record.waiting = False


def _safe_end(text: str) -> int:
    end = len(text) - LOOKAHEAD
    begin = text.rfind("-----BEGIN ", max(0, end - _KEY_LENGTH))
    if begin >= 0 and "PRIVATE KEY" in text[begin : begin + 80] and "-----END " not in text[begin:]:
        end = min(end, begin)
    return end
