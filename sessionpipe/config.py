"""The settings: ``config.toml`` in the config directory, which people edit and `sinks` edits for them.

```toml
[machine]
name = "studio"                 # what events call this machine; the hostname unless said

[retention]
days = 30                       # how long delivered events are kept
max_mb = 500                    # how large the outbox may grow, whoever needs it; unbounded unless said

[[sinks]]
name = "board"
kind = "http"                   # or "file", "stdout", "otlp", or a kind that a package brings
url = "https://board.example"   # a file has a path instead
tier = 1                        # 0 unless said
pii = true                      # run pii@1 for this sink
tools = "main"                  # all, main or beat; unset: what the receiver asks for
token_env = "BOARD_TOKEN"       # or token, or token_file
secret_file = "~/.board-secret" # or secret: whsec_...
headers = {x-key = "…"}         # of an otlp sink; a value may also be {env = "NAME"} or {file = "PATH"}
paused = true                   # the person's own pause
```

Reading is strict: a key that nothing reads is an error, because a misspelt ``tier`` or ``paused``
would otherwise be a privacy setting that silently does nothing. Editing keeps the person's comments
and order, under a lock, with an atomic replacement of mode 0600.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn
from urllib.parse import SplitResult, urlsplit

import msgspec

from sessionpipe.kinds import NAME as KIND_NAME
from sessionpipe.kinds import OURS, SECRET, TOKEN, kind_of
from sessionpipe.places import read_file

FILE = "config.toml"

Tools = Literal["all", "main", "beat"]

#: Where plain http is allowed, because nothing leaves the machine (the HTTP binding's own list).
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# What IDNA leaves as it is: its code is imported for other names.
_PLAIN_HOST = re.compile(r"[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A bearer token travels in a header: nothing that ends a line, a word or a quoted string.
_TOKEN = re.compile(r"""[!#-&(-\[\]-~]{1,4096}""")
_SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{8,512}={0,2}")
# RFC 9110, *Field Names*; and of values what is visible, with spaces inside.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_HEADER_VALUE = re.compile(r"[!-~](?:[ -~]{0,4094}[!-~])?")
#: What a request says by itself.
_NOT_HEADERS = frozenset(
    (
        "host",
        "content-type",
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "connection",
        "accept",
        "accept-encoding",
        "user-agent",
        "te",
        "trailer",
        "upgrade",
        "expect",
    )
)


#: A header's value: itself, or where it is kept, as ``{"env": NAME}`` or ``{"file": PATH}``.
Header = str | dict[str, str]


class ConfigError(Exception):
    """The settings can't be used; the message names the file and, where there is one, the line."""


class SinkConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One destination, as the person set it up. Its ``repr`` holds no credential."""

    name: str
    kind: str
    url: str | None = None
    path: str | None = None
    tier: int = 0
    pii: bool = False
    tools: Tools | None = None
    token: str | None = None
    token_env: str | None = None
    token_file: str | None = None
    secret: str | None = None
    secret_file: str | None = None
    headers: dict[str, Header] | None = None
    paused: bool = False

    def __repr__(self) -> str:
        hidden = {"token", "secret", "headers"}
        shown = (
            f"{field}={'…' if field in hidden else repr(value)}"
            for field in self.__struct_fields__
            if (value := getattr(self, field)) is not None
        )
        return f"SinkConfig({', '.join(shown)})"

    @property
    def target(self) -> str:
        """Where it sends, as the person wrote it: a URL, ``file:PATH``, ``otlp:URL`` or ``stdout``."""
        if self.url is None:
            return f"file:{self.path}" if self.path else self.kind
        own = self.kind == "http" or self.url.startswith(f"{self.kind}://")
        return self.url if own else f"{self.kind}:{self.url}"

    @property
    def shown(self) -> str:
        """:attr:`target` for people: without a query, which some receivers take a key in."""
        return self.target if self.url is None else self.target.partition("?")[0]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the person set. ``retention_days`` in days, ``max_mb`` in MiB (None: no bound)."""

    machine_name: str | None = None
    retention_days: int = 30
    max_mb: int | None = None
    sinks: tuple[SinkConfig, ...] = ()

    def sink(self, name: str) -> SinkConfig | None:
        """The sink of that name."""
        return next((sink for sink in self.sinks if sink.name == name), None)


def load(config_dir: Path) -> Config:
    """The settings in ``config_dir``; the defaults when there is no file.

    Raises :class:`ConfigError` with one line that names the file and the line.
    """
    file = config_dir / FILE
    try:
        text = read_file(file, follow=True).decode("utf-8")
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise ConfigError(f"{file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    return parse(text, file)


def parse(text: str, file: Path) -> Config:
    """The settings that ``text``, the content of ``file``, says. Pure; raises :class:`ConfigError`."""
    if text.startswith("\ufeff"):
        raise ConfigError(f"{file} line 1 begins with a byte order mark; save it as UTF-8 without one")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_undecodable(str(error), text, file)) from None
    return _Reader(text, file).config(document)


def _undecodable(message: str, text: str, file: Path) -> str:
    what, _, where = message.rpartition(" (at ")
    if found := re.match(r"line (\d+)", where):
        line = int(found[1])
    else:
        line, what = max(text.count("\n") + (not text.endswith("\n")), 1), what or message
    return f"{file} line {line} is not TOML: {what[:1].lower()}{what[1:]}"


# What each table may hold: key → (the type's name for people, whether a value is that).
_Rule = tuple[str, Callable[[Any], bool]]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != "" and value.isprintable()


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


_TEXT: _Rule = ("a non-empty line of text", _is_text)
_COUNT: _Rule = ("a whole number from 1", _is_count)
_FLAG: _Rule = ("true or false", lambda value: isinstance(value, bool))

_TABLES: Mapping[str, Mapping[str, _Rule]] = {
    "machine": {"name": ("text of at most 255 characters", lambda v: _is_text(v) and len(v) <= 255)},
    "retention": {"days": _COUNT, "max_mb": _COUNT},
    "sinks": {
        "name": ("1 to 64 of the characters A-Z a-z 0-9 _ . -", lambda v: _matches(_NAME, v)),
        "kind": (
            f"{', '.join(OURS)}, or what a package calls a kind of its own",
            lambda v: _matches(KIND_NAME, v),
        ),
        "url": _TEXT,
        "path": _TEXT,
        "tier": ("0, 1, 2 or 3", lambda v: type(v) is int and 0 <= v <= 3),
        "pii": _FLAG,
        "tools": ('"all", "main" or "beat"', lambda v: v in ("all", "main", "beat")),
        "token": ("a token without spaces, quotes or backslashes", lambda v: is_token(v)),
        "token_env": ("the name of an environment variable", lambda v: is_variable(v)),
        "token_file": _TEXT,
        "secret": ("whsec_ followed by base64", lambda v: is_secret(v)),
        "secret_file": _TEXT,
        "headers": (
            'a table of headers, as in {x-key = "…", x-team = {env = "NAME"}, x-other = {file = "PATH"}}',
            lambda v: isinstance(v, dict),
        ),
        "paused": _FLAG,
    },
}

#: What only some kinds of sink may have.
_SPECIAL = ("url", "path", *TOKEN, *SECRET, "headers")


def _matches(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def is_name(value: Any) -> bool:
    """Whether ``value`` can name a sink."""
    return _matches(_NAME, value)


def is_token(value: Any) -> bool:
    """Whether ``value`` can be a bearer token: visible ASCII without quotes and backslashes."""
    return _matches(_TOKEN, value)


def is_secret(value: Any) -> bool:
    """Whether ``value`` is a signing secret: ``whsec_`` and base64."""
    return _matches(_SECRET, value)


def is_variable(value: Any) -> bool:
    """Whether ``value`` can name an environment variable."""
    return _matches(_VARIABLE, value)


def is_header_name(value: Any) -> bool:
    """Whether ``value`` can name a header that a person may set."""
    return _matches(_HEADER_NAME, value) and value.lower() not in _NOT_HEADERS


def is_header_value(value: Any) -> bool:
    """Whether ``value`` can be a header's: visible ASCII, with spaces inside."""
    return _matches(_HEADER_VALUE, value)


def refuse_header(name: str, value: Any) -> str | None:
    """Why a person can't set ``name`` to ``value``, a :data:`Header`; None when they can. Shows no value."""
    if not _matches(_HEADER_NAME, name):
        # Not quoted: somebody may have put all of the header there.
        return "a header's name has no spaces and no colon; what is behind it is its value"
    if not is_header_name(name):
        return f"the header {name} can't be set: every request says it by itself"
    if isinstance(value, dict):
        kept = dict(value)
        env, file = kept.pop("env", None), kept.pop("file", None)
        if kept or not (is_variable(env) if file is None else env is None and _is_text(file)):
            return f'the header {name} is kept in {{env = "NAME"}} or in {{file = "PATH"}}'
        return None
    if not is_header_value(value):
        return (
            f"the value of the header {name} must be text in quotes, of visible ASCII characters and spaces"
        )
    return None


def refuse_url(url: str) -> str | None:
    """Why ``url`` can't be a receiver's address; None when it can (the HTTP binding, last rules)."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        if host and not _PLAIN_HOST.fullmatch(host):
            host.encode("idna")
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        return "is not an http or https URL"
    if parts.username is not None or parts.password is not None:
        return "holds credentials; give the receiver's token with --token-env or --token-file"
    if parts.fragment:
        return "has a #fragment, which is never sent"
    if parts.scheme == "http" and host not in LOOPBACK:
        return (
            "is plain http, which anyone on the way can read; use https (plain http is for this machine only)"
        )
    return None


def refuse_place(kind: str, url: str) -> str | None:
    """Why ``url`` can't be where a sink of ``kind`` sends; None when it can, as far as is known of it."""
    if kind_of(kind).code is not None:
        return refuse_url(url)
    try:
        password = urlsplit(url).password
    except ValueError:
        return None  # Then it is no URL; what it is, is the package's to say.
    return None if password is None else "holds a password; give it with --token-env or --token-file"


def origin(url: str) -> str:
    """``scheme://host[:port]`` of a URL that :func:`refuse_url` accepts."""
    parts: SplitResult = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port not in (None, default) else "")


class _Reader:
    """Turns a parsed document into a :class:`Config`, finding the line of whatever is wrong."""

    def __init__(self, text: str, file: Path) -> None:
        self._text = text
        self._file = file

    def config(self, document: dict[str, Any]) -> Config:
        for key, table in document.items():
            if key not in _TABLES:
                self._fail(None, 0, key, f"{key} is no setting{_meant(key, _TABLES)}")
            if key == "sinks" and not (isinstance(table, list) and all(isinstance(t, dict) for t in table)):
                self._fail(None, 0, key, "sinks must be [[sinks]] tables, in double brackets")
            if key != "sinks" and not isinstance(table, dict):
                self._fail(None, 0, key, f"{key} must be a table: [{key}]")
        machine, retention = document.get("machine", {}), document.get("retention", {})
        self._check("machine", 0, machine)
        self._check("retention", 0, retention)
        sinks: list[SinkConfig] = []
        for index, table in enumerate(document.get("sinks", [])):
            sink = self._sink(index, table)
            if any(sink.name == other.name for other in sinks):
                self._fail(
                    "sinks", index, "name", f'two sinks are named "{sink.name}"; give each its own name'
                )
            sinks.append(sink)
        return Config(
            machine_name=machine.get("name"),
            retention_days=retention.get("days", 30),
            max_mb=retention.get("max_mb"),
            sinks=tuple(sinks),
        )

    def _sink(self, index: int, table: dict[str, Any]) -> SinkConfig:
        self._check("sinks", index, table)
        for key in ("name", "kind"):
            if key not in table:
                self._fail("sinks", index, None, f"a sink needs a {key}: {_TABLES['sinks'][key][0]}")
        kind = kind_of(table["kind"])
        meant = "" if kind.code else _close(kind.name, OURS)
        for key in _SPECIAL:
            if key in table and key != kind.place and key not in kind.takes:
                self._fail("sinks", index, key, f"a sink of kind {kind.name} has no {key}{meant}")
        if kind.place and kind.place not in table:
            self._fail("sinks", index, None, f"a sink of kind {kind.name} needs a {kind.place}{meant}")
        if kind.place == "url" and (why := refuse_place(kind.name, table["url"])):
            self._fail("sinks", index, "url", f"{_without_credentials(table['url'])} {why}")
        if (
            kind.place == "path"
            and not table["path"].startswith(("/", "~/"))
            and not Path(table["path"]).is_absolute()
        ):
            self._fail("sinks", index, "path", "the path must be absolute, or begin with ~/")
        for keys in (TOKEN, SECRET):
            given = [key for key in keys if key in table]
            if len(given) > 1:
                self._fail(
                    "sinks", index, given[1], f"{given[0]} and {given[1]} say the same thing; keep one"
                )
        names = [name.lower() for name in table.get("headers", {})]
        for name, value in table.get("headers", {}).items():
            if wrong := refuse_header(name, value):
                self._fail("sinks", index, "headers", wrong)
        for name in names:
            if names.count(name) > 1:
                self._fail("sinks", index, "headers", f"{name} stands there twice; keep one")
        if "authorization" in names and any(key in table for key in TOKEN):
            self._fail("sinks", index, "headers", "a token is sent as authorization; keep that or the header")
        return SinkConfig(**table)

    def _check(self, table: str, index: int, values: dict[str, Any]) -> None:
        rules = _TABLES[table]
        for key, value in values.items():
            if key not in rules:
                self._fail(table, index, key, f"[{table}] has no setting {key}{_meant(key, rules)}")
            what, holds = rules[key]
            if not holds(value):
                # What stands there is not quoted: it may be a credential.
                self._fail(table, index, key, f"{key} must be {what}")

    def _fail(self, table: str | None, index: int, key: str | None, message: str) -> NoReturn:
        raise ConfigError(f"{self._file} line {_line(self._text, table, index, key)}: {message}")


def _meant(key: str, known: Mapping[str, Any]) -> str:
    return _close(key, known) or f"; there are {', '.join(known)}"


def _close(key: str, known: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(key, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _without_credentials(url: str) -> str:
    return re.sub(r"//[^/?#]*@", "//", url).partition("?")[0]


_HEADER = re.compile(r"\s*\[\[?\s*(?:\"([^\"]*)\"|'([^']*)'|([A-Za-z0-9_-]+))\s*(\.)?")


def _headers(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The index and the name of every line that opens a table, as far as lines alone can tell.

    One that opens a table within a table, as ``[sinks.headers]``, is a part of that one.
    """
    for number, line in enumerate(lines):
        if (header := _HEADER.match(line)) and not header[4]:
            yield number, header[1] or header[2] or header[3]


def _line(text: str, table: str | None, index: int, key: str | None) -> int:
    """Where ``key`` of the ``index``-th ``table`` stands; the table's own line, or 1, when not found.

    tomllib keeps no positions. This is a reading of headers and keys by the line, for a message only.
    """
    lines = text.splitlines()
    headers = list(_headers(lines))
    wanted = [number for number, name in headers if name == (table or key)]
    if table is None:
        wanted = wanted[:1]
        start, end = 0, headers[0][0] if headers else len(lines)
    else:
        start = wanted[index] if index < len(wanted) else 0
        end = next((number for number, _ in headers if number > start), len(lines))
    if key is not None:
        for number in range(start, end):
            if re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", lines[number]):
                return number + 1
    return (wanted[index] if index < len(wanted) else 0) + 1


# --- editing ----------------------------------------------------------------------------------------


def put_sink(config_dir: Path, sink: SinkConfig) -> None:
    """Add ``sink``, or make the one of its name equal to it. Raises :class:`ConfigError`."""

    def change(config: Config, text: str) -> tuple[str, tuple[SinkConfig, ...]]:
        names = [known.name for known in config.sinks]
        if sink.name in names:
            index = names.index(sink.name)
            return _updated(text, index, sink), (*config.sinks[:index], sink, *config.sinks[index + 1 :])
        return _added(text, sink), (*config.sinks, sink)

    _edit(config_dir, change)


def remove_sink(config_dir: Path, name: str) -> bool:
    """Take the sink of that name out; whether there was one. Raises :class:`ConfigError`."""
    found = False

    def change(config: Config, text: str) -> tuple[str, tuple[SinkConfig, ...]]:
        nonlocal found
        names = [known.name for known in config.sinks]
        found = name in names
        if not found:
            return text, config.sinks
        index = names.index(name)
        return _removed(text, index), (*config.sinks[:index], *config.sinks[index + 1 :])

    _edit(config_dir, change)
    return found


def _edit(config_dir: Path, change: Callable[[Config, str], tuple[str, tuple[SinkConfig, ...]]]) -> None:
    """Replace the file by what ``change`` makes of it, under a lock.

    ``change`` returns the new text and the sinks it must amount to: the text is read back before it
    is written, so that a file too unusual to be edited is left as it is.
    """
    from filelock import FileLock, Timeout

    shown = config_dir / FILE
    # The person may keep the file elsewhere and link to it: the link stays, what it names is replaced.
    file = Path(os.path.realpath(shown))
    try:
        config_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(str(config_dir / f".{FILE}.lock"), timeout=10):
            config = load(config_dir)
            before = read_file(file, follow=True).decode("utf-8") if file.exists() else ""
            after, sinks = change(config, before)
            try:
                amounts = parse(after, shown).sinks == sinks
            except ConfigError:
                amounts = False
            if not amounts:
                raise ConfigError(
                    f"{shown} is written in a way that can't be edited by command; edit it by hand"
                )
            if after != before:
                _replace(file, after)
    except Timeout:
        raise ConfigError(f"{shown} is being edited by another sessionpipe; try again") from None
    except OSError as error:
        raise ConfigError(f"{shown} can't be written: {error.strerror}") from None


def _replace(file: Path, text: str) -> None:
    """Write ``text`` to ``file``: all of it or nothing, for the owner's eyes only."""
    import tempfile

    fd, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    temporary = Path(name)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _settings(sink: SinkConfig) -> dict[str, Any]:
    """What of a sink is written down: its name, kind and tier, and what differs from the defaults."""
    plain = SinkConfig(name=sink.name, kind=sink.kind)
    values = {field: getattr(sink, field) for field in sink.__struct_fields__}
    return {
        field: value
        for field, value in values.items()
        if field in ("name", "kind", "tier") or value != getattr(plain, field)
    }


def _span(lines: list[str], index: int) -> tuple[int, int]:
    """The lines of the ``index``-th sink, without the comments that lead to what stands behind it."""
    headers = list(_headers(lines))
    starts = [number for number, name in headers if name == "sinks"]
    if index >= len(starts):
        return len(lines), len(lines)
    start = starts[index]
    end = next((number for number, _ in headers if number > start), len(lines))
    while end > start + 1 and lines[end - 1].strip()[:1] in ("", "#"):
        end -= 1
    return start, end


def _added(text: str, sink: SinkConfig) -> str:
    import tomlkit

    ending = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += ending
    table = {key: _inline(value) for key, value in _settings(sink).items()}
    block = tomlkit.dumps({"sinks": [table]}).replace("\n", ending)
    sinks = sum(name == "sinks" for _, name in _headers(lines))
    _, end = _span(lines, sinks - 1) if sinks else (0, len(lines))
    apart = ending if end and lines[end - 1].strip() else ""
    return "".join((*lines[:end], apart, block, *lines[end:]))


def _updated(text: str, index: int, sink: SinkConfig) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    table: Any = document["sinks"][index]
    wanted = _settings(sink)
    for key in [key for key in table if key not in wanted]:
        del table[key]
    for key, value in wanted.items():
        if key in table and isinstance(value, dict):
            _changed(table[key], value)
        elif table.get(key) != value:
            table[key] = _inline(value)
    return tomlkit.dumps(document)


def _changed(table: Any, wanted: Mapping[str, Any]) -> None:
    """Make ``table`` hold what is ``wanted``; what stays, stays as it is written."""
    for key in [key for key in table if key not in wanted]:
        del table[key]
    for key, value in wanted.items():
        if table.get(key) != value:
            table[key] = _inline(value)


def _inline(value: Any) -> Any:
    """``value`` as it stands on one line: a table of its own would end the sink's."""
    import tomlkit

    if not isinstance(value, dict):
        return value
    table = tomlkit.inline_table()
    for key, inner in value.items():
        table[key] = _inline(inner)
    return table


def _removed(text: str, index: int) -> str:
    lines = text.splitlines(keepends=True)
    start, end = _span(lines, index)
    while start and end < len(lines) and not lines[start - 1].strip() and not lines[end].strip():
        end += 1
    if end == len(lines):
        while start and not lines[start - 1].strip():
            start -= 1
    return "".join((*lines[:start], *lines[end:]))


def machine_name(folder: Path) -> str | None:
    """What events call this machine (§3, ``machine``); None while the config that may say it cannot be read."""
    try:
        return load(folder).machine_name or os.uname().nodename
    except ConfigError:
        return None


__all__ = [
    "FILE",
    "LOOPBACK",
    "Config",
    "ConfigError",
    "Header",
    "SinkConfig",
    "Tools",
    "is_header_name",
    "is_header_value",
    "is_name",
    "is_secret",
    "is_token",
    "is_variable",
    "load",
    "machine_name",
    "origin",
    "parse",
    "put_sink",
    "refuse_header",
    "refuse_place",
    "refuse_url",
    "remove_sink",
]
