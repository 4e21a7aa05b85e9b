"""Delivery scenarios (conformance/delivery/receiver), run against any receiver of the protocol.

Every scenario writes sessions of its own, named after the run; at the end all of them are forgotten.
What was written can be looked at only where the receiver can be read: ours answers
``GET {events}?session=ID``, another may be told of by ``--read``. Of one that can't, what its answers
say is tried, and what it then holds is not.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn
from urllib.parse import quote, urljoin, urlsplit

import click

from sessionpipe.clock import now_ms
from sessionpipe.config import is_token, refuse_url
from sessionpipe.conformance.programs import unusable
from sessionpipe.conformance.scenarios import NEEDS, STEPS, Scenario, load, misses, of_run, sessions_of
from sessionpipe.paths import data_dir
from sessionpipe.protocol import PROTOCOL, new_id, rfc3339
from sessionpipe.sinks import signing
from sessionpipe.sinks.discovery import Discovery, well_known
from sessionpipe.sinks.http import ask
from sessionpipe.sinks.wire import Answer, Unreachable, Wire
from sessionpipe.terminal import printable

#: What a cut body is made longer by, so that its envelope never matters.
_FILLER = "x"


class Result(NamedTuple):
    """How a scenario went: ``why`` it failed (at which step) or was not tried; ``unread``: how many
    steps could not be looked at."""

    scenario: Scenario
    outcome: Literal["passed", "failed", "skipped"]
    why: str = ""
    step: int = 0
    unread: int = 0


class Target:
    """The receiver that is tried: what it says of itself, and how it is spoken to."""

    def __init__(self, url: str, token: str, secret: str | None, read: str | None, wire: Wire) -> None:
        self._token, self._secret, self._wire = token, secret, wire
        self._read = read
        self.url = url
        self.said: Discovery = ask(url, now_ms(), wire)
        self._file = self._get(well_known(url), {})
        named = _json(self._file).get("endpoints")
        sessions = named.get("sessions") if isinstance(named, dict) else None
        self._sessions = urljoin(f"{url}/", sessions) if isinstance(sessions, str) else None
        if self._sessions and urlsplit(self._sessions).netloc != urlsplit(url).netloc:
            self._sessions = None
        self.readable = False
        #: Harness and session of everything that was sent, with the highest ``seq``.
        self.written: dict[tuple[str, str], int] = {}

    def has(self, need: str | None) -> bool:
        """Whether a scenario that needs this can be tried."""
        return {
            None: True,
            "tier_cap": self.said.max_tier is not None and self.said.max_tier < 3,
            "forget": self.said.forgets,
            "read": self.readable,
            "sessions": self._sessions is not None,
            "secret": self._secret is not None,
        }[need]

    def file(self) -> Answer:
        """Its well-known file."""
        return self._file

    def send(self, step: Mapping[str, Any]) -> Answer:
        """Post a step's events, or its bytes."""
        events = [_minted(event) for event in step.get("events", [])]
        if over := step.get("over"):
            events = self._over(events, over)
        for harness, session, seq in sessions_of(events):
            self.written[harness, session] = max(seq, self.written.get((harness, session), 0))
        body = step["body"].encode() if "body" in step else _body(events)
        headers = {"content-type": "application/json", "sessionpipe-protocol": str(PROTOCOL)}
        headers |= self._authorized(step.get("auth")) | self._signature(step.get("sign"), body)
        return self._wire.request("POST", self.said.events, headers | step.get("headers", {}), body)

    def _over(self, events: list[dict[str, Any]], bound: str) -> list[dict[str, Any]]:
        """So many events, or so long a one, that it is one more than the receiver says it takes."""
        last = events[-1]
        if bound == "max_events":
            more = range(self.said.max_events + 1 - len(events))
            return events + [
                {
                    **last,
                    "id": new_id(),
                    "session": {**last["session"], "seq": last["session"]["seq"] + 1 + n},
                }
                for n in more
            ]
        missing = self.said.max_bytes + 1 - len(_body(events))
        return [*events[:-1], {**last, "data": {"text": _FILLER * max(missing, 1)}}]

    def probe(self, run: str) -> Answer:
        """Find out whether what was sent can be read back; what was answered when it was sent."""
        event = {
            "protocol": PROTOCOL,
            "id": "*",
            "type": "session.started",
            "time": "*",
            "tier": 0,
            "harness": {"name": "conformance"},
            "session": {"id": f"conformance-{run}-probe", "seq": 0},
            "privacy": {"rulesets": ["secrets@1"], "pii": False},
            "data": {"source": "startup"},
        }
        answer = self.send({"events": [event]})
        if 200 <= answer.status < 300:
            self.readable = True
            self.readable = bool(self.read({"session": event["session"]["id"]})[0])  # type: ignore[index]
        return answer

    def read(self, step: Mapping[str, Any]) -> tuple[list[Any] | None, Answer]:
        """The events it holds of a session; None when the answer is no list of them."""
        session, harness = quote(step["session"], safe=""), quote(step.get("harness", ""), safe="")
        if self._read is not None:
            address = self._read.replace("{session}", session).replace("{harness}", harness)
        else:
            address = f"{self.said.events}?session={session}" + (f"&harness={harness}" if harness else "")
        answer = self._get(address, self._authorized(step.get("auth")))
        if answer.status == 404:
            return [], answer
        found = _anything(answer)
        events = found.get("events") if isinstance(found, dict) else found
        return (events if answer.status == 200 and isinstance(events, list) else None), answer

    def block(self, session: str) -> dict[str, Any]:
        """What it knows of a session, from its list of sessions."""
        listed = _json(self._get(self._sessions or "", self._authorized(None))).get("sessions")
        for entry in listed if isinstance(listed, list) else []:
            if isinstance(entry, dict) and entry.get("id") == session:
                block = entry.get("session")
                return block if isinstance(block, dict) else {}
        return {}

    def forget(self) -> list[str]:
        """Have everything that was written forgotten; the sessions for which that was not answered with a 2xx."""
        events = [
            {
                "protocol": PROTOCOL,
                "id": new_id(),
                "type": "session.forgotten",
                "time": rfc3339(now_ms()),
                "tier": 0,
                "harness": {"name": harness},
                "session": {"id": session, "seq": max(seq, 0) + 1},
                "privacy": {"rulesets": ["secrets@1"], "pii": False},
                "data": {},
            }
            for (harness, session), seq in self.written.items()
        ]
        left = []
        for event in events:
            try:
                answer = self.send({"events": [event]})
                taken = 200 <= answer.status < 300 and not _json(answer).get("rejected")
            except Unreachable:
                taken = False
            if not taken or not self.said.forgets:
                left.append(event["session"]["id"])  # type: ignore[index]
        return left

    def _get(self, address: str, headers: dict[str, str]) -> Answer:
        return self._wire.request("GET", address, headers)

    def _authorized(self, how: str | None) -> dict[str, str]:
        if how == "none":
            return {}
        token = "no-token-of-anybodys" if how == "wrong" else self._token
        return {"authorization": f"Bearer {token}"}

    def _signature(self, how: str | None, body: bytes) -> dict[str, str]:
        if self._secret is None or how == "none":
            return {}
        secret = "whsec_" + "QUJD" * 8 if how == "other secret" else self._secret
        seconds = now_ms() // 1000 - (3600 if how == "an hour ago" else 0)
        signed = body + b" " if how == "other body" else body
        return signing.headers(secret, f"msg_{new_id()}", seconds, signed)


def run(target: Target, found: Sequence[Scenario], run_id: str) -> Iterator[Result]:
    """Play the scenarios, one after the other."""
    for scenario in found:
        need = scenario["needs"]
        if not target.has(need):
            yield Result(scenario, "skipped", NEEDS[need])
            continue
        yield _play(target, of_run(scenario, run_id))


def _play(target: Target, scenario: Scenario) -> Result:
    unread = 0
    for number, step in enumerate(scenario["steps"], 1):
        kind = next(kind for kind in STEPS if kind in step)
        if kind == "read" and not target.readable:
            unread += 1
            continue
        try:
            lack = _lack(target, kind, step[kind], step["expect"])
        except Unreachable as error:
            lack = f"no answer: {error}"
        if lack is not None:
            return Result(scenario, "failed", lack, number, unread)
    return Result(scenario, "passed", unread=unread)


def _lack(target: Target, kind: str, step: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """What a step's outcome lacks of what is expected."""
    if kind == "session":
        return misses(target.block(step["session"]), expected["block"], "session")
    if kind == "read":
        events, answer = target.read(step)
        lack = _answers(answer, expected)
        if lack is not None or "events" not in expected:
            return lack
        if events is None:
            return f"the read was answered with HTTP {answer.status}, and no list of events"
        return misses(events, expected["events"], "events")
    answer = target.file() if kind == "well_known" else target.send(step)
    return _answers(answer, expected)


def _answers(answer: Answer, expected: Mapping[str, Any]) -> str | None:
    """What of the expected ``status`` and ``body`` an answer lacks; its body may be anything where none is."""
    status = expected.get("status", answer.status)
    wanted = status if isinstance(status, list) else [status]
    if answer.status in wanted:
        return misses(_anything(answer), expected["body"]) if "body" in expected else None
    return f"{_refused(answer)} where {' or '.join(map(str, wanted))} was expected"


def _refused(answer: Answer) -> str:
    """An answer's status, and the reason it gives."""
    said = _json(answer).get("reason")
    return f"HTTP {answer.status}" + (f" ({said})" if isinstance(said, str) and said else "")


def _minted(event: dict[str, Any]) -> dict[str, Any]:
    made = dict(event)
    if made["id"] == "*":
        made["id"] = new_id()
    if made["time"] == "*":
        made["time"] = rfc3339(now_ms())
    return made


def _body(events: list[dict[str, Any]]) -> bytes:
    return json.dumps({"events": events}, ensure_ascii=False).encode()


def _anything(answer: Answer) -> Any:
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        return None


def _json(answer: Answer) -> dict[str, Any]:
    found = _anything(answer)
    return found if isinstance(found, dict) else {}


# --- the command ----------------------------------------------------------------------------------


@click.command(short_help="Delivery scenarios, against any receiver.")
@click.argument("url")
@click.option("--token", metavar="TOKEN", help="The receiver's token; '-' reads it from standard input.")
@click.option("--token-file", type=click.Path(path_type=Path), metavar="FILE", help="The file that holds it.")
@click.option(
    "--secret-file", type=click.Path(path_type=Path), metavar="FILE", help="Its signing secret (whsec_…)."
)
@click.option(
    "--read", metavar="URL", help="Where a session is read back, with {session} and {harness} in it."
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this scenario; may be said again.")
@click.option(
    "--scenarios",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of other scenarios.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, with stable names.")
def receiver(
    url: str,
    token: str | None,
    token_file: Path | None,
    secret_file: Path | None,
    read: str | None,
    only: tuple[str, ...],
    folder: Path | None,
    as_json: bool,
) -> None:
    """Try what the protocol asks of a receiver on the one at URL, and say what each failure means.

    It writes sessions called conformance-…, and has them forgotten at the end. Exit status 0 when every
    rule that must hold does, 1 when one does not or the receiver can't be tried.

    \b
    Examples:
      sessionpipe-conformance receiver http://localhost:8787 --token-file ~/.local/state/sessionpipe/receiver/token
      sessionpipe-conformance receiver https://board.example --token T --json
      sessionpipe-conformance receiver https://board.example --token T --read 'https://board.example/s/{session}'
    """
    if why := refuse_url(url):
        unusable(f"{printable(url)} {why}")
    if read is not None and (why := refuse_url(read.replace("{session}", "s").replace("{harness}", "h"))):
        unusable(f"--read {why}")
    secret = _secret(secret_file)
    wanted = _scenarios(folder or data_dir("conformance") / "delivery" / "receiver", only)
    wire = Wire()
    try:
        target = Target(url.rstrip("/"), _token(token, token_file), secret, read, wire)
        if target.said.refusal:
            _fail(f"nothing can be sent to {url}: {target.said.refusal}")
        if urlsplit(target.said.events).netloc != urlsplit(url).netloc:
            # The token was given for the host that was named, and for no other.
            _fail(f"it wants its events at {printable(target.said.events)}, another host; name that one")
        run_id = new_id().lower()
        results, left = _tried(target, wanted, run_id, aloud=not as_json)
    except Unreachable as error:
        _fail(f"{printable(url)} can't be reached: {error}")
    finally:
        wire.close()
    if as_json:
        click.echo(json.dumps(_data(target, results, run_id, left), indent=2))
    else:
        _closing(target, results, left)
    if any(result.outcome == "failed" and result.scenario["level"] == "must" for result in results):
        raise SystemExit(1)


def _tried(
    target: Target, wanted: Sequence[Scenario], run_id: str, *, aloud: bool
) -> tuple[list[Result], list[str]]:
    """How every scenario went, and what could not be forgotten afterwards, which is tried however it ends."""
    results: list[Result] = []
    interrupted = False
    with _ending_alike():
        try:
            answer = target.probe(run_id)
            if answer.status == 401:
                _fail(
                    f"{target.url} lets nobody in with this token: {_refused(answer)}"
                    + ("" if target.has("secret") else "; or are batches to be signed (--secret-file)?")
                )
            if aloud:
                _opening(target)
            for result in run(target, wanted, run_id):
                results.append(result)
                if aloud:
                    _show(result)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            left = target.forget()
    if interrupted:
        _fail(f"interrupted; {_rest(left)}")
    return results, left


@contextlib.contextmanager
def _ending_alike() -> Iterator[None]:
    """SIGTERM and SIGHUP end what runs as ctrl-c does: nothing that was written may be left behind."""
    ending = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    for number in ending:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in ending:
            signal.signal(number, signal.SIG_DFL)


def _scenarios(folder: Path, only: Sequence[str]) -> list[Scenario]:
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(load(path))
        except (OSError, ValueError) as error:
            unusable(f"{path}: {error}")
    if unknown := set(only) - {scenario["name"] for scenario in found}:
        unusable(f"there is no scenario called {', '.join(sorted(unknown))}")
    chosen = [scenario for scenario in found if not only or scenario["name"] in only]
    if not chosen:
        unusable(f"there are no scenarios in {folder}")
    return chosen


def _token(token: str | None, path: Path | None) -> str:
    if (token is None) == (path is None):
        unusable("give the receiver's token, with --token or --token-file")
    try:
        if path is not None:
            said = path.expanduser().read_text("utf-8").strip()
        else:
            said = sys.stdin.readline().strip() if token == "-" else str(token)  # noqa: S105
    except (OSError, UnicodeDecodeError) as error:
        unusable(f"the token can't be read: {error}")
    if not is_token(said):
        unusable("that is no token: visible characters without spaces, quotes and backslashes")
    return said


def _secret(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        secret = path.expanduser().read_text("utf-8").strip()
        signing.key(secret)
    except (OSError, ValueError) as error:
        unusable(f"the secret can't be used: {error}")
    return secret


def _fail(message: str) -> NoReturn:
    click.echo(f"sessionpipe-conformance: {printable(message)}", err=True)
    raise SystemExit(1)


def _opening(target: Target) -> None:
    said = target.said
    if said.problem:
        click.echo(f"its well-known file can't be read ({printable(said.problem)}); the defaults are assumed")
    tier = "any tier" if said.max_tier is None else f"tier {said.max_tier} at most"
    click.echo(
        f"{printable(target.url)}: {tier}, {said.max_events} events and {said.max_bytes} bytes a batch\n"
    )


_MARKS = {"passed": "ok", "failed": "FAIL", "skipped": "-"}


def _show(result: Result) -> None:
    scenario = result.scenario
    mark = (
        "should" if result.outcome == "failed" and scenario["level"] == "should" else _MARKS[result.outcome]
    )
    click.echo(f"  {mark:<6} {printable(scenario['name']):<18} {printable(scenario['spec'])}")
    if result.outcome == "failed":
        click.echo(f"{'':9}step {result.step}: {printable(result.why)}")
        for line in _wrapped(scenario["means"]):
            click.echo(f"{'':9}{line}")
    elif result.outcome == "skipped":
        click.echo(f"{'':9}not tried: {result.why}")


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(printable(text), 90)


def _closing(target: Target, results: Sequence[Result], left: Sequence[str]) -> None:
    click.echo()
    for level, words in (("must", "rules that must hold do"), ("should", "that should hold do")):
        passed, of = _score(results, level)
        if of:
            click.echo(f"{passed} of {of} {words}")
    skipped = sum(result.outcome == "skipped" for result in results)
    if skipped:
        click.echo(f"{skipped} not tried")
    if not target.readable:
        click.echo("it could not be read back: what it holds was not looked at (--read URL says where)")
    click.echo(_rest(left))


def _rest(left: Sequence[str]) -> str:
    """What became of all that was written."""
    if left:
        return f"not forgotten, for you to delete: {', '.join(left)}"
    return "what was written has been forgotten"


def _score(results: Sequence[Result], level: str) -> tuple[int, int]:
    tried = [r for r in results if r.scenario["level"] == level and r.outcome != "skipped"]
    return sum(r.outcome == "passed" for r in tried), len(tried)


def _data(target: Target, results: Sequence[Result], run_id: str, left: Sequence[str]) -> dict[str, Any]:
    score = {
        level: dict(zip(("passed", "of"), _score(results, level), strict=True))
        for level in ("must", "should")
    }
    return {
        "url": target.url,
        "run": run_id,
        "readable": target.readable,
        "score": score,
        "scenarios": [
            {
                **{key: result.scenario[key] for key in ("name", "spec", "level")},
                "outcome": result.outcome,
                "why": result.why or None,
                "step": result.step or None,
                "means": result.scenario["means"] if result.outcome == "failed" else None,
                "steps_not_read": result.unread,
            }
            for result in results
        ],
        "left": list(left),
    }


COMMAND = receiver
