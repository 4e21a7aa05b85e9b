"""A sink's token and signing secret, read from where the person keeps them, at the time of sending.

Nothing here, and no error of it, holds a credential's text.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from sessionpipe.config import SinkConfig, is_secret, is_token
from sessionpipe.sinks.file import expand

_LONGEST = 8192


class KeyMissing(Exception):
    """What the sink needs to speak to its receiver is not there; the message says what and where.

    ``elsewhere``: a process started from another environment may have it.
    """

    def __init__(self, message: str, *, elsewhere: bool = False) -> None:
        super().__init__(message)
        self.elsewhere = elsewhere


def token(config: SinkConfig, env: Mapping[str, str]) -> str | None:
    """The bearer token, None for a sink without one. Raises :class:`KeyMissing`."""
    if config.token is not None:
        return config.token
    if config.token_env is not None:
        value = env.get(config.token_env, "").strip()
        if not value:
            raise KeyMissing(
                f"{config.token_env} is not set in the environment the worker was started from; set it there"
                " and run `sessionpipe flush`, or give the token with --token-file",
                elsewhere=True,
            )
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


def readable_by_others(config: SinkConfig, env: Mapping[str, str]) -> list[Path]:
    """Which of the sink's credential files others on this machine can read."""
    found = []
    for name in (config.token_file, config.secret_file):
        if name is not None:
            path = expand(name, env)
            try:
                if path.stat().st_mode & 0o077:
                    found.append(path)
            except OSError:
                continue
    return found


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
