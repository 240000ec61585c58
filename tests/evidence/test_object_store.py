from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.evidence import object_store
from tallgrass.evidence.object_store import LocalObjects, ObjectBytes, RangeUnread
from tallgrass.evidence.reading import ReadFailure

if TYPE_CHECKING:
    from pathlib import Path

TAIL = 1024


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder for objects, beside a file that must never be read."""
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "objects" / "bucket").mkdir(parents=True)
    return tmp_path / "objects"


def put(folder: Path, key: str, content: bytes) -> Path:
    """Write an object of the bucket."""
    path = folder / "bucket" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def read(folder: Path, uri: str) -> ObjectBytes | ReadFailure:
    """Read an object through a store of its own."""
    return LocalObjects(folder).read(uri, TAIL)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 4095, 4096, 4097, 5120, 100_000])
def test_head_tail_size_and_etag(folder: Path, size: int) -> None:
    """The first 4,096 and the last bytes, the size and the MD5 of the content are read."""
    content = os.urandom(size)
    put(folder, "a/key", content)
    assert read(folder, "s3://bucket/a/key") == ObjectBytes(
        head=content[:4096],
        tail=content[-1024:],
        size=size,
        etag=hashlib.md5(content).hexdigest(),  # noqa: S324 - what S3 uses
    )


@pytest.mark.parametrize("excess", [-1, 0, 1, 700, 3 * 2000 + 5])
def test_a_large_object_is_read_in_pieces(
    folder: Path, monkeypatch: pytest.MonkeyPatch, excess: int
) -> None:
    """An object that is read in pieces gives the same answer as one that is read whole."""
    monkeypatch.setattr(object_store, "PIECE_BYTES", 5000)
    content = os.urandom(5000 + excess)
    put(folder, "large", content)
    answer = read(folder, "s3://bucket/large")
    assert answer == ObjectBytes(
        head=content[:4096],
        tail=content[-1024:],
        size=len(content),
        etag=hashlib.md5(content).hexdigest(),  # noqa: S324 - what S3 uses
    )


@pytest.mark.parametrize("piece_bytes", [2, 4096])
def test_a_copy_has_the_same_etag(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    """The etag is the content's alone: a copy in another folder, with another time, has it too."""
    monkeypatch.setattr(object_store, "PIECE_BYTES", piece_bytes)
    put(folder, "key", b"content")
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    os.utime(copy / "bucket" / "key", (0, 0))
    assert read(folder, "s3://bucket/key") == read(copy, "s3://bucket/key")


@pytest.mark.parametrize(
    "key", ["a b", "a+b", "a%20b", "a%2Fb", "%2e%2e", "T15:00", "ü", "x#y", "t?u", "a\\b", "..x"]
)
def test_a_key_is_a_name_and_nothing_else(folder: Path, key: str) -> None:
    """No character of a key is decoded or has a meaning."""
    put(folder, key, key.encode())
    answer = read(folder, f"s3://bucket/{key}")
    assert isinstance(answer, ObjectBytes)
    assert answer.head == key.encode()


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/../../secret",
        "s3://bucket/a/../../../secret",
        "s3://../secret",
        "s3://bucket//etc/passwd",
        "s3://bucket/./there",
        "s3://bucket/there/",
        "s3://bucket//there",
        "s3://bucket/there\0",
        "s3://bucket/%2e%2e/%2e%2e/secret",
        "s3:///etc/passwd",
        "/etc/passwd",
        "file:///etc/passwd",
        "gs://bucket/there",
        "s3://bucket",
        "s3://bucket/",
        "s3://bucket/folder",
        "s3://bucket/there/below",
        "s3://bucket/" + "x" * 300,
        "s3://bucket/there#1",
        "s3://elsewhere/there",
        "",
    ],
)
def test_no_other_spelling_reaches_a_file(folder: Path, uri: str) -> None:
    """What is not the address of a file in the folder is a missing object, whatever it spells."""
    put(folder, "there", b"there")
    put(folder, "folder/inside", b"inside")
    answer = read(folder, uri)
    assert isinstance(answer, ReadFailure)
    assert answer.code in {"missing_object", "io_error"}
    assert str(folder) not in answer.message
    assert "\n" not in answer.message


def test_a_missing_object_is_missing(folder: Path) -> None:
    """An object that is not there has the code for it, and may come; the message names it."""
    answer = read(folder, "s3://bucket/nothing")
    assert answer == ReadFailure(
        code="missing_object", message="s3://bucket/nothing is not in the folder", may_come=True
    )


def test_what_no_path_can_be_never_comes(folder: Path) -> None:
    """A key that is no path of a folder is not waited for."""
    answer = read(folder, "s3://bucket/a//b")
    assert isinstance(answer, ReadFailure)
    assert (answer.code, answer.may_come) == ("missing_object", False)


AS_NOBODY = """
import os, sys
from pathlib import Path
from tallgrass.evidence.object_store import LocalObjects
if os.getuid() == 0:
    os.setuid(65534)
print(LocalObjects(Path(sys.argv[1])).read("s3://bucket/closed", 1024).code)
print(LocalObjects(Path(sys.argv[1])).read("s3://closed/key", 1024).code)
"""


def test_a_denied_object_is_denied(folder: Path, tmp_path: Path) -> None:
    """A file, or a folder, that may not be read has the code for it."""
    for parent in (folder, *folder.parents):
        if parent.stat().st_uid == os.getuid() and parent != parent.parent:
            parent.chmod(parent.stat().st_mode | 0o011)
    put(folder, "closed", b"closed").chmod(0)
    (folder / "closed").mkdir()
    (folder / "closed" / "key").write_bytes(b"")
    (folder / "closed").chmod(0)
    try:
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(folder)],
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        (folder / "closed").chmod(0o700)
    assert done.stdout.split() == ["access_denied", "access_denied"]


class ChangingStore:
    """A store in which somebody writes the object between two calls."""

    def __init__(self, store: Any, path: Path, content: bytes) -> None:
        self._store, self._path, self._content = store, path, content

    def get(self, path: str) -> Any:
        """Answer from the old file."""
        return self._store.get(path)

    def get_range(self, path: str, **part: int) -> Any:
        """Answer from the old file."""
        return self._store.get_range(path, **part)

    def head(self, path: str) -> Any:
        """Answer from the new file."""
        self._path.write_bytes(self._content)
        return self._store.head(path)


@pytest.mark.parametrize("piece_bytes", [2, 4096])
@pytest.mark.parametrize("content", [b"another", b"a longer content"])
def test_an_object_that_changes_while_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int, content: bytes
) -> None:
    """Bytes of an object that was written meanwhile are not taken for any version of it."""
    monkeypatch.setattr(object_store, "PIECE_BYTES", piece_bytes)
    path = put(folder, "key", b"content")
    os.utime(path, (0, 0))
    monkeypatch.setattr(object_store, "_read_small", lambda _: None)
    objects = LocalObjects(folder)
    objects._store = ChangingStore(objects._store, path, content)  # type: ignore[assignment]
    answer = objects.read("s3://bucket/key", TAIL)
    assert answer == ReadFailure(
        code="io_error", message="s3://bucket/key changed while it was read"
    )


@pytest.mark.parametrize("content", [b"another", b"a longer content", b"less"])
def test_a_small_object_that_changes_while_it_is_read_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """A small file that is written while it is read gives the new content, or none; never both."""
    path = put(folder, "key", b"content")
    os.utime(path, (0, 0))
    read_file = os.read

    def written_meanwhile(descriptor: int, length: int) -> bytes:
        data = read_file(descriptor, length)
        path.write_bytes(content)
        return data

    monkeypatch.setattr(os, "read", written_meanwhile)
    answer = LocalObjects(folder).read("s3://bucket/key", TAIL)
    assert isinstance(answer, ObjectBytes)
    assert (answer.head, answer.size) == (content, len(content))
    assert answer.etag == hashlib.md5(content, usedforsecurity=False).hexdigest()


def test_a_pipe_is_no_object(folder: Path) -> None:
    """It is missing: whoever opened it would wait for somebody to write into it."""
    path = put(folder, "key", b"")
    path.unlink()
    os.mkfifo(path)
    answer = read(folder, "s3://bucket/key")
    assert isinstance(answer, ReadFailure)
    assert answer.code == "missing_object"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermissionError("no"), "access_denied"),
        (OSError("Input/output error (os error 5)"), "io_error"),
        (OSError("odd"), "io_error"),
    ],
)
def test_every_error_of_the_store_has_a_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    """An error of the file system becomes a code and one line."""

    class BrokenStore:
        def get(self, path: str) -> Any:
            raise error

    objects = LocalObjects(folder)
    objects._store = BrokenStore()  # type: ignore[assignment]
    answer = objects.read("s3://bucket/key", TAIL)
    assert isinstance(answer, ReadFailure)
    assert answer.code == code
    assert "s3://bucket/key" in answer.message


def test_further_bytes_are_of_the_same_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of a large file can be read while it is the same; of another one nothing is."""
    monkeypatch.setattr(object_store, "PIECE_BYTES", 1000)
    path = tmp_path / "bucket" / "key"
    path.parent.mkdir()
    path.write_bytes(bytes(range(250)) * 20)
    answer = LocalObjects(tmp_path).read("s3://bucket/key", 10)
    assert isinstance(answer, ObjectBytes)
    assert answer.near
    assert answer.more is not None
    assert answer.more(4998, 10) == bytes([248, 249])
    assert answer.more(253, 4) == bytes([3, 4, 5, 6])
    path.write_bytes(bytes(5001))
    with pytest.raises(RangeUnread) as caught:
        answer.more(0, 4)
    assert caught.value.failure.code == "io_error"
    path.unlink()
    with pytest.raises(RangeUnread) as caught:
        answer.more(0, 4)
    assert caught.value.failure.code == "missing_object"


def test_further_bytes_of_a_small_file_are_those_that_were_read(tmp_path: Path) -> None:
    """A small file was read whole: whatever becomes of it, its bytes are at hand."""
    path = tmp_path / "bucket" / "key"
    path.parent.mkdir()
    path.write_bytes(b"0123456789")
    answer = LocalObjects(tmp_path).read("s3://bucket/key", 4)
    assert isinstance(answer, ObjectBytes)
    path.write_bytes(b"other")
    assert answer.more is not None
    assert answer.more(3, 4) == b"3456"
