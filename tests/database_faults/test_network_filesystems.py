"""A SQLite file on a network file system is refused: its locks do not hold between hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallgrass.errors import DatabaseUnusable
from tallgrass.storage.sqlite import refuse_network_filesystem

ROOT_LINE = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw"


def mounts(*points: tuple[str, str]) -> str:
    """Return a table of mounts, as the kernel writes it, with these (point, kind)."""
    lines = [
        f"{30 + index} 22 0:{40 + index} / {point} rw,relatime shared:{index} - {kind} source rw"
        for index, (point, kind) in enumerate(points)
    ]
    return "\n".join([ROOT_LINE, *lines]) + "\n"


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "fuse.s3fs", "lustre"]
)
def test_a_network_file_system_is_refused(kind: str) -> None:
    """The refusal names the mount, the kind, and what to do instead."""
    with pytest.raises(DatabaseUnusable) as refused:
        refuse_network_filesystem(Path("/mnt/share/ledger.db"), mounts(("/mnt/share", kind)))
    assert refused.value.code == "database_on_network_filesystem"
    assert "/mnt/share" in str(refused.value)
    assert kind in str(refused.value)
    assert "local disk" in refused.value.about.remedy


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "fuse.lxcfs"])
def test_a_local_file_system_is_accepted(kind: str) -> None:
    """Disks, memory and container layers of this machine are used without a word."""
    refuse_network_filesystem(Path("/mnt/disk/ledger.db"), mounts(("/mnt/disk", kind)))


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/srv/ledger.db", True),
        ("/srv/local/ledger.db", False),
        ("/srv/local/share/ledger.db", True),
        ("/srv-other/ledger.db", False),
        ("/srv/localish/ledger.db", True),
    ],
)
def test_the_innermost_mount_counts(path: str, *, refused: bool) -> None:
    """Of mounts inside each other the one that the file lies on decides, by whole names."""
    table = mounts(("/srv", "nfs4"), ("/srv/local", "ext4"), ("/srv/local/share", "cifs"))
    assert is_refused(path, table) is refused


def test_of_two_mounts_on_one_point_the_later_counts() -> None:
    """What was mounted over another hides it."""
    assert is_refused("/data/l.db", mounts(("/data", "ext4"), ("/data", "nfs4")))
    assert not is_refused("/data/l.db", mounts(("/data", "nfs4"), ("/data", "ext4")))


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (r"/mnt/two\040words", "/mnt/two words/ledger.db"),
        (r"/mnt/tab\011bed", "/mnt/tab\tbed/ledger.db"),
        (r"/mnt/back\134slash", "/mnt/back\\slash/ledger.db"),
        ("/mnt/größe", "/mnt/größe/ledger.db"),
        (r"/mnt/größe\040zwei", "/mnt/größe zwei/ledger.db"),
        (r"/mnt/like\134040this", r"/mnt/like\040this/ledger.db"),
    ],
)
def test_mount_points_are_read_as_the_kernel_writes_them(written: str, path: str) -> None:
    """Blanks, tabs and backslashes come as octal; all else, like letters with dots, as it is."""
    assert is_refused(path, mounts((written, "nfs4")))


def test_the_whole_machine_may_be_on_the_network() -> None:
    """A root file system on the network is refused like any other."""
    assert is_refused("/var/ledger.db", "22 1 0:20 / / rw - nfs4 server:/root rw\n")


def is_refused(path: str, table: str) -> bool:
    """Whether a file at the path is refused under these mounts."""
    try:
        refuse_network_filesystem(Path(path), table)
    except DatabaseUnusable:
        return True
    return False
