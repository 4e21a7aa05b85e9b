"""``sessionpipe receive``: what it asks for, what it prints, what it refuses; and ``demo --to`` it."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sessionpipe.cli import cli
from sessionpipe.cli.playback import load
from sessionpipe.paths import data_dir
from tests.receivers.served import Served, event, serving


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["receive", *words], catch_exceptions=False)


def test_without_the_extra_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "starlette" else find(name))
    result = run()
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert "pip install 'sessionpipe[receiver]'" in result.output


def test_it_prints_what_to_paste_and_the_token_once(tmp_path: Path) -> None:
    with serving(tmp_path) as receiver:
        first = receiver.said
        connect = re.findall(r"^A sink: +sessionpipe (sinks add .+)$", first, re.M)[0]
        assert receiver.token in first and receiver.url in connect and "--tier 1" in connect
        receiver.end()
        receiver.start()
        assert receiver.token not in receiver.said and connect.partition(" --")[2] in receiver.said


def test_the_line_it_prints_connects_a_sink_that_works(tmp_path: Path) -> None:
    with serving(tmp_path) as receiver:
        connect = re.findall(r"^A sink: +sessionpipe (.+)$", receiver.said, re.M)[0]
        ours = f'set -e; run() {{ {sys.executable} -m sessionpipe "$@"; }}'
        script = f"{ours}; run {connect} --name page; run sinks test page"
        environment = {**receiver.environment(), "SESSIONPIPE_STATE_DIR": str(tmp_path / "sender")}
        done = subprocess.run(
            ["/bin/sh", "-c", script], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "page works: it took a test session and took it back" in done.stdout


def test_the_link_is_printed_again(tmp_path: Path) -> None:
    with serving(tmp_path) as receiver:
        words = [sys.executable, "-m", "sessionpipe", "receive", "--link", "--port", str(receiver.port)]
        done = subprocess.run(words, env=receiver.environment(), capture_output=True, text=True, check=True)
        assert done.stdout == receiver.link + "\n"


@pytest.mark.parametrize(
    "options",
    [(), ("--token-file", "~/other token"), ("--host", "0.0.0.0", "--network")],
)
def test_what_somebody_without_the_link_is_told_to_type_prints_it(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    with serving(tmp_path, *options) as receiver:
        told = re.findall(rb"<code>sessionpipe (.+)</code>", receiver.get("/").body)[0].decode()
        script = f"{sys.executable} -m sessionpipe {html.unescape(told)}"
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            env=receiver.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == receiver.link + "\n"


def test_there_is_no_link_before_there_is_a_receiver() -> None:
    result = run("--link")
    assert (result.exit_code, "start `sessionpipe receive` first" in result.output) == (1, True)


def test_it_lets_other_machines_connect_only_when_that_is_said() -> None:
    result = run("--host", "0.0.0.0")
    assert (result.exit_code, "say --network if that is meant" in result.output) == (2, True)


def test_with_that_said_it_says_what_it_means(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "0.0.0.0", "--network") as receiver:
        assert "anyone on the way can read along" in receiver.errors.read_text()
        assert receiver.take(event())["accepted"] == 1


def test_where_no_sink_would_send_to_it_none_is_told_to(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "127.0.0.2", "--network") as receiver:
        assert "sinks add" not in receiver.said
        assert f"none sends to {receiver.url}: it is plain http" in receiver.said
        receiver.enter()
        page = receiver.page()
        assert "sinks add" not in page and "--url https://" in page


def test_behind_a_proxy_it_goes_by_the_address_it_is_reached_at(tmp_path: Path) -> None:
    with Proxied(tmp_path) as receiver:
        answer = receiver.get(f"/enter?key={receiver.key}", {"host": "board.example"})
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-sessionpipe=") and "Secure" in cookie
        assert receiver.get("/", {"host": "other.example"}).status == 421
        assert "sinks add https://board.example " in receiver.said


class Proxied(Served):
    """A receiver that is reached as https://board.example; here, without the proxy."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        super().__init__(folder, "--url", "https://board.example/")

    def start(self, port: int = 0) -> None:
        super().start(self._port)
        self.key = self.link.partition("key=")[2]
        self.url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Proxied:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


@pytest.mark.parametrize(
    "url", ["board.example", "ftp://board.example", "https://board.example/path", "https://", "https://a:b"]
)
def test_an_address_that_is_none_is_a_usage_error(url: str) -> None:
    assert run("--url", url).exit_code == 2


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("--port", str(taken.getsockname()[1]))
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert "is a receiver running already?" in result.output


def test_a_port_that_another_has_on_the_other_address_of_this_machine_is_not_used() -> None:
    try:
        taken = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with taken:
        result = run("--port", str(taken.getsockname()[1]))
    assert (result.exit_code, "can't be used" in result.output) == (1, True)


@pytest.mark.parametrize(
    ("prepare", "words", "says"),
    [
        (lambda path: path.write_text("not a database, " * 100), ["--db"], "can't be used"),
        (lambda path: path.mkdir(), ["--db"], "can't be used"),
        (lambda path: path.write_text("short"), ["--token-file"], "chmod 600"),
        (lambda path: path.mkdir(mode=0o700), ["--token-file"], "can't be used"),
        (lambda path: path.write_text("no secret"), ["--secret-file"], "whsec_"),
        (lambda path: None, ["--secret-file"], "can't be used"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_in_one_line(
    prepare: Any, words: list[str], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    prepare(path)
    result = run("--port", "0", *words, str(path))
    assert (result.exit_code, result.output.count("\n"), says in result.output) == (1, 1, True), result.output


# --- demo --to ------------------------------------------------------------------------------------


def demo(*words: str) -> subprocess.CompletedProcess[str]:
    # At no person's pace.
    code = (
        "import sessionpipe.cli.demo as demo; demo.PAUSE_S = 0; from sessionpipe.__main__ import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", code, "demo", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )


def test_a_recorded_session_is_sent(tmp_path: Path) -> None:
    with serving(tmp_path) as receiver:
        done = demo("--to", receiver.url, "--tier", "2", "--token-file", str(receiver.token_file))
        assert (done.returncode, done.stderr) == (0, "")
        assert re.search(r"sent \d+ events at tier 2", done.stdout)
        [found] = receiver.sessions()
    assert (found["session"]["title"], found["session"]["cwd"], found["turns"]) == ("Try write", "~/src", 3)


def test_it_goes_into_a_file_too(tmp_path: Path) -> None:
    assert demo("--to", f"file:{tmp_path / 'out.ndjson'}").returncode == 0
    tiers = {json.loads(line)["tier"] for line in (tmp_path / "out.ndjson").read_text().splitlines()}
    assert tiers == {1}


def test_a_receiver_that_does_not_take_it_is_said_in_one_line(tmp_path: Path) -> None:
    with serving(tmp_path) as receiver:
        done = demo("--to", receiver.url)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "the receiver wants a token" in done.stderr and "resume" not in done.stderr
    assert "can't be reached" in demo("--to", receiver.url).stderr
    assert demo("--token-file", "x").returncode == 2


def test_a_recording_played_anew_is_another_session(tmp_path: Path) -> None:
    folder = data_dir("conformance") / "harness" / "claude-code" / "tui-permission"
    once, again = (load(folder, tmp_path, {}, anew=True) for _ in range(2))
    ids = [{json.loads(hook.payload)["session_id"] for hook in played.hooks} for played in (once, again)]
    assert [len(found) for found in ids] == [1, 1] and ids[0] != ids[1]
    assert {t.path.stem for t in once.transcripts} == ids[0]
