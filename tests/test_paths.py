"""paths: where things are, and that they are the owner's alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_IMODE

import platformdirs
import pytest

from sessionpipe import paths


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A process that would let everybody read, as most shells' children are; put back afterwards."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return S_IMODE(path.stat().st_mode)


# --- which directories --------------------------------------------------------------------------------

PLACES = [(paths.state_dir, "SESSIONPIPE_STATE_DIR"), (paths.config_dir, "SESSIONPIPE_CONFIG_DIR")]


@pytest.mark.parametrize(("place", "variable"), PLACES)
def test_a_variable_says_where(
    place: Callable[[], Path], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "/somewhere/else")
    assert place() == Path("/somewhere/else")


@pytest.mark.parametrize(("place", "variable"), PLACES)
@pytest.mark.parametrize("value", [None, ""])
def test_else_it_is_the_platforms_place_in_the_persons_home(
    place: Callable[[], Path], variable: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, value)
    found = place()
    assert found.name == "sessionpipe"
    assert Path(os.environ["HOME"]) in found.parents


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the XDG variables are Linux's")


@on_linux
def test_on_linux_the_desktops_own_variables_count(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SESSIONPIPE_STATE_DIR", "SESSIONPIPE_CONFIG_DIR"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", "/x/state")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x/config")
    assert paths.state_dir() == Path("/x/state/sessionpipe")
    assert paths.config_dir() == Path("/x/config/sessionpipe")


@pytest.mark.parametrize("home", ["/home/dev", "/home/dev/", "/", "relative"])
@pytest.mark.parametrize("base", [None, "", "/x/y", "/x/y/", " /x ", "relative", "~/x"])
def test_where_nothing_else_is_said_platformdirs_is_right(
    base: str | None, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SESSIONPIPE_STATE_DIR", "SESSIONPIPE_CONFIG_DIR"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", home)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
        if base is not None:
            monkeypatch.setenv(name, base)
    assert paths.state_dir() == Path(platformdirs.user_state_dir("sessionpipe"))
    assert paths.config_dir() == Path(platformdirs.user_config_dir("sessionpipe"))


@pytest.mark.parametrize("told", [True, pytest.param(False, marks=on_linux)])
def test_a_process_loads_nothing_to_find_out(told: bool) -> None:
    env = {"HOME": "/home/dev"}
    if told:
        env |= {"SESSIONPIPE_STATE_DIR": "/s", "SESSIONPIPE_CONFIG_DIR": "/c"}
    program = (
        "import sys; from sessionpipe import paths; paths.state_dir(); paths.config_dir(); "
        "print('platformdirs' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)
    assert ran.stdout == "False\n"


# --- what ships with the package ----------------------------------------------------------------------

FOLDERS = ["adapters", "rulesets", "conformance"]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_data_folder_is_found(name: str) -> None:
    assert paths.data_dir(name).is_dir()


def test_a_wheels_own_copy_comes_before_a_folder_beside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "sessionpipe"
    beside = tmp_path / "site-packages" / "adapters"
    beside.mkdir(parents=True)
    monkeypatch.setattr(paths, "_PACKAGE", package)
    assert paths.data_dir("adapters") == beside
    shipped = package / "_data" / "adapters"
    shipped.mkdir(parents=True)
    assert paths.data_dir("adapters") == shipped


# --- the owner's alone --------------------------------------------------------------------------------


@pytest.mark.usefixtures("open_umask")
def test_a_private_process_makes_files_and_folders_for_the_owner_alone(tmp_path: Path) -> None:
    paths.private_umask()
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    assert (mode(tmp_path / "file"), mode(tmp_path / "folder")) == (0o600, 0o700)


@pytest.mark.usefixtures("open_umask")
def test_a_private_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    paths.private_umask()
    paths.make_private(tmp_path / "a" / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o700, 0o700)


@pytest.mark.usefixtures("open_umask")
def test_a_private_folder_is_private_whatever_the_umask(tmp_path: Path) -> None:
    paths.make_private(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o700


@pytest.mark.parametrize("wider", [0o755, 0o750, 0o777, 0o701])
def test_a_folder_of_ours_that_is_wider_is_tightened(wider: int, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(wider)
    paths.make_private(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o700


def test_what_is_in_it_stays(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("kept")
    paths.make_private(tmp_path / "a")
    assert (tmp_path / "a" / "file").read_text() == "kept"


def test_folders_above_it_that_were_there_keep_their_mode(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)
    paths.make_private(tmp_path / "a" / "b")
    assert mode(tmp_path / "a") == 0o755


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_elses_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)
    os.chown(tmp_path / "a", 12345, -1)
    paths.make_private(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o755


def test_a_file_in_its_place_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(OSError, match="a") as error:
        paths.make_private(tmp_path / "a")
    assert error.value.filename == str(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "a file"


def test_a_persons_own_command_gets_the_umask_this_process_was_started_with() -> None:
    program = (
        "import os; os.umask(0o027); from sessionpipe import paths; print(paths.original_umask(), os.umask(0o027)); "
        "paths.private_umask(); paths.private_umask(); print(paths.original_umask(), os.umask(0))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(0o027), str(0o027), str(0o027), str(0o077)]


# --- below the state directory ------------------------------------------------------------------------


def test_everything_has_a_place_of_its_own_below_the_state_directory(tmp_path: Path) -> None:
    places = [path for name, path in vars(paths.State(tmp_path)).items() if name != "root"]
    assert all(tmp_path in path.parents for path in places)
    assert len(set(places)) == len(places)


def test_naming_the_places_makes_none_of_them(tmp_path: Path) -> None:
    paths.State(tmp_path / "state")
    assert list(tmp_path.glob("state*")) == []
