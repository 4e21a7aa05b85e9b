"""A store as OpenCode keeps it: in a WAL database that it has open while it is read."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE session (id text PRIMARY KEY, project_id text, parent_id text, directory text NOT NULL,
  title text NOT NULL, version text NOT NULL, model text, revert text, time_created integer NOT NULL,
  time_updated integer NOT NULL, time_archived integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
"""


class Store:
    """OpenCode's own connection to its store; what is made up is made of ``session``, ``ask`` and ``say``."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.executescript(SCHEMA)
        self._ids = itertools.count(1)

    def close(self) -> None:
        self._connection.close()

    def execute(self, sql: str, *parameters: object) -> None:
        self._connection.execute(sql, parameters)

    def put(self, row: dict[str, Any]) -> None:
        """A row as ``conformance/transcripts/opencode`` has it."""
        columns = {key: value for key, value in row.items() if key != "table"}
        if isinstance(columns.get("data"), dict):
            columns["data"] = json.dumps(columns["data"])
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        self.execute(f"INSERT OR REPLACE INTO {row['table']} ({names}) VALUES ({marks})", *columns.values())

    def session(self, name: str, ms: int, **columns: Any) -> None:
        known = {
            "directory": "/src",
            "title": f"New session - {'2026-11-29T18:41:13.597Z'}",
            "version": "1.18.33",
        }
        self.put({"table": "session", "id": name, "time_created": ms, "time_updated": ms, **known, **columns})

    def ask(self, session: str, ms: int, *parts: str | dict[str, Any]) -> str:
        """A prompt; its name."""
        return self._message(session, ms, {"role": "user", "time": {"created": ms}}, parts)

    def say(self, session: str, ms: int, to: str, *parts: str | dict[str, Any], **data: Any) -> str:
        """An answer that is complete, unless ``time`` says otherwise; its name."""
        said = {
            "role": "assistant",
            "parentID": to,
            "mode": "build",
            "time": {"created": ms, "completed": ms + 5},
        }
        return self._message(session, ms, {**said, **data}, parts)

    def _message(
        self, session: str, ms: int, data: dict[str, Any], parts: Iterable[str | dict[str, Any]]
    ) -> str:
        name = f"msg_{next(self._ids):08d}"
        times = {"session_id": session, "time_created": ms, "time_updated": ms}
        self.put({"table": "message", "id": name, "data": data, **times})
        for part in parts:
            text = {"type": "text", "text": part} if isinstance(part, str) else part
            number = f"prt_{next(self._ids):08d}"
            self.put({"table": "part", "id": number, "message_id": name, "data": text, **times})
        return name
