"""What a person types about a sink, as settings: a target, a tier, a token, a secret, headers."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click
import msgspec

from sessionpipe import config as settings
from sessionpipe.cli.common import Fail, printable, usage
from sessionpipe.config import Config, Header, SinkConfig
from sessionpipe.kinds import NAME, OURS, SECRET, TOKEN, kind_of

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
    click.option(
        "--header",
        metavar="NAME=VALUE",
        multiple=True,
        help="A header of every request. Whoever lists processes can see the value: NAME=- reads it from"
        " standard input. NAME= takes the header away.",
    ),
    click.option(
        "--header-env", metavar="NAME=VARIABLE", multiple=True, help="A header that a variable holds."
    ),
    click.option("--header-file", metavar="NAME=FILE", multiple=True, help="A header that a file holds."),
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
        return SinkConfig(name="", kind="http", url=_url(target))
    if target.startswith("otlp:"):
        return SinkConfig(name="", kind="otlp", url=_collector(target.removeprefix("otlp:")))
    scheme, colon, rest = target.partition(":")
    if colon and rest and NAME.fullmatch(scheme) and scheme not in OURS and target.isprintable():
        from sessionpipe.sinks.plugins import installed

        if scheme in installed():
            if why := settings.refuse_place(scheme, target):
                raise Fail(f"{_bare(target)} {why}")
            return SinkConfig(name="", kind=scheme, url=target if rest.startswith("//") else rest)
    meant = ""
    if target.startswith(("/", "~/", "./", "../")):
        meant = f"; did you mean file:{target}?"
    elif re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?(/\S*)?", target):
        meant = f"; did you mean https://{target}?"
    usage(
        printable(
            f"{_bare(target)} is neither a URL (https://…), nor otlp:URL, file:PATH or stdout, nor of a kind that an"
            f" installed package brings{meant}"
        )
    )


def _url(url: str) -> str:
    """A receiver's address: however it is written, one without a path of its own is one sink."""
    if why := settings.refuse_url(url):
        raise Fail(f"{_bare(url)} {why}")
    parts = urlsplit(url)
    return settings.origin(url) if not parts.path.strip("/") and not parts.query else url


def _collector(url: str) -> str:
    if not re.match(r"https?://", url, re.IGNORECASE):
        host = url.lstrip("/")
        named = re.fullmatch(r"[\w-]+(\.[\w-]+)*(:\d+)?(/\S*)?", host) is not None
        scheme = "http" if re.match(r"(localhost|127\.0\.0\.1)\b", host) else "https"
        meant = (
            f"did you mean otlp:{scheme}://{host}?" if named else "as in otlp:https://collector.example:4318"
        )
        usage(printable(f"otlp: needs the URL of a collector; {meant}"))
    return _url(url).rstrip("/")


def _bare(url: str) -> str:
    """``url`` without what in it may be a credential."""
    return re.sub(r"//[^/?#]*@", "//", url).partition("?")[0]


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
    header: tuple[str, ...],
    header_env: tuple[str, ...],
    header_file: tuple[str, ...],
) -> dict[str, Any]:
    """What the options say about a sink of ``kind``; what they leave unsaid is not in it.

    ``headers`` are those that were named, None for one that is taken away: :func:`changed` adds them to
    those there are.
    """
    tokens = {"token": token, "token_env": token_env, "token_file": token_file}
    given = [key for key, value in tokens.items() if value is not None]
    if len(given) > 1:
        usage("give the token in one way only")
    takes = kind_of(kind).takes
    for what, wanted, settings_ in (
        ("token", bool(given), TOKEN),
        ("signing secret", secret_file is not None, SECRET),
        ("headers", bool(header or header_env or header_file), ("headers",)),
    ):
        if wanted and settings_[0] not in takes:
            usage(f"a {kind} sink takes no {what}")
    said: dict[str, Any] = {}
    if headers := _headers(header, header_env, header_file, reads_token=token is not None):
        said["headers"] = headers
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


def changed(sink: SinkConfig, said: dict[str, Any]) -> SinkConfig:
    """``sink`` with what :func:`changes` gave."""
    named: dict[str, Header | None] = said.get("headers", {})
    if named:
        # A header's name is the same however it is written.
        lower = {name.lower() for name in named}
        kept = {name: value for name, value in (sink.headers or {}).items() if name.lower() not in lower}
        kept |= {name: value for name, value in named.items() if value is not None}
        said = {**said, "headers": kept or None}
    new = msgspec.structs.replace(sink, **said)
    with_token = new.token or new.token_env or new.token_file
    if with_token and any(name.lower() == "authorization" for name in new.headers or {}):
        usage("a token is sent as the header authorization: give one of them")
    return new


def _headers(
    literal: tuple[str, ...], env: tuple[str, ...], file: tuple[str, ...], *, reads_token: bool
) -> dict[str, Header | None]:
    found: dict[str, Header | None] = {}
    piped = [option for option in literal if option.endswith("=-")]
    if len(piped) + reads_token > 1:
        usage("only one value can be read from standard input")
    for kind, options in (("header", literal), ("header-env", env), ("header-file", file)):
        for option in options:
            name, equals, value = option.partition("=")
            # What stands behind the name is not repeated: it may be a credential.
            if not equals or not settings.is_header_name(name):
                usage(
                    f"--{kind} takes NAME={'VALUE' if kind == 'header' else '…'}; that name can't be a header's"
                )
            if name.lower() in (known.lower() for known in found):
                usage(f"the header {name} is given twice")
            found[name] = _header(kind, name, value)
    return found


def _header(kind: str, name: str, value: str) -> Header | None:
    if kind == "header-env":
        if not settings.is_variable(value):
            usage(f"--header-env {name}= takes the name of a variable, never the value itself")
        return {"env": value}
    if kind == "header-file":
        if not value:
            usage(f"--header-file {name}= takes a file")
        return {"file": _absolute(value) or ""}
    if not value:
        return None
    if value == "-":
        value = _line_of_input(name)
    if not settings.is_header_value(value):
        raise Fail(f"what was given for the header {name} can't be one: visible ASCII characters and spaces")
    return value


def _line_of_input(what: str) -> str:
    line = click.prompt(what, hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    return str(line).strip()


def _token(option: str) -> str:
    if option != "-":
        # Whoever can list processes can read a command line, and so can the shell's history.
        usage("a token is never given on the command line; `--token -` reads it from standard input")
    token = _line_of_input("token")
    if not settings.is_token(token):
        raise Fail("what was read is not a token: visible characters without spaces, quotes and backslashes")
    return token


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
            raise Fail(f"{name} sends to {old.shown}; choose another --name, or remove it first")
        return old
    return next((sink for sink in known.sinks if sink.target == wanted.target), None)


def free_name(known: Config, wanted: SinkConfig) -> str:
    """A name for a new sink, made from its target."""
    if wanted.url and kind_of(wanted.kind).code is None:
        base = f"{wanted.kind}-{wanted.url.removeprefix(f'{wanted.kind}:').partition('?')[0]}"
    elif wanted.url:
        parts = urlsplit(wanted.url)
        base = "-".join(filter(None, (parts.hostname, str(parts.port or ""), parts.path.strip("/"))))
    else:
        base = Path(wanted.path).stem if wanted.path else wanted.kind
    base = re.sub(r"[^A-Za-z0-9_.]+", "-", base).strip("-.")[:56] or wanted.kind
    taken = {sink.name for sink in known.sinks}
    numbered = (f"{base}-{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (base, *numbered) if name not in taken)
