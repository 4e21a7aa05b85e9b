"""Synthetic sessions: messages without a secret, and a corpus with one now and then to time redactors on.

Blocks are written from templates once; messages are drawn from them in the proportions of recorded sessions.
Blocks recur, but no two messages of the corpus are the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tests.benchmarks.redaction.cases import HERE, secrets, strings, table
from tests.benchmarks.redaction.template import WORDS, seeded, written

# Of a session's text, by what it is.
SHARES = {"tool": 60, "file": 15, "json": 10, "prose": 10, "diff": 5}
BLOCKS = 600  # of each sort.


@lru_cache
def blocks() -> dict[str, list[str]]:
    """Written blocks by sort."""
    found: dict[str, list[str]] = {}
    for sort, templates in table(HERE / "sessions.toml").items():
        rng = seeded("blocks", sort)
        found[sort] = []
        for position in range(BLOCKS):
            block = templates[position % len(templates)]
            low, high = block["repeat"]
            parts = [block["head"]] if "head" in block else []
            parts += rng.choices(block["rows"], k=rng.randint(low, high))
            if "tail" in block:
                parts.append(block["tail"])
            found[sort].append("\n".join(written(part, rng).text for part in parts))
    return found


def _message(rng: random.Random, sort: str, most: int) -> str:
    """One message: a few blocks of a sort, long ones being rare."""
    count = 1 if sort in ("json", "prose") else min(most, 1 + int(rng.expovariate(0.5)))
    return "\n".join(rng.choices(blocks()[sort], k=count))


def benign(count: int = 3000) -> list[str]:
    """``count`` messages of agents' sessions in which nothing is secret."""
    rng = seeded("benign")
    return [_message(rng, sort, 4) for sort in rng.choices(list(SHARES), list(SHARES.values()), k=count)]


def corpus(size: int = 20 << 20) -> list[str]:
    """Session messages of ``size`` bytes and a little more, a secret in about one of a hundred."""
    rng = seeded("corpus")
    planted = [case.value for case in secrets() if isinstance(case.value, str)]
    room = dict.fromkeys(SHARES, 0.0)
    texts: list[str] = []
    seen: set[str] = set()
    while size > 0:
        # The sort that is furthest behind its share comes next, so that bytes and not messages keep the shares.
        sort = min(room, key=lambda name: room[name] / SHARES[name])
        text = _message(rng, sort, 12)
        while text in seen:
            text += "\n" + rng.choice(blocks()[sort])
        seen.add(text)
        if rng.random() < 0.01:
            text += "\n" + rng.choice(planted)
        length = len(text.encode())
        room[sort] += length
        size -= length
        texts.append(text)
    rng.shuffle(texts)
    return texts


def events(texts: list[str]) -> Iterator[dict[str, Any]]:
    """``texts`` as what tools were given and what they answered."""
    rng = seeded("events")
    for position, text in enumerate(texts):
        yield {
            "type": "tool.ended",
            "at_ms": 1_767_200_000_000 + position,
            "call_id": f"toolu_01{position:022}",
            "data": {
                "tool": rng.choice(("Bash", "Read", "Edit", "Grep")),
                "input": {"command": f"make {rng.choice(WORDS)}", "description": "Run it", "timeout": 60},
                "output": {"stdout": text, "stderr": "", "interrupted": False},
                "ok": True,
            },
        }


def size(value: Any) -> int:
    """Bytes of all strings of ``value``."""
    return len(strings(value).encode())
