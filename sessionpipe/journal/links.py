"""Which entry of Pi's a finished message became: taken from what proves it, never guessed. Pure.

A message that ended waits here. Its link is what the extension says (it saw Pi store that very object),
or the one entry that appeared since and holds that very message: role, time and content, equal to the
last character. Two that are equal prove nothing, and none is waited for only as long as its turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessionpipe.journal.normalize import Record

#: Entries that no message claimed, kept to be claimed. A turn has fewer.
_KEPT = 1024


class Links:
    """The messages of one capture that ended, and the entries that were recorded."""

    def __init__(self) -> None:
        self._pending: list[Record] = []
        self._unclaimed: dict[str, Mapping[str, Any]] = {}
        self._ids: set[str] = set()
        #: Whether any message was ever linked.
        self.any = False

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
            self._match()

    def recorded(self, entry: Mapping[str, Any], key: object = None) -> None:
        """An entry was recorded; ``key``: of the message that it is, when the source says so."""
        entry_id = entry.get("id")
        if not isinstance(entry_id, str) or not entry_id:
            return
        self._ids.add(entry_id)
        if key is not None:
            self.told(key, entry_id)
        elif entry.get("type") in ("message", "custom_message"):
            self._unclaimed[entry_id] = entry
            if len(self._unclaimed) > _KEPT:
                self._unclaimed.pop(next(iter(self._unclaimed)))
            self._match()

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

    def _match(self) -> None:
        for record in list(self._pending):
            if "key" in record.of:
                continue
            message = record.of["message"]
            same = [entry_id for entry_id, entry in self._unclaimed.items() if _is(entry, message)]
            if len(same) == 1:
                self._settle(record, same[0])

    def _settle(self, record: Record, entry_id: str) -> None:
        record.payload |= {"settled": True, "entryId": entry_id}
        record.waiting, record.of = False, None
        self._pending.remove(record)
        self.any = True
        if entry_id in self._unclaimed and not self._pending:
            # Entries come in the order of their messages: what was before this one is nobody's.
            for older in list(self._unclaimed):
                del self._unclaimed[older]
                if older == entry_id:
                    break
        self._unclaimed.pop(entry_id, None)


#: What a message of an extension's own is stored with; its entry has a time of its own.
_CUSTOM = ("customType", "content", "display", "details")


def _is(entry: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
    if message.get("role") == "custom":
        own = entry.get("type") == "custom_message"
        return own and all(entry.get(name) == message.get(name) for name in _CUSTOM)
    return entry.get("type") == "message" and entry.get("message") == message
