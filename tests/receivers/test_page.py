"""What a page shows: text as text, times as a person says them, links only where they lead to the web."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.receiver import page
from sessionpipe.receiver.board import folded
from sessionpipe.receiver.merge import merge
from sessionpipe.receiver.store import Row
from sessionpipe.receiver.timeline import parts
from tests.receivers.served import NOON, event, taken

HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'{{7*7}}&lt;\x1b[31m\u202e\ud800"


def row(*events: dict[str, Any]) -> Row:
    found = taken(*events)
    block: dict[str, Any] = {}
    for each in found:
        block = merge(block, each.block)
    memory = folded((each, each.at_ms) for each in found)
    return Row(1, found[0].harness, found[0].session, block, memory, len(found), memory.last, NOON)


def board(*rows: Row) -> str:
    return page.board(rows, NOON, live="live", older=None, empty=not rows, connect="CONNECT", demo="DEMO")


def session(found: Row, *events: dict[str, Any]) -> str:
    return page.session(
        found, parts((e, e.at_ms) for e in taken(*events)), NOON, live="", earlier=None, later=False, form="F"
    )


class Tags(HTMLParser):
    """Every tag and attribute of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.words = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]

    def handle_data(self, data: str) -> None:
        self.words += data


FIELDS = ("machine", "cwd", "repo", "branch", "model", "title", "url", "launched_by", "delegated_by")


def hostile_events(text: str) -> list[dict[str, Any]]:
    block = dict.fromkeys(FIELDS, text) | {"title_source": text}
    told: list[tuple[str, dict[str, Any]]] = [
        ("session.started", {"source": text}),
        ("turn.started", {"turn_id": text, "submitted_by": text}),
        ("tool.started", {"tool": text, "call_id": text, "input": {"command": text}}),
        ("attention.needed", {"attention_id": text, "kind": text, "message": text, "tool": text}),
        ("turn.transcript", {"turn": 1, "user": text, "assistant": text, "at": text}),
        ("turn.progress", {"turn": 2, "user": text, "assistant": text}),
        ("files.changed", {"paths": [text]}),
        ("limits.observed", {"windows": [{"id": text, "used_percent": text}]}),
        ("delegation.started", {"harness": text, "text": text}),
    ]
    return [
        event(type_, seq, at=NOON, tier=3, block=block) | {"data": data}
        for seq, (type_, data) in enumerate(told)
    ]


@pytest.mark.parametrize("show", ["board", "session"])
def test_whatever_an_event_says_is_shown_as_text(show: str) -> None:
    plain, hostile = (hostile_events(text) for text in ("plain", HOSTILE.replace("\ud800", "")))
    pages = [
        board(row(*events)) if show == "board" else session(row(*events), *events)
        for events in (plain, hostile)
    ]
    first, second = map(Tags, pages)
    assert first.tags == second.tags and first.attributes == second.attributes
    assert "<script>alert(1)</script>" in second.words and "{{7*7}}" in second.words
    assert "\x1b" not in pages[1] and "\u202e" not in pages[1]
    assert not [link for link in second.links if re.match(r"\s*(javascript|data):", link)]


@given(st.text(max_size=60))
def test_any_text_makes_a_page_that_can_be_sent(text: str) -> None:
    events = hostile_events(text)
    for html in (board(row(*events)), session(row(*events), *events)):
        assert Tags(html).tags == Tags(html.encode().decode()).tags


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"title": "Told", "cwd": "~/src"}, "Told"),
        ({"title": "\u200b\x1b\u202e", "cwd": "~/src"}, "src"),
        ({"title": "\x00", "cwd": "~/\u200b/"}, "Untitled session"),
        ({}, "Untitled session"),
    ],
)
def test_a_session_is_called_something_that_can_be_seen(block: dict[str, Any], shown: str) -> None:
    assert page.card(row(event(block=block)), NOON)["title"] == shown


def test_nothing_of_a_page_comes_from_elsewhere_or_is_a_script_in_it() -> None:
    for html in (board(row(event(at=NOON))), board(), session(row(event(at=NOON)), event(at=NOON))):
        found = Tags(html)
        assert "style" not in found.attributes and "style" not in found.tags
        assert not [name for name in found.attributes if name.startswith("on")]
        assert re.findall(r"<script[^>]*>", html) == re.findall(
            r'<script src="static/live\.js[^>]*defer>', html
        )
        assert not [link for link in found.links if "//" in link]


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil.example",
        "http://",
        "http://[",
        7,
        None,
        "file:///etc/passwd",
    ],
)
def test_no_link_leads_anywhere_but_to_the_web(url: Any) -> None:
    assert page.link(url) == ""
    assert page.link("https://claude.example/s/1") == "https://claude.example/s/1"


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-5000, "now"),
        (4999, "now"),
        (5000, "5 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (3_600_000, "1 h"),
        (90_000_000, "1 d"),
    ],
)
def test_how_long_ago(ms: int, words: str) -> None:
    assert page.ago(ms) == words


def test_who_waits_longest_stands_first_and_those_at_work_do_not_move() -> None:
    rows = [
        row(event("attention.needed", session=name, at=NOON - ms, attention_id="a", kind="question"))
        for name, ms in (("late", 1000), ("early", 9000))
    ] + [
        row(event("turn.started", session=name, at=NOON - ms)) for name, ms in (("old", 8000), ("new", 2000))
    ]
    assert re.findall(r'id="s-claude-code:(\w+)"', board(*rows)) == ["early", "late", "new", "old"]
    assert "<title>(2) sessionpipe</title>" in board(*rows)


def test_a_reading_is_called_one() -> None:
    html = board(row(event("turn.started", at=NOON - 3 * 3_600_000)))
    assert "Probably over" in html and "A reading from silence: nobody said so." in html
    assert "reading from silence" not in board(row(event("session.ended", at=NOON, reason="exit")))


def test_a_long_answer_is_folded_and_all_there() -> None:
    words = " ".join(f"word{n}" for n in range(1000))
    told = event("turn.transcript", tier=2, at=NOON, user="short", assistant=words)
    html = session(row(told), told)
    assert "all 7,889 characters" in html and "word999" in html
    assert html.count("<details") == 2  # The other one forgets.


def test_an_empty_board_says_what_to_type() -> None:
    html = board()
    assert "CONNECT" in html and "DEMO" in html and "sessionpipe install" in html
