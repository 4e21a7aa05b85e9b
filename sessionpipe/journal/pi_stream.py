"""A ``pi --mode json`` stream as the recorder's events, line by line.

A line carries no time: its time is its arrival. Of what repeats the conversation, which can be most of
the stream (a run's messages at its end, a tool's output so far at every update), nothing is read but
what the journal keeps.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from sessionpipe.harnesses.pi_lines import kind, read
from sessionpipe.journal.recorder import Recorder
from sessionpipe.journal.session_file import place


class _Result(msgspec.Struct):
    toolCallId: Any = None


class _Slim(msgspec.Struct):
    """What the journal keeps of a line whose rest is a copy."""

    type: str
    toolCallId: Any = None
    turnIndex: Any = None
    toolResults: list[_Result] = []


_SLIM = msgspec.json.Decoder(_Slim)
_COPIES = frozenset(("turn_end", "tool_execution_update"))
_MARKS = frozenset(("agent_start", "agent_end"))
#: Lines that are read; everything else the stream has is no part of the journal.
_READ = _COPIES | {
    "session",
    "turn_start",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_end",
    "entry_appended",
}


class PiStream:
    """Feeds a recorder from the lines of a stream.

    ``session_file``: where the session is kept; otherwise it is looked for where Pi keeps it, by the
    stream's first line and the environment ``env`` of Pi.
    """

    def __init__(
        self, recorder: Recorder, session_file: Path | None = None, env: Mapping[str, str] = os.environ
    ) -> None:
        self._recorder = recorder
        self._session_file = session_file
        self._env = env

    def line(self, data: bytes, at: float) -> None:
        """The next line, without its end, that arrived at ``at`` (epoch seconds). Never raises for what it holds."""
        type_ = kind(data)
        if type_ is None:
            # A line of something else that prints here is nobody's; half of one of Pi's is missing.
            if data.lstrip().startswith(b"{"):
                self._recorder.miss("a line of the stream can't be read")
        elif type_ in _MARKS:
            self._recorder.receive({"type": type_}, at)
        elif type_ in _COPIES and (slim := _slim(data)):
            self._recorder.receive(slim, at)
        elif type_ in _READ:
            self._read(data, at)

    def _read(self, data: bytes, at: float) -> None:
        event = read(data)
        if event is None:
            self._recorder.miss("a line of the stream can't be read")
        elif event.get("type") == "session":
            self._bind(event)
        elif event.get("type") == "entry_appended":
            if isinstance(entry := event.get("entry"), dict):
                self._recorder.entry(entry, at=at, size=len(data))
        else:
            self._recorder.receive(event, at, len(data))

    def _bind(self, header: Mapping[str, Any]) -> None:
        session, cwd = header.get("id"), header.get("cwd")
        if isinstance(session, str) and session and isinstance(cwd, str):
            file = self._session_file or place(header, self._env)
            self._recorder.bind(session, cwd=cwd, file=file, follow=True)


def _slim(data: bytes) -> dict[str, Any] | None:
    try:
        line = _SLIM.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    event: dict[str, Any] = {
        "type": line.type,
        "toolResults": [{"toolCallId": one.toolCallId} for one in line.toolResults],
    }
    if line.toolCallId is not None:
        event["toolCallId"] = line.toolCallId
    if line.turnIndex is not None:
        event["turnIndex"] = line.turnIndex
    return event
