"""A sink's token, signing secret and headers, read from where the person keeps them, at the time of sending.

Nothing here, and no error of it, holds a credential's text.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from sessionpipe.config import Header, SinkConfig, is_header_value, is_secret, is_token
from sessionpipe.sinks.base import Log, NotReady
from sessionpipe.sinks.file import expand

_LONGEST = 8192


class KeyMissing(NotReady):
    """What the sink needs to speak to its receiver is not there; the message says what and where."""


def token(config: SinkConfig, env: Mapping[str, str]) -> str | None:
    """The bearer token, None for a sink without one. Raises :class:`KeyMissing`."""
    if config.token is not None:
        return config.token
    if config.token_env is not None:
        value = _variable(config.token_env, env, "the token with --token-file")
        return _checked(value, is_token, f"the token in {config.token_env}", "a token")
    if config.token_file is not None:
        path = expand(config.token_file, env)
        return _checked(_line(path), is_token, f"the token in {path}", "a token")
    return None


def secret(config: SinkConfig, env: Mapping[str, str]) -> str | None:
    """The signing secret, None for a sink without one. Raises :class:`KeyMissing`."""
    if config.secret is not None:
        return config.secret
    if config.secret_file is not None:
        path = expand(config.secret_file, env)
        return _checked(_line(path), is_secret, f"the signing secret in {path}", "whsec_ followed by base64")
    return None


def headers(config: SinkConfig, env: Mapping[str, str]) -> dict[str, str]:
    """The headers the person set, names as written. Raises :class:`KeyMissing`."""
    return {name: _header(name, value, env) for name, value in (config.headers or {}).items()}


def _header(name: str, value: Header, env: Mapping[str, str]) -> str:
    if isinstance(value, str):
        return value
    if "env" in value:
        variable = value["env"]
        found = _variable(variable, env, f"the header with --header-file {name}=FILE")
        return _checked(found, is_header_value, f"the header {name} in {variable}", "a header's value")
    path = expand(value["file"], env)
    return _checked(_line(path), is_header_value, f"the header {name} in {path}", "a header's value")


def variables(config: SinkConfig) -> list[str]:
    """The environment variables the sink's credentials are kept in."""
    return [*filter(None, (config.token_env,)), *_kept(config, "env")]


def files(config: SinkConfig) -> list[str]:
    """The files the sink's credentials are kept in, as written."""
    return [*filter(None, (config.token_file, config.secret_file)), *_kept(config, "file")]


def _kept(config: SinkConfig, where: str) -> list[str]:
    values = (config.headers or {}).values()
    return [value[where] for value in values if not isinstance(value, str) and where in value]


def readable_by_others(config: SinkConfig, env: Mapping[str, str]) -> list[Path]:
    """Which of the sink's credential files others on this machine can read."""
    found = []
    for path in (expand(name, env) for name in files(config)):
        try:
            if path.stat().st_mode & 0o077:
                found.append(path)
        except OSError:
            continue
    return found


def warn(config: SinkConfig, env: Mapping[str, str], log: Log) -> None:
    """Log which of the sink's credential files others on this machine can read."""
    for path in readable_by_others(config, env):
        log("warning", f"others can read {path}; run `chmod 600` on it")


def _variable(name: str, env: Mapping[str, str], instead: str) -> str:
    value = env.get(name, "").strip()
    if not value:
        raise KeyMissing(
            f"{name} is not set in the environment the worker was started from; set it there"
            f" and run `sessionpipe flush`, or give {instead}",
            elsewhere=True,
        )
    return value


def _checked(value: str, holds: Callable[[object], bool], what: str, shape: str) -> str:
    if not holds(value):
        raise KeyMissing(f"{what} is not {shape}")
    return value


def _line(path: Path) -> str:
    """The first line of a small regular file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise KeyMissing(f"{path} is not a regular file")
            read = os.read(fd, _LONGEST)
        finally:
            os.close(fd)
    except OSError as error:
        raise KeyMissing(f"{path} can't be read: {error.strerror}") from None
    return read.decode("utf-8", "replace").strip().partition("\n")[0].strip()
