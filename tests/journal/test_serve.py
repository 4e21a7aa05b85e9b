"""The live view: what a reader is sent, and who gets to read."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.journal import serve
from sessionpipe.journal.serve import Handler, Server
from tests.e2e.machine import wait_for
from tests.journal.making import Story, binding, capture, conversation, line, lines, manifest, put, write
from tests.patience import PATIENCE_S


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server of ``folder`` in this process."""
    server = Server(folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with server:
            yield server
    finally:
        server.shutdown()
        thread.join()


class Client:
    """A reader of the stream that keeps the view it was told of."""

    def __init__(self, server: Server, path: str = "/events", **headers: str) -> None:
        self.connection = http.client.HTTPConnection(
            "127.0.0.1", server.server_address[1], timeout=PATIENCE_S
        )
        self.connection.request("GET", f"/{server.token}{path}", headers=headers)
        self.response = self.connection.getresponse()
        self.view: dict[str, Any] = {}
        self.revision = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self.connection.close()

    def message(self) -> dict[str, Any]:
        """The next message."""
        while (row := self.response.readline()) == b"\n" or row.startswith(b":"):
            pass
        assert row.startswith(b"data: "), row
        message: dict[str, Any] = json.loads(row.removeprefix(b"data: "))
        assert message["revision"] == self.revision + 1
        self.revision += 1
        return message

    def follow(self, done: Any) -> list[dict[str, Any]]:
        """Take messages as the documentation says, until ``done`` of the session; the messages."""
        messages = []
        while not messages or not done(self.view["session"]):
            message = self.message()
            messages.append(message)
            if message["type"] == "snapshot":
                self.view = message["view"]
            for operation in message.get("ops", []):
                _, session, name = operation["path"].split("/")
                if operation["op"] == "append":
                    self.view[session][name] += operation["value"]
                else:
                    assert operation["op"] == "replace"
                    self.view[session][name] = operation["value"]
        return messages


def recording(root: Path, story: Story, events: int) -> Path:
    """A bundle in which so many events of a story are recorded; its events file."""
    running = {key: value for key, value in manifest(status="running").items() if key != "finishedAt"}
    put(root / "manifest.json", running)
    put(root / "session/binding.json", binding())
    put(root / "session/entries.ndjson", b"")
    put(root / "session/capture.json", capture(Story(), "recording"))
    return put(root / "session/events.ndjson", lines(story.events[:events]))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def status_is(word: str) -> Any:
    return lambda session: session["status"]["status"] == word


# --- what is sent -------------------------------------------------------------------------------


def test_the_first_message_is_a_snapshot_of_everything(tmp_path: Path) -> None:
    story = conversation()
    with serving(write(tmp_path / "bundle", story)) as server, Client(server) as client:
        assert client.response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert client.message() == {
            "type": "snapshot",
            "revision": 1,
            "view": {
                "session": {
                    "binding": binding(),
                    "capture": capture(story),
                    "entries": story.entries,
                    "events": story.events,
                    "status": {"status": "complete", "reason": None},
                }
            },
        }


def test_what_comes_is_appended_and_the_capture_replaced_after_it(tmp_path: Path) -> None:
    root, story = tmp_path / "bundle", conversation()
    events = recording(root, story, 3)
    with serving(root) as server, Client(server) as client:
        client.follow(status_is("recording"))
        assert client.view["session"]["events"] == story.events[:3]
        append(root / "session/entries.ndjson", lines(story.entries))
        append(events, lines(story.events[3:]))
        put(root / "session/capture.json", capture(story))
        messages = client.follow(status_is("complete"))
        assert client.view["session"] | {"status": None} == {
            "binding": binding(),
            "capture": capture(story),
            "entries": story.entries,
            "events": story.events,
            "status": None,
        }
        order = [operation["path"] for message in messages for operation in message["ops"]]
        assert order.index("/session/capture") > max(
            order.index("/session/events"), order.index("/session/entries")
        )


def test_many_records_at_once_are_few_patches_and_all_there(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(serve, "PATCH_BYTES", 20_000)
    root, story = tmp_path / "bundle", Story()
    for n in range(1000):
        story.event("tick", {"n": n})
    events = recording(root, story, 0)
    with serving(root) as server, Client(server) as client:
        client.message()
        client.view = {"session": {"events": [], "status": {}}}
        append(events, lines(story.events))
        messages = client.follow(lambda session: len(session["events"]) == 1000)
        assert client.view["session"]["events"] == story.events
        assert 2 < len(messages) < 20


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    root, story = tmp_path / "bundle", conversation()
    rows = [line(event) for event in story.events]
    events = recording(root, story, 0)
    append(events, rows[0] + rows[1][:20])
    with serving(root) as server, Client(server) as client:
        client.follow(status_is("recording"))
        assert client.view["session"]["events"] == story.events[:1]
        append(events, rows[1][20:])
        client.follow(lambda session: len(session["events"]) == 2)
        assert client.view["session"]["events"] == story.events[:2]


def test_a_record_is_sent_as_it_stands_on_a_line_of_its_own(tmp_path: Path) -> None:
    root, story = tmp_path / "bundle", conversation()
    events = recording(root, story, 0)
    odd = b'{"seq":1,\r"x":12345678901234567890,"y":"\\ud83d \xe2\x80\xa8","z":1.0}\r\n'
    put(events, odd)
    with serving(root) as server, Client(server) as client:
        (record,) = client.message()["view"]["session"]["events"]
        assert record == {"seq": 1, "x": 12345678901234567890, "y": "\ud83d \u2028", "z": 1.0}


def test_lines_that_are_none_are_left_out_and_the_status_says_so(tmp_path: Path) -> None:
    root, story = tmp_path / "bundle", conversation()
    put(recording(root, story, 0), line(story.events[0]) + b"nonsense\n" + line(story.events[1]))
    with serving(root) as server, Client(server) as client:
        session = client.message()["view"]["session"]
    assert session["events"] == story.events[:2]
    assert session["status"] == {
        "status": "unverified",
        "reason": "events.ndjson, line 2: it can't be read",
    }


def test_without_a_capture_it_is_unverified(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle")
    (root / "session/capture.json").unlink()
    with serving(root) as server, Client(server) as client:
        session = client.message()["view"]["session"]
    assert (session["capture"], session["status"]["status"]) == (None, "unverified")


def test_events_of_another_schema_are_not_sent(tmp_path: Path) -> None:
    story = conversation()
    root = write(tmp_path / "bundle", story)
    put(root / "session/capture.json", capture(story, eventSchema="v9"))
    with serving(root) as server, Client(server) as client:
        session = client.message()["view"]["session"]
    assert (session["events"], session["status"]["status"]) == ([], "unavailable")
    assert session["entries"] == story.entries


def test_a_journal_that_is_not_there_yet_is_sent_when_it_is(tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    with serving(root) as server, Client(server) as client:
        client.follow(lambda session: session["capture"] is None)
        story = conversation()
        write(tmp_path / "made", story)
        (tmp_path / "made").rename(root)
        client.follow(status_is("complete"))
        assert client.view["session"]["events"] == story.events


@pytest.mark.parametrize("how", ["cut", "replaced"])
def test_a_journal_that_is_not_the_same_any_more_is_a_new_snapshot(tmp_path: Path, how: str) -> None:
    root, story = tmp_path / "bundle", conversation()
    events = recording(root, story, 9)
    with serving(root) as server, Client(server) as client:
        client.follow(status_is("recording"))
        if how == "cut":
            os.truncate(events, len(lines(story.events[:2])))
        else:
            put(tmp_path / "new", lines(story.events[:2])).replace(events)
        messages = client.follow(lambda session: len(session["events"]) == 2)
        assert messages[-1]["type"] == "snapshot"


def test_the_next_conversation_of_a_run_is_a_new_snapshot(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle")
    with serving(root) as server, Client(server) as client:
        client.follow(status_is("complete"))
        story = Story()
        story.event("tick")
        write(tmp_path / "made", story, folder="a2")
        (root / "session/segments").mkdir()
        (tmp_path / "made/a2").rename(root / "session/segments/a2")
        client.follow(lambda session: session["events"] == story.events)


def test_a_connection_begins_with_a_snapshot_however_often(tmp_path: Path) -> None:
    story = conversation()
    with serving(write(tmp_path / "bundle", story)) as server:
        for _ in range(3):
            with Client(server) as client:
                assert client.message()["view"]["session"]["events"] == story.events


def test_the_view_once_as_json(tmp_path: Path) -> None:
    story = conversation()
    with serving(write(tmp_path / "bundle", story)) as server, Client(server, "/session?x=1") as client:
        assert client.response.headers["Content-Type"] == "application/json"
        assert json.loads(client.response.read())["session"]["events"] == story.events


# --- readers of all kinds -----------------------------------------------------------------------


def big(root: Path) -> Story:
    """A journal larger than what a connection's buffers take."""
    story = Story()
    for n in range(300):
        story.event("tick", {"n": n, "text": "x" * 50_000})
    recording(root, story, 300)
    return story


def test_a_slow_reader_holds_up_nobody_and_misses_nothing(tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    story = big(root)
    with serving(root) as server, Client(server) as slow:
        with Client(server) as quick:
            quick.follow(lambda session: len(session["events"]) == 300)
            append(root / "session/events.ndjson", line({**story.event("tick")}))
            quick.follow(lambda session: len(session["events"]) == 301)
        slow.follow(lambda session: len(session["events"]) == 301)
        assert [event["seq"] for event in slow.view["session"]["events"]] == list(range(1, 302))


def test_a_reader_that_takes_nothing_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "timeout", 0.2)
    big(tmp_path / "bundle")
    with serving(tmp_path / "bundle") as server, Client(server):
        wait_for(lambda: server.places._value < serve.CONNECTIONS, "the reader to be served")
        wait_for(lambda: server.places._value == serve.CONNECTIONS, "the reader to be let go")


def test_a_reader_that_is_gone_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "HEARTBEAT_S", 0.01)
    with serving(write(tmp_path / "bundle")) as server:
        with Client(server) as client:
            client.message()
            assert client.response.readline() == b"\n"
            assert client.response.readline() == b": still here\n"
        wait_for(lambda: server.places._value == serve.CONNECTIONS, "the place to be free again")


def test_there_are_only_so_many_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "CONNECTIONS", 1)
    with serving(write(tmp_path / "bundle")) as server, Client(server) as first:
        first.message()
        with Client(server) as second:
            assert second.response.status == 503


# --- who gets to read ---------------------------------------------------------------------------


def ask(
    server: Server, path: str | None = None, *, method: str = "GET", **headers: str
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=PATIENCE_S)
    try:
        asked = f"/{server.token}/session" if path is None else path
        connection.request(
            method, asked, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )
        response = connection.getresponse()
        response.read()
        return response
    finally:
        connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(write(tmp_path_factory.mktemp("served") / "bundle")) as running:
        yield running


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST:9000", "[::1]", "[::1]:9000"])
def test_this_machines_own_names_are_answered_by_whatever_tunnel(server: Server, host: str) -> None:
    assert ask(server, Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:1", "", "[::2]:1"],
)
def test_a_name_that_was_made_to_point_here_is_not(server: Server, host: str) -> None:
    assert ask(server, Host=host).status == 421


def test_another_page_is_not_answered(server: Server) -> None:
    here = f"127.0.0.1:{server.server_address[1]}"
    for origin in ("http://evil.example", "null", "https://" + here, f"http://localhost:{here[-5:]}"):
        assert ask(server, Origin=origin).status == 403
    for site in ("cross-site", "same-site"):
        assert ask(server, Sec_Fetch_Site=site).status == 403
    assert ask(server, Origin=f"http://{here}", Sec_Fetch_Site="same-origin").status == 200


@pytest.mark.parametrize(
    "path", ["/", "/events", "/session", "/x/events", "//events", "/..//session", "/%C3%A9/events"]
)
def test_without_the_token_there_is_nothing(server: Server, path: str) -> None:
    assert ask(server, path).status == 404


def test_with_it_there_is_nothing_else(server: Server) -> None:
    for rest in ("", "/", "/other", "/events/x", "/../session"):
        assert ask(server, f"/{server.token}{rest}").status == 404
    assert ask(server, method="POST").status == 501


def test_no_answer_lets_another_page_read_it_or_is_kept(server: Server) -> None:
    for response in (ask(server), ask(server, "/"), ask(server, Origin="http://evil.example")):
        assert [name for name in response.headers if name.lower().startswith("access-control")] == []
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_it_listens_to_this_machine_alone_and_each_time_by_another_address(tmp_path: Path) -> None:
    with serving(tmp_path) as one, serving(tmp_path) as other:
        assert one.socket.getsockname()[0] == "127.0.0.1"
        assert one.token != other.token
        assert len(one.token) >= 22


def test_what_is_no_http_stops_nothing(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_connection(server.server_address) as raw:  # type: ignore[arg-type]
        raw.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        raw.recv(1000)
    with socket.create_connection(server.server_address) as raw:  # type: ignore[arg-type]
        raw.sendall(b"GET * HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert raw.recv(1000).startswith(b"HTTP/1.0 404 ")
    with socket.create_connection(server.server_address):  # type: ignore[arg-type]
        pass
    assert ask(server).status == 200
    assert capfd.readouterr().err == ""


# --- the command --------------------------------------------------------------------------------


def test_the_command_prints_its_address_serves_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    root = write(tmp_path / "bundle")
    command = [sys.executable, "-m", "sessionpipe", "journal", "serve", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        try:
            url = running.stdout.readline().decode().strip()
            host, _, path = url.removeprefix("http://").partition("/")
            connection = http.client.HTTPConnection(host, timeout=PATIENCE_S)
            connection.request("GET", f"/{path}")
            assert connection.getresponse().readline().startswith(b'data: {"type":"snapshot","revision":1,')
            connection.close()
            running.send_signal(signal.SIGINT)
            assert running.wait(PATIENCE_S) == 130
            assert running.stderr.read() == b""
        finally:
            running.kill()


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "sessionpipe", "journal", "serve", str(tmp_path), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"sessionpipe: port {port} can't be used (Address already in use)")
