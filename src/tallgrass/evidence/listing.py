"""What is in a bucket: pages of its objects in the order of their keys, from any key on.

A listing is no snapshot: objects come and go while it is read. Each object that is there the whole
time is listed once; the others are there or not, and the next listing tells.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from tallgrass.errors import ListingBroken, ListingRefused
from tallgrass.evidence.cloud_objects import CloudObjects, is_passing, status_of
from tallgrass.inventory.listed import ListedObject
from tallgrass.retry import Backoff

if TYPE_CHECKING:
    from obstore import ObjectMeta

#: Objects of a page: as many as S3 gives at once.
PAGE_SIZE = 1000

_AFTER_SURROGATES = 0xE000
_DENIED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_REDIRECTS = (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.TEMPORARY_REDIRECT)
#: obstore follows a redirect that names an address; S3's name none for a bucket of elsewhere.
_MOVED = ("redirect", "PermanentRedirect")

Page = Sequence[ListedObject]
#: Lists a bucket: its name, a prefix, and the key to go on after.
PlainPages = Callable[[str, str, str], Iterator[Page]]


class Listing(Protocol):
    """A place whose buckets can be listed."""

    def pages(self, bucket: str, prefix: str = "", after: str = "") -> Iterator[Page]:
        """Yield the objects of ``scheme://name`` whose key begins so and comes after a key.

        In the order of the keys' bytes. A failure is told by an error; what was yielded before it
        stands, and the last key of it is where to go on.
        """

    def folders(self, bucket: str, folder: str = "") -> Sequence[str]:
        """Return the folders right below a folder, each as a whole prefix with its slash."""


_PAUSE = Backoff(base_s=1.0, cap_s=30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistence:
    """How often a listing is taken up again that broke off without a further key."""

    tries: int = 5
    pause: Backoff = _PAUSE


class CloudListing:
    """Buckets of ``s3://``, ``gs://`` and ``az://`` through obstore."""

    def __init__(
        self,
        objects: CloudObjects,
        *,
        sleep: Callable[[float], object],
        random: Callable[[], float],
        persistence: Persistence | None = None,
        plain: PlainPages | None = None,
    ) -> None:
        self._objects = objects
        #: Lists what obstore cannot name.
        self._plain = plain
        self._sleep = sleep
        self._random = random
        self._persistence = persistence or Persistence()

    def pages(self, bucket: str, prefix: str = "", after: str = "") -> Iterator[Page]:
        """Yield the objects below a prefix; a listing that breaks off is taken up where it was."""
        failures = 0
        while True:
            try:
                for page in self._listed(bucket, prefix, after):
                    yield page
                    failures, after = 0, _key_of(page[-1])
            except (OSError, ValueError, BaseError) as exc:
                failures += 1
                self._pause(exc, bucket, after, failures)
            else:
                return

    def folders(self, bucket: str, folder: str = "") -> Sequence[str]:
        """Return the folders right below a folder."""
        scheme, _, name = bucket.partition("://")
        failures = 0
        while True:
            try:
                found = self._objects.store(scheme, name).list_with_delimiter(folder or None)
            except (OSError, ValueError, BaseError) as exc:
                failures += 1
                self._pause(exc, bucket, folder, failures)
            else:
                return sorted(f"{each.removesuffix('/')}/" for each in found["common_prefixes"])

    def _listed(self, bucket: str, prefix: str, after: str) -> Iterator[Page]:
        """List through obstore; from a page on of which it cannot name a key, as `plain` does."""
        try:
            for page in self._by_obstore(bucket, prefix, after):
                yield page
                after = _key_of(page[-1])
        except InvalidPathError as exc:
            if self._plain is None or not bucket.startswith("s3://"):
                message = f"{bucket} has a key with an empty or dotted part, after {after!r}"
                raise ListingRefused(f"{message}; list it elsewhere, for --listing") from exc
            yield from self._plain(bucket, prefix, after)

    def _by_obstore(self, bucket: str, prefix: str, after: str) -> Iterator[Page]:
        scheme, _, name = bucket.partition("://")
        # The store takes whole folders only; the first key of the prefix is found by its order.
        folder = prefix[: prefix.rfind("/") + 1]
        offset = max(after, "" if prefix == folder else _just_before(prefix))
        stream = self._objects.store(scheme, name).list(
            folder or None, offset=offset or None, chunk_size=PAGE_SIZE
        )
        for metas in stream:
            page = _page(f"{bucket}/", metas, prefix)
            if page:
                yield page
            if prefix != folder and not metas[-1]["path"].startswith(prefix):
                return  # keys come in order: the rest begins otherwise

    def _pause(self, exc: Exception, bucket: str, after: str, failures: int) -> None:
        """Wait a little; refuse what will not mend by itself, or has not mended long enough."""
        where = f"{bucket}{f', after {after!r}' if after else ''}"
        status = status_of(exc)
        if isinstance(exc, FileNotFoundError) or status == HTTPStatus.NOT_FOUND:
            raise ListingRefused(f"there is no bucket {bucket}", code="bucket_missing") from exc
        denied = isinstance(exc, PermissionDeniedError | UnauthenticatedError | PermissionError)
        if denied or status in _DENIED:
            raise ListingRefused(f"{bucket} may not be listed", code="bucket_denied") from exc
        if _is_moved(exc):
            raise ListingRefused(
                f"{bucket} is not where it is asked for: the store answers with a redirect",
                code="bucket_moved",
            ) from exc
        if failures >= self._persistence.tries:
            reason = f"answers with {status}" if status else "does not answer"
            raise ListingBroken(f"{where} cannot be listed: the store {reason}") from exc
        if not is_passing(exc):
            raise ListingRefused(f"{where} cannot be listed: {_said(exc)}") from exc
        self._sleep(self._persistence.pause.delay_s(failures, self._random))


class FolderListing:
    """Buckets of ``s3://name`` as folders ``folder/name``; one that is not there is empty.

    No etag is told: that of a file is the MD5 of its content, which nobody reads to list it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pages(self, bucket: str, prefix: str = "", after: str = "") -> Iterator[Page]:
        """Yield the files below a prefix in the order of their keys."""
        name = bucket.partition("://")[2]
        page: list[ListedObject] = []
        for key, entry in _files(os.path.join(self._folder, name), "", prefix, after):  # noqa: PTH118 - as fast as scandir
            try:
                facts = entry.stat()
            except OSError:
                continue  # gone meanwhile
            modified = datetime.fromtimestamp(facts.st_mtime, UTC)
            page.append(ListedObject(f"{bucket}/{key}", facts.st_size, None, modified))
            if len(page) == PAGE_SIZE:
                yield page
                page = []
        if page:
            yield page

    def folders(self, bucket: str, folder: str = "") -> Sequence[str]:
        """Return the folders right below a folder."""
        place = self._folder / bucket.partition("://")[2] / folder
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(place) as found:
            return sorted(
                f"{folder}{entry.name}/" for entry in found if entry.is_dir(follow_symlinks=False)
            )
        return ()


def _files(
    folder: str, above: str, prefix: str, after: str
) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """Yield key and file of each object, in the order of keys: a folder sorts with its slash."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(
                (f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name, entry)
                for entry in found
            )
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError as exc:
        raise ListingRefused(
            f"the folder of {above or 'the bucket'} may not be listed", code="bucket_denied"
        ) from exc
    for name, entry in entries:
        key = above + name
        if name.endswith("/"):
            if key.startswith(prefix) or prefix.startswith(key):
                yield from _files(entry.path, key, prefix, after)
        elif key.startswith(prefix) and key > after and _is_file(entry):
            yield key, entry


def _is_file(entry: "os.DirEntry[str]") -> bool:
    """Tell whether it is one; a link that leads round in a circle is none."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _page(base: str, metas: Sequence["ObjectMeta"], prefix: str) -> Page:
    return [
        ListedObject(
            base + meta["path"], meta["size"], _plain(meta["e_tag"]), meta["last_modified"]
        )
        for meta in metas
        if meta["path"].startswith(prefix)
    ]


def _plain(etag: str | None) -> str | None:
    """Return the etag as notifications give it."""
    return etag.removeprefix("W/").strip('"') or None if etag else None


def _key_of(listed: ListedObject) -> str:
    return listed.uri.split("/", 3)[3]


def _just_before(prefix: str) -> str:
    """Return a text that sorts before every key with the prefix, and after nearly all others."""
    last = ord(prefix[-1])
    # What a server may not repeat in its answer: control characters and surrogates.
    if last <= ord(" ") or last == _AFTER_SURROGATES:
        return prefix[:-1]
    # A slash there would make an empty part, which obstore does not take.
    before = "." if prefix[-1] == "0" else chr(last - 1)
    return f"{prefix[:-1]}{before}\U0010ffff"


def _is_moved(exc: Exception) -> bool:
    return status_of(exc) in _REDIRECTS or any(word in str(exc) for word in _MOVED)


def _said(exc: Exception) -> str:
    status = status_of(exc)
    return f"the store answers with {status}" if status else type(exc).__name__
