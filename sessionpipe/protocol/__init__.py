"""The sessionpipe protocol v1: envelope, session block, vocabulary. Pure; no I/O."""

from sessionpipe.protocol.ids import (
    attention_id,
    is_lineage,
    is_session_id,
    is_tool_name,
    new_id,
    rfc3339,
    short_id,
)

PROTOCOL = 1

__all__ = [
    "PROTOCOL",
    "attention_id",
    "is_lineage",
    "is_session_id",
    "is_tool_name",
    "new_id",
    "rfc3339",
    "short_id",
]
