"""What every test that makes events checks them with: the shipped JSON Schemas and our own allowlist."""

from __future__ import annotations

import functools
import json
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from sessionpipe.paths import data_dir
from sessionpipe.protocol.vocabulary import VOCABULARY


@functools.cache
def _validators() -> tuple[Draft202012Validator, ...]:
    folder = data_dir("conformance") / "schema"
    return tuple(
        Draft202012Validator(json.loads((folder / name).read_text("utf-8")), format_checker=FormatChecker())
        for name in ("event.json", "event-data.json")
    )


def problems(event: Any) -> list[str]:
    """Everything wrong with ``event``: its shape, its tier, a type or a field that we do not send."""
    found = [
        f"{'.'.join(map(str, error.absolute_path)) or 'event'}: {error.message}"
        for validator in _validators()
        for error in validator.iter_errors(event)
    ]
    row = VOCABULARY.get(event.get("type")) if isinstance(event, dict) else None
    if row is None:
        return [*found, "type: not one that we send"]
    found += [
        f"data.{name}: not a field of {event['type']}" for name in event["data"] if name not in row.fields
    ]
    if event["tier"] > 0 and "secrets@1" not in event["privacy"]["rulesets"]:
        found.append("privacy.rulesets: secrets@1 did not run")
    return found


def assert_valid(event: Any) -> None:
    """Fail, saying why, unless ``event`` is one that we may send at the tier it says."""
    __tracebackhide__ = True
    if found := problems(event):
        raise AssertionError("\n".join([*found, json.dumps(event, indent=1, default=repr)[:4000]]))
