"""What Gemini CLI's chats say about sessions and turns."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.harnesses.context import Context
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.gemini_cli import amend, facts, history, missed
from sessionpipe.harnesses.history import Past
from sessionpipe.protocol import rfc3339

ID = "eed896d3-792c-4ee6-a314-5a833a6ccd37"
NAME = "session-2026-11-29T18-19-eed896d3.jsonl"
CONTEXT = (
    "<session_context>\nThis is the Gemini CLI.\n- **Workspace Directories:**\n  - /home/dev/src/a b\n- more\n"
    "</session_context>"
)


def at(second: int) -> int:
    return 1_795_975_000_000 + second * 1000


class Home:
    """A person's home directory with Gemini CLI in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = Files()
        self.env: dict[str, str] = {}
        self.chat = root / ".gemini" / "tmp" / "a-b" / "chats" / NAME
        self.chat.parent.mkdir(parents=True)

    def writes(self, **record: Any) -> Home:
        with self.chat.open("a") as file:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
        return self

    def begins(self, **more: Any) -> Home:
        self.writes(sessionId=ID, projectHash="x", startTime=rfc3339(at(0)), kind="main", **more)
        context = {"id": "c", "timestamp": rfc3339(at(0)), "type": "user", "content": [{"text": CONTEXT}]}
        return self.sets(messages=[context])

    def sets(self, **change: Any) -> Home:
        return self.writes(**{"$set": change})

    def message(self, second: int, kind: str, content: object, **more: Any) -> Home:
        self.writes(id=f"m{second}", timestamp=rfc3339(at(second)), type=kind, content=content, **more)
        return self.sets(lastUpdated=rfc3339(at(second)))

    def asks(self, second: int, text: str) -> Home:
        return self.message(second, "user", [{"text": text}])

    def says(self, second: int, text: str = "answer", model: object = "gemini-2.5-pro") -> Home:
        return self.message(second, "gemini", text, model=model)

    def is_cancelled(self, second: int) -> Home:
        return self.message(second, "info", "Request cancelled.")

    def draft(self, kind: str, second: int = 99, **memo: Any) -> dict[str, Any]:
        data = {"reason": "stop"} if kind == "turn.ended" else {}
        return {
            "type": kind,
            "at_ms": at(second),
            "harness": {"name": "gemini-cli", "event": "Hook"},
            "session": {"id": ID},
            "data": data,
            "memo": {"file": str(self.chat), **memo},
        }

    @property
    def context(self) -> Context:
        return Context(self.env, "/src", 0, str(self.root))

    def tells(self, kind: str = "turn.ended", **memo: Any) -> dict[str, Any]:
        return facts(self.draft(kind, **memo), self.context, self.files)

    def ends(self, second: int) -> dict[str, Any]:
        """A turn's end as the table maps it, after the chat had its say."""
        want = {"path": str(self.chat), "said": "x", "final": False}
        (told,) = amend([self.draft("turn.ended", second, transcript=want)], self.context, self.files)
        return {"reason": told["data"]["reason"], "said": told["memo"]["transcript"]["said"]}

    def compresses(self, second: int) -> Home:
        """All messages anew, a summary for most of them."""
        context = {"id": "c", "timestamp": rfc3339(at(0)), "type": "user", "content": [{"text": CONTEXT}]}
        summary = {"id": f"s{second}", "timestamp": rfc3339(at(second)), "type": "user"}
        return self.sets(
            messages=[context, {**summary, "content": [{"text": "<state_snapshot>x</state_snapshot>"}]}]
        )

    def missed(self, kind: str, second: int) -> list[tuple[str, int]]:
        """What is told before a hook's own, as (reason or trigger, second)."""
        *told, last = missed([self.draft(kind, second)], self.context, self.files)
        assert last == self.draft(kind, second)
        assert all(draft["memo"] == {"only_running": True} for draft in told)
        words = [draft["data"].get("reason") or draft["data"]["trigger"] for draft in told]
        return [(word, (draft["at_ms"] - at(0)) // 1000) for word, draft in zip(words, told, strict=True)]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "somebody")


class TestFacts:
    def test_the_model_is_the_one_that_answered_last(self, home: Home) -> None:
        home.begins().asks(1, "Fix").says(2).says(3, model="gemini-2.5-flash").says(4, model=7)
        assert home.tells() == {"model": "gemini-2.5-flash", "title": "Fix", "title_source": "first-ask"}

    def test_a_summary_is_the_harnesss_name_for_it(self, home: Home) -> None:
        home.begins().asks(1, "Fix").sets(summary="Mend  the\nparser")
        assert home.tells() == {"title": "Mend the parser", "title_source": "harness"}

    def test_before_the_chat_has_a_prompt_the_hooks_is_the_first_ask(self, home: Home) -> None:
        home.begins()
        told = home.tells("turn.started", prompt="Fix\nit")
        assert told == {"title": "Fix it", "title_source": "first-ask"}

    @pytest.mark.parametrize("prompt", ["/help", "?", "", CONTEXT])
    def test_what_is_no_ask_names_nothing(self, home: Home, prompt: str) -> None:
        assert home.tells("turn.started", prompt=prompt) == {}

    def test_a_later_prompt_is_no_title(self, home: Home) -> None:
        home.begins().asks(1, "Fix")
        assert home.tells("turn.started", prompt="And that")["title"] == "Fix"

    def test_a_first_ask_out_of_sight_is_not_guessed(self, home: Home) -> None:
        home.begins()
        for second in range(9):
            home.message(second, "info", "x" * (256 << 10))
        home.asks(10, "Far away")
        assert home.tells("turn.started", prompt="And that") == {}

    def test_nothing_is_read_between_turns(self, home: Home, bytes_read: list[int]) -> None:
        home.begins().asks(1, "Fix").says(2)
        home.tells()
        bytes_read.clear()
        home.says(3)
        assert home.tells("tool.started")["title"] == "Fix"
        assert bytes_read == []

    @pytest.mark.parametrize("junk", [b"", b"\xff\xfe\n", b"[]\n", b'{"$set":[]}\n{"type":{}}\n'])
    def test_a_broken_chat_tells_nothing(self, home: Home, junk: bytes) -> None:
        home.chat.write_bytes(junk)
        assert home.tells() == {}


class TestInterruptions:
    def test_an_end_of_a_turn_that_was_stopped_is_an_interruption(self, home: Home) -> None:
        home.begins().asks(1, "one").says(2).asks(3, "two").is_cancelled(5)
        assert home.ends(2) == {"reason": "stop", "said": "x"}
        assert home.ends(5) == {"reason": "interrupt", "said": None}

    def test_a_turn_behind_one_that_was_stopped_is_none(self, home: Home) -> None:
        home.begins().asks(1, "one").is_cancelled(2).asks(3, "two").says(4)
        assert home.ends(4) == {"reason": "stop", "said": "x"}

    def test_a_turn_whose_call_was_declined_ends_at_the_next_hook(self, home: Home) -> None:
        home.begins().asks(1, "one").is_cancelled(3)
        assert home.missed("turn.started", 2) == []
        assert home.missed("turn.started", 9) == [("interrupt", 3)]
        assert home.missed("session.ended", 9) == [("interrupt", 3)]
        assert home.missed("turn.ended", 9) == []

    def test_a_history_that_is_written_anew_asks_nothing(self, home: Home) -> None:
        home.begins().asks(1, "one").is_cancelled(2)
        home.message(2, "user", [{"text": CONTEXT}, {"text": "zero"}]).asks(2, "one").sets(messages=[])
        assert home.ends(2) == {"reason": "interrupt", "said": None}

    def test_a_chat_that_is_not_there_changes_nothing(self, home: Home) -> None:
        assert home.ends(2) == {"reason": "stop", "said": "x"}
        assert home.missed("session.ended", 9) == []


class TestCompressions:
    def test_one_is_told_at_the_turns_end(self, home: Home) -> None:
        home.begins().asks(1, "one").compresses(2).says(3)
        assert home.missed("turn.ended", 4) == [("auto", 2)]

    def test_in_the_order_of_what_happened(self, home: Home) -> None:
        home.begins().asks(1, "one").compresses(2).is_cancelled(3)
        assert home.missed("turn.started", 4) == [("auto", 2), ("interrupt", 3)]

    def test_a_summary_that_is_written_again_is_none(self, home: Home) -> None:
        home.begins().asks(1, "one").compresses(2).says(3).compresses(2)
        assert home.missed("turn.ended", 4) == [("auto", 2)]

    def test_nor_is_one_in_a_history_that_is_written_anew(self, home: Home) -> None:
        home.begins().asks(1, "one").is_cancelled(2)
        home.message(2, "user", [{"text": CONTEXT}]).compresses(2)
        assert home.missed("turn.started", 4) == [("interrupt", 2)]

    def test_what_happened_after_the_hook_is_not_its_to_tell(self, home: Home) -> None:
        home.begins().asks(1, "one").compresses(5)
        assert home.missed("turn.ended", 4) == []


class TestHistory:
    def found(self, home: Home, since_ms: int = 0) -> list[Past]:
        return list(history(home.context, since_ms, home.files))

    def test_a_session_is_found_with_what_its_chat_says(self, home: Home) -> None:
        home.begins().asks(1, "Fix it").says(2).asks(3, "And that").says(4)
        block = {
            "cwd": "/home/dev/src/a b",
            "model": "gemini-2.5-pro",
            "title": "Fix it",
            "title_source": "first-ask",
        }
        assert self.found(home) == [Past(ID, at(0), at(4), 2, block)]

    def test_the_projects_own_word_for_its_folder_counts(self, home: Home) -> None:
        home.begins().asks(1, "Fix it")
        (home.chat.parent.parent / ".project_root").write_text("/home/dev/elsewhere\n")
        assert self.found(home)[0].block["cwd"] == "/home/dev/elsewhere"

    def test_a_folder_that_is_none_is_left_out(self, home: Home) -> None:
        home.begins().asks(1, "Fix it")
        (home.chat.parent.parent / ".project_root").write_text("elsewhere")
        assert "cwd" not in self.found(home)[0].block

    def test_a_subagents_chat_is_no_session(self, home: Home) -> None:
        home.writes(sessionId=ID, projectHash="x", startTime=rfc3339(at(0)), kind="subagent").asks(1, "Task")
        assert self.found(home) == []

    def test_a_session_without_a_prompt_is_left_out(self, home: Home) -> None:
        home.begins().message(1, "user", [{"text": "/help"}])
        assert self.found(home) == []

    def test_one_that_has_not_changed_since_is_not_opened(self, home: Home) -> None:
        home.begins().asks(1, "Fix it")
        os.utime(home.chat, (1_000, 1_000))
        assert self.found(home, 1_000_001) == []
        assert len(self.found(home, 1_000_000)) == 1

    def test_another_home_of_geminis_is_looked_in(self, home: Home, tmp_path: Path) -> None:
        home.begins().asks(1, "Fix it")
        home.env["GEMINI_CLI_HOME"] = str(tmp_path / "elsewhere")
        assert self.found(home) == []
        home.env["GEMINI_CLI_HOME"] = str(home.root)
        assert len(self.found(home)) == 1

    def test_of_a_large_one_the_turns_are_not_counted(self, home: Home) -> None:
        home.begins().asks(1, "Fix it").message(2, "info", "x" * (5 << 20)).says(3)
        (past,) = self.found(home)
        assert (past.turns, past.last_ms, past.block["title"]) == (None, at(3), "Fix it")
