"""``secrets@1`` and ``pii@1`` on sessions: what they find, what they leave alone, how fast they are.

``python -m tests.benchmarks redaction`` prints the figures, ``python -m tests.benchmarks.redaction`` lists
by kind and context what was missed and what was damaged, secrets masked.

Times are CPU time of this process. Compared on this corpus, alternately with what was before (CPython 3.11):
places from the automaton instead of words to look up again, together with ties that ask for what no plain
word is, tried by the sign behind the name, and a `before` that is sought in its own word: text 1.7 times as
fast, events 1.9, recorded sessions 1.4 to 2. Taking a text of colours or of encoded signs apart in one go:
2 MB of them in less than half the time. Tried and not kept: expressions for runs or rows in the automaton of
words (twice the time of its scan), one expression for all runs (slower than one after another), a start with
the least of its token as an expression (misses one that a terminal's row cuts).
"""

from tests.benchmarks.redaction.figures import run

__all__ = ["run"]
