"""harnesses.pi_runs: a stream told as the extension would tell what happened."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.harnesses.pi_runs import MAX_CALLS, MAX_HELD, Runs, Talked, Told, file_name
from tests.harnesses.test_pi_stream import OBJECTS, line

SESSION = "01a22870-4a12-71ea-9449-b7f39273f321"
CREATED = 1_795_974_777_363
ASKED = CREATED + 150
HEADER = line("session", version=3, id=SESSION, timestamp="2026-11-29T17:52:57.363Z", cwd="/src")
SYSTEM = line("message_end", message={"role": "system", "content": "", "timestamp": ASKED})
START, TURN = line("agent_start"), line("turn_start")
SETTLED = line("agent_settled", aborted=False)


def user(text: str = "Go", at: int = ASKED) -> bytes:
    content = [{"type": "text", "text": text}]
    return line("message_end", message={"role": "user", "content": content, "timestamp": at})


def said(text: str = "Done.", stop: str = "stop", **fields: Any) -> bytes:
    content = [{"type": "text", "text": text}] if text else []
    message = {"role": "assistant", "content": content, "model": "m-1", "provider": "p", "stopReason": stop}
    return line("message_end", message={**message, "timestamp": ASKED + 10, **fields})


def call(kind: str, call_id: str = "c", **fields: Any) -> bytes:
    return line(f"tool_execution_{kind}", toolCallId=call_id, toolName="bash", **fields)


def delta(text: str, index: int = 0) -> bytes:
    event = {"type": "text_delta", "contentIndex": index, "delta": text}
    return line("message_update", usage={}, assistantMessageEvent=event)


def ended(**fields: Any) -> bytes:
    return line("agent_end", messages=[], **fields)


OPENING = [HEADER, START, TURN, SYSTEM, user()]


def tell(
    lines: Sequence[bytes], runs: Runs | None = None, at_ms: int = ASKED, **how: Any
) -> list[Told | Talked]:
    """What lines tell that come a millisecond apart, and then their end."""
    runs = runs or Runs()
    told = [one for number, each in enumerate(lines) for one in runs.feed([each], at_ms + number)]
    return told + runs.finish(at_ms + len(lines), **how)


def words(told: list[Told | Talked]) -> list[str]:
    """What was told, each in a word or two."""
    found = []
    for one in told:
        if isinstance(one, Talked):
            found.append(f"talk {one.talk.user} | {one.talk.assistant}")
            continue
        ev, run = one.payload["ev"], one.payload.get("run", {})
        more = [ev.get("reason"), ev.get("toolCallId"), run.get("outcome")]
        more.append("aborted" if ev.get("aborted") else None)
        found.append(" ".join([one.event, *(word for word in more if word)]))
    return found


def payload(told: list[Told | Talked], event: str) -> dict[str, Any]:
    (found,) = [one.payload for one in told if isinstance(one, Told) and one.event == event]
    return found


# --- how a session began ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "system", "reason"),
    [
        ({}, True, "new"),
        ({}, False, "resume"),
        ({"timestamp": "2026-11-29T16:00:00.000Z"}, True, "resume"),
        ({"timestamp": "2026-11-29T16:00:00.000Z"}, False, "resume"),
        ({"parentSession": "/p.jsonl"}, False, "fork"),
        ({"parentSession": "/p.jsonl", "timestamp": "2026-11-29T16:00:00.000Z"}, False, "resume"),
        ({"timestamp": "not a time"}, True, "new"),
        ({"timestamp": None, "parentSession": 7}, True, "new"),
    ],
)
def test_the_header_and_the_first_message_say_how_a_session_began(
    header: dict[str, Any], system: bool, reason: str
) -> None:
    first = json.loads(HEADER) | header
    lines = [json.dumps(first).encode(), START, *([SYSTEM] if system else []), user(), said(), SETTLED]
    assert words(tell(lines))[0] == f"session_start {reason}"


def test_a_session_starts_when_its_header_came_and_is_told_with_its_first_message() -> None:
    runs = Runs()
    assert runs.feed([HEADER, START, TURN, SYSTEM], ASKED) == []
    started, run = runs.feed([user()], ASKED + 5)
    assert isinstance(started, Told) and isinstance(run, Told)
    assert (started.at_ms, run.at_ms) == (ASKED, ASKED)
    assert started.by_pi_ms == ASKED
    assert started.payload["ctx"] == {"mode": "json", "cwd": "/src", "sessionId": SESSION}


@pytest.mark.parametrize("signalled", [False, True])
def test_a_stream_that_is_only_a_header_is_a_session_too(signalled: bool) -> None:
    told = words(tell([HEADER], signalled=signalled))
    assert told == ["session_start new", f"session_shutdown {'other' if signalled else 'quit'}"]


@pytest.mark.parametrize("name", ["id", "sessionId", "session_id"])
def test_a_session_is_named_under_any_of_its_names(name: str) -> None:
    header = line("session", **{name: SESSION, "cwd": "/src"})
    assert {one.session_id for one in tell([header, *OPENING[1:]])} == {SESSION}


def test_the_file_is_looked_for_when_the_first_message_has_made_it() -> None:
    asked: list[tuple[str, str]] = []

    def find(name: str, cwd: str) -> str:
        asked.append((name, cwd))
        return "/found.jsonl"

    told = tell([*OPENING, said(), SETTLED], Runs(find))
    assert asked == [(f"2026-11-29T17-52-57-363Z_{SESSION}.jsonl", "/src")]
    assert payload(told, "agent_start")["ctx"]["sessionFile"] == "/found.jsonl"
    # Or the end of a turn would have the file read for what was said, and it be told twice.
    assert "sessionFile" not in payload(told, "agent_settled")["ctx"]
    assert "sessionFile" not in payload(told, "session_shutdown")["ctx"]


@pytest.mark.parametrize(
    "header",
    [{}, {"id": "../x", "timestamp": "2026-11-29T17:52:57Z"}, {"id": "x", "timestamp": "../../2026"}],
)
def test_a_header_that_names_no_file_names_none(header: dict[str, Any]) -> None:
    assert file_name(header) is None


# --- runs -------------------------------------------------------------------------------------------


def test_a_run_goes_from_its_first_start_until_it_settles() -> None:
    lines = [*OPENING, said("Let me see.", "toolUse"), call("start", args={"command": "ls"})]
    lines += [
        call("end", result={"content": []}, isError=False),
        TURN,
        said(),
        ended(willRetry=False),
        SETTLED,
    ]
    told = tell(lines)
    assert words(told) == [
        "session_start new",
        "agent_start",
        "tool_execution_start c",
        "tool_execution_end c",
        "agent_settled completed",
        "talk Go | Let me see.\n\nDone.",
        "session_shutdown quit",
    ]
    run = payload(told, "agent_start")["run"]
    assert run == {"id": f"run-{ASKED}", "prompt": "Go", "prompt_chars": 2}
    assert payload(told, "tool_execution_start")["run"] == {"id": f"run-{ASKED}"}
    assert payload(told, "tool_execution_end")["args"] == {"command": "ls"}
    assert payload(told, "agent_settled")["ctx"]["model"] == {"id": "m-1"}


def test_retries_are_one_run() -> None:
    failed = said("", "error", errorMessage="500: no")
    lines = [*OPENING, failed, ended(willRetry=True), START, TURN, failed, ended(willRetry=False), SETTLED]
    told = tell(lines)
    assert words(told)[1:] == ["agent_start", "agent_settled error", "talk Go | ", "session_shutdown quit"]
    assert payload(told, "agent_settled")["run"]["error"] == "500: no"


def test_each_prompt_of_a_stream_is_a_run_of_its_own() -> None:
    lines = [*OPENING, said(), ended(willRetry=False), SETTLED]
    lines += [START, TURN, user("More", ASKED + 500), said("Again."), ended(willRetry=False), SETTLED]
    told = tell(lines)
    assert words(told)[1:] == [
        "agent_start",
        "agent_settled completed",
        "talk Go | Done.",
        "agent_start",
        "agent_settled completed",
        "talk More | Again.",
        "session_shutdown quit",
    ]
    ids = [one.payload["run"]["id"] for one in told if isinstance(one, Told) and one.event == "agent_start"]
    assert ids == [f"run-{ASKED}", f"run-{ASKED + 500}"]


def test_what_is_queued_while_a_run_goes_on_belongs_to_it() -> None:
    queued = line("queue_update", steering=[], followUp=["And"])
    lines = [*OPENING, queued, said(), ended(willRetry=False), line("queue_update", steering=[], followUp=[])]
    lines += [START, TURN, user("And"), said("That, too."), ended(willRetry=False), SETTLED]
    assert words(tell(lines))[1:] == [
        "agent_start",
        "agent_settled completed",
        "talk Go | Done.",
        "talk And | That, too.",
        "session_shutdown quit",
    ]


def test_a_steered_message_starts_nothing() -> None:
    lines = [*OPENING, said("One."), TURN, user("Steer"), said("Two."), ended(willRetry=False), SETTLED]
    assert words(tell(lines)).count("agent_start") == 1


@pytest.mark.parametrize("role", ["custom", "assistant"])
def test_a_run_nobody_asked_for(role: str) -> None:
    first = line("message_end", message={"role": "custom", "content": "x"}) if role == "custom" else TURN
    begins = line("message_start", message={"role": "assistant", "content": [], "model": "m-1"})
    told = tell([HEADER, START, TURN, first, begins, said("Hello."), SETTLED])
    run = payload(told, "agent_start")["run"]
    assert ("prompt_chars" in run, run.get("custom")) == (False, True if role == "custom" else None)
    assert "talk  | Hello." in words(told)


def test_a_later_session_s_prompt_is_not_the_first_thing_that_was_asked() -> None:
    assert "prompt" not in payload(tell([HEADER, START, user(), said(), SETTLED]), "agent_start")["run"]


# --- how runs end -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "aborted", "outcome"),
    [
        (said(), False, "completed"),
        (said("Cut", "length"), False, "completed"),
        (said("", "error", errorMessage="no"), False, "error"),
        (said("", "error", errorMessage="no"), True, "aborted aborted"),
        (said("Half", "aborted"), True, "aborted aborted"),
    ],
)
def test_settling_says_how_a_run_ended(last: bytes, aborted: bool, outcome: str) -> None:
    told = words(tell([*OPENING, last, ended(willRetry=False), line("agent_settled", aborted=aborted)]))
    assert f"agent_settled {outcome}" in told


def test_an_abort_in_a_tool_comes_with_a_turn_of_its_own() -> None:
    lines = [*OPENING, said("Running.", "toolUse"), call("start", args={}), call("end", isError=True)]
    lines += [TURN, said("", "aborted"), ended(willRetry=False), line("agent_settled", aborted=True)]
    assert words(tell(lines))[4:] == [
        "agent_settled aborted aborted",
        "talk Go | Running.",
        "session_shutdown quit",
    ]


@pytest.mark.parametrize(
    ("how", "end"),
    [
        (
            {"signalled": True},
            ["agent_settled aborted aborted", "talk Go | wor ds", "session_shutdown other"],
        ),
        ({}, ["agent_settled error", "talk Go | wor ds", "session_shutdown other"]),
        ({"clean": False}, ["agent_settled error", "talk Go | wor ds", "session_shutdown other"]),
    ],
)
def test_a_stream_that_breaks_off_ends_its_run_with_what_had_been_said(
    how: dict[str, Any], end: list[str]
) -> None:
    lines = [*OPENING, delta("wor"), delta(" ds"), b'{"type":"message_upd']
    assert words(tell(lines, **how))[2:] == end


def test_what_was_being_said_is_put_together_by_its_blocks() -> None:
    done = line(
        "message_update", assistantMessageEvent={"type": "text_end", "contentIndex": 0, "content": "Whole."}
    )
    lines = [*OPENING, delta("Wh"), delta("Sec", 1), done, delta("ond", 1), delta("x", None)]  # type: ignore[arg-type]
    assert words(tell(lines, signalled=True))[3] == "talk Go | Whole.\n\nSecond\n\nx"


def test_a_stream_cut_in_a_call_leaves_the_call_open() -> None:
    told = words(tell([*OPENING, said("Running.", "toolUse"), call("start", args={})], signalled=True))
    assert told[2:] == [
        "tool_execution_start c",
        "agent_settled aborted aborted",
        "talk Go | Running.",
        "session_shutdown other",
    ]


def test_cut_while_it_waits_to_try_again() -> None:
    lines = [*OPENING, said("", "error", errorMessage="529"), ended(willRetry=True)]
    assert words(tell(lines))[2:] == ["agent_settled error", "talk Go | ", "session_shutdown other"]


def test_cut_between_the_last_end_and_settling_nothing_is_missing() -> None:
    assert words(tell([*OPENING, said(), ended(willRetry=False)]))[2:] == [
        "agent_settled completed",
        "talk Go | Done.",
        "session_shutdown quit",
    ]
    for how in ({"signalled": True}, {"clean": False}):
        assert words(tell([*OPENING, said(), ended(willRetry=False)], **how))[-1] == "session_shutdown other"


# --- versions that do not settle --------------------------------------------------------------------


@pytest.mark.parametrize("end", [ended(), ended(willRetry=False)])
def test_without_settling_the_last_end_of_the_agent_closes_a_run(end: bytes) -> None:
    lines = [*OPENING, said(), end, START, TURN, user("More", ASKED + 500), said("Again."), end]
    assert words(tell(lines))[1:] == [
        "agent_start",
        "agent_settled completed",
        "talk Go | Done.",
        "agent_start",
        "agent_settled completed",
        "talk More | Again.",
        "session_shutdown quit",
    ]


def test_without_settling_a_run_ended_when_its_agent_did() -> None:
    runs = Runs()
    told = runs.feed([*OPENING, said()], ASKED) + runs.feed([ended(willRetry=False)], ASKED + 100)
    told += runs.feed([START, user("More")], ASKED + 9_000)
    (settled,) = [one for one in told if isinstance(one, Told) and one.event == "agent_settled"]
    assert settled.at_ms == ASKED + 100


def test_without_settling_an_end_is_told_at_once_where_nothing_can_follow() -> None:
    runs = Runs()
    assert words(runs.feed([*OPENING, said(), ended()], ASKED))[-1] == "talk Go | Done."


def test_without_settling_a_retry_is_still_one_run() -> None:
    lines = [*OPENING, said("", "error"), ended(), START, TURN, said(), ended()]
    assert words(tell(lines))[1:] == [
        "agent_start",
        "agent_settled completed",
        "talk Go | Done.",
        "session_shutdown quit",
    ]


# --- calls, compactions, names ----------------------------------------------------------------------


def test_a_call_is_told_with_what_it_was_started_with() -> None:
    start = line(
        "tool_execution_start",
        toolCallId="c/1",
        tool_name="READ",
        toolInput={"path": "a"},
        parentToolCallId="c",
    )
    end = line("tool_execution_end", toolCallId="c/1", result="text", status="error", durationMs=7)
    told = tell([*OPENING, start, end])
    assert payload(told, "tool_execution_end")["ev"] == {
        "toolCallId": "c/1",
        "toolName": "READ",
        "isError": True,
        "durationMs": 7,
        "result": {"content": [{"type": "text", "text": "text"}]},
    }
    assert payload(told, "tool_execution_end")["args"] == {"path": "a"}


def test_a_call_of_any_size_is_handed_on_in_bounded_size_and_cut_between_words() -> None:
    content = [{"type": "text", "text": "word " * 1_000_000}, {"type": "text", "text": "more"}]
    told = tell([*OPENING, call("start", args={}), call("end", result={"content": content}, isError=False)])
    (first, second) = payload(told, "tool_execution_end")["ev"]["result"]["content"]
    assert len(first["text"]) <= 1 << 20
    assert first["text"].endswith(("word", "word "))
    assert len(second["text"]) <= 4_096


def test_calls_that_never_end_are_forgotten_in_time() -> None:
    runs = Runs()
    runs.feed([*OPENING, *(call("start", str(n), args={"n": n}) for n in range(MAX_CALLS + 1))], ASKED)
    told = runs.feed([call("end", str(n), isError=False) for n in (0, 1)], ASKED)
    assert ["args" in one.payload for one in told if isinstance(one, Told)] == [False, True]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"reason": "threshold", "result": {"summary": "s"}}, True),
        ({"reason": "manual", "result": {"summary": "s"}, "aborted": False}, True),
        ({"reason": "manual", "errorMessage": "too small"}, False),
        ({"reason": "manual", "result": None}, False),
        ({"reason": "overflow", "result": {"summary": "s"}, "aborted": True}, False),
    ],
)
def test_a_compaction_is_told_when_there_is_one(fields: dict[str, Any], told: bool) -> None:
    found = words(tell([*OPENING, line("compaction_end", **fields), said(), SETTLED]))
    assert (f"session_compact {fields['reason']}" in found) is told


def test_a_name_that_is_given_is_the_session_s_from_then_on() -> None:
    told = tell([*OPENING, line("session_info_changed", name="Named"), said(), SETTLED])
    assert "sessionName" not in payload(told, "agent_start")["ctx"]
    assert payload(told, "agent_settled")["ctx"]["sessionName"] == "Named"


# --- several sessions, and sessions without a name --------------------------------------------------


def test_streams_that_follow_one_another_are_sessions_of_their_own() -> None:
    other = json.dumps(json.loads(HEADER) | {"id": "other"}).encode()
    told = tell([*OPENING, said(), SETTLED, other, *OPENING[1:], said(), SETTLED])
    assert words(told).count("session_shutdown quit") == 2
    assert [one.session_id for one in told] == [SESSION] * 5 + ["other"] * 5


def state(session: str = SESSION, messages: int = 0, **data: Any) -> bytes:
    data = {"sessionId": session, "messageCount": messages, "model": {"id": "m-0"}, **data}
    return line("response", id="1", command="get_state", success=True, data=data)


@pytest.mark.parametrize(("messages", "reason"), [(0, "new"), (3, "resume")])
def test_a_session_of_rpc_starts_when_it_is_named(messages: int, reason: str) -> None:
    (started,) = Runs(cwd="/here").feed([state(messages=messages, sessionName="Named")], ASKED)
    assert words([started]) == [f"session_start {reason}"]
    assert isinstance(started, Told)
    assert started.payload["ctx"] == {
        "mode": "rpc",
        "cwd": "/here",
        "sessionId": SESSION,
        "sessionName": "Named",
        "model": {"id": "m-0"},
    }


def test_what_happens_before_a_session_is_named_waits_for_its_name() -> None:
    runs = Runs()
    assert runs.feed([START, SYSTEM, user(), said(), SETTLED], ASKED) == []
    told = runs.feed([state(messages=3)], ASKED + 5)
    assert words(told) == ["session_start new", "agent_start", "agent_settled completed", "talk Go | Done."]
    assert {one.session_id for one in told} == {SESSION}
    assert all(one.payload["ctx"]["sessionId"] == SESSION for one in told if isinstance(one, Told))
    assert words(runs.finish(ASKED)) == ["session_shutdown quit"]
    assert runs.nameless == 0


def test_what_happens_in_a_session_that_is_never_named_is_counted() -> None:
    runs = Runs()
    assert tell([START, SYSTEM, user(), said(), SETTLED], runs) == []
    assert runs.nameless == 5
    many = Runs()
    many.feed([START, user(), *(call("start", str(n), args={}) for n in range(MAX_HELD + 50))], ASKED)
    assert many.nameless == 52


def test_what_waits_for_a_name_is_bounded_whatever_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionpipe.harnesses.pi_runs.HELD_BYTES", 10_000)
    runs = Runs()
    runs.feed([START, user(), *(call("start", str(n), args={"x": "y" * 3_000}) for n in range(10))], ASKED)
    told = runs.feed([state()], ASKED)
    assert (len(told), runs.nameless) == (6, 6)


@pytest.mark.parametrize(
    ("command", "reason"),
    [("new_session", "new"), ("switch_session", "resume"), ("fork", "fork"), ("clone", "fork")],
)
def test_a_command_that_leaves_a_session_begins_another(command: str, reason: str) -> None:
    left = line("response", command=command, success=True, data={"cancelled": False})
    told = tell(
        [state(), START, user(), said(), SETTLED, left, state("other", 5), START, user(), said(), SETTLED]
    )
    assert words(told)[4:6] == ["session_shutdown other", f"session_start {reason}"]
    assert told[5].session_id == "other"


@pytest.mark.parametrize("data", [{"cancelled": True}, {}])
def test_a_command_that_was_cancelled_or_failed_leaves_nothing(data: dict[str, Any]) -> None:
    left = line("response", command="new_session", success=bool(data), data=data)
    assert "session_shutdown other" not in words(tell([state(), left, START, user(), said(), SETTLED]))


def test_a_session_that_changed_unseen_is_seen_when_it_is_named() -> None:
    told = tell([state(), state("other", 2)])
    assert words(told) == [
        "session_start new",
        "session_shutdown other",
        "session_start resume",
        "session_shutdown quit",
    ]


def test_a_model_that_is_chosen_is_the_session_s() -> None:
    chosen = line("response", command="set_model", success=True, data={"id": "m-2", "provider": "p"})
    assert payload(tell([state(), chosen]), "session_shutdown")["ctx"]["model"] == {"id": "m-2"}


# --- streams that were saved ------------------------------------------------------------------------


def test_a_saved_stream_happened_when_its_messages_say() -> None:
    lines = [*OPENING, said("One.", "toolUse", timestamp=ASKED + 1000, durationMs=500)]
    lines += [call("start", args={}), call("end", durationMs=300, isError=False)]
    lines += [line("message_end", message={"role": "toolResult", "timestamp": ASKED + 1900})]
    lines += [said("Two.", timestamp=ASKED + 2000, durationMs=700), SETTLED]
    told = tell(lines, at_ms=ASKED + 3_600_000)
    assert [(words([one])[0], one.at_ms - ASKED) for one in told] == [
        ("session_start new", -150),
        ("agent_start", 0),
        ("tool_execution_start c", 1500),
        ("tool_execution_end c", 1800),
        ("agent_settled completed", 2700),
        ("talk Go | One.\n\nTwo.", 2700),
        ("session_shutdown quit", 2700),
    ]
    assert all(one.saved for one in told)


def test_a_saved_stream_never_happened_later_than_it_was_read() -> None:
    late = said(timestamp=ASKED + 90_000_000)
    told = tell([*OPENING, late, SETTLED], at_ms=ASKED + 3_600_000)
    assert max(one.at_ms for one in told) <= ASKED + 3_600_010


def test_a_stream_read_while_it_comes_is_not_a_saved_one() -> None:
    told = tell([*OPENING, said(), SETTLED], at_ms=ASKED + 2_000)
    assert not any(one.saved for one in told)
    assert told[0].at_ms == ASKED + 2_000


# --- anything ---------------------------------------------------------------------------------------


def test_text_that_is_no_stream_is_not_taken_for_one() -> None:
    runs = Runs()
    assert tell([b"Hello,", b"this is an answer.", b'{"type":"other"}', b"[]"], runs) == []
    assert not runs.recognized
    assert tell(OPENING, runs) and runs.recognized


SCRIPTS = st.lists(
    st.sampled_from(
        [
            *OPENING,
            said(),
            said("", "error"),
            said("Half", "aborted"),
            SETTLED,
            ended(),
            ended(willRetry=True),
            ended(willRetry=False),
            call("start", args={}),
            call("end", isError=False),
            delta("x"),
            state(),
            state("other", 1),
            line("response", command="new_session", success=True, data={}),
            line("queue_update", steering=["x"], followUp=[]),
            line("compaction_end", reason="manual", result={}),
        ]
    ),
    max_size=30,
)


@given(SCRIPTS, st.booleans(), st.sampled_from([ASKED, ASKED + 3_600_000]))
def test_whatever_comes_sessions_and_runs_begin_and_end_in_turn(
    lines: list[bytes], signalled: bool, at_ms: int
) -> None:
    session: str | None = None
    run: str | None = None
    for one in tell(lines, at_ms=at_ms, signalled=signalled):
        assert one.session_id
        if isinstance(one, Talked):
            assert run is None
            continue
        match one.event:
            case "session_start":
                assert session is None
                session = one.session_id
            case "session_shutdown":
                assert (session, run) == (one.session_id, None)
                session = None
            case "agent_start":
                assert session == one.session_id and run is None
                run = one.payload["run"]["id"]
            case "agent_settled":
                assert one.payload["run"]["id"] == run
                run = None
            case "tool_execution_start" | "tool_execution_end":
                assert run is not None
    assert (session, run) == (None, None)


@given(st.lists(st.binary(max_size=30) | OBJECTS.map(lambda value: json.dumps(value).encode())))
def test_any_lines_are_survived(lines: list[bytes]) -> None:
    for one in tell(lines):
        if isinstance(one, Told):
            json.dumps(one.payload)
