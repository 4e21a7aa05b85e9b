"""``sessionpipe-conformance``: what this repository says must hold, run against ours or anybody's.

One module a subject; each has its :class:`click.Command` and the code that the tests run too.
"""

from __future__ import annotations

import importlib

import click

#: Subject → the module that has it.
SUBJECTS = {
    "harness": "harness",
    "receiver": "receiver",
    "redaction": "redaction",
    "sink": "sink",
}


class _Subjects(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBJECTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBJECTS:
            return None
        command: click.Command = importlib.import_module(f"{__name__}.{SUBJECTS[cmd_name]}").COMMAND
        return command


@click.command(cls=_Subjects, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sessionpipe", message="sessionpipe-conformance %(version)s")
def main() -> None:
    """Run the fixtures of sessionpipe against an implementation.

    \b
    sessionpipe-conformance harness
    sessionpipe-conformance receiver http://localhost:8787 --token T
    sessionpipe-conformance redaction
    sessionpipe-conformance redaction --command 'my-redactor --stdin'
    sessionpipe-conformance sink mykind:/tmp/try
    """


__all__ = ["SUBJECTS", "main"]
