"""What an event says, in words: one line a person reads. Pure; an event in, text out.

An event says more or less depending on the tier it was filtered to, so every field may be absent,
and what a harness wrote may be anything: whatever is shown went through :func:`printable`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from sessionpipe.terminal import printable

Tone = Literal["plain", "quiet", "good", "bad", "needs"]

#: The longest words of a line that no terminal cuts.
LONGEST = 300
#: The one field of a tool's input worth showing, the first that is there.
TELLING = ("command", "file_path", "path", "url", "pattern", "query", "description")


class Words(NamedTuple):
    """What happened, and how it should look."""

    text: str
    tone: Tone = "plain"


def describe(event: Mapping[str, Any]) -> Words:
    """What happened, in words. A type this version does not know is called by its name."""
    type_ = str(event.get("type", "?"))
    say = SAYERS.get(type_)
    words = say(mapping(event.get("data"))) if say else Words(type_, "quiet")
    return words._replace(text=cut(printable(words.text), LONGEST))


# --- per type -----------------------------------------------------------------------------------

Data = Mapping[str, Any]

_SOURCES = {
    "resume": " (resumed)",
    "clear": " (after a clear)",
    "compact": " (after a compaction)",
    "fork": " (forked)",
}


def _session_started(data: Data) -> Words:
    if data.get("source") == "unknown":
        return Words("session first seen")
    return Words("session started" + _SOURCES.get(text_of(data, "source"), ""))


def _session_ended(data: Data) -> Words:
    reason = text_of(data, "reason")
    return Words("session ended" + (f" ({reason})" if reason not in ("", "other", "exit") else ""), "quiet")


def _session_backfill(data: Data) -> Words:
    turns = f", {data['turns']} turns" if "turns" in data else ""
    return Words(
        f"from history: {text_of(data, 'started_at')[:10]} to {text_of(data, 'last_at')[:10]}{turns}", "quiet"
    )


#: What harnesses call a person at the keyboard.
_PEOPLE = ("", "user", "interactive")


def _turn_started(data: Data) -> Words:
    by = text_of(data, "submitted_by")
    who = f" by {by}" if by not in _PEOPLE else ""
    if data.get("injected") is True:
        return Words(f"woken{who}")
    size = f" ({data['prompt_chars']} characters)" if "prompt_chars" in data else ""
    return Words(f"prompt{who}{size}")


def _turn_ended(data: Data) -> Words:
    took, left = duration(data.get("ms")), data.get("background")
    more = f", {left} still running in the background" if isinstance(left, int) and left else ""
    match data.get("reason"):
        case "interrupt":
            return Words("interrupted" + (f" after {took}" if took else "") + more, "bad")
        case "error":
            error = text_of(data, "error")
            return Words(
                "failed" + (f" after {took}" if took else "") + (f": {error}" if error else "") + more, "bad"
            )
        case _:
            return Words("done" + (f" in {took}" if took else "") + more, "good")


def _said(data: Data) -> Words:
    said = [
        f"“{cut(one_line(text_of(data, side)), most)}”" if text_of(data, side) else "nothing"
        for side, most in (("user", 80), ("assistant", 160))
    ]
    return Words(" → ".join(said))


def _tool_started(data: Data) -> Words:
    return Words(f"{_thread(data)}{text_of(data, 'tool')} …{_of(data)}", "quiet")


def _tool_ended(data: Data) -> Words:
    took = duration(data.get("ms"))
    head = f"{_thread(data)}{text_of(data, 'tool')} {'ok' if data.get('ok') else 'failed'}"
    if took:
        head += f" {took}"
    if data.get("ok"):
        return Words(head + _of(data))
    error = one_line(text_of(data, "error"))
    return Words(head + (f": {error}" if error else _of(data)), "bad")


def _files_changed(data: Data) -> Words:
    paths = data.get("paths")
    paths = [str(path) for path in paths] if isinstance(paths, list) else []
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return Words(f"edited {', '.join(paths[:3])}{more}")


#: What an ``attention.needed`` asks for, by its kind.
ASKS: Mapping[str, str] = {
    "permission": "permission",
    "question": "a question",
    "elicitation": "an answer",
    "idle": "your next prompt",
    "error": "a look at an error",
}


def _attention_needed(data: Data) -> Words:
    kind = text_of(data, "kind")
    about = one_line(text_of(data, "message") or text_of(data, "tool"))
    # A permission's message begins with the tool it is for.
    joint = " " if kind == "permission" else ": "
    return Words(f"{_thread(data)}needs you: {ASKS.get(kind, kind)}{joint + about if about else ''}", "needs")


_HOW = {
    "answered": Words("answered", "good"),
    "cancelled": Words("no longer waiting for you (cancelled)"),
    "timeout": Words("no longer waiting for you (timed out)"),
}


def _attention_cleared(data: Data) -> Words:
    return _HOW.get(text_of(data, "how"), Words("no longer waiting for you"))


def _subagent(verb: str) -> Any:
    def say(data: Data) -> Words:
        left = data.get("background")
        more = f", {left} still running in the background" if isinstance(left, int) and left else ""
        return Words(
            f"{_thread(data)}subagent {text_of(data, 'agent_type')} {verb}{more}".replace("  ", " "), "quiet"
        )

    return say


def _context_compacted(data: Data) -> Words:
    return Words(f"context compacted ({text_of(data, 'trigger')})", "quiet")


def _limits_observed(data: Data) -> Words:
    windows = data.get("windows")
    parts = [
        f"{text_of(window, 'id')} {window.get('used_percent')} %"
        for window in (windows if isinstance(windows, list) else [])
        if isinstance(window, Mapping)
    ]
    return Words(f"usage: {', '.join(parts)}", "quiet")


def _delegation_started(data: Data) -> Words:
    text = one_line(text_of(data, "text"))
    return Words(f"asks {text_of(data, 'harness')}" + (f": {text}" if text else ""))


def _delegation_ended(data: Data) -> Words:
    took = duration(data.get("ms"))
    if data.get("ok"):
        return Words("the asked agent answered" + (f" in {took}" if took else ""), "good")
    return Words(f"the asked agent failed: {one_line(text_of(data, 'error'))}".rstrip(": "), "bad")


#: What says a type of event, by type.
SAYERS: Mapping[str, Any] = {
    "session.started": _session_started,
    "session.heartbeat": lambda data: Words("still working", "quiet"),
    "session.ended": _session_ended,
    "session.backfill": _session_backfill,
    "session.forgotten": lambda data: Words("forgotten", "quiet"),
    "turn.started": _turn_started,
    "turn.ended": _turn_ended,
    "turn.transcript": _said,
    "turn.progress": _said,
    "tool.started": _tool_started,
    "tool.ended": _tool_ended,
    "files.changed": _files_changed,
    "attention.needed": _attention_needed,
    "attention.cleared": _attention_cleared,
    "subagent.started": _subagent("started"),
    "subagent.ended": _subagent("ended"),
    "context.compacted": _context_compacted,
    "limits.observed": _limits_observed,
    "delegation.started": _delegation_started,
    "delegation.ended": _delegation_ended,
}


# --- text ---------------------------------------------------------------------------------------


def duration(ms: object) -> str:
    """Milliseconds as a person says them; nothing when there are none."""
    if isinstance(ms, bool) or not isinstance(ms, (int, float)) or ms < 0:
        return ""
    if ms < 100:
        return f"{ms:.0f} ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    seconds = int(ms / 1000)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3_600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3_600} h {seconds % 3_600 // 60} min"


def span(ms: int) -> str:
    """How long, in one unit: what a person wants to know at a glance."""
    seconds = max(ms, 0) // 1000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def text_of(data: Data, name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def one_line(text: str) -> str:
    """``text`` with every run of white space as one space."""
    return " ".join(text.split())


def _thread(data: Data) -> str:
    agent = text_of(data, "agent_id")
    return f"[{agent[:8]}] " if agent else ""


def _of(data: Data) -> str:
    told = one_line(about(data))
    return f" {told}" if told else ""


def about(data: Data) -> str:
    """What a call is about: the telling field of its input, where the tier carries it."""
    given = mapping(data.get("input"))
    return next((given[name] for name in TELLING if isinstance(given.get(name), str)), "")


def width(text: str) -> int:
    """How many columns ``text`` takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """``text`` in at most ``columns``, with an ellipsis where it was cut."""
    if width(text) <= columns:
        return text
    taken = 0
    for index, character in enumerate(text):
        taken += _columns(character)
        if taken > columns - 1:
            return text[:index] + "…"
    return text
