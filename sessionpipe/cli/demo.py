"""``sessionpipe demo``: a recorded session through the whole pipe, and what a sink at each tier gets."""

from __future__ import annotations

import itertools
import secrets
import shutil
import statistics
import string
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import click
import msgspec

from sessionpipe.cli.common import Fail, printable, reason, usage, watching
from sessionpipe.cli.playback import Recording, Stage, load
from sessionpipe.cli.render import STYLES, Tone, colour_wanted, cut, describe, line, pad
from sessionpipe.cli.store import looking
from sessionpipe.config import FILE
from sessionpipe.paths import State, data_dir

HARNESS, SCENARIO = "claude-code", "tui-permission"
COLUMNS = 100
#: The longest that the recorded person's pauses last when it is sent somewhere.
PAUSE_S = 2.5
TIERS = (
    "that it works, that it needs you; no words",
    "and which tools, how long, which files, what it asks for",
    "and what was said",
    "and what went into tools and came out",
)
#: What the recorded person typed, and what the recorded model ran: where the credential is planted.
PROMPT, COMMAND = "Try both", "curl -V"


def credential() -> str:
    """A token of a well-known shape, new each time: it opens nothing, and no file of ours holds one."""
    letters = string.ascii_letters + string.digits
    return "ghp_" + "".join(secrets.choice(letters) for _ in range(36))


@click.command(short_help="Play a recorded session; show what each tier would send.")
@click.option("--tier", type=click.IntRange(0, 3), help="Only this tier, every event of it.")
@click.option(
    "--to", "target", metavar="SINK", help="Send it there instead, at the pace it had: a URL or file:PATH."
)
@click.option("--token-file", metavar="FILE", help="With --to: the file that holds the receiver's token.")
@click.option("--secret-file", metavar="FILE", help="With --to: the file that holds the signing secret.")
def demo(tier: int | None, target: str | None, token_file: str | None, secret_file: str | None) -> None:
    """Play a recorded session and show what would leave this machine at each tier.

    Everything is real but the agent: the hook, the spool, the worker, the outbox, a stdout sink. It all
    happens in a temporary folder that is removed at the end; nothing of yours is read or changed. A
    credential is planted on the way, and looked for in everything that came out.

    With --to the session goes to a sink of yours, tier 1 unless said, as a new session each time: to see a
    receiver at work without an agent.

    \b
    Examples:
      sessionpipe demo
      sessionpipe demo --tier 1
      sessionpipe demo --to http://localhost:8787 --token-file ~/.local/state/sessionpipe/receiver/token
    """
    if target is None and (token_file or secret_file):
        usage("--token-file and --secret-file go with --to")
    folder = data_dir("conformance") / "harness" / HARNESS / SCENARIO
    if not folder.is_dir():
        raise Fail(f"the recorded session is not at {folder}; install sessionpipe anew")
    if target is not None:
        send(
            folder,
            target,
            {"tier": str(1 if tier is None else tier), "token-file": token_file, "secret-file": secret_file},
        )
        return
    planted = credential()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    try:
        with Stage() as stage:
            show = Show(stage.home)
            recording = load(folder, stage.home, planting(planted))
            show.opening(recording, planted)
            (stage.config / FILE).write_text(four_sinks())
            (stage.home / "src").mkdir()
            stage.bare_start()  # The first one only warms the disk's cache.
            bare = statistics.median(stage.bare_start() for _ in range(5))
            took = stage.play(HARNESS, recording)
            written = stage.flush()
            stage.stop_worker()
            tiers = by_tier(written)
            show.played(took, bare, tiers[3])
            show.tiers(tiers, tier)
            show.one_call(recording, tiers, planted)
            leaked = found_in(planted, written, stage.state)
    except BrokenPipeError:
        raise  # Whoever read has seen enough; click ends quietly.
    except (OSError, RuntimeError) as error:
        raise Fail(f"the demo could not be played: {reason(error)}") from error
    show.verdict(leaked, arrived(tiers[3]))


def send(folder: Path, target: str, options: Mapping[str, str | None]) -> None:
    """Play the session in ``folder`` at its own pace, into the sink that ``sinks add`` would make of this."""
    # Read where the person is; the stage is a folder of its own.
    said = [
        word
        for name, value in options.items()
        if value is not None
        for word in (
            f"--{name}",
            str(Path(value).expanduser().absolute()) if name.endswith("file") else value,
        )
    ]
    if target.startswith("file:"):
        target = f"file:{Path(target.removeprefix('file:')).expanduser().absolute()}"
    try:
        with Stage() as stage, watching():
            stage.command("sinks", "add", target, "--name", "demo", *said)
            stage.command("sinks", "test", "demo")
            (stage.home / "src").mkdir()
            recording = load(folder, stage.home, {}, anew=True)
            seconds = sum(min(pause, PAUSE_S) for pause in pauses(recording))
            click.echo(
                f"a recorded Claude Code session goes to {printable(target)}: {seconds:.0f} s, ctrl-c ends it"
            )
            stage.play(HARNESS, recording, longest_s=PAUSE_S)
            stage.command("flush")
            sink = msgspec.json.decode(stage.command("status", "--json"))["sinks"][0]
            if sink["paused"] or sink["behind"]:
                raise RuntimeError(sink["reason"] or f"{sink['behind']} events are left")
            click.echo(f"sent {sink['sent']} events at tier {sink['effective_tier']}")
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        # What it advises is for a sink that stays.
        why = reason(error).removeprefix("demo: ").partition("; once that is mended")[0]
        raise Fail(f"the demo could not be sent: {why}") from error


def pauses(recording: Recording) -> list[float]:
    """The seconds between its hooks."""
    times = [hook.at_ms for hook in recording.hooks]
    return [(later - earlier) / 1000 for earlier, later in itertools.pairwise(times)]


def planting(token: str) -> dict[str, str]:
    """Where the credential goes: into a prompt, and into a command's environment."""
    return {PROMPT: f"{PROMPT}. If it asks, the token is {token}", COMMAND: f"GITHUB_TOKEN={token} {COMMAND}"}


def four_sinks() -> str:
    """Settings with one stdout sink for each tier."""
    return "".join(
        f'[[sinks]]\nname = "tier-{tier}"\nkind = "stdout"\ntier = {tier}\n\n' for tier in range(4)
    )


def by_tier(written: bytes) -> list[list[dict[str, Any]]]:
    """What the four sinks wrote, apart again and in order."""
    tiers: list[list[dict[str, Any]]] = [[], [], [], []]
    for text in written.splitlines():
        event = msgspec.json.decode(text)
        tiers[event["tier"]].append(event)
    for events in tiers:
        events.sort(key=lambda event: int(event["session"]["seq"]))
    return tiers


def found_in(token: str, written: bytes, state: State) -> list[str]:
    """Everything that holds the credential: the outputs, the outbox's rows, any file of the state."""
    needle = token.encode()
    found = ["a sink's output"] if needle in written else []
    with looking(state) as outbox:
        # Row by row too: what is longer than a page of the database is not in one piece in the file.
        if outbox and any(needle in row.body for row in outbox.read(0, 100_000, 1 << 30)):
            found.append("an event in the outbox")
        if outbox and any(token in str(row) for row in outbox.sessions()):
            found.append("a session in the outbox")
    files = (path for path in state.root.rglob("*") if path.is_file())
    return found + [str(path.relative_to(state.root)) for path in files if needle in path.read_bytes()]


def arrived(events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the planted prompt and command came through, with something in the credential's place."""
    said = [event["data"].get("user", "") for event in events if event["type"] == "turn.transcript"]
    return any("the token is [redacted]" in text for text in said) and call(events) is not None


def call(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The end of the call that the credential was planted in."""
    for event in events:
        ran = event["data"].get("input")
        if (
            event["type"] == "tool.ended"
            and isinstance(ran, dict)
            and str(ran.get("command")).endswith(COMMAND)
        ):
            return event
    return None


class Show:
    """What the person sees of it, in at most 100 columns."""

    def __init__(self, home: Path) -> None:
        self._home = str(home)
        self._colour = colour_wanted(sys.stdout)

    def say(self, text: str = "", tone: Tone = "plain") -> None:
        text = printable(text).rstrip()
        click.echo(click.style(text, **STYLES[tone]) if self._colour else text)

    def prose(self, text: str) -> None:
        for part in textwrap.wrap(text, COLUMNS):
            self.say(part)

    def heading(self, text: str) -> None:
        self.say()
        click.echo(click.style(text, bold=True) if self._colour else text)

    def opening(self, recording: Recording, planted: str) -> None:
        self.prose(
            f"A recorded Claude Code session, {len(recording.hooks)} hooks, played through the real hook, spool,"
            " worker, outbox and stdout sink in a temporary folder. Nothing of yours is read or changed."
        )
        self.prose(
            f"Planted in a prompt and in a Bash command: a GitHub token, {masked(planted)}"
            f" ({len(planted)} characters, made up just now)."
        )

    def played(self, took: list[float], bare: float, events: Sequence[Mapping[str, Any]]) -> None:
        self.say()
        self.say(
            f"{len(took)} hooks fired without the person's pauses, {statistics.median(took):.0f} ms each"
            f" (a bare Python start: {bare:.0f} ms); {len(events)} events"
        )

    def tiers(self, tiers: Sequence[Sequence[Mapping[str, Any]]], only: int | None) -> None:
        """Tier 0 in full, then of each tier the lines that are new or say more; or one tier in full."""
        for tier, events in enumerate(tiers):
            if only not in (None, tier):
                continue
            before = (
                {} if only is not None or tier == 0 else {_seq(e): describe(e).text for e in tiers[tier - 1]}
            )
            new = [event for event in events if before.get(_seq(event)) != describe(event).text]
            kept = len(events) - len(new)
            as_before = f", {kept} of them as at tier {tier - 1}" if kept else ""
            self.heading(f"tier {tier}: {TIERS[tier]}")
            self.say(f"  a sink gets {len(events)} events{as_before}", "quiet")
            for event in new:
                row = line(event, today=date.today(), home=self._home)
                head = f"  {_seq(event):>3}  "
                self.say(head + cut(row.words.text, COLUMNS - len(head)), row.words.tone)

    def one_call(
        self, recording: Recording, tiers: Sequence[Sequence[Mapping[str, Any]]], planted: str
    ) -> None:
        """One hook before, and its event after, as a sink at each tier gets it."""
        end = call(tiers[3])
        if end is None:
            return
        self.heading("one tool call: what the hook was given, and the data a sink gets of it")
        self.json("hook", given(recording, str(end["data"].get("call_id"))), planted)
        shown: object = None
        for tier, events in enumerate(tiers):
            same = next((e["data"] for e in events if _seq(e) == _seq(end)), None)
            if same is not None and same == shown:
                self.say(f"  {pad(f'tier {tier}', 7)} as at tier {tier - 1}", "quiet")
            else:
                self.json(f"tier {tier}", same, planted)
            shown = same

    def json(self, label: str, value: object, planted: str) -> None:
        """A value in a few lines, its long strings cut; what was planted shows only its beginning."""
        text = "no event"
        if value is not None:
            # Masked before anything is cut: a cut could leave half of it, which no longer matches.
            encoded = msgspec.json.encode(value).replace(planted.encode(), masked(planted).encode())
            text = msgspec.json.encode(_shortened(msgspec.json.decode(encoded))).decode()
        room = COLUMNS - 10
        for start in range(0, len(text), room):
            head = label if start == 0 else ""
            self.say(f"  {pad(head, 7)} {text[start : start + room]}", "quiet" if value is None else "plain")

    def verdict(self, leaked: list[str], complete: bool) -> None:
        self.heading("the planted credential")
        if leaked:
            raise Fail(f"the planted credential is in {', '.join(leaked)}; this is a fault, please report it")
        if not complete:
            raise Fail("the events the credential was planted in did not come through; please report it")
        self.say("  gone: it is in none of the four outputs and in no file of the state directory", "good")
        self.heading("next")
        steps = (
            ("install", "hook your agents; `uninstall` undoes it"),
            ("tail", "watch them, live"),
            ("sinks add file:~/agents.ndjson --tier 1", "send it somewhere"),
        )
        name = called()
        wide = max(len(f"{name} {command}") for command, _ in steps)
        for command, why in steps:
            self.say(f"  {pad(f'{name} {command}', wide)}  {why}")


def called() -> str:
    """How this program is called here: by its path, where its name alone would not find it."""
    path = sys.argv[0]
    return path if Path(path).name == "sessionpipe" and not shutil.which("sessionpipe") else "sessionpipe"


def given(recording: Recording, call_id: str) -> dict[str, Any]:
    """What the agent handed the hook at the end of a call, of it what the call itself was."""
    hook = next(h for h in recording.hooks if h.event == "PostToolUse" and call_id.encode() in h.payload)
    payload = msgspec.json.decode(hook.payload)
    return {key: payload[key] for key in ("tool_name", "tool_input", "tool_response") if key in payload}


def masked(token: str) -> str:
    """Enough of a credential to see that it was there."""
    return token[:8] + "…"


def _seq(event: Mapping[str, Any]) -> int:
    return int(event["session"]["seq"])


def _shortened(value: Any, longest: int = 70) -> Any:
    if isinstance(value, str):
        return cut(value, longest)
    if isinstance(value, dict):
        return {key: _shortened(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shortened(inner) for inner in value]
    return value


COMMANDS = {"demo": demo}
