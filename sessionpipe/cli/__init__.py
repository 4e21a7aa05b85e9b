"""The command line: one module per group of commands, loaded when one of its commands runs."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Mapping
from typing import ClassVar

import click

#: Command → the module that has it, in the order ``--help`` shows.
MODULES = {
    "install": "install",
    "uninstall": "install",
    "sinks": "sinks",
    "status": "status",
    "doctor": "doctor",
    "sessions": "sessions",
    "tail": "tail",
    "pi": "pi",
    "forget": "forget",
    "backfill": "backfill",
    "replay": "replay",
    "flush": "work",
    "worker": "work",
    "demo": "demo",
    "receive": "receive",
    "ingest": "ingest",
    "map": "map",
    "journal": "journal",
    "filter": "text",
    "redact": "text",
    "privacy": "privacy",
    "version": "version",
}


class Commands(click.Group):
    """A group that imports a command's module only when that command is wanted."""

    modules: ClassVar[Mapping[str, str]] = MODULES

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return None
        module = importlib.import_module(f"sessionpipe.cli.{self.modules[cmd_name]}")
        command: click.Command = module.COMMANDS[cmd_name]
        return command


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sessionpipe", message="sessionpipe %(version)s")
def cli() -> None:
    """See what your coding agents are doing, from wherever you look.

    \b
    sessionpipe demo                                  see it work, touching nothing of yours
    sessionpipe install                               hook the agents on this machine
    sessionpipe sinks add file:~/agents.ndjson --tier 1
    sessionpipe tail                                  watch what happens, live
    sessionpipe uninstall                             take every hook out again
    """
    from sessionpipe.paths import private_umask

    private_umask()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows another, and nothing fails for it.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
