"""``secrets@1`` and ``pii@1`` on sessions: what they find, what they leave alone, how fast they are.

``python -m tests.benchmarks redaction`` prints the figures, ``python -m tests.benchmarks.redaction`` lists
by kind and context what was missed and what was damaged, secrets masked.

Rates are of two corpora. ``text`` and ``events`` are what agents see (:mod:`.seen`): files and the output of
commands of this machine, recorded sessions. A word that a secret's name may have stands there about once in
1000 characters, as it did in ten sorts of text that were looked at: 0.1 in logs and listings, 1 in Python, C and
prose, 2 in JSON, 3 in JavaScript, 0 to 1 in what is said and printed in recorded sessions. ``dense`` is written
from templates in which half of all identifiers are called like a secret, to see what is changed that should stay:
7 in 1000 characters. It tells what the rules cost where they have most to look at, and has a budget of its own;
where the time goes there is below.

Times are CPU time of this process. Compared on this corpus, alternately with what was before (CPython 3.11):
places from the automaton instead of words to look up again, together with ties that ask for what no plain
word is, tried by the sign behind the name, and a `before` that is sought in its own word: text 1.7 times as
fast, events 1.9, recorded sessions 1.4 to 2. Taking a text of colours or of encoded signs apart in one go:
2 MB of them in less than half the time. Tried and not kept: expressions for runs or rows in the automaton of
words (twice the time of its scan), one expression for all runs (slower than one after another), a start with
the least of its token as an expression (misses one that a terminal's row cuts).

Where the time goes is flat by now: of 1 KB, 10 matches are told by the automaton, 7 names begin, 3 end where a tie
may, 1 is tied and looked at. Tried on names and not kept, in each case what it saved it took: the automaton tells
where names end, and their stems are sought behind only where something is tied (the same time, 100 ms to compile);
with what a value must have besides (4 matches of 10, but up to 255 characters away from their names, and too large
with the match's beginning); the text and all expressions backwards, so that a match ends where its stem begins (60
ns a byte); a scan for each stem from there on (1 s to compile). Three signs' runs in one automaton take as long as
each by itself. What a name can be, or how far it goes, remembered by the name: as much again in calls. Rows that
go on sought by `re` instead of the automaton: the same time. What is left would be to ask for the kind of a name
and the look of its value in the automaton, which needs rows that go on to be found without the names that are tied
to nothing (the `hits` of the engine).

``pii@1`` asks gates first which of its kinds a text may have: 2.9 times as fast on dense text, about 3 on what agents
see. Tried and not kept: one automaton for all its gates (faster on short payloads, slower on files, twice as long to
compile).
"""

from tests.benchmarks.redaction.figures import run

__all__ = ["run"]
