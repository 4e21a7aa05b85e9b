"""A program that stands in a pipe and notes what it saw: the front with a reader for tests.

``along.py NOTES READER TEE QUEUE [COMMAND…]``: NOTES gets a JSON line per frame; READER is ``note``, ``die`` (at
the first frame), ``stuck`` (until NOTES has company, ``NOTES.go``), ``slow`` (but at work), ``prints`` or
``patient`` (a signal is not passed on to a command that got it, too); ``late`` is one that leaves our group only
once NOTES has company.
``NOTES.seen`` is there when something has been read.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from sessionpipe.stream import child, front
from sessionpipe.stream.child import NotStarted
from sessionpipe.stream.frames import Chunk, Incoming

notes, reader, tee, queue, *command = sys.argv[1:]
front.QUEUE_BYTES = int(queue)
front.STILL_S = 0.5
front._READER_S = 1.0 if reader == "slow" else front._READER_S
# A command that is to end by itself gets the time for it on any machine.
child.PATIENCE_S = 60.0 if reader in ("patient", "late") else 0.1

leave_group = os.setsid


def leave_late() -> None:
    while not Path(notes + ".go").exists():
        time.sleep(0.01)
    leave_group()


if reader == "late":
    os.setsid = leave_late


def read_along(incoming: Incoming) -> front.Report:
    if reader == "stuck":
        while not Path(notes + ".go").exists():
            time.sleep(0.01)
    size = 0
    with Path(notes).open("w", buffering=1) as file:
        for frame in incoming:
            if reader == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if isinstance(frame, Chunk):
                size += len(frame.data)
                Path(notes + ".seen").touch()
                if reader == "slow":
                    time.sleep(len(frame.data) / (2 << 20))
                if reader == "prints":
                    try:
                        os.write(1, frame.data)
                    except BrokenPipeError:
                        incoming.close()
                        return front.Report(closed=True)
            else:
                file.write(json.dumps([type(frame).__name__, *frame[1:]]) + "\n")
        file.write(json.dumps(["read", size]) + "\n")
    return front.Report(say=["that was all"])


try:
    ended = front.Front(
        read_along, command=command or None, env={"ADDED": "yes"}, tee=tee == "tee", prints=reader == "prints"
    ).run()
except NotStarted as failed:
    print(failed, file=sys.stderr)
    sys.exit(failed.status)
print("\n".join(ended.say), file=sys.stderr)
if ended.by_signal:
    front.end_by(ended.by_signal)
sys.exit(ended.status)
