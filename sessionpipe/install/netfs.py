"""Whether a folder is on a network file system, where neither locks nor renames keep their promises."""

from __future__ import annotations

import os
import re
from pathlib import Path

_NETWORK = {
    "9p",
    "afs",
    "ceph",
    "cifs",
    "fuse.glusterfs",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
    "gfs2",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "smb3",
    "smbfs",
}


def network_file_system(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """The kind of the network file system that ``folder`` (or its first existing parent) is on.

    None where it is on a local one, and where ``mounts`` (Linux) can't tell.
    """
    try:
        text = mounts.read_text("utf-8", "surrogateescape")
    except OSError:
        return None
    real, kind, longest = Path(os.path.realpath(folder)), "", -1
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4]))
        # The last of several mounts on one point is the one in sight.
        if real.is_relative_to(point) and len(point.parts) >= longest:
            kind, longest = after.split(" ", 1)[0], len(point.parts)
    return kind if kind in _NETWORK else None


__all__ = ["network_file_system"]
