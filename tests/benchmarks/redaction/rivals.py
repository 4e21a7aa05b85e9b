"""detect-secrets on the same cases, for scale: what it finds and how long it takes, one temporary file a text."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.redaction.cases import strings


def detect_secrets() -> Callable[[Any], str] | None:
    """Replaces what detect-secrets finds in a text or the strings of a value; None when it is not installed.

    It is made to find secrets in files and to name them, not to redact: taking out the values it names is
    the kindest reading of what it does.
    """
    if importlib.util.find_spec("detect_secrets") is None:
        return None
    from detect_secrets import SecretsCollection  # type: ignore[import-not-found]
    from detect_secrets.settings import default_settings  # type: ignore[import-not-found]

    folder = tempfile.TemporaryDirectory(prefix="sessionpipe-benchmark-")

    def redact(value: Any) -> str:
        text = strings(value)
        path = Path(folder.name) / "case.txt"
        path.write_text(text, "utf-8")
        found = SecretsCollection()
        with default_settings():
            found.scan_file(str(path))
        path.unlink()
        for _, secret in found:
            if secret.secret_value:
                text = text.replace(secret.secret_value, "[redacted]")
        return text

    return redact
