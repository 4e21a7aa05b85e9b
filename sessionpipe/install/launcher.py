"""The launcher a harness runs, ``<state>/bin/sessionpipe-hook``, and the command that names it.

The command stands in other programs' files and must not change on an upgrade (Codex asks for trust
again when it does), so everything that can move is in the launcher, which ``install`` rewrites: the
interpreter, ``hook.py``, both directories. The interpreter's path is the unresolved one, because a
resolved path names a version and dies with it. A compiled copy of the hook stands beside it, since
compiling ``hook.py`` at every hook would take longer than all that the hook does; where ``hook.py``
is newer (an upgrade), or the interpreter refuses the copy (another version), ``hook.py`` itself runs.
Where :mod:`~sessionpipe.install.native` could compile ``hook.c``, that runs, and no interpreter starts at
all. It always exits 0 once it runs, so anything else says that it did not begin and the interpreter's turn has
come. One that was killed may have read the payload or not: then ``hook.py`` records only what it still finds,
on standard input or in an argument.

The agent must never notice us, so the launcher

- runs the hook as a child rather than by ``exec``: an interpreter that crashes, that is no program,
  or that complains, still ends in exit 0 and silence. It costs about half a millisecond;
- gives the hook no way to print, and prints the answer a harness requires itself, first.
"""

from __future__ import annotations

import marshal
import os
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from typing import Any, NamedTuple

from sessionpipe.install import native
from sessionpipe.install.files import remove_folders, replace, sweep
from sessionpipe.paths import State, make_private
from sessionpipe.places import make_ours, read_file

# What :func:`command` writes, or once wrote, for any state directory: a path inside double quotes, and on
# Windows just that, or what PowerShell wants.
_COMMAND = re.compile(
    r'(?:\[ ! -x "(?P<guard>(?:[^"\\]|\\.|"\'[$`]\'")*/bin/sessionpipe-hook)" \] \|\| exec "(?P=guard)"'
    r'|"(?P<windows>[^"]*\\bin\\sessionpipe-hook\.cmd)"'
    r"|& '(?P<powershell>(?:[^']|'')*\\bin\\sessionpipe-hook\.cmd)')"
    r" (?P<harness>[a-z0-9-]+) (?P<event>[A-Za-z0-9_.-]+)",
    re.DOTALL,
)
# What stands for a character within that path: a backslash before it, or single quotes around it.
_ESCAPED = re.compile(r"""\\(.)|"'(.)'["]""", re.DOTALL)


class Answer(NamedTuple):
    """What a harness wants on stdout: ``text`` for every event but ``silent``'s."""

    text: str
    silent: Sequence[str] = ()


class Ours(NamedTuple):
    """A command of ours, found in a harness's file."""

    launcher: Path
    harness: str
    event: str


def command(launcher: Path, harness: str, event: str) -> str:
    """The command line for a harness's file: silence and exit 0 where the launcher is gone.

    Raises :class:`ValueError` for a path that no JSON file can hold.
    """
    path = str(launcher)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the state directory's name is not UTF-8: {path!r}") from None
    if os.name == "nt":
        return f'"{path}" {harness} {event}'
    # A dollar sign stands by itself in single quotes, so that no name follows it: Gemini CLI puts variables
    # into its settings' strings before a shell sees them, whatever stands before the sign. Neither does fish
    # know a backtick with a backslash before it.
    quoted = re.sub(r"[$`]", lambda sign: f"\"'{sign[0]}'\"", re.sub(r'([\\"])', r"\\\1", path))
    return f'[ ! -x "{quoted}" ] || exec "{quoted}" {harness} {event}'


def powershell(launcher: Path, harness: str, event: str) -> str:
    """The command line for a harness that hands it to PowerShell."""
    quoted = str(launcher).replace("'", "''")
    return f"& '{quoted}' {harness} {event}"


def recognise(text: str) -> Ours | None:
    """Which of our commands ``text`` is, whatever state directory it was written for."""
    match = _COMMAND.fullmatch(text)
    if match is None:
        return None
    if match["powershell"]:
        path = match["powershell"].replace("''", "'")
    else:
        path = match["windows"] or _ESCAPED.sub(lambda found: found[1] or found[2], match["guard"])
    return Ours(Path(path), match["harness"], match["event"])


#: What lets the shell hand on what the harness adds to a program's arguments.
_REST = ' "$@"'


def program(launcher: Path, harness: str, event: str) -> list[str]:
    """The same as :func:`command`, for a harness that runs a program and adds its payload as an argument."""
    if os.name == "nt":
        return [str(launcher), harness, event]
    return ["/bin/sh", "-c", command(launcher, harness, event) + _REST, launcher.name]


def recognise_program(value: Any) -> Ours | None:
    """Which of our programs ``value`` is."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        return None
    if len(value) == 4 and value[:2] == ["/bin/sh", "-c"] and value[2].endswith(_REST):
        return recognise(value[2].removesuffix(_REST))
    return recognise('"{}" {} {}'.format(*value)) if len(value) == 3 else None


def script(
    python: str,
    hook: str,
    compiled: str,
    state: str,
    config: str,
    answers: Mapping[str, Answer],
    *,
    program: str = "",
    machine: str = "",
) -> bytes:
    """The launcher's text: POSIX ``sh``, any byte in any path.

    ``program`` is the hook that needs no interpreter, if there is one, and ``machine`` the one it runs on.
    """
    lines = [
        "#!/bin/sh",
        "# Written by `sessionpipe install`. Whatever happens here, the agent sees exit 0 and silence.",
    ]
    if answers:
        # A reader that went away must not keep the hook from running.
        lines += ["trap '' PIPE", 'case "$1 $2" in']
        for harness, answer in sorted(answers.items()):
            lines += [f'"{harness} {event}") ;;' for event in sorted(answer.silent)]
            lines += [f'"{harness} "*) printf %s {_quoted(answer.text)} 2>/dev/null ;;']
        lines += ["esac"]
    lines += [
        "[ -w /dev/null ] || exit 0",
        "exec >/dev/null 2>&1",
        f"hook={_quoted(hook)}",
        f"python={_quoted(python)}",
        '[ -r "$hook" ] || exit 0',
        '[ -x "$python" ] || python=$(command -v python3) || exit 0',
        f"export SESSIONPIPE_STATE_DIR={_quoted(state)} SESSIONPIPE_CONFIG_DIR={_quoted(config)}",
        "# The hook's own parent is this shell.",
        "export SESSIONPIPE_PPID=$PPID",
    ]
    if machine:
        lines += [
            f"program={_quoted(program)}",
            "# Another machine's program would be taken for a script by some shells.",
            'if [ "$program" -nt "$hook" ] && read -r machine </etc/machine-id'
            f' && [ "$machine" = {_quoted(machine)} ]; then',
            '  "$program" "$python" "$hook" "$@" && exit 0',
            "  # Killed, it may have read the payload already, and recorded it; anything else did not begin.",
            "  [ $? -lt 128 ] || export SESSIONPIPE_AGAIN=1",
            "fi",
        ]
    lines += [
        f"compiled={_quoted(compiled)}",
        '[ -f "$compiled" ] && [ "$compiled" -nt "$hook" ] || compiled=$hook',
        '"$python" -I -S "$compiled" "$@"',
        "# It always exits 0, so 1 is an interpreter that did not take the compiled copy: nothing was read yet.",
        '[ $? -ne 1 ] || "$python" -I -S "$hook" "$@"',
        "exit 0",
        "",
    ]
    return os.fsencode("\n".join(lines))


def script_cmd(python: str, hook: str, state: str, config: str, answers: Mapping[str, Answer]) -> bytes:
    """The launcher for Windows. Nobody has run it there yet."""
    lines = ["@echo off", "setlocal DisableDelayedExpansion"]
    for harness, answer in sorted(answers.items()):
        silent = "".join(f'if not "%~2"=="{event}" ' for event in sorted(answer.silent))
        lines += [f'if "%~1"=="{harness}" {silent}echo {answer.text}']
    lines += [
        f'set "SESSIONPIPE_STATE_DIR={_percent(state)}"',
        f'set "SESSIONPIPE_CONFIG_DIR={_percent(config)}"',
        f'"{_percent(python)}" -I -S "{_percent(hook)}" %* >nul 2>nul',
        "exit /b 0",
        "",
    ]
    return "\r\n".join(lines).encode()


def write(state: State, config: Path, answers: Mapping[str, Answer]) -> bool:
    """Write the launcher and the compiled hook; False when both stood there. Raises :class:`OSError`."""
    make_private(state.root)
    make_ours(state.bin)
    wrote = [_keep(path, *what) for path, what in _wanted(state, config, answers).items()]
    return any(wrote)


def current(state: State, config: Path, answers: Mapping[str, Answer]) -> bool:
    """Whether the launcher is the one :func:`write` would write."""
    return all(_stands(path, *what) for path, what in _wanted(state, config, answers).items())


def trouble(launcher: Path) -> tuple[str, str]:
    """Why no agent can run ``launcher``, and how to mend that where ``install`` would not; both empty where it can."""
    if os.name == "nt" or os.access(launcher, os.X_OK):
        return "", ""
    try:
        runnable = launcher.stat().st_mode & 0o111
    except OSError:
        return "the launcher that it runs is gone", ""
    if not runnable:
        return "the launcher that it runs is not executable", ""
    return (
        f"nothing in {launcher.parent} can be run (it is mounted noexec, or not yours): no hook fires",
        "mount it without noexec, or set SESSIONPIPE_STATE_DIR to another folder and install again",
    )


def remove(state: State) -> None:
    """Remove the launcher and what came with it."""
    for path in (state.launcher, _compiled(state)):
        path.unlink(missing_ok=True)
        sweep(path)
    native.remove(state)
    remove_folders([state.bin])


def _wanted(state: State, config: Path, answers: Mapping[str, Answer]) -> dict[Path, tuple[bytes, int]]:
    """Each file of ours below ``bin``, with its bytes and its mode."""
    source = Path(__file__).parent.parent / "hook.py"
    hook, compiled = _absolute(source), _absolute(_compiled(state))
    root, settings = _absolute(state.root), _absolute(config)
    if os.name == "nt":
        return {state.launcher: (script_cmd(sys.executable, hook, root, settings, answers), 0o600)}
    program = _absolute(native.program(state))
    text = script(
        sys.executable, hook, compiled, root, settings, answers, program=program, machine=native.machine()
    )
    return {
        _compiled(state): (_compile(source.read_bytes(), hook), 0o600),
        state.launcher: (text, 0o700),
    }


def _absolute(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100  # Path.resolve would follow links


def _compiled(state: State) -> Path:
    return state.bin / "hook.pyc"


def _compile(source: bytes, name: str) -> bytes:
    """``source`` as a ``.pyc`` that is never checked against it: compiling it anew costs a third of a hook."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=2)
    unchecked = (1).to_bytes(4, "little")  # PEP 552
    return MAGIC_NUMBER + unchecked + source_hash(source) + marshal.dumps(code)


def _keep(path: Path, data: bytes, mode: int) -> bool:
    if _stands(path, data, mode):
        return False
    sweep(path)
    replace(path, data, mode=mode)
    return True


def _stands(path: Path, data: bytes, mode: int) -> bool:
    try:
        return stat.S_IMODE(path.lstat().st_mode) == mode and read_file(path) == data
    except OSError:
        return False


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _percent(text: str) -> str:
    return text.replace("%", "%%")


__all__ = [
    "Answer",
    "Ours",
    "command",
    "current",
    "powershell",
    "program",
    "recognise",
    "recognise_program",
    "remove",
    "script",
    "script_cmd",
    "trouble",
    "write",
]
