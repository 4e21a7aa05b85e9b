"""``sessionpipe forget``: a session is erased here, and every sink is told to do the same."""

from __future__ import annotations

import re
import shlex
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec

from sessionpipe.adapters import Refused, map_anyones
from sessionpipe.cli.common import Fail, config_path, printable, reason, state
from sessionpipe.cli.render import session_name
from sessionpipe.cli.resolve import named_in, resolve
from sessionpipe.cli.rouse import rouse
from sessionpipe.cli.store import looking, unreadable
from sessionpipe.clock import now_ms
from sessionpipe.config import Config, ConfigError, SinkConfig, load
from sessionpipe.live import unmark
from sessionpipe.log import drop as drop_lines
from sessionpipe.outbox import Outbox, OutboxError, SinkState, encode
from sessionpipe.outboxfile import companions, damage, those_set_aside
from sessionpipe.places import read_file
from sessionpipe.privacy.secrets import RULESET
from sessionpipe.protocol import PROTOCOL, new_id, rfc3339, short_id
from sessionpipe.redaction import in_force
from sessionpipe.sinks.discovery import remembered
from sessionpipe.spool import BadJob, Spool

TYPE = "session.forgotten"
#: How often the WAL is tried to be truncated, which waits for whoever reads or writes just now.
TRIES, PAUSE_S = 20, 0.1


@click.command(short_help="Erase a session here and at every sink.")
@click.argument("session")
@click.option("--yes", is_flag=True, help="Do not ask on a terminal either.")
def forget(session: str, yes: bool) -> None:
    """Erase a session from this machine and tell every sink to forget it.

    SESSION is a full id, harness:id, or the beginning of a short id; `sessionpipe sessions` lists them.
    What the agent keeps itself (its transcripts) is not touched, nor what a file sink has written.
    On a terminal it asks first; in a script it does not.

    \b
    Examples:
      sessionpipe forget 58ab6602
      sessionpipe forget claude-code:8c132906-8c3f-4814-870a-afc3d05e1d2e --yes
    """
    place = state()
    with looking(place) as seen:
        row = resolve(session, named_in(seen, session))
    name = session_name(row.block)
    whose = printable(f"{short_id(row.harness, row.id)} ({row.harness}{f', {name}' if name else ''})")
    if not yes and sys.stdin.isatty():
        click.confirm(f"Erase {whose} here and at every sink? It cannot be undone.", abort=True)
    try:
        outbox = Outbox.open(place.outbox)
    except OutboxError as error:
        raise Fail(f"{error}") from error
    now = now_ms()
    try:
        outbox.forget(row.harness, row.id, now, in_force().stamp, body(row.harness, row.id, now))
        gone = truncate(outbox)
        known = {sink.name: sink for sink in outbox.sinks()}
    except (OutboxError, sqlite3.DatabaseError) as error:
        if damage(error):
            raise unreadable(place, error) from error
        # On a full disk some of it may be gone already, and after the commit all but what the WAL holds.
        raise Fail(f"the outbox {place.outbox} cannot be written ({error}); forget it again") from error
    finally:
        outbox.close()
    unmark(place, row.harness, row.id)
    spool, left = Spool(place.spool), []
    rejected = 0
    try:
        # The worker drops them too, for being older than the tombstone: but it may not get to them soon,
        # and what the agent said stands in them raw.
        drop_waiting(spool, row.harness, row.id, now)
        rejected = drop_rejected(spool, row.harness, row.id)
        drop_lines(place, row.id)
    except OSError as error:
        left.append(f"something of it may still wait there: {reason(error)}")
    rouse(place)
    aside = f", {rejected} of its jobs that were set aside included" if rejected else ""
    click.echo(f"erased {whose} from this machine{aside}")
    for line in told(config_path(), known):
        click.echo(f"  {printable(line)}")
    if not gone:
        left.append(
            f"the erased bytes may still stand in {place.outbox}-wal, which another process is reading;"
            " they go when the worker writes next, or end that process and run `sessionpipe flush`"
        )
    for path in those_set_aside(place.outbox):
        files = " ".join(shlex.quote(str(one)) for one in companions(path) if one.exists())
        left.append(f"a damaged outbox that was set aside may still hold it and is not touched: rm {files}")
    if left:
        raise Fail("; ".join(left))


def body(harness: str, session_id: str, now_ms: int) -> Callable[[int], bytes]:
    """The session's ``session.forgotten``, given its ``seq``: of the session it holds nothing but the id."""

    def of(seq: int) -> bytes:
        return encode(
            {
                "protocol": PROTOCOL,
                "id": new_id(),
                "type": TYPE,
                "time": rfc3339(now_ms),
                "tier": 3,
                "harness": {"name": harness},
                "session": {"id": session_id, "seq": seq},
                "privacy": {"rulesets": [RULESET], "pii": False},
                "data": {},
            }
        )

    return of


def truncate(outbox: Outbox) -> bool:
    """Truncate the WAL, where the erased bytes still stand; whether that could be done in time."""
    for _ in range(TRIES):
        if outbox.checkpoint():
            return True
        time.sleep(PAUSE_S)
    return False


def drop_waiting(spool: Spool, harness: str, session_id: str, before_ms: int) -> None:
    """Delete the waiting jobs that are of this session and were fired before ``before_ms``."""
    for name in spool.names():
        try:
            job = spool.read(name)
            if job.at_ms >= before_ms or session_id.encode() not in job.payload:
                continue
            drafts = map_anyones(
                job.harness, job.event, job.payload, args=job.args, env=job.env, cwd=job.cwd, at_ms=job.at_ms
            )
        except (OSError, BadJob, Refused):
            continue  # Not a job of it that anybody could tell; the worker sets it aside.
        if any((one["harness"]["name"], one["session"]["id"]) == (harness, session_id) for one in drafts):
            spool.unlink([name])


def drop_rejected(spool: Spool, harness: str, session_id: str) -> int:
    """Delete the rejected jobs that are of this session; how many there were.

    A rejected payload may be no JSON, or cut, so the id is looked for as a whole word in the text.
    """
    word = re.compile(rb"(?<![A-Za-z0-9._:-])" + re.escape(session_id.encode()) + rb"(?![A-Za-z0-9._:-])")
    dropped = 0
    for name in spool.rejected_names():
        path = spool.rejected / name
        try:
            if word.search(read_file(path)) and harness in _owners(path):
                path.unlink()
                dropped += 1
        except FileNotFoundError:
            continue  # Somebody else tidied up.
    return dropped


def _owners(path: Path) -> tuple[object, ...]:
    try:
        record = msgspec.json.decode(read_file(path))
        return record.get("harness"), record.get("belongs_to")
    except (msgspec.DecodeError, AttributeError):
        return ()


def told(config_dir: Path, known: dict[str, SinkState]) -> Iterator[str]:
    """What happens at each sink, in words."""
    try:
        config = load(config_dir)
    except ConfigError as error:
        yield f"no sink is told yet: {error}"
        config = Config()
    for sink in config.sinks:
        row = known.get(sink.name)
        yield f"{sink.name}: {_at(sink, row)}{_when(sink, row)}"


def _at(sink: SinkConfig, row: SinkState | None) -> str:
    if sink.kind == "file":
        return f"{sink.path} gets a line that says so; the lines it holds are yours to delete"
    if sink.kind == "stdout":
        return "is told with its next output"
    if sink.kind == "otlp":
        return (
            "gets a record that says so, and no more: OTLP has no way to erase, so what it was sent is yours to"
            " delete where the collector put it"
        )
    if sink.kind != "http":
        return f"is told to forget it; whether it does so is up to the package that brings {sink.kind}"
    receiver = remembered(row.discovery, sink.url or "") if row else None
    if receiver is None:
        return "is told to forget it; whether it does so it has not said yet"
    if not receiver.forgets:
        return "is told to forget it, but does not say that it does so"
    return "is told to forget it"


def _when(sink: SinkConfig, row: SinkState | None) -> str:
    if sink.paused:
        return f", once you `sessionpipe sinks resume {sink.name}`"
    if row is not None and row.paused is not None:
        return f", once it is no longer paused ({row.paused})"
    return ""


COMMANDS = {"forget": forget}
