"""``sessionpipe pi``: the sessions that Pi keeps on this machine, for people.

They are Pi's own files, read where they lie; nothing of them is recorded or sent by looking. Credentials
in them are left out all the same unless they are asked for: what stands on a screen is shared with it,
and ``--json`` goes wherever its pipe goes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sessionpipe.cli.common import Fail, echo_json, printable
from sessionpipe.cli.render import (
    STYLES,
    ago,
    colour_wanted,
    columns_of,
    cut,
    session_name,
    stamp,
    table,
    tilde,
)
from sessionpipe.clock import now_ms
from sessionpipe.protocol import rfc3339, short_id

if TYPE_CHECKING:
    from sessionpipe.cli.pi_render import Line
    from sessionpipe.harnesses.pi_session import Model, Session, Usage
    from sessionpipe.harnesses.pi_store import Summary

#: How many sessions the table shows unless ``--all`` is given.
SHOWN = 30
#: How many sessions are listed that an argument may mean.
CANDIDATES = 20


@click.group(short_help="List, show and draw the sessions that Pi keeps on this machine.")
def pi() -> None:
    """Look at the sessions that Pi keeps on this machine.

    They are read where Pi keeps them (PI_CODING_AGENT_DIR, else ~/.pi/agent; with
    PI_CODING_AGENT_SESSION_DIR or the sessionDir of Pi's settings.json there, too). Nothing is recorded
    or sent by looking, and nothing is changed.

    \b
    Examples:
      sessionpipe pi list
      sessionpipe pi show 58ab6602
      sessionpipe pi tree ./session.jsonl
    """


def _verbatim(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--verbatim", is_flag=True, help="Leave credentials in what is printed.")(command)


def _folder(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--session-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="Look in this folder only, as Pi's own option of that name does.",
    )(command)


# --- list -----------------------------------------------------------------------------------------


@pi.command("list", short_help="List the sessions, the most recent first.")
@click.option("--all", "everything", is_flag=True, help=f"Every session, not only the latest {SHOWN}.")
@click.option("--here", is_flag=True, help="Only sessions of the folder you are in.")
@click.option("--json", "as_json", is_flag=True, help="Every session, as JSON.")
@_folder
@_verbatim
def list_command(
    everything: bool, here: bool, as_json: bool, session_dir: Path | None, verbatim: bool
) -> None:
    """List Pi's sessions on this machine, the most recently used first.

    Messages, tokens and cost of a forked session are its own: what it copied counts for the one it was
    forked from.

    \b
    Examples:
      sessionpipe pi list
      sessionpipe pi list --here
      sessionpipe pi list --json | jq 'map(.cost) | add'
    """
    from sessionpipe.harnesses.files import Files
    from sessionpipe.harnesses.pi_store import agent_dir, session_files, summaries

    files = Files()
    paths = session_files(os.environ, files, session_dir)
    found: Iterable[Summary] = summaries(paths, files)
    if here:
        found = (summary for summary in found if _is_here(summary.cwd))
    kept = list(found if everything or as_json else islice(found, SHOWN + 1))
    kept.sort(key=lambda summary: summary.active_ms or 0, reverse=True)
    redact = _redact(verbatim)
    if as_json:
        echo_json([redact(_as_data(summary)) for summary in kept])
        return
    if not kept:
        where = tilde(str(session_dir or agent_dir(os.environ) / "sessions"))
        of = "of this folder " if here else ""
        click.echo(printable(f"no session of Pi's {of}is in {where}"))
        return
    _show_table(kept if everything else kept[:SHOWN], redact)
    if len(kept) > SHOWN and not everything:
        click.echo("and older ones; --all lists them")


def _is_here(cwd: str | None) -> bool:
    try:
        return cwd is not None and Path(cwd).resolve() == Path.cwd().resolve()
    except (OSError, ValueError, RuntimeError):
        return False


def _as_data(summary: Summary) -> dict[str, Any]:
    parent = {"id": summary.parent_id, "path": summary.parent} if summary.parent else None
    return {
        "short_id": short_id("pi", summary.id),
        "id": summary.id,
        "path": str(summary.path),
        "cwd": summary.cwd,
        "name": summary.name,
        "title": summary.title,
        "title_source": summary.title_source,
        "created_at": _time(summary.created_ms),
        "active_at": _time(summary.active_ms),
        "model": _model(summary.model),
        "thinking_level": summary.thinking_level,
        "messages": summary.messages,
        "tokens": _tokens(summary.usage),
        "cost": round(summary.usage.cost, 9),
        "forked_from": parent,
        "copied_entries": summary.copied,
        "skipped_lines": summary.skipped,
    }


def _time(ms: int | None) -> str | None:
    try:
        return None if ms is None else rfc3339(ms)
    except (ValueError, OverflowError):
        return None


def _model(model: Model | None) -> dict[str, str | None] | None:
    return {"provider": model.provider, "id": model.id} if model else None


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "total": usage.tokens,
    }


def _show_table(found: list[Summary], redact: Callable[[Any], Any]) -> None:
    from sessionpipe.cli.pi_render import cost, tokens

    now = now_ms()
    cells = [
        (
            short_id("pi", summary.id),
            ago(summary.active_ms, now) if summary.active_ms is not None else "",
            cut(redact(session_name({"cwd": tilde(summary.cwd or ""), "title": summary.title or ""})), 48),
            (summary.model.id if summary.model else None) or "",
            str(summary.messages),
            tokens(summary.usage.tokens) if summary.usage.tokens else "",
            cost(summary.usage.cost),
            _forked_from(summary),
        )
        for summary in found
    ]
    heads = ("id", "last used", "folder: title", "model", "messages", "tokens", "cost", "forked from")
    # A column that nothing stands in would only push the others off the terminal.
    used = [index for index in range(len(heads)) if any(row[index] for row in cells)]
    columns, colour = columns_of(sys.stdout), colour_wanted(sys.stdout)
    for number, text in enumerate(table([[row[index] for index in used] for row in (heads, *cells)])):
        text = cut(text, columns) if columns else text
        click.echo(click.style(text, **STYLES["quiet"]) if colour and number == 0 else text)


def _forked_from(summary: Summary) -> str:
    if summary.parent is None:
        return ""
    return short_id("pi", summary.parent_id) if summary.parent_id else "one that is gone"


# --- show -----------------------------------------------------------------------------------------


@pi.command("show", short_help="Show a session's conversation, or what its model would be given.")
@click.argument("session")
@click.option("--branch", metavar="ENTRY", help="The branch that ends at this entry, not the active one.")
@click.option("--context", "as_context", is_flag=True, help="What the model would be given, all of it.")
@click.option("--thinking", is_flag=True, help="What the model thought, too.")
@click.option("--json", "as_json", is_flag=True, help="The entries, or the context, as JSON.")
@_folder
@_verbatim
def show_command(
    session: str,
    branch: str | None,
    as_context: bool,
    thinking: bool,
    as_json: bool,
    session_dir: Path | None,
    verbatim: bool,
) -> None:
    """Show the conversation of a session's active branch.

    SESSION is a file, an id, or the beginning of an id (Pi's own, or the short one in `pi list`). ENTRY is
    an entry's id as `pi tree` shows it, the beginning of one, or a bookmark.

    \b
    Examples:
      sessionpipe pi show 58ab6602
      sessionpipe pi show 58ab6602 --branch dcebb761
      sessionpipe pi show ./session.jsonl --context | less
      sessionpipe pi show 58ab6602 --json | jq '.entries[].type'
    """
    from sessionpipe.cli import pi_render

    redact = _redact(verbatim)
    with _opened(session, session_dir) as (path, read):
        leaf = _entry(read, branch) if branch is not None else read.leaf
        summary = _summary(path, read)
        if as_context:
            given = read.build_session_context(leaf)
            # A command with `!!` before it is the person's own business.
            messages = redact([each for each in given.messages if each.get("excludeFromContext") is not True])
            if as_json:
                model = _model(given.model)
                echo_json({"model": model, "thinking_level": given.thinking_level, "messages": messages})
            else:
                _print(pi_render.context(messages))
            return
        rows = read.path(leaf)
        if as_json:
            entries = [redact(read.load(row)) for row in rows]
            echo_json(
                {**redact(_as_data(summary)), "leaf": leaf, "labels": redact(read.labels), "entries": entries}
            )
            return
        _print(_heading(summary, redact))
        _print(pi_render.conversation(read, rows, redact, thinking=thinking))
        _print(_ending(summary, read, leaf))


def _heading(summary: Summary, redact: Callable[[Any], Any]) -> Iterator[Line]:
    from sessionpipe.cli.pi_render import Line

    begun = (
        f" · begun {stamp(summary.created_ms)}" if _time(summary.created_ms) and summary.created_ms else ""
    )
    title = redact(summary.title or "a session without a word")
    yield Line(cut(printable(f"{short_id('pi', summary.id)} {title}"), 200), "needs")
    yield Line(printable(f"{summary.id} · {tilde(summary.cwd or '?')}{begun}"), "quiet")
    yield Line(printable(tilde(str(summary.path))), "quiet")
    if summary.parent:
        count = f"{summary.copied} entries were copied" if summary.copied else "nothing was copied"
        yield Line(printable(f"forked from {_forked_from(summary)}; {count}"), "quiet")
    yield Line("")


def _ending(summary: Summary, session: Session, leaf: str | None) -> Iterator[Line]:
    from sessionpipe.cli.pi_render import Line, model_name, totals

    # Of the whole file: every branch was paid for.
    yield Line("")
    counted = f"{summary.messages} messages" if summary.messages != 1 else "1 message"
    branches = sum(1 for row in session.rows.values() if not session.children(row.id))
    more = f" on {branches} branches" if branches > 1 else ""
    yield Line(f"{counted}{more}, {totals(summary.usage)}", "quiet")
    settings = ", ".join(
        part for part in (model_name(session.model(leaf)), f"thinking {session.thinking_level(leaf)}") if part
    )
    yield Line(printable(settings), "quiet")
    if summary.skipped:
        yield Line(f"{summary.skipped} lines of the file could not be read", "bad")
    if summary.torn:
        yield Line("the last line of the file is not finished", "bad")


# --- tree -----------------------------------------------------------------------------------------


@pi.command("tree", short_help="Draw a session's branches.")
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="Every entry with its parent, as JSON.")
@_folder
@_verbatim
def tree_command(session: str, as_json: bool, session_dir: Path | None, verbatim: bool) -> None:
    """Draw a session as the tree it is: ● is on the active branch, ○ is not, ← marks where it goes on.

    What was asked, summaries and bookmarks stand on a line of their own; what is between them is counted.
    SESSION is a file, an id, or the beginning of an id (Pi's own, or the short one in `pi list`).

    \b
    Examples:
      sessionpipe pi tree 58ab6602
      sessionpipe pi tree 58ab6602 --json | jq '.entries[] | select(.active | not) | .id'
    """
    from sessionpipe.cli import pi_render

    redact = _redact(verbatim)
    with _opened(session, session_dir) as (path, read):
        if as_json:
            active = {row.id for row in read.path()}
            labels = redact(read.labels)
            entries = [
                {
                    "id": row.id,
                    "parent": row.parent,
                    "type": row.kind,
                    "role": row.role,
                    "at": _time(row.ms),
                    "label": labels.get(row.id),
                    "active": row.id in active,
                }
                for row in read.rows.values()
            ]
            echo_json({"id": read.header["id"], "leaf": read.leaf, "entries": entries})
            return
        _print(_heading(_summary(path, read), redact))
        if not read.rows:
            click.echo("nothing is in it yet")
        columns = columns_of(sys.stdout)
        _print(
            line._replace(text=cut(line.text, columns)) if columns else line
            for line in pi_render.tree(read, redact)
        )


# --- shared ---------------------------------------------------------------------------------------


def _redact(verbatim: bool) -> Callable[[Any], Any]:
    if verbatim:
        return lambda value: value
    from sessionpipe.redaction import redact_value

    return redact_value


def _print(lines: Iterable[Line]) -> None:
    colour = colour_wanted(sys.stdout)
    for line in lines:
        click.echo(click.style(line.text, **STYLES[line.tone]) if colour and line.text else line.text)


@contextmanager
def _opened(argument: str, session_dir: Path | None) -> Iterator[tuple[Path, Session]]:
    """The one session meant, indexed and open. Several are listed on stderr and never guessed."""
    from sessionpipe.harnesses.files import Files
    from sessionpipe.harnesses.pi_session import Session

    files = Files()
    is_path = "/" in argument or os.sep in argument or argument.endswith(".jsonl")
    path = Path(argument).expanduser() if is_path else _found(argument, session_dir, files)
    # A link that a person names is meant.
    opened = files.open(path, follow=is_path)
    if opened is None:
        raise Fail(
            f"there is no file {tilde(str(path))} that can be read; `sessionpipe pi list` lists the sessions"
        )
    with opened:
        session = Session.read(opened)
        if session is None:
            raise Fail(f"{tilde(str(path))} is no session of Pi's: it does not begin with a session's header")
        yield path, session


def _found(argument: str, session_dir: Path | None, files: Any) -> Path:
    from sessionpipe.harnesses.pi_store import find, session_files

    found = find(argument, session_files(os.environ, files, session_dir), files) if argument else []
    if not found:
        raise Fail(f"no session of Pi's is called {argument!r}; `sessionpipe pi list` lists them")
    if len(found) > 1:
        for path, name in found[:CANDIDATES]:
            click.echo(printable(f"  {short_id('pi', name)}  {name}  {tilde(str(path))}"), err=True)
        which = "the ones above" if len(found) <= CANDIDATES else f"the latest {CANDIDATES} of them above"
        raise Fail(f"{argument!r} means {len(found)} sessions, {which}; say more of the id, or the file")
    return found[0][0]


def _entry(session: Session, argument: str) -> str:
    """The entry meant: its id, the beginning of it, or a bookmark."""
    if argument in session.rows:
        return argument
    found = [name for name, label in session.labels.items() if label == argument and name in session.rows]
    found = found or [name for name in session.rows if argument and name.startswith(argument)]
    if not found:
        raise Fail(f"no entry is called {argument!r}; `sessionpipe pi tree` shows them")
    if len(found) > 1:
        shown = ", ".join(found[:8]) + (" …" if len(found) > 8 else "")
        raise Fail(f"{argument!r} means {len(found)} entries: {shown}")
    return found[0]


def _summary(path: Path, session: Session) -> Summary:
    from sessionpipe.harnesses.files import Files
    from sessionpipe.harnesses.pi_store import Parents, summarize

    return summarize(path, session, Parents(Files()))


COMMANDS = {"pi": pi}
