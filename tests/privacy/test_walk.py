"""Rewriting strings in place of nothing: what changes is copied, what does not is shared."""

from __future__ import annotations

from typing import Any

from sessionpipe.privacy import walk


def loud(value: Any) -> Any:
    return walk.rewrite(value, lambda text, *_: text.upper() if text.islower() else text, lambda key: key)


def test_only_what_changes_is_copied() -> None:
    same = ["A", 1]
    value = {"x": "a", "same": same, "n": None}
    found = loud(value)
    assert found == {"x": "A", "same": ["A", 1], "n": None}
    assert found["same"] is same
    assert value["x"] == "a"


def test_nothing_to_change_is_the_same_object() -> None:
    value = {"a": ["B", {"c": ("D", 2)}]}
    assert loud(value) is value


def test_keys_keep_their_order_and_the_later_of_two_equal_ones_stays() -> None:
    found = walk.rewrite({"b": 1, "a": 2, "B": 3}, lambda text, *_: text, str.upper)
    assert list(found.items()) == [("B", 3), ("A", 2)]


def test_each_string_is_given_the_key_it_stands_under_and_its_place() -> None:
    seen: list[Any] = []

    def note(text: str, place: walk.Place) -> str:
        seen.append((text, place.name, place.at, place.under, place.above is not None))
        return text

    walk.rewrite({"k": ["a", ["b"]], "l": {"m": "c"}}, note, lambda key: key)
    assert sorted(seen) == [
        ("a", "k", 0, "k", True),
        ("b", "k", 0, "k", True),
        ("c", "m", "m", "l", True),
    ]


def test_a_string_alone_and_a_scalar_alone() -> None:
    assert loud("a") == "A"
    assert loud(7) == 7
    assert loud(None) is None


def test_every_string_is_listed_keys_included() -> None:
    assert sorted(walk.strings({"a": ["b", {"c": "d"}], "e": 1, 2: ("f",)})) == ["a", "b", "c", "d", "e", "f"]


def test_depth_is_no_limit() -> None:
    value: Any = "a"
    for _ in range(50_000):
        value = {"k": value}
    assert len(walk.strings(value)) == 50_001
    found = loud(value)
    while isinstance(found, dict):
        found = found["k"]
    assert found == "A"
