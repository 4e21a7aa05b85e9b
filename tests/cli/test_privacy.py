"""``privacy``: the rules in force, what a sink got, and what today's rules say of what is stored."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessionpipe import redaction
from sessionpipe.clock import now_ms
from sessionpipe.config import load
from sessionpipe.delivery.courier import Courier
from sessionpipe.paths import config_dir
from tests.privacy.recipes import generated

TOKEN = "ghp_" + generated(36)
GLOBEX = 'id = "acme@1"\n[[rule]]\nid = "customers"\nwords = ["Globex"]\n'


@pytest.fixture
def own() -> Iterator[Callable[[str], None]]:
    """Writes the person's own rules, which are gone afterwards."""
    folder = config_dir() / redaction.FOLDER

    def write(text: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "acme.toml").write_text(text)
        redaction.refresh(config_dir())

    redaction.refresh(config_dir())
    yield write
    (folder / "acme.toml").unlink(missing_ok=True)
    redaction.refresh(config_dir())


class TestRules:
    def test_what_is_in_force_is_listed(self, run: Any, own: Any) -> None:
        own(GLOBEX)
        done = run("privacy", "rules")
        assert done.exit_code == 0, done.output
        assert "acme@1  your own, from acme.toml: customers" in done.output
        found = json.loads(run("privacy", "rules", "--json").output)
        assert [one["id"] for one in found["rulesets"]] == ["secrets@1", "acme@1", "pii@1"]

    def test_what_is_refused_is_said_with_its_reason_also_by_doctor(self, run: Any, own: Any) -> None:
        own(GLOBEX + "[[rule]]\nid = 'bad'\npattern = '['")
        done = run("privacy", "rules")
        assert done.exit_code == 1
        assert "refused: acme.toml: rule bad: its pattern is no regular expression" in done.output
        findings = json.loads(run("doctor", "--json").output)["findings"]
        (refused,) = [one for one in findings if one["check"] == "rules" and one["level"] == "fail"]
        assert "rule bad" in refused["message"]
        assert "privacy rules" in refused["mend"]

    def test_redact_and_filter_use_them(self, run: Any, own: Any) -> None:
        own(GLOBEX)
        assert run("redact", input="for Globex").output == "for [redacted]"
        event = {"type": "turn.ended", "data": {"reason": "error", "error": f"Globex {TOKEN}"}}
        found = json.loads(run("filter", "--tier", "1", "--pii", input=json.dumps(event)).output)
        assert found["data"]["error"] == "[redacted] [redacted]"
        assert found["privacy"]["rulesets"] == ["secrets@1", "acme@1", "pii@1"]


@pytest.fixture
def sink(recorder: Any, config_file: Path, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Delivers what is there to a file under these settings; everything the file then has."""
    out = tmp_path / "out.ndjson"

    def deliver(**settings: Any) -> list[dict[str, Any]]:
        rows = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        config_file.write_text(
            "\n".join(["[[sinks]]", 'name = "f"', 'kind = "file"', f'path = "{out}"', *rows])
        )
        recorder.outbox.add_sink("f", 0)
        (config,) = load(config_file.parent).sinks
        courier = Courier(config, recorder.outbox, stop=threading.Event(), log=lambda *_: None)
        while courier.step(now_ms()).progress:
            pass
        courier.close()
        return [json.loads(line) for line in out.read_text().splitlines()]

    return deliver


class TestShow:
    def busy(self, recorder: Any, turns: int = 3) -> None:
        for turn in range(turns):
            recorder.add("one", "turn.started", {"turn": turn, "prompt_chars": 9})
            for call in ("a", "b"):
                recorder.add("one", "tool.started", {"tool": "Bash", "call_id": call})
                recorder.add(
                    "one",
                    "tool.ended",
                    {"tool": "Bash", "call_id": call, "ok": False, "error": "/home/jane/x"},
                )
            recorder.add("one", "turn.ended", {"reason": "done"})

    @pytest.mark.parametrize(
        "settings",
        [
            {"tier": 0},
            {"tier": 1},
            {"tier": 1, "pii": True},
            {"tier": 1, "tools": "beat"},
            {"tier": 3, "tools": "main"},
        ],
    )
    def test_it_is_what_the_sink_has(
        self, run: Any, recorder: Any, sink: Any, own: Any, settings: dict[str, Any]
    ) -> None:
        self.busy(recorder)
        has = sink(**settings)
        recorder.add("one", "turn.started", {"turn": 9})  # Recorded, and not sent yet.
        found = json.loads(run("privacy", "show", "f", "--json").stdout)
        assert found["events"] == has[-10:]
        assert found["notes"] == []
        assert found["tier"] == settings["tier"]
        assert json.loads(run("privacy", "show", "f", "--last", "1", "--json").stdout)["events"] == has[-1:]

    def test_a_setting_that_was_changed_since_is_said_and_changes_nothing(
        self, run: Any, recorder: Any, sink: Any, config_file: Path, own: Any
    ) -> None:
        self.busy(recorder)
        has = sink(tier=0)
        config_file.write_text(config_file.read_text().replace("tier = 0", "tier = 2\npii = true"))
        found = json.loads(run("privacy", "show", "f", "--json").stdout)
        assert found["events"] == has[-10:]
        assert found["notes"] == ["its tier was changed since: 2 now", "pii was turned on since"]

    def test_what_went_under_other_terms_is_left_out(
        self, run: Any, recorder: Any, sink: Any, own: Any
    ) -> None:
        self.busy(recorder)
        before = sink(tier=0)
        recorder.add("two", "turn.started", {"turn": 0, "prompt_chars": 3})
        has = sink(tier=1)
        found = json.loads(run("privacy", "show", "f", "--json").stdout)
        assert found["events"] == has[len(before) :]
        assert "left out" in found["notes"][0]

    def test_people_read_it_one_event_under_the_other(
        self, run: Any, recorder: Any, sink: Any, own: Any
    ) -> None:
        recorder.add("one", "turn.ended", {"reason": "error", "error": "a\x9bb"})
        sink(tier=1)
        done = run("privacy", "show", "f")
        assert done.exit_code == 0
        assert '"type": "turn.ended"' in done.stdout
        assert "\x9b" not in done.stdout
        assert "tier 1" in done.stderr

    def test_a_sink_that_got_nothing_says_so(self, run: Any, recorder: Any, config_file: Path) -> None:
        config_file.write_text('[[sinks]]\nname = "f"\nkind = "stdout"\n')
        done = run("privacy", "show", "f")
        assert (done.exit_code, done.stdout) == (0, "")
        assert "it got nothing" in done.stderr

    def test_a_sink_nobody_knows_is_named(self, run: Any) -> None:
        done = run("privacy", "show", "nobody")
        assert done.exit_code == 1
        assert "there is no sink nobody" in done.stderr


def on_disk(recorder: Any) -> bytes:
    return b"".join(path.read_bytes() for path in recorder.state.root.rglob("outbox.db*"))


class TestScan:
    def test_an_outbox_in_order_is_said_to_be(self, run: Any, recorder: Any) -> None:
        recorder.add("one", "turn.ended", {"reason": "error", "error": "nothing"})
        done = run("privacy", "scan")
        assert (done.exit_code, done.output) == (0, "today's rules find nothing in 1 stored events\n")

    def test_nothing_recorded_yet_is_in_order(self, run: Any) -> None:
        assert run("privacy", "scan").exit_code == 0

    def test_what_is_found_is_named_and_never_shown(self, run: Any, recorder: Any) -> None:
        recorder.add("one", "turn.started", {"turn": 0})
        recorder.add("one", "turn.ended", {"reason": "error", "error": f"bad {TOKEN}"}, title=f"t {TOKEN}")
        done = run("privacy", "scan")
        assert done.exit_code == 1
        assert "#2" in done.output
        assert "turn.ended: session.title, data.error  redacted under revision 1" in done.output
        assert "would redact 1 of 2 stored events, in 1 sessions" in done.output
        assert "--rewrite" in done.output
        assert TOKEN not in done.output
        found = json.loads(run("privacy", "scan", "--json").output)
        assert (found["events"], found["found"], found["remembered"]) == (2, 1, 1)
        assert TOKEN.encode() in on_disk(recorder)

    def test_rewritten_it_is_gone_from_the_files_and_the_event_is_the_same(
        self, run: Any, recorder: Any
    ) -> None:
        event = recorder.add(
            "one",
            "turn.ended",
            {"reason": "error", "error": f"bad {TOKEN} " + "x" * 9_000},
            title=f"t {TOKEN}",
        )
        kept = recorder.add("one", "turn.started", {"turn": 1})
        before = recorder.outbox.read(0, 9)
        done = run("privacy", "scan", "--rewrite", "--yes")
        assert done.exit_code == 0, done.output
        assert "rewrote 2 events and what was remembered of 1 sessions" in done.output
        after = recorder.outbox.read(0, 9)
        assert [row[:6] for row in after] == [row[:6] for row in before]
        found, other = (json.loads(row.body) for row in after)
        assert (found["id"], found["session"]["seq"]) == (event["id"], 0)
        assert found["data"]["error"] == "bad [redacted] " + "x" * 9_000
        assert other["data"] == kept["data"]
        assert after[0].ruleset == redaction.PLAIN.stamp
        assert TOKEN.encode() not in on_disk(recorder)
        assert run("privacy", "scan").exit_code == 0

    def test_own_rules_count_too(self, run: Any, recorder: Any, own: Any) -> None:
        recorder.add("one", "turn.ended", {"reason": "error", "error": "Globex down"})
        assert run("privacy", "scan").exit_code == 0
        own(GLOBEX)
        assert run("privacy", "scan").exit_code == 1
        assert run("privacy", "scan", "--rewrite", "--json").exit_code == 0
        (row,) = recorder.outbox.read(0, 9)
        event = json.loads(row.body)
        assert event["data"]["error"] == "[redacted] down"
        assert event["privacy"]["rulesets"] == ["secrets@1", "acme@1"]

    def test_a_row_that_cannot_be_read_is_counted(self, run: Any, recorder: Any) -> None:
        with recorder.outbox.transaction() as tx:
            session = tx.session("claude-code", "one", 1)
            tx.append(session, "turn.ended", 1, 1, b"{")
            tx.save(session)
        found = json.loads(run("privacy", "scan", "--json").output)
        assert (found["unreadable"], found["found"]) == (1, 0)
