"""The short strings of events that come again and again, and have nothing in them. Pure but for what it remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

#: What is longer does not recur.
SHORT = 128
_MOST = 2048
# An id comes with the beginning and the end of what it names.
_TIMES = 3


class Recurring:
    """The strings that are ``known`` to need no further look, because one by itself found nothing.

    Never one in which there was something: of what is not known, a number is remembered.
    """

    def __init__(self, harmless: Callable[[str], bool]) -> None:
        """``harmless`` takes that look."""
        self.known: set[str] = set()
        self._harmless = harmless
        self._met: dict[int, int] = {}

    def meet(self, strings: Iterable[str]) -> None:
        """Take note of ``strings`` that were not known; what comes a third time is looked at."""
        met = self._met
        for one in strings:
            if len(one) <= SHORT:
                number = hash(one)
                met[number] = times = met.get(number, 0) + 1
                if times == _TIMES and self._harmless(one):
                    if len(self.known) >= _MOST:
                        self.known.clear()
                    self.known.add(one)
        if len(met) > _MOST:
            met.clear()
