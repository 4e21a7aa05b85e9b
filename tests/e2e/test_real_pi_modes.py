"""The real Pi in every mode: people and programs see what they see without us, and all of it is told."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from typing import Any, Self

from tests.e2e import agents
from tests.e2e.machine import wait_for
from tests.e2e.model import Held, Turn
from tests.e2e.real_pi import Pi, Terminal, pi, script
from tests.patience import PATIENCE_S

__all__ = ["pi", "script"]

# Asks the person when a command is typed, as an extension that guards a tool does.
ASKS = """
export default (pi) => pi.registerCommand("ask", {
  description: "asks",
  handler: async (_args, ctx) => { await ctx.ui.confirm("Proceed?", "Really?"); },
});
"""


# --- a stream that others read ------------------------------------------------------------------------


def without_chance(stream: str) -> list[str]:
    """A JSON stream's lines without ids, times and durations, which are new with each run."""
    stream = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>", stream)
    stream = re.sub(r'"\d{4}-\d\d-\d\dT[0-9:.]+Z"', '"<time>"', stream)
    stream = re.sub(r'"(id|parentId|entryId)":"[0-9a-f]{8}"', r'"\1":"<id>"', stream)
    return re.sub(r'"(timestamp|durationMs|wall_time_seconds)":[0-9.]+', r'"\1":0', stream).split("\n")


WORK: list[Turn] = [
    ("bash", {"command": "echo out; exit 3"}),
    ("write", {"path": "n.txt", "content": "x"}),
    "Done.",
]


def test_the_json_stream_is_the_same_with_us_and_without(pi: Pi, script: list[Turn]) -> None:
    script += [*WORK, *WORK]
    alone = pi.run("--mode", "json", "-p", "Do things")
    (agents.work(pi.machine) / "n.txt").unlink()
    watched = pi.install().run("--mode", "json", "-p", "Do things")
    assert (alone.returncode, alone.stderr) == (watched.returncode, watched.stderr) == (0, "")
    assert without_chance(watched.stdout) == without_chance(alone.stdout)
    assert len(alone.stdout.split("\n")) > 20
    assert pi.told()[0] == "session_start", "and we did watch"
    # The model was asked the same, too: nothing of ours is in the prompt or among the tools.
    asked = [without_chance(json.dumps(body)) for body in pi.server.asked]
    assert asked[:3] == asked[3:]


def test_what_was_said_is_told_once_over_runs_resumptions_and_forks(pi: Pi, script: list[Turn]) -> None:
    script += ["One.", "Two.", 500, 500, ("bash", {"command": "true"}), "Three."]
    pi.install().run("-p", "First")
    (file,) = (pi.folder / "sessions").rglob("*.jsonl")
    pi.run("-c", "-p", "Second")
    # A fork copies everything; its request fails twice before it is answered.
    pi.run("--fork", str(file), "-p", "Third")
    assert pi.exchanges() == [[("First", "One."), ("Second", "Two.")], [("Third", "Three.")]]
    started = [event["data"]["source"] for event in pi.events() if event["type"] == "session.started"]
    assert started == ["startup", "resume", "fork"]


def test_calls_within_a_call_are_told_with_their_own_ids(pi: Pi, script: list[Turn]) -> None:
    code = "const r = await Promise.allSettled([tools.bash({command:'true'}), tools.read({path:'no'})]); return 1;"
    script += [("codemode", {"code": code}), "Nested."]
    pi.install().run("--mode", "json", "--tools", "+codemode", "-p", "Nest")
    ended = [event["data"] for event in pi.events() if event["type"] == "tool.ended"]
    assert sorted((call["tool"], call["call_id"], call["ok"]) for call in ended) == [
        ("bash", "call_codemode/1", True),
        ("codemode", "call_codemode", True),
        ("read", "call_codemode/2", False),
    ]


# --- a program that drives it -------------------------------------------------------------------------


class Rpc:
    """Pi in RPC mode."""

    def __init__(self, pi: Pi, *words: str) -> None:
        self._process = subprocess.Popen(
            [*pi.command, "--mode", "rpc", *words],
            env=pi.environment(),
            cwd=agents.work(pi.machine),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.lines: list[dict[str, Any]] = []
        self.stray: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.stray.append(line)

    def send(self, **command: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()

    def wait(self, kind: str, times: int = 1, **members: Any) -> None:
        def there() -> bool:
            found = [line for line in self.lines if line.get("type") == kind]
            return sum(members.items() <= line.items() for line in found) >= times

        wait_for(there, f"{times} × {kind}", 60)

    def close(self) -> tuple[int, bytes]:
        """Close its input; its exit status, and what it said on stderr."""
        assert self._process.stdin and self._process.stderr
        self._process.stdin.close()
        self._reader.join(PATIENCE_S)
        errors = self._process.stderr.read()
        return self._process.wait(PATIENCE_S), errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()


def test_a_program_that_drives_pi_sees_nothing_of_us(pi: Pi, script: list[Turn]) -> None:
    (pi.folder / "extensions").mkdir()
    (pi.folder / "extensions" / "asks.js").write_text(ASKS)
    script += [
        Held("Half a sentence"),
        "Whole.",
        ("bash", {"command": "seq 1 400"}),
        "Counted.",
        "A summary.",
        "New.",
    ]
    pi.install()
    with Rpc(pi) as rpc:
        rpc.send(type="set_session_name", name="a name")
        rpc.send(type="prompt", message="Stop me")
        rpc.wait("message_update")
        rpc.send(type="abort")
        rpc.wait("agent_settled")
        rpc.send(type="prompt", message="Once more")
        rpc.wait("agent_settled", 2)
        rpc.send(type="prompt", message="/ask")
        rpc.wait("extension_ui_request", method="confirm")
        (asked,) = [line for line in rpc.lines if line.get("method") == "confirm"]
        rpc.send(type="extension_ui_response", id=asked["id"], confirmed=True)
        wait_for(lambda: "ui_prompt_end" in pi.told(), "the end of the dialog")
        rpc.send(type="prompt", message="Count")
        rpc.wait("agent_settled", 3)
        rpc.send(type="compact", id="compact")
        rpc.wait("response", command="compact")
        rpc.send(type="new_session")
        rpc.wait("response", command="new_session")
        # From here on sessionpipe is gone.
        wait_for(lambda: pi.told().count("session_start") == 2, "the start of the new session")
        told = pi.told()
        pi.machine.state.launcher.unlink()
        rpc.send(type="prompt", message="Alone")
        rpc.wait("agent_settled", 4)
        assert rpc.close() == (0, b"")
    assert rpc.stray == []
    assert pi.told() == told
    assert [line for line in rpc.lines if line.get("type") == "extension_error"] == []

    first, second = pi.exchanges()
    assert first == [("Stop me", "Half a sentence"), ("Once more", "Whole."), ("Count", "Counted.")]
    assert second == []
    events = pi.events()
    ends = [event["data"]["reason"] for event in events if event["type"] == "turn.ended"]
    assert ends == ["interrupt", "stop", "stop"]
    told_types = [event["type"] for event in events]
    assert told_types.count("attention.needed") == told_types.count("attention.cleared") == 1
    assert [event["data"] for event in events if event["type"] == "context.compacted"] == [
        {"trigger": "manual"}
    ]
    assert [event["data"]["reason"] for event in events if event["type"] == "session.ended"] == ["other"]
    assert events[-2]["session"]["title"] == "a name"


# --- a person at a terminal ---------------------------------------------------------------------------


def test_a_person_at_a_terminal_sees_nothing_of_us(pi: Pi, script: list[Turn]) -> None:
    (pi.folder / "extensions").mkdir()
    (pi.folder / "extensions" / "asks.js").write_text(ASKS)
    script += ["An answer for you.", Held("Half"), "In the new one."]
    pi.install()
    with Terminal(pi) as screen:

        def until(event: str, times: int = 1) -> None:
            screen.look(lambda: pi.told().count(event) >= times, f"{times} × {event}")

        until("session_start")
        screen.type("Say something\r")
        until("agent_settled")
        screen.look(lambda: b"An answer for you." in screen.shown, "the answer")
        screen.type("/ask\r")
        until("ui_prompt_start")
        screen.type("\r")
        until("ui_prompt_end")
        screen.type("/reload\r")
        screen.look(lambda: b"Reloaded" in screen.shown, "the reload")
        screen.type("Stop me\r")
        screen.look(lambda: b"Half" in screen.shown, "half an answer")
        screen.type("\x1b")
        until("agent_settled", 2)
        screen.type("/new\r")
        until("session_start", 2)
        screen.type("Go on\r")
        until("agent_settled", 3)
        screen.type("\x04")
        assert screen.ended() == 0
    for ours in (b"sessionpipe", b"Error", b"error"):
        assert ours not in screen.shown
    assert pi.exchanges() == [
        [("Say something", "An answer for you."), ("Stop me", "Half")],
        [("Go on", "In the new one.")],
    ]
    events = pi.events()
    assert {event["session"]["attended"] for event in events} == {True}
    assert [event["type"] for event in events].count("session.started") == 2
    assert [event["data"].get("message") for event in events if event["type"] == "attention.needed"] == [
        "Proceed?"
    ]
    assert [event["data"]["reason"] for event in events if event["type"] == "session.ended"] == [
        "other",
        "exit",
    ]
