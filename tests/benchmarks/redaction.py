"""``secrets@1`` over session text: tool outputs, prose, code and JSON, a secret now and then."""

from __future__ import annotations

import json
import time

from sessionpipe.paths import data_dir
from sessionpipe.privacy.secrets import redact, redact_value
from tests.benchmarks.measure import show


def corpus() -> list[str]:
    """What went through recorded sessions, repeated to a few megabytes."""
    texts = []
    for path in sorted(data_dir("conformance").glob("harness/*/*/*.json")):
        recorded = json.loads(path.read_bytes())
        texts.append(json.dumps(recorded.get("stdin")))
    for name in ("README.md", "CHANGELOG.md"):
        page = data_dir("adapters").parent / name
        if page.is_file():
            texts.append(page.read_text())
    size = sum(map(len, texts))
    return texts * max(1, (4 << 20) // size)


def run() -> None:
    texts = corpus()
    redact("warm")
    start = time.perf_counter()
    for text in texts:
        redact(text)
    taken = time.perf_counter() - start
    show("secrets-text", sum(len(text.encode()) for text in texts) / taken / 1e6, "MB/s", 20, at_most=False)
    hostile = "password=" * 120_000 + "a" * 1_000_000
    start = time.perf_counter()
    redact(hostile)
    show("secrets-hostile-2MB", (time.perf_counter() - start) * 1000, "ms", 200)
    payload = {
        "tool_input": {"command": "make test"},
        "tool_response": {"stdout": "ok line of output\n" * 110},
    }
    start = time.perf_counter()
    for _ in range(1000):
        redact_value(payload)
    show("secrets-2KB-value", (time.perf_counter() - start) * 1000, "us", 150)
