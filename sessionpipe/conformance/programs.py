"""Programs of other people's that a subject is run against, named with ``--command``."""

from __future__ import annotations

import shlex
import shutil
from typing import NoReturn

import click


def argv_of(command: str | None) -> list[str] | None:
    """The words of a command, split as a shell would, without a shell; None of none."""
    if command is None:
        return None
    try:
        argv = shlex.split(command)
    except ValueError as error:
        unusable(f"--command: {error}")
    if not argv or shutil.which(argv[0]) is None:
        unusable(f"--command: there is no program {argv[0] if argv else command!r}")
    return argv


def unusable(message: str) -> NoReturn:
    """End with what cannot be used."""
    raise click.UsageError(message)
