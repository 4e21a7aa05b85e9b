"""The one module that opens a connection: to whom, through what, and never without verifying."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.sinks.wire import LONGEST_ANSWER, Unreachable, Wire, proxy_for, without_echoes
from sessionpipe.sinks.wire import Answer as WireAnswer
from tests.receiver import Answer, Receiver, cut_head, hang_up


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire({}, deadline_s=5.0)
    yield made
    made.close()


def test_a_request_arrives_as_it_was_made(wire: Wire) -> None:
    with Receiver(Answer(202, {"é": 1}, {"X-Said": "yes"})) as receiver:
        answer = wire.request("POST", f"{receiver.url}/a b/%2F?q=1&r=é", {"x-sent": "1"}, b'{"events":[]}')
    (request,) = receiver.requests
    assert request.path == "/a%20b/%2F?q=1&r=%C3%A9"
    assert request.headers["x-sent"] == "1" and request.headers["user-agent"].startswith("sessionpipe/")
    assert (answer.status, answer.headers["x-said"]) == (202, "yes")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_the_host_is_named_as_it_was_given(wire: Wire, host: str) -> None:
    family, address = (socket.AF_INET6, "::1") if host == "[::1]" else (socket.AF_INET, "127.0.0.1")
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip("this machine has no such address")
    with server:
        seen: list[bytes] = []

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                seen.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 204 Yes\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        port = server.getsockname()[1]
        assert wire.request("GET", f"http://{host}:{port}/").status == 204
        thread.join()
    assert f"\r\nhost: {host}:{port}\r\n".encode() in seen[0].lower()


def test_an_answer_is_read_up_to_its_bound(wire: Wire) -> None:
    with Receiver(Answer(200, b"x" * (LONGEST_ANSWER + 5))) as receiver:
        assert len(wire.request("POST", receiver.url, {}, b'{"events":[]}').body) == LONGEST_ANSWER


def test_a_connection_the_receiver_closed_is_made_anew(wire: Wire) -> None:
    with Receiver(Answer(202, {}, {"connection": "close"})) as receiver:
        for _ in range(2):
            assert wire.request("POST", receiver.url, {}, b'{"events":[]}').status == 202
    assert len(receiver.requests) == 2


def test_a_kept_connection_that_turns_out_to_be_closed_is_no_failure(wire: Wire) -> None:
    with Receiver(Answer(202, {}), Answer(raw=hang_up), Answer(202, {"third": 1})) as receiver:
        wire.request("POST", receiver.url, {}, b'{"events":[]}')
        answer = wire.request("POST", receiver.url, {"x-sent": "1"}, b'{"events":[2]}')
    assert answer.body == b'{"third": 1}'
    first, second, third = receiver.requests
    assert first.port == second.port != third.port
    assert (second.body, second.headers["x-sent"]) == (third.body, third.headers["x-sent"])


@pytest.mark.parametrize("answers", [[hang_up], [None, hang_up, hang_up], [None, cut_head]])
def test_but_a_new_one_that_is_closed_is(wire: Wire, answers: list[Any]) -> None:
    """Nor is a request repeated whose answer had begun."""
    said = [Answer(202, {}) if raw is None else Answer(raw=raw) for raw in answers]
    with Receiver(*said) as receiver:
        if answers[0] is None:
            wire.request("POST", receiver.url, {}, b'{"events":[]}')
        with pytest.raises(Unreachable, match="broke off") as caught:
            wire.request("POST", receiver.url, {}, b'{"events":[]}')
    assert not caught.value.connect
    assert len(receiver.requests) == len(answers)


def test_a_name_that_takes_too_long_to_look_up_is_left_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered, asked = threading.Event(), []

    def resolver(host: str, *_args: Any, **_options: Any) -> list[Any]:
        asked.append(host)
        answered.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    wire = Wire({}, deadline_s=0.5)
    for _ in range(2):
        with pytest.raises(Unreachable, match=r"looking up board\.example takes too long") as caught:
            wire.request("GET", "http://board.example/")
        assert caught.value.connect
    # One that hangs is waited for, not joined by another.
    assert asked == ["board.example"]
    answered.set()
    with pytest.raises(Unreachable, match=r"board\.example has no address"):
        wire.request("GET", "http://board.example/")
    wire.close()


def test_a_receiver_that_takes_the_connection_and_says_nothing_is_left_at_the_deadline() -> None:
    wire = Wire({}, deadline_s=0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises(Unreachable, match="no answer within") as caught:
            wire.request("GET", f"http://127.0.0.1:{server.getsockname()[1]}/")
        assert not caught.value.connect
    wire.close()


def test_a_receiver_that_does_not_read_is_left_at_the_deadline() -> None:
    wire = Wire({}, deadline_s=0.3)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(Unreachable):
        wire.request("POST", f"http://127.0.0.1:{server.getsockname()[1]}/", {}, b"x" * (32 << 20))
    wire.close()


def test_a_connection_that_is_torn_down_before_the_request_was_read_is_no_answer(wire: Wire) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            connection, _ = server.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

        thread = threading.Thread(target=refuse)
        thread.start()
        # Whether there ever was a connection depends on who is faster.
        with pytest.raises(Unreachable, match=r"broke off|no connection"):
            wire.request("POST", f"http://127.0.0.1:{server.getsockname()[1]}/", {}, b"x" * (1 << 20))
        thread.join()


def test_a_name_nobody_has_is_a_failed_connection(wire: Wire) -> None:
    with pytest.raises(Unreachable, match="no connection") as caught:
        wire.request("GET", "https://board.invalid/")
    assert caught.value.connect


def test_something_that_does_not_speak_http_is_no_answer(wire: Wire) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(Unreachable):
            wire.request("GET", f"http://127.0.0.1:{server.getsockname()[1]}/")
        thread.join()


# --- TLS --------------------------------------------------------------------------------------------


class Secured:
    """A server for one connection at a time, with a certificate for ``localhost`` that nobody knows."""

    def __init__(self, folder: Path, openssl: str) -> None:
        key, self.certificate = folder / "key.pem", folder / "cert.pem"
        made = [
            openssl,
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=localhost",
        ]
        named = [
            "-addext",
            "subjectAltName=DNS:localhost",
            "-keyout",
            str(key),
            "-out",
            str(self.certificate),
        ]
        subprocess.run([*made, *named], check=True, capture_output=True)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, key)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.received: list[bytes] = []
        self._ending = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._server.accept()
            with connection:
                if self._ending:
                    return
                with (
                    contextlib.suppress(OSError),
                    self._context.wrap_socket(connection, server_side=True) as secured,
                ):
                    self.received.append(secured.recv(65536))
                    secured.sendall(b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{}")

    def close(self) -> None:
        self._ending = True
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._server.close()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    made = Secured(tmp_path_factory.mktemp("tls"), openssl)
    yield made
    made.close()


def test_a_certificate_nobody_vouches_for_is_refused(secured: Secured, wire: Wire) -> None:
    with pytest.raises(Unreachable, match=r"(?i)certificate verify failed") as caught:
        wire.request("POST", f"https://localhost:{secured.port}/", {"authorization": "x"}, b"{}")
    assert caught.value.connect and secured.received == []


def test_an_authority_of_ones_own_is_named_as_for_any_program(
    secured: Secured, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(secured.certificate))
    assert wire.request("GET", f"https://localhost:{secured.port}/").status == 202
    received = len(secured.received)
    with pytest.raises(Unreachable, match=r"(?i)certificate"):
        wire.request("POST", f"https://127.0.0.1:{secured.port}/", {}, b"{}")
    assert len(secured.received) == received


# --- proxies ----------------------------------------------------------------------------------------


def test_a_proxy_is_used_for_https_unless_the_host_is_excepted() -> None:
    env = {
        "HTTPS_PROXY": "http://proxy.example:3128",
        "NO_PROXY": "localhost, .inner.example,other.example:443",
    }
    through = ("http://proxy.example:3128", None)
    assert proxy_for("https", "board.example", env) == through
    assert proxy_for("https", "notother.example", env) == through
    for host in ("x.inner.example", "inner.example", "other.example"):
        assert proxy_for("https", host, env) is None
    assert proxy_for("https", "board.example", {**env, "NO_PROXY": "*"}) is None
    assert proxy_for("https", "board.example", {}) is None


def test_plain_http_never_leaves_the_machine_and_needs_no_proxy() -> None:
    env = {"HTTPS_PROXY": "http://proxy.example", "ALL_PROXY": "http://proxy.example"}
    assert proxy_for("http", "localhost", env) is None
    assert proxy_for("https", "127.0.0.1", env) is None


def test_a_proxys_own_credentials_go_to_the_proxy() -> None:
    assert proxy_for("https", "b.example", {"https_proxy": "http://us%40er:p%3Aw@proxy.example"}) == (
        "http://proxy.example:80",
        ("us@er", "p:w"),
    )


@pytest.mark.parametrize("proxy", ["socks5://proxy.example", "http://[", "http://:80"])
@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "all_proxy"])
def test_a_proxy_that_cannot_be_used_is_said_so(proxy: str, variable: str) -> None:
    wire = Wire({variable: proxy})
    with pytest.raises(Unreachable, match=f"the proxy in {variable} is not"):
        wire.request("GET", "https://board.example/")


def test_a_proxy_is_asked_for_a_tunnel_and_sees_nothing_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        seen: list[bytes] = []

        def refuse() -> None:
            connection, _ = server.accept()
            with connection:
                seen.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        wire = Wire({"HTTPS_PROXY": f"http://127.0.0.1:{server.getsockname()[1]}"}, deadline_s=5.0)
        with pytest.raises(Unreachable) as caught:
            wire.request("POST", "https://board.example/in", {"authorization": "Bearer x"}, b"{}")
        wire.close()
        thread.join()
    assert caught.value.connect
    assert seen[0].startswith(b"CONNECT board.example:443 ") and b"Bearer" not in seen[0]


@pytest.mark.parametrize("credentials", [["Zq7Zq7", "Zq7Zq7rest"], ["Zq7Zq7rest", "Zq7Zq7"]])
def test_of_two_credentials_that_begin_alike_nothing_is_left(credentials: list[str]) -> None:
    assert without_echoes("<Zq7Zq7rest> <Zq7Zq7>", credentials) == "<[redacted]> <[redacted]>"


def test_an_answer_that_is_no_text_stays_what_it_was_but_for_the_echo() -> None:
    answer = WireAnswer(401, {"x": "Zq7Zq7"}, b"\xff\x00Zq7Zq7\xe4", cut=True)
    assert answer.without(["Zq7Zq7", None]) == WireAnswer(
        401, {"x": "[redacted]"}, b"\xff\x00[redacted]\xe4", cut=True
    )
    assert answer.without(["Zq7Zq7"], body=False).body == answer.body
