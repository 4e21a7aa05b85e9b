"""Sessions as HTML: what the templates are given. Everything in it is text; the templates escape it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import jinja2

from sessionpipe import __version__
from sessionpipe.protocol import rfc3339, short_id
from sessionpipe.receiver.board import Group, Standing, Turn, standing
from sessionpipe.receiver.store import Row
from sessionpipe.receiver.timeline import Part
from sessionpipe.terminal import printable, printable_text
from sessionpipe.words import duration, span

FOLDER = Path(__file__).parent
#: The agents' own names, where they are written otherwise than in the protocol.
AGENTS = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "gemini-cli": "Gemini CLI",
    "antigravity": "Antigravity",
    "devin": "Devin",
    "cursor": "Cursor",
    "copilot-cli": "Copilot CLI",
    "droid": "Droid",
    "kiro": "Kiro",
    "opencode": "OpenCode",
    "goose": "Goose",
    "pi": "Pi",
}
_GROUPS: tuple[tuple[Group, str], ...] = (
    ("needs", "Needs you"),
    ("working", "Working"),
    ("recent", "Recent"),
)

_environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
# Every word that came with an event goes through one of these: no control character, no override of
# the direction of text, and no half of a surrogate pair, which could not be sent.
_environment.filters["line"] = printable
_environment.filters["text"] = printable_text
_environment.globals["version"] = __version__


def render(template: str, **values: Any) -> str:
    """The page made of a template."""
    return _environment.get_template(template).render(**values)


def board(rows: Sequence[Row], now_ms: int, **more: Any) -> str:
    """The board: sessions by group, with what each does."""
    cards = [card(row, now_ms) for row in rows]
    by_group = {id_: [c for c in cards if c["standing"].group == id_] for id_, _ in _GROUPS}
    # Who has waited longest first.
    by_group["needs"].sort(key=lambda c: c["standing"].since)
    # By what does not change from moment to moment: a list that moves can't be read.
    by_group["working"].sort(key=lambda c: (-c["begun"], c["name"]))
    groups = [{"id": id_, "title": title, "cards": by_group[id_]} for id_, title in _GROUPS]
    return render("board.html", groups=groups, waiting=len(by_group["needs"]), **more)


def card(row: Row, now_ms: int) -> dict[str, Any]:
    """What is shown of a session wherever it is shown."""
    block, stands = row.block, standing(row.memory, now_ms)
    folder = str(block.get("cwd", ""))
    return {
        "name": row.name,
        "id": row.id,
        "harness": row.harness,
        "short": short_id(row.harness, row.id),
        "href": "session?" + urlencode({"id": row.name}),
        "title": _title(block.get("title", ""), folder.rstrip("/").rpartition("/")[2]),
        "agent": AGENTS.get(row.harness, row.harness),
        "version": row.memory.version,
        "machine": block.get("machine", ""),
        "folder": folder,
        "branch": block.get("branch", ""),
        "model": block.get("model", ""),
        "repo": block.get("repo", ""),
        "url": link(block.get("url")),
        "unattended": block.get("attended") is False,
        "parents": [
            {"words": words, "name": name, "href": "session?" + urlencode({"id": name})}
            for words, name in (
                ("part of", f"{row.harness}:{block['parent_id']}" if block.get("parent_id") else ""),
                ("started by", block.get("launched_by", "")),
                ("answers", block.get("delegated_by", "")),
            )
            if name
        ],
        "standing": stands,
        "since": when(stands.since, now_ms),
        "for": _for(now_ms - stands.since, stands.group),
        "begun": next((t.at for t in reversed(row.memory.turns) if t.at), row.memory.first) or 0,
        "heard": when(row.memory.last, now_ms),
        "first": when(row.memory.first or row.memory.last, now_ms),
        "turns": [turn(t, now_ms) for t in reversed(row.memory.turns[-6:])],
        "count": row.memory.count,
        "tier": row.memory.tier,
        "events": row.events,
        "progress": row.memory.progress.assistant if row.memory.progress else "",
    }


def _title(*names: str) -> str:
    """The first of ``names`` that can be seen: it is what a person clicks on."""
    seen = (name for name in names if any(c.isprintable() and not c.isspace() for c in name))
    return next(seen, "Untitled session")


def turn(found: Turn, now_ms: int) -> dict[str, Any]:
    """A turn in one line of the board."""
    outcome = {"stop": "done", "interrupt": "interrupted", "error": "failed"}.get(found.reason, found.reason)
    if found.ended is None:
        outcome = ""
    took = found.ms if found.ended is not None else None
    begun = found.at if found.at is not None else found.ended
    return {
        "when": when(begun or 0, now_ms),
        "outcome": outcome,
        "took": duration(took),
        "said": found.user,
        "injected": found.injected,
        "error": found.error,
    }


def session(row: Row, parts: Sequence[Part], now_ms: int, **more: Any) -> str:
    """One session: what is known of it, and its turns, the newest last."""
    shown = [
        {
            "part": part,
            "when": when(part.at, now_ms) if part.at is not None else None,
            "steps": [{"when": when(step.at, now_ms), "step": step} for step in part.steps],
        }
        for part in parts
    ]
    return render("session.html", s=card(row, now_ms), parts_=shown, **more)


def as_data(row: Row, now_ms: int) -> dict[str, Any]:
    """One session for programs."""
    stands: Standing = standing(row.memory, now_ms)
    state = {"needs": "needs you", "working": "working", "recent": "recent"}[stands.group]
    return {
        "harness": row.harness,
        "id": row.id,
        "short_id": short_id(row.harness, row.id),
        "state": state,
        "says": printable(stands.text),
        "since": rfc3339(stands.since),
        "reading": stands.reading,
        "first_at": rfc3339(row.memory.first or row.memory.last),
        "last_at": rfc3339(row.memory.last),
        "received_at": rfc3339(row.heard_ms),
        "events": row.events,
        "turns": row.memory.count,
        "session": row.block,
    }


def when(ms: int, now_ms: int) -> dict[str, str]:
    """A time as the page shows it: how long ago, and exactly, for programs and for people."""
    local = datetime.fromtimestamp(0, UTC).astimezone()
    try:
        local = datetime.fromtimestamp(ms / 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        ms = 0
    return {
        "iso": rfc3339(ms),
        "ago": ago(now_ms - ms),
        "clock": f"{local:%H:%M:%S}",
        "full": f"{local:%A %d %B %Y, %H:%M:%S}",
    }


def _for(ms: int, group: Group) -> str:
    """Since when it has stood like this: a state lasts, what is over was."""
    long = ago(ms)
    if long == "now":
        return "just now"
    return f"{long} ago" if group == "recent" else f"for {long}"


def ago(ms: int) -> str:
    """How long: what is this fresh is now."""
    return "now" if ms < 5000 else span(ms)


def link(url: object) -> str:
    """``url`` where a person may be sent there; nothing for anything but a web address."""
    if not isinstance(url, str):
        return ""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return ""
    return url if parts.scheme in ("http", "https") and host else ""
