"""Bundles that are wrong in one way each: the conformance bundle, and edits to it as data."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.paths import data_dir

FOLDER = data_dir("conformance") / "journal" / "verify"


class Case(NamedTuple):
    """How a bundle comes about, and what is to be found in it."""

    name: str
    status: str
    violations: list[tuple[str, str, int | None]]
    warnings: list[tuple[str, str, int | None]]
    edits: list[dict[str, Any]]


def cases() -> list[Case]:
    """All of them."""
    return [
        Case(
            case["name"],
            case["status"],
            [(rule, file, line) for rule, file, line in case["violations"]],
            [(rule, file, line) for rule, file, line in case.get("warnings", [])],
            case["edits"],
        )
        for case in json.loads((FOLDER / "cases.json").read_bytes())
    ]


def sound(root: Path) -> Path:
    """A copy of the sound bundle, private, and not younger than its run."""
    shutil.copytree(FOLDER / "bundle", root)
    for path in (root, *root.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (0, 0))
    return root


def edit(root: Path, change: dict[str, Any]) -> None:
    """Make one change in a bundle, as ``conformance/README.md`` describes them."""
    path = root / change["file"]
    if "mode" in change:
        path.chmod(int(change["mode"], 8))
    elif change.get("remove"):
        path.unlink()
    elif "become" in change:
        _become(path, change["become"])
    else:
        data = path.read_bytes()
        if "line" in change:
            rows = data.split(b"\n")
            rows[change["line"] - 1 : change["line"]] = _row(rows[change["line"] - 1], change)
            data = b"\n".join(rows)
        elif "append" in change:
            data += change["append"].encode()
        elif "chop" in change:
            data = data[: -change["chop"]]
        else:
            (data,) = _row(data, change)
        path.write_bytes(data)
        os.utime(path, (0, 0))


def _row(row: bytes, change: dict[str, Any]) -> list[bytes]:
    if change.get("drop"):
        return []
    if "text" in change:
        return [change["text"].encode() * change.get("repeat", 1)]
    if "hex" in change:
        return [bytes.fromhex(change["hex"])]
    if "after" in change:
        return [row + change["after"].encode() * change.get("repeat", 1)]
    record = json.loads(row)
    filled = {name: "x" * size for name, size in change.get("fill", {}).items()}
    for name, value in (change.get("set", {}) | filled).items():
        inner, key = _inside(record, name)
        inner[key] = value
    for name in change.get("unset", []):
        inner, key = _inside(record, name)
        del inner[key]
    return [json.dumps(record, ensure_ascii=False).encode()]


def _inside(record: Any, name: str) -> tuple[Any, str]:
    *outer, key = name.split(".")
    for part in outer:
        record = record[part]
    return record, key


def _become(path: Path, what: str) -> None:
    if what == "link":
        real = path.with_name(path.name + ".real")
        path.rename(real)
        path.symlink_to(real)
        return
    path.unlink()
    if what == "fifo":
        os.mkfifo(path, 0o600)
    else:
        path.mkdir(0o700)
