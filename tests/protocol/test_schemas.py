"""The shipped JSON Schemas say what the types say, and refuse what the protocol refuses."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sessionpipe.paths import data_dir
from sessionpipe.protocol import schemas
from sessionpipe.protocol.vocabulary import VOCABULARY
from tests.schema import assert_valid, problems

EVENT: dict[str, Any] = {
    "protocol": 1,
    "id": "01K6ABCXYZ0123456789ABCDEF",
    "type": "tool.ended",
    "time": "2026-09-28T01:03:11.204Z",
    "tier": 3,
    "harness": {"name": "claude-code", "version": "2.1.290", "event": "PostToolUse"},
    "session": {"id": "8c132906-8c3f-4814-870a-afc3d05e1d2e", "seq": 412, "parent_id": None},
    "privacy": {"rulesets": ["secrets@1"], "pii": False},
    "data": {"tool": "Bash", "ok": True, "ms": 1830, "input": {"command": "ls"}},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """``EVENT`` with the dotted ``path`` set to ``value``, or removed when it is ``...``."""
    event = copy.deepcopy(EVENT)
    *above, last = path.split(".")
    block = event
    for name in above:
        block = block[name]
    if value is ...:
        del block[last]
    else:
        block[last] = value
    return event


@pytest.mark.parametrize("name", schemas.files())
def test_the_shipped_file_is_what_the_types_say(name: str) -> None:
    shipped = (data_dir("conformance") / "schema" / name).read_text("utf-8")
    assert shipped == schemas.files()[name], "run: python -m sessionpipe.protocol.schemas"


@pytest.mark.parametrize("schema", [schemas.event_schema(), schemas.data_schema()])
def test_the_schemas_are_schemas(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)


def test_an_event_of_the_protocol_passes() -> None:
    assert_valid(EVENT)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("extra", 1),
        ("protocol", 2),
        ("id", "not-a-ulid"),
        ("id", ...),
        ("type", "Tool.Ended"),
        ("time", "2026-09-28T01:03:11Z"),
        ("tier", 4),
        ("tier", 0),
        ("tier", 1),
        ("harness.name", "Claude Code"),
        ("session.id", "a b"),
        ("session.id", "x" * 129),
        ("session.seq", -1),
        ("session.title_source", "guess"),
        ("session.launched_by", "nobody"),
        ("privacy.pii", "no"),
        ("privacy.rulesets", []),
        ("data.ok", ...),
        ("data.ok", "yes"),
        ("data.tool", "a tool"),
        ("data.ms", -1),
        ("data.command", "ls"),
    ],
)
def test_anything_else_is_refused(path: str, value: Any) -> None:
    assert problems(changed(path, value))


@pytest.mark.parametrize("name", VOCABULARY)
def test_every_type_has_a_schema_that_names_the_tier_of_its_fields(name: str) -> None:
    schema, row = schemas.data_schemas()[name], VOCABULARY[name]
    assert schema["x-tier"] == row.tier
    assert {field: rule["x-tier"] for field, rule in schema["properties"].items()} == {
        field: rule.tier for field, rule in row.fields.items()
    }


def test_a_receiver_may_validate_a_type_it_does_not_know() -> None:
    event = changed("type", "tool.pondered") | {"data": {"anything": 1}}
    assert Draft202012Validator(schemas.event_schema()).is_valid(event)
    assert Draft202012Validator(schemas.data_schema()).is_valid(event)
