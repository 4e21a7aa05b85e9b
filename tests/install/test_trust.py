"""Trust in Codex is recognised as Codex 0.171.0 itself wrote it down (recorded digests)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.install.jsonedit import Document
from sessionpipe.install.launcher import command
from sessionpipe.install.targets import Target, targets
from sessionpipe.install.trust import handler_hash, key, trusted

LAUNCHER = Path("/home/dev/.local/state/sessionpipe/bin/sessionpipe-hook")


def ours(event: str, timeout: int = 5) -> dict[str, Any]:
    return {"type": "command", "command": command(LAUNCHER, "codex", event), "timeout": timeout}


THEIRS = {"type": "command", "command": "true"}
HOOKS = {
    "SessionStart": [{"matcher": "startup", "hooks": [THEIRS, ours("SessionStart")]}],
    "Stop": [{"hooks": [THEIRS]}, {"matcher": "x", "hooks": [ours("Stop")]}],
    "PreToolUse": [{"matcher": "*", "hooks": [ours("PreToolUse")]}],
    "SessionEnd": [{"hooks": [ours("SessionEnd", 3)]}],
    "PreCompact": [{"matcher": "", "hooks": [ours("PreCompact")]}],
}
RECORDED = {
    "pre_tool_use:0:0": "4e314b4a20a267e62c54624e29106700974376f6290543426d0dca28c657b374",
    "pre_compact:0:0": "39a2363ddc8d93dfd7ee342e3ae3bf777165f0f30108911687cfce7a95daf03d",
    "session_start:0:0": "41c6f1d2611654bc674495ad7d6c0fcbbc034db75811beac258c665649cc9b97",
    "session_start:0:1": "cffc0414f89d011fe7e5f865cbecc70313a047b8d18df08fbb9d114087d6d771",
    "session_end:0:0": "5414e75381898609c9fd86780ad8b18ae667276f4ab1006f1ed9f2594bf99834",
    "stop:0:0": "2ba34c7a02841fada06b868a093d041fd3d9de81883c789a321916b0aa118851",
    "stop:1:0": "7e1a3bc1b6e972e4f352d226c898b74f055d9cf8e0aba98594cb7eb98e28206b",
}


@pytest.fixture
def target() -> Target:
    return Target("codex", tuple(HOOKS), targets()["codex"][0].table)


def config(folder: Path, recorded: dict[str, str]) -> Path:
    """Codex's settings with that trust in them; the hooks file beside."""
    hooks = folder.resolve() / "hooks.json"
    lines = [
        f'[hooks.state.{json.dumps(f"{hooks}:{name}")}]\ntrusted_hash = "sha256:{digest}"\n'
        for name, digest in recorded.items()
    ]
    (folder / "config.toml").write_text("".join(lines))
    return hooks


@pytest.mark.parametrize(
    ("event", "group", "index"),
    [
        ("SessionStart", 0, 0),
        ("SessionStart", 0, 1),
        ("Stop", 0, 0),
        ("Stop", 1, 0),
        ("PreToolUse", 0, 0),
        ("SessionEnd", 0, 0),
        ("PreCompact", 0, 0),
    ],
)
def test_the_digest_is_codex_s(event: str, group: int, index: int) -> None:
    handler = Document(json.dumps({"hooks": HOOKS}))
    place = ("hooks", event, group, "hooks", index)
    assert handler_hash(handler, event, place) == "sha256:" + RECORDED[key(event, place)]


def test_all_of_ours_trusted_is_trusted_and_what_others_have_does_not_matter(
    tmp_path: Path, target: Target
) -> None:
    mine = {
        name: digest for name, digest in RECORDED.items() if name not in ("stop:0:0", "session_start:0:0")
    }
    assert trusted(config(tmp_path, mine), json.dumps({"hooks": HOOKS}), target)


def test_a_folder_by_its_link_is_the_same_folder(tmp_path: Path, target: Target) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    config(tmp_path / "real", RECORDED)
    assert trusted(tmp_path / "link" / "hooks.json", json.dumps({"hooks": HOOKS}), target)


@pytest.mark.parametrize("name", [name for name in RECORDED if name not in ("stop:0:0", "session_start:0:0")])
def test_one_of_ours_not_trusted_is_not_trusted(tmp_path: Path, target: Target, name: str) -> None:
    text = json.dumps({"hooks": HOOKS})
    without = {other: digest for other, digest in RECORDED.items() if other != name}
    assert not trusted(config(tmp_path, without), text, target)
    assert not trusted(config(tmp_path, RECORDED | {name: "0" * 64}), text, target)


def test_a_changed_timeout_needs_trust_again(tmp_path: Path, target: Target) -> None:
    text = json.dumps({"hooks": HOOKS}).replace('"timeout": 3', '"timeout": 4')
    assert not trusted(config(tmp_path, RECORDED), text, target)


@pytest.mark.parametrize(
    "settings",
    [
        None,
        "",
        "not [ TOML",
        "hooks = 3",
        "[hooks]\nstate = []",
        '[hooks.state]\n"x" = 3',
        f"deep = {'[' * 3000}{']' * 3000}",
        f"long = {'1' * 5000}",
    ],
)
def test_settings_that_say_nothing_are_no_trust(tmp_path: Path, target: Target, settings: str | None) -> None:
    if settings is not None:
        (tmp_path / "config.toml").write_text(settings)
    assert not trusted(tmp_path / "hooks.json", json.dumps({"hooks": HOOKS}), target)


@pytest.mark.skipif(os.name != "posix", reason="pipes by name are POSIX ones")
def test_a_pipe_in_the_settings_place_is_not_waited_for(tmp_path: Path, target: Target) -> None:
    os.mkfifo(tmp_path / "config.toml")
    assert not trusted(tmp_path / "hooks.json", json.dumps({"hooks": HOOKS}), target)
