"""``sessionpipe doctor``: is everything as it must be, and if not, how to mend it."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from sessionpipe import ownfiles, places
from sessionpipe.adapters import registry
from sessionpipe.cli import doctor_hooks
from sessionpipe.cli.common import Fail, config_path, echo_json, printable, reason, state
from sessionpipe.cli.findings import Finding, Level
from sessionpipe.cli.render import STYLES, Tone, ago, colour_wanted, tilde
from sessionpipe.cli.status import count, sinks_data, standing
from sessionpipe.cli.store import looking
from sessionpipe.clock import now_ms
from sessionpipe.config import FILE, ConfigError, SinkConfig, load
from sessionpipe.install import native
from sessionpipe.install.launcher import trouble
from sessionpipe.install.netfs import network_file_system
from sessionpipe.install.targets import refused
from sessionpipe.liveness import worker_alive
from sessionpipe.outbox import Damaged
from sessionpipe.outboxfile import companions, damage, those_set_aside
from sessionpipe.paths import State
from sessionpipe.salvage import Salvage
from sessionpipe.spool import Spool

_TONES: dict[str, Tone] = {"ok": "good", "warn": "needs", "fail": "bad"}

#: A job that waits longer was left lying: a hook starts a worker at once.
STALE_JOB_S = 60
#: A hook's whole process against a bare interpreter start; the budget is 1.15, a noisy machine is not.
SLOW = 2.0
#: How often it is run, and how often where that seemed slow: what else the machine did may have been it. Odd, so
#: that one of them is the median.
RUNS, RUNS_WHEN_SLOW = 3, 9
REJECTED_SHOWN = 3
#: A larger outbox is looked through when that is asked for: a GB takes a second, and many from a slow disk.
LOOK_BYTES = 64 << 20
#: More of a kind are not worth counting.
WIDE_COUNTED = 1000


@click.command(short_help="Check that all is well, and say how to mend what is not.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, with stable names.")
@click.option(
    "--whole", is_flag=True, help="Look through all of the outbox, which takes seconds when it is large."
)
def doctor(as_json: bool, whole: bool) -> None:
    """Check places, hooks, worker and sinks, and say how to mend what is wrong.

    Exit status 1 when something fails. Runs the hook a few times, against a folder of its own.

    \b
    Examples:
      sessionpipe doctor
      sessionpipe doctor --json | jq '.findings[] | select(.level != "ok")'
    """
    place = state()
    findings = list(examine(place, config_path(), whole=whole))
    healthy = all(finding.level != "fail" for finding in findings)
    if as_json:
        agents: list[doctor_hooks.Agent] = []
        with suppress(OSError):  # A finding says it.
            agents = doctor_hooks.agents(place, all_events=True)
        echo_json(
            {
                "ok": healthy,
                "findings": [finding._asdict() for finding in findings],
                "harnesses": [doctor_hooks.as_json(agent) for agent in agents],
            }
        )
    else:
        _show(findings)
    sys.exit(0 if healthy else 1)


def examine(place: State, config_dir: Path, *, whole: bool = False) -> Iterator[Finding]:
    """Every finding. A check that cannot be made is a finding too, and keeps no other from being made."""
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("state", lambda: _folder(place)),
        ("settings", lambda: _settings(config_dir)),
        ("rules", lambda: _own_rules(config_dir)),
        ("adapters", lambda: _own_adapters(config_dir)),
        ("outbox", lambda: _outbox(place, whole)),
        ("worker", lambda: _worker(place)),
        ("jobs", lambda: _rejected(place)),
        ("hook", lambda: _hook(place)),
        ("hooks", lambda: doctor_hooks.findings(doctor_hooks.agents(place), now_ms())),
        ("sinks", lambda: _sinks(place, config_dir)),
    ]
    for name, check in checks:
        try:
            yield from check()
        except OSError as error:
            yield Finding(name, "fail", f"cannot be looked at: {reason(error)}")


# --- places -------------------------------------------------------------------------------------


def _folder(place: State) -> Iterator[Finding]:
    root = place.root
    if not root.exists():
        above = next(folder for folder in root.absolute().parents if folder.exists())
        if os.access(above, os.W_OK):
            yield Finding("state", "ok", f"{tilde(str(root))} is not there yet; the first event makes it")
        else:
            yield Finding(
                "state",
                "fail",
                f"{root} is not there and cannot be made: {above} is not writable by you",
                "make it yours, or set SESSIONPIPE_STATE_DIR to a folder that is",
            )
        return
    wrong = [Finding("state", "fail", one.what, one.mend) for one in places.wrong(place)]
    wrong += _wide(root)
    yield from wrong or [Finding("state", "ok", f"{tilde(str(root))} is yours alone and writable")]
    for path in places.those_put_aside(place):
        what = places.describe(path.lstat().st_mode)
        yield Finding(
            "state",
            "warn",
            f"{what} stood where something of sessionpipe's belongs, and was renamed to {path}",
            "look at it, and remove it",
        )
    yield from _room(root)
    if kind := network_file_system(root):
        yield Finding(
            "state",
            "warn",
            f"{root} is on a network file system ({kind}), where locks and renames promise less:"
            " an event may be lost or recorded twice",
            "set SESSIONPIPE_STATE_DIR to a local folder and run `sessionpipe install` again",
        )


def _wide(root: Path) -> Iterator[Finding]:
    wide = list(islice(_open_to_others(root), WIDE_COUNTED))
    if wide:
        more = f" and {len(wide) - 1} more below it" if len(wide) > 1 else ""
        yield Finding(
            "state",
            "fail",
            f"{wide[0]}{more} can be read by other users of this machine",
            f"chmod -R go-rwx {root}",
        )


def _open_to_others(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        for path in (Path(folder), *(Path(folder, name) for name in names)):
            with suppress(FileNotFoundError):  # A worker may be taking jobs away.
                mode = path.lstat().st_mode
                if mode & 0o077 and not stat.S_ISLNK(mode):
                    yield path


def _room(root: Path) -> Iterator[Finding]:
    free = places.room(root)
    if free is not None and free < places.LITTLE_ROOM:
        level: Level = "fail" if free < places.NO_ROOM else "warn"
        yield Finding(
            "state", level, f"{free >> 20} MiB are free below {root}", "make room; events wait or are lost"
        )


def _settings(config_dir: Path) -> Iterator[Finding]:
    file = config_dir / FILE
    try:
        load(config_dir)
    except ConfigError as error:
        yield Finding("settings", "fail", str(error), "mend the line; until then nothing is delivered")
        return
    if not file.exists():
        yield Finding("settings", "ok", f"{tilde(str(file))} is not there: defaults, and no sink")
        return
    if file.stat().st_mode & 0o077:
        yield Finding(
            "settings",
            "fail",
            f"{file}, which may hold tokens, can be read by others",
            f"chmod go-rwx {file}",
        )
    else:
        yield Finding("settings", "ok", f"{tilde(str(file))} is in order")


def _own_rules(config_dir: Path) -> Iterator[Finding]:
    folder = config_dir / ownfiles.RULESETS
    if ownfiles.names(folder) == ([], ""):
        return
    from sessionpipe import redaction

    found = redaction.load(folder)
    for problem in found.problems:
        yield Finding(
            "rules",
            "fail",
            f"own rules: {problem}; it redacts nothing",
            f"mend it in {folder}, then `sessionpipe privacy rules`",
        )
    if own := found.redaction.own:
        rules = sum(len(ruleset.rules) for ruleset in own.rulesets)
        yield Finding(
            "rules", "ok", f"{count(rules, 'rule')} of your own in {', '.join(found.redaction.rulesets[1:])}"
        )


def _own_adapters(config_dir: Path) -> Iterator[Finding]:
    own = registry.refresh(config_dir)
    for problem in own.problems:
        yield Finding(
            "adapters",
            "fail",
            f"own adapter {problem}; it is not used",
            f"mend it in {own.folder}, then `sessionpipe map` shows what becomes of a payload",
        )
    unwritten = refused()
    for name, (file, table, adapter) in own.tables.items():
        if why := unwritten.get(name):
            yield Finding("adapters", "fail", f"own adapter {file}: {why}", f"mend it in {own.folder}")
        what = f"{name} is an adapter of your own, {count(len(adapter.events), 'event')}"
        how = "" if "install" in table else "; it has no [install], so its hooks are yours to write"
        yield Finding("adapters", "ok", what + how)


def _outbox(place: State, whole: bool) -> Iterator[Finding]:
    yield from _those_set_aside(place)
    said = "whole"
    try:
        with looking(place) as outbox:
            events, sessions = outbox.count() if outbox else (0, 0)
            if outbox is not None and (whole or outbox.occupied() <= LOOK_BYTES):
                outbox.check()
            elif outbox is not None:
                looked = outbox.note("checked_ms")
                when = f"{ago(looked, now_ms())} by the worker" if looked else "never yet"
                said = f"looked through {when}; `sessionpipe doctor --whole` does it now"
    except Damaged as error:
        yield Finding("outbox", "fail", f"{place.outbox} is damaged: {error.why}", "sessionpipe flush")
        return
    except Fail as error:
        if why := damage(error.__cause__):
            yield Finding("outbox", "fail", f"{place.outbox} is damaged: {why}", "sessionpipe flush")
        else:
            # Where it points to doctor, that is here.
            yield Finding("outbox", "fail", error.message.partition("; `sessionpipe doctor`")[0])
        return
    yield Finding("outbox", "ok", f"{said}: {count(events, 'event')} of {count(sessions, 'session')}")


def _those_set_aside(place: State) -> Iterator[Finding]:
    """The damaged outboxes that are still there, and what the newest left to the one that took its place."""
    named = those_set_aside(place.outbox)
    for path in named:
        files = " ".join(shlex.quote(str(one)) for one in companions(path) if one.exists())
        size = sum(one.stat().st_size for one in companions(path) if one.exists())
        yield Finding(
            "outbox",
            "warn",
            f"a damaged outbox is kept as {path} ({size / 1e6:.1f} MB); what could be read of it is in the one in use",
            f"once you do not want it any more: rm {files}",
        )
    if not named:
        return
    with suppress(Fail, OSError, msgspec.MsgspecError), looking(place) as outbox:
        if outbox is not None and (noted := outbox.note("salvaged")):
            told = msgspec.json.decode(noted, type=Salvage)
            lack = [f"{name} lacks up to {count(number, 'event')}" for name, number in told.missing.items()]
            yield Finding(
                "outbox",
                "warn",
                f"carried over {ago(told.when_ms, now_ms())} ({told.why}): {count(told.events, 'event')} of"
                f" {count(told.sessions, 'session')}"
                + "".join(f"; {one} that could not be read" for one in lack),
            )


# --- the way of an event ------------------------------------------------------------------------


def _worker(place: State) -> Iterator[Finding]:
    alive, pid = worker_alive(place)
    spool = Spool(place.spool)
    stale = [name for name in spool.names() if _age_s(spool.new / name) > STALE_JOB_S]
    who = f"running, process {pid}" if alive else "at rest; the next hook starts it"
    if stale:
        look = f"the log says more: {place.log}"
        yield Finding(
            "worker",
            "fail",
            f"{count(len(stale), 'job')} waiting for more than a minute; the worker is {who}",
            look if alive else f"sessionpipe flush; {look}",
        )
    else:
        yield Finding("worker", "ok", who)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0


def _rejected(place: State) -> Iterator[Finding]:
    spool = Spool(place.spool)
    names = spool.rejected_names()
    if not names:
        yield Finding("jobs", "ok", "none was set aside")
        return
    yield Finding(
        "jobs",
        "warn",
        f"{count(len(names), 'job')} set aside because not understood; the newest:",
        f"look into {spool.rejected}; what you delete there is gone",
    )
    now = now_ms()
    for name in reversed(names[-REJECTED_SHOWN:]):
        yield Finding("jobs", "warn", _why(spool.rejected / name, now))


def _why(path: Path, now_ms: int) -> str:
    try:
        record: Any = msgspec.json.decode(places.read_file(path))
    except (OSError, msgspec.DecodeError):
        return f"{path.name}: cannot be read"
    record = record if isinstance(record, dict) else {}
    whose = " ".join(str(record[key]) for key in ("harness", "event") if record.get(key)) or path.name
    at = record.get("at_ms")
    when = f", {ago(at, now_ms)}" if isinstance(at, int) else ""
    owner = f" (it is {record['belongs_to']}'s)" if record.get("belongs_to") else ""
    return f"{whose}{when}: {str(record.get('reason', ''))[:200]}{owner}"


def _hook(place: State) -> Iterator[Finding]:
    launcher = place.launcher
    if not launcher.is_file():
        yield Finding("hook", "warn", "nothing is installed", "sessionpipe install")
        return
    if os.name == "nt":
        return
    measured = time_hook(launcher)
    if not measured.failure and measured.slow:
        measured = time_hook(launcher, RUNS_WHEN_SLOW)
    if measured.failure:
        yield Finding(
            "hook", "fail", f"the installed hook does not record: {measured.failure}", "sessionpipe install"
        )
        return
    # It was read out and run elsewhere.
    why, mend = trouble(launcher)
    if why:
        yield Finding("hook", "fail", why, mend or "sessionpipe install")
        return
    said = (
        f"an agent waits {measured.hook_ms:.0f} ms for a hook"
        f" (a bare Python start takes {measured.bare_ms:.0f} ms);"
        f" it is {_how(place)}"
    )
    if measured.slow:
        yield Finding("hook", "warn", said, "is the state directory, or Python itself, on a slow disk?")
    else:
        yield Finding("hook", "ok", said)


def _how(place: State) -> str:
    if not native.stands(place):
        return "run by Python"
    if native.runs(place):
        return "compiled for this machine"
    return "run by Python, since what was compiled for this machine does not run here"


class Measured(NamedTuple):
    """Medians of whole processes in milliseconds; ``failure`` says why the hook left no job."""

    hook_ms: float
    bare_ms: float
    failure: str = ""

    @property
    def slow(self) -> bool:
        return self.hook_ms > SLOW * self.bare_ms


def time_hook(launcher: Path, runs: int = RUNS) -> Measured:
    """Run what ``install`` wrote, pointed at a state directory of its own, as a harness would."""
    with tempfile.TemporaryDirectory(prefix="sessionpipe-doctor-") as folder:
        root = Path(folder)
        text = places.read_file(launcher).decode("utf-8", "surrogateescape")
        # Both directories are baked in on one line; everything else stays as installed.
        aimed, count = re.subn(
            r"(?m)^export SESSIONPIPE_STATE_DIR=.*$",
            f"export SESSIONPIPE_STATE_DIR='{root}/state' SESSIONPIPE_CONFIG_DIR='{root}/config'",
            text,
        )
        if count != 1:
            return Measured(0, 0, f"{launcher} is not what `install` writes")
        python = re.search(r"(?m)^python='(.*)'$", text)
        copy = root / "hook"
        copy.write_text(aimed, "utf-8", "surrogateescape")
        copy.chmod(0o700)
        bare = [python[1] if python else sys.executable, "-I", "-S", "-c", "pass"]
        payload = b'{"session_id":"doctor","hook_event_name":"Stop"}\n'
        environment = {**os.environ, "SESSIONPIPE_NO_WORKER": "1"}
        hooks, bares = [], []
        try:
            for _ in range(runs):
                hooks.append(_run(["/bin/sh", str(copy), "claude-code", "Stop"], payload, environment))
                bares.append(_run(bare, b"", environment))
        except (OSError, subprocess.SubprocessError) as error:
            return Measured(0, 0, reason(error))
        jobs = len(Spool(root / "state" / "spool").names())
        if jobs != runs:
            return Measured(0, 0, f"{jobs} of {runs} runs left a job")
        return Measured(sorted(hooks)[runs // 2], sorted(bares)[runs // 2])


def _run(command: list[str], payload: bytes, environment: dict[str, str]) -> float:
    start = time.perf_counter()
    done = subprocess.run(  # noqa: S603  # what `install` wrote, or its interpreter
        command, input=payload, capture_output=True, env=environment, timeout=20, check=True
    )
    took = (time.perf_counter() - start) * 1000
    if done.stdout or done.stderr:
        raise subprocess.SubprocessError("it printed something, which the agent would see")
    return took


def _sinks(place: State, config_dir: Path) -> Iterator[Finding]:
    now = now_ms()
    try:
        config = load(config_dir)
    except ConfigError:
        return  # Said above.
    if not config.sinks:
        yield Finding("sinks", "ok", "there is none: events stay on this machine")
    for sink in sinks_data(place, config, now):
        said = f"{sink['name']}: {standing(sink, now)}"
        name = sink["name"]
        if sink["reason"] == "paused by you":
            yield Finding("sinks", "ok", said)
        elif sink["paused"]:
            yield Finding("sinks", "fail", said, f"mend the cause, then `sessionpipe sinks resume {name}`")
        elif sink["reason"] or sink["dropped"]:
            mend = f"sessionpipe sinks test {name}" if sink["reason"] else f"nothing; {place.log} says why"
            yield Finding("sinks", "warn", said, mend)
        else:
            yield Finding("sinks", "ok", said)
    for settings in config.sinks:
        yield from _sink_needs(settings)


def _sink_needs(sink: SinkConfig) -> Iterator[Finding]:
    """Whether what a sink needs of this machine is here: its code, and its credentials where it keeps them."""
    from sessionpipe.cli.sink_code import missing
    from sessionpipe.sinks import keys

    try:
        trouble = missing(sink)
    except Fail as error:
        trouble = error.message
    if trouble:
        yield Finding("sinks", "fail", f"{sink.name}: {trouble}", "until then its events wait")
    for variable in keys.variables(sink):
        if variable not in os.environ:
            yield Finding(
                "sinks",
                "warn",
                f"{sink.name}: {variable} is not set here; whatever starts your agent must set it",
                f"export {variable} before the agent, or keep it in a file (--token-file, --header-file)",
            )
    for file in keys.files(sink):
        if not Path(file).expanduser().is_file():
            yield Finding("sinks", "fail", f"{sink.name}: {file} is not there", "put the credential there")


# --- for people ---------------------------------------------------------------------------------


def _show(findings: list[Finding]) -> None:
    colour = colour_wanted(sys.stdout)
    for finding in findings:
        level = f"{finding.level:4}"
        level = click.style(level, **STYLES[_TONES[finding.level]]) if colour else level
        click.echo(f"{level}  {finding.check:8}  {printable(finding.message)}")
        if finding.mend and finding.level != "ok":
            click.echo(f"{'':16}mend: {printable(finding.mend)}")
    failed = sum(finding.level == "fail" for finding in findings)
    warned = sum(finding.level == "warn" for finding in findings)
    click.echo(f"\n{failed} to mend, {warned} to know about" if failed or warned else "\nall is well")


COMMANDS = {"doctor": doctor}
