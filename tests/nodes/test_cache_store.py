"""One contract for every place that results are cached in."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import threading
import time
import uuid
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3
import pytest
from obstore.store import MemoryStore, S3Store

from tallgrass.errors import InvalidInput, NodeWalFull, RunBusy
from tallgrass.nodes.cache_store import (
    CacheStore,
    FolderCache,
    Found,
    ObjectCache,
    sealed,
)
from tallgrass.nodes.key_locks import FolderLocks
from tests.nodes.faulty_files import failing_at
from tests.support.aws import REGION

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.aws import AwsServer

BOUND = 10_000


def key(number: int) -> str:
    """Some key."""
    return sha256(b"%d" % number).hexdigest()


class Place(NamedTuple):
    """A cache, and a way to write into it past its own verbs."""

    cache: CacheStore
    plant: Callable[[str, bytes], None]
    read: Callable[[str], bytes]


@pytest.fixture(params=["folder", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each kind of cache."""
    if request.param == "folder":
        root = tmp_path / "cache"

        def plant(name: str, data: bytes) -> None:
            (root / name[:2]).mkdir(parents=True, exist_ok=True)
            (root / name[:2] / name).write_bytes(data)

        def read(name: str) -> bytes:
            return (root / name[:2] / name).read_bytes()

        return Place(FolderCache(root, bytes_max=BOUND), plant, read)
    store: Any = MemoryStore()
    if request.param == "s3":
        store = bucket(request.getfixturevalue("ministack"))

    def put(name: str, data: bytes) -> None:
        store.put(f"node-cache/{name[:2]}/{name}", data)

    def get(name: str) -> bytes:
        return bytes(store.get(f"node-cache/{name[:2]}/{name}").bytes())

    return Place(ObjectCache(store, bytes_max=BOUND, count_every=1), put, get)


def bucket(server: AwsServer) -> S3Store:
    """An empty bucket of an emulator."""
    name = f"cache-{uuid.uuid4().hex[:12]}"
    identity = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    client = boto3.client("s3", endpoint_url=server.url, region_name=REGION, **identity)
    client.create_bucket(Bucket=name)
    client.close()
    return S3Store(
        name,
        endpoint=server.url,
        region=REGION,
        access_key_id="testing",
        secret_access_key="testing",  # noqa: S106 - an emulator's
        client_options={"allow_http": True},
    )


@pytest.mark.conformance("NR-4.3")
def test_what_was_put_is_found(place: Place) -> None:
    """A result is found by its key, and by no other."""
    assert place.cache.get(key(1)).found is Found.MISS
    assert place.cache.put(key(1), b"result")
    look = place.cache.get(key(1))
    assert (look.found, look.body) == (Found.HIT, b"result")
    assert place.cache.get(key(2)).found is Found.MISS
    place.cache.delete(key(1))
    place.cache.delete(key(1))
    assert place.cache.get(key(1)).found is Found.MISS


def test_the_first_result_of_a_key_stays(place: Place) -> None:
    """Two runners that computed one key agree on the first."""
    assert place.cache.put(key(1), b"first")
    assert not place.cache.put(key(1), b"second")
    assert place.cache.get(key(1)).body == b"first"


@pytest.mark.conformance("NR-12.2")
def test_no_byte_can_change_unnoticed(place: Place) -> None:
    """Flip any byte, cut or lengthen the entry: a miss, said to be corrupt, and then gone."""
    place.cache.put(key(1), b"result" * 3)
    whole = place.read(key(1))
    broken = [
        bytes(byte ^ (1 << (at % 8)) if at == number else byte for at, byte in enumerate(whole))
        for number in range(0, len(whole), 5)
    ]
    broken += [b"", whole[:-1], whole + b"x", whole[: len(whole) // 2]]
    broken += [sealed(key(2), b"result"), pickle.dumps({"a": 1})]
    for data in broken:
        place.plant(key(1), data)
        look = place.cache.get(key(1))
        assert (look.found, look.body) == (Found.CORRUPT, None)
        assert place.cache.get(key(1)).found is Found.MISS
    assert place.cache.put(key(1), b"again")


def test_a_cache_is_bounded(place: Place) -> None:
    """It never holds more than its bound for long; what could never fit is not taken."""
    for number in range(12):
        assert place.cache.put(key(number), b"x" * 1000)
    stats = place.cache.stats()
    assert 0 < stats.bytes <= stats.bytes_max == BOUND
    assert place.cache.get(key(11)).found is Found.HIT
    assert not place.cache.put(key(20), b"x" * BOUND)
    assert place.cache.get(key(20)).found is Found.MISS


def test_pruning_and_clearing_say_how_many_went(place: Place) -> None:
    """The count is that of the entries that are gone."""
    for number in range(4):
        place.cache.put(key(number), b"x" * 100)
    size = place.cache.stats().bytes // 4
    assert place.cache.stats().entries == 4
    assert place.cache.prune(size * 3) == 1
    assert place.cache.prune() == 0
    assert place.cache.clear() == 3
    assert place.cache.stats().entries == 0


@pytest.mark.parametrize("name", ["", "../" * 10, "A" * 64, "0" * 63, f"{'0' * 62}/x"])
def test_only_keys_are_keys(place: Place, name: str) -> None:
    """No name leads out of the cache."""
    with pytest.raises(InvalidInput):
        place.cache.get(name)
    with pytest.raises(InvalidInput):
        place.cache.put(name, b"")


def test_the_least_used_goes_first(tmp_path: Path) -> None:
    """A hit makes an entry young again."""
    cache = FolderCache(tmp_path, bytes_max=BOUND)
    old = time.time() - 1000
    for number in range(3):
        cache.put(key(number), b"x" * 100)
        path = tmp_path / key(number)[:2] / key(number)
        os.utime(path, (old + number, old + number))
    cache.get(key(0))
    size = cache.stats().bytes // 3
    assert cache.prune(size * 2) == 1
    assert cache.get(key(1)).found is Found.MISS
    assert cache.get(key(0)).found is Found.HIT


def test_a_link_in_the_cache_is_not_followed(tmp_path: Path) -> None:
    """Not even to a valid entry."""
    cache = FolderCache(tmp_path / "cache")
    cache.put(key(1), b"result")
    path = cache.root / key(1)[:2] / key(1)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.get(key(1)).found is Found.CORRUPT


def test_a_full_disk_leaves_no_entry_and_no_rest(tmp_path: Path) -> None:
    """Whichever operation fails, the cache has the whole entry or none."""
    for number in range(8):
        cache = FolderCache(tmp_path / str(number), files=failing_at(number, errno.ENOSPC))
        try:
            cache.put(key(1), b"result")
        except NodeWalFull:
            assert FolderCache(cache.root).get(key(1)).found in {Found.MISS, Found.HIT}
            assert FolderCache(cache.root).stats().entries <= 2
        else:
            assert number >= 5
    assert FolderCache(tmp_path / "7").get(key(1)).found is Found.HIT


@pytest.mark.conformance("NR-3.3")
def test_a_lock_admits_one_at_a_time(tmp_path: Path) -> None:
    """Sixteen threads through one lock: never two at once; a hundred names leave no more files."""
    locks = FolderLocks(tmp_path / "locks", sleep=time.sleep)
    inside, most = 0, []

    def enter() -> None:
        nonlocal inside
        held = locks.acquire("a", 60)
        inside += 1
        most.append(inside)
        time.sleep(0.001)
        inside -= 1
        locks.release(held)

    threads = [threading.Thread(target=enter) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 16
    held = [locks.acquire(str(number), 0) for number in range(100)]
    for each in held:
        locks.release(each)
    assert [path.name for path in (tmp_path / "locks").iterdir()] == ["keys"]


@pytest.mark.conformance("NR-3.3")
def test_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    """A kill -9 gives the lock back."""
    program = (
        "import sys, time\nfrom pathlib import Path\n"
        "from tallgrass.nodes.key_locks import FolderLocks\n"
        "FolderLocks(Path(sys.argv[1]), sleep=time.sleep).acquire('a', 1)\n"
        "print('held', flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        locks = FolderLocks(tmp_path, sleep=time.sleep)
        with pytest.raises(RunBusy):
            locks.acquire("a", 0)
        child.kill()
        child.wait()
    locks.release(locks.acquire("a", 30))
