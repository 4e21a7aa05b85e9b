"""``secrets@1`` and ``pii@1`` on sessions: what they find, what they leave alone, how fast they are.

``python -m tests.benchmarks redaction`` prints the figures, ``python -m tests.benchmarks.redaction`` lists
by kind and context what was missed and what was damaged, secrets masked.
"""

from tests.benchmarks.redaction.figures import run

__all__ = ["run"]
