"""JSON Schemas of protocol v1 (§2 to §5), generated from the types in :mod:`sessionpipe.protocol.vocabulary`.

Two files ship in ``conformance/schema``, for anyone who sends or receives events:

* ``event.json``: the envelope, the harness block and the session block;
* ``event-data.json``: what ``data`` holds, by ``type``, and the tier rule: no event below its
  type's tier, no field below its own. It is a schema of a whole event as well, so that the two are
  used side by side. A type it does not know passes, as a receiver must let it.

``python -m sessionpipe.protocol.schemas`` writes both; a test holds the files equal to the types.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from sessionpipe.protocol.vocabulary import VOCABULARY, Event, Type

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def event_schema() -> dict[str, Any]:
    """The schema of the envelope (§2, §3): ``data`` is any object, ``type`` any well-formed name."""
    schema = msgspec.json.schema(Event)
    return {"$schema": DIALECT, "title": "sessionpipe event, protocol 1", **schema}


def data_schemas() -> dict[str, dict[str, Any]]:
    """The schema of ``data`` for every type (§4), by type; references point into its own ``$defs``.

    Every property says the lowest tier that carries it as ``x-tier``. Extra keys are allowed, as
    the protocol has it; that we send none is the privacy filter's to prove.
    """
    found = {}
    for name, row in VOCABULARY.items():
        schema = msgspec.json.schema(row.struct)
        definitions = schema["$defs"]
        own = definitions.pop(row.struct.__name__)
        for field, rule in row.fields.items():
            own["properties"][field]["x-tier"] = rule.tier
        # A struct without a docstring of its own inherits its base's, which says nothing of the type.
        own.pop("description", None)
        found[name] = (
            own | {"title": name, "x-tier": row.tier} | ({"$defs": definitions} if definitions else {})
        )
    return found


def data_schema() -> dict[str, Any]:
    """One schema of a whole event that checks ``data`` by ``type`` and both by ``tier``."""
    definitions: dict[str, Any] = {}
    rules = []
    for name, own in data_schemas().items():
        definitions |= own.pop("$defs", {})
        definitions[name] = own
        rules.append(
            {
                "if": {"required": ["type"], "properties": {"type": {"const": name}}},
                "then": {"allOf": _rules(name, VOCABULARY[name])},
            }
        )
    return {
        "$schema": DIALECT,
        "title": "sessionpipe event data by type and tier, protocol 1",
        "type": "object",
        "allOf": rules,
        "$defs": definitions,
    }


def _rules(name: str, row: Type) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = [
        {"properties": {"tier": {"minimum": row.tier}, "data": {"$ref": f"#/$defs/{name}"}}}
    ]
    for tier in range(row.tier, 3):
        above = [field for field, rule in row.fields.items() if rule.tier > tier]
        if above:
            rules.append(
                {
                    "if": {"properties": {"tier": {"const": tier}}},
                    "then": {"properties": {"data": {"properties": dict.fromkeys(above, False)}}},
                }
            )
    return rules


def files() -> dict[str, str]:
    """The text of each file in ``conformance/schema``, by name."""
    return {
        name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in (("event.json", event_schema()), ("event-data.json", data_schema()))
    }


def write(folder: Path) -> None:
    """Write the schema files into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    from sessionpipe.paths import data_dir

    write(data_dir("conformance") / "schema")
