"""Whether Codex will run our hooks: it skips those the person has not looked at in ``/hooks``.

Codex writes a digest of each handler it was told to trust into its ``config.toml``; here the same
digest is made and compared. Trust itself is the person's to give, so nothing is ever written there.
"""

from __future__ import annotations

import json
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

from sessionpipe.install import files
from sessionpipe.install.entries import places
from sessionpipe.install.jsonedit import Document
from sessionpipe.install.jsonedit import Path as Place
from sessionpipe.install.leftalone import LeftAlone
from sessionpipe.install.targets import Target
from sessionpipe.install.tomltext import parse

#: Events whose groups' matcher Codex ignores, and leaves out of the digest.
_UNMATCHED = {"UserPromptSubmit", "Stop", "Interrupt", "PreModelRequest", "PostModelRequest"}


def trusted(hooks: Path, text: str, target: Target) -> bool:
    """Whether every entry of ours in ``hooks`` (whose text is ``text``) has been trusted."""
    try:
        config = parse(files.read(hooks.with_name("config.toml")).text)
    except LeftAlone:
        return False
    known = config.get("hooks")
    known = known.get("state") if isinstance(known, dict) else None
    if not isinstance(known, dict):
        return False
    document = Document(text)
    # Codex resolves its folder's name; whether also the file's, was not seen.
    names = {os.path.realpath(hooks), str(Path(os.path.realpath(hooks.parent)) / hooks.name)}
    for event, place in places(document, target):
        digest = handler_hash(document, event, place)
        if not any(_digest(known.get(f"{name}:{key(event, place)}")) == digest for name in names):
            return False
    return True


def _digest(trust: Any) -> Any:
    return trust.get("trusted_hash") if isinstance(trust, dict) else None


def key(event: str, place: Place) -> str:
    """What follows the file's name in the name of the handler's trust: event, group, index."""
    return f"{_snake(event)}:{place[-3]}:{place[-1]}"


def handler_hash(document: Document, event: str, place: Place) -> str:
    """Codex's digest of the handler at ``place``: of its sorted compact JSON and its group's matcher."""
    handler, group = document.get(place), document.get(place[:-2])
    handler_value: dict[str, Any] = handler.plain() if handler else {}
    identity: dict[str, Any] = {
        "event_name": _snake(event),
        "hooks": [{"async": False, "timeout": 600, **handler_value}],
    }
    matcher = group.child("matcher") if group else None
    if matcher is not None and event not in _UNMATCHED:
        identity["matcher"] = matcher.plain()
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _snake(event: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", event).lower()


__all__ = ["handler_hash", "key", "trusted"]
