"""``filter`` and ``redact``: the privacy rules on standard input, for authors and for the curious."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from sessionpipe.cli.common import printable, use_kept_rules

if TYPE_CHECKING:
    from sessionpipe.redaction import Redaction


@click.command(
    short_help="Print events as a sink of a tier would get them.",
    epilog="""\b
    Example: what a sink of tier 1 would be sent of the events in a file
      sessionpipe filter --tier 1 --pii < events.ndjson
    """,
)
@click.option(
    "--tier", type=click.IntRange(0, 3), required=True, help="0 presence, 1 actions, 2 conversation, 3 all."
)
@click.option(
    "--pii", is_flag=True, help="Reduce e-mail addresses, phone numbers, home folders and the machine."
)
def filter_command(tier: int, pii: bool) -> None:
    """Print the events on stdin, one JSON object a line, as a sink of a TIER gets them.

    An event whose type is above the tier, or is not the protocol's, is left out. A line that is no
    event is named on stderr, does not hold up the others, and makes the exit status 1.
    """
    import msgspec

    from sessionpipe.privacy.filter import filter_event
    from sessionpipe.redaction import in_force

    use_kept_rules()
    rules = in_force()
    out = sys.stdout.buffer
    bad = False
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            event = filter_event(_unredacted(msgspec.json.decode(line), rules), tier, pii)
            # In one write: whoever reads along gets whole lines.
            out.write(msgspec.json.encode(event) + b"\n" if event is not None else b"")
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            bad = True
            why = "nested too deeply" if isinstance(error, RecursionError) else error
            click.echo(printable(f"sessionpipe: line {number} is not an event: {why}"), err=True)
    out.flush()
    if bad:
        sys.exit(1)


def _unredacted(event: Any, rules: Redaction) -> dict[str, Any]:
    """``event`` as one that no ``secrets@1`` ran over: on stdin, saying that rules ran is only a word.

    The person's own rules did, here; the filter runs the others.
    """
    if not isinstance(event, dict):
        raise ValueError("not a JSON object")
    if not isinstance(event.get("type"), str):
        raise ValueError("it has no type")
    said = event.get("privacy")
    ran = isinstance(said, dict) and said.get("pii") is True
    clean = rules.event(event) if rules.own else event
    return {**clean, "privacy": {"rulesets": list(rules.rulesets[1:]), "pii": ran}}


@click.command(
    short_help="Print text without the credentials in it.",
    epilog="""\b
    Example: a log without the credentials in it
      sessionpipe redact < build.log
    """,
)
@click.option("--pii", is_flag=True, help="Reduce e-mail addresses, phone numbers and home folders too.")
def redact_command(pii: bool) -> None:
    """Print the text on stdin with every credential replaced by [redacted], and what your own rules find.

    The whole input is read before anything is printed: a private key goes over many lines. Bytes
    that are not UTF-8 come out as they came in.
    """
    import os

    from sessionpipe.privacy import pii as persons
    from sessionpipe.redaction import redact

    use_kept_rules()
    text = redact(sys.stdin.buffer.read().decode("utf-8", "surrogateescape"))
    if pii:
        text = persons.reduce(text, os.environ.get("HOME") or os.environ.get("USERPROFILE"))
    out = sys.stdout.buffer
    out.write(text.encode("utf-8", "surrogateescape"))
    out.flush()


COMMANDS = {"filter": filter_command, "redact": redact_command}
