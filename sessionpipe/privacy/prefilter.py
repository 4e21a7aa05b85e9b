"""Which words and runs a text has: the one pass that decides which rules are looked at. Pure.

There are two ways to the answer. **hyperscan** (:mod:`.automaton`) walks all words at once with SIMD; it
has wheels for CPython on glibc, musl, macOS and Windows, x86-64 and ARM. Elsewhere it is not installed,
and **regular expressions** do it (:mod:`.expressions`). Either finds at least what is there; rules look
at each place themselves, so the two differ in time alone.

Measured on 6 MB of transcripts, code and tool output with 350 words (CPython 3.11, one busy core):
hyperscan 400 to 700 MB/s and 8 ms to compile, the expressions 20. In the same run google-re2's ``Set``
229 and ahocorasick-rs 251, which have no wheels for musl; pyahocorasick 25; ``in`` for each word 3.
An expression for more than a word makes the automaton of all words 3 times slower; by itself it is read in
a millisecond or two, and looked for at a thousand MB/s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sessionpipe.privacy import expressions
from sessionpipe.privacy.sought import Occurring, Places, Signs, Step, Word

_Found = TypeVar("_Found")


def occurring(words: Sequence[Word]) -> Occurring:
    """Which of ``words`` a text has."""
    plain = _late(lambda: expressions.occurring(words))
    try:
        from sessionpipe.privacy import automaton

        forms = [automaton.Expression(word.expression(), not word.starts) for word in words]
        return automaton.occurring(forms, plain)
    except Exception:
        # Not installed, or not for this processor: what a library cannot do is no reason to redact nothing.
        return plain


def places(groups: Sequence[Sequence[Word]]) -> Places:
    """Where the words of ``groups`` stand."""
    plain = _late(lambda: expressions.places(groups))
    try:
        from sessionpipe.privacy import automaton

        return automaton.places(groups, plain)
    except Exception:
        return plain


def signs(steps: Sequence[Step]) -> Signs:
    """Where the signs of the runs of ``steps`` stand."""
    plain = _late(lambda: expressions.signs(steps))
    try:
        from sessionpipe.privacy import automaton

        return automaton.signs(steps, plain)
    except Exception:
        return plain


def gate(expression: str) -> Occurring:
    """Whether a text may match ``expression``, one that all regular expressions read alike: nothing, or [0].

    Without hyperscan it may: no expression of `re` is fast enough to ask another one first.
    """

    def open_gate(_: bytes) -> list[int]:
        return [0]

    try:
        from sessionpipe.privacy import automaton

        return automaton.occurring([automaton.Expression(expression)], open_gate)
    except Exception:
        return open_gate


def _late(make: Callable[[], Callable[[bytes], _Found]]) -> Callable[[bytes], _Found]:
    """What ``make`` makes, made when it is first asked."""
    made: list[Callable[[bytes], _Found]] = []

    def answer(piece: bytes) -> _Found:
        if not made:
            made.append(make())
        return made[0](piece)

    return answer
