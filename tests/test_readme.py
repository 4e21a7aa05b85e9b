"""What the README says can be typed, can be typed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sessionpipe.cli import MODULES

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text("utf-8")


def fences(language: str) -> list[list[str]]:
    return [body.splitlines() for body in re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)]


def test_setting_up_is_two_commands_of_one_line() -> None:
    install, test = fences("sh")[:2]
    assert len(install) == len(test) == 1
    assert install[0].endswith("sessionpipe demo")
    assert "[test]" in test[0] and "pytest" in test[0]


@pytest.mark.parametrize(
    "line", [line for body in fences("console") for line in body if "sessionpipe " in line]
)
def test_every_command_of_it_exists(line: str) -> None:
    for command in re.findall(r"sessionpipe ([a-z]+)", line):
        assert command in MODULES


def test_every_link_into_the_repository_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
