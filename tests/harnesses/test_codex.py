"""What Codex's rollout and login file say about a session and its calls."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.harnesses.codex import amend, facts, history, missed, transcript
from sessionpipe.harnesses.codex_latest import limits
from sessionpipe.harnesses.codex_rollout import is_ask
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.history import Past
from sessionpipe.protocol import rfc3339
from tests.harnesses.packing import compress

ID = "01a22870-962b-7d32-ab36-110ef2c62105"
PARENT = "01a22870-0000-7d32-ab36-110ef2c62105"


class Home:
    """A person's home directory with Codex in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = Files()
        self.env: dict[str, str] = {}
        self.rollout = root / ".codex" / "sessions" / f"rollout-2026-11-29T17-53-16-{ID}.jsonl"
        self.rollout.parent.mkdir(parents=True)

    def writes(self, kind: str, **payload: Any) -> Home:
        with self.rollout.open("a") as file:
            file.write(json.dumps({"type": kind, "payload": payload}, ensure_ascii=False) + "\n")
        return self

    def begins(self, **more: Any) -> Home:
        return self.writes("session_meta", id=ID, session_id=ID, cli_version="0.171.0", **more)

    def completes(self, item: dict[str, Any], *, thread: str = ID, **more: Any) -> Home:
        return self.writes("event_msg", type="item_completed", thread_id=thread, item=item, **more)

    def is_asked(self, text: str, *, thread: str = ID) -> Home:
        return self.completes(
            {"type": "UserMessage", "content": [{"type": "text", "text": text}]}, thread=thread
        )

    def once_asked(self, text: str) -> Home:
        content = [{"type": "input_text", "text": text}]
        return self.writes("response_item", type="message", role="user", content=content)

    @property
    def context(self) -> Context:
        return Context(self.env, "/src", 0, str(self.root))

    def tells(self, kind: str = "turn.ended", **memo: Any) -> dict[str, Any]:
        draft = {"type": kind, "session": {"id": ID}, "data": {}, "memo": {"file": str(self.rollout), **memo}}
        return facts(draft, self.context, self.files)

    def ended(self, call: object = "call_1", **data: Any) -> dict[str, Any]:
        """A ``tool.ended`` as the table maps it, after the rollout had its say."""
        draft = {
            "type": "tool.ended",
            "session": {"id": ID},
            "data": {"tool": "Bash", "call_id": call, "ok": True, **data},
            "memo": {"file": str(self.rollout)},
        }
        (amended,) = amend([draft], self.context, self.files)
        assert draft["data"] == {"tool": "Bash", "call_id": call, "ok": True, **data}, (
            "a draft is never changed"
        )
        return {name: value for name, value in amended["data"].items() if name in ("ok", "error", "ms")}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "somebody")


# --- facts --------------------------------------------------------------------------------------------


def test_the_version_and_the_first_ask_are_in_the_rollouts_beginning(home: Home) -> None:
    home.begins().is_asked("Fix\nthe page").is_asked("And more")
    assert home.tells() == {"version": "0.171.0", "title": "Fix the page", "title_source": "first-ask"}


def test_before_the_rollout_has_a_prompt_the_hooks_is_the_first_ask(home: Home) -> None:
    home.begins()
    assert home.tells() == {"version": "0.171.0"}
    assert home.tells("turn.started", prompt="Fix")["title"] == "Fix"
    home.is_asked("Fix")
    assert home.tells("turn.started", prompt="And more")["title"] == "Fix"


def test_without_a_rollout_the_hooks_prompt_is_all_there_is(home: Home) -> None:
    assert home.tells("turn.started", file=None, prompt="Fix") == {
        "title": "Fix",
        "title_source": "first-ask",
    }
    assert home.tells("turn.ended", file=None) == {}


def test_what_the_harness_put_in_is_no_ask(home: Home) -> None:
    home.begins().once_asked("<environment_context>\n<cwd>/src</cwd>\n</environment_context>")
    home.once_asked("# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nbe good\n</INSTRUCTIONS>")
    home.once_asked("<turn_aborted>\non purpose\n</turn_aborted>").once_asked(
        "Fix what # AGENTS.md instructions says"
    )
    assert home.tells()["title"] == "Fix what # AGENTS.md instructions says"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Fix it", True),
        ("<b> in the page is wrong", True),
        ("Read # AGENTS.md instructions", True),
        ("<user_instructions>\nx\n</user_instructions>", False),
        ("  \n", False),
    ],
)
def test_an_ask_is_the_persons_words(text: str, asked: bool) -> None:
    assert is_ask(text) == asked


def test_a_fork_is_named_by_its_own_first_ask(home: Home) -> None:
    home.begins(forked_from_id=PARENT).writes("session_meta", id=PARENT, cli_version="0.1.0")
    home.once_asked("The parent's").is_asked("The parent's", thread=PARENT)
    assert home.tells() == {"version": "0.171.0"}
    home.writes("event_msg", type="thread_settings_applied", thread_id=ID).once_asked("My own")
    assert home.tells()["title"] == "My own"


def test_a_copy_longer_than_the_window_hides_no_ask(home: Home) -> None:
    home.begins(forked_from_id=PARENT)
    for _ in range(30):
        home.is_asked("The parent's " + "x" * 50_000, thread=PARENT)
    assert home.tells("turn.started", prompt="My own")["title"] == "My own"
    home.is_asked("My own")
    assert home.tells("turn.started", prompt="A later prompt")["title"] == "My own"


def test_an_ask_out_of_sight_is_not_guessed(home: Home) -> None:
    home.begins()
    for _ in range(30):
        home.once_asked("<environment_context>" + "x" * 50_000 + "</environment_context>")
    home.is_asked("My own")
    assert "title" not in home.tells("turn.started", prompt="A later prompt")


def test_a_subagents_rollout_names_no_session(home: Home) -> None:
    home.begins().is_asked("The child's task")
    assert home.tells("tool.ended", thread="agent-1", prompt="x") == {"version": "0.171.0"}


def test_a_name_the_session_has_stays(home: Home) -> None:
    home.begins().is_asked("Fix")
    draft = {
        "type": "turn.ended",
        "session": {"id": ID, "title": "Named"},
        "data": {},
        "memo": {"file": str(home.rollout)},
    }
    assert facts(draft, home.context, home.files) == {"version": "0.171.0"}


class TestNames:
    def index(self, home: Home, *names: tuple[object, object]) -> None:
        lines = [
            json.dumps({"id": thread, "thread_name": name, "updated_at": "2026-11-29T18:01:12Z"})
            for thread, name in names
        ]
        file = home.root / ".codex" / "session_index.jsonl"
        file.write_text("".join(line + "\n" for line in lines))

    def test_a_threads_name_is_the_harnesss_title(self, home: Home) -> None:
        home.begins().is_asked("Fix")
        self.index(home, (PARENT, "Another"), (ID, "Old name"), (ID, "Mend the\nparser"))
        told = home.tells()
        assert (told["title"], told["title_source"]) == ("Mend the parser", "harness")

    def test_a_name_that_is_the_first_prompt_is_none(self, home: Home) -> None:
        home.begins().is_asked("Fix\nit")
        self.index(home, (ID, "Fix it"))
        assert home.tells()["title_source"] == "first-ask"

    def test_a_name_that_changes_is_seen(self, home: Home) -> None:
        home.begins().is_asked("Fix")
        self.index(home, (ID, "Mend"))
        assert home.tells()["title"] == "Mend"
        self.index(home, (ID, "Mend"), (ID, "Mend it"))
        assert home.tells()["title"] == "Mend it"

    def test_names_of_threads_before_us_are_known(self, home: Home) -> None:
        folder = home.root / ".codex" / "sessions" / "2026" / "11" / "29"
        folder.mkdir(parents=True)
        TestHistory().put(folder)
        self.index(home, (ID, "Mend"))
        (past,) = history(home.context, 0, home.files)
        assert (past.block["title"], past.block["title_source"]) == ("Mend", "harness")

    @pytest.mark.parametrize("name", [(ID, None), (ID, 7), (7, "x"), (ID, ""), (PARENT, "Another")])
    def test_what_is_no_name_is_none(self, home: Home, name: tuple[object, object]) -> None:
        home.begins().is_asked("Fix")
        self.index(home, name)
        assert home.tells()["title"] == "Fix"


def test_the_account_is_an_id_and_nothing_else_of_the_login(home: Home) -> None:
    login = {
        "OPENAI_API_KEY": None,
        "tokens": {"id_token": "x" * 500, "access_token": "y", "account_id": "acc-1"},
    }
    (home.root / ".codex" / "auth.json").write_text(json.dumps(login))
    assert home.tells(file=None) == {"account_id": "acc-1"}
    other = home.root / "other"
    other.mkdir()
    home.env["CODEX_HOME"] = str(other)
    assert home.tells(file=None) == {}
    (other / "auth.json").write_text(json.dumps({"tokens": {"account_id": "acc-2"}}))
    assert home.tells(file=None) == {"account_id": "acc-2"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"tokens":null}',
        '{"tokens":7}',
        '{"tokens":{"account_id":7}}',
        '{"tokens":{"account_id":"a@b"}}',
    ],
)
def test_a_login_that_says_no_id_gives_none(home: Home, content: str) -> None:
    (home.root / ".codex" / "auth.json").write_text(content)
    assert home.tells(file=None) == {}


# --- calls --------------------------------------------------------------------------------------------


def command(code: int | None, status: str, **more: Any) -> dict[str, Any]:
    return {"type": "CommandExecution", "id": "call_1", "status": status, "exit_code": code, **more}


def test_a_command_that_worked(home: Home) -> None:
    home.begins().completes(command(0, "completed", duration={"secs": 1, "nanos": 408_545_475}))
    assert home.ended() == {"ok": True, "ms": 1408}


def test_a_command_that_failed_says_its_exit_code_and_not_its_output(home: Home) -> None:
    home.begins().completes(
        command(3, "failed", aggregated_output="secret", duration={"secs": 0, "nanos": 67_097_824})
    )
    assert home.ended() == {"ok": False, "error": "Exit code 3", "ms": 67}


def test_a_patch_is_timed_by_its_start_and_end(home: Home) -> None:
    item = {"type": "FileChange", "id": "call_1", "status": "completed", "stdout": "Success."}
    home.begins().completes(item, started_at_ms=1000, completed_at_ms=1128)
    assert home.ended() == {"ok": True, "ms": 128}


def test_a_patch_that_failed_says_why(home: Home) -> None:
    home.begins().completes(
        {"type": "FileChange", "id": "call_1", "status": "failed", "stderr": "no such line"}
    )
    assert home.ended() == {"ok": False, "error": "no such line"}


def test_a_call_of_a_server_that_failed_says_why(home: Home) -> None:
    result = {"content": [{"type": "text", "text": "it broke"}], "isError": True}
    home.begins().completes({"type": "McpToolCall", "id": "call_1", "status": "failed", "result": result})
    assert home.ended() == {"ok": False, "error": "it broke"}


def test_a_declined_call_is_not_ok(home: Home) -> None:
    home.begins().completes(command(None, "declined"))
    assert home.ended() == {"ok": False, "error": "declined"}


def test_a_command_the_sandbox_refused_is_known_by_its_output(home: Home) -> None:
    home.begins().writes("response_item", type="function_call", call_id="call_1", name="exec_command")
    told = "Chunk ID: fb\nWall time: 0.5000 seconds\nProcess exited with code 1\n"
    output = told + "Output:\nProcess exited with code 0\n"
    home.writes("response_item", type="function_call_output", call_id="call_1", output=output)
    assert home.ended() == {"ok": False, "error": "Exit code 1", "ms": 500}


def test_a_command_the_sandbox_refused_failed_before_its_output_is_written(home: Home) -> None:
    """The hook runs before that line is there; of every other command the item is, by then."""
    home.begins().is_asked("Try it")
    home.writes("response_item", type="function_call", call_id="call_1", name="exec_command")
    assert home.ended() == {"ok": False}
    home.writes("response_item", type="function_call", call_id="call_2", name="exec_command")
    assert home.ended() == home.ended("call_2") == {"ok": False}


def test_a_call_without_an_item_is_not_refused_where_there_never_is_one(home: Home) -> None:
    home.begins().writes("response_item", type="function_call", call_id="call_1", name="exec_command")
    assert home.ended() == {"ok": True}, "a Codex that writes no items"
    home.is_asked("Try it").writes(
        "response_item", type="function_call", call_id="call_2", name="update_plan"
    )
    assert home.ended("call_2") == {"ok": True}, "a tool without items"
    output = {
        "type": "function_call_output",
        "call_id": "call_3",
        "output": "Process running with session ID 7",
    }
    home.writes("response_item", type="function_call", call_id="call_3", name="exec_command")
    assert home.writes("response_item", **output).ended("call_3") == {"ok": True}, "a command that goes on"


@pytest.mark.parametrize(("status", "changed"), [("completed", True), ("failed", False), ("declined", False)])
def test_a_patch_that_failed_changed_no_files(home: Home, status: str, changed: bool) -> None:
    home.begins().completes({"type": "FileChange", "id": "call_1", "status": status})
    memo = {"file": str(home.rollout)}
    ended = {"type": "tool.ended", "data": {"tool": "apply_patch", "call_id": "call_1", "ok": True}}
    files = {"type": "files.changed", "data": {"paths": ["a"]}}
    drafts = amend([{**draft, "memo": memo} for draft in (ended, files)], home.context, home.files)
    assert [draft["type"] for draft in drafts] == ["tool.ended"] + ["files.changed"] * changed


def test_what_a_command_printed_is_no_exit_code(home: Home) -> None:
    home.begins().writes(
        "response_item",
        type="function_call_output",
        call_id="call_1",
        output="Output:\nProcess exited with code 9\n",
    )
    assert home.ended(ms=5) == {"ok": True, "ms": 5}


def test_the_item_is_believed_before_the_words(home: Home) -> None:
    home.begins().completes(command(3, "failed", duration={"secs": 0, "nanos": 0}))
    home.writes(
        "response_item",
        type="function_call_output",
        call_id="call_1",
        output="Process exited with code 0\nOutput:\n",
    )
    assert home.ended() == {"ok": False, "error": "Exit code 3", "ms": 0}


def test_a_call_the_rollout_does_not_mention_stays_as_mapped(home: Home) -> None:
    home.begins().completes(command(3, "failed") | {"id": "call_10"})
    assert home.ended(ms=7, error="e") == {"ok": True, "ms": 7, "error": "e"}
    home.completes(command(None, "in_progress"))
    assert home.ended() == {"ok": True}


def test_a_calls_id_may_be_anything(home: Home) -> None:
    home.begins().completes(command(3, "failed") | {"id": 'ü"\\'})
    assert home.ended('ü"\\')["ok"] is False
    assert home.ended("") == home.ended(None) == home.ended(7) == {"ok": True}


def test_a_call_behind_large_outputs_of_others_is_found_within_bounds(home: Home) -> None:
    home.begins().completes(command(3, "failed"))
    for number in range(3):
        home.completes(command(0, "completed", aggregated_output="x" * 1_000_000) | {"id": f"other_{number}"})
    assert home.ended()["ok"] is False
    for number in range(3):
        home.completes(command(0, "completed", aggregated_output="x" * 1_000_000) | {"id": f"more_{number}"})
    assert home.ended()["ok"] is True


def test_other_drafts_pass_untouched(home: Home) -> None:
    drafts = [{"type": "tool.started", "data": {"call_id": "call_1"}}, {"type": "turn.ended", "data": {}}]
    assert amend(drafts, home.context, home.files) == drafts


@pytest.mark.parametrize(
    "junk", [b"\0" * 99, b'{"call_1"\n' * 9, b'{"payload":"call_1"}\n', b'["call_1"]\n', b'"call_1"\n']
)
def test_a_broken_rollout_changes_nothing(home: Home, junk: bytes) -> None:
    home.rollout.write_bytes(junk)
    assert home.ended() == {"ok": True}
    assert home.tells() == {}


@pytest.mark.parametrize("duration", [None, 7, {}, {"secs": "1", "nanos": 0}, {"secs": -1, "nanos": 0}])
def test_a_duration_that_is_none_is_left_out(home: Home, duration: object) -> None:
    home.begins().completes(command(0, "completed", duration=duration))
    assert home.ended() == {"ok": True}


# --- recordings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "outcomes"),
    [
        ("shell_ok", [True]),
        ("shell_fail", ["Exit code 3", "Exit code 127", "Exit code 1"]),
        ("parallel", ["Exit code 4", True, True, True, True]),
        ("apply_patch", [True, True]),
        ("codemode", [True, "Exit code 3", True]),
        ("mcp", [True]),
    ],
)
def test_recorded_calls(shared: Path, scenario: str, outcomes: list[object]) -> None:
    folder = shared / "recordings" / "codex" / scenario
    files = Files(folder / "files")
    found: list[object] = []
    for hook in sorted(folder.glob("*-PostToolUse.json")):
        payload = json.loads(hook.read_text())["stdin"]
        draft = {
            "type": "tool.ended",
            "session": {"id": payload["session_id"]},
            "data": {"tool": payload["tool_name"], "call_id": payload["tool_use_id"], "ok": True},
            "memo": {"file": payload["transcript_path"]},
        }
        (amended,) = amend([draft], Context({}, "/", 0, None), files)
        assert isinstance(amended["data"]["ms"], int)
        found.append(amended["data"].get("error") or amended["data"]["ok"])
    assert found == outcomes


# --- what no hook tells -------------------------------------------------------------------------------

TURN = "01a22871-5471-7f01-9531-4edb330b2206"


def at(second: int) -> int:
    return 1_795_975_000_000 + second * 1000


class Story(Home):
    """A home whose rollout's lines have times."""

    def told(self, second: int, name: str, **more: Any) -> Story:
        line = {"timestamp": rfc3339(at(second)), "type": "event_msg", "payload": {"type": name, **more}}
        with self.rollout.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return self

    def hook(self, kind: str, second: int, **memo: Any) -> list[dict[str, Any]]:
        """All that is told at a hook, but for when it is of the hook's time, and where."""
        draft = {
            "type": kind,
            "at_ms": at(second),
            "harness": {"name": "codex", "event": "Hook"},
            "session": {"id": ID},
            "data": {"turn_id": "hook's"},
            "memo": {"file": str(self.rollout), **memo},
        }
        return missed([draft], self.context, self.files)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    story = Story(tmp_path / "somebody")
    story.begins()
    return story


def used(percent: object = 37.5, **more: Any) -> dict[str, Any]:
    window = {"used_percent": percent, "window_minutes": 300, "resets_at": 1_795_982_045}
    return {"limit_id": "codex", "primary": window, "secondary": None, "plan_type": None, **more}


class TestMissed:
    def test_a_turn_that_an_error_ended_is_told_at_the_next_hook(self, story: Story) -> None:
        failure = {"message": "Too much", "codex_error_info": "usage_limit_exceeded"}
        story.told(1, "task_complete", turn_id=TURN, error=failure, duration_ms=250)
        end, hook = story.hook("session.ended", 2)
        assert hook["type"] == "session.ended"
        assert (end["type"], end["at_ms"], end["memo"]) == ("turn.ended", at(1), {"only_running": True})
        assert end["data"] == {
            "turn_id": TURN,
            "reason": "error",
            "error": "usage_limit_exceeded",
            "ms": 250,
        }

    @pytest.mark.parametrize(
        ("info", "word"),
        [
            ({"http_connection_failed": {"status": 500}}, "http_connection_failed"),
            ("a sentence of it", "unknown"),
            (None, "unknown"),
            ({}, "unknown"),
            (7, "unknown"),
        ],
    )
    def test_the_class_of_an_error_is_codexs_own_word(self, story: Story, info: object, word: str) -> None:
        story.told(1, "task_complete", turn_id=TURN, error={"message": "x", "codex_error_info": info})
        assert story.hook("turn.started", 2)[0]["data"]["error"] == word

    @pytest.mark.parametrize(("reason", "count"), [("interrupted", 1), ("replaced", 1), ("review_ended", 0)])
    def test_a_turn_that_was_stopped_is_told_where_no_hook_did(
        self, story: Story, reason: str, count: int
    ) -> None:
        story.told(1, "turn_aborted", turn_id=TURN, reason=reason, duration_ms=7)
        told = story.hook("turn.started", 2)[:-1]
        assert [end["data"] for end in told] == [{"turn_id": TURN, "reason": "interrupt", "ms": 7}] * count

    def test_a_turn_that_ended_well_is_its_hooks_to_tell(self, story: Story) -> None:
        story.told(1, "task_complete", turn_id=TURN, last_agent_message="x")
        assert len(story.hook("session.ended", 2)) == 1

    def test_what_happened_after_the_hook_is_not_its_to_tell(self, story: Story) -> None:
        story.told(3, "task_complete", turn_id=TURN, error={})
        assert len(story.hook("turn.started", 2)) == 1

    def test_a_subagent_ends_no_turn_of_the_session(self, story: Story) -> None:
        story.told(1, "task_complete", turn_id=TURN, error={})
        assert len(story.hook("turn.started", 2, thread="agent")) == 1

    def test_the_limits_come_behind_the_turn_that_was_told_them(self, story: Story) -> None:
        story.told(1, "task_started").told(2, "token_count", rate_limits=used(plan_type="plus"))
        hook, told = story.hook("turn.ended", 3)
        window = {"id": "primary", "used_percent": 37.5, "window_minutes": 300}
        assert told["type"] == "limits.observed"
        assert told["data"] == {
            "windows": [{**window, "resets_at": "2026-11-29T19:54:05.000Z"}],
            "plan": "plus",
        }
        assert [draft["type"] for draft in story.hook("session.ended", 4)] == [
            "limits.observed",
            "session.ended",
        ]
        assert len(story.hook("turn.started", 5)) == 1
        assert hook["type"] == "turn.ended"

    def test_a_turn_that_was_told_none_leaves_none(self, story: Story) -> None:
        story.told(1, "task_started").told(2, "token_count", rate_limits=used())
        story.told(3, "task_started").told(4, "token_count", rate_limits=None)
        assert len(story.hook("turn.ended", 5)) == 1


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        {},
        used(limit_id="codex_other"),
        used(None),
        used(True),
        used("37"),
        used(-1),
        used(float("nan")),
        {"primary": [1]},
    ],
)
def test_what_tells_no_share_of_a_window_is_no_limit(told: object) -> None:
    assert limits(told) is None


def test_a_window_says_what_it_knows() -> None:
    told = {"primary": {"used_percent": 101, "resets_at": 1e300}, "secondary": {"used_percent": 0}}
    assert limits(told) == {
        "windows": [{"id": "primary", "used_percent": 101}, {"id": "secondary", "used_percent": 0}]
    }


@pytest.mark.parametrize(
    ("trigger", "attended"), [("user", True), ("exec", False), ("cron", None), (7, None)]
)
def test_who_began_the_last_turn_says_whether_somebody_is_there(
    story: Story, trigger: object, attended: bool | None
) -> None:
    story.told(1, "task_started", turn_attribution={"turn_trigger": "other"})
    story.told(2, "task_started", turn_attribution={"turn_trigger": trigger})
    assert story.tells().get("attended") == attended


# --- notify -------------------------------------------------------------------------------------------


class TestNotify:
    DAY = "2026/11/29"

    def thread(self, home: Home, day: str = DAY, suffix: str = "", **meta: Any) -> Path:
        """A rollout where Codex keeps it, and what notify tells of its thread."""
        folder = home.root / ".codex" / "sessions" / day
        folder.mkdir(parents=True)
        file = folder / f"rollout-2026-11-29T17-53-16-{ID}.jsonl{suffix}"
        told = {"id": ID, "session_id": ID, "source": "exec", **meta}
        file.write_text(json.dumps({"type": "session_meta", "payload": told}) + "\n")
        return file

    def notify(self, home: Home) -> dict[str, Any]:
        draft = {
            "type": "turn.ended",
            "harness": {"name": "codex", "event": "notify"},
            "session": {"id": ID},
            "data": {"reason": "stop"},
            "memo": {"only_known": True, "transcript": {"path": None, "said": "x", "final": False}},
        }
        (told,) = amend([draft], home.context, home.files)
        memo: dict[str, Any] = told["memo"]
        return memo

    @pytest.mark.parametrize("day", ["2026/11/28", DAY, "2026/11/30"])
    def test_a_thread_that_a_person_sees_is_a_session(self, home: Home, day: str) -> None:
        file = str(self.thread(home, day))
        assert self.notify(home) == {
            "file": file,
            "transcript": {"path": file, "said": "x", "final": False},
        }

    @pytest.mark.parametrize(
        "meta", [{"session_id": PARENT}, {"thread_source": "subagent"}, {"parent_thread_id": PARENT}]
    )
    def test_a_subagents_thread_is_none(self, home: Home, meta: dict[str, Any]) -> None:
        self.thread(home, **meta)
        assert self.notify(home)["only_known"] is True

    def test_a_thread_without_a_rollout_is_none(self, home: Home) -> None:
        assert self.notify(home)["only_known"] is True

    @pytest.mark.parametrize(
        "thread",
        ["11111111-2222-4333-8444-555555555555", "ffffffff-ffff-7333-8444-555555555555", "../../etc", ""],
    )
    def test_an_id_without_a_time_is_looked_for_nowhere(self, home: Home, thread: str) -> None:
        assert transcript({"session": {"id": thread}}, home.context, home.files) is None

    def test_another_folder_of_codexs_is_looked_in(self, home: Home) -> None:
        home.env["CODEX_HOME"] = str(home.root / "elsewhere")
        self.thread(home)
        assert transcript({"session": {"id": ID}}, home.context, home.files) is None


# --- what was there before us -------------------------------------------------------------------------


class TestHistory:
    @pytest.fixture
    def folder(self, home: Home) -> Path:
        folder = home.root / ".codex" / "sessions" / "2026" / "11" / "29"
        folder.mkdir(parents=True)
        return folder

    def put(
        self, folder: Path, thread: str = ID, *, ask: str = "Fix it", packed: bool = False, **meta: Any
    ) -> Path:
        told = {
            "id": thread,
            "session_id": thread,
            "timestamp": rfc3339(at(0)),
            "cwd": "/src",
            "cli_version": "0.171.0",
            "git": {"branch": "main", "repository_url": "https://me:secret@github.com/a/b.git"},
            **meta,
        }
        item = {"type": "UserMessage", "content": [{"type": "text", "text": ask}]}
        lines = [
            ("session_meta", told),
            ("event_msg", {"type": "task_started"}),
            ("turn_context", {"model": "gpt-5.5"}),
            ("event_msg", {"type": "item_completed", "thread_id": thread, "item": item}),
            ("event_msg", {"type": "task_complete"}),
        ]
        text = "".join(
            json.dumps({"timestamp": rfc3339(at(nth)), "type": kind, "payload": payload}) + "\n"
            for nth, (kind, payload) in enumerate(lines)
        ).encode()
        file = folder / f"rollout-2026-11-29T17-53-16-{thread}.jsonl{'.zst' if packed else ''}"
        file.write_bytes(compress(text) if packed else text)
        return file

    def found(self, home: Home, since_ms: int = 0) -> list[Past]:
        return list(history(home.context, since_ms, home.files))

    @pytest.mark.parametrize("packed", [False, True])
    def test_a_thread_is_found_with_what_its_rollout_says(
        self, home: Home, folder: Path, packed: bool
    ) -> None:
        self.put(folder, packed=packed)
        block = {
            "cwd": "/src",
            "model": "gpt-5.5",
            "branch": "main",
            "repo": "github.com/a/b",
            "title": "Fix it",
            "title_source": "first-ask",
        }
        assert self.found(home) == [Past(ID, at(0), at(4), 1, block, "0.171.0")]

    def test_an_archived_thread_is_one_too_and_none_comes_twice(self, home: Home, folder: Path) -> None:
        self.put(folder)
        self.put(folder, packed=True)
        archived = home.root / ".codex" / "archived_sessions"
        archived.mkdir()
        self.put(archived, PARENT)
        self.put(archived)
        assert [past.session_id for past in self.found(home)] == [ID, PARENT]

    @pytest.mark.parametrize(
        "meta",
        [
            {"session_id": PARENT},
            {"thread_source": "guardian_review"},
            {"source": {"subagent": "review"}},
            {"ask": "<environment_context>x</environment_context>"},
            {"id": None},
            {"timestamp": "then"},
        ],
    )
    def test_what_no_person_began_is_left_out(self, home: Home, folder: Path, meta: dict[str, Any]) -> None:
        self.put(folder, **meta)
        assert self.found(home) == []

    def test_a_fork_is_named_by_its_own_ask(self, home: Home, folder: Path) -> None:
        file = self.put(folder, forked_from_id=PARENT)
        own = file.read_text().splitlines()
        copied = json.dumps(
            {
                "type": "response_item",
                "payload": {"type": "message", "role": "user", "content": "The parent's"},
            }
        )
        file.write_text("\n".join([own[0], copied, *own[1:]]) + "\n")
        (past,) = self.found(home)
        assert past.block["title"] == "Fix it"

    def test_one_that_has_not_changed_since_is_not_opened(self, home: Home, folder: Path) -> None:
        file = self.put(folder)
        os.utime(file, (1_000, 1_000))
        assert self.found(home, 1_000_001) == []
        assert len(self.found(home, 1_000_000)) == 1

    def test_of_a_large_one_the_turns_are_not_counted(self, home: Home, folder: Path) -> None:
        file = self.put(folder)
        line = {"timestamp": rfc3339(at(9)), "type": "world_state", "payload": {"x": "y" * (5 << 20)}}
        with file.open("a") as grown:
            grown.write(json.dumps(line) + "\n")
            grown.write(
                json.dumps(
                    {
                        **line,
                        "type": "event_msg",
                        "timestamp": rfc3339(at(10)),
                        "payload": {"type": "task_started"},
                    }
                )
                + "\n"
            )
        (past,) = self.found(home)
        assert (past.turns, past.last_ms) == (None, at(10))

    def test_without_a_folder_there_is_nothing(self, home: Home) -> None:
        assert self.found(home) == []
