"""``sessionpipe receive``: a receiver for one's own machine, with a page that shows what agents do."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import click

from sessionpipe.cli.common import Fail, printable, reason, state, usage
from sessionpipe.config import LOOPBACK, refuse_url

if TYPE_CHECKING:
    from sessionpipe.receiver.keys import Keys

HOST, PORT = "localhost", 8787
_NEEDS = ("jinja2", "starlette", "uvicorn")
_DAY_MS = 86_400_000


class Place(NamedTuple):
    """Where it listens, and what it is called there."""

    host: str
    port: int
    url: str | None

    def address(self, port: int) -> str:
        """The URL of a receiver that listens on ``port``."""
        if self.url is not None:
            return self.url
        name = "localhost" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        return f"http://{f'[{name}]' if ':' in name else name}:{port}"

    def options(self, port: int) -> str:
        """What must be said for :meth:`address` to be the same again, of a receiver that listens on ``port``."""
        if self.url is not None:
            return f" --url {shlex.quote(self.url)}"
        said = "" if port == PORT else f" --port {port}"
        if self.host != HOST:
            said += f" --host {shlex.quote(self.host)}" + ("" if self.host in LOOPBACK else " --network")
        return said


@click.command(short_help="Receive events on this machine, and show them on a page.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any free one."
)
@click.option("--host", default=HOST, show_default=True, help="Where to listen; see --network.")
@click.option("--network", is_flag=True, help="Let other machines connect: --host is not this machine alone.")
@click.option(
    "--url", help="The address it is reached at, where a proxy stands in front: https://board.example"
)
@click.option("--db", type=click.Path(path_type=Path), metavar="FILE", help="Where events are kept.")
@click.option(
    "--max-tier",
    type=click.IntRange(0, 3),
    default=2,
    show_default=True,
    help="The most it takes of anybody; 3 is what went into tools and came out.",
)
@click.option(
    "--keep", type=click.IntRange(1, 3650), default=30, show_default=True, help="Days a session is kept."
)
@click.option(
    "--token-file", type=click.Path(path_type=Path), metavar="FILE", help="Where its token is, or goes."
)
@click.option(
    "--secret-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A whsec_… all batches must be signed with.",
)
@click.option("--link", is_flag=True, help="Print the page's link for the running receiver, and end.")
def receive(
    port: int,
    host: str,
    network: bool,
    url: str | None,
    db: Path | None,
    max_tier: int,
    keep: int,
    token_file: Path | None,
    secret_file: Path | None,
    link: bool,
) -> None:
    """Receive events on this machine and show them on a page: who needs you, who works, who is done.

    It prints the page's link, and the line that connects a sink to it. It listens on this machine alone,
    and takes nothing without its token. Ctrl-c ends it; what was received stays in its database.

    \b
    Examples:
      sessionpipe receive
      sessionpipe receive --port 9000 --max-tier 1
      sessionpipe receive --link
      sessionpipe receive --url https://board.example     behind a proxy that speaks TLS

    --network lets other machines look at the page, with plain http: whoever is on the way can read
    everything, the token too. Use it where the way is safe (a VPN). Sinks send nothing to another machine
    by plain http: for those put a proxy with TLS in front, and name its address with --url.
    """
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise Fail(f"the receiver needs {', '.join(missing)}: pip install 'sessionpipe[receiver]'")
    place = _place(host, port, network, url)
    folder = state().root / "receiver"
    token_file = (token_file or folder / "token").expanduser().absolute()
    keys, made = _keys(token_file, fresh=not link)
    if link:
        click.echo(f"{place.address(port)}/enter?key={keys.link}")
        return
    _serve(
        place,
        keys,
        made,
        token_file,
        (db or folder / "receiver.db").expanduser(),
        max_tier,
        keep,
        secret_file,
    )


def _place(host: str, port: int, network: bool, url: str | None) -> Place:
    if host not in LOOPBACK and not network:
        usage(
            f"--host {printable(host)} lets other machines connect, with plain http that anyone on the way can"
            " read; say --network if that is meant"
        )
    if url is None:
        return Place(host, port, None)
    try:
        parts = urlsplit(url)
        bare = (
            parts.scheme in ("http", "https")
            and parts.hostname
            and not parts.path.strip("/")
            and not parts.query
        )
        parts.port  # noqa: B018  # it raises for what is no port
    except ValueError:
        bare = False
    if not bare or not url.isprintable():
        usage("--url is the address of the receiver without a path, as in https://board.example")
    return Place(host, port, url.rstrip("/"))


def _keys(path: Path, *, fresh: bool) -> tuple[Keys, bool]:
    from sessionpipe.receiver.keys import Keys, token_in

    if not fresh and not path.exists():
        raise Fail(f"there is no token at {path}: start `sessionpipe receive` first")
    try:
        token, made = token_in(path)
    except (OSError, ValueError) as error:
        raise Fail(f"the token in {path} can't be used: {reason(error)}") from None
    return Keys(token), made


def _serve(
    place: Place,
    keys: Keys,
    made: bool,
    token_file: Path,
    db: Path,
    max_tier: int,
    keep: int,
    secret_file: Path | None,
) -> None:
    from sessionpipe.receiver.app import Receiver, Settings
    from sessionpipe.receiver.serve import listen, run
    from sessionpipe.receiver.store import Store, Unusable

    secret = None if secret_file is None else _secret(secret_file)
    try:
        store = Store(db)
    except (OSError, Unusable) as error:
        raise Fail(reason(error)) from None
    try:
        listeners = listen(place.host, place.port)
    except OSError as error:
        store.close()
        raise Fail(
            f"port {place.port} of {place.host} can't be used ({reason(error)});"
            " is a receiver running already? Else choose another with --port"
        ) from None
    port = listeners[0].getsockname()[1]
    url = place.address(port)
    token = f"--token-file {_typed(token_file)}"
    elsewhere = "" if token_file == state().root / "receiver" / "token" else f" {token}"
    signed = "" if secret_file is None else f" --secret-file {_typed(secret_file.absolute())}"
    unsafe = refuse_url(url)
    settings = Settings(
        max_tier=max_tier,
        url=url,
        keep_ms=keep * _DAY_MS,
        secret=secret,
        connect="" if unsafe else f"sessionpipe sinks add {url} --tier {min(max_tier, 1)} {token}{signed}",
        demo="" if unsafe else f"sessionpipe demo --to {url} --tier {max_tier} {token}{signed}",
        link=f"sessionpipe receive --link{place.options(port)}{elsewhere}",
    )

    def ready() -> None:
        if place.host not in LOOPBACK:
            click.echo(
                "Other machines can connect. Without TLS in front, anyone on the way can read along.",
                err=True,
            )
        click.echo(f"The page:  {url}/enter?key={keys.link}")
        click.echo("           (the link lets its reader in; keep it to yourself)")
        if unsafe:
            click.echo(f"A sink:    none sends to {url}: it {unsafe}; see --url")
        else:
            click.echo(f"A sink:    {settings.connect}")
        if made:
            click.echo(f"Its token: {token_file.read_text().strip()}")
            click.echo(
                f"           (made now and kept in {_typed(token_file)}; for a sink on another machine)"
            )
        click.echo(f"It takes events up to tier {max_tier}, and keeps them in {_typed(db)}. Ctrl-c ends it.")

    names = frozenset(filter(None, (urlsplit(url).hostname, place.host)))
    try:
        run(Receiver(store, keys, settings), listeners, names, ready)
    finally:
        for listener in listeners:
            listener.close()
        store.close()


def _typed(path: Path) -> str:
    """A path as a person types it in a shell."""
    from sessionpipe.cli.render import tilde

    short = tilde(str(path))
    return short if short.startswith("~/") and shlex.quote(short[2:]) == short[2:] else shlex.quote(str(path))


def _secret(path: Path) -> str:
    from sessionpipe.sinks.signing import key

    try:
        secret = path.expanduser().read_text("utf-8").strip()
        key(secret)
    except (OSError, ValueError) as error:
        raise Fail(f"the secret in {path} can't be used: {reason(error)}") from None
    return secret


COMMANDS = {"receive": receive}
