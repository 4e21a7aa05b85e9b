"""A sink of one's own: events become rows of an SQLite database."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from sessionpipe.sinks.base import Acked, Batch, Limits, Outcome, Retry, Setup, Sink

TABLE = (
    "CREATE TABLE IF NOT EXISTS events (harness, session, seq, event, PRIMARY KEY (harness, session, seq))"
)


class SqliteSink(Sink):
    def __init__(self, setup: Setup) -> None:
        self.path = Path(setup.config.url or "").expanduser()
        if not self.path.is_absolute():
            raise ValueError("it must be an absolute path, as in sqlite:~/agents.db")

    def limits(self) -> Limits:
        return Limits(max_events=500, max_bytes=1 << 20)

    def send(self, batch: Batch) -> Outcome:
        try:
            with (
                closing(sqlite3.connect(self.path)) as db,
                db,
            ):  # One transaction: all of the batch or nothing.
                db.execute(TABLE)
                for text in batch.events:
                    event = json.loads(text)
                    whose = event["harness"]["name"], event["session"]["id"]
                    if event["type"] == "session.forgotten":
                        db.execute("DELETE FROM events WHERE harness = ? AND session = ?", whose)
                    row = *whose, event["session"]["seq"], text.decode()
                    db.execute("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?)", row)  # It may come twice.
        except sqlite3.Error as error:
            return Retry(f"{self.path}: {error}")
        return Acked()

    def forgets(self) -> bool:
        return True
