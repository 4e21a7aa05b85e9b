"""Kiro: the little that is known of its files. Made from documentation.

kiro-cli keeps a session as ``~/.kiro/sessions/cli/<id>.jsonl``, a line a message, whose ``kind`` says whose it
is; what the person asked may stand there by its id alone, and is empty then. Where the IDE keeps its sessions
is not known, nor whether the ids that hooks tell are those of all files: there are no sessions of before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from sessionpipe.harnesses import jsonl, reading
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.conversation import Meaning, Prompt, Said, Step, Worked
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.titles import first_ask

Draft = dict[str, Any]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Record(msgspec.Struct):
    """A line of a session's file; each field may be anything at all."""

    kind: Any = None
    data: Any = None


_RECORDS = msgspec.json.Decoder(Record)


class _Meaning(Meaning):
    def steps(self, line: jsonl.Line) -> Iterable[Step]:
        record = jsonl.decode(line.data, _RECORDS)
        return steps(record) if record else ()


def steps(record: Record) -> Iterator[Step]:
    """What a line does to the conversation; nothing for a kind nobody knows."""
    content = record.data.get("content") if isinstance(record.data, dict) else None
    blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    texts = [content] if isinstance(content, str) else list(filter(None, map(_text, blocks)))
    match record.kind:
        case "Prompt" | "UserMessage":
            yield Prompt("ask", "\n\n".join(texts), None)
        case "AssistantMessage":
            yield Said(None, texts, any(b.get("kind") == "toolUse" for b in blocks), None)
        case "ToolResults":
            yield Worked(None)


def _text(block: dict[str, Any]) -> str:
    told = block.get("data") if block.get("kind") == "text" else block.get("text")
    return told if isinstance(told, str) else ""


def find(claimed: object, files: Files) -> Path | None:
    """The session's file, if a path names one."""
    return files.resolve(
        claimed, suffix=".jsonl", name_ok=lambda name: bool(_NAME.fullmatch(name.removesuffix(".jsonl")))
    )


# Nothing says when a line was written, nor that a turn is over.
FORMAT = reading.Format(find=find, meaning=lambda opened: _Meaning(), timed=False, quiet=True)

exchanges = partial(reading.exchanges, FORMAT)


def transcript(draft: Draft, context: Context, files: Files) -> str | None:
    """Where kiro-cli keeps the session, if it does: what is nowhere is not waited for."""
    name = draft["session"]["id"]
    if not context.home or not _NAME.fullmatch(name):
        return None
    path = f"{context.home}/.kiro/sessions/cli/{name}.jsonl"
    return files.learn(path, "kiro.there", lambda opened: path, per="file")


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """``title``: the first prompt that its hooks told."""
    prompt = draft.get("memo", {}).get("prompt")
    return dict(first_ask(prompt)) if isinstance(prompt, str) else {}


__all__ = ["exchanges", "facts", "transcript"]
