"""What Claude Code's own files say about a session."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.harnesses.claude_code import endpoint_account, facts, history, missed, session_link
from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.history import Past
from sessionpipe.paths import data_dir
from sessionpipe.protocol import rfc3339

RECORDED = data_dir("conformance") / "transcripts" / "claude-code"
ID = "11111111-2222-4333-8444-555555555555"


class Home:
    """A person's home directory with Claude Code in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = Files()
        self.env: dict[str, str] = {}
        self.transcript = root / ".claude" / "projects" / "-src" / f"{ID}.jsonl"
        self.transcript.parent.mkdir(parents=True)

    def writes(self, *records: dict[str, Any]) -> None:
        with self.transcript.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    def has(self, name: str, value: object) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(value if isinstance(value, str) else json.dumps(value))

    def tells(
        self, kind: str = "turn.ended", *, session: dict[str, Any] | None = None, **memo: Any
    ) -> dict[str, Any]:
        draft = {
            "type": kind,
            "at_ms": 0,
            "session": {"id": ID, **(session or {})},
            "data": {},
            "memo": {"file": str(self.transcript), **memo},
        }
        return facts(draft, Context(self.env, "/src", 0, str(self.root)), self.files)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "somebody")


def ask(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "user", "version": "2.1.332", "message": {"role": "user", "content": text}, **more}


def answer(model: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": "answer"}]
    return {
        "type": "assistant",
        "version": "2.1.332",
        "message": {"model": model, "content": content},
        **more,
    }


# --- model, version, link -----------------------------------------------------------------------------


def test_the_model_is_the_one_that_answered_last(home: Home) -> None:
    home.writes(ask("one"), answer("model-1"), ask("two"), answer("model-2"))
    assert home.tells()["model"] == "model-2"
    home.writes(ask("three"), answer("<synthetic>"), answer("model-3", isSidechain=True))
    assert home.tells()["model"] == "model-2"
    home.writes(answer("model-4"))
    assert home.tells()["model"] == "model-4"


def test_the_hooks_own_model_wins(home: Home) -> None:
    home.writes(ask("one"), answer("model-1"))
    assert "model" not in home.tells("session.started", session={"model": "model-0"})


def test_the_version_is_the_one_that_wrote_last(home: Home) -> None:
    home.writes(ask("one"), answer("model-1", version="2.1.400"))
    assert home.tells()["version"] == "2.1.400"
    for what_says_nothing_new in ("tool.started", "attention.needed"):
        assert home.tells(what_says_nothing_new)["version"] == "2.1.400"


def test_a_link_for_a_remote_control_is_taken_while_there_is_one(home: Home) -> None:
    def change(url: object) -> dict[str, Any]:
        return {"type": "attachment", "attachment": {"type": "remote_session_change", "url": url}}

    home.writes(ask("one"), change("https://claude.ai/code/session_01abc"))
    assert home.tells()["url"] == "https://claude.ai/code/session_01abc"
    home.writes(change(None))
    assert "url" not in home.tells()


@pytest.mark.parametrize(
    "url",
    [
        "http://claude.ai/code/x",
        "https://claude.ai.example.com/x",
        "https://u:p@claude.ai/x",
        "javascript:x",
        7,
        None,
    ],
)
def test_no_other_link_is_a_sessions(url: object) -> None:
    assert session_link(url) is None


def test_only_what_was_appended_is_read_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.writes(ask("one"), *[answer("model-1") for _ in range(500)])
    home.tells()
    size = home.transcript.stat().st_size
    home.writes(answer("model-2"))
    from sessionpipe.harnesses.files import Opened

    read_at, offsets = Opened.read_at, []

    def noted(self: Opened, offset: int, length: int) -> bytes:
        offsets.append(offset)
        return read_at(self, offset, length)

    monkeypatch.setattr(Opened, "read_at", noted)
    assert home.tells()["model"] == "model-2"
    assert min(offsets) == size


def test_between_turns_a_known_transcript_is_left_alone(home: Home) -> None:
    home.writes(ask("one"), answer("model-1"))
    assert home.tells("tool.started")["model"] == "model-1"  # the first that is seen of it
    home.writes(answer("model-2"))
    assert home.tells("tool.ended") == {"version": "2.1.332"}
    assert home.tells("turn.ended")["model"] == "model-2"


def test_a_transcript_that_begins_anew_is_read_anew(home: Home) -> None:
    home.writes(ask("one"), answer("model-1"), answer("model-1"))
    home.tells()
    home.transcript.write_text("")
    home.writes(answer("model-2"))
    assert home.tells()["model"] == "model-2"


def test_of_a_large_transcript_only_the_end_is_read(home: Home) -> None:
    home.writes(ask("one"), *[answer("model-1", pad="x" * 5000) for _ in range(200)], answer("model-2"))
    assert home.tells()["model"] == "model-2"


# --- the title ----------------------------------------------------------------------------------------


def test_the_persons_name_for_it_beats_the_harnesss_and_the_first_ask(home: Home) -> None:
    home.writes(ask("Fix\nthe page"))
    assert home.tells() == {"title": "Fix the page", "title_source": "first-ask"}
    home.writes({"type": "ai-title", "aiTitle": "Page fix"})
    assert home.tells() == {"title": "Page fix", "title_source": "harness"}
    home.writes({"type": "custom-title", "customTitle": "my  page"}, {"type": "ai-title", "aiTitle": "Again"})
    assert home.tells() == {"title": "my page", "title_source": "custom"}


def test_a_name_in_the_payload_is_kept_unless_the_person_gave_another(home: Home) -> None:
    named = {"title": "From the payload", "title_source": "harness"}
    home.writes(ask("Fix"), {"type": "ai-title", "aiTitle": "Page fix"})
    assert home.tells(session=named) == {}
    home.writes({"type": "custom-title", "customTitle": "mine"})
    assert home.tells(session=named) == {"title": "mine", "title_source": "custom"}


def test_an_empty_name_is_none(home: Home) -> None:
    home.writes(ask("Fix"), {"type": "custom-title", "customTitle": " "}, {"type": "ai-title", "aiTitle": ""})
    assert home.tells()["title"] == "Fix"


def test_before_there_is_a_transcript_the_prompt_is_the_first_ask(home: Home) -> None:
    assert home.tells("turn.started", prompt="Fix the page") == {
        "title": "Fix the page",
        "title_source": "first-ask",
    }
    assert home.tells("turn.started", prompt="/compact") == {}
    assert home.tells("session.started") == {}


def test_a_later_prompt_is_no_title(home: Home) -> None:
    home.writes(ask("First"), answer("model-1"))
    assert home.tells("turn.started", prompt="Second")["title"] == "First"


def test_what_is_no_ask_is_skipped(home: Home) -> None:
    home.writes(
        ask("a caveat", isMeta=True),
        ask("<command-name>/model</command-name>"),
        ask("<local-command-stdout>set</local-command-stdout>"),
        ask("<task-notification>done</task-notification>"),
        ask("Really fix it"),
    )
    assert home.tells()["title"] == "Really fix it"


def test_a_first_ask_out_of_sight_is_not_guessed(home: Home) -> None:
    home.writes({"type": "attachment", "attachment": {"pad": "x" * 300_000}}, ask("First"), answer("model-1"))
    assert "title" not in home.tells("turn.started", prompt="Second")


def test_a_fork_is_named_by_its_own_first_ask(tmp_path: Path) -> None:
    told = json.loads((RECORDED / "resume-fork.json").read_text())
    home = Home(tmp_path / "somebody")
    home.transcript.write_bytes((RECORDED / "resume-fork.jsonl").read_bytes())
    assert told["reads"][0]["exchanges"][0]["user"] == "Fourth prompt"
    assert home.tells()["title"] == "Fourth prompt"


@pytest.mark.parametrize(
    ("recording", "expected"),
    [
        ("text-plain", ("Say hello", "first-ask", "claude-opus-5-5")),
        ("tui-title", ("Fake session title", "harness", "claude-opus-5-5")),
        ("tui-compact-switch", ("lab session name", "custom", "claude-sonnet-5-5")),
        ("api-error-429", ("Trigger error", "first-ask", None)),
        ("slash-skill", (None, None, "claude-opus-5-5")),
    ],
)
def test_recorded_sessions(home: Home, recording: str, expected: tuple[str | None, ...]) -> None:
    home.transcript.write_bytes((RECORDED / f"{recording}.jsonl").read_bytes())
    found = home.tells()
    assert (found.get("title"), found.get("title_source"), found.get("model")) == expected
    assert found["version"] == "2.1.332"


def test_a_subagent_tells_only_the_account(home: Home) -> None:
    home.has(".claude.json", {"oauthAccount": {"accountUuid": "a1b2"}})
    home.writes(ask("one"), answer("model-1"))
    assert home.tells("subagent.ended", thread="agent-1") == {"account_id": "a1b2"}


@pytest.mark.parametrize("file", [None, 7, "relative.jsonl", "/etc/passwd", "/\0.jsonl", ["x"]])
def test_a_path_that_is_no_transcripts_tells_nothing(home: Home, file: object) -> None:
    assert home.tells(file=file) == {}


@pytest.mark.parametrize(
    "junk", [b"\0" * 2000, b"\xff\xfe\n" * 50, b"[]\n{}\nnull\n", b'{"type":"ai-title"' * 400]
)
def test_a_broken_transcript_tells_nothing(home: Home, junk: bytes) -> None:
    home.transcript.write_bytes(junk)
    assert home.tells() == {}


# --- the account --------------------------------------------------------------------------------------

ACCOUNT = {"oauthAccount": {"accountUuid": "a1b2-c3", "emailAddress": "someone@example.com"}, "projects": {}}


def test_the_default_folders_account_lies_in_the_home(home: Home) -> None:
    home.has(".claude.json", ACCOUNT)
    assert home.tells() == {"account_id": "a1b2-c3"}
    home.env["CLAUDE_CONFIG_DIR"] = str(home.root / ".claude") + "/"
    assert home.tells() == {"account_id": "a1b2-c3"}


def test_another_folder_has_its_own_account(home: Home) -> None:
    home.has(".claude.json", ACCOUNT)
    home.env["CLAUDE_CONFIG_DIR"] = str(home.root / ".claude-work")
    assert home.tells() == {}
    home.has(".claude-work/.claude.json", {"oauthAccount": {"accountUuid": "work"}})
    assert home.tells() == {"account_id": "work"}


def test_an_account_that_changes_is_seen(home: Home) -> None:
    home.has(".claude.json", ACCOUNT)
    home.tells()
    home.has(".claude.json", {"oauthAccount": {"accountUuid": "somebody-else"}})
    assert home.tells() == {"account_id": "somebody-else"}


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"oauthAccount":"x"}', '{"oauthAccount":{"accountUuid":7}}', '{"oauthAccount":{}}',
     '{"oauthAccount":{"accountUuid":"someone@example.com"}}', '{"oauthAccount":{"accountUuid":"a\\nb"}}',
     "[" * 99_999],
)  # fmt: skip
def test_an_account_file_that_says_no_id_gives_none(home: Home, content: str) -> None:
    home.has(".claude.json", content)
    assert home.tells() == {}


def test_a_settings_file_that_is_too_large_is_not_read(home: Home) -> None:
    home.has(".claude.json", ACCOUNT)
    for name in (".claude.json", ".claude/settings.json"):
        with (home.root / name).open("ab") as file:
            file.truncate(1 << 40)  # sparse
    assert home.tells() == {}


def test_a_home_on_another_api_is_named_by_its_endpoint(home: Home) -> None:
    home.has(".claude.json", ACCOUNT)
    home.has(".claude/settings.json", {"env": {"ANTHROPIC_BASE_URL": "https://llm.example.com:8443/v1?x"}})
    origin = hashlib.sha256(b"https://llm.example.com:8443").hexdigest()
    assert home.tells() == {"account_id": f"api-{origin[:16]}"}


def test_one_origin_is_one_account() -> None:
    assert (
        endpoint_account("https://LLM.example.com/a")
        == endpoint_account(" https://user:word@llm.example.com:443/b?c ")
        == "api-" + hashlib.sha256(b"https://llm.example.com").hexdigest()[:16]
    )
    assert (
        endpoint_account("http://[::1]:8080")
        == "api-" + hashlib.sha256(b"http://[::1]:8080").hexdigest()[:16]
    )


@pytest.mark.parametrize(
    "url",
    ["https://api.anthropic.com", "https://anthropic.com/", "", "no url", "ftp://example.com", "https://", "http://h:x",
     None, 7],
)  # fmt: skip
def test_anthropics_own_endpoint_and_what_is_none_name_nobody(url: object) -> None:
    assert endpoint_account(url) is None


def test_without_a_home_nothing_is_looked_for(home: Home) -> None:
    draft = {"type": "turn.ended", "session": {"id": ID}, "data": {}}
    assert facts(draft, Context({}, "/", 0, None), Files()) == {}
    assert facts(draft, Context({"CLAUDE_CONFIG_DIR": "relative"}, "/", 0, None), Files()) == {}


# --- turns whose end no hook tells --------------------------------------------------------------------

TURN = "aaaaaaaa-1111-4222-8333-444444444444"
NEXT = "bbbbbbbb-1111-4222-8333-444444444444"


def at(second: int) -> int:
    return 1_795_975_000_000 + second * 1000


def stamped(second: int, record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "timestamp": rfc3339(at(second))}


def interruption(second: int, suffix: str = "", turn: str = TURN) -> dict[str, Any]:
    content = [{"type": "text", "text": f"[Request interrupted by user{suffix}]"}]
    return stamped(second, ask("", promptId=turn) | {"message": {"role": "user", "content": content}})


def failure(second: int, error: object = "server_error") -> dict[str, Any]:
    return stamped(second, answer("<synthetic>", isApiErrorMessage=True, error=error))


def max_turns(second: int) -> dict[str, Any]:
    attachment = {"type": "max_turns_reached", "maxTurns": 1, "turnCount": 2}
    return stamped(second, {"type": "attachment", "attachment": attachment})


def ends(home: Home, kind: str, second: int, turn: str | None = None, **memo: Any) -> list[dict[str, Any]]:
    """What is told with a hook, before what the hook itself tells."""
    hook = {
        "type": kind,
        "at_ms": at(second),
        "harness": {"name": "claude-code", "event": "Hook"},
        "session": {"id": ID},
        "data": {"turn_id": turn} if turn else {},
        "memo": {"file": str(home.transcript), **memo},
    }
    *told, last = missed([hook], Context(home.env, "/src", at(second), str(home.root)), home.files)
    assert last == hook
    assert all(draft["type"] == "turn.ended" and draft["memo"] == {"only_running": True} for draft in told)
    return [{**draft["data"], "at": (draft["at_ms"] - at(0)) // 1000} for draft in told]


class TestMissed:
    @pytest.mark.parametrize("suffix", ["", " for tool use"])
    def test_an_interrupted_turn_is_told_at_the_next_hook(self, home: Home, suffix: str) -> None:
        home.writes(stamped(1, ask("one", promptId=TURN)), interruption(3, suffix))
        told = [{"turn_id": TURN, "reason": "interrupt", "at": 3}]
        assert ends(home, "turn.started", 9, NEXT) == told
        assert ends(home, "session.ended", 10) == told

    def test_words_about_an_interruption_are_none(self, home: Home) -> None:
        home.writes(stamped(1, ask("what is [Request interrupted by user] for?", promptId=TURN)))
        assert ends(home, "turn.started", 9, NEXT) == []

    def test_what_happened_after_the_hook_is_not_its_to_tell(self, home: Home) -> None:
        home.writes(stamped(1, ask("one", promptId=TURN)), interruption(3))
        assert ends(home, "turn.started", 2, TURN) == []

    def test_of_several_none_is_left_out(self, home: Home) -> None:
        home.writes(
            stamped(1, ask("one", promptId=TURN)),
            interruption(2),
            stamped(3, ask("two", promptId=NEXT)),
            interruption(4, turn=NEXT),
        )
        assert [told["turn_id"] for told in ends(home, "session.ended", 5)] == [TURN, NEXT]

    def test_a_run_that_an_error_stopped_fires_only_its_sessions_end(self, home: Home) -> None:
        home.writes(stamped(1, ask("one", promptId=TURN)), failure(2))
        told = [{"turn_id": TURN, "reason": "error", "error": "server_error", "at": 2}]
        assert ends(home, "session.ended", 3) == told
        assert ends(home, "turn.started", 3, NEXT) == told

    @pytest.mark.parametrize("error", [None, 529, "An Error", ["x"]])
    def test_an_error_without_a_class_is_unknown(self, home: Home, error: object) -> None:
        home.writes(stamped(1, ask("one", promptId=TURN)), failure(2, error))
        assert ends(home, "session.ended", 3)[0]["error"] == "unknown"

    def test_an_error_in_a_turn_that_goes_on_ends_nothing(self, home: Home) -> None:
        home.writes(stamped(1, ask("one", promptId=TURN)), failure(2))
        assert ends(home, "turn.ended", 3, TURN) == ends(home, "turn.started", 3, TURN) == []
        home.writes(stamped(4, answer("model-1")))
        assert ends(home, "session.ended", 5) == []

    def test_a_run_that_used_up_its_turns_ended_in_an_error(self, home: Home) -> None:
        home.writes(stamped(1, ask("one", promptId=TURN)), stamped(2, answer("model-1")), max_turns(3))
        told = {"turn_id": TURN, "reason": "error", "error": "max_turns_reached", "at": 3}
        assert ends(home, "session.ended", 4) == [told]

    def test_a_subagent_ends_no_turn(self, home: Home) -> None:
        home.writes(stamped(1, ask("one", promptId=TURN)), interruption(3))
        assert ends(home, "turn.started", 9, NEXT, thread="a1") == []

    def test_a_call_looks_for_nothing(self, home: Home) -> None:
        home.writes(stamped(1, ask("one", promptId=TURN)), interruption(3))
        assert ends(home, "tool.started", 9, NEXT) == []

    def test_without_a_transcript_nothing_is_told(self, home: Home) -> None:
        assert ends(home, "session.ended", 3) == []

    def test_recorded_interruptions(self, home: Home, shared: Path) -> None:
        (recorded,) = (shared / "recordings/claude-code/tui-interrupt").glob("files/projects/*/*.jsonl")
        home.transcript.write_bytes(recorded.read_bytes())
        told = ends(home, "session.ended", 2**31)
        assert [(end["reason"], end["turn_id"][:8]) for end in told] == [
            ("interrupt", "e2c0eabb"),
            ("interrupt", "4394a17a"),
        ]


# --- what was there before us -------------------------------------------------------------------------


class TestHistory:
    def found(self, home: Home, since_ms: int = 0) -> list[Past]:
        return list(history(Context(home.env, "/", 0, str(home.root)), since_ms, home.files))

    def session(self, home: Home) -> None:
        home.writes(
            stamped(1, ask("Fix it", cwd="/src/a", gitBranch="main")),
            stamped(2, answer("model-1")),
            stamped(3, ask("And that", cwd="/src/b")),
            stamped(4, answer("model-2")),
        )

    def test_a_session_is_found_with_what_its_transcript_says(self, home: Home) -> None:
        home.has(
            ".claude.json", {"oauthAccount": {"accountUuid": "account-1", "emailAddress": "me@example.org"}}
        )
        self.session(home)
        block = {
            "model": "model-2",
            "cwd": "/src/a",
            "branch": "main",
            "title": "Fix it",
            "title_source": "first-ask",
            "account_id": "account-1",
        }
        assert self.found(home) == [Past(ID, at(1), at(4), 2, block, "2.1.332")]

    def test_its_name_is_the_persons_or_the_harnesss(self, home: Home) -> None:
        self.session(home)
        home.writes({"type": "ai-title", "aiTitle": "Mend the parser"})
        assert self.found(home)[0].block["title_source"] == "harness"
        home.writes({"type": "custom-title", "customTitle": "parser"})
        assert self.found(home)[0].block["title_source"] == "custom"

    def test_a_fork_is_not_named_by_what_it_copied(self, home: Home) -> None:
        home.writes(stamped(1, ask("The parent's")), stamped(2, answer("m", requestSessionId="parent")))
        home.writes(stamped(3, ask("My own")), stamped(4, answer("m")))
        assert self.found(home)[0].block["title"] == "My own"

    def test_a_subagents_transcript_is_no_session(self, home: Home) -> None:
        self.session(home)
        inner = home.transcript.parent / ID / "subagents"
        inner.mkdir(parents=True)
        for name in (inner / f"agent-{ID}.jsonl", home.transcript.parent / "agent-1a2b.jsonl"):
            name.write_bytes(home.transcript.read_bytes())
        assert len(self.found(home)) == 1

    def test_a_session_without_a_prompt_is_left_out(self, home: Home) -> None:
        home.writes(
            stamped(1, ask("<command-name>/clear</command-name>")),
            stamped(2, ask("what a subagent was told", isSidechain=True)),
            stamped(3, answer("model-1", isSidechain=True)),
        )
        assert self.found(home) == []

    def test_every_folder_of_the_persons_is_looked_in(self, home: Home, tmp_path: Path) -> None:
        self.session(home)
        places = [".claude-work", "../elsewhere"]
        for nth, name in enumerate(places):
            copy = home.root / name / "projects" / "-src" / f"{ID[:-1]}{nth}.jsonl"
            copy.parent.mkdir(parents=True)
            copy.write_bytes(home.transcript.read_bytes())
        home.has(".claude-work/.claude.json", {"oauthAccount": {"accountUuid": "work"}})
        home.env["CLAUDE_CONFIG_DIR"] = str(tmp_path / "elsewhere")
        found = {past.session_id: past.block.get("account_id") for past in self.found(home)}
        assert found == {ID: None, f"{ID[:-1]}0": "work", f"{ID[:-1]}1": None}

    def test_one_that_has_not_changed_since_is_not_opened(self, home: Home) -> None:
        self.session(home)
        os.utime(home.transcript, (1_000, 1_000))
        assert self.found(home, 1_000_001) == []

    def test_a_large_one_is_not_read_whole(self, home: Home, bytes_read: list[int]) -> None:
        self.session(home)
        with home.transcript.open("a") as file:
            file.write((json.dumps({"type": "attachment", "x": "y" * (1 << 20)}) + "\n") * 20)
        home.writes(stamped(9, answer("model-3")))
        (past,) = self.found(home)
        assert (past.turns, past.last_ms, past.block["model"]) == (None, at(9), "model-3")
        assert sum(bytes_read) < 8 << 20

    @pytest.mark.parametrize("junk", [b"", b"\xff\n", b"[]\n", b'{"type":{}}\n'])
    def test_a_broken_transcript_is_no_session(self, home: Home, junk: bytes) -> None:
        home.transcript.write_bytes(junk)
        assert self.found(home) == []
