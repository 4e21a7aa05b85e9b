"""The one module that opens a connection: to whom, through what, and never without verifying."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionpipe.sinks.wire import LONGEST_ANSWER, Unreachable, Wire, proxy_for
from tests.receiver import Answer, Receiver


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


def test_an_answer_is_read_up_to_its_bound(wire: Wire) -> None:
    with Receiver(Answer(200, b"x" * (LONGEST_ANSWER + 5))) as receiver:
        assert len(wire.request("POST", receiver.url, {}, b'{"events":[]}').body) == LONGEST_ANSWER


def test_a_connection_the_receiver_closed_is_made_anew(wire: Wire) -> None:
    with Receiver(Answer(202, {}, {"connection": "close"})) as receiver:
        for _ in range(2):
            assert wire.request("POST", receiver.url, {}, b'{"events":[]}').status == 202
    assert len(receiver.requests) == 2


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


def test_a_certificate_nobody_vouches_for_is_refused(tmp_path: Path, wire: Wire) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    named = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*made, *named], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with socket.create_server(("127.0.0.1", 0)) as server:
        received: list[bytes] = []

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                try:
                    with context.wrap_socket(connection, server_side=True) as secured:
                        received.append(secured.recv(65536))
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(Unreachable, match=r"(?i)certificate") as caught:
            wire.request(
                "POST", f"https://localhost:{server.getsockname()[1]}/", {"authorization": "x"}, b"{}"
            )
        thread.join()
    assert caught.value.connect and received == []


# --- proxies ----------------------------------------------------------------------------------------


def test_a_proxy_is_used_for_https_unless_the_host_is_excepted() -> None:
    env = {"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": "localhost, .inner.example,other.example"}
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
def test_a_proxy_that_cannot_be_used_is_said_so(proxy: str) -> None:
    wire = Wire({"HTTPS_PROXY": proxy})
    with pytest.raises(Unreachable, match="HTTPS_PROXY"):
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
