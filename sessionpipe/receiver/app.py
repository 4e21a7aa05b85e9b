"""The routes of the receiver: the protocol's HTTP binding, reads for programs, and the page for people."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import sys
from collections.abc import AsyncIterator
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from sessionpipe.clock import now_ms
from sessionpipe.protocol import PROTOCOL, rfc3339
from sessionpipe.protocol.ids import is_harness_name, is_session_id
from sessionpipe.receiver import bodies, incoming, page
from sessionpipe.receiver.board import UNANSWERED_MS
from sessionpipe.receiver.guard import Guard, is_same_origin
from sessionpipe.receiver.incoming import Refused
from sessionpipe.receiver.keys import Keys
from sessionpipe.receiver.live import Hub
from sessionpipe.receiver.store import Row, Store
from sessionpipe.receiver.timeline import parts

API = "/api/sessionpipe/v1"
MAX_EVENTS, MAX_BYTES = 50, 262_144
_YEAR_S = 365 * 86_400
_PRUNE_EVERY_S = 3_600.0

#: What a page shows: sessions at work or waiting, the latest of the others, the last events of one.
MOST_OPEN, MOST_RECENT, MOST_EVENTS = 200, 30, 250
_MOST_READ = 1_000

_T = TypeVar("_T")


class Settings(msgspec.Struct, frozen=True):
    """What a person says about a receiver.

    ``secret`` is the ``whsec_…`` every batch must be signed with; ``url`` the address others reach it
    at; ``keep_ms`` for how long a session that is not heard of is kept.
    """

    max_tier: int
    url: str
    keep_ms: int
    secret: str | None = None
    #: What a person is told to type: to connect a sink, to see a demo, to be let in.
    connect: str = ""
    demo: str = ""
    link: str = "sessionpipe receive --link"


class Receiver:
    """One receiver: its database, its keys, its open pages."""

    def __init__(self, store: Store, keys: Keys, settings: Settings) -> None:
        self.store, self.keys, self.settings = store, keys, settings
        self.hub = Hub()
        address = urlsplit(settings.url)
        self._secure = address.scheme == "https"
        # Cookies know no ports: two receivers of a machine must not put out each other's.
        self._cookie = "__Host-sessionpipe" if self._secure else f"sessionpipe_{address.port or 80}"

    def app(self, names: frozenset[str] = frozenset()) -> ASGIApp:
        """The ASGI application; ``names`` are hosts it is reached as, besides loopback's."""
        routes = [
            Route("/.well-known/sessionpipe", self.well_known),
            Route(f"{API}/events", self.take, methods=["POST"]),
            Route(f"{API}/events", self.read_events, methods=["GET"]),
            Route(f"{API}/sessions", self.read_sessions),
            Route("/", self.board),
            Route("/find", self.find),
            Route("/session", self.session),
            Route("/forget", self.forget, methods=["POST"]),
            Route("/live", self.live),
            Route("/enter", self.enter),
            Mount("/static", StaticFiles(directory=page.FOLDER / "static")),
        ]
        handlers: dict[Any, Any] = {
            Refused: self._refused,
            HTTPException: self._failed,
            sqlite3.Error: self._no_storage,
            ClientDisconnect: self._gone,
            _Shut: self._shut,
        }
        return Guard(Starlette(routes=routes, exception_handlers=handlers, lifespan=self._life), names)

    @contextlib.asynccontextmanager
    async def _life(self, _app: Starlette) -> AsyncIterator[None]:
        pruning = asyncio.create_task(self._prune())
        yield
        pruning.cancel()

    async def _prune(self) -> None:
        while True:
            with contextlib.suppress(sqlite3.Error):
                await run_in_threadpool(self.store.prune, now_ms() - self.settings.keep_ms)
            await asyncio.sleep(_PRUNE_EVERY_S)

    # -- the binding --

    async def well_known(self, request: Request) -> Response:
        """What a sender must know (*Discovery*); ``endpoints.sessions`` and ``read`` are ours."""
        return _json(
            {
                "protocol": [PROTOCOL],
                "max_tier": self.settings.max_tier,
                "capabilities": ["events", "backfill", "forget", "read"],
                "auth": ["bearer"],
                "endpoints": {"events": f"{API}/events", "sessions": f"{API}/sessions"},
                "batch": {"max_events": MAX_EVENTS, "max_bytes": MAX_BYTES},
                # A subagent's calls are counted here, not shown one by one.
                "tools": "main",
            }
        )

    async def take(self, request: Request) -> Response:
        """``POST {events}``: what is answered with 202 is on disk."""
        body, whole = await bodies.read(request, MAX_BYTES)
        self._bearer(request)
        if not whole:
            raise Refused(413, "too_many_bytes", max_bytes=MAX_BYTES)
        if self.settings.secret is not None:
            bodies.check_signature(request.headers, body, self.settings.secret, now_ms() // 1000)
        if request.headers.get("sessionpipe-protocol", str(PROTOCOL)).strip() != str(PROTOCOL):
            raise Refused(400, "unsupported_protocol", supported=[PROTOCOL])
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            # Nothing is ever unpacked: a small body can be made that is a very large one.
            raise Refused(415, "content_encoding")

        def store() -> dict[str, Any]:
            batch = incoming.read(body, max_events=MAX_EVENTS, max_tier=self.settings.max_tier)
            taken = self.store.take(batch.events, now_ms())
            changed.update(taken.changed)
            return {
                "accepted": taken.accepted,
                "duplicates": taken.duplicates,
                "rejected": [{"id": id_, "reason": reason} for id_, reason in batch.rejected],
                "max_tier": self.settings.max_tier,
            }

        changed: set[str] = set()
        answer = await run_in_threadpool(store)
        self.hub.tell(changed)
        return _json(answer, 202)

    # -- reads --

    async def read_events(self, request: Request) -> Response:
        """``GET {events}?session=ID``: a session's events as they came, in the order of ``seq``.

        ``harness`` says which, where two agents have a session of that id; ``after`` a ``seq`` and
        ``limit`` page through it, ``next`` being the ``after`` of what follows.
        """
        self._bearer(request)
        asked = request.query_params
        wanted, harness = asked.get("session", ""), asked.get("harness")
        after, limit = _number(asked.get("after"), -1), _number(asked.get("limit"), _MOST_READ)
        limit = max(1, min(limit, _MOST_READ))

        def read() -> bytes:
            rows = self._named(wanted, harness)
            if len(rows) > 1:
                raise Refused(409, "several_sessions", sessions=[row.name for row in rows])
            found = self.store.events(rows[0].key, after=after, most=limit) if rows else []
            following = found[-1][0] if len(found) == limit else None
            return b"".join(
                (
                    b'{"events":[',
                    b",".join(body.encode() for _, body, _ in found),
                    b'],"received_at":',
                    msgspec.json.encode([rfc3339(heard_ms) for _, _, heard_ms in found]),
                    b',"next":',
                    msgspec.json.encode(following),
                    b"}",
                )
            )

        return Response(await run_in_threadpool(read), media_type="application/json")

    def _named(self, wanted: str, harness: str | None) -> list[Row]:
        """The sessions a program may mean: by id, by ``harness:id``, by the beginning of a short id."""
        if harness is not None:
            row = self.store.session(harness, wanted)
            return [row] if row else []
        return [row for row in self.store.find(wanted) if wanted in (row.id, row.name)] if wanted else []

    async def read_sessions(self, request: Request) -> Response:
        """``GET sessions``: how every session stands, latest first; ``before`` pages through them."""
        self._bearer(request)
        before = _place(request.query_params.get("before"))
        rows = await run_in_threadpool(self.store.sessions, before=before, most=_MOST_READ)
        following = _place_of(rows[-1]) if len(rows) == _MOST_READ else None
        now = now_ms()
        return _json({"sessions": [page.as_data(row, now) for row in rows], "next": following})

    # -- the page --

    async def board(self, request: Request) -> Response:
        """Every session that needs the person or works, and the latest others."""
        self._person(request)
        before, now = _place(request.query_params.get("before")), now_ms()
        if before is None:
            rows = await run_in_threadpool(
                self.store.board,
                now,
                open_since_ms=now - UNANSWERED_MS,
                most_open=MOST_OPEN,
                most=MOST_RECENT + 1,
            )
            empty = not rows
        else:
            rows = await run_in_threadpool(self.store.sessions, before=before, most=MOST_RECENT + 1)
            empty = False
        older = _place_of(rows[MOST_RECENT - 1]) if len(rows) > MOST_RECENT else None
        html = page.board(
            rows,
            now,
            live="live",
            older=older,
            empty=empty,
            connect=self.settings.connect,
            demo=self.settings.demo,
        )
        return HTMLResponse(html)

    async def find(self, request: Request) -> Response:
        """What a person typed: to the session when it is one, else the ones it may mean."""
        self._person(request)
        query = " ".join(request.query_params.get("q", "").split())[:200]
        if not query:
            return RedirectResponse(".", 303)
        rows = await run_in_threadpool(self.store.find, query)
        if len(rows) == 1:
            return RedirectResponse("session?" + urlencode({"id": rows[0].name}), 303)
        return HTMLResponse(page.board(rows, now_ms(), live="", older=None, empty=False, query=query))

    async def session(self, request: Request) -> Response:
        """One session and its turns."""
        self._person(request)
        name, before = request.query_params.get("id", ""), _number(request.query_params.get("before"), None)

        def read() -> str | None:
            row = self.store.session(*_split(name))
            if row is None:
                return None
            upto = 1 << 62 if before is None else before
            found = self.store.latest(row.key, before=upto, most=MOST_EVENTS)
            told = [(incoming.stored(body.encode()), heard_ms) for _, body, heard_ms in found]
            return page.session(
                row,
                parts(told),
                now_ms(),
                live="live?" + urlencode({"id": name}),
                earlier=found[0][0] if len(found) == MOST_EVENTS else None,
                later=before is not None,
                form=self.keys.form(f"forget {name}"),
            )

        html = await run_in_threadpool(read)
        if html is None:
            return _notice(
                404, "No such session", "It was forgotten, or has never been heard of here.", goto=None
            )
        return HTMLResponse(html)

    async def forget(self, request: Request) -> Response:
        """Delete a session here, by a form of ours alone."""
        self._person(request)
        host = request.headers.get("host", "")
        body, whole = await bodies.read(request, 4096)
        form = bodies.form(body) if whole else {}
        name, said = form.get("id", ""), form.get("form", "")
        same = is_same_origin(request.headers.get("origin"), host, "https" if self._secure else "http")
        if not same or not self.keys.is_form(said, f"forget {name}"):
            return _notice(403, "Not from here", "Only the button on a session's page forgets it.", goto=None)
        await run_in_threadpool(self.store.forget, *_split(name), now_ms())
        self.hub.tell({name})
        return RedirectResponse(".", 303)

    async def live(self, request: Request) -> Response:
        """Server-sent events: ``look`` whenever what a page shows has changed."""
        self._person(request)
        if self.hub.full:
            return Response(status_code=503, headers={"retry-after": "30"})
        return StreamingResponse(
            self.hub.watch(request.query_params.get("id") or None), media_type="text/event-stream"
        )

    async def enter(self, request: Request) -> Response:
        """The link that was printed, exchanged for a cookie."""
        if not self.keys.is_link(request.query_params.get("key", "")):
            raise _Shut
        # Not a redirect: the cookie is sent along only where our own page leads on, whoever led here.
        answer = _notice(200, "Come in", "One moment.", goto=".")
        answer.set_cookie(
            self._cookie,
            self.keys.cookie,
            max_age=_YEAR_S,
            httponly=True,
            samesite="strict",
            secure=self._secure,
        )
        return answer

    # -- who may --

    def _bearer(self, request: Request) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self.keys.is_token(token.strip()):
            raise Refused(401, "unknown_token")

    def _person(self, request: Request) -> None:
        if not self.keys.is_cookie(request.cookies.get(self._cookie, "")):
            raise _Shut

    # -- answers to what went wrong --

    async def _shut(self, request: Request, error: Exception) -> Response:
        return _notice(
            401,
            "This page is yours alone",
            "Come in by the link that the receiver printed; this prints it again:",
            command=self.settings.link,
            goto=None,
        )

    async def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        answer = _json(error.body, error.status)
        if error.status == 401:
            answer.headers["www-authenticate"] = "Bearer"
        return answer

    async def _failed(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        answer = _json({"reason": str(error.detail).lower().replace(" ", "_")}, error.status_code)
        answer.headers.update(error.headers or {})
        return answer

    async def _gone(self, request: Request, error: Exception) -> Response:
        # Nobody is there to read it, and nothing is wrong with us.
        return Response(status_code=400)

    async def _no_storage(self, request: Request, error: Exception) -> Response:
        # A full disk, a lock held by somebody else: senders keep what they have, and try again.
        print(f"sessionpipe: the receiver's database can't be used: {error}", file=sys.stderr, flush=True)
        return _json({"reason": "storage"}, 503)


class _Shut(Exception):
    """A browser without the cookie."""


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _notice(status: int, heading: str, text: str, *, command: str = "", goto: str | None) -> Response:
    html = page.render("notice.html", heading=heading, text=text, command=command, goto=goto)
    return HTMLResponse(html, status)


def _number(text: str | None, otherwise: _T) -> int | _T:
    """A whole number that SQLite can hold, or ``otherwise``."""
    if text is None or not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 16:
        return otherwise
    return int(text)


def _place(text: str | None) -> tuple[int, int] | None:
    """Where a list of sessions goes on: ``last_ms`` and ``key`` of the last one seen."""
    last, _, key = (text or "").partition(".")
    at, number = _number(last, None), _number(key, None)
    return None if at is None or number is None else (at, number)


def _place_of(row: Row) -> str:
    return f"{row.last_ms}.{row.key}"


def _split(name: str) -> tuple[str, str]:
    """``harness:id`` as its two parts; what is no such name names nothing."""
    harness, _, session = name.partition(":")
    return (harness, session) if is_harness_name(harness) and is_session_id(session) else ("", "")
