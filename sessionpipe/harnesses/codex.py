"""Codex: what its rollouts and its login file say about sessions, turns and calls.

A hook says what a tool printed, not whether it worked: the rollout's ``item_completed`` does, which is
on disk before the hook runs. A turn that ended on an API error fires no hook: its ``task_complete`` tells
it, at the session's next hook. The account's usage limits are in the rollout alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.codex_calls import find_outcome
from sessionpipe.harnesses.codex_home import account_of, home_of, name_of, rollout_of
from sessionpipe.harnesses.codex_latest import Latest
from sessionpipe.harnesses.codex_rollout import (
    DECODER,
    FORMAT,
    HEAD,
    MESSAGES,
    asked,
    exchanges,
    find,
    generation,
    header,
    is_ask,
    is_visible,
    open_rollout,
    own,
    string,
    told,
)
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.git import spell_remote
from sessionpipe.harnesses.history import Past, glimpse, listed
from sessionpipe.harnesses.titles import first_ask, titled

Draft = dict[str, Any]

# When the rollout may say something new of the session: what happens between these does not change it.
_TELLING = frozenset({"session.started", "turn.started", "turn.ended", "session.ended", "context.compacted"})
_ENDING = frozenset({"turn.ended", "session.ended"})


# --- facts ----------------------------------------------------------------------------------------


class Head(NamedTuple):
    """What a rollout's beginning says: the version that wrote it, what the person first asked for."""

    version: str | None
    asked: str | None
    is_whole: bool


def facts(draft: Draft, context: Context, files: Files) -> dict[str, Any]:
    """The session as Codex's files know it: ``account_id``, ``attended``, ``version``, ``title``.

    The title is its name in Codex's index, else the first ask. The model is in every payload.
    """
    found: dict[str, Any] = {}
    if account := account_of(context, files):
        found["account_id"] = account
    memo = draft.get("memo", {})
    rollout = _rollout(memo, files)
    # A subagent's rollout is another thread's, though written by the same program.
    own_thread = memo.get("thread") is None
    head = _head(rollout, files) if rollout else None
    if head and head.version:
        found["version"] = head.version
    if not own_thread:
        return found
    if rollout and draft["type"] in _TELLING and (latest := _latest(rollout, files)):
        latest.catch_up(open_rollout(rollout, files))
        if latest.attended is not None:
            found["attended"] = latest.attended
    if draft["session"].get("title"):
        return found
    name = name_of(draft["session"]["id"], context, files) if draft["type"] in _TELLING else None
    first = head.asked if head else None
    prompt = memo.get("prompt")
    if first is None and (head is None or head.is_whole) and isinstance(prompt, str) and is_ask(prompt):
        # The rollout holds the first prompt only after its hook ran.
        first = prompt
    return found | _title(name, first)


def _title(name: str | None, first: str | None) -> dict[str, str]:
    """A thread is named by its first prompt until Codex has found a title, or the person gives it another.

    Which of the two it was the index doesn't say; so no title passes for the person's.
    """
    asked = first_ask(first or "")
    named = titled(name, "harness")
    return asked if named.get("title") == asked.get("title") else named or asked


def _rollout(memo: dict[str, Any], files: Files) -> Path | None:
    return find(memo.get("file") or (memo.get("transcript") or {}).get("path"), files)


def _head(rollout: Path, files: Files) -> Head | None:
    def beginning(opened: Opened) -> Head:
        return read_head(told(opened, rollout))

    def settled(opened: Opened) -> Head | None:
        head = beginning(opened)
        return head if head.version and (head.asked or not head.is_whole) else None

    found = files.learn(rollout, "codex.head", settled, per="file")
    return found or files.learn(rollout, "codex.beginning", beginning)


def read_head(opened: Opened) -> Head:
    """The rollout's own beginning, in the first MiB of it."""
    meta, first = header(opened), None
    version, start = string(meta.get("cli_version")), own(opened)
    if start is None:
        return Head(version, None, is_whole=True)
    for line in jsonl.forward(opened, start, within=HEAD):
        if line.end - start > HEAD:
            return Head(version, None, is_whole=False)
        read = jsonl.decode(line.data, DECODER)
        # What is told twice is told as an item, too: a message may hold what only the model was told.
        doubled = read and generation(read) == MESSAGES and read.ordinal is not None
        if read and read.is_of(meta.get("id")) and not doubled:
            first = asked(read)
        if first:
            break
    return Head(version, first, is_whole=True)


# --- where a thread's rollout is ------------------------------------------------------------------


def transcript(draft: Draft, context: Context, files: Files) -> str | None:
    """The rollout of a session whose payload doesn't name it, as ``notify``'s: found by its thread's id."""
    return rollout_of(draft["session"]["id"], context, files)


# --- what no hook tells ---------------------------------------------------------------------------


def missed(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """The drafts behind the ends of turns that no hook told, and before what the last turn left of the limits.

    A turn that an API error ended fires nothing. Each end is told again at every hook: what is known of the
    session says whether it is news.
    """
    first = drafts[0]
    memo = first.get("memo", {})
    if memo.get("thread") is not None or first["type"] not in _TELLING:
        return drafts
    rollout = _rollout(memo, files)
    latest = _latest(rollout, files) if rollout else None
    if rollout is None or latest is None:
        return drafts
    latest.catch_up(open_rollout(rollout, files))
    ends = [end.draft(first) for end in latest.ends if end.ms <= first["at_ms"]]
    limits = latest.limits if first["type"] in _ENDING else None
    if limits is None:
        return [*ends, *drafts]
    observed = {**first, "type": "limits.observed", "data": limits, "memo": {}}
    if first["type"] == "session.ended":
        return [*ends, observed, *drafts]
    return [*ends, *drafts, observed]


def _latest(rollout: Path, files: Files) -> Latest | None:
    return files.learn(rollout, "codex.latest", lambda _: Latest(), per="file")


# --- what was there before us ---------------------------------------------------------------------

_ROLLOUT = r"rollout-.+\.jsonl(\.zst)?"


def history(context: Context, since_ms: int, files: Files) -> Iterable[Past]:
    """The visible threads of Codex's folder: see :mod:`sessionpipe.harnesses.history`."""
    home = home_of(context)
    if home is None:
        return
    by_day = listed(f"{home}/sessions", r"\d{4}", r"\d\d", r"\d\d", _ROLLOUT, since_ms=since_ms)
    seen: set[str] = set()
    for rollout in chain(by_day, listed(f"{home}/archived_sessions", _ROLLOUT, since_ms=since_ms)):
        past = _past(rollout.path, context, files)
        # A rollout may lie there compressed and not.
        if past and past.session_id not in seen:
            seen.add(past.session_id)
            yield past


def _past(rollout: Path, context: Context, files: Files) -> Past | None:
    opened = open_rollout(rollout, files)
    if opened is None:
        return None
    with opened:
        meta, head, seen = header(opened), read_head(opened), glimpse(opened, FORMAT)
        thread, started = meta.get("id"), jsonl.epoch_ms(meta.get("timestamp"))
        if not isinstance(thread, str) or not is_visible(meta) or not head.asked or not seen or not started:
            return None
        model = _model(opened)
    source = meta.get("git")
    git: dict[str, Any] = source if isinstance(source, dict) else {}
    remote = string(git.get("repository_url"))
    block = {
        "cwd": string(meta.get("cwd")),
        "model": model,
        "branch": string(git.get("branch")),
        "repo": spell_remote(remote) if remote else None,
        **_title(name_of(thread, context, files), head.asked),
    }
    known = {name: value for name, value in block.items() if value is not None}
    return Past(thread, started, max(started, seen.last_ms or 0), seen.turns, known, head.version)


def _model(opened: Opened) -> str | None:
    """The model of the thread's first turn, if that is near its beginning."""
    start = own(opened) or 0
    for line in jsonl.forward(opened, start, within=HEAD):
        read = jsonl.decode(line.data, DECODER) if b'"turn_context"' in line.data else None
        if read and read.type == "turn_context" and isinstance(read.payload, dict):
            return string(read.payload.get("model"))
        if line.end - start > HEAD:
            break
    return None


# --- calls ----------------------------------------------------------------------------------------


def amend(drafts: list[Draft], context: Context, files: Files) -> list[Draft]:
    """The drafts, each ``tool.ended`` with what the rollout says of its call: ``ok``, ``error``, ``ms``.

    A call the rollout doesn't mention stays as its table mapped it. One that failed changed no files. What
    ``notify`` tells may be of a thread that no hook ever names: of a session where hooks are not trusted, and
    then its rollout says so, or of one that nobody sees.
    """
    if drafts[0].get("memo", {}).get("only_known") and (rollout := transcript(drafts[0], context, files)):
        drafts = [_opened_up(draft, rollout) for draft in drafts] if _is_seen(rollout, files) else drafts
    amended = [_amended(draft, files) if draft["type"] == "tool.ended" else draft for draft in drafts]
    if any(draft["type"] == "tool.ended" and not draft["data"]["ok"] for draft in amended):
        amended = [draft for draft in amended if draft["type"] != "files.changed"]
    return amended


def _is_seen(rollout: str, files: Files) -> bool:
    def seen(opened: Opened) -> bool:
        return is_visible(header(told(opened, Path(rollout))))

    return bool(files.learn(rollout, "codex.visible", seen, per="file"))


def _opened_up(draft: Draft, rollout: str) -> Draft:
    """A draft that may open its session, with the rollout where that is read about."""
    memo = {name: value for name, value in draft["memo"].items() if name != "only_known"}
    if want := memo.get("transcript"):
        memo["transcript"] = {**want, "path": rollout}
    return {**draft, "memo": {**memo, "file": rollout}}


def _amended(draft: Draft, files: Files) -> Draft:
    call = draft["data"].get("call_id")
    rollout = _rollout(draft.get("memo", {}), files)
    if not isinstance(call, str) or not call or rollout is None:
        return draft
    opened = files.open(rollout)
    if opened is None:
        return draft
    with opened:
        outcome = find_outcome(opened, call)
    if outcome is None:
        return draft
    data = {**draft["data"], "ok": outcome.ok}
    data.pop("error", None)
    if outcome.error:
        data["error"] = outcome.error
    if outcome.ms is not None:
        data["ms"] = outcome.ms
    return {**draft, "data": data}


__all__ = ["amend", "exchanges", "facts", "history", "missed", "transcript"]
