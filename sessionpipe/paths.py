"""Where things are: the state directory, the config directory, the data that ships with the package.

Every process of ours calls :func:`private_umask` before it makes a file. Everything below the
state directory is 0700 for folders and 0600 for files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

APP = "sessionpipe"


_original_umask: int | None = None


def private_umask() -> None:
    """Make every file this process creates readable by its owner alone."""
    global _original_umask
    before = os.umask(0o077)
    if _original_umask is None:
        _original_umask = before


def original_umask() -> int:
    """The umask this process was started with: what a person's own command is to run with."""
    if _original_umask is not None:
        return _original_umask
    current = os.umask(0o077)
    os.umask(current)
    return current


def state_dir() -> Path:
    """The state directory: ``SESSIONPIPE_STATE_DIR``, else the platform's place for state."""
    if override := os.environ.get("SESSIONPIPE_STATE_DIR"):
        return Path(override)
    if found := _xdg("XDG_STATE_HOME", ".local/state"):
        return found
    import platformdirs

    return Path(platformdirs.user_state_dir(APP))


def config_dir() -> Path:
    """The config directory: ``SESSIONPIPE_CONFIG_DIR``, else the platform's place for settings."""
    if override := os.environ.get("SESSIONPIPE_CONFIG_DIR"):
        return Path(override)
    if found := _xdg("XDG_CONFIG_HOME", ".config"):
        return found
    import platformdirs

    return Path(platformdirs.user_config_dir(APP))


def _xdg(variable: str, default: str) -> Path | None:
    """What platformdirs says on Linux where all is usual; loading that is a tenth of what `status` takes."""
    base, home = os.environ.get(variable, ""), os.environ.get("HOME", "")
    if sys.platform != "linux" or base != base.strip():
        return None
    if base.startswith("/"):
        return Path(base, APP)
    return Path(home, default, APP) if not base and home.startswith("/") else None


def make_private(directory: Path) -> None:
    """Create ``directory`` and its parents as 0700, and tighten one of ours that is wider.

    A folder of somebody else's is never re-moded; :class:`OSError` says what could not be done.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = directory.stat()
    if hasattr(os, "getuid") and info.st_uid == os.getuid() and info.st_mode & 0o077:
        directory.chmod(0o700)


_PACKAGE = Path(__file__).resolve().parent


def data_dir(name: str) -> Path:
    """The folder ``adapters``, ``rulesets`` or ``conformance``: in the wheel, or in a checkout."""
    shipped = _PACKAGE / "_data" / name
    return shipped if shipped.is_dir() else _PACKAGE.parent / name


class State:
    """The names below one state directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.launcher = self.bin / ("sessionpipe-hook.cmd" if os.name == "nt" else "sessionpipe-hook")
        self.spool = root / "spool"
        self.outbox = root / "outbox.db"
        self.lock = root / "worker.lock"
        self.yielding = root / "worker.yield"
        self.fifo = root / "worker.fifo"
        self.log = root / "log" / "sessionpipe.log"
        self.manifest = root / "install.json"
        self.live = root / "live"
        self.compiled = root / "compiled"


__all__ = [
    "APP",
    "State",
    "config_dir",
    "data_dir",
    "make_private",
    "original_umask",
    "private_umask",
    "state_dir",
]
