"""Copilot CLI's own file of a session: what the hooks leave out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.adapters import map_hook
from sessionpipe.adapters.fold import fold
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.copilot_cli import amend, exchanges, facts, history, missed, transcript
from sessionpipe.harnesses.files import Files
from sessionpipe.protocol import rfc3339
from tests.harnesses.growing import Ending, Said, hold, hold_behind

NAME = "5f0e2c7a-1111-4222-8333-944455566677"
START = 1_796_000_000_000


class Home:
    """A home folder with sessions of Copilot's; times are milliseconds after a start."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = Files()
        self.env: dict[str, str] = {}

    def file(self, name: str = NAME) -> Path:
        return self.root / ".copilot/session-state" / name / "events.jsonl"

    def writes(
        self, kind: str, at: int = 0, *, name: str = NAME, agent: str | None = None, **data: Any
    ) -> Home:
        record = {"type": kind, "timestamp": rfc3339(START + at), "data": data}
        self.file(name).parent.mkdir(parents=True, exist_ok=True)
        with self.file(name).open("a") as file:
            file.write(json.dumps({**record, **({"agentId": agent} if agent else {})}) + "\n")
        return self

    def begins(self, version: object = "1.0.85") -> Home:
        return self.writes("session.start", copilotVersion=version, context={"cwd": "/home/dev/src"})

    @property
    def context(self) -> Context:
        return Context(self.env, "/", START, str(self.root))

    def hook(self, event: str, at: int = 1_000, **members: Any) -> list[dict[str, Any]]:
        payload = {"sessionId": NAME, "timestamp": START + at, "cwd": "/home/dev/src", **members}
        return map_hook("copilot-cli", event, json.dumps(payload).encode(), env={}, cwd="/", at_ms=START + at)

    def tells(self, event: str = "agentStop", **members: Any) -> dict[str, Any]:
        return facts(self.hook(event, **members)[0], self.context, self.files)

    def ends(self, **members: Any) -> list[str]:
        return [each["type"] for each in amend(self.hook("sessionEnd", **members), self.context, self.files)]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


class TestWhereItIs:
    def test_it_is_in_the_sessions_folder(self, home: Home) -> None:
        draft = {"session": {"id": NAME}}
        assert transcript(draft, home.context, home.files) == str(home.file())
        home.env["COPILOT_HOME"] = "/elsewhere"
        assert transcript(draft, home.context, home.files) == f"/elsewhere/session-state/{NAME}/events.jsonl"

    @pytest.mark.parametrize("name", ["..", ".", "a/b", "x" * 129])
    def test_a_name_that_is_none_is_not_looked_for(self, home: Home, name: str) -> None:
        assert transcript({"session": {"id": name}}, home.context, home.files) is None

    def test_without_a_home_it_is_nowhere(self) -> None:
        assert transcript({"session": {"id": NAME}}, Context({}, "/", 0, None), Files()) is None


class TestFacts:
    def test_the_title_is_copilots_else_the_first_ask(self, home: Home) -> None:
        assert home.tells("userPromptSubmitted", prompt="Fix it")["title"] == "Fix it"
        home.begins().writes("user.message", content="<skill>x</skill>", source="skill-x")
        home.writes("user.message", content="Fix\nit").writes("user.message", content="More")
        assert home.tells() == {"version": "1.0.85", "title": "Fix it", "title_source": "first-ask"}
        home.writes("session.title_changed", title="A fix").writes("session.title_changed", title="")
        assert home.tells() == {"version": "1.0.85", "title": "A fix", "title_source": "harness"}

    def test_the_model_is_the_last_one_that_was_chosen_or_answered(self, home: Home) -> None:
        home.begins().writes("session.model_change", newModel="m-1")
        assert home.tells()["model"] == "m-1"
        home.writes("assistant.message", model="m-2").writes("assistant.message", model="m-9", agent="a1")
        assert home.tells()["model"] == "m-2"

    def test_of_a_long_session_the_beginning_and_the_end_are_read(self, home: Home) -> None:
        home.begins().writes("user.message", content="Fix it")
        for _ in range(40):
            home.writes("assistant.message", content="x" * 40_000, model="m-0")
        home.writes("session.title_changed", title="A fix").writes("session.model_change", newModel="m-1")
        assert home.tells() == {
            "version": "1.0.85",
            "model": "m-1",
            "title": "A fix",
            "title_source": "harness",
        }

    def test_a_calls_hook_reads_nothing(self, home: Home) -> None:
        home.begins()
        assert home.tells("preToolUse", toolName="bash") == {}

    @pytest.mark.parametrize("junk", [b"", b"\0" * 99, b"[]\n", b'{"type":"session.start","data":7}\n'])
    def test_a_file_that_is_none_tells_nothing(self, home: Home, junk: bytes) -> None:
        home.begins()
        home.file().write_bytes(junk)
        assert home.tells() == {}


class TestASessionsEnd:
    """Until 1.0.25 it came with every prompt."""

    @pytest.mark.parametrize(
        ("version", "final"),
        [
            ("1.0.24", False),
            ("1.0.25", False),
            ("1.0.26", True),
            ("1.1.0", True),
            ("soon", False),
            (None, False),
        ],
    )
    def test_is_one_where_the_version_says_it_once(
        self, home: Home, version: str | None, final: bool
    ) -> None:
        home.begins(version)
        assert ("session.ended" in home.ends(reason="complete")) is final

    def test_is_one_when_the_person_left(self, home: Home) -> None:
        assert home.ends(reason="user_exit") == ["turn.ended", "session.ended"]

    def test_is_none_when_nothing_is_known_of_it(self, home: Home) -> None:
        assert home.ends(reason="complete") == ["turn.ended"]

    def test_is_one_when_the_file_says_that_it_was_shut_down(self, home: Home) -> None:
        home.begins("1.0.20").writes("session.shutdown", 900)
        assert "session.ended" in home.ends(reason="complete")
        home.writes("session.resume", 950)
        assert "session.ended" not in home.ends(reason="complete")

    def test_ends_the_turn_all_the_same(self, home: Home) -> None:
        home.begins("1.0.20")
        drafts = [*home.hook("userPromptSubmitted", prompt="x"), *home.hook("sessionEnd", reason="complete")]
        sent = fold({}, amend(drafts, home.context, home.files))[1]
        assert [each["type"] for each in sent] == ["session.started", "turn.started", "turn.ended"]


class TestASessionsStart:
    """Until 1.0.25 it came with every prompt, too."""

    @pytest.mark.parametrize(("version", "starts"), [("1.0.25", 1), ("1.0.26", 2), (None, 2)])
    def test_is_one_where_the_version_says_it_once(
        self, home: Home, version: str | None, starts: int
    ) -> None:
        home.begins(version)
        prompts = [
            *home.hook("sessionStart", source="resume"),
            *home.hook("userPromptSubmitted", prompt="x"),
        ] * 2
        sent = fold({}, amend(prompts, home.context, home.files))[1]
        assert [each["type"] for each in sent].count("session.started") == starts


class TestWhatNoHookTells:
    def after(self, home: Home, *hooks: list[dict[str, Any]]) -> list[tuple[str, Any, int]]:
        state: dict[str, Any] = {}
        sent: list[tuple[str, Any, int]] = []
        for drafts in hooks:
            state, told = fold(state, missed(drafts, home.context, home.files))
            sent += [
                (each["type"], each["data"].get("reason"), each["at_ms"] - START)
                for each in told
                if each["type"].startswith("turn.")
            ]
        return sent

    def test_a_turn_that_the_person_stopped_is_told_at_the_next_hook_and_once(self, home: Home) -> None:
        home.begins().writes("abort", 2_000)
        assert self.after(
            home,
            home.hook("userPromptSubmitted", 1_000, prompt="a"),
            home.hook("userPromptSubmitted", 5_000, prompt="b"),
            home.hook("agentStop", 6_000),
            home.hook("userPromptSubmitted", 7_000, prompt="c"),
        ) == [
            ("turn.started", None, 1_000),
            ("turn.ended", "interrupt", 2_000),
            ("turn.started", None, 5_000),
            ("turn.ended", "stop", 6_000),
            ("turn.started", None, 7_000),
        ]

    def test_what_happened_since_is_not_an_earlier_hooks_to_tell(self, home: Home) -> None:
        home.begins().writes("abort", 2_000)
        assert len(missed(home.hook("agentStop", 1_500), home.context, home.files)) == 1

    def test_a_call_reads_nothing(self, home: Home) -> None:
        home.begins().writes("abort", 2_000)
        call = home.hook("preToolUse", 5_000, toolName="bash")
        assert missed(call, home.context, home.files) == call


class TestHistory:
    def test_a_session_is_there_with_what_its_file_says(self, home: Home) -> None:
        home.begins().writes("session.model_change", newModel="m-1").writes(
            "user.message", 10, content="Fix it"
        )
        home.writes("session.title_changed", 20, title="A fix").writes("user.message", 30, content="More")
        home.writes("assistant.message", 90, content="Sure", toolRequests=[])
        home.writes("session.start", name="nobody-asked", copilotVersion="1.0.85")
        home.writes("user.message", name="old", content="Old")
        os.utime(home.file("old"), (1, 1))
        (past,) = history(home.context, 5_000, home.files)
        assert (past.session_id, past.turns, past.version) == (NAME, 2, "1.0.85")
        assert (past.started_ms, past.last_ms) == (START + 10, START + 90)
        assert past.block == {
            "cwd": "/home/dev/src",
            "model": "m-1",
            "title": "A fix",
            "title_source": "harness",
        }

    def test_where_there_is_no_copilot_there_is_none(self, home: Home) -> None:
        assert list(history(home.context, 0, home.files)) == []


@st.composite
def _sessions(draw: st.DrawFn) -> tuple[list[bytes], list[Said], list[Ending]]:
    """A session's lines, what was said in it, and the ends its hooks told."""
    lines: list[bytes] = []
    talk: list[Said] = []
    ends: list[Ending] = []
    now = START

    def put(kind: str, *, agent: str | None = None, **data: Any) -> None:
        nonlocal now
        now += 1_000
        record = {"type": kind, "timestamp": rfc3339(now), "data": data}
        lines.append(json.dumps({**record, **({"agentId": agent} if agent else {})}).encode() + b"\n")

    put("session.start", copilotVersion="1.0.85")
    for number in range(draw(st.integers(1, 4))):
        put("user.message", content=f"ask {number}")
        said: list[str] = []
        for call in range(draw(st.integers(0, 2))):
            put("assistant.turn_start")
            said.append(f"step {number}.{call}")
            put("assistant.message", content=said[-1], toolRequests=[{"name": "bash"}])
            put("tool.execution_start", toolName="bash")
            if draw(st.booleans()):
                put("user.message", agent="a1", content="a subagent's")
                put("assistant.message", agent="a1", content="its answer", toolRequests=[])
            put("tool.execution_complete", success=True)
            put("assistant.turn_end")
            if draw(st.booleans()):
                put("user.message", content="<skill/>", source="skill-x")
        if draw(st.integers(0, 3)) == 0:
            put("abort")
        else:
            put("assistant.turn_start")
            said.append(f"last {number}")
            put("assistant.message", content=said[-1], toolRequests=[])
            put("assistant.turn_end")
            ends.append(Ending(now + 100, None, len(lines)))
        talk.append((f"ask {number}", "\n\n".join(said)))
    return lines, talk, ends


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(session=_sessions(), data=st.data())
def test_law_whenever_it_is_read_every_exchange_comes_once_and_whole(
    session: tuple[list[bytes], list[Said], list[Ending]], data: st.DataObject, tmp_path: Path
) -> None:
    lines, talk, ends = session
    hold(exchanges, tmp_path / "events.jsonl", lines, talk, ends, START + 10**9, data)
    hold_behind(exchanges, tmp_path / "events.jsonl", lines, ends, START + 10**9, data)
