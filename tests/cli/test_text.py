"""``filter`` and ``redact`` as a person pipes things through them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sessionpipe.cli import cli
from tests.schema import assert_valid

TOKEN = "ghp_" + "aB3dE6" * 6
EVENT: dict[str, Any] = {
    "protocol": 1,
    "id": "01K6ABCXYZ0123456789ABCDEF",
    "type": "tool.ended",
    "time": "2026-09-28T01:03:11.204Z",
    "tier": 3,
    "harness": {"name": "claude-code"},
    "session": {"id": "one", "seq": 1, "machine": "desk", "cwd": "~/src"},
    "privacy": {"rulesets": ["secrets@1"], "pii": False},
    "data": {"tool": "Bash", "ok": True, "input": {"command": "mail jane@example.com"}},
}


def sessionpipe(*args: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    """The command, in this process."""
    done = CliRunner().invoke(cli, args, input=stdin)
    return subprocess.CompletedProcess(args, done.exit_code, done.stdout_bytes, done.stderr_bytes)


def piped(*args: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    """The command, in a pipe."""
    command = [sys.executable, "-m", "sessionpipe", *args]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)


def filtered(*args: str, events: list[Any]) -> list[dict[str, Any]]:
    done = sessionpipe(
        "filter", *args, stdin=b"".join(json.dumps(event).encode() + b"\n" for event in events)
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_filter_prints_what_a_sink_of_the_tier_gets() -> None:
    (event,) = filtered("--tier", "1", events=[EVENT])
    assert_valid(event)
    assert event == {**EVENT, "tier": 1, "data": {"tool": "Bash", "ok": True}}


def test_filter_leaves_out_what_is_above_the_tier_or_nobodys() -> None:
    assert filtered("--tier", "0", events=[EVENT, {**EVENT, "type": "native"}]) == []


def test_filter_reduces_persons_where_asked() -> None:
    (event,) = filtered("--tier", "3", "--pii", events=[EVENT])
    assert event["data"]["input"] == {"command": "mail [email]"}
    assert event["privacy"] == {"rulesets": ["secrets@1", "pii@1"], "pii": True}
    assert len(event["session"]["machine"]) == 8


def test_filter_does_not_take_an_event_s_word_for_it_that_it_was_redacted() -> None:
    data = {"tool": "Bash", "ok": True, "input": {"command": f"echo {TOKEN}"}}
    (event,) = filtered("--tier", "3", events=[{**EVENT, "data": data}])
    assert event["data"]["input"] == {"command": "echo [redacted]"}


def test_a_line_that_is_no_event_is_named_and_holds_up_nobody() -> None:
    good = json.dumps(EVENT).encode()
    bad = {
        b"{not json": "JSON is malformed",
        b"[1]": "not a JSON object",
        b'{"a":1}': "it has no type",
        b"\xff\xfe": "",
        b"[" * 100_000: "nested too deeply",
    }
    done = piped("filter", "--tier", "3", stdin=b"\n".join([good, *bad, b"", good]))
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    said = done.stderr.decode().splitlines()
    assert len(said) == len(bad)
    for number, (line, why) in enumerate(zip(said, bad.values(), strict=True), 2):
        assert f"line {number} is not an event: {why}" in line


@pytest.mark.parametrize(
    "args", [("filter",), ("filter", "--tier", "4"), ("filter", "--tier", "x"), ("redact", "x")]
)
def test_a_wrong_call_is_usage(args: tuple[str, ...]) -> None:
    assert sessionpipe(*args, stdin=b"").returncode == 2


def test_redact_takes_credentials_out_and_leaves_the_rest_byte_for_byte() -> None:
    text = b"caf\xe9 \xff\r\nDB_PASSWORD=" + TOKEN.encode() + b"\r\n\0 \xf0\x9f\x90\x91 no line end"
    done = piped("redact", stdin=text)
    assert done.returncode == 0
    assert done.stdout == text.replace(TOKEN.encode(), b"[redacted]")


def test_redact_sees_a_key_that_goes_over_lines() -> None:
    body = "\n".join(["Ab3" * 21] * 8)
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    assert sessionpipe("redact", stdin=f"a\n{key}\nb\n".encode()).stdout == b"a\n[redacted]\nb\n"


def test_redact_reduces_persons_where_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/data/people/jane")
    text = b"/data/people/jane/x of /home/ann, jane@example.com"
    assert sessionpipe("redact", stdin=text).stdout == text
    assert sessionpipe("redact", "--pii", stdin=text).stdout == b"~/x of ~, [email]"


@pytest.mark.parametrize("command", ["filter", "redact"])
def test_help_shows_an_example(command: str) -> None:
    done = sessionpipe(command, "--help", stdin=b"")
    assert done.returncode == 0
    assert b"Example:" in done.stdout
