"""Private keys in blocks go whole, however they were pasted; public ones and talk about them stay."""

from __future__ import annotations

import json

import pytest

from sessionpipe.privacy.secrets import redact
from tests.privacy.recipes import generated

BODY = "\n".join(generated(64) for _ in range(4))
KINDS = ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "]


def block(kind: str = "", body: str = BODY, word: str = "PRIVATE") -> str:
    return f"-----BEGIN {kind}{word} KEY-----\n{body}\n-----END {kind}{word} KEY-----"


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_goes_from_its_beginning_to_its_end(kind: str) -> None:
    assert redact(f"a\n{block(kind)}\nb") == "a\n[redacted]\nb"


def test_escaped_quoted_or_indented_it_goes_too() -> None:
    text = json.dumps({"key": block()})
    assert json.loads(redact(text)) == {"key": "[redacted]"}
    indented = "\n".join("    " + line for line in block().split("\n"))
    assert generated(64) not in redact(indented)


def test_a_block_that_was_cut_goes_as_far_as_it_is_there() -> None:
    cut = block()[:150]
    assert redact(f"key: {cut}") == "key: [redacted]"


@pytest.mark.parametrize(
    "text", [block(word="PUBLIC"), "it begins with -----BEGIN " + "PRIVATE KEY----- and then", "-----BEGIN "]
)
def test_what_is_no_private_key_stays(text: str) -> None:
    assert redact(text) is text
