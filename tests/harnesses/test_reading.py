"""Following a transcript: what the format of a file decides."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sessionpipe.harnesses import jsonl
from sessionpipe.harnesses.conversation import Meaning, Prompt, Said, Step
from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.reading import QUIET_MS, Format, exchanges
from sessionpipe.harnesses.transcripts import Reading, Want


class Words(Meaning):
    """Lines of ``[who, text, ms]``; one who works goes on with a tool."""

    def steps(self, line: jsonl.Line) -> Iterator[Step]:
        who, text, ms = json.loads(line.data)
        yield Prompt("ask", text, ms) if who == "ask" else Said(None, [text], who == "works", ms)


QUIET = Format(lambda claimed, files: Path(str(claimed)), lambda opened: Words(), quiet=True)
ENDED = Want(None, False, None, 100)


class TestAFileThatTellsNoEnds:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "log"

    def read(self, file: Path, *lines: tuple[str, str, int], age_ms: int, format: Format = QUIET) -> Reading:
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        written = time.time_ns() - age_ms * 1_000_000
        os.utime(file, ns=(written, written))
        return exchanges(format, file, {}, ENDED, Files())

    def test_last_words_that_nothing_came_behind_for_a_while_end_it(self, file: Path) -> None:
        reading = self.read(file, ("ask", "a", 1), ("says", "b", 2), age_ms=2 * QUIET_MS)
        assert (reading.complete, [each.assistant for each in reading.exchanges]) == (True, ["b"])

    def test_as_long_as_it_is_written_nothing_is_over(self, file: Path) -> None:
        reading = self.read(file, ("ask", "a", 1), ("says", "b", 2), age_ms=-3_600_000)
        assert (reading.complete, reading.exchanges) == (False, [])

    @pytest.mark.parametrize("last", [("ask", "a", 1), ("works", "b", 2)])
    def test_what_goes_on_is_not_over_however_long_it_takes(
        self, file: Path, last: tuple[str, str, int]
    ) -> None:
        assert not self.read(file, ("ask", "a", 1), last, age_ms=3_600_000).complete

    def test_a_prompt_of_after_the_end_is_another_turns(self, file: Path) -> None:
        assert not self.read(file, ("ask", "a", 101), ("says", "b", 102), age_ms=3_600_000).exchanges

    def test_a_file_that_does_tell_is_not_guessed_at(self, file: Path) -> None:
        format = replace(QUIET, quiet=False)
        assert not self.read(
            file, ("ask", "a", 1), ("says", "b", 2), age_ms=3_600_000, format=format
        ).complete


def test_very_many_short_exchanges_take_several_readings_and_each_comes_once(tmp_path: Path) -> None:
    file = tmp_path / "log"
    turns = range(9_000)
    file.write_text("".join(f'["ask", "{turn}", {turn}]\n["says", "yes", {turn}]\n' for turn in turns))
    want = Want(None, True, None, 2**52)
    readings = [exchanges(QUIET, file, {}, want, Files())]
    while readings[-1].exchanges:
        readings.append(exchanges(QUIET, file, readings[-1].cursor, want, Files()))
    found = [exchange.user for reading in readings for exchange in reading.exchanges]
    assert found == [str(turn) for turn in turns]
    assert [reading.complete for reading in readings[:2]] == [False, True]
