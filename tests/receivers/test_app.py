"""The receiver as a process: what senders, programs and browsers are answered, and what it survives."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import http.client
import json
import re
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner

from sessionpipe.conformance import main
from sessionpipe.protocol import new_id, short_id
from sessionpipe.receiver.app import MAX_BYTES, MAX_EVENTS, Receiver, Settings
from sessionpipe.receiver.keys import Keys
from sessionpipe.receiver.live import CONNECTIONS
from sessionpipe.receiver.store import Store
from sessionpipe.sinks import signing
from sessionpipe.sinks.discovery import read as read_well_known
from sessionpipe.sinks.wire import Answer
from tests.e2e.machine import wait_for
from tests.receivers.served import EVENTS, NOON, SESSIONS, Served, event, serving

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One receiver for all; each test has sessions of its own."""
    with serving(tmp_path_factory.mktemp("served")) as made:
        made.enter()
        yield made


@pytest.fixture
def name() -> str:
    return f"s-{new_id().lower()}"


def reason(answer: Answer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body)["reason"]


# --- the protocol ---------------------------------------------------------------------------------


def test_it_passes_every_scenario_with_a_secret_too(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    with serving(tmp_path, "--secret-file", str(secret)) as receiver:
        words = [
            receiver.url,
            "--token-file",
            str(receiver.token_file),
            "--secret-file",
            str(secret),
            "--json",
        ]
        result = CliRunner().invoke(main, ["receiver", *words])
        said = json.loads(result.stdout)
        assert [s for s in said["scenarios"] if s["outcome"] != "passed"] == []
        assert result.exit_code == 0
        assert said["readable"] and said["left"] == [] and receiver.sessions() == []
        assert reason(receiver.post(event())) == (401, "signature_missing_or_old")


def test_its_well_known_file_is_understood_by_our_own_sender(served: Served) -> None:
    answer = served.get("/.well-known/sessionpipe")
    said = read_well_known(served.url, answer.status, answer.headers, answer.body, NOON)
    assert (said.problem, said.refusal, said.max_tier) == (None, None, 2)
    assert (said.max_events, said.max_bytes, said.forgets, said.tools) == (
        MAX_EVENTS,
        MAX_BYTES,
        True,
        "main",
    )
    assert said.events == served.url + EVENTS


def test_a_session_that_is_sent_can_be_read_back(served: Served, name: str) -> None:
    sent = [
        event("session.started", 0, session=name, source="startup"),
        event(seq=1, session=name, turn_id="t"),
    ]
    assert served.take(*sent) == {"accepted": 2, "duplicates": 0, "rejected": [], "max_tier": 2}
    said = served.read(name)
    assert said["events"] == sent and said["next"] is None
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", at) for at in said["received_at"])
    assert served.read(name, limit=1)["next"] == 0
    assert served.read(name, after=0)["events"] == sent[1:]
    assert served.read(f"claude-code:{name}") == said
    assert served.read("nobody")["events"] == []


def test_two_agents_sessions_of_one_id_are_told_apart_by_whoever_reads(served: Served, name: str) -> None:
    served.take(event(session=name), event(session=name, harness="codex"))
    answer = served.get(f"{EVENTS}?session={name}", served.bearer)
    assert reason(answer) == (409, "several_sessions")
    assert sorted(json.loads(answer.body)["sessions"]) == [f"claude-code:{name}", f"codex:{name}"]
    assert [e["harness"]["name"] for e in served.read(name, harness="codex")["events"]] == ["codex"]


def test_programs_read_how_every_session_stands(served: Served, name: str) -> None:
    served.take(
        event(session=name, block={"title": "T"}),
        event("attention.needed", 1, session=name, attention_id="a", kind="question"),
    )
    [found] = [s for s in served.sessions() if s["id"] == name]
    assert (
        found | {"state": "needs you", "says": "A question", "reading": False, "events": 2, "turns": 1}
        == found
    )
    assert (found["short_id"], found["session"]) == (short_id("claude-code", name), {"title": "T"})


@pytest.mark.parametrize("path", [f"{EVENTS}?session=s", SESSIONS])
def test_reads_are_for_those_who_hold_the_token(served: Served, path: str) -> None:
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {served.token}"},
        served.cookie,
    ):
        answer = served.get(path, headers)
        assert reason(answer) == (401, "unknown_token")
        assert answer.headers["www-authenticate"] == "Bearer"


# --- what is no batch -----------------------------------------------------------------------------


def test_a_packed_body_is_never_unpacked(served: Served) -> None:
    bomb = gzip.compress(b'{"events":[' + b" " * (64 << 20) + b"]}", compresslevel=9)
    assert reason(served.post(body=bomb, content_encoding="gzip")) == (415, "content_encoding")


@pytest.mark.parametrize("size", [MAX_BYTES + 1, 4 << 20])
def test_a_body_too_large_is_answered_and_not_cut_off(served: Served, size: int) -> None:
    assert reason(served.post(body=b"x" * size)) == (413, "too_many_bytes")


def test_a_body_of_any_length_that_is_not_said_is_bounded_too(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    chunks = (b"x" * 65_536 for _ in range(64))
    connection.request("POST", EVENTS, body=chunks, headers=served.bearer, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_endless_bodies_end(served: Served) -> None:
    head = f"POST {EVENTS} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 999999999999\r\n\r\n"
    sent = 0
    with socket.create_connection(("127.0.0.1", served.port), 30) as connection:
        connection.sendall(head.encode())
        with contextlib.suppress(OSError):
            while sent < 64 << 20:
                sent += connection.send(b"x" * (1 << 20))
    assert sent < 64 << 20


@pytest.mark.parametrize(
    "body", [b"\xff" * 100, b"[" * 100_000, b'{"events":[' + b'{"data":' * 20_000, b"null"]
)
def test_what_is_no_batch_is_answered_with_400(served: Served, body: bytes) -> None:
    assert served.post(body=body).status == 400


def test_a_path_that_is_none_is_answered_with_404(served: Served) -> None:
    for path in (
        "/nothing",
        "/static/nothing.css",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "//etc/passwd",
    ):
        assert served.get(path, served.cookie).status == 404
    assert served.wire.request("DELETE", served.url + EVENTS).status == 405


def test_lone_halves_of_characters_go_through_and_come_back(served: Served, name: str) -> None:
    served.take(event(session=name, text="a\ud800b"), event(seq=1, session=name, block={"title": "t\udfff"}))
    assert [e["data"].get("text") for e in served.read(name)["events"]] == ["a?b", None]
    assert "t?" in served.page()


# --- names, cookies, forms ------------------------------------------------------------------------


def test_a_name_somebody_rebound_to_this_machine_is_refused(served: Served) -> None:
    for path in ("/", "/.well-known/sessionpipe", EVENTS):
        answer = served.get(path, {"host": "evil.example", **served.cookie, **served.bearer})
        assert reason(answer) == (421, "unknown_host")


def test_a_body_of_two_lengths_is_refused_and_its_connection_closed(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as client:
        client.sendall(
            b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n"
            b"transfer-encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
        )
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("path", ["/", "/session?id=pi:a", "/find?q=a", "/live"])
def test_the_page_is_for_those_who_came_in_by_the_link(served: Served, path: str) -> None:
    for headers in ({}, {"cookie": next(iter(served.cookie.values())) + "x"}, served.bearer):
        answer = served.get(path, headers)
        assert answer.status == 401 and b"sessionpipe receive --link" in answer.body


def test_a_wrong_link_opens_nothing(served: Served) -> None:
    for path in ("/enter", "/enter?key=", "/enter?key=wrong", f"/enter?key={served.token}"):
        answer = served.get(path)
        assert answer.status == 401 and "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://localhost:8787", "sessionpipe_8787"),
        ("http://[::1]", "sessionpipe_80"),
        ("HTTPS://board.example", "__Host-sessionpipe"),
    ],
)
def test_the_cookie_has_a_name_of_its_own_whatever_the_address(url: str, name: str, tmp_path: Path) -> None:
    keys, store = Keys("t" * 16), Store(tmp_path / "receiver.db")
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/enter",
        "headers": [(b"host", b"localhost")],
        "query_string": f"key={keys.link}".encode(),
    }
    asyncio.run(Receiver(store, keys, Settings(2, url, 1)).app()(scope, receive, send))
    store.close()
    assert dict(sent[0]["headers"])[b"set-cookie"].startswith(name.encode() + b"=")


def test_the_cookie_is_kept_from_scripts_and_from_other_sites(served: Served) -> None:
    cookie = served.wire.request("GET", served.link).headers["set-cookie"]
    assert {part.strip().lower() for part in cookie.split(";")[1:]} >= {
        "httponly",
        "samesite=strict",
        "path=/",
    }
    assert served.token not in cookie


def forget(served: Served, name: str, form: str, **headers: str) -> Answer:
    body = urlencode({"id": name, "form": form}).encode()
    kind = {"content-type": "application/x-www-form-urlencoded"}
    return served.wire.request("POST", served.url + "/forget", {**served.cookie, **kind, **headers}, body)


def test_a_session_is_forgotten_by_its_own_button_alone(served: Served, name: str) -> None:
    served.take(event(session=name), event(session=name + "-other"))
    full = f"claude-code:{name}"
    forms = [
        re.findall(r'name="form" value="([^"]+)"', served.page("/session?" + urlencode({"id": who})))[0]
        for who in (full, full + "-other")
    ]
    assert forget(served, full, "").status == 403
    assert forget(served, full, forms[1]).status == 403
    assert forget(served, full, forms[0], origin="http://localhost:3000").status == 403
    assert forget(served, full, forms[0], cookie="").status == 401
    assert len(served.read(name)["events"]) == 1
    assert forget(served, full, forms[0], origin=served.url).status == 303
    assert served.read(name)["events"] == []
    assert served.take(event(session=name))["duplicates"] == 1
    assert served.get("/session?" + urlencode({"id": full}), served.cookie).status == 404


def test_a_large_form_is_no_form(served: Served) -> None:
    assert forget(served, "pi:" + "a" * 10_000, "x").status == 403


# --- the page -------------------------------------------------------------------------------------


def test_the_board_has_what_every_session_does(served: Served, name: str) -> None:
    block = {
        "title": f"Title {name}",
        "machine": "studio",
        "cwd": "~/src/app",
        "branch": "fix/it",
        "model": "large-1",
    }
    served.take(event(session=name, block=block), event("tool.started", 1, session=name, tool="Bash"))
    html = served.page()
    card = html.partition(f'id="s-claude-code:{name}"')[2].partition("</li>")[0]
    for said in (*block.values(), "Claude Code", "Bash"):
        assert said in card


def test_a_session_is_found_by_its_short_id_and_candidates_are_listed(served: Served, name: str) -> None:
    served.take(*(event(session=f"{name}-{n}", block={"title": f"Twin {name}"}) for n in "ab"))
    answer = served.get(f"/find?q={short_id('claude-code', name + '-a')}", served.cookie)
    assert (answer.status, f"{name}-a" in answer.headers["location"]) == (303, True)
    html = served.page(f"/find?q=twin+{name}")
    assert f"{name}-a" in html and f"{name}-b" in html
    assert "Nothing here is called" in served.page("/find?q=%3Cb%3E")
    assert served.get("/find?q=", served.cookie).status == 303


def test_older_sessions_are_a_page_away(tmp_path: Path) -> None:
    with serving(tmp_path) as receiver:
        receiver.enter()
        assert "Nothing has arrived yet" in receiver.page()
        for start in range(0, 40, 20):
            receiver.take(
                *(
                    event("session.ended", session=f"s{n:02}", at=NOON - n, reason="exit")
                    for n in range(start, start + 20)
                )
            )
        first = receiver.page()
        older = re.findall(r'href="(\?before=[^"]+)"', first)[0]
        second = receiver.page("/" + older)
        shown = [re.findall(r'id="s-claude-code:(s\d\d)"', html) for html in (first, second)]
        assert sorted({*shown[0], *shown[1]}) == [f"s{n:02}" for n in range(40)]


def test_odd_questions_get_an_answer(served: Served) -> None:
    for query in ("before=x", "before=1.x", "before=9" * 30, "before=%00", "before=-1.-1"):
        assert served.get(f"/?{query}", served.cookie).status == 200
    for query in (
        "",
        "id=",
        "id=pi",
        "id=pi:",
        "id=../..:x",
        "id=pi:%00",
        "id=pi:a&before=9999999999999999999999",
    ):
        assert served.get(f"/session?{query}", served.cookie).status == 404


# --- live -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def streaming(served: Served, query: str = "") -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request("GET", f"/live{query}", headers=served.cookie)
    with contextlib.closing(connection), connection.getresponse() as response:
        yield response


def looks(response: http.client.HTTPResponse) -> None:
    """Read until the next message."""
    while response.readline() != b"data: look\n":
        continue
    response.readline()


def test_a_page_is_told_at_once(served: Served, name: str) -> None:
    with streaming(served) as response:
        assert response.getheader("content-type") == "text/event-stream; charset=utf-8"
        looks(response)
        served.take(event(session=name))
        looks(response)


def status(served: Served) -> int:
    with streaming(served) as response:
        return response.status


def test_no_more_pages_than_there_are_places(tmp_path: Path) -> None:
    with serving(tmp_path) as receiver, contextlib.ExitStack() as open_:
        receiver.enter()
        for _ in range(CONNECTIONS):
            looks(open_.enter_context(streaming(receiver)))
        assert status(receiver) == 503
        assert receiver.take(event())["accepted"] == 1
        open_.close()
        wait_for(lambda: status(receiver) == 200, "a place")


# --- what it survives -----------------------------------------------------------------------------


def test_the_same_batch_from_many_at_once_is_taken_once(served: Served, name: str) -> None:
    batch = json.dumps({"events": [event(seq=n, session=name) for n in range(MAX_EVENTS)]}).encode()

    def send(_: int) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        connection.request("POST", EVENTS, batch, served.bearer)
        said: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return said

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(8)))
    assert sum(said["accepted"] for said in answers) == MAX_EVENTS
    assert sum(said["duplicates"] for said in answers) == 7 * MAX_EVENTS
    assert len(served.read(name)["events"]) == MAX_EVENTS


def test_what_it_answered_for_survives_being_killed(tmp_path: Path) -> None:
    receiver = Served(tmp_path)
    taken: list[int] = []
    killed = threading.Timer(0.3, lambda: receiver.process.send_signal(signal.SIGKILL))
    killed.start()
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=30)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        for n in range(100_000):
            connection.request("POST", EVENTS, json.dumps({"events": [event(seq=n)]}), receiver.bearer)
            with connection.getresponse() as answer:
                assert json.loads(answer.read())["accepted"] == 1
            taken.append(n)
    killed.join()
    receiver.end()
    receiver.start()
    held: list[int] = []
    while True:
        said = receiver.read(after=held[-1] if held else -1)
        held += [e["session"]["seq"] for e in said["events"]]
        if said["next"] is None:
            break
    assert taken and held[: len(taken)] == taken and len(held) <= len(taken) + 1
    assert receiver.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_it_is_told_to_with_pages_open(number: int, tmp_path: Path) -> None:
    receiver = Served(tmp_path)
    receiver.enter()
    with streaming(receiver) as response:
        looks(response)
        assert receiver.end(number) == 0
        assert response.read() == b""
    assert receiver.errors.read_text() == ""
    folder = tmp_path / "receiver state" / "receiver"
    assert sorted(path.name for path in folder.iterdir()) == ["receiver.db", "token"]


def test_a_client_that_says_nothing_is_let_go(tmp_path: Path) -> None:
    shorter = "import sessionpipe.receiver.serve as serve; serve.HEAD_S = 0.2"
    with serving(tmp_path, impatient=shorter) as receiver, contextlib.ExitStack() as open_:
        idle = [
            open_.enter_context(socket.create_connection(("127.0.0.1", receiver.port), 60)) for _ in range(20)
        ]
        for connection in idle[:10]:
            connection.sendall(b"POST /api HTTP/1.1\r\nhost: local")
        assert receiver.take(event())["accepted"] == 1
        assert [connection.recv(100) for connection in idle] == [b""] * 20


def test_a_client_whose_body_does_not_end_is_told_so(tmp_path: Path) -> None:
    shorter = "import sessionpipe.receiver.bodies as bodies; bodies.BODY_S = 0.2"
    with serving(tmp_path, impatient=shorter) as receiver:
        with socket.create_connection(("127.0.0.1", receiver.port), 60) as connection:
            head = f"POST {EVENTS} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n"
            connection.sendall(head.encode() + b"{")
            assert b" 408 " in connection.recv(100)
        assert receiver.take(event())["accepted"] == 1


def test_one_that_hangs_up_in_the_middle_is_no_fault(tmp_path: Path) -> None:
    with serving(tmp_path) as receiver:
        for sent in (b"", b"{"):
            with socket.create_connection(("127.0.0.1", receiver.port), 60) as connection:
                head = f"POST {EVENTS} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n"
                connection.sendall(head.encode() + sent)
        receiver.enter()
        with streaming(receiver) as response:
            looks(response)
        assert receiver.take(event())["accepted"] == 1
        receiver.end()
        assert receiver.errors.read_text() == ""


def test_a_full_disk_is_said_and_senders_are_told_to_come_again(tmp_path: Path) -> None:
    with serving(tmp_path) as receiver:
        receiver.take(event())
        pid = receiver.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        assert reason(receiver.post(event(seq=1, text="x" * 100_000))) == (503, "storage")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        assert receiver.take(event(seq=1))["accepted"] == 1
        assert receiver.errors.read_text().count("\n") == 1
        assert "database can't be used" in receiver.errors.read_text()


def test_a_signature_must_be_right_and_of_now(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    with serving(tmp_path, "--secret-file", str(secret)) as receiver:
        body = json.dumps({"events": [event()]}).encode()
        now = int(time.time())

        def post(headers: dict[str, str]) -> int:
            return receiver.post(body=body, **headers).status

        good = signing.headers(SECRET, "msg_1", now, body)
        assert post(good) == 202
        assert post({**good, "webhook-signature": "v1,AAAA v1a,x " + good["webhook-signature"]}) == 202
        for wrong in (
            {},
            {**good, "webhook-id": "msg_2"},
            {**good, "webhook-signature": good["webhook-signature"].replace("v1,", "v2,")},
            {**good, "webhook-timestamp": "soon"},
            signing.headers(SECRET, "msg_1", now - 3600, body),
            signing.headers(SECRET, "msg_1", now + 3600, body),
            signing.headers("whsec_" + base64.b64encode(b"another").decode(), "msg_1", now, body),
        ):
            assert post(wrong) == 401, wrong
