"""The figures: what is found, what is left alone, how fast in time of one core, whatever else it does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from sessionpipe.paths import data_dir
from sessionpipe.privacy import pii, secrets
from tests.benchmarks.measure import show
from tests.benchmarks.redaction import cases, rivals, seen, sessions
from tests.benchmarks.redaction.judge import Recall, Redactor, changed, percent, recall

SECRETS = Redactor(secrets.redact, secrets.redact_value)
PII = Redactor(pii.reduce, pii.reduce)

HOSTILE_MS, TIMES = 200, 3

# 2 MB each: what a careless pattern takes quadratic time or more for.
HOSTILE = {
    "names": "password=" * 120_000 + "a" * 1_000_000,
    "blanks": "password" + " " * 2_000_000,
    "colons": "token:" * 340_000,
    "quotes": '"' * 1_000_000 + "'" * 1_000_000,
    "backslashes": 'secret="' + "\\" * 2_000_000,
    "escaped-quotes": '\\"key\\":' * 250_000,
    "pem-headers": ("-----BEGIN RSA " + "PRIVATE KEY-----\n") * 62_000,
    "pem-dashes": "-----BEGIN " * 180_000,
    "schemes": "a://" * 500_000,
    "userinfo": "https://a:" * 200_000,
    "at-signs": "https://" + "a@" * 1_000_000,
    "jwt-parts": "eyJ" + "a." * 1_000_000,
    "long-token": "ghp_" + "a" * 2_000_000,
    "prefixes": "sk-" * 660_000,
    "base64": "AbC4" * 500_000,
    "hex": "0123456789abcdef" * 125_000,
    "digits": "0123456789 " * 180_000,
    "colours": "\x1b[31m" * 400_000,
    "colours-in-token": "ghp_" + "a\x1b[0m" * 400_000,
    "line-breaks": "a\n" * 1_000_000,
    "short-lines": "key:\n" * 400_000,
    "kinds": "kind: Secret\ndata:\n" * 100_000,
    "cookies": "Cookie: a=b; " * 150_000,
    "flags": " -p" * 660_000,
    "brackets": "{[(" * 660_000,
    "percent": "%5B%22" * 330_000,
    "heads": "user,token\n" * 180_000,
    "rows": ("user,token\n" + "a1,b2\n" * 50) * 6_400,
}


def of_secrets() -> tuple[Recall, list[tuple[cases.Stay, str]]]:
    return recall(SECRETS, cases.secrets()), changed(SECRETS, cases.stays())


def of_pii() -> tuple[Recall, list[tuple[cases.Stay, str]], int]:
    planted, stays = cases.personal()
    return recall(PII, planted), changed(PII, stays), len(stays)


def throughput(redact: Callable[[Any], Any], values: Iterable[Any]) -> float:
    """Megabytes of strings a second, one at a time as they come; the best of a few times."""
    values = list(values)
    size = sum(map(sessions.size, values))
    times = []
    for _ in range(TIMES):
        start = time.process_time()
        for value in values:
            redact(value)
        times.append(time.process_time() - start)
    return size / min(times) / 1e6


def recorded() -> list[str]:
    """What went through recorded sessions, a few times over."""
    texts = []
    for path in sorted(data_dir("conformance").glob("harness/*/*/*.json")):
        texts.append(json.dumps(json.loads(path.read_bytes()).get("stdin")))
    return texts * max(1, (4 << 20) // sum(map(len, texts)))


def _milliseconds(redact: Callable[[Any], Any], value: Any) -> float:
    start = time.process_time()
    redact(value)
    return (time.process_time() - start) * 1000


def hostile(redact: Callable[[str], Any], text: str) -> float:
    """Milliseconds for ``text``, or for the part of it that was over the budget already."""
    for part in (64, 8, 1):
        took = _milliseconds(redact, text[: len(text) // part])
        if took > HOSTILE_MS:
            break
    return took


def run() -> None:
    """Print every figure against its budget."""
    SECRETS("warm")
    found, altered = of_secrets()
    stays = list(cases.stays())
    show("secrets-removed", found.removed, f"% of {found.total.total()}", 95, at_most=False)
    show("secrets-around-kept", found.around, f"% of {found.total.total()}", 99, at_most=False)
    show(
        "secrets-texts-kept",
        percent(len(stays) - len(altered), len(stays)),
        f"% of {len(stays)}",
        99,
        at_most=False,
    )
    messages = sessions.benign()
    show("secrets-benign-changed", sum(SECRETS(text) != text for text in messages), f"of {len(messages)}", 0)

    texts, dense = seen.texts(), sessions.corpus()
    show("secrets-text-names", seen.names(texts), "a KB", 0.5, at_most=False)
    for sort, corpus, budgets in (("", texts, (20, 20)), ("dense-", dense, (10, 8))):
        text, event = budgets
        show(f"secrets-{sort}text", throughput(secrets.redact, corpus), "MB/s", text, at_most=False)
        events = list(sessions.events(corpus))
        show(f"secrets-{sort}events", throughput(secrets.redact_value, events), "MB/s", event, at_most=False)
    show("secrets-recorded", throughput(secrets.redact, recorded()), "MB/s", 20, at_most=False)
    payload = {
        "tool_input": {"command": "make test"},
        "tool_response": {"stdout": "ok line of output\n" * 110},
    }
    show("secrets-2KB-value", _milliseconds(lambda n: [SECRETS(payload) for _ in range(n)], 1000), "us", 150)
    took = {name: hostile(secrets.redact, text) for name, text in HOSTILE.items()}
    worst = max(took, key=took.__getitem__)
    show("secrets-hostile-2MB", took[worst], f"ms ({worst})", HOSTILE_MS)

    personal, altered, total = of_pii()
    show("pii-removed", personal.removed, f"% of {personal.total.total()}", 95, at_most=False)
    show("pii-around-kept", personal.around, f"% of {personal.total.total()}", 99, at_most=False)
    show("pii-texts-kept", percent(total - len(altered), total), f"% of {total}", 99, at_most=False)
    show("pii-text", throughput(pii.reduce, texts), "MB/s", 20, at_most=False)
    show("pii-dense-text", throughput(pii.reduce, dense), "MB/s", 20, at_most=False)
    beside(found.total.total(), dense)


def beside(total: int, corpus: list[str]) -> None:
    """The same figures of detect-secrets, which finds secrets in files and redacts nothing."""
    rival = rivals.detect_secrets()
    if rival is None:
        print("detect-secrets skipped: not installed (pip install -e '.[bench]')", flush=True)
        return
    found = recall(rival, cases.secrets())
    stays = list(cases.stays())
    altered = sum(rival(stay.value) != cases.strings(stay.value) for stay in stays)
    messages = sessions.benign(300)
    part = corpus[: len(corpus) // 200]
    megabytes = sum(map(sessions.size, part)) / 1e6
    for line in (
        f"removed {found.removed:.2f} % of {total}",
        f"texts-kept {percent(len(stays) - altered, len(stays)):.2f} % of {len(stays)}",
        f"benign-changed {sum(rival(text) != text for text in messages)} of {len(messages)}",
        f"text {throughput(rival, part):.2f} MB/s on {megabytes:.2f} MB of the corpus, a file a message",
    ):
        print(f"detect-secrets-{line}", flush=True)
