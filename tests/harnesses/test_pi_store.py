"""Where Pi keeps its sessions, as Pi itself finds the places, and what each of them is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessionpipe.harnesses.files import Files
from sessionpipe.harnesses.pi_session import Model
from sessionpipe.harnesses.pi_store import (
    Summary,
    agent_dir,
    chosen_folders,
    default_folder,
    find,
    session_files,
    summaries,
)
from sessionpipe.protocol import rfc3339, short_id
from tests.cli.pi_files import START, PiFile

ENV = {"HOME": "/home/dev"}


# --- places -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "folder"),
    [
        (None, "/home/dev/.pi/agent"),
        ("", "/home/dev/.pi/agent"),
        ("/srv/pi", "/srv/pi"),
        ("~/pi", "/home/dev/pi"),
        ("~", "/home/dev"),
        ("file:///srv/my%20pi", "/srv/my pi"),
    ],
)
def test_the_agent_s_folder(said: str | None, folder: str) -> None:
    env = ENV if said is None else {**ENV, "PI_CODING_AGENT_DIR": said}
    assert agent_dir(env) == Path(folder)


@pytest.mark.parametrize(
    ("cwd", "name"), [("/home/dev/src", "--home-dev-src--"), ("/", "----"), ("C:\\src\\x", "--C--src-x--")]
)
def test_the_folder_of_a_working_directory(cwd: str, name: str) -> None:
    assert default_folder(cwd, ENV) == Path("/home/dev/.pi/agent/sessions") / name


def test_other_folders_may_have_been_chosen(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PI_CODING_AGENT_SESSION_DIR": "~/mine"}
    agent = tmp_path / ".pi" / "agent"
    agent.mkdir(parents=True)
    assert chosen_folders(env, Files()) == [tmp_path / "mine"]
    for settings in ('{"sessionDir":"~/set"}', "{broken", '{"sessionDir":7}', ""):
        (agent / "settings.json").write_text(settings)
        set_there = [tmp_path / "set"] if "~" in settings else []
        assert chosen_folders(env, Files()) == [tmp_path / "mine", *set_there]


def test_every_session_file_is_found_once_the_latest_first(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    kept = tmp_path / ".pi/agent/sessions"
    files = [
        PiFile(name).write(kept / folder) for name, folder in [("a", "--x--"), ("b", "--y--"), ("c", "--x--")]
    ]
    for age, file in enumerate(files):
        os.utime(file, (1_000_000 - age, 1_000_000 - age))
    (kept / "--x--" / "notes.txt").touch()
    (kept / "stray.jsonl").touch()
    (kept / "--z--").symlink_to(kept / "--x--")
    assert [path.name for path in session_files(env, Files())] == [file.name for file in files]
    chosen = PiFile("d").write(tmp_path / "mine")
    with_chosen = session_files({**env, "PI_CODING_AGENT_SESSION_DIR": str(tmp_path / "mine")}, Files())
    assert with_chosen == [chosen, *session_files(env, Files())]
    assert session_files(env, Files(), tmp_path / "mine") == [chosen]


def test_a_machine_without_pi_has_no_sessions(tmp_path: Path) -> None:
    assert session_files({"HOME": str(tmp_path)}, Files()) == []
    assert session_files({}, Files(), tmp_path / "nowhere") == []


# --- by name ----------------------------------------------------------------------------------------

FIRST, SECOND = "01a22870-0000-7000-8000-000000000001", "01a22870-0000-7000-8000-000000000002"


@pytest.mark.parametrize(
    ("argument", "meant"),
    [
        (FIRST, [FIRST]),
        (f"pi:{FIRST}", [FIRST]),
        (FIRST[:-1], [SECOND, FIRST]),
        ("01a", [SECOND, FIRST]),
        (short_id("pi", SECOND), [SECOND]),
        (short_id("pi", SECOND)[:5].upper(), [SECOND]),
        ("x", ["x", "x"]),
        ("nothing", []),
    ],
)
def test_a_session_is_meant_by_its_id_or_a_beginning_of_it(
    tmp_path: Path, argument: str, meant: list[str]
) -> None:
    for place, name in [("a", FIRST), ("b", SECOND), ("c", "x"), ("d", "x"), ("e", "x-longer")]:
        PiFile(name).write(tmp_path / place)
    (tmp_path / "no-session.jsonl").write_text("{}\n")
    paths = sorted(tmp_path.rglob("*.jsonl"), reverse=True)
    assert [name for _, name in find(argument, paths, Files())] == meant


@pytest.mark.parametrize("before", [b"", b"\n\n", b"not yet\n", b"\xef\xbb\xbf"])
def test_a_header_is_found_behind_what_stands_before_it(tmp_path: Path, before: bytes) -> None:
    file = PiFile("x", cwd="/" + "y" * 20_000).write(tmp_path)
    file.write_bytes(before + file.read_bytes())
    assert find("x", [file], Files()) == [(file, "x")]


# --- what a session is ------------------------------------------------------------------------------


def summary_of(file: Path) -> Summary:
    (summary,) = summaries([file], Files())
    return summary


def test_what_a_session_is(tmp_path: Path) -> None:
    pi = PiFile().put("thinking_level_change", thinkingLevel="high").asks([{"type": "image", "data": "A"}])
    pi.asks("Fix\nthe page").calls("bash", {"command": "ls"}, isError=False).says("Done.")
    file = pi.put("custom", customType="x", data="later").write(tmp_path)
    summary = summary_of(file)
    assert summary == Summary(
        path=file,
        id=pi.name,
        cwd="/src/page",
        created_ms=START,
        active_ms=START + 6000,
        name=None,
        title="Fix the page",
        title_source="first-ask",
        model=Model("maker", "model-1"),
        thinking_level="high",
        messages=4,
        usage=summary.usage,
        parent=None,
        parent_id=None,
        copied=0,
        skipped=0,
        torn=False,
    )
    assert (summary.usage.tokens, summary.usage.cost) == (220, 0.5)


def test_the_name_a_person_gave_is_the_title(tmp_path: Path) -> None:
    summary = summary_of(PiFile().asks("Fix").put("session_info", name="the page").write(tmp_path))
    assert (summary.title, summary.title_source) == ("the page", "custom")


def test_an_empty_session_has_no_title(tmp_path: Path) -> None:
    summary = summary_of(PiFile(cwd=7).write(tmp_path))
    assert (summary.title, summary.cwd, summary.active_ms, summary.messages) == (None, None, START, 0)


@pytest.mark.parametrize("parent_is", ["there", "beside it", "gone"])
def test_what_a_fork_copied_counts_for_its_parent(tmp_path: Path, parent_is: str) -> None:
    parent = PiFile("parent").asks("The parent's").says("1").asks("And").says("2")
    file = parent.write(tmp_path / "a")
    named = str(file) if parent_is == "there" else f"/elsewhere/{file.name}"
    fork = PiFile("fork", parentSession=named, timestamp=rfc3339(parent.now + 500))
    fork.lines += parent.lines[1:]
    fork.leaf, fork.now = parent.leaf, parent.now
    fork.asks("My own").says("3")
    if parent_is == "beside it":
        parent.write(tmp_path / "b")
    summary = summary_of(fork.write(tmp_path / "b"))
    assert (summary.title, summary.messages, summary.usage.tokens, summary.copied) == ("My own", 2, 110, 4)
    assert (summary.parent, summary.parent_id) == (named, None if parent_is == "gone" else "parent")


def test_a_fork_in_which_nothing_was_asked_yet_is_called_as_its_parent(tmp_path: Path) -> None:
    parent = PiFile("parent").asks("The parent's").says("1")
    fork = PiFile("fork", parentSession=str(parent.write(tmp_path)), timestamp=rfc3339(parent.now + 500))
    fork.lines += parent.lines[1:]
    summary = summary_of(fork.write(tmp_path))
    assert (summary.title, summary.messages) == ("The parent's", 0)


def test_a_session_that_names_itself_its_parent_is_no_matter(tmp_path: Path) -> None:
    name = PiFile("x").write(tmp_path)
    summary = summary_of(PiFile("x", parentSession=str(name)).asks("a").write(tmp_path))
    assert (summary.parent_id, summary.messages) == (None, 1)


def test_what_is_no_session_is_left_out(tmp_path: Path) -> None:
    good = PiFile("x").write(tmp_path)
    (tmp_path / "other.jsonl").write_text('{"type":"user"}\n')
    (tmp_path / "folder.jsonl").mkdir()
    paths = [tmp_path / "other.jsonl", tmp_path / "folder.jsonl", tmp_path / "gone.jsonl", good]
    assert [summary.path for summary in summaries(paths, Files())] == [good]
