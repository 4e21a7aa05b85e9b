"""A network file system is told from Linux's table of mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessionpipe.install.netfs import network_file_system

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:30 / /net rw - nfs4 server:/export rw
24 23 8:2 / /net/local rw - xfs /dev/sdb rw
25 22 0:31 / /with\040space rw - fuse.sshfs host: rw
26 22 0:32 / /over rw - cifs //server/share rw
27 22 0:33 / /over rw - tmpfs tmpfs rw
a line of another kind
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/dev", None),
        ("/net/x/y", "nfs4"),
        ("/network", None),
        ("/net/local/x", None),
        ("/with space/x", "fuse.sshfs"),
        ("/over/x", None),
    ],
)
def test_the_innermost_and_latest_mount_counts(tmp_path: Path, folder: str, kind: str | None) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    assert network_file_system(Path(folder), table) == kind


def test_where_there_is_no_table_nothing_is_said(tmp_path: Path) -> None:
    assert network_file_system(tmp_path, tmp_path / "absent") is None
