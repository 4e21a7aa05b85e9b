"""What a person types about a sink, as settings: a target, a tier, a token, a secret."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from sessionpipe import config as settings
from sessionpipe.cli.common import Fail, printable, usage
from sessionpipe.config import Config, SinkConfig

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--tier", type=click.IntRange(0, 3), help="How much it gets, 0 to 3; a new sink 0."),
    click.option(
        "--pii/--no-pii", default=None, help="Mask e-mail addresses, phone numbers, home paths, the machine."
    ),
    click.option(
        "--tools",
        type=click.Choice(["all", "main", "beat", "receiver"]),
        help="Tool events: all, a subagent's thinned, all thinned; or, as for a new sink, what its receiver asks.",
    ),
    click.option("--token-env", metavar="NAME", help="The variable that holds the receiver's token."),
    click.option("--token-file", metavar="FILE", help="The file that holds the receiver's token."),
    click.option("--token", metavar="-", help="'-' reads the receiver's token from standard input."),
    click.option("--secret-file", metavar="FILE", help="The file that holds the signing secret (whsec_…)."),
)


def with_settings(command: _Command) -> _Command:
    """Give ``command`` the options that :func:`changes` reads."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def target_of(target: str) -> SinkConfig:
    """The sink ``target`` means, with its name still to be found."""
    if target == "stdout":
        return SinkConfig(name="", kind="stdout")
    if target.startswith("file:"):
        return SinkConfig(name="", kind="file", path=_path(target.removeprefix("file:")))
    if re.match(r"https?://", target, re.IGNORECASE):
        if why := settings.refuse_url(target):
            shown = re.sub(r"//[^/?#]*@", "//", target).partition("?")[0]
            raise Fail(f"{shown} {why}")
        parts = urlsplit(target)
        # However it is written, a receiver without a path of its own is one sink.
        bare = not parts.path.strip("/") and not parts.query
        return SinkConfig(name="", kind="http", url=settings.origin(target) if bare else target)
    meant = ""
    if target.startswith(("/", "~/", "./", "../")):
        meant = f"; did you mean file:{target}?"
    elif re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?(/\S*)?", target):
        meant = f"; did you mean https://{target}?"
    usage(printable(f"{target} is neither a URL (https://…), nor file:PATH, nor stdout{meant}"))


def _path(path: str) -> str:
    from sessionpipe.sinks.file import expand

    if path.startswith("//"):
        path = "/" + path.lstrip("/") if path.startswith("///") else ""
    if not path or path.endswith("/") or not path.isprintable():
        usage("file: needs the path of a file, as in file:~/agents.ndjson")
    return str(expand(path))


def changes(
    kind: str,
    *,
    tier: int | None,
    pii: bool | None,
    tools: str | None,
    token_env: str | None,
    token_file: str | None,
    token: str | None,
    secret_file: str | None,
) -> dict[str, Any]:
    """What the options say about a sink of ``kind``; what they leave unsaid is not in it."""
    tokens = {"token": token, "token_env": token_env, "token_file": token_file}
    given = [key for key, value in tokens.items() if value is not None]
    if len(given) > 1:
        usage("give the token in one way only")
    if kind != "http" and (given or secret_file is not None):
        usage(f"a {kind} sink takes no token and no secret")
    said: dict[str, Any] = {}
    if given:
        if token is not None:
            tokens["token"] = _token(token)
        if token_env is not None and not settings.is_variable(token_env):
            usage("--token-env takes the name of a variable, as in BOARD_TOKEN; never the token itself")
        tokens["token_file"] = _absolute(token_file)
        said |= tokens
    if secret_file is not None:
        said |= {"secret_file": _absolute(secret_file), "secret": None}
    if tools is not None:
        said["tools"] = None if tools == "receiver" else tools
    return said | {key: value for key, value in (("tier", tier), ("pii", pii)) if value is not None}


def _token(option: str) -> str:
    if option != "-":
        # Whoever can list processes can read a command line, and so can the shell's history.
        usage("a token is never given on the command line; `--token -` reads it from standard input")
    line: str = (
        click.prompt("token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    )
    if not settings.is_token(line.strip()):
        raise Fail("what was read is not a token: visible characters without spaces, quotes and backslashes")
    return str(line.strip())


def _absolute(path: str | None) -> str | None:
    from sessionpipe.sinks.file import expand

    return None if path is None else str(expand(path))


def existing(known: Config, wanted: SinkConfig, name: str | None) -> SinkConfig | None:
    """The sink that is to be changed rather than added, if there is one."""
    if name is not None:
        if not settings.is_name(name):
            usage("--name takes 1 to 64 of the characters A-Z a-z 0-9 _ . -")
        old = known.sink(name)
        if old is not None and old.target != wanted.target:
            # Its token was given for the other address, and its place is a place in that one's events.
            raise Fail(f"{name} sends to {old.target}; choose another --name, or remove it first")
        return old
    return next((sink for sink in known.sinks if sink.target == wanted.target), None)


def free_name(known: Config, wanted: SinkConfig) -> str:
    """A name for a new sink, made from its target."""
    if wanted.url:
        parts = urlsplit(wanted.url)
        base = "-".join(filter(None, (parts.hostname, str(parts.port or ""), parts.path.strip("/"))))
    else:
        base = Path(wanted.path).stem if wanted.path else wanted.kind
    base = re.sub(r"[^A-Za-z0-9_.-]+", "-", base).strip("-.")[:56] or wanted.kind
    taken = {sink.name for sink in known.sinks}
    numbered = (f"{base}-{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (base, *numbered) if name not in taken)
