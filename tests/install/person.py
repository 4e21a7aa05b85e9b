"""A person's home, and the installing and uninstalling done in it."""

from __future__ import annotations

import stat
from pathlib import Path

from sessionpipe.install import Report, inspect, install, uninstall
from sessionpipe.paths import State


class Person:
    """Somebody's home, and the commands run in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.env = {"HOME": str(self.home)}
        self.state = State(root / "state" / "sessionpipe")
        self.config = root / "config"
        self.claude = self.home / ".claude"
        self.codex = self.home / ".codex"
        self.pi = self.home / ".pi" / "agent"

    def has(self, *folders: Path) -> None:
        for folder in folders:
            folder.mkdir(parents=True)

    def install(self, *names: str, dry_run: bool = False, **env: str) -> list[Report]:
        """Install; the reports but the launcher's."""
        everything = {**self.env, **env}
        reports = install(names, dry_run=dry_run, env=everything, state=self.state, config=self.config)
        assert reports[0].path == self.state.launcher
        return reports[1:]

    def uninstall(
        self, *names: str, dry_run: bool = False, everywhere: bool = False, **env: str
    ) -> list[Report]:
        return uninstall(
            names, dry_run=dry_run, env={**self.env, **env}, state=self.state, everywhere=everywhere
        )

    def states(self, **env: str) -> dict[str, list[str]]:
        found = inspect(env={**self.env, **env}, state=self.state)
        return {
            harness: [": ".join(filter(None, (file.state, file.why))) for file in files]
            for harness, files in found
        }

    def everything(self) -> dict[str, object]:
        """All of the home: each name with its bytes, mode, owner and links, or what it links to."""
        found: dict[str, object] = {}
        for path in sorted(self.home.rglob("*")):
            name, info = str(path.relative_to(self.home)), path.lstat()
            if path.is_symlink():
                found[name] = str(path.readlink())
            elif path.is_file():
                linked = info.st_ino if info.st_nlink > 1 else 1
                found[name] = (
                    stat.S_IMODE(info.st_mode),
                    info.st_uid,
                    info.st_gid,
                    linked,
                    path.read_bytes(),
                )
            else:
                found[name] = (stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid)
        return found


def did(reports: list[Report]) -> list[tuple[str, str]]:
    """What was done, of each harness that is there: once where the same was done to several files."""
    return list(dict.fromkeys((r.harness, r.did) for r in reports if r.did != "not found"))
