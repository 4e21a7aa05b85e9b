"""``sinks`` with a collector and with what packages bring: headers, words, and what can't be done there."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sessionpipe.cli.sink_options import target_of
from sessionpipe.config import SinkConfig, load
from sessionpipe.paths import config_dir
from tests.cli.conftest import Recorder
from tests.cli.test_sinks import only, refused, said
from tests.collector import Collector, taken
from tests.collector import refused as answer_refused
from tests.plugin import install, written
from tests.sinks.test_plugins import SINK
from tests.sinks.test_plugins import packages as packages

Run = Callable[..., Result]

KEY = "key" + "Zq7" * 8
URL = "https://collector.example:4318"


@pytest.fixture(autouse=True)
def _no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is delivered here but by `sinks test`."""
    monkeypatch.setenv("SESSIONPIPE_NO_WORKER", "1")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        yield made


# --- targets ----------------------------------------------------------------------------------------


def test_a_collector_is_added_without_being_asked_anything(run: Run, collector: Collector) -> None:
    output = said(run("sinks", "add", f"otlp:{collector.url}", "--tier", "1"))
    assert only() == SinkConfig(name=only().name, kind="otlp", url=collector.url, tier=1)
    assert f"to otlp:{collector.url}" in output and "OTLP has no way to take anything back" in output
    assert "no token is sent" not in output
    assert (collector.asked, collector.requests) == (0, [])


@pytest.mark.parametrize("written", ["", "/", ":443", ":443/"])
def test_one_collector_is_one_sink_however_it_is_written(written: str) -> None:
    assert target_of(f"otlp:HTTPS://C.example{written}") == target_of("otlp:https://c.example")


@pytest.mark.parametrize("target", [f"otlp:{URL}/in", "otlp:http://localhost:4318", URL])
def test_what_is_written_down_is_what_was_typed(run: Run, target: str) -> None:
    said(run("sinks", "add", target))
    assert only().target == target


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("otlp:collector.example:4318", "did you mean otlp:https://collector.example:4318?"),
        ("otlp://collector:4318", "did you mean otlp:https://collector:4318?"),
        ("otlp:localhost:4318", "did you mean otlp:http://localhost:4318?"),
        ("otlp:", "as in otlp:https://collector.example:4318"),
        ("otlp:grpc://x", "as in otlp:https://collector.example:4318"),
    ],
)
def test_what_is_no_collectors_address_is_refused_with_what_may_be_meant(
    run: Run, target: str, meant: str
) -> None:
    assert meant in refused(run("sinks", "add", target), usage=True)


def test_a_collector_is_spoken_to_securely_unless_it_is_here(run: Run) -> None:
    assert "plain http" in refused(run("sinks", "add", "otlp:http://collector.example:4318"))
    assert "hush" not in refused(run("sinks", "add", "otlp:https://me:hush@collector.example"))


def test_a_collector_takes_no_signature(run: Run) -> None:
    assert "takes no signing secret" in refused(
        run("sinks", "add", f"otlp:{URL}", "--secret-file", "x"), usage=True
    )


@pytest.mark.parametrize("kind", ["file:~/x", "stdout", "https://board.example"])
def test_what_has_no_headers_takes_none(run: Run, kind: str) -> None:
    assert "takes no headers" in refused(run("sinks", "add", kind, "--header", "a=b"), usage=True)


# --- headers ----------------------------------------------------------------------------------------


def test_a_headers_value_is_kept_and_never_shown(run: Run, recorder: Recorder) -> None:
    recorder.add("s", "turn.started")
    outputs = [
        said(run("sinks", "add", f"otlp:{URL}", "--name", "fleet", "--header", f"api-key={KEY}")),
        said(run("sinks", "list")),
        said(run("status")),
        said(run("status", "--json")),
        run("doctor").output,
        said(run("sinks", "set", "fleet", "--tier", "1")),
    ]
    assert only().headers == {"api-key": KEY}
    assert stat.S_IMODE((config_dir() / "config.toml").stat().st_mode) == 0o600
    assert not any(KEY in output for output in outputs) and KEY not in repr(only())
    assert f"otlp:{URL} (api-key)" in outputs[1]


def test_a_header_can_come_from_standard_input_a_variable_or_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    options = ["--header-env", "b=B_KEY", "--header-file", f"c={tmp_path}/key", "--header", "a=-"]
    output = said(run("sinks", "add", f"otlp:{URL}", *options, input=f"{KEY}\n"))
    assert only().headers == {"a": KEY, "b": {"env": "B_KEY"}, "c": {"file": f"{tmp_path}/key"}}
    assert "B_KEY is not set" in output and "chmod 600" in output and KEY not in output


def test_headers_are_added_changed_and_taken_away_one_by_one(run: Run) -> None:
    said(run("sinks", "add", f"otlp:{URL}", "--name", "fleet", "--header", "X-A=1", "--header", "x-b=2"))
    said(run("sinks", "set", "fleet", "--header", "x-a=3", "--header", "x-c=a=b c"))
    assert only().headers == {"x-a": "3", "x-b": "2", "x-c": "a=b c"}
    said(run("sinks", "set", "fleet", "--header", "x-a=", "--header", "x-c="))
    assert only().headers == {"x-b": "2"}
    said(run("sinks", "set", "fleet", "--header", "X-B="))
    assert only().headers is None
    said(run("sinks", "add", f"otlp:{URL}", "--tier", "1"))


def test_other_settings_leave_the_headers_as_they_are(run: Run) -> None:
    said(run("sinks", "add", f"otlp:{URL}", "--name", "fleet", "--header-env", "x-a=A"))
    said(run("sinks", "add", f"otlp:{URL}", "--tier", "2"))
    said(run("sinks", "pause", "fleet"))
    assert (only().headers, only().tier, only().paused) == ({"x-a": {"env": "A"}}, 2, True)


@pytest.mark.parametrize(
    "options",
    [
        ["--header", "novalue"],
        ["--header", "=x"],
        ["--header", "a b=x"],
        ["--header", "Content-Type=x"],
        ["--header", "host=x"],
        ["--header", "a=1", "--header", "A=2"],
        ["--header", "a=1", "--header-env", "A=B"],
        ["--header-env", "a=not a name"],
        ["--header-env", "a="],
        ["--header-file", "a="],
        ["--header", "a=-", "--header", "b=-"],
        ["--header", "a=-", "--token", "-"],
        ["--header", "authorization=x", "--token-env", "T"],
    ],
)
def test_headers_that_make_no_sense_are_a_usage_error(run: Run, options: list[str]) -> None:
    refused(run("sinks", "add", f"otlp:{URL}", *options), usage=True)
    assert load(config_dir()).sinks == ()


@pytest.mark.parametrize("value", ["a\nb", "é", "\x07", " "])
def test_a_value_that_can_not_travel_is_refused_without_being_repeated(run: Run, value: str) -> None:
    message = refused(run("sinks", "add", f"otlp:{URL}", "--header", f"a={KEY}{value}{value}x\x00"))
    assert KEY not in message and load(config_dir()).sinks == ()


def test_a_key_in_an_address_is_not_told_by_another(run: Run) -> None:
    said(run("sinks", "add", f"otlp:{URL}?key={KEY}", "--name", "fleet"))
    message = refused(run("sinks", "add", f"otlp:{URL}/other", "--name", "fleet"))
    assert f"fleet sends to otlp:{URL};" in message and KEY not in message


def test_a_bearer_token_is_given_as_to_any_receiver(run: Run, collector: Collector) -> None:
    said(run("sinks", "add", f"otlp:{collector.url}", "--name", "fleet", "--token", "-", input=KEY))
    said(run("sinks", "test", "fleet"))
    assert collector.requests[0].headers["authorization"] == f"Bearer {KEY}"


# --- trying, forgetting, replaying ------------------------------------------------------------------


def test_a_collector_is_tried_with_a_record_that_stays(run: Run, collector: Collector) -> None:
    said(run("sinks", "add", f"otlp:{collector.url}", "--name", "fleet"))
    output = said(run("sinks", "test", "fleet"))
    (record,) = collector.records
    assert record.raw.event_name == "session.heartbeat"
    assert record.attributes["session.id"] in output and "stays wherever the collector puts it" in output


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            answer_refused(401, "unknown key"),
            "HTTP 401: the receiver refused the header api-key (unknown key)",
        ),
        (
            taken(1, "no pipeline"),
            "will not store a test event: it will not store 1 of 1 events: no pipeline",
        ),
        (answer_refused(404), "is the address right?"),
    ],
)
def test_what_is_wrong_with_a_collector_is_said(
    run: Run, collector: Collector, answer: Any, says: str
) -> None:
    said(run("sinks", "add", f"otlp:{collector.url}", "--name", "fleet", "--header", f"api-key={KEY}"))
    collector.answers = [answer]
    assert says in refused(run("sinks", "test", "fleet"))


def test_forgetting_says_that_a_collector_cannot(run: Run, recorder: Recorder) -> None:
    said(run("sinks", "add", f"otlp:{URL}", "--name", "fleet"))
    recorder.add("s", "session.started", {"source": "startup"})
    output = said(run("forget", "claude-code:s", "--yes"))
    assert "fleet: gets a record that says so, and no more: OTLP has no way to erase" in output


def test_the_list_says_that_a_collector_cannot_forget(run: Run) -> None:
    said(run("sinks", "add", f"otlp:{URL}", "--name", "fleet"))
    assert "fleet: OTLP has no way to take anything back" in said(run("sinks", "list"))


def test_a_replay_says_what_a_collector_makes_of_it(run: Run, recorder: Recorder) -> None:
    recorder.add("s", "session.started", {"source": "startup"})
    said(run("sinks", "add", f"otlp:{URL}", "--name", "fleet"))
    row = recorder.outbox.sink("fleet")
    assert row is not None
    recorder.outbox.change_sink("fleet", lambda row: row.placed(1))
    assert "the same log.record.uid" in said(run("replay", "fleet"))


def test_what_a_collector_got_is_shown_with_how_it_got_it(run: Run, recorder: Recorder) -> None:
    recorder.add("s", "session.started", {"source": "startup"})
    said(run("sinks", "add", f"otlp:{URL}", "--name", "fleet"))
    recorder.outbox.change_sink("fleet", lambda row: row.placed(1))
    notes = json.loads(said(run("privacy", "show", "fleet", "--json")))["notes"]
    assert any("log records" in note for note in notes)


# --- what packages bring ----------------------------------------------------------------------------


def test_a_kind_that_a_package_brings_is_added_like_any(run: Run, packages: Path, tmp_path: Path) -> None:
    install(packages)
    output = said(run("sinks", "add", f"sqlite:{tmp_path}/a.db", "--tier", "2", "--header", "k=v"))
    assert only().kind == "sqlite" and only().url == f"{tmp_path}/a.db" and only().headers == {"k": "v"}
    assert "served by the package sessionpipe-sqlite, whose code runs as you" in output
    assert only().name.startswith("sqlite-")
    said(run("sinks", "add", f"sqlite:{tmp_path}/a.db", "--tier", "1"))
    assert only().tier == 1


def test_a_target_that_it_refuses_is_refused_in_its_words(run: Run, packages: Path) -> None:
    install(packages)
    assert "it must be an absolute path" in refused(run("sinks", "add", "sqlite:a.db"))
    assert load(config_dir()).sinks == ()


def test_a_url_of_its_own_scheme_is_kept_whole(run: Run, packages: Path) -> None:
    written(packages, "paper", SINK)
    said(run("sinks", "add", "paper://tray.example/2"))
    assert (only().url, only().target) == ("paper://tray.example/2", "paper://tray.example/2")


def test_a_url_never_holds_a_password(run: Run, packages: Path) -> None:
    written(packages, "paper", SINK)
    message = refused(run("sinks", "add", f"paper://me:{KEY}@tray.example?key={KEY}"))
    assert "holds a password" in message and KEY not in message


def test_one_that_can_not_be_used_yet_is_added_and_waits(run: Run, packages: Path) -> None:
    written(packages, "paper", "import nothing_of_that_name")
    output = said(run("sinks", "add", "paper:tray"))
    assert (
        "warning: it waits, because the code of the sink kind paper failed with ModuleNotFoundError" in output
    )
    assert "nothing_of_that_name" in refused(run("sinks", "test", only().name))
    assert "nothing_of_that_name" in run("doctor").output


def test_one_that_two_packages_bring_is_served_by_neither(run: Run, packages: Path) -> None:
    written(packages, "paper", SINK)
    written(packages, "paper", SINK, package="other")
    output = said(run("sinks", "add", "paper:tray"))
    assert "(other and paper-package); uninstall all but one" in output and "served by" not in output


def test_one_that_nobody_brings_is_said_with_what_there_is(run: Run, config_file: Path) -> None:
    assert "nor of a kind that an installed package brings" in refused(
        run("sinks", "add", "redis:x"), usage=True
    )
    config_file.write_text('[[sinks]]\nname = "r"\nkind = "htpp"\nurl = "https://b.example"\n')
    config_file.chmod(0o600)
    assert "did you mean http?" in refused(run("sinks", "test", "r"))


def doing(where: str, does: str) -> str:
    """A package's code that does something when it is imported, or when it is sent something."""
    if where == "import":
        return f"{does}\n{SINK}"
    return SINK.replace("        return Acked()", f"        {does}\n        return Acked()")


@pytest.mark.parametrize("where", ["import", "send"])
def test_what_its_code_prints_is_no_part_of_what_a_command_prints(
    run: Run, packages: Path, where: str
) -> None:
    written(packages, "paper", doing(where, "print('noise')"))
    commands = [["sinks", "add", "paper:tray", "--name", "p"], ["sinks", "test", "p"], ["doctor", "--json"]]
    results = [run(*command) for command in commands]
    assert not any("noise" in result.stdout for result in results)
    assert "noise" in "".join(result.stderr for result in results)
    assert json.loads(results[-1].stdout)["findings"]


@pytest.mark.parametrize("where", ["import", "send"])
def test_code_that_comes_to_no_end_is_waited_for_for_a_while(
    run: Run, packages: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr("sessionpipe.sinks.apart.PATIENCE_S", 0.5)
    # Each has a name of its own: the lock of a module that is just being imported stays with it.
    written(packages, f"endless-{where}", doing(where, "import threading; threading.Event().wait()"))
    said(run("sinks", "add", f"endless-{where}:x", "--name", "p"))
    assert "did not come to an end within" in refused(run("sinks", "test", "p"))
    assert ("did not come to an end within" in run("doctor").output) == (where == "import")


@pytest.mark.parametrize("where", ["import", "send"])
@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit(0)", "GeneratorExit"])
def test_no_command_ends_because_its_code_says_so(run: Run, packages: Path, where: str, error: str) -> None:
    written(packages, "paper", doing(where, f"raise {error}"))
    output = said(run("sinks", "add", "paper:tray", "--name", "p"))
    assert ("warning: it waits" in output) == (where == "import")
    message = refused(run("sinks", "test", "p"))
    assert error.partition("(")[0] in message and "paper_package.py:" in message


def test_a_thread_of_its_code_does_not_keep_a_command_from_ending(run: Run, packages: Path) -> None:
    started = "import threading; threading.Thread(target=threading.Event().wait, name='of a package').start()"
    written(packages, "paper", doing("import", started))
    said(run("sinks", "add", "paper:tray"))
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "of a package")
    assert "of a package" in {thread.name for thread in threading.enumerate()}


def test_no_package_is_looked_at_before_the_person_adds_its_kind(
    run: Run, packages: Path, recorder: Recorder, tmp_path: Path
) -> None:
    written(packages, "paper", f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n{SINK}")
    recorder.add("s", "session.started", {"source": "startup"})
    said(run("sinks", "add", f"file:{tmp_path}/log"))
    for command in (["sinks", "list"], ["status"], ["doctor"], ["forget", "claude-code:s", "--yes"]):
        run(*command)
    assert not (tmp_path / "ran").exists()
    said(run("sinks", "add", "paper:tray"))
    assert (tmp_path / "ran").exists()


def test_its_own_word_decides_whether_it_takes_a_session_back(
    run: Run, packages: Path, tmp_path: Path
) -> None:
    install(packages)
    written(packages, "paper", SINK)
    said(run("sinks", "add", f"sqlite:{tmp_path}/a.db", "--name", "db"))
    said(run("sinks", "add", "paper:tray", "--name", "paper"))
    assert "took it back" in said(run("sinks", "test", "db"))
    assert "it does not say that it forgets" in said(run("sinks", "test", "paper"))


def test_forget_leaves_what_it_does_to_its_package(run: Run, recorder: Recorder, config_file: Path) -> None:
    """Also when that package is gone."""
    config_file.write_text('[[sinks]]\nname = "r"\nkind = "redis"\nurl = "x"\n')
    config_file.chmod(0o600)
    recorder.add("s", "session.started", {"source": "startup"})
    assert "r: is told to forget it; whether" in said(run("forget", "claude-code:s", "--yes"))
