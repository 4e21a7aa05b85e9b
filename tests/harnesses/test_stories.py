"""Recorded sessions as they are told, from the hooks and from what the harness's files say between them.

``conformance/harness`` shows what each payload becomes by itself; here memory and files have their say.
"""

from __future__ import annotations

from sessionpipe.adapters.fold import State, fold
from sessionpipe.harnesses import Files
from sessionpipe.intake import map_job
from sessionpipe.paths import data_dir
from sessionpipe.spool import Job
from tests.recorded import hooks

#: What of an event's data a story tells.
_TOLD = ("source", "reason", "error", "how", "kind", "trigger", "tool", "ok", "plan")


def story(scenario: str) -> list[str]:
    """What is sent of a recorded scenario, a line an event; a session other than the first is counted."""
    folder = data_dir("conformance") / "harness" / scenario
    files = Files(folder / "files")
    states: dict[str, State] = {}
    told_of: list[str] = []
    lines: list[str] = []
    for hook in hooks(folder):
        job = Job(
            name="1.job",
            harness=hook.harness,
            event=hook.event,
            at_ms=hook.at_ms,
            cwd="/",
            env=hook.env,
            args=hook.args,
            partial=False,
            payload=hook.stdin,
        )
        drafts = map_job(job, files, None).drafts
        if not drafts:
            continue
        session = drafts[0]["session"]["id"]
        states[session], events = fold(states.get(session, {}), drafts)
        if events and session not in told_of:
            told_of.append(session)
        for event in events:
            number = told_of.index(session)
            told = [str(event["data"][name]) for name in _TOLD if name in event["data"]]
            lines.append(" ".join([*([f"#{number}"] if number else []), event["type"], *told]))
    return lines


def test_a_turn_stopped_in_claude_codes_terminal_is_told_at_the_next_hook() -> None:
    assert story("claude-code/tui-interrupt") == [
        "session.started startup",
        "turn.started",
        "turn.ended interrupt",
        "turn.started",
        "tool.started Bash",
        "turn.ended interrupt",
        "turn.started",
        "turn.ended stop",
        "session.ended exit",
    ]


def test_a_headless_run_of_claude_code_against_an_overloaded_api_ends_in_an_error() -> None:
    assert story("claude-code/overloaded") == [
        "session.started startup",
        "turn.started",
        "turn.ended error server_error",
        "session.ended other",
    ]


def test_a_run_of_claude_code_that_used_up_its_turns_ends_in_an_error() -> None:
    assert story("claude-code/max-turns") == [
        "session.started startup",
        "turn.started",
        "tool.started Bash",
        "tool.ended Bash True",
        "turn.ended error max_turns_reached",
        "session.ended other",
    ]


def test_an_error_that_a_hook_told_is_told_once() -> None:
    assert story("claude-code/api-error-429").count("turn.ended error rate_limit") == 1


def test_a_status_lines_limits_are_told_when_they_are_new() -> None:
    assert story("claude-code/limits").count("limits.observed") == 1


def test_a_turn_of_codexs_that_the_api_refused_ends_with_its_session() -> None:
    assert story("codex/api_error_429") == [
        "session.started startup",
        "turn.started",
        "turn.ended error usage_limit_exceeded",
        "limits.observed",
        "session.ended other",
    ]


def test_the_threads_that_codex_keeps_to_itself_are_no_sessions() -> None:
    told = story("codex/tui_nodaemon")
    assert [line for line in told if "session." in line] == [
        "session.started startup",
        "session.started compact",
        "#1 session.started clear",
        "#2 session.started startup",
        "#2 session.ended other",
        "#1 session.ended other",
        "session.ended other",
    ]
    assert [line for line in told if line.startswith("turn.ended")] == [
        "turn.ended stop",
        "turn.ended stop",
        "turn.ended interrupt",
        "turn.ended interrupt",
        "turn.ended stop",
    ]
    assert told.count("limits.observed") == 1
    assert "attention.cleared answered" in told
    assert "attention.cleared cancelled" in told


def test_gemini_clis_terminal_from_a_first_prompt_to_quitting() -> None:
    assert story("gemini-cli/tui") == [
        "session.started startup",
        "turn.started",
        "turn.ended stop",
        "turn.started",
        "tool.started run_shell_command",
        "attention.needed permission run_shell_command",
        "attention.cleared answered",
        "tool.ended run_shell_command True",
        "turn.ended stop",
        "turn.started",
        "tool.started run_shell_command",
        "attention.needed permission run_shell_command",
        "attention.cleared cancelled",
        "turn.ended interrupt",
        "turn.started",
        "turn.ended interrupt",
        "context.compacted manual",
        "turn.started",
        "turn.ended stop",
        "session.ended clear",
        "#1 session.started clear",
        "#1 turn.started",
        "#1 turn.ended stop",
        "#1 session.ended exit",
    ]


def test_what_gemini_cli_compressed_by_itself_is_told_with_its_turn() -> None:
    told = story("gemini-cli/compact_auto")
    assert told[told.index("session.started resume") :] == [
        "session.started resume",
        "turn.started",
        *["tool.started run_shell_command", "tool.ended run_shell_command True"] * 2,
        *["context.compacted auto"] * 2,
        "turn.ended stop",
        "session.ended exit",
    ]


def test_a_run_of_gemini_clis_that_a_signal_stopped_has_no_end_of_its_turn() -> None:
    assert story("gemini-cli/interrupt") == [
        "session.started startup",
        "turn.started",
        "session.ended exit",
    ]
