"""``sessionpipe map``: what one hook payload becomes, for authors and tests. Touches no state."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from sessionpipe.cli.common import config_path, printable, use_kept_rules


@click.command("map", short_help="Print the events that one hook's payload becomes.")
@click.argument("harness")
@click.argument("event")
@click.argument("args", nargs=-1)
@click.option("--cwd", metavar="DIR", help="The hook's working directory.  [default: this one]")
@click.option(
    "--env", "variables", metavar="K=V", multiple=True, help="A variable of the hook; may be repeated."
)
@click.option(
    "--files",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Look the harness's own files up by their base name below DIR.  [default: none are read]",
)
@click.option(
    "--at",
    "at_ms",
    metavar="MS",
    type=click.IntRange(min=0),
    help="The hook's time, in epoch ms.  [default: now]",
)
def map_command(
    harness: str,
    event: str,
    args: tuple[str, ...],
    cwd: str | None,
    variables: tuple[str, ...],
    files: Path | None,
    at_ms: int | None,
) -> None:
    """Print the events that a hook's payload, read from standard input, is mapped to.

    They are tier 3, redacted, one JSON object a line. Each payload is taken by itself: nothing is
    remembered from one to the next, no session.started is made up, and an answered prompt is not
    cleared, since only memory knows which one it was. A payload that is refused prints its reason on
    standard error.

    \b
    Examples:
      sessionpipe map claude-code Stop < payload.json
      sessionpipe map codex notify -- "$JSON" < /dev/null
      sessionpipe map pi agent_start --env HOME=/home/dev --files recording/ < payload.json
    """
    from sessionpipe.adapters import Refused, map_hook, registry

    registry.refresh(config_path())
    if harness not in registry.known():
        raise click.UsageError(
            f"no harness is called {printable(harness)!r}; there are {', '.join(registry.known())}"
        )
    env = _environment(variables)
    cwd = _here() if cwd is None else cwd
    at_ms = time.time_ns() // 1_000_000 if at_ms is None else at_ms
    payload = sys.stdin.buffer.read()
    try:
        drafts = map_hook(harness, event, payload, args=args, env=env, cwd=cwd, at_ms=at_ms)
    except Refused as refused:
        hint = f"; it belongs to {refused.belongs_to}" if refused.belongs_to else ""
        click.echo(f"sessionpipe: refused: {printable(refused.reason)}{hint}", err=True)
        return
    for line in _lines(drafts, env, cwd, at_ms, files):
        sys.stdout.buffer.write(line + b"\n")


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""  # The folder was deleted; a hook says nothing then, either.


def _environment(variables: tuple[str, ...]) -> dict[str, str]:
    env = {}
    for variable in variables:
        name, equals, content = variable.partition("=")
        if not name or not equals:
            raise click.UsageError(f"--env takes NAME=VALUE, not {printable(variable)!r}")
        env[name] = content
    return env


def _lines(
    drafts: list[dict[str, Any]], env: dict[str, str], cwd: str, at_ms: int, files: Path | None
) -> list[bytes]:
    import msgspec

    from sessionpipe.harnesses import Context, Files
    from sessionpipe.intake import enrich
    from sessionpipe.seal import seal, session_block

    if not drafts:
        return []
    use_kept_rules()
    home = env.get("HOME")
    facts = dict(drafts[0]["session"])
    if files is not None:
        drafts, facts = enrich(drafts, Context(env=env, cwd=cwd, at_ms=at_ms, home=home), Files(files))
    block = session_block(facts, home)
    known = [draft for draft in drafts if not _takes_memory(draft)]
    return [
        msgspec.json.encode(seal(draft, block, seq, root=None, home=home)) for seq, draft in enumerate(known)
    ]


def _takes_memory(draft: dict[str, Any]) -> bool:
    """Whether only a session's memory can tell what the draft is about, or that it is anything."""
    unnamed = draft["type"] == "attention.cleared" and "attention_id" not in draft["data"]
    return unnamed or bool(draft["memo"].get("only_running"))


COMMANDS = {"map": map_command}
