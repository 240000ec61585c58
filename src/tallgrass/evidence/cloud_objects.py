"""Objects where the notification says that they are: S3, Google Cloud Storage, Azure.

An object is read by at most two ranged requests, one if it is small; the second is bound to the
etag of the first, so that head and tail are of one version. Every request has a time limit and a
bounded number of repeats, both obstore's: a store that hangs costs a unit its attempt, never the
worker.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from obstore.exceptions import (
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from tallgrass.errors import ConfigError
from tallgrass.evidence.formats import HEAD_BYTES
from tallgrass.evidence.header import Ranges
from tallgrass.evidence.object_store import ObjectBytes, RangeUnread
from tallgrass.evidence.reading import ReadFailure

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult

#: What the first request asks for: the head, and the whole of a small object.
FIRST_BYTES = 64 * 1024

Store = S3Store | GCSStore | AzureStore

_SCHEMES = ("s3", "gs", "az")
_URI = re.compile(r"([a-z0-9+.-]+)://([^/]+)/(.+)", re.DOTALL)
#: obstore tells the status of an answer in its text alone.
_STATUS = re.compile(r"status code: (\d{3}) ")
_NETWORK = "HTTP error:"
#: Answers that say "later"; obstore has repeated the request before it tells them.
_LATER = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one request may take: at most `repeat_within_s + request_s`, all repeats included.

    By default 35 s, and an object takes two requests.
    """

    connect_s: float = 5.0
    request_s: float = 15.0
    repeats: int = 3
    repeat_within_s: float = 20.0
    first_pause_s: float = 0.2
    longest_pause_s: float = 3.0


class CloudObjects:
    """Objects of ``s3://``, ``gs://`` and ``az://`` through obstore; unsigned unless told.

    The etag is the store's own without its quotes. Threads may share it.
    """

    def __init__(
        self,
        *,
        endpoint_url: str = "",
        signed: bool = False,
        s3_credentials: Callable[[], Any] | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._endpoint_url = endpoint_url.rstrip("/")
        self._signed = signed
        self._s3_credentials = s3_credentials
        self._patience = patience or Patience()
        self._stores: dict[tuple[str, str], Store] = {}
        self._lock = threading.Lock()

    def read(self, object_uri: str, tail_bytes: int) -> ObjectBytes | ReadFailure:
        """Return head, tail, size and etag of one version of the object, or why not."""
        match = _URI.fullmatch(object_uri)
        if match is None or match[1] not in _SCHEMES:
            return _missing(f"{object_uri} is not in a cloud that can be read: {_SCHEMES}")
        key = match[3]
        # The client would ask for another key than this one, or refuses it.
        if any(part in {"", ".", ".."} for part in key.split("/")):
            return _missing(f"{object_uri} cannot be asked for: a part of its key is empty or dots")
        try:
            return _read(self.store(match[1], match[2]), key, object_uri, tail_bytes)
        except (OSError, ValueError, BaseError) as exc:
            return _failure(exc, object_uri)

    def store(self, scheme: str, bucket: str) -> Store:
        """Return the client of a bucket; all callers share it."""
        with self._lock:
            store = self._stores.get((scheme, bucket))
            if store is None:
                store = self._stores[scheme, bucket] = self._open(scheme, bucket)
            return store

    def _open(self, scheme: str, bucket: str) -> Store:
        allow_http = scheme == "s3" and self._endpoint_url.startswith("http:")
        common = _client(self._patience, allow_http=allow_http)
        if scheme == "gs":
            return GCSStore(bucket, skip_signature=not self._signed, **common)
        if scheme == "az":
            account, _, container = bucket.partition(".")
            return AzureStore(
                container, account_name=account, skip_signature=not self._signed, **common
            )
        if self._signed:
            common["credential_provider"] = self._s3_credentials
        return S3Store(bucket, skip_signature=not self._signed, **self._address(bucket), **common)

    def _address(self, bucket: str) -> dict[str, Any]:
        """Say where S3 is asked for a bucket.

        Named as `aws_endpoint_url_s3` because the variable AWS_ENDPOINT_URL_S3 would win over
        `endpoint`. Unsigned requests go to the host that public links name: it leads to the
        bucket's own region, whatever AWS_REGION says of the worker's.
        """
        if self._endpoint_url:
            return {
                "aws_endpoint_url_s3": self._endpoint_url,
                "virtual_hosted_style_request": False,
            }
        if self._signed:
            return {}
        # A dot in the name does not match the certificate of virtual hosts.
        virtual = "." not in bucket
        host = f"{bucket}.s3.amazonaws.com" if virtual else "s3.amazonaws.com"
        return {
            "aws_endpoint_url_s3": f"https://{host}",
            "virtual_hosted_style_request": virtual,
        }


def standard_s3_credentials() -> Callable[[], Any]:
    """Return the credentials that boto3 finds, as for the queue; none is a fault of the setting."""
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 - optional extra
    except ModuleNotFoundError as exc:
        raise ConfigError("objects.signed needs boto3: pip install 'tallgrass[aws]'") from exc
    try:
        # boto3 renews them by itself before they expire, if it is asked often enough.
        return Boto3CredentialProvider(ttl=timedelta(minutes=1))
    except ValueError as exc:
        raise ConfigError("objects.signed: there are no AWS credentials") from exc


def _client(patience: Patience, *, allow_http: bool) -> dict[str, Any]:
    return {
        "client_options": {
            "allow_http": allow_http,
            "connect_timeout": timedelta(seconds=patience.connect_s),
            "timeout": timedelta(seconds=patience.request_s),
        },
        "retry_config": {
            "max_retries": patience.repeats,
            "retry_timeout": timedelta(seconds=patience.repeat_within_s),
            "backoff": {
                "init_backoff": timedelta(seconds=patience.first_pause_s),
                "max_backoff": timedelta(seconds=patience.longest_pause_s),
                "base": 2,
            },
        },
    }


def _read(store: Store, key: str, object_uri: str, tail_bytes: int) -> ObjectBytes | ReadFailure:
    try:
        first = store.get(key, options={"range": (0, FIRST_BYTES)})
    except BaseError as exc:
        if status_of(exc) != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        return _read_empty(store, key, object_uri)
    size, etag = first.meta["size"], first.meta["e_tag"]
    if not etag or not _plain(etag):
        return ReadFailure(code="io_error", message=f"{object_uri} has no etag")
    content = bytes(first.bytes())
    if len(content) != min(size, FIRST_BYTES):
        return _changed(object_uri)
    head, tail = content[:HEAD_BYTES], content[-tail_bytes:]
    if size > len(content):
        start = max(size - tail_bytes, len(content))
        last = store.get(key, options={"range": (start, size), "if_match": etag})
        if not _is_same(last, size, etag):
            return _changed(object_uri)
        tail = (content + bytes(last.bytes()))[-tail_bytes:]
    more = _ranges(store, key, object_uri, etag)
    return ObjectBytes(head=head, tail=tail, size=size, etag=_plain(etag), more=more)


def _ranges(store: Store, key: str, object_uri: str, etag: str) -> Ranges:
    """Return what reads further ranges of the same version, one request each."""

    def read(start: int, length: int) -> bytes:
        options: GetOptions = {"range": (start, start + length), "if_match": etag}
        try:
            result = store.get(key, options=options)
            if result.meta["e_tag"] != etag:
                raise RangeUnread(_changed(object_uri))
            return bytes(result.bytes())
        except (OSError, ValueError, BaseError) as exc:
            raise RangeUnread(_failure(exc, object_uri)) from None

    return read


def _read_empty(store: Store, key: str, object_uri: str) -> ObjectBytes | ReadFailure:
    """Read an object without bytes: no range of it can be asked for."""
    meta = store.head(key)
    if meta["size"] or not meta["e_tag"]:
        return _changed(object_uri)
    return ObjectBytes(head=b"", tail=b"", size=0, etag=_plain(meta["e_tag"]))


def _is_same(result: "GetResult", size: int, etag: str) -> bool:
    """Tell whether a second answer is of the same version; a store may ignore `if_match`."""
    return result.meta["e_tag"] == etag and result.meta["size"] == size


def _plain(etag: str) -> str:
    """Return the etag as notifications give it: without quotes and weak mark."""
    return etag.removeprefix("W/").strip('"')


def _missing(message: str) -> ReadFailure:
    return ReadFailure(code="missing_object", message=message)


def _changed(object_uri: str) -> ReadFailure:
    return ReadFailure(code="io_error", message=f"{object_uri} changed while it was read")


def is_passing(exc: Exception) -> bool:
    """Tell whether the same request may be answered later: no answer, or a failing server."""
    status = status_of(exc)
    if status == 0:
        return _NETWORK in str(exc)
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER


def status_of(exc: Exception) -> int:
    """Return the status of an answer that obstore took for an error; 0 where there was none."""
    match = _STATUS.search(str(exc))
    return int(match[1]) if match else 0


def _failure(exc: Exception, object_uri: str) -> ReadFailure:
    """Say what went wrong by a code; obstore's own text holds addresses and whole answers."""
    if isinstance(exc, FileNotFoundError):
        message = f"{object_uri} is not in its bucket, or there is no such bucket"
        return ReadFailure(code="missing_object", message=message, may_come=True)
    if isinstance(exc, PermissionDeniedError | UnauthenticatedError | PermissionError):
        return ReadFailure(code="access_denied", message=f"{object_uri} may not be read")
    if isinstance(exc, PreconditionError):
        return _changed(object_uri)
    status = status_of(exc)
    if is_passing(exc):
        reason = f"answers with {status}" if status else "does not answer"
        text = f"{object_uri} could not be read: the store {reason}"
        return ReadFailure(code="transient_network_error", message=text)
    reason = f"the store answers with {status}" if status else _first_line(exc)
    return ReadFailure(code="io_error", message=f"{object_uri} could not be read: {reason}")


def _first_line(exc: Exception) -> str:
    """Return what obstore says beside the address, such as a wrong region."""
    return str(exc).splitlines()[0].rsplit(" - ", 1)[-1][:200] or type(exc).__name__
