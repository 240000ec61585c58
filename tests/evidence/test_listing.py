"""Listings: all of a bucket in the order of keys, whatever happens meanwhile."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Self

import pytest

from tallgrass.errors import ListingBroken, ListingRefused, TallgrassError
from tallgrass.evidence.cloud_objects import CloudObjects, Patience
from tallgrass.evidence.listing import CloudListing, FolderListing, Persistence
from tallgrass.evidence.plain_listing import plain_listing
from tallgrass.evidence.read_ahead import read_ahead
from tallgrass.retry import Backoff
from tests.support.listing_server import Bucket, ListingServer, breaks, refuses

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallgrass.evidence.listing import Listing
    from tallgrass.inventory.listed import ListedObject

QUICK = Patience(repeats=0, repeat_within_s=1.0)
KEYS = [f"GLM-L2-LCFA/2026/152/{hour:02}/{number:03}.nc" for hour in (1, 2) for number in range(4)]


@pytest.fixture
def bucket() -> Bucket:
    """A bucket of eight keys in two hours."""
    made = Bucket("noaa-goes19")
    for key in KEYS:
        made.put(key)
    return made


@pytest.fixture
def server(bucket: Bucket) -> Iterator[ListingServer]:
    """It serves three keys a page."""
    with ListingServer(bucket, page=3) as serving:
        yield serving


def listing_of(
    server: ListingServer, pauses: list[float] | None = None, *, plain: bool = False
) -> CloudListing:
    """Return a listing that rests without sleeping."""
    return CloudListing(
        CloudObjects(endpoint_url=server.url, patience=QUICK),
        sleep=(pauses if pauses is not None else []).append,
        random=lambda: 1.0,
        persistence=Persistence(tries=3, pause=Backoff(base_s=1.0, cap_s=4.0)),
        plain=plain_listing(endpoint_url=server.url, tries=1) if plain else None,
    )


def keys_of(listing: Listing, prefix: str = "", after: str = "") -> list[str]:
    """Return the keys that are listed."""
    pages = listing.pages("s3://noaa-goes19", prefix, after)
    return [listed.uri.removeprefix("s3://noaa-goes19/") for page in pages for listed in page]


@pytest.fixture(params=["cloud", "folder"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listing]:
    """The same bucket on a server, and as a folder."""
    names = [*KEYS, "GLM-L2-LCFA.txt", "GLM-L2-LCFA/2026/152/01.nc", "HX/é b+%41.nc", "a", "a.b/c"]
    if request.param == "folder":
        for name in names:
            file = tmp_path / "noaa-goes19" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"12345")
        yield FolderListing(tmp_path)
        return
    made = Bucket("noaa-goes19")
    for name in names:
        made.put(name, size=5)
    with ListingServer(made, page=3) as serving:
        yield listing_of(serving)


def test_everything_is_listed_once_in_the_order_of_keys(either: Listing) -> None:
    """As S3 sorts: by bytes, a slash after a dot and before a letter."""
    assert keys_of(either) == [
        "GLM-L2-LCFA.txt",
        "GLM-L2-LCFA/2026/152/01.nc",
        *KEYS,
        "HX/é b+%41.nc",
        "a",
        "a.b/c",
    ]


@pytest.mark.parametrize(
    ("prefix", "wanted"),
    [
        ("GLM-L2-LCFA/2026/152/02/", KEYS[4:]),
        ("GLM-L2-LCFA/2026/152/0", ["GLM-L2-LCFA/2026/152/01.nc", *KEYS]),
        ("GLM-L2-LCFA/2026/152/02/00", KEYS[4:]),
        ("a", ["a", "a.b/c"]),
        ("HX/é", ["HX/é b+%41.nc"]),
        ("nowhere/", []),
        ("GLM-L2-LCFA/2026/152/02/004", []),
    ],
)
def test_a_prefix_may_end_anywhere(either: Listing, prefix: str, wanted: list[str]) -> None:
    """In the middle of a folder's name too, and the key that is the prefix itself belongs to it."""
    assert keys_of(either, prefix) == wanted


def test_a_listing_goes_on_after_any_key(either: Listing) -> None:
    """The key itself is left out; one that is not there is a place as any other."""
    assert keys_of(either, "GLM-L2-LCFA/2026/152/0", KEYS[1]) == KEYS[2:]
    assert keys_of(either, "GLM-L2-LCFA/2026/152/02/", KEYS[4] + "x") == KEYS[5:]


def test_folders_are_those_right_below(either: Listing) -> None:
    """Each as a prefix with its slash; files are none."""
    assert list(either.folders("s3://noaa-goes19")) == ["GLM-L2-LCFA/", "HX/", "a.b/"]
    assert list(either.folders("s3://noaa-goes19", "GLM-L2-LCFA/2026/152/")) == [
        "GLM-L2-LCFA/2026/152/01/",
        "GLM-L2-LCFA/2026/152/02/",
    ]
    assert list(either.folders("s3://noaa-goes19", "nowhere/")) == []


def test_size_etag_and_time_are_told_as_notifications_tell_them(
    server: ListingServer, bucket: Bucket
) -> None:
    """The etag without its quotes; the time in UTC."""
    listed = next(iter(listing_of(server).pages("s3://noaa-goes19")))[0]
    assert (listed.size, listed.etag) == (1000, bucket.etags[KEYS[0]])
    assert listed.modified is not None
    assert listed.modified.isoformat() == "2026-06-01T12:34:56+00:00"


def test_a_folder_tells_sizes_and_times_and_no_etag(tmp_path: Path) -> None:
    """What S3 would call the etag is a hash of the content, which listing does not read."""
    file = tmp_path / "b" / "k"
    file.parent.mkdir()
    file.write_bytes(b"123")
    os.utime(file, (1_780_000_000, 1_780_000_000))
    ((listed,),) = FolderListing(tmp_path).pages("s3://b")
    assert (listed.uri, listed.size, listed.etag) == ("s3://b/k", 3, None)
    assert listed.modified is not None
    assert listed.modified.timestamp() == 1_780_000_000


def test_a_folder_that_is_not_there_is_an_empty_bucket(tmp_path: Path) -> None:
    """A copy of some buckets is no fault."""
    assert list(FolderListing(tmp_path).pages("s3://none")) == []


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    """A link to what lies above it, or to itself, would never end; one to a file is an object."""
    folder = tmp_path / "noaa-goes19"
    folder.mkdir()
    (folder / "a.nc").write_bytes(b"x")
    (folder / "link.nc").symlink_to(folder / "a.nc")
    (folder / "up").symlink_to(folder, target_is_directory=True)
    (folder / "round").symlink_to(folder / "round")
    listing = FolderListing(tmp_path)
    assert keys_of(listing) == ["a.nc", "link.nc"]
    assert listing.folders("s3://noaa-goes19") == []


def test_a_file_that_goes_while_it_is_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its name and its size, as a rotating folder does it."""
    for name in "abc":
        (tmp_path / "noaa-goes19").mkdir(exist_ok=True)
        (tmp_path / "noaa-goes19" / name).write_bytes(b"1")
    whole: list[os.DirEntry[str]] = []
    scandir = os.scandir

    def vanishing(path: str) -> Iterator[os.DirEntry[str]]:
        whole.extend(scandir(path))
        (tmp_path / "noaa-goes19" / "b").unlink()
        return _Entries(whole)  # type: ignore[return-value]

    monkeypatch.setattr(os, "scandir", vanishing)
    assert keys_of(FolderListing(tmp_path)) == ["a", "c"]


class _Entries(list[os.DirEntry[str]]):
    """What scandir gave before."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing."""


@pytest.mark.parametrize("fault", [breaks, refuses(503, "SlowDown"), refuses(500, "InternalError")])
@pytest.mark.parametrize("request_no", [1, 2, 3])
def test_a_listing_that_fails_half_way_is_taken_up_and_nothing_is_lost(
    server: ListingServer, request_no: int, fault: object
) -> None:
    """Whichever page it breaks at: each key comes once."""
    server.faults[request_no] = fault  # type: ignore[assignment]
    pauses: list[float] = []
    assert keys_of(listing_of(server, pauses)) == KEYS
    assert pauses == [1.0]


def test_a_page_that_came_is_not_asked_for_again() -> None:
    """The listing goes on after the last key of the last whole page."""
    many = Bucket("noaa-goes19")
    for number in range(2500):
        many.put(f"k{number:05}")
    with ListingServer(many) as serving:
        serving.faults[3] = breaks
        assert len(set(keys_of(listing_of(serving)))) == 2500
        assert serving.requests[3]["start-after"] == "k01999"


def test_a_store_that_stays_down_is_told_after_some_tries(server: ListingServer) -> None:
    """Each pause longer than the last; the error says where to go on, and is transient."""
    server.faults = dict.fromkeys(range(1, 20), refuses(503, "SlowDown"))
    pauses: list[float] = []
    with pytest.raises(ListingBroken, match="503") as raised:
        keys_of(listing_of(server, pauses))
    assert (pauses, raised.value.code, raised.value.exit_code) == ([1.0, 2.0], "listing_broken", 4)


def test_tries_are_counted_from_the_last_key_that_came(bucket: Bucket) -> None:
    """A bucket of many pages may fail more often in all than once in a row."""
    for number in range(3000):
        bucket.put(f"k{number:05}")
    with ListingServer(bucket) as serving:
        serving.faults = dict.fromkeys((1, 2, 4, 5, 7, 8), breaks)
        assert len(keys_of(listing_of(serving))) == 3008


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (refuses(301, "PermanentRedirect"), "bucket_moved"),
        (refuses(403, "AccessDenied"), "bucket_denied"),
        (refuses(404, "NoSuchBucket"), "bucket_missing"),
        (refuses(400, "InvalidArgument"), "listing_refused"),
    ],
)
def test_what_will_not_mend_by_itself_is_refused_at_once(
    server: ListingServer, fault: object, code: str
) -> None:
    """No second try, and the code says what to do."""
    server.faults = dict.fromkeys(range(1, 20), fault)  # type: ignore[arg-type]
    pauses: list[float] = []
    for asked in (
        "pages",
        "folders",
    ):
        listing = listing_of(server, pauses)
        with pytest.raises(ListingRefused) as raised:
            list(getattr(listing, asked)("s3://noaa-goes19"))
        assert (raised.value.code, raised.value.exit_code, pauses) == (code, 4, [])


def test_objects_that_come_and_go_meanwhile_disturb_no_other(
    server: ListingServer, bucket: Bucket
) -> None:
    """A page later some keys are gone and others are there: all that stayed are listed once."""

    def change(number: int) -> None:
        if number == 2:
            bucket.remove(KEYS[1])  # already listed
            bucket.remove(KEYS[6])  # not yet
            bucket.put("GLM-L2-LCFA/2026/152/00/late.nc")  # behind us
            bucket.put("GLM-L2-LCFA/2026/152/03/new.nc")  # before us

    server.before = change
    found = keys_of(listing_of(server))
    stayed = [key for key in KEYS if key != KEYS[6]]
    assert found == [*stayed, "GLM-L2-LCFA/2026/152/03/new.nc"]


def test_reading_ahead_gives_the_same_pages_and_the_same_failure(server: ListingServer) -> None:
    """One page is asked for beforehand; who stops early leaves no thread behind."""
    listing = listing_of(server)
    plain = list(listing.pages("s3://noaa-goes19"))
    assert list(read_ahead(listing.pages("s3://noaa-goes19"))) == plain
    assert list(read_ahead(iter(()))) == []

    def failing() -> Iterator[list[ListedObject]]:
        yield list(plain[0])
        raise ListingBroken("no answer")

    pages = read_ahead(failing())
    assert next(pages) == plain[0]
    with pytest.raises(ListingBroken):
        next(pages)
    stopped = read_ahead(iter([plain[0], plain[0], plain[0]]))
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]
    assert not [each for each in threading.enumerate() if each.name.startswith("listing")]


@pytest.mark.parametrize("odd", ["GLM-L2-LCFA//x.nc", "GLM-L2-LCFA/./x.nc", "GLM-L2-LCFA/../x"])
def test_a_key_that_is_no_path_hides_no_neighbour(
    server: ListingServer, bucket: Bucket, odd: str
) -> None:
    """One such key makes the library refuse its page: the others are listed all the same."""
    bucket.put(odd)
    assert keys_of(listing_of(server, plain=True)) == sorted([*KEYS, odd])
    with pytest.raises(ListingRefused, match="empty or dotted part"):
        keys_of(listing_of(server))


def test_the_other_way_to_list_tells_its_failures_too(
    server: ListingServer, bucket: Bucket
) -> None:
    """A server that fails is transient, one that refuses is not."""
    bucket.put("GLM-L2-LCFA//x.nc")
    for status, kind in ((503, ListingBroken), (403, ListingRefused)):
        server.requests.clear()
        server.faults = dict.fromkeys(range(2, 30), refuses(status, "Planned"))
        # The first page holds the odd key.
        with pytest.raises(kind) as raised:
            keys_of(listing_of(server, plain=True))
        assert isinstance(raised.value, TallgrassError)
        assert str(status) in str(raised.value)
