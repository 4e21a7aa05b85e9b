"""sessionpipe.adapters.map_hook: whatever a harness sends, drafts or a refusal come of it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.adapters import Refused, map_hook, registry
from sessionpipe.adapters.fits import fits_of
from sessionpipe.protocol.vocabulary import VOCABULARY

EVENTS = [(name, event) for name in registry.names() for event in registry.adapter(name).events]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=20)
    | st.sampled_from(["/home/dev/x", "Write", "apply_patch", "*** Add File: x", "permission_prompt", "running"])
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "status", "command", "content", "type", "text"]), inner)
    ),
    max_leaves=8,
)
NAMES = sorted(
    {"cwd", "model", "prompt", "source", "reason", "trigger", "error", "agent_id", "agent_type", "prompt_id"}
    | {"turn_id", "tool_name", "tool_input", "tool_response", "tool_use_id", "duration_ms", "message", "t"}
    | {"notification_type", "background_tasks", "session_title", "args", "last_assistant_message", "action"}
)
SESSION = "8c132906-8c3f-4814-870a-afc3d05e1d2e"


@st.composite
def payloads(draw: st.DrawFn) -> dict[str, Any]:
    """Payloads that are claimed by somebody, with members of any type."""
    members: dict[str, Any] = draw(st.dictionaries(st.sampled_from(NAMES), VALUES))
    inside = st.dictionaries(st.sampled_from(["reason", "kind", "toolName", "isError", "result"]), VALUES)
    return {
        **members,
        "session_id": SESSION,
        "transcript_path": draw(st.sampled_from(["/t/x.jsonl", None])),
        "event": "x",
        "ev": draw(inside),
        "ctx": {"sessionId": SESSION, **draw(inside)},
        "run": draw(VALUES),
    }


@given(st.sampled_from(EVENTS), payloads(), st.booleans(), st.data())
def test_a_payload_of_any_shape_gives_drafts_the_vocabulary_has(
    event: tuple[str, str], payload: dict[str, Any], cut: bool, data: st.DataObject
) -> None:
    text = json.dumps(payload).encode()
    text = text[: data.draw(st.integers(0, len(text)))] if cut else text
    try:
        drafts = map_hook(
            *event, text, args=[text.decode()], env={"HOME": "/home/dev"}, cwd="/", at_ms=1_000, partial=cut
        )
    except Refused as refused:
        assert refused.reason
        return
    for draft in drafts:
        # No NaN, no infinity, no lone surrogate: what comes out can be written anywhere.
        json.dumps(draft, allow_nan=False, ensure_ascii=False).encode()
        fits = fits_of(VOCABULARY[draft["type"]])
        for name, found in draft["data"].items():
            assert fits[name][0](found) == found
        absent = {name for name, (_, required) in fits.items() if required} - draft["data"].keys()
        assert not absent or (draft["type"], absent) == ("attention.cleared", {"attention_id"})


@given(st.sampled_from(EVENTS), st.binary(max_size=60), st.booleans())
def test_any_bytes_are_mapped_or_refused(event: tuple[str, str], payload: bytes, partial: bool) -> None:
    try:
        drafts = map_hook(*event, payload, env={}, cwd="/", at_ms=1_000, partial=partial)
    except Refused:
        return
    assert isinstance(drafts, list)
