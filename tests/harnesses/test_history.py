"""Finding a harness's files, and looking at one's beginning and end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.conversation import Meaning, Prompt, Said, Step
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.history import Glimpse, first_asked, glimpse, listed
from sessionpipe.harnesses.reading import Format


def make(folder: Path, *names: str, ms: int = 5_000) -> None:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        os.utime(file, ns=(ms * 1_000_000, ms * 1_000_000))


def found(folder: Path, *levels: str, since_ms: int = 0) -> list[str]:
    return [str(path.relative_to(folder)) for path, _ in listed(folder, *levels, since_ms=since_ms)]


def test_files_are_found_by_a_pattern_for_each_level(tmp_path: Path) -> None:
    make(tmp_path, "b/x.jsonl", "a/x.jsonl", "a/x.txt", "a/deep/x.jsonl", "x.jsonl")
    assert found(tmp_path, ".", r".+\.jsonl") == ["a/x.jsonl", "b/x.jsonl"]


def test_each_says_when_it_was_written_and_the_older_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "old", ms=1_000)
    make(tmp_path, "new", ms=3_000)
    assert [(each.path.name, each.changed_ms) for each in listed(tmp_path, ".+", since_ms=2_000)] == [
        ("new", 3_000)
    ]


def test_no_link_is_followed_but_the_folder_itself(tmp_path: Path) -> None:
    make(tmp_path, "real/a/x")
    (tmp_path / "real" / "b").symlink_to(tmp_path / "real" / "a")
    (tmp_path / "real" / "a" / "y").symlink_to(tmp_path / "real" / "a" / "x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert found(tmp_path / "link", ".+", ".+") == ["a/x"]


def test_a_folder_that_is_not_there_or_is_no_folder_holds_nothing(tmp_path: Path) -> None:
    make(tmp_path, "file")
    assert found(tmp_path / "file", ".+") == []
    assert found(tmp_path / "nowhere", ".+") == []


class Words(Meaning):
    """Lines of ``[who, text, ms]``."""

    def steps(self, line: jsonl.Line) -> Iterator[Step]:
        who, text, ms = json.loads(line.data)
        yield Said(None, [text], False, ms) if who == "agent" else Prompt(who, text, ms)


FORMAT = Format(lambda claimed, files: None, lambda opened: Words())


def look(file: Path, *lines: tuple[str, str, int | None]) -> Glimpse | None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    opened = Files().open(file)
    assert opened
    with opened:
        return glimpse(opened, FORMAT)


def test_a_glimpse_has_the_first_ask_the_times_and_how_often_somebody_asked(tmp_path: Path) -> None:
    lines = ("injected", "You are", 1), ("ask", "Fix it", 2), ("agent", "Done", 3), ("ask", "More", 4)
    assert look(tmp_path / "f", *lines, ("agent", "Sure", 9)) == Glimpse("Fix it", 1, 9, 2)


def test_of_a_large_file_the_prompts_in_between_are_not_counted(tmp_path: Path) -> None:
    lines = ("ask", "Fix it", 2), *[("agent", "x" * 100_000, 3)] * 50, ("ask", "More", 4), ("agent", "Yes", 7)
    assert look(tmp_path / "f", *lines) == Glimpse("Fix it", 2, 7, None)


def test_the_first_ask_is_looked_for_until_it_is_there(tmp_path: Path) -> None:
    file, files = tmp_path / "f", Files()
    assert first_asked(None, FORMAT, files) is None
    assert first_asked(file, FORMAT, files) is None
    look(file, ("injected", "You are", 1))
    assert first_asked(file, FORMAT, files) is None
    look(file, ("injected", "You are", 1), ("ask", "Fix it", 2), ("ask", "More", 3))
    assert first_asked(file, FORMAT, files) == "Fix it"


def test_a_file_without_times_has_none(tmp_path: Path) -> None:
    assert look(tmp_path / "f", ("ask", "Fix it", None)) == Glimpse("Fix it", None, None, 1)
