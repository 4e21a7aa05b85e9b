"""``sessionpipe version``."""

from __future__ import annotations

import click

from sessionpipe import __version__


@click.command()
def version() -> None:
    """Print the installed version.

    \b
    Example:
      sessionpipe version
    """
    click.echo(f"sessionpipe {__version__}")


COMMANDS = {"version": version}
