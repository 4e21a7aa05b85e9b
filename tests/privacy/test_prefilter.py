"""The prefilter: whichever way it is asked, it names every word that a text has."""

from __future__ import annotations

import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.conformance.redaction import text_of as vector_input
from sessionpipe.privacy import engine, prefilter, shapes
from sessionpipe.privacy.prefilter import Word
from sessionpipe.privacy.secrets import redact
from tests.privacy.test_vectors import SECRETS

WORDS = list(
    dict.fromkeys(
        [
            *shapes.tables().words,
            *(Word(text) for text in ("pass", "pw", "token", "key", "ken k", "?", "..", "\\x1b", "\x1b")),
            *(Word(text, True) for text in ("tok_", "tok_x", "ok_", "SK", "sk.")),
        ]
    )
)
WAYS = {
    "hyperscan": lambda: prefilter.by_hyperscan(WORDS, lambda _: []),
    "expressions": lambda: prefilter.by_expression(WORDS),
}
_pieces = (
    st.sampled_from([word.text for word in WORDS])
    | st.sampled_from([word.text.upper() for word in WORDS])
    | st.sampled_from(["abcdefghij0123456789", " ", "\n", "_", "-", ".", "%20", "\\n", "é", "\0"])
    | st.text(max_size=3)
)
texts = st.lists(_pieces, max_size=8).map("".join)


def occurring(text: str) -> set[int]:
    """The words of ``text``, found one by one."""
    runs = [run.group() for run in re.finditer("[A-Za-z0-9_.-]{16,}", text, re.ASCII)]
    begins = r"(?:(?<![A-Za-z0-9])|(?<=%20)|(?<=\\\\n))"
    low = text.lower()
    return {
        index
        for index, word in enumerate(WORDS)
        if (
            any(word.text in run and re.search(begins + re.escape(word.text), run) for run in runs)
            if word.starts
            else word.text in low
        )
    }


@pytest.mark.parametrize("way", WAYS)
def test_every_word_of_a_text_is_named(way: str) -> None:
    if way == "hyperscan":
        pytest.importorskip("hyperscan")
    find = WAYS[way]()

    @given(texts)
    def named(text: str) -> None:
        ascii_text = text.encode("ascii", "replace")
        assert occurring(ascii_text.decode()) <= set(find(ascii_text))

    named()


def test_a_text_without_words_is_passed_over() -> None:
    pytest.importorskip("hyperscan")
    assert WAYS["hyperscan"]()(b"nothing to see here, move on") == []


def test_while_one_thread_is_in_it_another_is_answered_the_slow_way() -> None:
    pytest.importorskip("hyperscan")
    asked = threading.Event()

    def instead(piece: bytes) -> list[int]:
        asked.set()
        return [7]

    find = prefilter.by_hyperscan([Word("a")], instead)
    answers: list[list[int]] = []
    # The scan calls back into Python for each word: there, another thread asks.
    text = b"a"
    real = threading.Thread(target=lambda: answers.append(find(text)))
    with _busy(find):
        real.start()
        real.join()
    assert answers == [[7]]
    assert asked.is_set()
    assert find(text) == [0]


class _busy:
    """Holds the automaton as a thread in the midst of a scan does."""

    def __init__(self, find: prefilter.Prefilter) -> None:
        cells = dict(zip(find.__code__.co_freevars, find.__closure__ or (), strict=True))
        self.lock = cells["free"].cell_contents

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


@pytest.fixture
def without_hyperscan(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> prefilter.Prefilter:
        raise ImportError("hyperscan")

    fresh = engine._engine.__wrapped__
    monkeypatch.setattr(prefilter, "by_hyperscan", missing)
    slow = fresh()
    monkeypatch.setattr(engine, "_engine", lambda: slow)


@pytest.mark.usefixtures("without_hyperscan")
def test_without_hyperscan_the_same_is_redacted() -> None:
    for case in SECRETS["cases"]:
        assert redact(vector_input(case)) == case["out"], case["name"]
