"""``sessionpipe`` and ``python -m sessionpipe``; also the file a hook starts the worker from."""

from __future__ import annotations

import gc
import os
import sys

#: What these print is all they do: nothing is left to see to when they are done.
_PRINTING = frozenset(("status", "doctor", "sessions", "tail", "map", "filter", "redact", "version"))


def main() -> None:
    """Run the command line, or the worker without loading the command line at all."""
    # The worker is started far more often than any other command, with a person's agent running
    # beside it: click alone would cost it 40 ms of CPU.
    if sys.argv[1:] == ["worker"]:
        from sessionpipe.worker import main as worker

        sys.exit(worker())
    if sys.argv[1:] == ["compile"]:
        from sessionpipe.install.native import main as compile_hook

        sys.exit(compile_hook())
    # What a short command makes it keeps: 30 000 objects, modules above all, among which no garbage is found.
    gc.set_threshold(50_000)
    from sessionpipe.cli import cli

    try:
        cli(prog_name="sessionpipe")
    except SystemExit as ended:
        if ended.code == 0 and not _PRINTING.isdisjoint(sys.argv[1:2]):
            _leave()
        raise
    except Exception as error:
        # A fault of ours is one line too; where it happened is in the log, redacted.
        from sessionpipe.cli.common import unexpected

        sys.exit(unexpected(error))


def _leave() -> None:
    """End well and at once: taking all modules apart is a tenth of what a quick command takes.

    Comes back where what was printed does not get through, for the interpreter to end as it does then.
    """
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return
    os._exit(0)


def _be_the_package_of_this_file() -> None:
    """Import ``sessionpipe`` from beside this file, whatever else the path may hold.

    A hook starts this file by its path and with -I: the worker must be of the same installation as
    the hook, and what is installed elsewhere must not take its place. The folder above goes last on
    the path: our dependencies may be there, and nothing in it may shadow another module.
    """
    from importlib.util import module_from_spec, spec_from_file_location

    package = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    spec = spec_from_file_location(
        "sessionpipe",
        f"{package}{os.sep}__init__.py",
        submodule_search_locations=[package],
    )
    if spec is not None and spec.loader is not None:
        sys.modules["sessionpipe"] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
    sys.path.append(os.path.dirname(package))  # noqa: PTH120


if __name__ == "__main__":
    _be_the_package_of_this_file()
    main()
