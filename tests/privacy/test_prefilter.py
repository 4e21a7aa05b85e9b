"""The prefilter: whichever way it is asked, it finds every word and every sign beside a long run of a text."""

from __future__ import annotations

import re
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionpipe.conformance.redaction import text_of as vector_input
from sessionpipe.privacy import engine, expressions, prefilter, shapes
from sessionpipe.privacy.secrets import redact
from sessionpipe.privacy.sought import BITS, WHICH, Places, Signs, Word
from tests.laws import MANY
from tests.privacy.test_vectors import SECRETS

GROUPS = [
    list(
        dict.fromkeys(
            [
                *shapes.tables().words,
                *(Word(text, True) for text in ("tok_", "tok_x", "ok_", "SK", "sk.")),
            ]
        )
    ),
    [Word(text) for text in ("pass", "pw", "token", "key", "ken k", "?", "..")],
    [Word("\\x1b", once=True), Word("\x1b", once=True)],
]
WORDS = [word for group in GROUPS for word in group]
_pieces = (
    st.sampled_from([word.text for word in WORDS])
    | st.sampled_from([word.text.upper() for word in WORDS])
    | st.sampled_from(
        [
            "abcdefghij0123456789",
            "0123456789abcdef" * 2,
            "0",
            "t",
            ".abcdefg",
            ".abcdef:",
            "01234567:",
            "AbCdEfGhIjKl-_",
            " ",
            "\n",
            "_",
            "-",
            ".",
            ":",
            "%20",
            "\\n",
            "é",
            "\0",
        ]
    )
    | st.text(max_size=3)
)
texts = st.lists(_pieces, max_size=8).map("".join)


def places(way: str) -> Places:
    return prefilter.places(GROUPS) if way == "hyperscan" else expressions.places(GROUPS)


def signs(way: str) -> Signs:
    return prefilter.signs(shapes.RUNS) if way == "hyperscan" else expressions.signs(shapes.RUNS)


def standing(text: str) -> set[tuple[int, int]]:
    """Where each word of ``text`` stands, found one by one."""
    found = set()
    in_runs = {
        at
        for run in re.finditer(r"[A-Za-z0-9_.-]{15,}|[A-Za-z0-9_.-]+(?=[ \t?]*\r?(?:\n|\Z))", text, re.ASCII)
        for at in range(run.start(), run.end())
        if re.compile(r"(?:(?<![A-Za-z0-9])|(?<=%20)|(?<=\\\\n))").match(text, at)
    }
    low = text.lower()
    for index, word in enumerate(WORDS):
        for match in re.finditer(f"(?={re.escape(word.text)})", text if word.starts else low):
            if not word.starts or (
                match.start() in in_runs and match.start() + len(word.text) - 1 in range(len(text))
            ):
                found.add((index, match.start()))
                if word.once:
                    break
    return found


@pytest.mark.parametrize("way", ["hyperscan", "expressions"])
def test_every_word_of_a_text_is_found_where_it_stands(way: str) -> None:
    if way == "hyperscan":
        pytest.importorskip("hyperscan")
    find = places(way)

    @given(texts)
    def found(text: str) -> None:
        raw = text.encode("ascii", "replace")
        groups = find(raw)
        assert len(groups) == len(GROUPS)
        numbers = {(one & WHICH, one >> BITS) for group in groups for one in group}
        assert standing(raw.decode()) <= numbers
        # No other place is named: the word is there.
        for which, at in numbers:
            word = WORDS[which]
            assert (raw if word.starts else raw.lower()).startswith(word.text.encode(), at)

    found()


@given(texts)
@settings(max_examples=MANY)
def test_both_ways_find_the_same_signs(text: str) -> None:
    pytest.importorskip("hyperscan")
    raw = text.encode("ascii", "replace")
    assert signs("hyperscan")(raw) == signs("expressions")(raw)


def test_a_text_without_words_is_passed_over() -> None:
    pytest.importorskip("hyperscan")
    assert places("hyperscan")(b"nothing to see here, move on") == [[], [], []]


def test_while_one_thread_is_in_it_another_is_answered_the_slow_way() -> None:
    automaton = pytest.importorskip("sessionpipe.privacy.automaton")
    inside, leave = threading.Event(), threading.Event()
    asked: list[bytes] = []

    def instead(piece: bytes) -> list[int]:
        asked.append(piece)
        return [7]

    find = automaton.occurring([automaton.Expression("a")], instead)
    cells = dict(zip(find.__code__.co_freevars, find.__closure__, strict=True))
    real = threading.Thread(
        target=lambda: (cells["free"].cell_contents.acquire(), inside.set(), leave.wait(10))
    )
    real.start()
    inside.wait(10)
    assert find(b"a") == [7]
    leave.set()
    real.join()
    cells["free"].cell_contents.release()
    assert asked == [b"a"]
    assert find(b"a") == [0]


@pytest.fixture
def without_hyperscan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    monkeypatch.delitem(sys.modules, "sessionpipe.privacy.automaton", raising=False)
    monkeypatch.delattr("sessionpipe.privacy.automaton", raising=False)
    slow = engine._compiled()
    monkeypatch.setattr(engine, "_engine", lambda: slow)


@pytest.mark.usefixtures("without_hyperscan")
def test_without_hyperscan_the_same_is_redacted() -> None:
    for case in SECRETS["cases"]:
        assert redact(vector_input(case)) == case["out"], case["name"]
