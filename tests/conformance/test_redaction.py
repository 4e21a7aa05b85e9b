"""``sessionpipe-conformance redaction``: ours and other people's programs held to vectors."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sessionpipe.conformance import SUBJECTS, main

SECRETS: dict[str, Any] = {
    "ruleset": "secrets@1",
    "redacted": "[redacted]",
    "cases": [
        {
            "name": "a token",
            "template": "use {t}.",
            "t": [{"prefix": "ghp_", "len": 36}],
            "out": "use [redacted].",
        },
        {"name": "a word", "in": "use it", "out": "use it"},
    ],
    "adversarial": [{"name": "many", "recipe": {"repeat": "a", "times": 10}, "max_ms": 30_000}],
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["redaction", *arguments])


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps(SECRETS))
    return path


def program(tmp_path: Path, body: str) -> str:
    path = tmp_path / "filter.py"
    path.write_text(f"import os, re, sys, time\ntext = sys.stdin.read()\n{body}\n")
    return f"{shlex.quote(sys.executable)} -I {shlex.quote(str(path))}"


RIGHT = "sys.stdout.write(re.sub('ghp_[A-Za-z0-9]{36}', '[redacted]', text))"


def test_ours_holds_a_file(vectors: Path) -> None:
    done = run(str(vectors))
    assert (done.exit_code, done.output) == (
        0,
        "secrets.json (secrets@1): case 2/2, again 2/2, adversarial 1/1\n",
    )


@pytest.mark.parametrize("body", [RIGHT, RIGHT.replace("text))", "text) + '\\n')")])
def test_a_program_that_does_what_it_should_passes(vectors: Path, tmp_path: Path, body: str) -> None:
    done = run("--command", program(tmp_path, body), str(vectors))
    assert done.exit_code == 0, done.output


def test_one_that_does_not_fails_and_its_secrets_are_not_printed_whole(vectors: Path, tmp_path: Path) -> None:
    done = run("--command", program(tmp_path, "sys.stdout.write(text)"), str(vectors))
    assert done.exit_code == 1
    assert "case 'a token' fails" in done.output
    assert 'got   "use ghp_' in done.output
    assert "case 1/2" in done.output
    assert "dkry" not in done.output  # How the generated part goes on.


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sys.exit(3)", "exit status 3"),
        ("sys.stdout.write(text + 'x')", "again 'a word' fails"),
    ],
)
def test_what_went_wrong_is_said(vectors: Path, tmp_path: Path, body: str, why: str) -> None:
    done = run("--command", program(tmp_path, body), str(vectors))
    assert done.exit_code == 1
    assert why in done.output


def test_a_slow_one_is_told_from_one_that_starts_slowly(vectors: Path, tmp_path: Path) -> None:
    slow = {**SECRETS, "cases": [], "adversarial": [{**SECRETS["adversarial"][0], "max_ms": 50}]}
    vectors.write_text(json.dumps(slow))
    done = run("--command", program(tmp_path, "text and time.sleep(0.5)"), str(vectors))
    assert done.exit_code == 1
    assert "of 50" in done.output


def test_a_home_is_a_program_s_home_and_blocks_are_not_tried(vectors: Path, tmp_path: Path) -> None:
    case = {"name": "home", "home": "/data/jane", "in": "cd /data/jane/x", "out": "cd ~/x"}
    block = {"name": "block", "in": {"id": "a"}, "out": {"id": "a"}}
    vectors.write_text(json.dumps({"ruleset": "mine@1", "cases": [case], "session": [block]}))
    body = "sys.stdout.write(text.replace(os.environ['HOME'], '~'))"
    done = run("--command", program(tmp_path, body), "--json", str(vectors))
    assert done.exit_code == 0, done.output
    (report,) = json.loads(done.output)
    assert report["score"]["case"] == {"passed": 1, "of": 1}
    assert report["not_tried"] == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "Expecting"),
        ("[]", "names no ruleset"),
        ('{"ruleset": "secrets@1", "cases": [{"name": "x"}]}', "cases 1 needs name, out"),
        ('{"ruleset": "secrets@1", "cases": [{"name": "x", "out": ""}]}', "cases 1 is no case"),
        (
            '{"ruleset": "secrets@1", "cases": [{"name": "x", "out": "", "template": "", "t": [{}]}]}',
            "no case",
        ),
        ('{"ruleset": "secrets@1", "adversarial": [{"name": "x", "recipe": {}, "max_ms": 1}]}', "is no case"),
        ('{"ruleset": "mine@1"}', "there is no mine@1 here"),
    ],
)
def test_a_file_that_cannot_be_used_is_wrong_use(vectors: Path, content: str, why: str) -> None:
    vectors.write_text(content)
    done = run(str(vectors))
    assert done.exit_code == 2
    assert why in done.output


def test_a_program_that_is_not_there_is_wrong_use() -> None:
    done = run("--command", "there-is-no-such-program")
    assert done.exit_code == 2
    assert "there is no program" in done.output


def test_no_shell_sees_the_command(vectors: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    run("--command", f"{program(tmp_path, RIGHT)} ; touch {mark}", str(vectors))
    assert not mark.exists()


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_subject_says_how_it_is_used(subject: str) -> None:
    done = CliRunner().invoke(main, [subject, "--help"])
    assert done.exit_code == 0
    assert "Example" in done.output
