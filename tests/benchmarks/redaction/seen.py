"""Text as agents see it: files read and commands run on this machine, and what was said in recorded sessions.

Cut into messages as long as a session's. A secret stands in about one of a hundred, as in :mod:`.sessions`.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from sessionpipe.paths import data_dir
from sessionpipe.privacy.rules import load
from tests.benchmarks.redaction.cases import secrets
from tests.benchmarks.redaction.template import seeded

ROOT = Path(__file__).parents[3]
STDLIB = Path(sysconfig.get_path("stdlib"))
#: What agents run, and how much of what each prints is taken.
COMMANDS = (
    ["ls", "-lR", str(STDLIB)],
    ["grep", "-rn", "--include=*.py", "return", str(ROOT / "sessionpipe"), str(ROOT / "tests")],
    ["git", "-C", str(ROOT), "log", "-p", "-50"],
    [sys.executable, "-m", "pip", "list", "--verbose"],
    [sys.executable, "-m", "tokenize", str(STDLIB / "argparse.py")],
    [sys.executable, "-m", "dis", str(STDLIB / "socket.py")],
    [sys.executable, "-X", "importtime", "-c", "import asyncio, email.message, http.server"],
)
PRINTED = 1 << 20
#: Characters of a message, on average; many are short, few are long.
LONG = 1700


def texts() -> list[str]:
    """Messages, in no order of their sources; the same ones in each run on a machine."""
    rng = seeded("seen")
    planted = [case.value for case in secrets() if isinstance(case.value, str)]
    found: list[str] = []
    for whole in (*_read(), *_printed(), *_recorded()):
        found += _messages(whole, rng)
    rng.shuffle(found)
    return [text + "\n" + rng.choice(planted) if rng.random() < 0.01 else text for text in found]


def _read() -> Iterator[str]:
    own = (path for folder in ("sessionpipe", "adapters", "docs") for path in (ROOT / folder).rglob("*.*"))
    for path in sorted((*STDLIB.glob("*.py"), *ROOT.glob("*.md"), *own)):
        if path.suffix in (".py", ".md", ".toml", ".js", ".c"):
            yield path.read_text("utf-8", "replace")[:PRINTED]


def _printed() -> Iterator[str]:
    for command in COMMANDS:
        done = subprocess.run(command, capture_output=True, check=False)
        yield (done.stdout + done.stderr).decode("utf-8", "replace")[:PRINTED]


def _recorded() -> Iterator[str]:
    for path in sorted(data_dir("conformance").rglob("*.jsonl")):
        yield path.read_text("utf-8", "replace")[:PRINTED]


def _messages(whole: str, rng: random.Random) -> Iterator[str]:
    """``whole`` cut at line ends."""
    at = 0
    while at < len(whole):
        end = whole.find("\n", at + int(rng.expovariate(1 / LONG)))
        end = end if end >= 0 else len(whole)
        yield whole[at:end]
        at = end + 1


def names(texts: list[str]) -> float:
    """How many words that the name of a secret may have stand in a thousand characters."""
    stem = re.compile("|".join(map(re.escape, load("secrets@1")["names"]["stems"])), re.IGNORECASE)
    return 1000 * sum(len(stem.findall(text)) for text in texts) / sum(map(len, texts))
