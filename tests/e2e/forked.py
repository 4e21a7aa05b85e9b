"""Commands run in real processes that cost no start: forked from one that has imported everything.

``python -m tests.e2e.forked`` reads requests, one JSON object a line, and answers each with the exit
status of a child that did it: negative for the signal that killed it. A sweep over fault points needs
hundreds of processes, and most of a process's time is its imports.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import resource
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import sessionpipe
from sessionpipe import faults, flush, hook, outbox, worker
from sessionpipe.adapters import registry
from sessionpipe.cli import cli
from sessionpipe.privacy.secrets import redact
from tests.patience import PATIENCE_S

#: Modules that are run rather than imported, and those the commands here have nothing to do with.
_APART = re.compile(r"__main__|\.hook$|journal|stream")


class Forked:
    """The process that forks; one request at a time."""

    def __init__(self) -> None:
        nowhere = {f"SESSIONPIPE_{name}_DIR": f"{os.devnull}/none" for name in ("STATE", "CONFIG")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.forked"],
            env={**os.environ, **nowhere},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )

    def run(self, *argv: str, env: dict[str, str], said: Path, **how: Any) -> int:
        """``sessionpipe ARGV`` under ``env``; what it prints goes to the file ``said``.

        What it prints on stderr goes to the file ``erred`` where one is named. ``cwd`` is where it runs.
        ``hook HARNESS EVENT`` is the hook, with the file ``stdin`` as its standard input. ``fault`` is a
        fault point, ``uid`` the user it runs as, ``fsize`` how large a file it may write at most,
        ``patience`` how long a flush tries, ``busy`` how long a lock is waited for, in seconds.
        """
        stdin, stdout = self._pipes()
        stdin.write(json.dumps({"argv": argv, "env": env, "said": str(said), **how}) + "\n")
        stdin.flush()
        return int(stdout.readline())

    def command(
        self, *argv: str, env: dict[str, str], cwd: Path, stdin: str, folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """``sessionpipe ARGV`` as :func:`subprocess.run` tells of it; ``folder`` is for what it reads and prints."""
        given, said, erred = (folder / f"command.{name}" for name in ("in", "out", "err"))
        given.write_text(stdin)
        status = self.run(*argv, env=env, cwd=str(cwd), stdin=str(given), said=said, erred=str(erred))
        return subprocess.CompletedProcess(argv, status, said.read_text(), erred.read_text())

    def close(self) -> None:
        stdin, stdout = self._pipes()
        stdin.close()
        self._process.wait(PATIENCE_S)
        stdout.close()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        return self._process.stdin, self._process.stdout


def serve() -> None:
    """Fork for each request, wait, answer."""
    for module in pkgutil.walk_packages(sessionpipe.__path__, "sessionpipe."):
        if not _APART.search(module.name):
            importlib.import_module(module.name)
    # What a process loads once when it first needs it: the adapters' tables, the rules.
    for name in registry.names():
        registry.adapter(name)
    redact("the rules are loaded once")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _be(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _be(request: dict[str, Any]) -> None:
    """Be the command that is asked for; never returns."""
    code = 1
    try:
        given = os.open(request.get("stdin", os.devnull), os.O_RDONLY)
        out = os.open(request["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        erred = request.get("erred")
        err = out if erred is None else os.open(erred, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for fd, other in ((0, given), (1, out), (2, err)):
            os.dup2(other, fd)
        if (cwd := request.get("cwd")) is not None:
            os.chdir(cwd)
        os.environ.clear()
        os.environ.update(request["env"])
        os.umask(0o077)
        if (fsize := request.get("fsize")) is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (fsize, fsize))
        if (uid := request.get("uid")) is not None:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        faults.arm(request.get("fault") or request["env"].get("SESSIONPIPE_FAULT", ""))
        if (busy := request.get("busy")) is not None:
            outbox.PATIENCE_S = busy
        if (patience := request.get("patience")) is not None:
            flush.flush.__defaults__ = (patience,)
        if request["argv"] == ["worker"]:
            worker.LINGER_S = worker.UPKEEP_AFTER_S = 0.0  # Nothing more comes.
            code = worker.main()
        elif request["argv"][0] == "hook":
            code = 0
            with suppress(BaseException):  # As it does itself, where it is the program.
                hook.main(request["argv"])
        else:
            cli(request["argv"], prog_name="sessionpipe")
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    time.tzset()
    serve()
