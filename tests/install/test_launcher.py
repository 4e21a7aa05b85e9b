"""The launcher runs the hook, and whatever is broken, the agent sees exit 0 and silence."""

from __future__ import annotations

import os
import py_compile
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.install.launcher import (
    Answer,
    command,
    current,
    powershell,
    program,
    recognise,
    recognise_program,
    remove,
    script,
    script_cmd,
    write,
)
from sessionpipe.paths import State

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the launcher is a POSIX shell script")

# A hook that tells how it was run, and then misbehaves as no hook of ours would.
TELLTALE = """\
import os, sys
with open(os.environ["SESSIONPIPE_STATE_DIR"] + "/told", "w") as told:
    told.write(repr([sys.argv[1:], sys.stdin.read(), os.environ["SESSIONPIPE_CONFIG_DIR"],
                     os.environ["SESSIONPIPE_PPID"], sys.flags.isolated, sys.flags.no_site, __file__]))
print("noise")
print("noise", file=sys.stderr)
os._exit(3)
"""


class Place:
    """A launcher with a hook of the test's own, in a folder whose name is as awkward as can be."""

    def __init__(
        self, root: Path, python: str = sys.executable, answers: dict[str, Answer] | None = None
    ) -> None:
        self.root = root / 'it\'s "a" $HOME `x` \\ \n é'
        self.root.mkdir()
        self.hook = self.root / "hook.py"
        self.hook.write_text(TELLTALE)
        self.compiled = self.root / "hook.pyc"
        self.launcher = self.root / "bin" / "sessionpipe-hook"
        self.launcher.parent.mkdir()
        paths = (self.hook, self.compiled, self.root, self.root / "config")
        self.launcher.write_bytes(script(python, *map(str, paths), answers or {}))
        self.launcher.chmod(0o700)

    def run(self, *words: str, shell: str = "/bin/sh", **env: str) -> subprocess.CompletedProcess[bytes]:
        """Run it as a harness does, by its command line."""
        line = command(self.launcher, *(words or ("claude-code", "Stop")))
        return subprocess.run(
            [shell, "-c", line],
            input=b'{"x": 1}',
            capture_output=True,
            env={**os.environ, **env},
            check=False,
        )

    def told(self) -> list[object] | None:
        try:
            told: list[object] = eval((self.root / "told").read_text())
        except FileNotFoundError:
            return None
        return told


def silent(result: subprocess.CompletedProcess[bytes]) -> bool:
    return (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "zsh", "ksh", "mksh", "fish"])
def test_the_hook_gets_its_words_its_input_and_its_places(tmp_path: Path, shell: str) -> None:
    if not (found := shutil.which(shell)):
        pytest.skip(f"no {shell} here")
    place = Place(tmp_path)
    assert silent(place.run(shell=found))
    told = place.told()
    assert told is not None
    assert told[:3] == [["claude-code", "Stop"], '{"x": 1}', str(place.root / "config")]
    assert told[3] == str(os.getpid())
    assert told[4:] == [1, 1, str(place.hook)]


def test_a_program_hands_on_the_argument_that_the_harness_adds_as_it_is(tmp_path: Path) -> None:
    place = Place(tmp_path)
    payload = '{"a": "it\'s \\"b\\" $HOME `x`\\n", "\u00e9": 1}\n'
    words = program(place.launcher, "codex", "notify")
    done = subprocess.run([*words, payload], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert silent(done)
    told = place.told()
    assert told is not None
    assert told[0] == ["codex", "notify", payload]
    assert recognise_program(words) == (place.launcher, "codex", "notify")
    place.launcher.unlink()
    assert silent(
        subprocess.run([*words, payload], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        "bell",
        [],
        [1, 2, 3, 4],
        ["/bin/sh", "-c", "bell", "x"],
        ["/bin/sh", "-c", command(Path("/x/bin/sessionpipe-hook"), "codex", "notify"), "x"],
        ["/bin/sh", "-c", command(Path("/x/bin/sessionpipe-hook"), "codex", "notify") + ' && bell "$@"', "x"],
        ["python3", "bell.py", "sessionpipe-hook"],
    ],
)
def test_another_program_is_not_ours(value: object) -> None:
    assert recognise_program(value) is None


ANY_NAME = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1) | st.text(
    "$`'\"\\{}aA /\n%", min_size=1
)


@given(ANY_NAME)
def test_a_command_for_windows_is_recognised_in_either_shell(folder: str) -> None:
    path = Path(f"C:\\{folder}\\bin\\sessionpipe-hook.cmd")
    assert recognise(powershell(path, "copilot-cli", "agentStop")) == (path, "copilot-cli", "agentStop")
    assert recognise_program([str(path), "codex", "notify"]) == (
        (path, "codex", "notify") if '"' not in folder else None
    )


@pytest.mark.parametrize(
    "python",
    [
        "missing",
        "/",
        "not executable",
        "crashing",
        "noisy",
        "not a program",
        "dangling link",
        "of another kind",
    ],
)
def test_a_broken_interpreter_is_silence(tmp_path: Path, python: str) -> None:
    path = tmp_path / "python"
    if python == "not executable":
        path.write_text("#!/bin/sh\n")
    elif python == "crashing":
        path.write_text("#!/bin/sh\nkill -SEGV $$\n")
        path.chmod(0o700)
    elif python == "noisy":
        path.write_text("#!/bin/sh\necho noise; echo noise >&2; exit 1\n")
        path.chmod(0o700)
    elif python == "not a program":
        path.write_bytes(bytes(range(1, 256)) * 8)
        path.chmod(0o700)
    elif python == "dangling link":
        path.symlink_to(tmp_path / "nothing")
    elif python == "of another kind":
        path.write_text("#!/no/such/interpreter\n")
        path.chmod(0o700)
    place = Place(tmp_path, python=python if python == "/" else str(path))
    assert silent(place.run(PATH="/nowhere"))


def test_without_its_interpreter_the_one_on_the_path_does(tmp_path: Path) -> None:
    place = Place(tmp_path, python=str(tmp_path / "gone"))
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "python3").symlink_to(sys.executable)
    assert silent(place.run(PATH=str(tmp_path / "path")))
    assert place.told() is not None


def test_a_compiled_copy_runs_unless_it_is_older_or_of_another_version(tmp_path: Path) -> None:
    place = Place(tmp_path)
    newer = place.hook.stat().st_mtime_ns + 10**9

    def compiled(content: bytes, when: int) -> object:
        place.compiled.write_bytes(content)
        os.utime(place.compiled, ns=(when, when))
        (place.root / "told").unlink(missing_ok=True)
        assert silent(place.run())
        told = place.told()
        return told and told[-1]

    copy = Path(py_compile.compile(str(place.hook), str(tmp_path / "copy.pyc"), doraise=True)).read_bytes()
    assert compiled(copy, newer) == str(place.compiled)
    assert compiled(copy, newer - 2 * 10**9) == str(place.hook)
    assert compiled(b"\x00\x00\r\nof another version", newer) == str(place.hook)


@pytest.mark.parametrize("gone", ["hook", "launcher", "everything"])
def test_what_is_gone_is_silence(tmp_path: Path, gone: str) -> None:
    place = Place(tmp_path)
    line = command(place.launcher, "claude-code", "Stop")
    if gone == "everything":
        shutil.rmtree(place.root)
    else:
        getattr(place, gone).unlink()
    assert silent(subprocess.run(["/bin/sh", "-c", line], input=b"{}", capture_output=True, check=False))


@pytest.mark.parametrize("python", [sys.executable, "/gone"])
def test_a_harness_that_wants_an_answer_gets_it_whatever_is_broken(tmp_path: Path, python: str) -> None:
    answers = {"antigravity": Answer("{}", ("PreToolUse",)), "cursor": Answer("it's")}
    place = Place(tmp_path, python=python, answers=answers)
    said = {
        words: place.run(*words, PATH="/nowhere").stdout
        for words in [
            ("antigravity", "Stop"),
            ("antigravity", "PreToolUse"),
            ("cursor", "stop"),
            ("claude-code", "Stop"),
        ]
    }
    assert list(said.values()) == [b"{}", b"", b"it's", b""]


def test_an_answer_nobody_reads_does_not_stop_the_hook(tmp_path: Path) -> None:
    place = Place(tmp_path, answers={"cursor": Answer("{}")})
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        ["/bin/sh", "-c", command(place.launcher, "cursor", "stop")],
        input=b"",
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (result.returncode, result.stderr) == (0, b"")
    assert place.told() is not None


def test_it_runs_from_a_path_that_is_no_text(tmp_path: Path) -> None:
    state = State(tmp_path / os.fsdecode(b"\xff state"))
    try:
        state.root.mkdir()
    except OSError:
        pytest.skip("this file system takes no such name")
    write(state, tmp_path / "config", {})
    result = subprocess.run(
        [state.launcher, "claude-code", "Stop"],
        input=b"{}",
        capture_output=True,
        env={**os.environ, "SESSIONPIPE_NO_WORKER": "1"},
        check=False,
    )
    assert silent(result)
    assert len(list((state.spool / "new").iterdir())) == 1
    with pytest.raises(ValueError, match="not UTF-8"):
        command(state.launcher, "claude-code", "Stop")


def test_the_real_hook_files_a_job(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    assert write(state, tmp_path / "config", {})
    line = command(state.launcher, "claude-code", "Stop")
    env = {**os.environ, "SESSIONPIPE_STATE_DIR": "/elsewhere", "SESSIONPIPE_NO_WORKER": "1"}
    assert silent(
        subprocess.run(["/bin/sh", "-c", line], input=b"{}", capture_output=True, env=env, check=False)
    )
    (job,) = (state.spool / "new").iterdir()
    assert job.read_bytes().endswith(b"\0\0{}")


def test_it_is_written_once_private_and_runnable(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    assert not current(state, tmp_path, {})
    assert write(state, tmp_path, {})
    assert current(state, tmp_path, {})
    assert not write(state, tmp_path, {})
    modes = {path.name: path.stat().st_mode & 0o777 for path in (state.root, state.bin, *state.bin.iterdir())}
    assert modes == {"state": 0o700, "bin": 0o700, "sessionpipe-hook": 0o700, "hook.pyc": 0o600}
    assert write(state, tmp_path / "other", {})
    remove(state)
    assert not state.bin.exists()


def test_the_interpreter_is_named_as_it_was_called(tmp_path: Path) -> None:
    state = State(tmp_path)
    write(state, tmp_path, {})
    assert f"python='{sys.executable}'" in state.launcher.read_text()


def test_the_windows_launcher_names_the_same_things() -> None:
    # Read only: nobody has run it on Windows yet.
    answers = {"antigravity": Answer("{}", ("PreToolUse",))}
    places = (r"C:\py\python.exe", r"C:\sp\hook.py", r"C:\50%\state", r"C:\config")
    lines = script_cmd(*places, answers).decode().split("\r\n")
    assert 'if "%~1"=="antigravity" if not "%~2"=="PreToolUse" echo {}' in lines
    assert r'set "SESSIONPIPE_STATE_DIR=C:\50%%\state"' in lines
    assert r'"C:\py\python.exe" -I -S "C:\sp\hook.py" %* >nul 2>nul' in lines
    assert lines[-2:] == ["exit /b 0", ""]
    ours = recognise(r'"C:\50%\state\bin\sessionpipe-hook.cmd" codex Stop')
    assert ours is not None
    assert (ours.harness, ours.event) == ("codex", "Stop")


ANY_NAME = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1) | st.text(
    "$`'\"\\{}aA /\n%", min_size=1
)


@given(ANY_NAME)
def test_a_command_is_recognised_whatever_the_path(name: str) -> None:
    launcher = Path(f"/{name}/bin/sessionpipe-hook")
    ours = recognise(command(launcher, "codex", "SessionEnd"))
    assert ours is not None
    assert (ours.launcher, ours.harness, ours.event) == (launcher, "codex", "SessionEnd")


@given(ANY_NAME)
def test_a_command_of_the_earlier_spelling_is_recognised_too(name: str) -> None:
    launcher = Path(f"/{name}/bin/sessionpipe-hook")
    quoted = re.sub(r'([\\"$`])', r"\\\1", str(launcher))
    earlier = f'[ ! -x "{quoted}" ] || exec "{quoted}" codex SessionEnd'
    assert recognise(earlier) == (launcher, "codex", "SessionEnd")


@given(ANY_NAME)
def test_a_command_has_nothing_that_a_reader_of_settings_takes_for_a_variable(name: str) -> None:
    # As Gemini CLI 0.61.0 finds them in every string of its settings.
    assert not re.search(r"\$(?:\w+|\{[^}]+\})", command(Path(f"/{name}/bin/x"), "gemini-cli", "AfterAgent"))
