"""A finished message is linked to its entry by what proves it, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from sessionpipe.journal.links import Links
from sessionpipe.journal.normalize import Owner, Record

HELLO = {"role": "user", "content": [{"type": "text", "text": "Hello"}], "timestamp": 5}


def ended(message: dict[str, Any] | None = None, **more: Any) -> Record:
    of = {"type": "message_end", "message": message or HELLO, **more}
    return Record(
        0.0, Owner("pi", "a1"), "message_finished", {"role": "user", "settled": False}, "t1", "m1", of=of
    )


def entry(name: str, message: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "message", "id": name, "message": dict(message or HELLO)}


def settled(record: Record) -> str | None:
    assert not record.waiting
    assert record.payload["settled"] is ("entryId" in record.payload)
    return record.payload.get("entryId")


@pytest.mark.parametrize("first", ["entry", "message"])
def test_the_one_entry_with_that_very_message_is_it(first: str) -> None:
    links, record = Links(), ended()
    if first == "entry":
        links.recorded(entry("e1"))
    links.expect(record)
    if first == "message":
        assert record.waiting
        links.recorded(entry("e1"))
    assert settled(record) == "e1"


@pytest.mark.parametrize(
    "other",
    [{"role": "assistant"}, {"timestamp": 6}, {"content": [{"type": "text", "text": "hello"}]}, {"extra": 1}],
    ids=lambda other: next(iter(other)),
)
def test_an_entry_with_anything_else_is_not_it(other: dict[str, Any]) -> None:
    links, record = Links(), ended()
    links.recorded(entry("e1", HELLO | other))
    links.expect(record)
    assert record.waiting
    links.give_up()
    assert settled(record) is None


def test_of_two_equal_entries_none_is_it() -> None:
    links, record = Links(), ended()
    links.recorded(entry("e1"))
    links.recorded(entry("e2"))
    links.expect(record)
    links.give_up()
    assert settled(record) is None


def test_an_entry_is_one_message_s_only() -> None:
    links, first, second = Links(), ended(), ended()
    links.recorded(entry("e1"))
    links.expect(first)
    links.expect(second)
    links.recorded(entry("e2"))
    assert (settled(first), settled(second)) == ("e1", "e2")


def test_an_extension_s_message_is_stored_without_its_time() -> None:
    said = {"customType": "note", "content": "Hello", "display": True}
    links, record = Links(), ended({"role": "custom", "timestamp": 9, **said})
    links.expect(record)
    links.recorded({"type": "custom_message", "id": "e0", **said, "content": "Bye"})
    assert record.waiting
    links.recorded({"type": "custom_message", "id": "e1", **said})
    assert settled(record) == "e1"


def test_what_the_source_says_needs_no_content() -> None:
    links, record = Links(), ended({"role": "user"}, key=7)
    links.expect(record)
    links.recorded(entry("e1"))
    assert record.waiting  # It is not looked for where the source can tell.
    links.recorded(entry("e2"), key=7)
    assert settled(record) == "e2"


def test_what_the_source_says_of_an_entry_that_was_not_recorded_is_no_link() -> None:
    links, record = Links(), ended({"role": "user"}, key=7)
    links.expect(record)
    links.told(7, "e1")
    assert record.waiting
    links.recorded(entry("e1"))
    links.told(7, "e1")
    assert settled(record) == "e1"


def test_entries_without_an_id_are_nobody_s() -> None:
    links, record = Links(), ended()
    links.recorded({"type": "message", "message": HELLO})
    links.expect(record)
    assert record.waiting
    assert not links.knows(None)


def test_however_many_entries_were_there_before_the_messages_each_finds_its_own() -> None:
    links = Links()
    messages = [HELLO | {"timestamp": number} for number in range(3000)]
    for number, message in enumerate(messages):
        links.recorded(entry(f"e{number}", message))
    for number, message in enumerate(messages):
        record = ended(message)
        links.expect(record)
        assert settled(record) == f"e{number}"


def test_a_message_with_half_a_surrogate_pair_has_its_entry_too() -> None:
    links, record = Links(), ended(HELLO | {"content": "\ud83d"})
    links.recorded(entry("e1", HELLO | {"content": "\ud83d"}))
    links.expect(record)
    assert settled(record) == "e1"
