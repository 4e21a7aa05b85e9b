"""``sessionpipe journal serve``: a journal's live view for programs and browsers on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from sessionpipe.cli.common import Fail, reason, watching


@click.command(short_help="Serve a journal's live view on this machine.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="A port of your choice; else any free one."
)
def serve(folder: Path, port: int) -> None:
    """Serve a journal as it grows: a snapshot first, then every record that is added.

    \b
    Examples:
      sessionpipe journal serve DIR
      sessionpipe journal serve DIR --port 8765
      curl -N http://127.0.0.1:8765/TOKEN/events      with the address it prints
      curl -s http://127.0.0.1:8765/TOKEN/session | jq .session.capture

    It prints its address and listens on 127.0.0.1 alone, until ctrl-c. The address has a token, new
    each time: without it nobody on this machine, and no web page, gets to read. From another machine
    use an SSH tunnel. DIR may not be there yet.

    /events are server-sent events, one JSON message each: {"type":"snapshot","revision","view"}, then
    {"type":"patch","revision","ops"} with append operations at /session/events and /session/entries
    and replace at /session/capture. /session is the view once, as JSON.
    """
    from sessionpipe.journal.serve import Server

    try:
        server = Server(folder, port)
    except OSError as error:
        raise Fail(f"port {port} can't be used ({reason(error)}); leave --port out for a free one") from None
    with watching(), server:
        click.echo(server.url + "/events")
        server.serve_forever()


COMMANDS = {"serve": serve}
