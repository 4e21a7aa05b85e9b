"""How long a test waits for what has to come."""

from __future__ import annotations

#: What comes ends the wait, so that only a failure takes as long; a busy machine is given its time.
PATIENCE_S = 60.0
