"""``sessionpipe privacy``: which rules are in force, what a sink got, what today's rules say of the outbox."""

from __future__ import annotations

import sqlite3
import sys
from array import array
from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from sessionpipe.cli.common import Fail, config_path, echo_json, printable, printable_text, state, watching
from sessionpipe.cli.store import looking
from sessionpipe.paths import State

if TYPE_CHECKING:
    from sessionpipe.config import SinkConfig
    from sessionpipe.delivery.terms import Terms
    from sessionpipe.outbox import Outbox, SinkState
    from sessionpipe.redaction import Redaction
    from sessionpipe.rescan import Hit

#: How many events a scan names one by one; the rest it counts.
NAMED = 20
NAMED_JSON = 1_000


@click.group(short_help="See what is redacted, what each sink got, and check what is stored.")
def privacy() -> None:
    """See which rules are in force, what a sink was sent, and what today's rules say of what is stored.

    \b
    Examples:
      sessionpipe privacy rules
      sessionpipe privacy show board --last 3
      sessionpipe privacy scan
    """


# --- rules ---------------------------------------------------------------------------------------


@privacy.command(short_help="List the rules in force, your own included.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, with stable names.")
def rules(as_json: bool) -> None:
    """List the rulesets in force, and what of your own was refused and why.

    Your own rules are the .toml files in the folder `rulesets` of the config directory.
    Exit status 1 when something was refused.

    \b
    Examples:
      sessionpipe privacy rules
      echo "text to try" | sessionpipe redact
    """
    from sessionpipe import redaction
    from sessionpipe.privacy import pii, secrets
    from sessionpipe.privacy.rules import load

    folder = config_path() / redaction.FOLDER
    found = redaction.load(folder)
    shipped = load(secrets.RULESET)
    persons = load(pii.RULESET)
    own = found.redaction.own.rulesets if found.redaction.own else ()
    if as_json:
        echo_json(
            {
                "folder": str(folder),
                "rulesets": [
                    {
                        "id": secrets.RULESET,
                        "revision": secrets.RULESET_VERSION,
                        "rules": len(shipped["vendor"]) + len(shipped["rule"]),
                    },
                    *(
                        {"id": one.id, "file": one.file, "rules": [rule.id for rule in one.rules]}
                        for one in own
                    ),
                    {"id": pii.RULESET, "revision": persons["revision"]},
                ],
                "refused": [problem._asdict() for problem in found.problems],
            }
        )
    else:
        count = len(shipped["vendor"]) + len(shipped["rule"])
        click.echo(f"{secrets.RULESET}  revision {secrets.RULESET_VERSION}, {count} rules; always")
        for one in own:
            names = ", ".join(rule.id for rule in one.rules)
            click.echo(printable(f"{one.id}  your own, from {one.file}: {names}"))
        click.echo(f"{pii.RULESET}  revision {persons['revision']}; for the sinks that ask for it")
        for problem in found.problems:
            click.echo(f"refused: {printable(problem)}")
        if not own and not found.problems:
            click.echo(printable(f"rules of your own go into {folder}"))
    sys.exit(1 if found.problems else 0)


# --- show ----------------------------------------------------------------------------------------


@privacy.command(short_help="Print the last events a sink got, exactly as it got them.")
@click.argument("sink")
@click.option(
    "--last", type=click.IntRange(1, 10_000), default=10, show_default=True, help="How many events."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, with stable names.")
def show(sink: str, last: int, as_json: bool) -> None:
    """Print the last events SINK got, as it got them: its tier, pii, thinning and rules applied.

    They are made once more from what is stored here, under the terms they were sent under.

    \b
    Examples:
      sessionpipe privacy show board
      sessionpipe privacy show board --last 1 --json
    """
    import msgspec

    from sessionpipe.config import ConfigError, load

    try:
        setting = load(config_path()).sink(sink)
    except ConfigError as error:
        raise Fail(str(error)) from error
    with watching(), looking(state()) as outbox:
        row = outbox.sink(sink) if outbox else None
        if outbox is None or row is None:
            if setting is None:
                raise Fail(f"there is no sink {sink}; `sessionpipe sinks list` lists them")
            events: list[Any] = []
            notes: list[str] = []
            terms = None
        else:
            terms, notes = _terms(row, setting)
            events = [msgspec.json.decode(event) for event in _got(outbox, row, terms, last)]
        if row is not None and row.dropped:
            notes.append(f"{row.dropped} events were given up; which of these were is not kept")
        if setting is not None and setting.kind == "otlp":
            notes.append("sent as log records: the event is the body, and its attributes say nothing more")
        policy = terms.policy if terms else None
        if as_json:
            echo_json(
                {
                    "sink": sink,
                    "tier": policy.tier if policy else None,
                    "pii": policy.pii if policy else None,
                    "tools": policy.tools if policy else None,
                    "position": row.position if row else 0,
                    "events": events,
                    "notes": notes,
                }
            )
            return
        if policy is not None:
            with_pii = ", pii@1" if policy.pii else ""
            click.echo(
                printable(
                    f"{sink}: tier {policy.tier}{with_pii}, tools {policy.tools};"
                    f" the last {len(events)} of what it got"
                ),
                err=True,
            )
        for note in notes:
            click.echo(printable(note), err=True)
        if not events:
            click.echo("it got nothing of what is stored", err=True)
        for event in events:
            text = msgspec.json.format(msgspec.json.encode(event), indent=2).decode()
            click.echo(printable_text(text))


def _terms(row: SinkState, setting: SinkConfig | None) -> tuple[Terms, list[str]]:
    """The terms a sink's events were made under, and what was changed since, in words."""
    from sessionpipe.delivery import terms as kept
    from sessionpipe.delivery.batch import Limits, Policy
    from sessionpipe.redaction import in_force

    rules = in_force()
    found = kept.read(row.terms, rules)
    if found is None:
        policy = Policy(
            tier=_tier(row, setting),
            pii=bool(setting and setting.pii),
            tools=(setting.tools if setting else None) or "all",
            rules=rules,
        )
        notes = ["how its events were made was not kept: shown as today's settings make them"]
        return kept.Terms(policy, Limits(500, 1 << 40), 0, rules.stamp), notes
    notes = []
    if setting is None:
        notes.append("it is no longer among the sinks")
    else:
        tier = _tier(row, setting)
        if tier != found.policy.tier:
            notes.append(f"its tier was changed since: {tier} now")
        if setting.pii != found.policy.pii:
            notes.append(f"pii was turned {'on' if setting.pii else 'off'} since")
        if setting.tools is not None and setting.tools != found.policy.tools:
            notes.append(f"its thinning was changed since: tools {setting.tools} now")
    if rules.stamp != found.rules:
        notes.append("the rules were changed since: what they find today is shown as taken")
    if found.since:
        notes.append(
            f"what it got before position {found.since}, if anything, went under other terms: left out"
        )
    return found, notes


def _tier(row: SinkState, setting: SinkConfig | None) -> int:
    tier = setting.tier if setting else 0
    return tier if row.max_tier is None else min(tier, row.max_tier)


def _got(outbox: Outbox, row: SinkState, terms: Terms, last: int) -> list[bytes]:
    """The last events behind ``terms.since`` and up to the cursor, as the courier makes them."""
    reach = 4 * last
    while True:
        # Thinning depends on all that went before; without it, the last few rows do.
        after = terms.since if terms.policy.tools != "all" else max(terms.since, row.position - reach)
        events = deque(_packed(outbox, row, terms, after), maxlen=last)
        if len(events) >= last or after <= terms.since:
            return list(events)
        reach *= 8


def _packed(outbox: Outbox, row: SinkState, terms: Terms, after: int) -> Iterator[bytes]:
    from sessionpipe.delivery.batch import pack

    thinning: dict[str, Any] = {}
    while after < row.position:
        page = [one for one in outbox.read(after, 500, 1 << 20) if one.position <= row.position]
        if not page:
            return
        packed = pack(
            "", page, after=after, until=0, policy=terms.policy, limits=terms.limits, thinning=thinning
        )
        if packed.batch is not None:
            yield from packed.batch.events
        after, thinning = packed.position, packed.thinning


# --- scan ----------------------------------------------------------------------------------------


@privacy.command(short_help="Say whether today's rules would redact anything that is stored.")
@click.option("--rewrite", is_flag=True, help="Redact what was found where it is stored.")
@click.option("--yes", is_flag=True, help="Do not ask on a terminal either.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, with stable names.")
def scan(rewrite: bool, yes: bool, as_json: bool) -> None:
    """Run today's rules, secrets@1 and your own, over everything that is stored on this machine.

    Names the events in which they find something, never what they find. With --rewrite these are
    redacted where they lie: same id, same seq. What sinks already have stays with them. On a terminal it
    asks first; in a script it does not. Exit status 1 when something was found and is still there.

    \b
    Examples:
      sessionpipe privacy scan
      sessionpipe privacy scan --rewrite --yes
    """
    from sessionpipe.redaction import in_force

    place, rules = state(), in_force()
    report = _Report(rules)
    with watching(), looking(place) as outbox:
        if outbox is not None:
            _look(outbox, rules, report)
    if not as_json:
        for line in report.lines():
            click.echo(printable(line))
    if report.found and not rewrite and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
        rewrite = yes = click.confirm("Redact them where they are stored?")
    if report.found and rewrite:
        if not yes and sys.stdin.isatty():
            click.confirm("Redact them where they are stored? It cannot be undone.", abort=True)
        _rewrite(place, rules, report)
        if not as_json:
            click.echo(
                f"rewrote {report.rewritten} events and what was remembered of {report.blocks} sessions"
            )
    if as_json:
        echo_json(report.json())
    if report.found and not rewrite:
        if not as_json:
            click.echo("`sessionpipe privacy scan --rewrite` redacts them where they are stored", err=True)
        sys.exit(1)


class _Report:
    """What a scan came to; of any number of events it holds little but their positions."""

    def __init__(self, rules: Redaction) -> None:
        self._rules = rules
        self.positions = array("q")
        self.sessions: Counter[tuple[str, str]] = Counter()
        self.types: Counter[str] = Counter()
        self.named: list[dict[str, Any]] = []
        self.remembered: list[Any] = []
        self.rows = self.unreadable = self.rewritten = self.blocks = 0

    @property
    def found(self) -> bool:
        return bool(self.positions or self.remembered)

    def add(self, hit: Hit) -> None:
        from sessionpipe.protocol import short_id

        row = hit.row
        self.positions.append(row.position)
        self.sessions[row.harness, row.session] += 1
        self.types[row.type] += 1
        if len(self.named) < NAMED_JSON:
            self.named.append(
                {
                    "position": row.position,
                    "harness": row.harness,
                    "session": short_id(row.harness, row.session),
                    "type": row.type,
                    "time_ms": row.time_ms,
                    "fields": list(hit.fields),
                    "revision": row.ruleset & 0xFFFF,
                    "current": self._rules.is_current(row.ruleset),
                }
            )

    def lines(self) -> Iterator[str]:
        from sessionpipe.cli.render import stamp

        for one in self.named[:NAMED]:
            under = "" if one["current"] else f"  redacted under revision {one['revision']}"
            yield (
                f"#{one['position']}  {stamp(one['time_ms'])}  {one['session']} ({one['harness']})"
                f"  {one['type']}: {', '.join(one['fields'])}{under}"
            )
        if len(self.positions) > NAMED:
            yield f"… and {len(self.positions) - NAMED} more"
        for row in self.remembered[:NAMED]:
            yield f"what is remembered of session {row.harness}:{row.id}"
        if self.unreadable:
            yield f"{self.unreadable} of the stored events cannot be read"
        if not self.found:
            yield f"today's rules find nothing in {self.rows} stored events"
        else:
            yield (
                f"today's rules would redact {len(self.positions)} of {self.rows} stored events,"
                f" in {len(self.sessions)} sessions"
            )

    def json(self) -> dict[str, Any]:
        return {
            "rulesets": list(self._rules.rulesets),
            "events": self.rows,
            "found": len(self.positions),
            "sessions": len(self.sessions),
            "types": dict(sorted(self.types.items())),
            "remembered": len(self.remembered),
            "unreadable": self.unreadable,
            "rewritten": self.rewritten,
            "named": self.named,
        }


def _look(outbox: Outbox, rules: Redaction, report: _Report) -> None:
    from sessionpipe.rescan import Hit, Unreadable, blocks, look

    shown = sys.stderr.isatty()
    with click.progressbar(
        length=outbox.count()[0], label="looking", file=sys.stderr, hidden=not shown
    ) as progress:
        for _, found in look(outbox, rules):
            report.rows += 1
            if isinstance(found, Hit):
                report.add(found)
            elif isinstance(found, Unreadable):
                report.unreadable += 1
            if report.rows % 500 == 0:
                progress.update(500)
    report.remembered = blocks(outbox, rules)


def _rewrite(place: State, rules: Redaction, report: _Report) -> None:
    from sessionpipe.cli.forget import truncate
    from sessionpipe.outbox import Outbox, OutboxError
    from sessionpipe.rescan import rewrite, rewrite_blocks

    try:
        outbox = Outbox.open(place.outbox)
    except OutboxError as error:
        raise Fail(str(error)) from error
    try:
        report.rewritten = rewrite(outbox, rules, report.positions)
        report.blocks = rewrite_blocks(outbox, rules, report.remembered)
        gone = truncate(outbox)
    except (sqlite3.DatabaseError, OutboxError) as error:
        raise Fail(
            f"the outbox {place.outbox} cannot be written ({error}); what was rewritten stays so, run it again"
        ) from error
    finally:
        outbox.close()
    if not gone:
        raise Fail(
            f"the old bytes may still stand in {place.outbox}-wal, which another process is reading;"
            " they go when the worker writes next, or end that process and run this again"
        )


COMMANDS = {"privacy": privacy}
