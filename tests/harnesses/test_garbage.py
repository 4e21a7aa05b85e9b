"""Files of programs that crash, rotate and change: whatever stands in them, their readers read on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe import harnesses
from sessionpipe.harnesses import Context, Files, Past
from sessionpipe.harnesses.transcripts import Want
from tests.harnesses.devin_store import Store

NAME = "amber-otter"
#: Where each harness keeps a session's file, below the home.
PLACES = {
    "cursor": f".cursor/projects/src/agent-transcripts/{NAME}/{NAME}.jsonl",
    "copilot-cli": f".copilot/session-state/{NAME}/events.jsonl",
    "droid": f".factory/sessions/-src/{NAME}.jsonl",
    "antigravity": f".gemini/antigravity/brain/{NAME}/.system_generated/logs/transcript.jsonl",
}
FIXTURES = Path(__file__).parents[2] / "conformance/transcripts"

_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "content", "id", "role", "data"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def _records(harness: str) -> list[dict[str, Any]]:
    lines = (FIXTURES / harness / "turns.jsonl").read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


@st.composite
def _mutated(draw: st.DrawFn, harness: str) -> bytes:
    """Lines of a transcript, with something else in places, and torn."""
    lines: list[bytes] = []
    for record in draw(st.lists(st.sampled_from(_records(harness)), max_size=8)):
        changed = json.loads(json.dumps(record))
        for _ in range(draw(st.integers(0, 2))):
            inner = [value for value in changed.values() if isinstance(value, dict)]
            if holder := draw(st.sampled_from([changed, *inner])):
                holder[draw(st.sampled_from(sorted(holder)))] = draw(_ANYTHING)
        lines.append(json.dumps(changed).encode())
    text = b"\n".join(lines) + b"\n"
    return text[: draw(st.none() | st.integers(0, len(text)))]


def _holds(harness: str, home: Path, path: str) -> None:
    """Everything that reads a session's files gives what it shall, whatever is in them."""
    module, files, context = harnesses.get(harness), Files(), Context({}, "/", 2**41, str(home))
    for kind in ("session.started", "turn.ended", "session.ended"):
        data = {"session.started": {"source": "startup"}, "turn.ended": {"reason": "stop"}}
        draft = {
            "type": kind,
            "at_ms": 2**41,
            "harness": {"name": harness, "event": "x"},
            "session": {"id": NAME},
            "data": data.get(kind, {"reason": "other"}),
            "memo": {"file": path},
        }
        for found in (module.facts(draft, context, files), *module.missed([draft], context, files)):
            json.dumps(found)
        told = module.facts(draft, context, files)
        assert all(isinstance(value, str) and value for value in told.values())
        assert module.amend([draft], context, files) in ([draft], [])
    module.transcript({"session": {"id": NAME}}, context, files)
    for past in module.history(context, 0, files):
        assert isinstance(past, Past)
        assert 0 < past.started_ms <= past.last_ms
    for final in (False, True):
        reading = module.exchanges(path, {}, Want(None, final, 1, 2**41, NAME), files)
        assert json.loads(json.dumps(reading.cursor)) == reading.cursor
        assert all(isinstance(side, str) for each in reading.exchanges for side in each)


@pytest.mark.parametrize("harness", PLACES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_transcript_may_hold_anything(harness: str, tmp_path: Path, data: st.DataObject) -> None:
    file = tmp_path / PLACES[harness]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data.draw(_mutated(harness) | st.binary(max_size=200)))
    _holds(harness, tmp_path, str(file))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_so_may_a_store(tmp_path: Path, data: st.DataObject) -> None:
    store = Store(tmp_path)
    values = (
        st.none()
        | st.integers(-5, 5)
        | st.floats(allow_nan=False)
        | st.text(max_size=5)
        | st.binary(max_size=5)
    )
    columns = {
        "sessions": "working_directory model created_at last_activity_at title main_chain_id hidden",
        "message_nodes": "node_id parent_node_id chat_message",
        "prompt_history": "content timestamp is_shell",
    }
    store.run("DELETE FROM sessions; DELETE FROM message_nodes; DELETE FROM prompt_history").session().typed(
        "x"
    )
    store.asks("Fix it", 1)
    store.says("Done.", 2)
    for table, names in columns.items():
        for name in data.draw(st.lists(st.sampled_from(names.split()), max_size=2)):
            store.run(f"UPDATE {table} SET {name} = ?", data.draw(values))
    _holds("devin", tmp_path, str(store.path))
