"""Whether Codex will run our hooks: it skips those the person has not looked at in ``/hooks``.

Codex writes a digest of each handler it was told to trust into its ``config.toml``; here the same
digest is made and compared. Trust itself is the person's to give, so nothing is ever written there.
"""

from __future__ import annotations

import json
import re
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

from sessionpipe.install.entries import places
from sessionpipe.install.jsonedit import Document
from sessionpipe.install.targets import Target

#: Events whose groups have no matcher in the digest.
_UNMATCHED = {"UserPromptSubmit", "Stop", "Interrupt", "PreModelRequest", "PostModelRequest"}


def trusted(hooks: Path, text: str, target: Target) -> bool:
    """Whether every entry of ours in ``hooks`` (whose text is ``text``) has been trusted."""
    try:
        config = tomllib.loads((hooks.parent / "config.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    known = config.get("hooks", {})
    known = known.get("state", {}) if isinstance(known, dict) else {}
    document = Document(text)
    for event, place in places(document, target):
        group, index = place[len(target.at) + 1], place[-1]
        trust = known.get(f"{hooks}:{_snake(event)}:{group}:{index}") if isinstance(known, dict) else None
        if not isinstance(trust, dict) or trust.get("trusted_hash") != handler_hash(document, event, place):
            return False
    return True


def handler_hash(document: Document, event: str, place: tuple[str | int, ...]) -> str:
    """Codex's digest of the handler at ``place``: of its sorted compact JSON and its group's matcher."""
    handler, group = document.get(place), document.get(place[:-2])
    handler_value: dict[str, Any] = handler.plain() if handler else {}
    identity: dict[str, Any] = {
        "event_name": _snake(event),
        "hooks": [{"async": False, "timeout": 600, **handler_value}],
    }
    if event not in _UNMATCHED:
        identity["matcher"] = group.plain().get("matcher", "") if group and group.kind == "object" else ""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _snake(event: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", event).lower()


__all__ = ["handler_hash", "trusted"]
