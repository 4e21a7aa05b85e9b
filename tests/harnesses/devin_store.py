"""A store as Devin keeps it, for tests of what is read from it."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, working_directory TEXT, model TEXT, created_at INTEGER,
  last_activity_at INTEGER, title TEXT, main_chain_id INTEGER, hidden INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS message_nodes (session_id TEXT, node_id INTEGER, parent_node_id INTEGER, chat_message TEXT,
  created_at INTEGER);
CREATE TABLE IF NOT EXISTS prompt_history (content TEXT, timestamp INTEGER, session_id TEXT, is_shell INTEGER);
"""
#: Epoch seconds at which everything in these stores begins.
START = 1_796_000_000


class Store:
    """A home folder with a store of Devin's; times are seconds after :data:`START`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / ".local/share/devin/cli/sessions.db"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._last: dict[str, int] = {}
        self._next = 1
        self.run(SCHEMA)

    def run(self, script: str, *parameters: Any) -> Store:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            if parameters:
                connection.execute(script, parameters)
            else:
                connection.executescript(script)
            connection.commit()
        # Only what was written a moment ago might still be changing.
        os.utime(self.path, (START, START + self._next))
        return self

    def row(self, table: str, /, **columns: Any) -> Store:
        """A row as it became: in the place of the one that was there."""
        key = {"sessions": ("id",), "message_nodes": ("session_id", "node_id")}.get(table, ())
        if key:
            where = " AND ".join(f"{name} = ?" for name in key)
            self.run(f"DELETE FROM {table} WHERE {where}", *(columns[name] for name in key))
        values = [json.dumps(value) if isinstance(value, dict) else value for value in columns.values()]
        marks = ", ".join("?" * len(columns))
        return self.run(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", *values)

    def session(
        self, name: str = "amber-otter", at: int = 0, *, hidden: int = 0, last: int | None = None
    ) -> Store:
        return self.run(
            "INSERT INTO sessions VALUES (?, '/home/dev/src', 'm-1', ?, ?, 'Nonsense', NULL, ?)",
            *(name, START + at, START + (at if last is None else last), hidden),
        )

    def node(
        self,
        role: str,
        content: object,
        at: float | None = None,
        *,
        session: str = "amber-otter",
        **more: Any,
    ) -> int:
        """Append a message to a session's main chain; its node's id."""
        name, self._next = self._next, self._next + 1
        parent = more.pop("parent", self._last.get(session))
        metadata = {**({"created_at": START + at} if at is not None else {}), **more.pop("metadata", {})}
        message = json.dumps({"role": role, "content": content, "metadata": metadata, **more})
        self.run(
            "INSERT INTO message_nodes VALUES (?, ?, ?, ?, ?)", session, name, parent, message, START + 9_999
        )
        self.run("UPDATE sessions SET main_chain_id = ? WHERE id = ?", name, session)
        self._last[session] = name
        return name

    def asks(self, text: object, at: float, **more: Any) -> int:
        return self.node("user", text, at, metadata={"is_user_input": True}, **more)

    def says(self, text: object, at: float, *, calls: bool = False, **more: Any) -> int:
        if calls:
            more["tool_calls"] = [{"id": "c"}]
        return self.node("assistant", text, at, **more)

    def typed(self, text: str, at: int = 0, *, session: str = "amber-otter", shell: int | None = 0) -> Store:
        return self.run("INSERT INTO prompt_history VALUES (?, ?, ?, ?)", text, START + at, session, shell)
