"""Which entry of Pi's a finished message became: taken from what proves it, never guessed. Pure.

A message that ended waits here. Its link is what the extension says (it saw Pi store that very object),
or the one entry that holds that very message: role, time and content, equal to the last character. Two
that are equal prove nothing, and none is waited for longer than its turn lasts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from sessionpipe.journal.normalize import Record


class Links:
    """The messages of one capture that ended, and the entries that were recorded."""

    def __init__(self) -> None:
        self._pending: list[Record] = []
        #: Entries that no message claimed, by their message's fingerprint. All of a stream that is read later
        #: may be here, so the messages themselves are not kept.
        self._unclaimed: dict[bytes, list[str]] = {}
        self._ids: set[str] = set()

    def __len__(self) -> int:
        """How many messages wait."""
        return len(self._pending)

    def knows(self, entry_id: object) -> bool:
        """Whether that entry was recorded."""
        return entry_id in self._ids

    @property
    def oldest(self) -> Record | None:
        """The message that waits the longest."""
        return self._pending[0] if self._pending else None

    def expect(self, record: Record) -> None:
        """A message ended: its record waits for its entry."""
        record.waiting = True
        self._pending.append(record)
        if "key" not in record.of:
            self._claim(record, _fingerprint(record.of["message"]))

    def recorded(self, entry: Mapping[str, Any], key: object = None) -> None:
        """An entry was recorded; ``key``: of the message that it is, when the source says so."""
        entry_id = entry.get("id")
        if not isinstance(entry_id, str) or not entry_id:
            return
        self._ids.add(entry_id)
        if key is not None:
            self.told(key, entry_id)
        elif (message := _message_of(entry)) is not None:
            fingerprint = _fingerprint(message)
            self._unclaimed.setdefault(fingerprint, []).append(entry_id)
            for record in self._pending:
                if "key" not in record.of and _fingerprint(record.of["message"]) == fingerprint:
                    self._claim(record, fingerprint)
                    break

    def told(self, key: object, entry_id: object) -> None:
        """The source says which entry a message became."""
        for record in self._pending:
            if record.of.get("key") == key and entry_id in self._ids:
                self._settle(record, str(entry_id))
                return

    def give_up(self) -> None:
        """No entry will come for those that wait."""
        for record in self._pending:
            record.waiting, record.of = False, None
        self._pending.clear()

    def _claim(self, record: Record, fingerprint: bytes) -> None:
        same = self._unclaimed.get(fingerprint, [])
        if len(same) == 1:
            del self._unclaimed[fingerprint]
            self._settle(record, same[0])

    def _settle(self, record: Record, entry_id: str) -> None:
        record.payload |= {"settled": True, "entryId": entry_id}
        record.waiting, record.of = False, None
        self._pending.remove(record)


#: What a message of an extension's own is stored with; its entry has a time of its own.
_CUSTOM = ("customType", "content", "display", "details")


def _message_of(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The message an entry holds, as the stream would tell it."""
    if entry.get("type") == "custom_message":
        return {**entry, "role": "custom"}
    message = entry.get("message")
    return message if entry.get("type") == "message" and isinstance(message, Mapping) else None


def _fingerprint(message: Mapping[str, Any]) -> bytes:
    if message.get("role") == "custom":
        message = {name: message.get(name) for name in _CUSTOM}
    try:
        data = msgspec.json.encode(message, order="sorted")
    except UnicodeEncodeError:  # Half a surrogate pair.
        data = json.dumps(message, sort_keys=True).encode()
    return hashlib.sha256(data).digest()
