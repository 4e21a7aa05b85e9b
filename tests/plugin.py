"""Packages that bring a kind of sink, put where the interpreter finds them, as an installer does."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "sqlite-sink"


def install(folder: Path, source: Path = EXAMPLE) -> None:
    """What ``pip install SOURCE`` leaves in the ``folder`` of packages: the modules and their metadata."""
    project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]
    for module in source.glob("*.py"):
        shutil.copy(module, folder)
    metadata(folder, project["name"], project["version"], project["entry-points"])


def metadata(folder: Path, name: str, version: str, groups: dict[str, dict[str, Any]]) -> Path:
    """A package's ``dist-info``, with these entry points; returns it."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{entry} = {value}\n" for entry, value in entries.items())
        for group, entries in groups.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return info


def written(folder: Path, kind: str, code: str, *, package: str | None = None) -> Path:
    """A package that brings ``kind`` by ``code``, which makes ``sink``; returns its ``dist-info``."""
    package = package or f"{kind}-package"
    module = package.replace("-", "_")
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(code)
    return metadata(folder, package, "1.0", {"sessionpipe.sinks": {kind: f"{module}:sink"}})
