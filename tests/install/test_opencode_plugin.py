"""OpenCode's plugin in a bare node: what it posts for recorded events, and that nothing can make it a nuisance."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.adapters.registry import table
from sessionpipe.paths import data_dir
from tests.e2e.agents import node
from tests.e2e.machine import wait_for

PLAYER = Path(__file__).with_name("opencode_player.mjs")
RECORDED = data_dir("conformance") / "extension" / "opencode"
POSTED = data_dir("conformance") / "harness" / "opencode"
SESSION = "ses_1"
AT = 1_795_977_000_000


class Stage:
    """The plugin with a launcher that writes down how it was called."""

    def __init__(self, root: Path, launcher: str = '{ printf "%s " "$@"; cat; echo; } >> "$0.calls"') -> None:
        self.root = root
        self.launcher = root / "state" / "bin" / "sessionpipe-hook"
        self.launcher.parent.mkdir(parents=True)
        self.launcher.write_text(f"#!/bin/sh\n{launcher}\n")
        self.launcher.chmod(0o700)
        source = (data_dir("adapters") / "opencode" / "plugin.js").read_text("utf-8")
        self.plugin = root / "plugin.mjs"
        self.plugin.write_text(source.replace('"@LAUNCHER@"', json.dumps(str(self.launcher))))

    def play(self, recording: Path, *how: str, **env: str) -> dict[str, Any]:
        done = subprocess.run(
            [node(18), PLAYER, self.plugin, recording, *how],
            env={**os.environ, **env},
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        told: dict[str, Any] = json.loads(done.stdout or "{}")
        return told

    def play_lines(self, lines: list[dict[str, Any]], *how: str, **env: str) -> list[dict[str, Any]]:
        """What is posted for these; that OpenCode was given nothing back is checked."""
        recording = self.root / "recording.ndjson"
        recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
        told = self.play(recording, *how, **env)
        assert set(told.get("answers", ())) <= {"undefined"}
        return self.calls()

    def calls(self) -> list[dict[str, Any]]:
        """The payloads posted, in order; each call's words are checked against its payload."""
        path = Path(f"{self.launcher}.calls")
        posted = []
        for line in filter(None, path.read_text("utf-8").split("\n")) if path.exists() else ():
            harness, event, payload = line.split(" ", 2)
            posted.append(json.loads(payload))
            assert (harness, event) == ("opencode", posted[-1]["event"])
        return posted


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


clock = iter(range(AT, AT + 1_000_000))


def event(name: str, **properties: Any) -> dict[str, Any]:
    happened = {"type": name, "properties": {"sessionID": SESSION, **properties}}
    return {"at_ms": next(clock), "stdin": {"hook": "event", "input": {"event": happened}}}


def created(**info: Any) -> dict[str, Any]:
    return event("session.created", info={"id": SESSION, "directory": "/src", "version": "1.18.33", **info})


def prompt(turn: str, text: str = "Do it", *, parts: Any = None, session: str = SESSION) -> dict[str, Any]:
    message = {"id": turn, "agent": "build", "model": {"modelID": "m-1", "providerID": "p"}}
    output = {"message": message, "parts": [{"type": "text", "text": text}] if parts is None else parts}
    stdin = {"hook": "chat.message", "input": {"sessionID": session}, "output": output}
    return {"at_ms": next(clock), "stdin": stdin}


def answer(name: str, to: str, **info: Any) -> dict[str, Any]:
    said = {"id": name, "role": "assistant", "parentID": to, "sessionID": SESSION, "modelID": "m-1", **info}
    return event("message.updated", info=said)


def call(call_id: str, status: str, tool: str = "bash", **state: Any) -> dict[str, Any]:
    line = event("message.part.updated")
    at = line["at_ms"]
    time = {"start": at} if status in ("running", "pending") else {"start": at, "end": at}
    whole = {"status": status, "time": time, "input": {}, **state}
    part = {
        "type": "tool",
        "id": f"prt_{call_id}",
        "sessionID": SESSION,
        "callID": call_id,
        "tool": tool,
        "state": whole,
    }
    line["stdin"]["input"]["event"]["properties"]["part"] = part
    return line


def idle() -> dict[str, Any]:
    return event("session.idle")


def aborted() -> dict[str, Any]:
    return event("session.error", error={"name": "MessageAbortedError", "data": {"message": "Aborted"}})


def gist(calls: list[dict[str, Any]]) -> list[str]:
    """Each call's event, turn, and what of its call it tells."""
    words = []
    for posted in calls:
        part = posted.get("part", {})
        said = (posted["event"], posted.get("turn", ""), part.get("callID", ""), part.get("status", ""))
        words.append(" ".join(filter(None, said)))
    return words


@pytest.mark.parametrize("scenario", sorted(path.stem for path in RECORDED.glob("*.ndjson")))
def test_what_is_posted_for_a_recorded_session_is_what_the_adapter_is_tested_with(
    stage: Stage, scenario: str
) -> None:
    told = stage.play(RECORDED / f"{scenario}.ndjson")
    assert told["answers"] == ["undefined"]
    expected = [json.loads(path.read_text())["stdin"] for path in sorted((POSTED / scenario).glob("*.json"))]
    assert stage.calls() == expected


def test_every_recorded_turn_is_told_with_its_end(stage: Stage, shared: Path) -> None:
    lines: list[dict[str, Any]] = []
    for folder in sorted((shared / "recordings" / "opencode").iterdir()):
        # Ended by a signal, OpenCode says nothing more.
        if folder.name != "interrupt-stream":
            lines += [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
            lines.append({"at_ms": lines[-1]["at_ms"] + 1, "stdin": {"hook": "dispose"}})
    calls = stage.play_lines(lines)
    told = {
        name: {one["turn"] for one in calls if one["event"] == name}
        for name in ("chat.message", "session.idle")
    }
    assert told["chat.message"] == told["session.idle"]
    assert len(told["chat.message"]) > 25
    assert {posted["event"] for posted in calls} <= set(table("opencode")["events"])


def test_it_has_no_hook_that_could_change_what_opencode_does(stage: Stage) -> None:
    assert stage.play(RECORDED / "api-error-429.ndjson")["hooks"] == ["chat.message", "dispose", "event"]


# --- turns ----------------------------------------------------------------------------------------


def test_a_session_nobody_saw_being_made_goes_on(stage: Stage) -> None:
    first, _, second, _ = stage.play_lines([prompt("a"), idle(), prompt("b"), idle()])
    assert (first["resumed"], "resumed" in second) == (True, False)


def test_a_turn_ends_once_however_often_it_is_said(stage: Stage) -> None:
    lines = [prompt("a"), aborted(), idle(), idle(), aborted(), idle()]
    assert gist(stage.play_lines(lines)) == ["chat.message a", "session.idle a"]


def status(kind: str) -> dict[str, Any]:
    return event("session.status", status={"type": kind})


@pytest.mark.parametrize("then", [[idle()], [prompt("b")], []])
def test_either_of_two_events_ends_a_turn(stage: Stage, then: list[dict[str, Any]]) -> None:
    ended = status("idle")
    calls = stage.play_lines([prompt("a"), status("busy"), status("retry"), ended, *then, status("idle")])
    assert gist(calls)[1] == "session.idle a"
    assert calls[1]["t"] == ended["at_ms"]


def test_an_aborted_call_ends_before_its_turn(stage: Stage) -> None:
    lines = [prompt("a"), call("1", "running"), aborted(), stopped := idle()]
    lines += [call("1", "completed", metadata={"exit": None}), idle(), prompt("b")]
    calls = stage.play_lines(lines)
    told = ["message.part.updated a 1 running", "message.part.updated a 1 completed", "session.idle a"]
    assert gist(calls) == ["chat.message a", *told, "chat.message b"]
    assert calls[3]["t"] == stopped["at_ms"]


@pytest.mark.parametrize("then", [[prompt("b")], [], [event("session.deleted", info={"id": SESSION})]])
def test_a_call_that_never_ends_does_not_keep_its_turn_from_ending(
    stage: Stage, then: list[dict[str, Any]]
) -> None:
    calls = stage.play_lines([prompt("a"), call("1", "running"), aborted(), idle(), *then])
    assert gist(calls)[2] == "session.idle a"
    assert calls[2]["error"] == {"name": "MessageAbortedError"}


def test_an_error_of_another_turn_is_not_this_one_s(stage: Stage) -> None:
    calls = stage.play_lines([aborted(), prompt("a"), aborted(), idle(), aborted(), prompt("b"), idle()])
    assert ["error" in posted for posted in calls] == [False, True, False, False]


def test_a_prompt_typed_meanwhile_is_a_turn_when_it_is_answered(stage: Stage) -> None:
    lines = [
        prompt("a"),
        answer("1", "a"),
        queued := prompt("b"),
        call("x", "running"),
        call("x", "completed"),
    ]
    lines += [answer("2", "b"), call("y", "running"), call("y", "completed"), idle()]
    calls = stage.play_lines(lines)
    assert [posted["turn"] for posted in calls] == ["a", "a", "a", "b", "b", "b", "b"]
    assert (calls[3]["event"], calls[3]["t"]) == ("chat.message", queued["at_ms"])
    assert calls[-1]["last"] == "2"


def test_prompts_nobody_answered_are_told_before_the_end(stage: Stage) -> None:
    calls = stage.play_lines([prompt("a"), prompt("b"), prompt("c"), aborted(), idle()])
    assert gist(calls) == ["chat.message a", "chat.message b", "chat.message c", "session.idle c"]


@pytest.mark.parametrize(
    ("parts", "chars", "injected"),
    [
        ([{"type": "text", "text": "a\U0001f600"}, {"type": "text", "text": "b"}], 4, None),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "read it", "synthetic": True}], 3, None),
        ([{"type": "text", "text": "go on", "synthetic": True}], 0, True),
        ([{"type": "file", "url": "x"}], 0, None),
        ([{"type": "text", "text": 7}, {"type": "text"}], 0, None),
    ],
)
def test_what_a_person_typed_is_counted(stage: Stage, parts: Any, chars: int, injected: bool | None) -> None:
    (told,) = stage.play_lines([created(), prompt("a", parts=parts)])[1:]
    assert (told["prompt_chars"], told.get("injected")) == (chars, injected)


def test_what_starts_a_subagent_is_nobody_s_words(stage: Stage) -> None:
    made, told = stage.play_lines([created(parentID="ses_0"), prompt("a")])
    assert (made["session"]["parentID"], told["injected"]) == ("ses_0", True)


def test_what_finds_a_title_is_no_turn(stage: Stage) -> None:
    line = prompt("a")
    line["stdin"]["output"]["message"]["agent"] = "title"
    assert stage.play_lines([created(), line])[1:] == []


def test_the_last_answer_is_none_of_a_compaction_s(stage: Stage) -> None:
    summary = answer("2", "c", mode="compaction", summary=True, modelID="small")
    calls = stage.play_lines([prompt("a"), answer("1", "a"), summary, idle()])
    assert (calls[-1]["last"], calls[-1]["session"]["model"]) == ("1", "m-1")


@pytest.mark.parametrize(
    ("title", "told"),
    [
        ("New session - 2026-11-29T18:41:13.597Z", None),
        ("Child session - 2026-11-29T18:41:13.597Z", None),
        ("New session - about time", "New session - about time"),
        (7, None),
    ],
)
def test_a_session_without_a_title_has_none(stage: Stage, title: Any, told: str | None) -> None:
    (made,) = stage.play_lines([created(title=title)])
    assert made["session"].get("title") == told


def test_the_latest_title_is_told(stage: Stage) -> None:
    renamed = event("session.updated", info={"id": SESSION, "title": "Second"})
    calls = stage.play_lines([created(title="First"), renamed, prompt("a")])
    assert [posted["session"]["title"] for posted in calls] == ["First", "Second"]


@pytest.mark.parametrize(
    ("argv", "attended"),
    [
        (["bun", "/$bunfs/root/src/index.js", "run", "Say hello"], False),
        (["bun", "/$bunfs/root/src/index.js", "--print-logs", "run", "serve"], False),
        (["bun", "/$bunfs/root/src/index.js", "serve", "--port", "1"], None),
        (["bun", "/$bunfs/root/src/cli/tui/worker.js"], True),
        (["bun", "/$bunfs/root/src/index.js"], None),
    ],
)
def test_whether_a_person_attends(stage: Stage, argv: list[str], attended: bool | None) -> None:
    (made,) = stage.play_lines([{**created(), "argv": argv}])
    assert made.get("attended") == attended


def test_a_session_that_goes_on_is_in_the_folder_of_its_opencode(stage: Stage) -> None:
    first, *_, second = stage.play_lines([prompt("a"), idle(), created(), prompt("b")])
    assert (first["session"]["directory"], second["session"]["directory"]) == ("/home/dev/src", "/src")


@pytest.mark.parametrize(
    ("named", "told"), [("/elsewhere/x.db", "/elsewhere/x.db"), ("x.db", "/data/opencode/x.db"), ("", "")]
)
def test_where_another_store_is_named_it_is_told(stage: Stage, named: str, told: str) -> None:
    (made,) = stage.play_lines([created()], OPENCODE_DB=named, XDG_DATA_HOME="/data")
    assert made["store"] == told


# --- calls ----------------------------------------------------------------------------------------


def test_a_call_starts_once_and_ends_once(stage: Stage) -> None:
    states = ["pending", "running", "running", "completed", "completed", "running"]
    calls = stage.play_lines([prompt("a"), *[call("1", status) for status in states], idle()])
    assert gist(calls)[1:-1] == ["message.part.updated a 1 running", "message.part.updated a 1 completed"]


def test_two_calls_may_go_by_one_id(stage: Stage) -> None:
    first, second = (call("1", "running") for _ in range(2))
    second["stdin"]["input"]["event"]["properties"]["part"]["id"] = "prt_other"
    lines = [prompt("a"), first, second]
    for line in lines[1:]:
        line["stdin"]["input"]["event"]["properties"]["part"]["state"]["time"]["start"] = AT * 2
    assert gist(stage.play_lines(lines))[1:] == ["message.part.updated a 1 running"] * 2


def test_a_subagent_is_told_when_it_is_made(stage: Stage) -> None:
    sub = {"metadata": {"sessionId": "ses_2"}, "input": {"subagent_type": "general"}}
    lines = [prompt("a"), call("1", "running", "task")]
    lines += [call("1", status, "task", **sub) for status in ("running", "running", "completed")]
    calls = stage.play_lines(lines)[1:]
    assert [(posted["part"].get("agent"), posted["part"].get("again")) for posted in calls] == [
        (None, None),
        ({"id": "ses_2", "type": "general"}, True),
        ({"id": "ses_2", "type": "general"}, None),
    ]


@pytest.mark.parametrize(
    "old",
    [
        call("1", "completed", time={"start": 1, "end": 2}),
        call("1", "completed", time={"start": AT * 2, "end": AT * 2, "compacted": AT * 2}),
    ],
    ids=["copied by a fork", "its output dropped"],
)
def test_what_is_said_again_of_an_old_call_is_not_told(stage: Stage, old: dict[str, Any]) -> None:
    assert gist(stage.play_lines([old, prompt("a"), old])) == ["chat.message a"]


def test_a_command_the_person_ran_is_no_call(stage: Stage) -> None:
    assert stage.play_lines([created(), call("1", "running"), call("1", "completed"), idle()])[1:] == []


@pytest.mark.parametrize(
    ("tool", "status", "state", "error"),
    [
        ("bash", "completed", {"metadata": {"exit": 0}}, None),
        ("bash", "completed", {"metadata": {"exit": 3}, "output": "bad"}, "exit code 3"),
        (
            "bash",
            "completed",
            {"metadata": {"exit": None}, "output": "x\n<shell_metadata>\ntoo long\n</shell_metadata>"},
            "too long",
        ),
        ("bash", "completed", {"metadata": {"exit": None}, "output": 7}, "ended without an exit code"),
        ("read", "completed", {"metadata": "odd"}, None),
        ("read", "error", {"error": "File not found"}, "File not found"),
        ("read", "error", {"error": None}, "error"),
        ("invalid", "completed", {"input": {"error": "no such tool"}}, "no such tool"),
        ("invalid", "completed", {"input": None}, "invalid"),
    ],
)
def test_whether_a_call_went_well(
    stage: Stage, tool: str, status: str, state: dict[str, Any], error: str | None
) -> None:
    calls = stage.play_lines([prompt("a"), call("1", "running", tool), call("1", status, tool, **state)])
    assert calls[-1]["part"].get("error") == error


# --- never a nuisance -----------------------------------------------------------------------------

ODD: list[Any] = [None, 7, "x", [], {}, {"id": None}, {"type": "tool", "state": None}, [[[]]] * 50]


def test_events_of_any_shape_are_survived(stage: Stage) -> None:
    names = [*table("opencode")["events"], "session.updated", "session.error", "message.updated", "toString"]
    lines = [prompt("a")]
    for odd in ODD:
        for name in names:
            lines.append({"stdin": {"hook": "event", "input": {"event": {"type": name, "properties": odd}}}})
            fields = {
                key: odd for key in ("info", "part", "error", "tool", "questions", "patterns", "metadata")
            }
            lines.append(event(name, **fields))
        lines.append({"stdin": {"hook": "chat.message", "input": odd, "output": odd}})
        lines.append({"stdin": {"hook": "event", "input": odd}})
    stage.play_lines(lines)


@pytest.mark.parametrize(
    "given",
    [
        {"content": "y" * 2_000_000, "__proto__": {"a": 1}},
        {str(n): "z" * 900 for n in range(9000)},
        {"deep": [[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]] * 3000},
    ],
    ids=["long", "wide", "deep"],
)
def test_any_call_is_posted_in_bounded_size(stage: Stage, given: dict[str, Any]) -> None:
    calls = stage.play_lines(
        [prompt("a"), call("1", "running", input=given), call("1", "completed", input=given)]
    )
    assert len(calls) == 3
    assert all(len(json.dumps(posted)) < 700_000 for posted in calls)


@pytest.mark.parametrize(
    "launcher",
    ["exit 1", "kill -9 $$", "exec <&-; exit 0", "head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2"],
    ids=["fails", "dies", "reads nothing", "is noisy"],
)
def test_a_broken_launcher_is_never_noticed(tmp_path: Path, launcher: str) -> None:
    stage = Stage(tmp_path, launcher)
    stage.play_lines([prompt("a"), *[call(str(n), "running", input={"c": "y" * 60_000}) for n in range(3)]])


def test_a_launcher_that_hangs_does_not_keep_opencode_from_leaving(tmp_path: Path) -> None:
    stage = Stage(tmp_path, 'echo $$ >> "$0.pids"; exec sleep 600')
    try:
        # The player would run into its own time limit long before the launcher ends.
        stage.play_lines([prompt("a"), call("1", "running"), idle()], "dispose")
    finally:
        for pid in Path(f"{stage.launcher}.pids").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("gone", ["the launcher", "the state directory"])
def test_what_was_taken_away_is_never_noticed(stage: Stage, gone: str) -> None:
    stage.launcher.unlink()
    if gone == "the state directory":
        stage.launcher.parent.rmdir()
        stage.launcher.parent.parent.rmdir()
    assert stage.play_lines([prompt("a"), idle()]) == []


@pytest.mark.parametrize("size", [10, 3_000_000], ids=["small", "large"])
def test_what_waits_when_the_process_ends_is_still_posted_in_order(tmp_path: Path, size: int) -> None:
    slow = Stage(tmp_path, 'sleep 0.1; { printf "%s " "$@"; cat; echo; } >> "$0.calls"')
    texts = {str(n): "x" * 60_000 for n in range(1 + size // 60_000)}
    slow.play_lines([prompt("a"), *[call(str(n), "running", input=texts) for n in range(4)], idle()], "exit")
    told = ["chat.message a", *[f"message.part.updated a {n} running" for n in range(4)], "session.idle a"]
    wait_for(lambda: len(slow.calls()) == 6, "the last events")
    assert gist(slow.calls()) == told


def test_nothing_is_left_beside_the_launcher(stage: Stage) -> None:
    stage.play_lines([prompt("a"), idle()])
    assert [path.name for path in stage.launcher.parent.parent.iterdir()] == ["bin"]
