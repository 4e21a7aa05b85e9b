"""``sinks``: what a person says about where events go, and what they are told about it."""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from sessionpipe import config
from sessionpipe.cli.sink_options import target_of
from sessionpipe.config import Config, SinkConfig, load
from sessionpipe.outbox import SinkState
from sessionpipe.paths import config_dir
from tests.cli.conftest import Recorder
from tests.receiver import Answer, Receiver
from tests.schema import problems

Run = Callable[..., Result]

TOKEN = "tok" + "Zq7" * 8
WELL_KNOWN = {"protocol": [1], "capabilities": ["events", "forget", "backfill"], "max_tier": 3}


def said(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.output


def refused(result: Result, *, usage: bool = False) -> str:
    assert result.exit_code == (2 if usage else 1), result.output
    if not usage:
        assert result.stderr.count("\n") == 1 and result.stderr.startswith("sessionpipe: ")
    return result.stderr


def settings() -> Config:
    return load(config_dir())


def only() -> SinkConfig:
    (sink,) = settings().sinks
    return sink


@pytest.fixture
def row(recorder: Recorder) -> Callable[[str], SinkState]:
    def find(name: str) -> SinkState:
        found = recorder.outbox.sink(name)
        assert found is not None
        return found

    return find


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(well_known=WELL_KNOWN) as made:
        yield made


@pytest.fixture(autouse=True)
def roused(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """No worker is started; each time one would have been is noted."""
    times: list[bool] = []
    monkeypatch.setattr("sessionpipe.cli.rouse.rouse", lambda _state: times.append(True))
    return times


# --- add --------------------------------------------------------------------------------------------


def test_a_file_sink_gets_a_name_an_absolute_path_and_tier_0(run: Run, tmp_path: Path) -> None:
    output = said(run("sinks", "add", "file:~/logs/agents.ndjson"))
    file = tmp_path / "home" / "logs" / "agents.ndjson"
    assert only() == SinkConfig(name="agents", kind="file", path=str(file))
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700 and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "added agents, tier 0" in output and "presence" in output and "actions" not in output


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("/tmp/agents.ndjson", "file:/tmp/agents.ndjson"),
        ("./agents.ndjson", "file:./agents.ndjson"),
        ("board.example", "https://board.example"),
        ("board.example:8443/in", "https://board.example:8443/in"),
    ],
)
def test_a_target_without_its_scheme_is_refused_with_what_it_may_mean(
    run: Run, target: str, meant: str
) -> None:
    assert f"did you mean {meant}?" in refused(run("sinks", "add", target), usage=True)


def test_the_command_it_proposes_can_be_pasted_into_a_shell(
    run: Run, recorder: Recorder, tmp_path: Path
) -> None:
    recorder.add("s", "turn.started")
    file = tmp_path / "it's a $log"
    proposed = said(run("sinks", "add", f"file:{file}")).partition("`")[2].partition("`")[0]
    assert shlex.split(proposed)[:4] == ["sessionpipe", "sinks", "add", f"file:{file}"]


def test_a_relative_path_is_meant_from_here(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said(run("sinks", "add", "file:agents.ndjson"))
    assert only().path == str(tmp_path / "agents.ndjson")


def test_the_introduction_says_each_tier_it_gets(run: Run, tmp_path: Path) -> None:
    output = said(run("sinks", "add", f"file:{tmp_path}/log", "--tier", "2", "--pii"))
    assert all(word in output for word in ("presence", "actions", "conversation", "masked"))
    assert "everything" not in output


def test_a_new_sink_gets_what_is_recorded_and_is_told_how_much_that_is(
    run: Run, recorder: Recorder, tmp_path: Path, row: Callable[[str], SinkState]
) -> None:
    recorder.add("s", "turn.started")
    recorder.add("s", "tool.ended", {"tool": "Bash", "ok": True})
    recorder.add("s", "session.heartbeat")
    assert "2 recorded events go first" in said(run("sinks", "add", f"file:{tmp_path}/zero"))
    output = said(run("sinks", "add", f"file:{tmp_path}/one", "--tier", "1"))
    assert "2 recorded events go first" in output and "--from now` skips what has not gone yet" in output
    assert row("one").position == 0


def test_a_worker_is_started_only_when_something_is_owed(
    run: Run, recorder: Recorder, tmp_path: Path, roused: list[bool]
) -> None:
    said(run("sinks", "add", f"file:{tmp_path}/log"))
    said(run("sinks", "resume", "log"))
    recorder.add("s", "turn.started")
    said(run("sinks", "add", "stdout"))
    said(run("sinks", "add", f"file:{tmp_path}/later", "--from", "now"))
    said(run("sinks", "pause", "log"))
    assert roused == []
    said(run("sinks", "resume", "log"))
    said(run("sinks", "add", f"file:{tmp_path}/other"))
    assert roused == [True, True]


def test_from_now_skips_what_is_recorded(
    run: Run, recorder: Recorder, tmp_path: Path, row: Callable[[str], SinkState]
) -> None:
    recorder.add("s", "turn.started")
    assert "from now on" in said(run("sinks", "add", f"file:{tmp_path}/log", "--from", "now"))
    assert row("log").position == 1
    said(run("sinks", "add", f"file:{tmp_path}/log", "--from", "start"))
    assert row("log").position == 0


def test_a_receiver_is_asked_about_itself(
    run: Run, receiver: Receiver, row: Callable[[str], SinkState]
) -> None:
    receiver.well_known = {**WELL_KNOWN, "max_tier": 1, "batch": {"max_events": 9}}
    output = said(run("sinks", "add", f"{receiver.url}/", "--tier", "3"))
    assert only().url == receiver.url and only().name.startswith("127.0.0.1-")
    assert "takes tier 1 at most" in output and "conversation" not in output
    found = row(only().name)
    assert (found.max_tier, found.discovery["max_events"]) == (1, 9)
    assert receiver.requests == []


def test_a_receiver_without_a_readable_file_is_added_with_a_warning(run: Run, receiver: Receiver) -> None:
    receiver.well_known = None
    assert "could not be read (HTTP 404); the defaults are used" in said(run("sinks", "add", receiver.url))
    receiver.well_known = Answer(301, b"", {"location": "https://www.board.example/x?y"})
    assert "HTTP 301, which points to https://www.board.example/x)" in said(run("sinks", "add", receiver.url))


def test_a_receiver_that_is_away_is_added_and_asked_later(run: Run, row: Callable[[str], SinkState]) -> None:
    with Receiver() as gone:
        url = gone.url
    assert "can't be reached just now" in said(run("sinks", "add", url, "--name", "board"))
    assert row("board").discovery == {}


def test_a_receiver_that_speaks_another_protocol_is_added_but_paused(
    run: Run, receiver: Receiver, row: Callable[[str], SinkState]
) -> None:
    receiver.well_known = {**WELL_KNOWN, "protocol": [2]}
    output = said(run("sinks", "add", receiver.url, "--name", "board"))
    assert "nothing is sent: the receiver speaks protocol 2" in output
    assert "protocol 2" in str(row("board").paused)


def test_a_receiver_that_cannot_forget_or_takes_events_elsewhere_is_said_so(
    run: Run, receiver: Receiver
) -> None:
    receiver.well_known = {"protocol": [1], "endpoints": {"events": "https://elsewhere.example/in"}}
    output = said(run("sinks", "add", receiver.url))
    assert "does not say that it can forget" in output
    assert "https://elsewhere.example, so they go there, token included" in output


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("http://board.example", "plain http"),
        ("https://user:hush@board.example", "holds credentials"),
        ("https://board.example/#x", "#fragment"),
        ("https://", "not an http or https URL"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_in_one_line(run: Run, target: str, says: str) -> None:
    message = refused(run("sinks", "add", target))
    assert says in message and "hush" not in message
    assert settings().sinks == ()


@pytest.mark.parametrize(
    "arguments",
    [
        ["board.example"],
        ["ftp://board.example"],
        ["file:"],
        ["file:/tmp/"],
        ["file://host/x"],
        ["stdout", "--tier", "4"],
        ["stdout", "--tools", "some"],
        ["stdout", "--token-env", "X"],
        ["stdout", "--name", "a b"],
        ["https://b.example", "--token-env", "not a name"],
        ["https://b.example", "--token-env", "A", "--token-file", "b"],
        ["https://b.example", "--token", "literal"],
    ],
)
def test_a_call_that_makes_no_sense_is_a_usage_error(run: Run, arguments: list[str]) -> None:
    refused(run("sinks", "add", *arguments), usage=True)
    assert settings().sinks == ()


@pytest.mark.parametrize("what", ["folder", "link", "fifo"])
def test_what_is_no_file_is_refused(run: Run, tmp_path: Path, what: str) -> None:
    place = tmp_path / "log"
    {"folder": place.mkdir, "link": lambda: place.symlink_to("/etc/hosts"), "fifo": lambda: os.mkfifo(place)}[
        what
    ]()
    assert "can't be written" in refused(run("sinks", "add", f"file:{place}"))


def test_two_sinks_never_share_a_file(run: Run, tmp_path: Path) -> None:
    said(run("sinks", "add", f"file:{tmp_path}/log", "--name", "one"))
    (tmp_path / "alias").symlink_to(tmp_path)
    message = refused(run("sinks", "add", f"file:{tmp_path}/alias/log", "--name", "two"))
    assert "one writes to that file already" in message


@pytest.mark.parametrize("written", ["/", ":443", ":443/"])
def test_one_address_is_one_sink_however_it_is_written(written: str) -> None:
    assert target_of(f"HTTPS://Board.example{written}") == target_of("https://board.example")


def test_names_are_made_unique(run: Run, tmp_path: Path) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        said(run("sinks", "add", f"file:{tmp_path}/{folder}/agents log.ndjson"))
    assert [sink.name for sink in settings().sinks] == ["agents-log", "agents-log-2"]


# --- tokens -----------------------------------------------------------------------------------------


def test_a_token_comes_from_standard_input_and_is_never_shown(run: Run, receiver: Receiver) -> None:
    output = said(run("sinks", "add", receiver.url, "--token", "-", input=f"{TOKEN}\n"))
    assert only().token == TOKEN and TOKEN not in output
    assert stat.S_IMODE((config_dir() / "config.toml").stat().st_mode) == 0o600
    assert TOKEN not in said(run("sinks", "list"))


def test_what_is_no_token_is_refused_without_being_repeated(run: Run, receiver: Receiver) -> None:
    message = refused(run("sinks", "add", receiver.url, "--token", "-", input=f"{TOKEN} {TOKEN}\n"))
    assert TOKEN not in message and settings().sinks == ()


def test_a_variable_that_is_not_set_here_is_said_so(run: Run, receiver: Receiver) -> None:
    output = said(run("sinks", "add", receiver.url, "--token-env", "BOARD_TOKEN"))
    assert "BOARD_TOKEN is not set" in output and only().token_env == "BOARD_TOKEN"


def test_a_file_that_others_can_read_is_said_so(run: Run, receiver: Receiver, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    assert "chmod 600" in said(run("sinks", "add", receiver.url, "--token-file", str(file)))


def test_a_sink_without_a_token_is_said_so(run: Run, receiver: Receiver) -> None:
    assert "no token is sent" in said(run("sinks", "add", receiver.url))


# --- adding again -----------------------------------------------------------------------------------


def test_adding_again_changes_what_is_said_and_keeps_the_rest(run: Run, receiver: Receiver) -> None:
    first = ("--name", "board", "--tier", "2", "--pii", "--tools", "main", "--token", "-")
    said(run("sinks", "add", receiver.url, *first, input=TOKEN))
    before = only()
    assert "kept board" in said(run("sinks", "add", receiver.url))
    assert only() == before
    output = said(run("sinks", "add", receiver.url, "--tier", "1", "--no-pii"))
    assert "changed board, tier 1 (was 2)" in output
    assert only() == msgspec.structs.replace(before, tier=1, pii=False)
    said(run("sinks", "add", receiver.url, "--token-env", "BOARD_TOKEN"))
    assert (only().token, only().token_env, only().tools) == (None, "BOARD_TOKEN", "main")


def test_adding_again_keeps_the_place_and_lifts_a_receivers_pause(
    run: Run, receiver: Receiver, recorder: Recorder, row: Callable[[str], SinkState]
) -> None:
    recorder.add("s", "turn.started")
    said(run("sinks", "add", receiver.url, "--name", "board"))
    stopped = {"paused": "HTTP 401", "position": 1, "failures": 2, "next_attempt_ms": 9}
    recorder.outbox.change_sink("board", lambda state: msgspec.structs.replace(state, **stopped))
    output = said(run("sinks", "add", receiver.url, "--token", "-", input=TOKEN))
    found = row("board")
    assert (found.paused, found.position, found.failures, found.next_attempt_ms) == (None, 1, 0, 0)
    assert "recorded" not in output


def test_a_name_is_not_turned_to_another_address(run: Run, receiver: Receiver) -> None:
    said(run("sinks", "add", receiver.url, "--name", "board", "--token", "-", input=TOKEN))
    message = refused(run("sinks", "add", "https://elsewhere.example", "--name", "board"))
    assert receiver.url in message and only().url == receiver.url


def test_a_row_left_by_a_sink_that_was_taken_out_by_hand_is_not_taken_over(
    run: Run, recorder: Recorder, tmp_path: Path, row: Callable[[str], SinkState]
) -> None:
    recorder.add("s", "turn.started")
    recorder.outbox.add_sink("log", 1)
    said(run("sinks", "add", f"file:{tmp_path}/log"))
    assert row("log").position == 0


# --- a file that holds events ------------------------------------------------------------------------


def test_a_file_that_holds_events_already_goes_on_behind_them(
    run: Run, recorder: Recorder, tmp_path: Path, row: Callable[[str], SinkState]
) -> None:
    events = [recorder.add("s", "turn.started") for _ in range(3)]
    file = tmp_path / "log"
    file.write_text("".join(f"{json.dumps(event)}\n" for event in events[:2]) + '{"id": "cut o')
    output = said(run("sinks", "add", f"file:{file}"))
    assert "goes on behind the last of them" in output and "1 recorded event goes first" in output
    assert (row("log").position, row("log").last_id) == (2, events[1]["id"])
    assert len(file.read_text().splitlines()) == 2


def test_unless_it_is_to_have_them_once_more(
    run: Run, recorder: Recorder, tmp_path: Path, row: Callable[[str], SinkState]
) -> None:
    event = recorder.add("s", "turn.started")
    (tmp_path / "log").write_text(f"{json.dumps(event)}\n")
    assert "1 recorded event goes first" in said(
        run("sinks", "add", f"file:{tmp_path}/log", "--from", "start")
    )
    assert (row("log").position, row("log").last_id) == (0, event["id"])


# --- set --------------------------------------------------------------------------------------------


def test_what_is_set_changes_and_the_rest_stays(run: Run, receiver: Receiver) -> None:
    said(run("sinks", "add", receiver.url, "--name", "board", "--tier", "2", "--token", "-", input=TOKEN))
    before = only()
    asked = receiver.asked
    output = said(run("sinks", "set", "board", "--tier", "1", "--pii", "--tools", "beat"))
    assert "changed board, tier 1 (was 2)" in output and "conversation" not in output
    assert only() == msgspec.structs.replace(before, tier=1, pii=True, tools="beat")
    # A lower tier does not wait for a receiver that may be slow.
    assert receiver.asked == asked
    said(run("sinks", "set", "board", "--tools", "receiver"))
    assert only().tools is None


def test_a_raised_tier_is_for_what_comes(run: Run, tmp_path: Path) -> None:
    said(run("sinks", "add", f"file:{tmp_path}/log"))
    assert "what it has stays as it was sent" in said(run("sinks", "set", "log", "--tier", "1"))


def test_setting_lifts_a_receivers_pause_and_has_it_asked_anew(
    run: Run, receiver: Receiver, recorder: Recorder, row: Callable[[str], SinkState]
) -> None:
    said(run("sinks", "add", receiver.url, "--name", "board"))
    stopped = {"paused": "HTTP 401", "since_ms": 5, "failures": 2, "next_attempt_ms": 9, "batch_end": 7}
    recorder.outbox.change_sink("board", lambda state: msgspec.structs.replace(state, **stopped))
    output = said(run("sinks", "set", "board", "--token", "-", input=TOKEN))
    assert "its receiver had it paused; it is sent to again" in output
    # What its tier carries was said when it was added, and has not changed.
    assert "presence" not in output
    found = row("board")
    assert (found.paused, found.since_ms, found.failures, found.discovery) == (None, 0, 0, {})
    # The batch that was refused is tried again as the same message.
    assert found.batch_end == 7


def test_a_worker_that_looks_in_between_sends_nothing_it_should_not(
    run: Run,
    recorder: Recorder,
    tmp_path: Path,
    row: Callable[[str], SinkState],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the row is as the settings change: a courier is begun, or ended, by these."""
    recorder.add("s", "turn.started")
    said(run("sinks", "add", f"file:{tmp_path}/log"))
    recorder.outbox.change_sink("log", lambda state: msgspec.structs.replace(state, paused="HTTP 403"))
    seen: list[SinkState] = []

    def put_sink(folder: Path, sink: SinkConfig) -> None:
        seen.append(row("log"))
        write(folder, sink)

    write = config.put_sink
    monkeypatch.setattr(config, "put_sink", put_sink)
    said(run("sinks", "set", "log", "--tier", "0"))
    said(run("sinks", "add", f"file:{tmp_path}/log", "--tier", "3", "--from", "now"))
    said(run("sinks", "add", f"file:{tmp_path}/log", "--tier", "0", "--from", "start"))
    assert [(state.paused, state.position) for state in seen] == [("HTTP 403", 0), (None, 1), (None, 1)]
    assert row("log").position == 0


@pytest.mark.parametrize("arguments", [[], ["--tier", "4"], ["--token-env", "A"]])
def test_setting_nothing_or_nonsense_is_a_usage_error(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    said(run("sinks", "add", f"file:{tmp_path}/log"))
    refused(run("sinks", "set", "log", *arguments), usage=True)


# --- list, remove, pause, resume --------------------------------------------------------------------


def test_the_list_of_none_says_how_to_add_one(run: Run) -> None:
    assert "sinks add" in said(run("sinks", "list"))


def test_the_list_says_how_each_sink_does(
    run: Run, recorder: Recorder, receiver: Receiver, tmp_path: Path
) -> None:
    recorder.add("s", "turn.started")
    said(run("sinks", "add", f"file:{tmp_path}/log", "--tier", "1", "--pii"))
    said(run("sinks", "add", receiver.url, "--name", "board", "--tier", "2"))
    said(run("sinks", "add", "stdout"))
    said(run("sinks", "pause", "stdout"))
    stopped = {"paused": "HTTP 401: no\x1b[31m", "max_tier": 0}
    recorder.outbox.change_sink("board", lambda state: msgspec.structs.replace(state, **stopped))
    header, log, board, stdout = said(run("sinks", "list")).splitlines()
    assert header.split() == ["NAME", "TIER", "PII", "TARGET", "STATE"]
    assert log.split()[:3] == ["log", "1", "masked"] and "1 event behind" in log
    assert board.split()[:2] == ["board", "2→0"] and "paused: HTTP 401" in board and "\x1b" not in board
    assert "paused by you" in stdout


def test_removing_takes_the_sink_its_token_and_its_place(
    run: Run, recorder: Recorder, receiver: Receiver
) -> None:
    said(run("sinks", "add", receiver.url, "--name", "board", "--token", "-", input=TOKEN))
    said(run("sinks", "remove", "board"))
    assert settings().sinks == () and recorder.outbox.sink("board") is None
    assert TOKEN not in (config_dir() / "config.toml").read_text()


def test_pause_and_resume(
    run: Run, recorder: Recorder, tmp_path: Path, row: Callable[[str], SinkState]
) -> None:
    said(run("sinks", "add", f"file:{tmp_path}/log"))
    recorder.add("s", "turn.started")
    assert "waits for it" in said(run("sinks", "pause", "log"))
    assert only().paused
    stopped: dict[str, Any] = {
        "paused": "HTTP 401",
        "failures": 3,
        "next_attempt_ms": 9,
        "discovery": {"x": 1},
    }
    recorder.outbox.change_sink("log", lambda state: msgspec.structs.replace(state, **stopped))
    output = said(run("sinks", "resume", "log"))
    assert "1 recorded event waits for it" in output
    assert not only().paused
    found = row("log")
    assert (found.paused, found.failures, found.next_attempt_ms, found.discovery) == (None, 0, 0, {})


@pytest.mark.parametrize("command", ["remove", "test", "pause", "resume", "set"])
def test_a_sink_nobody_knows_is_named_with_those_there_are(run: Run, command: str, tmp_path: Path) -> None:
    said(run("sinks", "add", f"file:{tmp_path}/log"))
    options = ["--tier", "1"] if command == "set" else []
    assert "no sink nobody; there is: log" in refused(run("sinks", command, "nobody", *options))


@pytest.mark.parametrize(
    "command", [["list"], ["add", "stdout"], ["remove", "x"], ["pause", "x"], ["test", "x"]]
)
def test_settings_that_cannot_be_read_are_one_line(run: Run, config_file: Path, command: list[str]) -> None:
    config_file.write_text("[[sinks]]\nname = \n")
    message = refused(run("sinks", *command))
    assert f"{config_file} line 2" in message


# --- test -------------------------------------------------------------------------------------------


def test_a_receiver_is_tried_with_a_session_that_is_taken_back(run: Run, receiver: Receiver) -> None:
    said(run("sinks", "add", receiver.url, "--name", "board", "--token", "-", input=TOKEN))
    assert "board works" in said(run("sinks", "test", "board"))
    heartbeat, forgotten = receiver.events
    assert [event["type"] for event in receiver.events] == ["session.heartbeat", "session.forgotten"]
    assert heartbeat["session"]["id"] == forgotten["session"]["id"]
    assert (heartbeat["session"]["seq"], forgotten["session"]["seq"]) == (0, 1)
    assert problems(heartbeat) == problems(forgotten) == []
    assert receiver.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_receiver_that_cannot_forget_keeps_it_and_that_is_said(run: Run, receiver: Receiver) -> None:
    receiver.well_known = {"protocol": [1]}
    said(run("sinks", "add", receiver.url, "--name", "board"))
    output = said(run("sinks", "test", "board"))
    assert receiver.events[0]["session"]["id"] in output and len(receiver.events) == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(401), "wants a token"),
        (Answer(500), "HTTP 500"),
        (Answer(400, {"reason": "no"}), "HTTP 400 (no)"),
        (Answer(413), "HTTP 413"),
        (Answer(403, {"reason": "tier_above_max", "max_tier": 0}), "refuses a tier-0 event"),
        (Answer(302, None, {"location": "https://elsewhere.example/"}), "https://elsewhere.example/"),
    ],
)
def test_what_is_wrong_with_a_receiver_is_said(
    run: Run, receiver: Receiver, answer: Answer, says: str
) -> None:
    said(run("sinks", "add", receiver.url, "--name", "board"))
    receiver.answers = [answer]
    assert says in refused(run("sinks", "test", "board"))


def test_a_receiver_that_does_not_say_what_it_took_is_remarked(run: Run, receiver: Receiver) -> None:
    said(run("sinks", "add", receiver.url, "--name", "board"))
    receiver.answers = [Answer(200, b"<html>")]
    assert "warning: it answers HTTP 200 without saying what it took" in said(run("sinks", "test", "board"))


def test_trying_a_sink_changes_nothing_of_it(
    run: Run, receiver: Receiver, row: Callable[[str], SinkState]
) -> None:
    said(run("sinks", "add", receiver.url, "--name", "board"))
    before = row("board")
    receiver.answers = [Answer(401)]
    refused(run("sinks", "test", "board"))
    assert row("board") == before


def test_a_file_is_tried_without_being_written(run: Run, tmp_path: Path) -> None:
    said(run("sinks", "add", f"file:{tmp_path}/log"))
    assert "can be written" in said(run("sinks", "test", "log"))
    assert (tmp_path / "log").read_bytes() == b""
    (tmp_path / "log").unlink()
    (tmp_path / "log").mkdir()
    assert "Is a directory" in refused(run("sinks", "test", "log"))


def test_stdout_is_explained(run: Run) -> None:
    said(run("sinks", "add", "stdout"))
    assert "worker --foreground" in said(run("sinks", "test", "stdout"))


@pytest.mark.parametrize("command", ["add", "set", "list", "remove", "test", "pause", "resume"])
def test_every_command_shows_an_example(run: Run, command: str) -> None:
    assert f"sessionpipe sinks {command}" in said(run("sinks", command, "--help"))
