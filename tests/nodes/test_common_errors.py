"""Errors of Python and of the installed libraries: which are retried, and which never."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from email.message import Message
from typing import TYPE_CHECKING, Any

import botocore.config
import botocore.exceptions
import botocore.session
import httpx
import psycopg
import psycopg.errors
import psycopg_pool
import pytest
import requests
import sqlalchemy
import sqlalchemy.exc
import urllib3.exceptions

from tallgrass.nodes.common_errors import commonly_retried
from tallgrass.nodes.retry_policy import RetryPolicy
from tests.sinks.receiver import Receiver, write_chain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

AGAIN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
CERTIFICATE = ssl.SSLCertVerificationError(1, "certificate verify failed")
ENDED = ssl.SSLEOFError(8, "EOF occurred in violation of protocol")


def caused(error: BaseException, cause: BaseException) -> BaseException:
    """An error as ``raise … from`` leaves it."""
    error.__cause__ = cause
    return error


def by_pool(reason: Exception) -> urllib3.exceptions.MaxRetryError:
    """An error of urllib3 after its last try."""
    return urllib3.exceptions.MaxRetryError(None, "/", reason=reason)  # type: ignore[arg-type]


def by_aws(code: str, status: int = 400) -> Exception:
    """A refusal of AWS."""
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error: Exception = botocore.exceptions.ClientError(answer, "PutItem")
    return error


class OwnError(Exception):
    """An error of a node's own code."""


class OwnTimeout(requests.ConnectionError):
    """One that says what it is."""


@pytest.mark.conformance("NR-6.3")
@pytest.mark.parametrize(
    ("error", "retried"),
    [
        (urllib.error.URLError(TimeoutError()), True),
        (urllib.error.URLError(ConnectionResetError()), True),
        (urllib.error.URLError(ConnectionRefusedError()), True),
        (urllib.error.URLError(OSError(errno.EHOSTUNREACH, "No route to host")), True),
        (urllib.error.URLError(AGAIN), True),
        (urllib.error.URLError(NO_NAME), False),
        (urllib.error.URLError(CERTIFICATE), False),
        (urllib.error.URLError(ENDED), True),
        (urllib.error.URLError(FileNotFoundError()), False),
        (urllib.error.URLError("unknown url type: htp"), False),
        (urllib.error.ContentTooShortError("cut off", ("file", Message())), True),
        (AGAIN, True),
        (NO_NAME, False),
        (socket.gaierror(socket.EAI_FAIL, "never"), False),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), True),
        (OSError(errno.ENOSPC, "full"), False),
        (PermissionError(), False),
        (http.client.IncompleteRead(b"ab", 9), True),
        (http.client.RemoteDisconnected("x"), True),
        (http.client.InvalidURL(), False),
        (http.client.LineTooLong("header"), False),
        (ENDED, True),
        (ssl.SSLZeroReturnError(), True),
        (ssl.SSLSyscallError(), True),
        (CERTIFICATE, False),
        (ssl.SSLError(1, "wrong version number"), False),
        (by_aws("ThrottlingException"), True),
        (by_aws("Throttling"), True),
        (by_aws("RequestLimitExceeded"), True),
        (by_aws("ProvisionedThroughputExceededException"), True),
        (by_aws("TooManyRequestsException"), True),
        (by_aws("RequestTimeout"), True),
        (by_aws("SlowDown", 503), True),
        (by_aws("ExpiredToken"), False),
        (by_aws("ValidationException"), False),
        (by_aws("AccessDenied", 403), False),
        (by_aws("Unheard", 500), True),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="x"), True),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="x"), True),
        (botocore.exceptions.ConnectionClosedError(endpoint_url="x"), True),
        (botocore.exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2), True),
        (botocore.exceptions.SSLError(endpoint_url="x", error=CERTIFICATE), False),
        (botocore.exceptions.SSLError(endpoint_url="x", error=ENDED), True),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="x", error=NO_NAME), False),
        (botocore.exceptions.NoCredentialsError(), False),
        (psycopg.OperationalError("server closed the connection unexpectedly"), True),
        (psycopg_pool.PoolTimeout("couldn't get a connection after 30.00 sec"), True),
        (psycopg.errors.ConnectionTimeout("connection timeout expired"), True),
        (psycopg.errors.AdminShutdown(), True),
        (psycopg.errors.CannotConnectNow(), True),
        (psycopg.errors.ConnectionFailure(), True),
        (psycopg.errors.TooManyConnections(), True),
        (psycopg.errors.SerializationFailure(), True),
        (psycopg.errors.DeadlockDetected(), True),
        (psycopg.errors.LockNotAvailable(), True),
        (psycopg.errors.InvalidPassword(), False),
        (psycopg.errors.DiskFull(), False),
        (psycopg.errors.QueryCanceled(), False),
        (psycopg.errors.UniqueViolation(), False),
        (psycopg.ProgrammingError(), False),
        (sqlalchemy.exc.OperationalError("x", {}, psycopg.OperationalError("gone")), True),
        (sqlalchemy.exc.OperationalError("x", {}, psycopg.errors.DiskFull()), False),
        (sqlalchemy.exc.IntegrityError("x", {}, psycopg.errors.UniqueViolation()), False),
        (requests.ConnectTimeout(), True),
        (requests.ReadTimeout(), True),
        (requests.exceptions.ChunkedEncodingError(), True),
        (requests.ConnectionError(by_pool(caused(urllib3.exceptions.HTTPError(), AGAIN))), True),  # type: ignore[arg-type]
        (requests.ConnectionError(by_pool(caused(urllib3.exceptions.HTTPError(), NO_NAME))), False),  # type: ignore[arg-type]
        (requests.exceptions.SSLError(by_pool(urllib3.exceptions.SSLError(CERTIFICATE))), False),
        (requests.exceptions.SSLError(by_pool(urllib3.exceptions.SSLError(ENDED))), True),
        (requests.exceptions.SSLError(), False),
        (requests.exceptions.InvalidProxyURL(), False),
        (requests.exceptions.MissingSchema(), False),
        (requests.TooManyRedirects(), False),
        (requests.JSONDecodeError("x", "y", 0), False),
        (by_pool(urllib3.exceptions.ReadTimeoutError(None, "/", "x")), True),  # type: ignore[arg-type]
        (by_pool(urllib3.exceptions.ResponseError("too many redirects")), False),
        (urllib3.exceptions.IncompleteRead(1, 2), True),
        (httpx.ConnectTimeout("x"), True),
        (httpx.PoolTimeout("x"), True),
        (httpx.WriteError("x"), True),
        (httpx.RemoteProtocolError("x"), True),
        (caused(httpx.ConnectError("x"), CERTIFICATE), False),
        (caused(httpx.ConnectError("x"), NO_NAME), False),
        (caused(httpx.ConnectError("x"), AGAIN), True),
        (httpx.LocalProtocolError("x"), False),
        (httpx.TooManyRedirects("x"), False),
        (OwnTimeout(), True),
        (caused(OwnError(), TimeoutError()), False),
        (caused(ValueError(), ConnectionResetError()), False),
    ],
    ids=lambda value: repr(value)[:80] if isinstance(value, BaseException) else "",
)
def test_errors_of_libraries(error: BaseException, retried: bool) -> None:  # noqa: FBT001
    """What passes is retried in whichever wrapping; what does not pass is not."""
    assert RetryPolicy().classify(error)[0] is retried
    assert not RetryPolicy(retry_common=False).classify(error)[0]


def test_errors_that_hold_one_another_end_the_search() -> None:
    """Each is looked at once."""
    first, second = urllib.error.URLError("x"), urllib.error.URLError("y")
    first.reason, second.reason = second, first
    assert commonly_retried(first) is None


def by_botocore(url: str) -> Any:
    """Ask by botocore, without tries of its own."""
    session = botocore.session.Session()
    settings = botocore.config.Config(
        retries={"total_max_attempts": 1}, connect_timeout=30, read_timeout=30, proxies={}
    )
    client = session.create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="x",
        aws_secret_access_key="x",  # noqa: S106 - nobody checks it
        config=settings,
    )
    return client.get_object(Bucket="bucket", Key="key")["Body"].read()


def by_requests(url: str) -> Any:
    """Ask by requests."""
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, timeout=30).content


#: How a node may ask a server.
CLIENTS: dict[str, Callable[[str], Any]] = {
    "urllib": lambda url: urllib.request.urlopen(url, timeout=30).read(),  # noqa: S310 - loopback
    "requests": by_requests,
    "httpx": lambda url: httpx.get(url, timeout=30, trust_env=False).content,
    "botocore": by_botocore,
}


def failure(client: str, url: str) -> Exception:
    """The error that a client raises."""
    with pytest.raises(Exception) as failed:
        CLIENTS[client](url)
    error = failed.value
    assert isinstance(error, Exception)
    return error


@contextmanager
def closing(first: bytes) -> Iterator[int]:
    """A server that reads a little, says so much and ends the connection in good order."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(first)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.conformance("NR-6.3")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_connection_that_breaks_is_retried(client: str) -> None:
    """Refused, ended before the answer, amid it, and amid TLS: as each library tells of it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = server.getsockname()[1]
    errors = [failure(client, f"http://127.0.0.1:{nobody}/")]
    with closing(b"") as port:
        errors += [failure(client, f"{scheme}://127.0.0.1:{port}/") for scheme in ("http", "https")]
    with closing(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort") as port:
        errors.append(failure(client, f"http://127.0.0.1:{port}/"))
    assert [RetryPolicy().classify(each)[0] for each in errors] == [True] * 4, errors


@pytest.mark.conformance("NR-6.3")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_certificate_that_nobody_signed_is_not_retried(client: str, tmp_path: Path) -> None:
    """It will be the same certificate the next time."""
    with Receiver(chain=write_chain(tmp_path, "localhost", self_signed=True)) as receiver:
        error = failure(client, f"https://localhost:{receiver.port}/")
    assert RetryPolicy().classify(error) == (False, "it will not heal by itself")


@pytest.mark.conformance("NR-6.3")
def test_a_database_that_ends_the_connection_is_asked_again(postgres_url: str) -> None:
    """By psycopg, and by SQLAlchemy on it; a statement that is wrong is not."""
    ending = "SELECT pg_terminate_backend(pg_backend_pid())"
    with psycopg.connect(postgres_url) as connection, pytest.raises(psycopg.Error) as lost:
        connection.execute(ending)
    with psycopg.connect(postgres_url) as connection, pytest.raises(psycopg.Error) as wrong:
        connection.execute("SELECT 1 FROM nowhere")
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(postgres_url)
    )
    with engine.connect() as made, pytest.raises(sqlalchemy.exc.DBAPIError) as wrapped:
        made.execute(sqlalchemy.text(ending))
    engine.dispose()
    errors = (lost.value, wrapped.value, wrong.value)
    assert [RetryPolicy().classify(each)[0] for each in errors] == [True, True, False]
