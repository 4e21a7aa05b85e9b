"""sessionpipe.adapters.engine: what holds for every harness, shown with a harness nobody has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from sessionpipe.adapters.engine import Draft, Refused, compile_adapter
from sessionpipe.adapters.values import Mistake
from sessionpipe.protocol import attention_id

TABLE: dict[str, Any] = {
    "harness": "lathe",
    "version": "made_by",
    "at": "when",
    "ignore": ["hum"],
    "claim": {
        "has": ["shop"],
        "foreign": [{"harness": "forge", "when": {"has": "anvil"}}],
    },
    "session": {
        "id": ["sid", "conversation"],
        "cwd": ["dir", "$env.LATHE_DIR", "$cwd"],
        "model": "model",
        "title": "name",
        "title_source": "=custom",
        "attended": "watched",
        "parent_id": "parent",
    },
    "fields": {
        "turn_id": "turn",
        "call_id": "call",
        "agent_id": "agent",
        "tool": "tool",
        "input": "input",
        "output": "output",
    },
    "ask": {"without": ["why"]},
    "transcript": {"path": "log"},
    "events": {
        "begin": {"standing": "recorded", "emit": [{"type": "session.started", "source": ["how", "=unknown"]}]},
        "say": {
            "standing": "recorded",
            "emit": [
                {
                    "type": "turn.started",
                    "prompt_chars": {"from": "text", "chars": True},
                    "injected": {"from": "text", "starts": ["<note>"]},
                    "memo": {"prompt": "text"},
                }
            ],
        },
        "cut": {"standing": "recorded", "also": ["Cut", "slice"], "emit": [{"type": "tool.started"}]},
        "done": {
            "standing": "recorded",
            "emit": [
                {"type": "tool.ended", "ok": "fine", "ms": "took"},
                {"type": "files.changed", "when": {"is": {"tool": "Carve"}}, "paths": {"all": ["input.path"]}},
            ],
        },
        "may": {
            "standing": "recorded",
            "emit": [
                {
                    "type": "attention.needed",
                    "kind": "=permission",
                    "attention_id": ["request", "$ask.id"],
                    "message": "$ask.message",
                }
            ],
        },
        "ping": {
            "standing": "documented",
            "emit": [
                {"type": "attention.needed", "kind": "=idle", "message": "text", "memo": {"echo": True}},
                {"type": "attention.cleared", "how": "=answered", "memo": {"kind": "=question"}},
            ],
        },
        "rest": {
            "standing": "recorded",
            "emit": [{"type": "turn.ended", "reason": "=stop", "memo": {"said": "last"}}],
        },
        "told": {
            "standing": "recorded",
            "payload": "argument",
            "emit": [{"type": "turn.ended", "reason": "=stop", "memo": {"only_known": True}}],
        },
        "end": {"standing": "recorded", "emit": [{"type": "session.ended", "reason": ["why", "=other"]}]},
    },
}  # fmt: skip

LATHE = compile_adapter("lathe", TABLE)


def hook(
    event: str,
    payload: Any = None,
    *,
    args: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    cwd: str = "/hook",
    partial: bool = False,
    **members: Any,
) -> list[Draft]:
    if payload is None:
        payload = json.dumps({"sid": "s-1", "shop": "main", **members}).encode()
    return LATHE.map(event, payload, args=args, env=env or {}, cwd=cwd, at_ms=1_000, partial=partial)


def only(drafts: list[Draft]) -> Draft:
    (draft,) = drafts
    return draft


def test_a_draft_says_who_when_and_what() -> None:
    assert only(hook("begin", how="resume", made_by="9.1", when=2_000.7, model="m-1", log="/log/s-1")) == {
        "type": "session.started",
        "at_ms": 2_000,
        "harness": {"name": "lathe", "event": "begin", "version": "9.1"},
        "session": {"id": "s-1", "cwd": "/hook", "model": "m-1"},
        "data": {"source": "resume"},
        "memo": {"file": "/log/s-1"},
    }


@pytest.mark.parametrize("name", ["cut", "Cut", "slice"])
def test_an_event_goes_by_every_name_it_has(name: str) -> None:
    draft = only(hook(name, tool="Saw"))
    assert (draft["type"], draft["harness"]["event"]) == ("tool.started", name)


@pytest.mark.parametrize("when", [None, -5, 0, True, "2000", float("nan"), 1e300])
def test_a_moment_that_is_none_is_the_hooks(when: Any) -> None:
    assert only(hook("begin", when=when))["at_ms"] == 1_000


class TestClaims:
    def test_an_event_that_is_known_to_mean_nothing_makes_nothing(self) -> None:
        assert hook("hum", b"not even JSON") == []

    def test_an_event_that_nobody_knows_is_refused(self) -> None:
        with pytest.raises(Refused, match="no event of this name"):
            hook("explode")

    def test_a_payload_of_another_harness_says_whose_it_is(self) -> None:
        with pytest.raises(Refused) as refused:
            hook("begin", anvil="heavy")
        assert refused.value.belongs_to == "forge"

    def test_a_payload_without_what_all_of_them_have_is_refused(self) -> None:
        with pytest.raises(Refused, match="it has no shop") as refused:
            hook("begin", b'{"sid":"s-1","shop":7}')
        assert refused.value.belongs_to is None

    @pytest.mark.parametrize(
        ("sid", "reason"),
        [
            (None, "no session id"),
            ("", "no session id"),
            (7, "its session id is not one"),
            ("../../etc", "its session id is not one"),
            ("x" * 129, "its session id is not one"),
            ("two\nlines", "its session id is not one"),
        ],
    )
    def test_a_session_id_is_one_or_the_payload_is_refused(self, sid: Any, reason: str) -> None:
        with pytest.raises(Refused, match=reason):
            hook("begin", sid=sid)

    def test_a_reason_quotes_nothing_of_the_payload(self) -> None:
        with pytest.raises(Refused) as refused:
            hook("begin", b'{"sid": "private \\u0000 words')
        assert "private" not in refused.value.reason


class TestSession:
    @pytest.mark.parametrize(
        ("folder", "variable", "found"),
        [
            ("/payload", "/variable", "/payload"),
            ("", "/variable", "/variable"),
            (7, "", "/hook"),
            ("relative/folder", "/variable", "/variable"),
            ("C:\\work", "/variable", "C:\\work"),
            ("file:///a%20folder", "", "/a folder"),
            ("file:///C:/work", "", "C:/work"),
            ("file://host/share", "", "//host/share"),
        ],
    )
    def test_the_folder_is_the_first_that_is_one(self, folder: Any, variable: str, found: str) -> None:
        assert only(hook("begin", dir=folder, env={"LATHE_DIR": variable}))["session"]["cwd"] == found

    def test_a_folder_that_is_not_text_is_made_text(self) -> None:
        assert only(hook("begin", cwd="/hook/\udcff"))["session"]["cwd"] == "/hook/\ufffd"

    def test_fields_of_another_type_are_absent(self) -> None:
        session = only(hook("begin", model={"id": "m"}, watched=1, parent="a b"))["session"]
        assert session == {"id": "s-1", "cwd": "/hook"}

    def test_where_a_title_came_from_is_said_with_a_title_only(self) -> None:
        assert "title_source" not in only(hook("begin"))["session"]
        assert only(hook("begin", name="Lamp"))["session"]["title_source"] == "custom"

    def test_lineage_comes_from_the_environment(self) -> None:
        env = {"SESSIONPIPE_LAUNCHED_BY": "claude-code:a", "SESSIONPIPE_ASKED_BY": "codex:b"}
        session = only(hook("begin", env=env))["session"]
        assert (session["launched_by"], session["delegated_by"]) == ("claude-code:a", "codex:b")

    @pytest.mark.parametrize("said", ["", "claude-code", "Claude:a", "claude-code:a b", "lathe:s-1"])
    def test_malformed_lineage_and_the_session_itself_are_ignored(self, said: str) -> None:
        env = {"SESSIONPIPE_LAUNCHED_BY": said, "SESSIONPIPE_ASKED_BY": said}
        assert only(hook("begin", env=env))["session"].keys() == {"id", "cwd"}

    def test_a_subagents_session_was_launched_by_its_parent_alone(self) -> None:
        session = only(hook("begin", parent="p-1", env={"SESSIONPIPE_LAUNCHED_BY": "codex:b"}))["session"]
        assert session["parent_id"] == "p-1"
        assert "launched_by" not in session

    def test_a_session_is_not_its_own_parent(self) -> None:
        assert "parent_id" not in only(hook("begin", parent="s-1"))["session"]


class TestTurns:
    def test_a_prompt_is_counted_in_code_points_and_kept_for_its_title(self) -> None:
        draft = only(hook("say", turn="t-1", text="né🚀"))
        assert draft["data"] == {"turn_id": "t-1", "prompt_chars": 3}
        assert draft["memo"] == {"prompt": "né🚀"}

    def test_a_prompt_the_harness_wrote_is_no_title(self) -> None:
        draft = only(hook("say", text="\n<note>wake up</note>"))
        assert draft["data"]["injected"] is True
        assert draft["memo"] == {}

    def test_the_end_of_a_turn_says_where_it_can_be_read_and_what_to_wait_for(self) -> None:
        draft = only(hook("rest", log="/log/s-1", last="Done."))
        assert draft["memo"]["transcript"] == {"path": "/log/s-1", "said": "Done.", "final": False}

    def test_the_end_of_a_session_says_that_the_file_is_final(self) -> None:
        draft = only(hook("end", why="clear"))
        assert draft["memo"]["transcript"] == {"path": None, "said": None, "final": True}

    def test_a_subagents_turn_is_not_the_sessions(self) -> None:
        assert hook("say", text="x", agent="a-1") == []
        assert hook("rest", agent="a-1") == []

    def test_a_payload_may_be_the_last_argument(self) -> None:
        draft = only(hook("told", b"", args=("--flag", '{"sid":"s-1","shop":"x"}')))
        assert draft["memo"]["only_known"] is True

    def test_no_argument_is_an_empty_payload(self) -> None:
        with pytest.raises(Refused, match="an empty payload"):
            hook("told", b'{"sid":"s-1","shop":"x"}')


class TestTools:
    def test_a_call_carries_what_the_harness_calls_it(self) -> None:
        draft = only(hook("cut", tool="Saw", call="c-1", turn="t-1", agent="a-1", input={"path": "/x"}))
        assert draft["data"] == {
            "tool": "Saw",
            "call_id": "c-1",
            "turn_id": "t-1",
            "agent_id": "a-1",
            "input": {"path": "/x"},
        }
        assert draft["memo"]["thread"] == "a-1"

    @pytest.mark.parametrize("tool", [None, "", "two words", 7, "x" * 121])
    def test_a_tool_without_a_proper_name_gives_no_tool_event(self, tool: Any) -> None:
        assert hook("cut", tool=tool) == []
        assert hook("done", tool=tool, fine=True) == []

    def test_an_end_that_does_not_say_how_it_ended_is_none(self) -> None:
        assert hook("done", tool="Saw", fine="yes") == []

    def test_a_call_and_its_request_are_known_by_the_same_hash(self) -> None:
        asked = {"path": "/x", "why": "to cut it"}
        request = only(hook("may", tool="Saw", turn="t-1", input=asked))
        call = only(hook("cut", tool="Saw", turn="t-1", input={"path": "/x"}))
        assert request["data"]["attention_id"] == attention_id("t-1", "Saw", asked)
        assert request["memo"]["ask"] == call["memo"]["ask"] == attention_id("t-1", "Saw", {"path": "/x"})

    @pytest.mark.parametrize(
        ("folder", "path", "changed"),
        [
            ("/work", "/abs/f", "/abs/f"),
            ("/work", "src/../f", "/work/f"),
            ("/work", "~/notes", "~/notes"),
            ("C:\\work", "src\\f", "C:\\work\\src\\f"),
            ("C:\\work", "D:\\f", "D:\\f"),
            ("/work", "file:///work/a%20b", "/work/a b"),
            ("C:\\work", "file:///C:/work/f", "C:/work/f"),
        ],
    )
    def test_a_changed_file_is_seen_from_the_sessions_folder(
        self, folder: str, path: str, changed: str
    ) -> None:
        _, files = hook("done", tool="Carve", fine=True, dir=folder, input={"path": path})
        assert files["data"] == {"paths": [changed]}

    def test_a_file_event_without_a_path_is_none(self) -> None:
        assert [d["type"] for d in hook("done", tool="Carve", fine=True, input={})] == ["tool.ended"]


class TestAttention:
    def test_the_requests_own_id_goes_before_one_made_of_it(self) -> None:
        assert only(hook("may", tool="Saw", request="r-1"))["data"]["attention_id"] == "r-1"

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({"command": "rm x", "path": "/x"}, "Saw rm x"),
            ({"path": "/x", "file_path": "/y"}, "Saw /y"),
            ({"command": ["rm"], "url": "https://x"}, "Saw https://x"),
            ({"pattern": ""}, "Saw "),
            ({"other": "x"}, "Saw"),
            ("text", "Saw"),
            (None, "Saw"),
        ],
    )
    def test_a_request_shows_the_tool_and_what_it_would_touch(self, asked: Any, message: str) -> None:
        assert only(hook("may", tool="Saw", input=asked))["data"]["message"] == message

    def test_what_a_request_shows_is_cut_only_after_redaction(self) -> None:
        draft = only(hook("may", tool="Saw", input={"command": "x" * 500}))
        assert len(draft["data"]["message"]) == 504
        assert draft["memo"]["caps"] == {"message": 124}

    def test_a_request_of_an_unnamed_tool_still_asks(self) -> None:
        draft = only(hook("may", tool="two words"))
        assert draft["data"].keys() == {"attention_id", "kind"}

    def test_a_notice_without_an_id_is_known_by_its_moment(self) -> None:
        notice, cleared = hook("ping", text="Waiting", when=4_000)
        assert notice["data"] == {"attention_id": "notif-4000", "kind": "idle", "message": "Waiting"}
        assert notice["memo"] == {"echo": True}
        # Which one it clears is for whoever remembers.
        assert cleared["data"] == {"how": "answered"}
        assert cleared["memo"] == {"kind": "question"}


class TestBrokenPayloads:
    def test_a_cut_payload_is_salvaged_and_says_so(self) -> None:
        data = b'{"sid":"s-1","shop":"x","tool":"Saw","input":{"path":"/x","content":"half'
        draft = only(hook("cut", data, partial=True))
        assert draft["data"] == {"tool": "Saw", "input": {"path": "/x"}}
        assert draft["memo"]["partial"] is True

    def test_what_json_can_not_say_never_leaves(self) -> None:
        data = rb'{"sid":"s-1","shop":"x","tool":"Saw","input":{"\ud800":["\udc00",NaN]},"turn":"t\ud800"}'
        draft = only(hook("cut", data))
        assert draft["data"]["input"] == {"\ufffd": ["\ufffd", None]}
        json.dumps(draft, allow_nan=False).encode()

    def test_the_hash_of_a_request_is_of_what_was_asked_not_of_what_is_left_of_it(self) -> None:
        data = rb'{"sid":"s-1","shop":"x","tool":"Saw","input":{"command":"\ud800"}}'
        assert only(hook("may", data))["data"]["attention_id"] == attention_id(
            None, "Saw", {"command": "\ud800"}
        )


@pytest.mark.parametrize(
    ("form", "name", "complaint"),
    [
        ("uuid", "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10", None),
        ("uuid", "amber-otter", "no UUID"),
        ("words", "amber-otter", None),
        ("words", "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10", "not made of words"),
        ("words", "sess_12", "not made of words"),
        ("any", "sess_12", None),
    ],
)
def test_a_sessions_id_is_of_the_form_it_is_claimed_by(form: str, name: str, complaint: str | None) -> None:
    adapter = compile_adapter("lathe", {**TABLE, "claim": {"id": form}})
    data = json.dumps({"sid": name}).encode()
    try:
        assert adapter.map("begin", data, args=(), env={}, cwd="/", at_ms=1, partial=False)
    except Refused as refused:
        assert complaint
        assert complaint in refused.reason
    else:
        assert complaint is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"harness": "mill"}, "file's name"),
        ({"colour": "red"}, "there is no colour"),
        ({"session": {}}, "'id'"),
        ({"session": {"id": "sid", "mood": "x"}}, "mood"),
        ({"events": {"x": {"standing": "rumoured", "emit": []}}}, "x: an event has"),
        ({"events": {"x": {"standing": "recorded", "emit": [], "twice": 1}}}, "x: an event has"),
        ({"events": {"x": {"standing": "recorded", "emit": [], "also": ["x"]}}}, "two events are called x"),
        (
            {"events": {"x": {"standing": "recorded", "emit": [{"type": "tool.ended"}]}}},
            "nothing says its ok",
        ),
        (
            {"events": {"x": {"standing": "recorded", "emit": [{"type": "tool.started", "colour": "x"}]}}},
            "no field colour",
        ),
        ({"events": {"x": {"standing": "recorded", "emit": [{"type": "tool.sharpened"}]}}}, "tool.sharpened"),
        (
            {
                "events": {
                    "x": {"standing": "recorded", "emit": [{"type": "tool.started", "memo": {"x": "y"}}]}
                }
            },
            "KeyError: 'x'",
        ),
        ({"claim": {"id": "number"}}, "number"),
        ({"claim": {"foreign": [{"harness": "x", "when": {"matches": {"a": "("}}}]}}, "unterminated"),
    ],
)
def test_a_table_that_says_what_the_language_does_not_have_is_refused(
    change: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(Mistake, match=complaint):
        compile_adapter("lathe", {**TABLE, **change})
