"""Which names the receiver answers to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from sessionpipe.receiver.guard import Guard, host_of, is_same_origin


def answer(host: str, names: set[str]) -> dict[str, Any]:
    """How a request for ``host`` is answered: the start of the response."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", host.encode())]}
    asyncio.run(Guard(PlainTextResponse("inside"), names)(scope, receive, send))
    start: dict[str, Any] = sent[0]
    return start


def ask(host: str, names: set[str]) -> int:
    return int(answer(host, names)["status"])


@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_every_answer_says_what_a_browser_may_do_with_it(host: str) -> None:
    headers = {name.decode(): value.decode() for name, value in answer(host, set())["headers"]}
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["content-security-policy"].startswith("default-src 'none';")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8787", "127.0.0.1:1", "[::1]:8787", "192.168.1.5:8787", "board.example"]
)
def test_its_own_names_and_addresses_are_answered(host: str) -> None:
    assert ask(host, {"board.example"}) == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "localhost:80@evil.example",
        "127.0.0.1.nip.io",
        "[evil]:1",
        "1",
    ],
)
def test_a_name_somebody_else_gave_it_is_not(host: str) -> None:
    assert ask(host, {"board.example"}) == 421


@pytest.mark.parametrize(
    ("host", "name"), [("a:1", "a"), ("A", "a"), ("[::1]:8", "::1"), ("[::1]", "::1"), ("::1", "")]
)
def test_a_host_without_its_port(host: str, name: str) -> None:
    assert host_of(host) == name


@pytest.mark.parametrize(
    ("origin", "same"),
    [
        (None, True),
        ("http://localhost:8787", True),
        ("HTTP://LOCALHOST:8787", True),
        ("http://localhost:3000", False),
        ("https://localhost:8787", False),
        ("null", False),
    ],
)
def test_a_form_comes_from_its_own_page_or_not(origin: str | None, same: bool) -> None:
    assert is_same_origin(origin, "localhost:8787", "http") is same
