"""The registry of what is known of harnesses beyond their tables."""

from __future__ import annotations

import pytest

from sessionpipe.harnesses import Context, Files, Reading, Want, get

CONTEXT = Context(env={}, cwd="/", at_ms=0, home=None)


@pytest.mark.parametrize("name", ["", "nobody", "../claude_code", "claude_code", "git", "files"])
def test_a_harness_without_a_module_knows_nothing_and_changes_nothing(name: str) -> None:
    harness, drafts = get(name), [{"type": "turn.ended"}]
    assert harness.facts(drafts[0], CONTEXT, Files()) == {}
    assert harness.amend(drafts, CONTEXT, Files()) is drafts
    assert harness.exchanges("/x", {"c": 1}, Want(None, False, None, 0), Files()) == Reading(
        [], {"c": 1}, True
    )


def test_a_harness_with_a_module_is_what_the_module_defines() -> None:
    from sessionpipe.harnesses import claude_code, codex, pi

    assert get("claude-code").facts is claude_code.facts
    assert get("claude-code").exchanges is claude_code.exchanges
    assert (get("codex").facts, get("codex").amend) == (codex.facts, codex.amend)
    assert (get("pi").facts, get("pi").amend, get("pi").exchanges) == (pi.facts, pi.amend, pi.exchanges)
