"""sessionpipe.adapters.fits: a value of another type than the field's is absent."""

from __future__ import annotations

from typing import Any

import pytest

from sessionpipe.adapters.fits import ID_LIMIT, fits_of
from sessionpipe.protocol.vocabulary import VOCABULARY


@pytest.mark.parametrize(
    ("event", "field", "value", "fitting"),
    [
        ("tool.ended", "ms", 12, 12),
        ("tool.ended", "ms", 12.0, 12),
        ("tool.ended", "ms", 12.5, None),
        ("tool.ended", "ms", -1, None),
        ("tool.ended", "ms", True, None),
        ("tool.ended", "ms", "12", None),
        ("tool.ended", "ms", float("nan"), None),
        ("tool.ended", "ms", float("inf"), None),
        ("tool.ended", "ms", 2**60, None),
        ("tool.ended", "ok", True, True),
        ("tool.ended", "ok", 1, None),
        ("tool.ended", "tool", "mcp__server__tool", "mcp__server__tool"),
        ("tool.ended", "tool", "two words", None),
        ("tool.ended", "tool", "x" * 121, None),
        ("tool.ended", "tool", "newline\n", None),
        ("tool.ended", "call_id", "c", "c"),
        ("tool.ended", "call_id", "", None),
        ("tool.ended", "call_id", 7, None),
        ("tool.ended", "call_id", "c" * (ID_LIMIT + 1), None),
        ("tool.ended", "error", "", ""),
        ("tool.ended", "error", {"message": "x"}, None),
        ("tool.ended", "input", {"any": ["thing"]}, {"any": ["thing"]}),
        ("turn.started", "submitted_by", "loop_wakeup", "loop_wakeup"),
        ("turn.started", "submitted_by", "two words", None),
        ("turn.started", "submitted_by", "x" * 41, None),
        ("session.started", "source", "resume", "resume"),
        ("session.started", "source", "teleport", None),
        ("session.started", "source", ["resume"], None),
        ("files.changed", "paths", ["/a", "", 3, "/b"], ["/a", "/b"]),
        ("files.changed", "paths", [], None),
        ("files.changed", "paths", "/a", None),
        ("limits.observed", "windows", [{"id": "w", "used_percent": 3}], [{"id": "w", "used_percent": 3}]),
        (
            "limits.observed",
            "windows",
            [{"id": "w", "used_percent": 0.5, "resets_at": "soon", "window_minutes": "x", "more": 1}, 7, {}],
            [{"id": "w", "used_percent": 0.5}],
        ),
        ("limits.observed", "windows", [{"id": "w", "used_percent": float("inf")}], None),
        ("limits.observed", "windows", [{"id": "w", "used_percent": True}], None),
        ("limits.observed", "windows", [{"used_percent": 3}], None),
        ("limits.observed", "windows", {"id": "w", "used_percent": 3}, None),
        (
            "limits.observed",
            "windows",
            [{"id": "w", "used_percent": 1}] * 9,
            [{"id": "w", "used_percent": 1}] * 8,
        ),
    ],
)
def test_what_may_stand_in_a_field(event: str, field: str, value: Any, fitting: Any) -> None:
    fit, _ = fits_of(VOCABULARY[event])[field]
    found = fit(value)
    assert found == fitting
    assert type(found) is type(fitting)


def test_which_fields_an_event_can_not_be_without() -> None:
    required = {name for name, (_, required) in fits_of(VOCABULARY["tool.ended"]).items() if required}
    assert required == {"tool", "ok"}
