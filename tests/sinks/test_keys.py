"""Tokens and signing secrets: where they are read, and that no error repeats one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.config import SinkConfig
from sessionpipe.sinks import keys

TOKEN = "tok" + "Zq7" * 8
SECRET = "whsec_" + "QUJD" * 8


def config(**values: Any) -> SinkConfig:
    return SinkConfig(name="board", kind="http", url="https://board.example", **values)


def test_a_sink_without_any_has_none() -> None:
    assert keys.token(config(), {}) is None and keys.secret(config(), {}) is None


def test_each_place_a_token_can_be_in(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"\n {TOKEN} \nsecond line\n")
    assert keys.token(config(token=TOKEN), {}) == TOKEN
    assert keys.token(config(token_env="T"), {"T": f" {TOKEN}\n"}) == TOKEN
    assert keys.token(config(token_file=str(tmp_path / "token")), {}) == TOKEN
    assert keys.token(config(token_file="~/token"), {"HOME": str(tmp_path)}) == TOKEN


def test_a_secret_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    assert keys.secret(config(secret=SECRET), {}) == SECRET
    assert keys.secret(config(secret_file=str(tmp_path / "secret")), {}) == SECRET


def test_what_is_missing_is_named_and_may_be_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(keys.KeyMissing, match="BOARD_TOKEN is not set") as caught:
        keys.token(config(token_env="BOARD_TOKEN"), {"BOARD_TOKEN": " "})
    assert caught.value.elsewhere
    with pytest.raises(keys.KeyMissing, match="No such file") as caught:
        keys.token(config(token_file=str(tmp_path / "none")), {})
    assert not caught.value.elsewhere


@pytest.mark.parametrize("flaw", [" in two", '"', "'", "\\", "\x07", "é"])
def test_what_could_not_travel_in_a_header_is_refused_without_being_repeated(
    tmp_path: Path, flaw: str
) -> None:
    bad = f"{TOKEN}{flaw}{TOKEN}"
    (tmp_path / "token").write_text(bad)
    for where in ({"token_file": str(tmp_path / "token")}, {"token_env": "T"}):
        with pytest.raises(keys.KeyMissing, match="is not a token") as caught:
            keys.token(config(**where), {"T": bad})
        assert TOKEN not in str(caught.value)
    with pytest.raises(keys.KeyMissing, match="whsec_") as caught:
        keys.secret(config(secret_file=str(tmp_path / "token")), {})
    assert TOKEN not in str(caught.value)


def test_a_fifo_or_a_folder_where_a_file_should_be_does_not_hold_anything_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for place in (tmp_path / "fifo", tmp_path):
        with pytest.raises(keys.KeyMissing, match=r"not a regular file|Is a directory"):
            keys.token(config(token_file=str(place)), {})


def test_files_that_others_can_read_are_found(tmp_path: Path) -> None:
    open_, closed = tmp_path / "open", tmp_path / "closed"
    open_.write_text(TOKEN)
    closed.write_text(SECRET)
    open_.chmod(0o640)
    closed.chmod(0o600)
    sink = config(token_file=str(open_), secret_file=str(closed))
    assert keys.readable_by_others(sink, {}) == [open_]
    assert keys.readable_by_others(config(token_file=str(tmp_path / "none")), {}) == []


# --- headers ----------------------------------------------------------------------------------------


def test_each_place_a_header_can_be_in(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from file \nsecond line\n")
    found = config(headers={"A": "as it is", "b": {"env": "B"}, "c": {"file": "~/key"}})
    assert keys.headers(found, {"B": " from env ", "HOME": str(tmp_path)}) == {
        "A": "as it is",
        "b": "from env",
        "c": "from file",
    }
    assert keys.headers(config(), {}) == {}
    assert keys.variables(found) == ["B"] and keys.files(found) == ["~/key"]


def test_a_header_that_is_missing_is_named_with_where_it_should_be(tmp_path: Path) -> None:
    with pytest.raises(keys.KeyMissing, match=r"KEY is not set.*--header-file x-key=FILE") as caught:
        keys.headers(config(headers={"x-key": {"env": "KEY"}}), {})
    assert caught.value.elsewhere
    with pytest.raises(keys.KeyMissing, match="No such file") as caught:
        keys.headers(config(headers={"x-key": {"file": str(tmp_path / "none")}}), {})
    assert not caught.value.elsewhere


@pytest.mark.parametrize("flaw", ["\x07", "é", "\t"])
def test_a_header_that_could_not_travel_is_refused_without_being_repeated(flaw: str) -> None:
    with pytest.raises(keys.KeyMissing) as caught:
        keys.headers(config(headers={"x-key": {"env": "KEY"}}), {"KEY": f"{TOKEN}{flaw}{TOKEN}"})
    assert TOKEN not in str(caught.value) and "x-key" in str(caught.value)
