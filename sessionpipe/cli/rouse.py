"""Getting the worker to look at what a command has just written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import sessionpipe
from sessionpipe.paths import State, config_dir
from sessionpipe.wake import wake


def rouse(state: State) -> None:
    """Wake the worker, or start one as a hook would: detached, holding nothing of this process.

    ``SESSIONPIPE_NO_WORKER`` keeps it from starting one, as it keeps a hook.
    """
    if wake(state) or "SESSIONPIPE_NO_WORKER" in os.environ:
        return
    program = Path(sessionpipe.__file__).with_name("__main__.py")
    environment = {
        **os.environ,
        "SESSIONPIPE_STATE_DIR": str(state.root.absolute()),
        "SESSIONPIPE_CONFIG_DIR": str(config_dir().absolute()),
    }
    subprocess.Popen(  # noqa: S603  # our own interpreter and our own file
        [sys.executable, "-I", str(program), "worker"],
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
