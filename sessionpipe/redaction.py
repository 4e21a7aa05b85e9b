"""What is taken out of everything before it is kept: ``secrets@1``, and the person's own rules behind it.

:func:`in_force` is what holds in this process; :func:`refresh` looks whether the person changed it. Own
rules are the files ``rulesets/*.toml`` in the config directory (rulesets/README.md). They can only add:
``secrets@1`` runs whatever they say, and what of them can't be used stops nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe import ownfiles
from sessionpipe.paths import config_dir
from sessionpipe.privacy import secrets
from sessionpipe.privacy.own import Own, Problem, Ruleset, parse

FOLDER = ownfiles.RULESETS

_ROUNDS = 4
# A row's stamp: the revision of secrets@1, and above it what tells the own rules from others.
_REVISION_BITS = 16
#: Session fields that are text of somebody's; the others are ids and words of a closed vocabulary.
FREE_TEXT = ("machine", "cwd", "repo", "branch", "model", "title", "url")


class Redaction:
    """``secrets@1`` with some own rules. Immutable: what one transaction redacts, it redacts by one of these.

    ``rulesets`` are the ids for ``privacy.rulesets`` (protocol §2). ``stamp`` is kept with each stored
    event: a row of another stamp was redacted by other rules.
    """

    def __init__(self, own: Own | None = None) -> None:
        self.own = own if own is not None and own.rulesets else None
        names = dict.fromkeys(ruleset.id for ruleset in self.own.rulesets) if self.own else {}
        self.rulesets: tuple[str, ...] = (secrets.RULESET, *names)
        digest = self.own.digest if self.own else 0
        self.stamp = digest << _REVISION_BITS | secrets.RULESET_VERSION
        #: :meth:`redact` for texts that come again and again.
        self.short = lru_cache(maxsize=2048)(self.redact)

    def is_current(self, stamp: int) -> bool:
        """Whether a row of this stamp needs no second look."""
        return self._has_secrets(stamp) and (
            self.own is None or stamp >> _REVISION_BITS == self.stamp >> _REVISION_BITS
        )

    def _has_secrets(self, stamp: int) -> bool:
        return stamp & (1 << _REVISION_BITS) - 1 >= secrets.RULESET_VERSION

    def redact(self, text: str) -> str:
        """``text`` without what the rules find; the same object when they find nothing."""
        text = secrets.redact(text)
        return text if self.own is None else _settled(text, self.own.redact, secrets.redact)

    def redact_value(self, value: Any) -> Any:
        """``value`` (JSON-like) with all its strings redacted; the same object when nothing changed."""
        value = secrets.redact_value(value)
        return value if self.own is None else _settled(value, self.own.redact_value, secrets.redact_value)

    def redact_fields(self, fields: Any) -> Any:
        """``fields`` with their values redacted, their own names being the protocol's and no text."""
        if self.own is None or not isinstance(fields, dict):
            return self.redact_value(fields)
        own = self.own.redact_value

        def settled(name: str, value: Any) -> Any:
            # Under its name, which is context for the value.
            return _settled(value, own, lambda after: secrets.redact_value({name: after})[name])

        clean = secrets.redact_value(fields)
        changed = {
            name: after for name, value in clean.items() if (after := settled(name, value)) is not value
        }
        return {**clean, **changed} if changed else clean

    def event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """``event`` as these rules leave it; its ``privacy.rulesets`` then names them.

        What a malformed event has in place of an object stays as it is.
        """
        session, harness, privacy = event.get("session"), event.get("harness"), event.get("privacy")
        ran = privacy.get("rulesets") if isinstance(privacy, dict) else None
        ran = ran if isinstance(ran, list) else []
        return {
            **event,
            "harness": self._texts(harness, ("version",)),
            "session": self._texts(session, FREE_TEXT),
            "privacy": {
                **(privacy if isinstance(privacy, dict) else {}),
                "rulesets": [*ran, *(name for name in self.rulesets if name not in ran)],
            },
            "data": self.redact_fields(event.get("data")),
        }

    def _texts(self, block: Any, names: Sequence[str]) -> Any:
        if not isinstance(block, dict):
            return block
        texts = {name: self.short(block[name]) for name in names if isinstance(block.get(name), str)}
        return {**block, **texts}


def _settled(value: Any, own: Callable[[Any], Any], others: Callable[[Any], Any]) -> Any:
    """``value`` when the ``own`` rules find nothing more; the same object when they found nothing."""
    # What went may have hidden something from the other rules; hardly ever, and then once.
    for _ in range(_ROUNDS):
        if (after := own(value)) is value:
            break
        value = others(after)
    return value


#: ``secrets@1`` alone.
PLAIN = Redaction()


class Loaded(NamedTuple):
    """What a folder of own rules came to."""

    redaction: Redaction
    problems: tuple[Problem, ...]


def load(folder: Path) -> Loaded:
    """The rules in ``folder``, and what of them was refused. Never raises."""
    rulesets: list[Ruleset] = []
    problems: list[Problem] = []
    names, reason = ownfiles.names(folder)
    if reason:
        problems.append(Problem(str(folder), "", reason))
    most = ownfiles.MOST_FILES
    if len(names) > most:
        problems.append(Problem(str(folder), "", f"more than {most} files: the rest is not read"))
    for name in names[:most]:
        try:
            parsed = parse(name, ownfiles.text(folder / name))
        except (OSError, ValueError) as error:
            problems.append(Problem(name, "", getattr(error, "strerror", None) or str(error)))
            continue
        problems += parsed.problems
        if parsed.ruleset is None:
            continue
        same = next((known.file for known in rulesets if known.id == parsed.ruleset.id), None)
        if same is not None:
            problems.append(Problem(name, "", f"its id {parsed.ruleset.id} is that of {same} already"))
            continue
        rulesets.append(parsed.ruleset)
    return Loaded(Redaction(Own(rulesets)) if rulesets else PLAIN, tuple(problems))


# --- what holds in this process ------------------------------------------------------------------

_lock = threading.Lock()
_folder: Path | None = None
_seen: object = None
_loaded: Loaded | None = None


def in_force() -> Redaction:
    """What holds now: read on first use, and again by :func:`refresh`."""
    return (_loaded or refresh()).redaction


def problems() -> tuple[Problem, ...]:
    """What of the person's own rules was refused."""
    return (_loaded or refresh()).problems


def refresh(config: Path | None = None) -> Loaded:
    """Read the own rules again where they changed, from ``config`` from now on where given; what then holds."""
    global _folder, _seen, _loaded
    with _lock:
        if config is not None:
            _folder = config / FOLDER
        folder = _folder or config_dir() / FOLDER
        # Taken before the files are read: one that changes meanwhile is read once more.
        seen = (folder, ownfiles.signature(folder))
        if _loaded is None or seen != _seen:
            _loaded, _seen = load(folder), seen
        return _loaded


def redact(text: str) -> str:
    """``text`` without what the rules in force find; the same object when they find nothing."""
    return in_force().redact(text)


def redact_value(value: Any) -> Any:
    """``value`` (JSON-like) as the rules in force leave it; the same object when they find nothing."""
    return in_force().redact_value(value)
