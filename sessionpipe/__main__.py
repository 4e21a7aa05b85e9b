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
    # A hook starts this file by its path and with -I, which puts no folder of ours on the path; the
    # one above the package goes last, so that nothing in it shadows another module.
    import os

    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    if above not in sys.path:
        sys.path.append(above)
    main()
