"""``sinks``: where events go, and how much of them."""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import urlsplit

import click
import msgspec

from sessionpipe import config as settings
from sessionpipe.cli.common import Fail, config_path, printable, state, usage
from sessionpipe.clock import now_ms
from sessionpipe.config import Config, ConfigError, SinkConfig
from sessionpipe.outbox import Outbox, OutboxError, SinkState
from sessionpipe.paths import make_private
from sessionpipe.protocol.vocabulary import VOCABULARY

if TYPE_CHECKING:
    from sessionpipe.sinks.discovery import Discovery
    from sessionpipe.sinks.http import HttpSink
    from sessionpipe.sinks.wire import Unreachable

#: What a tier carries, in the words a person decides by; each one adds to those before it.
TIERS = (
    "presence: which sessions run, their folder, repository, branch, model, title and link; turns; that one needs you",
    "actions: and tool names, durations, errors, files touched, what it asks you",
    "conversation: and your prompts and its answers",
    "everything: and what went into and came out of its tools",
)


@click.group()
def sinks() -> None:
    """Say where events go, and how much of them.

    \b
    Example:
      sessionpipe sinks add https://board.example --tier 1 --token-env BOARD_TOKEN
      sessionpipe sinks list
    """


@sinks.command(short_help="Send events to a receiver, a file, or stdout.")
@click.argument("target")
@click.option("--name", help="What to call it; made from the target unless said.")
@click.option("--tier", type=click.IntRange(0, 3), help="How much it gets, 0 to 3; 0 unless said.")
@click.option(
    "--pii/--no-pii", default=None, help="Mask e-mail addresses, phone numbers, home paths, the machine."
)
@click.option(
    "--tools",
    type=click.Choice(["all", "main", "beat"]),
    help="Tool events: all, a subagent's thinned, or all thinned; what the receiver asks for unless said.",
)
@click.option("--token-env", metavar="NAME", help="The variable that holds the receiver's token.")
@click.option("--token-file", metavar="FILE", help="The file that holds the receiver's token.")
@click.option("--token", metavar="-", help="'-' reads the receiver's token from standard input.")
@click.option("--secret-file", metavar="FILE", help="The file that holds the signing secret (whsec_…).")
@click.option(
    "--from",
    "start",
    type=click.Choice(["start", "now"]),
    help="Send what is recorded already, or only what comes; start unless said.",
)
def add(
    target: str,
    name: str | None,
    tier: int | None,
    pii: bool | None,
    tools: str | None,
    token_env: str | None,
    token_file: str | None,
    token: str | None,
    secret_file: str | None,
    start: str | None,
) -> None:
    """Send events to TARGET: a receiver's URL, file:PATH, or stdout.

    Adding a sink again changes what is said and keeps the rest, its token included. What a tier
    carries: 0 presence, 1 actions, 2 conversation, 3 everything.

    \b
    Examples:
      sessionpipe sinks add file:~/agents.ndjson --tier 1
      sessionpipe sinks add https://board.example --tier 1 --token-env BOARD_TOKEN
      sessionpipe sinks add https://board.example --token - < token.txt
    """
    wanted = _target(target)
    changes = _changes(wanted.kind, tier, pii, tools, token_env, token_file, token, secret_file)
    with _mended():
        known = settings.load(config_path())
        old = _existing(known, wanted, name)
        sink = msgspec.structs.replace(
            old or msgspec.structs.replace(wanted, name=name or _free_name(known, wanted)), **changes
        )
        if sink.kind == "file":
            _check_file(known, sink)
        said = _ask(sink) if sink.kind == "http" else None
        with _outbox() as outbox:
            row = _put_row(outbox, sink, said, new=old is None, start=start)
            settings.put_sink(config_path(), sink)
            lines = list(_introduction(sink, old, said, row, outbox, start))
            owed = sink.kind != "stdout" and outbox.behind(row.position) > 0
        _wake(owed=owed)
    for line in lines:
        click.echo(printable(line))


@sinks.command("list")
def list_() -> None:
    """List the sinks: what each one gets, where, and how it does.

    \b
    Example:
      sessionpipe sinks list
    """
    from sessionpipe.cli.render import table
    from sessionpipe.cli.status import sink_data, standing
    from sessionpipe.cli.store import looking

    with _mended():
        known = settings.load(config_path())
    if not known.sinks:
        click.echo("no sinks yet; add one: sessionpipe sinks add file:~/agents.ndjson")
        return
    now = now_ms()
    lines = [("NAME", "TIER", "PII", "TARGET", "STATE")]
    with looking(state()) as outbox:
        rows = {row.name: row for row in outbox.sinks()} if outbox else {}
        for sink in known.sinks:
            row = rows.get(sink.name)
            behind = outbox.behind(row.position if row else 0) if outbox else 0
            shown = sink_data(sink, row, behind, now)
            capped = shown["effective_tier"] != sink.tier
            # A tier like 2→1 is one that the receiver lowered.
            tier = f"{sink.tier}→{shown['effective_tier']}" if capped else str(sink.tier)
            pii = "masked" if sink.pii else "-"
            lines.append((sink.name, tier, pii, sink.target, standing(shown, now)))
    for line in table(lines):
        click.echo(line)


@sinks.command(short_help="Send nothing more to a sink, and forget its token.")
@click.argument("name")
def remove(name: str) -> None:
    """Send nothing more to NAME, and forget its place and its token.

    What it already has stays with it; what is recorded stays on this machine.

    \b
    Example:
      sessionpipe sinks remove board
    """
    with _mended():
        _find(name)
        settings.remove_sink(config_path(), name)
        with _outbox() as outbox:
            outbox.remove_sink(name)
        _wake()
    click.echo(f"removed {name}")


@sinks.command(short_help="Try a sink: send it a made-up session and take it back.")
@click.argument("name")
def test(name: str) -> None:
    """Try NAME: send it a heartbeat of a made-up session, and take that session back.

    A file is opened as delivery would open it; nothing is written.

    \b
    Example:
      sessionpipe sinks test board
    """
    with _mended():
        sink = _find(name)
    if sink.kind == "stdout":
        click.echo("stdout gets its events from `sessionpipe worker --foreground` and `sessionpipe flush`")
    elif sink.kind == "file":
        from sessionpipe.sinks.file import FileSink

        file = FileSink(sink.path or "")
        try:
            file.check()
        except OSError as error:
            raise Fail(f"{file.path} can't be written: {error.strerror}") from None
        finally:
            file.close()
        click.echo(f"{printable(file.path)} can be written")
    else:
        _test_receiver(sink)


@sinks.command(short_help="Send nothing to a sink until it is resumed.")
@click.argument("name")
def pause(name: str) -> None:
    """Send nothing to NAME until it is resumed; what happens meanwhile waits for it.

    \b
    Example:
      sessionpipe sinks pause board
    """
    with _mended():
        settings.put_sink(config_path(), msgspec.structs.replace(_find(name), paused=True))
        _wake()
    click.echo(f"paused {name}; what happens meanwhile waits for it")


@sinks.command(short_help="Send to a sink again, whatever paused it.")
@click.argument("name")
def resume(name: str) -> None:
    """Send to NAME again, whether you paused it or its receiver's answer did.

    \b
    Example:
      sessionpipe sinks resume board
    """
    with _mended():
        sink = _find(name)
        with _outbox() as outbox:
            outbox.add_sink(name, 0)
            # What was learnt of the receiver may be what stopped it: it is asked again.
            row = outbox.change_sink(name, lambda row: _cleared(row, discovery={}, max_tier=None))
            behind = outbox.behind(row.position if row else 0)
        settings.put_sink(config_path(), msgspec.structs.replace(sink, paused=False))
        _wake(owed=sink.kind != "stdout" and behind > 0)
    waits = f"; {_events(behind)} to look through" if behind else ""
    click.echo(f"resumed {name}{waits}")


COMMANDS = {"sinks": sinks}


# --- what add needs ---------------------------------------------------------------------------------


def _target(target: str) -> SinkConfig:
    """The sink ``target`` means, with its name still to be found."""
    if target == "stdout":
        return SinkConfig(name="", kind="stdout")
    if target.startswith("file:"):
        return SinkConfig(name="", kind="file", path=_path(target.removeprefix("file:")))
    if re.match(r"https?://", target, re.IGNORECASE):
        if why := settings.refuse_url(target):
            shown = re.sub(r"//[^/?#]*@", "//", target).partition("?")[0]
            raise Fail(f"{shown} {why}")
        origin = settings.origin(target)
        bare = target.rstrip("/").lower() == origin.lower()
        return SinkConfig(name="", kind="http", url=origin if bare else target)
    meant = ""
    if target.startswith(("/", "~/", "./", "../")):
        meant = f"; did you mean file:{target}?"
    elif re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?(/\S*)?", target):
        meant = f"; did you mean https://{target}?"
    usage(printable(f"{target} is neither a URL (https://…), nor file:PATH, nor stdout{meant}"))


def _path(path: str) -> str:
    from sessionpipe.sinks.file import expand

    if path.startswith("//"):
        path = "/" + path.lstrip("/") if path.startswith("///") else ""
    if not path or path.endswith("/") or not path.isprintable():
        usage("file: needs the path of a file, as in file:~/agents.ndjson")
    return str(expand(path))


def _changes(
    kind: str,
    tier: int | None,
    pii: bool | None,
    tools: str | None,
    token_env: str | None,
    token_file: str | None,
    token: str | None,
    secret_file: str | None,
) -> dict[str, Any]:
    """What the options say about the sink; what they leave unsaid is not in it."""
    tokens = {"token": token, "token_env": token_env, "token_file": token_file}
    given = [key for key, value in tokens.items() if value is not None]
    if len(given) > 1:
        usage("give the token in one way only")
    if kind != "http" and (given or secret_file is not None):
        usage(f"a {kind} sink takes no token and no secret")
    changes: dict[str, Any] = {}
    if given:
        if token is not None:
            tokens["token"] = _token(token)
        if token_env is not None and not settings.is_variable(token_env):
            usage("--token-env takes the name of a variable, as in BOARD_TOKEN; never the token itself")
        tokens["token_file"] = _absolute(token_file)
        changes |= tokens
    if secret_file is not None:
        changes |= {"secret_file": _absolute(secret_file), "secret": None}
    said = {"tier": tier, "pii": pii, "tools": tools}
    return changes | {key: value for key, value in said.items() if value is not None}


def _token(option: str) -> str:
    if option != "-":
        # Whoever can list processes can read a command line, and so can the shell's history.
        usage("a token is never given on the command line; `--token -` reads it from standard input")
    line: str = (
        click.prompt("token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    )
    if not settings.is_token(line.strip()):
        raise Fail("what was read is not a token: visible characters without spaces, quotes and backslashes")
    return str(line.strip())


def _absolute(path: str | None) -> str | None:
    from sessionpipe.sinks.file import expand

    return None if path is None else str(expand(path))


def _existing(known: Config, wanted: SinkConfig, name: str | None) -> SinkConfig | None:
    """The sink that is to be changed rather than added, if there is one."""
    if name is not None:
        if not settings.is_name(name):
            usage("--name takes 1 to 64 of the characters A-Z a-z 0-9 _ . -")
        old = known.sink(name)
        if old is not None and old.target != wanted.target:
            # Its token was given for the other address, and its place is a place in that one's events.
            raise Fail(f"{name} sends to {old.target}; choose another --name, or remove it first")
        return old
    return next((sink for sink in known.sinks if sink.target == wanted.target), None)


def _free_name(known: Config, wanted: SinkConfig) -> str:
    if wanted.url:
        parts = urlsplit(wanted.url)
        base = "-".join(filter(None, (parts.hostname, str(parts.port or ""), parts.path.strip("/"))))
    else:
        base = Path(wanted.path).stem if wanted.path else wanted.kind
    base = re.sub(r"[^A-Za-z0-9_.-]+", "-", base).strip("-.")[:56] or wanted.kind
    taken = {sink.name for sink in known.sinks}
    numbered = (f"{base}-{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (base, *numbered) if name not in taken)


def _check_file(known: Config, sink: SinkConfig) -> None:
    from sessionpipe.sinks.file import FileSink, expand

    there = os.path.realpath(sink.path or "")
    for other in known.sinks:
        if other.name != sink.name and other.path and os.path.realpath(expand(other.path)) == there:
            raise Fail(f"{other.name} writes to that file already; give each sink its own file")
    file = FileSink(sink.path or "")
    try:
        file.check()
    except OSError as error:
        raise Fail(f"{file.path} can't be written: {error.strerror}") from None
    finally:
        file.close()


def _ask(sink: SinkConfig) -> Discovery | Unreachable:
    """What the receiver says about itself, or why it can't be asked just now."""
    from sessionpipe.sinks.http import ask
    from sessionpipe.sinks.wire import Unreachable, Wire

    wire = Wire()
    try:
        return ask(sink.url or "", now_ms(), wire)
    except Unreachable as error:
        return error
    finally:
        wire.close()


def _put_row(
    outbox: Outbox,
    sink: SinkConfig,
    said: Discovery | Unreachable | None,
    *,
    new: bool,
    start: str | None,
) -> SinkState:
    """Bring the sink's row in line with what was said, before a worker sees it in the config."""
    if new:
        # A row of that name is of a sink that was taken out of the config by hand.
        outbox.remove_sink(sink.name)
    outbox.add_sink(sink.name, 0)

    def change(row: SinkState) -> SinkState:
        row = _cleared(row)
        if start is not None:
            position = outbox.last_position() if start == "now" else 0
            row = msgspec.structs.replace(row, position=position, thinning={})
        # One that can't be reached now is asked by its courier once it can.
        if said is None or isinstance(said, Exception):
            return row
        # A receiver whose file can't be read now, but could earlier, is known better from then.
        if said.problem and row.discovery and not row.discovery.get("problem"):
            return row
        return msgspec.structs.replace(
            row,
            discovery=msgspec.to_builtins(said),
            max_tier=said.max_tier,
            paused=said.refusal,
        )

    row = outbox.change_sink(sink.name, change)
    if row is None:
        raise Fail(f"{sink.name} was removed while it was added; try again")
    return row


def _cleared(row: SinkState, **fields: Any) -> SinkState:
    """The row without what stopped it: the person acted."""
    return msgspec.structs.replace(
        row, paused=None, failures=0, next_attempt_ms=0, batch_end=0, last_error=None, **fields
    )


def _introduction(
    sink: SinkConfig,
    old: SinkConfig | None,
    said: Discovery | Unreachable | None,
    row: SinkState,
    outbox: Outbox,
    start: str | None,
) -> Iterator[str]:
    """What the person should know now: what it gets, what goes first, what is not as it should be."""
    tier = sink.tier if row.max_tier is None else min(sink.tier, row.max_tier)
    verb = "added" if old is None else "changed" if old != sink else "kept"
    change = f" (was {old.tier})" if old is not None and old.tier != sink.tier else ""
    yield f"{verb} {sink.name}, tier {sink.tier}{change}, to {sink.target}"
    for number in range(tier + 1):
        yield f"  tier {number} is {TIERS[number]}"
    if tier < sink.tier:
        yield f"  its receiver takes tier {tier} at most, so that is what it gets"
    if sink.pii:
        yield "  e-mail addresses, phone numbers, home paths and the machine's name are masked"
    yield from _recorded(sink, said, row, tier, outbox, start, new=old is None)
    if said is not None:
        yield from _about_receiver(sink, said, row)
    if sink.paused:
        yield f"  you paused it; `sessionpipe sinks resume {sink.name}` starts it"


def _recorded(
    sink: SinkConfig,
    said: Discovery | Unreachable | None,
    row: SinkState,
    tier: int,
    outbox: Outbox,
    start: str | None,
    *,
    new: bool,
) -> Iterator[str]:
    from sessionpipe.delivery.batch import Policy, wanted

    if start == "now":
        yield "  it gets what happens from now on; nothing recorded before is sent"
        return
    if not new and start is None:
        return
    receiver = None if said is None or isinstance(said, Exception) else said
    takes_all = said is None or (receiver is not None and "backfill" in receiver.capabilities)
    policy = Policy(tier, without=frozenset() if takes_all else frozenset({"session.backfill"}))
    count = sum(number for kind, number in outbox.tally(row.position).items() if wanted(kind, policy))
    if count:
        tools = sink.tools or (receiver.tools if receiver else "all")
        most = "at most " if tools != "all" and tier else ""
        yield (
            f"  {most}{_events(count)} go first;"
            f" `sessionpipe sinks add {shlex.quote(sink.target)} --name {sink.name} --from now`"
            " skips what has not gone yet"
        )
    else:
        yield "  nothing is recorded for it yet"


def _events(count: int) -> str:
    return f"{count} recorded event{'s' * (count != 1)}"


def _about_receiver(sink: SinkConfig, said: Discovery | Unreachable, row: SinkState) -> Iterator[str]:
    from sessionpipe.sinks import keys

    if isinstance(said, Exception):
        yield f"  warning: its receiver can't be reached just now ({said}); events wait until it can"
    else:
        if said.problem:
            yield f"  warning: its well-known file could not be read ({said.problem}); the defaults are used"
        if row.paused:
            yield f"  warning: nothing is sent: {row.paused}"
        if settings.origin(said.events) != settings.origin(sink.url or ""):
            where = settings.origin(said.events)
            yield f"  its receiver takes events at {where}, so they go there, token included"
        if not said.problem and "forget" not in said.capabilities:
            yield "  its receiver does not say that it can forget a session; `sessionpipe forget` can only ask"
    try:
        if keys.token(sink, os.environ) is None and not sink.token_env:
            yield "  no token is sent; --token-env, --token-file or --token - gives one"
        keys.secret(sink, os.environ)
    except keys.KeyMissing as missing:
        yield f"  warning: it waits, because {missing}"
    for path in keys.readable_by_others(sink, os.environ):
        yield f"  warning: others can read {path}; run `chmod 600` on it"


# --- what the others need ---------------------------------------------------------------------------


def _test_receiver(sink: SinkConfig) -> None:
    from sessionpipe.delivery.outcome import Pause, Retry
    from sessionpipe.sinks.http import HttpSink

    row = SinkState(name=sink.name)
    with _mended(), _outbox() as outbox:
        row = outbox.sink(sink.name) or row
    receiver = HttpSink(sink, row.discovery, env=os.environ, log=lambda _level, _message: None)
    try:
        learned = receiver.learn(now_ms())
        if isinstance(learned, Pause):
            raise Fail(f"{sink.name}: {learned.reason}")
        if isinstance(learned, Retry):
            raise Fail(f"{sink.name} can't be reached: {learned.error}")
        session = _send_test(sink, receiver, "session.heartbeat", None)
        if receiver.forgets():
            _send_test(sink, receiver, "session.forgotten", session)
            click.echo(f"{sink.name} works: it took a test session and took it back")
        else:
            click.echo(f"{sink.name} works; it does not list forget, so it keeps the test session {session}")
    finally:
        receiver.close()


def _send_test(sink: SinkConfig, receiver: HttpSink, type_: str, session: str | None) -> str:
    """Send one event of a made-up session, a new one unless said; the session's id."""
    from sessionpipe.delivery.batch import Batch
    from sessionpipe.delivery.outcome import Acked, Drop, LowerTier, Pause, Retry, Split
    from sessionpipe.protocol import PROTOCOL, new_id, rfc3339

    event_id = new_id()
    seq = 0 if session is None else 1
    session = session or f"test-{event_id}"
    event = {
        "protocol": PROTOCOL,
        "id": event_id,
        "type": type_,
        "time": rfc3339(now_ms()),
        "tier": VOCABULARY[type_].tier,
        "harness": {"name": "sessionpipe"},
        "session": {"id": session, "seq": seq},
        "privacy": {"rulesets": ["secrets@1"], "pii": sink.pii},
        "data": {},
    }
    outcome = receiver.send(Batch(f"msg_{event_id}", (msgspec.json.encode(event),), (event_id,)))
    match outcome:
        case Acked(rejected=()):
            return session
        case Acked(rejected):
            raise Fail(f"{sink.name} answers, but will not store a test event: {rejected[0][1]}")
        case Pause(reason):
            raise Fail(f"{sink.name}: {reason}")
        case Retry(error) | Drop(error) | Split(error):
            raise Fail(f"{sink.name} did not take a test event: {error}")
        case LowerTier(tier):
            raise Fail(f"{sink.name} refuses a tier-0 event, and says it takes tier {tier}")
        case _:
            assert_never(outcome)


def _find(name: str) -> SinkConfig:
    known = settings.load(config_path())
    found = known.sink(name)
    if found is None:
        names = ", ".join(sink.name for sink in known.sinks) or "none"
        raise Fail(f"there is no sink {name}; there is: {names}")
    return found


@contextmanager
def _mended() -> Iterator[None]:
    """Whatever goes wrong with the settings or the outbox, in one line."""
    try:
        yield
    except (ConfigError, OutboxError) as error:
        raise Fail(str(error)) from None
    except sqlite3.Error as error:
        raise Fail(
            f"the outbox {state().outbox} can't be used: {error}; `sessionpipe doctor` says more"
        ) from None
    except OSError as error:
        raise Fail(f"{error.filename or state().root} can't be used: {error.strerror}") from None


@contextmanager
def _outbox() -> Iterator[Outbox]:
    make_private(state().root)
    outbox = Outbox.open(state().outbox)
    try:
        yield outbox
    finally:
        outbox.close()


def _wake(*, owed: bool = False) -> None:
    """Have a living worker look at what was changed; start one when something is ``owed``."""
    from sessionpipe.cli.rouse import rouse
    from sessionpipe.wake import wake

    if owed:
        rouse(state())
    else:
        wake(state())
