"""What every command shares: failing in one line, and never printing what a session said raw."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

import click

from sessionpipe.paths import State, config_dir, state_dir
from sessionpipe.terminal import printable as printable
from sessionpipe.terminal import printable_json as printable_json
from sessionpipe.terminal import printable_text as printable_text


class Fail(click.ClickException):
    """It could not be done: one line on stderr that says what and how to mend it; exit status 1."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"sessionpipe: {printable(self.message)}", file=file or sys.stderr)


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Run what prints for as long as somebody looks: ctrl-c and a closed pipe end it quietly."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def reason(error: Exception) -> str:
    """What went wrong, in words: the file and the system's own, without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def state() -> State:
    """This person's state directory."""
    return State(state_dir())


def config_path() -> Path:
    """This person's config directory."""
    return config_dir()


def use_kept_rules() -> None:
    """Redact by rules as a worker compiled them, where it kept them. Nothing is written."""
    from sessionpipe.compiled import Looking, use

    use(Looking(state()))


def echo_json(value: object) -> None:
    """Print ``value`` as indented JSON: what every ``--json`` prints."""
    import msgspec

    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    except UnicodeEncodeError:  # Half a surrogate pair can only be escaped.
        import json

        text = json.dumps(value, indent=2).encode()
    if text.isascii() and b"\x7f" not in text:
        click.echo(text)  # Every other control is escaped, and megabytes are printed as they stand.
    else:
        click.echo(printable_json(text.decode()))


def unexpected(error: Exception) -> int:
    """Say in one line that something nobody foresaw happened; the exit status."""
    import traceback

    from sessionpipe.log import log

    where = "; ".join(
        f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-6:]
    )
    kind = type(error).__name__
    with contextlib.suppress(Exception):
        if state().root.is_dir():
            log(state(), "error", f"{kind}: {error} ({where})")
    click.echo(
        f"sessionpipe: a fault in sessionpipe itself: {printable(kind)} at {printable(where)}", err=True
    )
    return 1


def usage(message: str) -> NoReturn:
    """Refuse how the command was called: exit status 2."""
    raise click.UsageError(message)
