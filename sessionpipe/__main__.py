"""``sessionpipe`` and ``python -m sessionpipe``; also the file a hook starts the worker from."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or the worker without loading the command line at all."""
    # The worker is started far more often than any other command, with a person's agent running
    # beside it: click alone would cost it 40 ms of CPU.
    if sys.argv[1:] == ["worker"]:
        from sessionpipe.worker import main as worker

        sys.exit(worker())
    from sessionpipe.cli import cli

    cli(prog_name="sessionpipe")


if __name__ == "__main__":
    # A hook starts this file by its path and with -I, so that it is found wherever it is installed;
    # the folder of this file must not shadow anything, and the one above it must be importable.
    here = __file__.rpartition("sessionpipe")[0].rstrip("/\\") or "/"
    sys.path[:] = [entry for entry in sys.path if entry != f"{here}/sessionpipe"]
    if here not in sys.path:
        sys.path.append(here)
    main()
