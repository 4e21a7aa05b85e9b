"""How many examples a law is tried with where the profile's own number (tests/conftest.py) is not right."""

from __future__ import annotations

from hypothesis import settings

#: Of what may leave the machine: it is worth more of them.
MANY = max(100, settings.default.max_examples)

#: Where an example takes long.
FEW = settings.default.max_examples // 4
