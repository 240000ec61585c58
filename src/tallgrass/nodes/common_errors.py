"""Which errors of Python and of well-known libraries say "later", and which say "never".

Nothing is imported for it: libraries are told by the names of their classes and by what their
errors carry. Errors that libraries make of others are looked through, so that a bad certificate is
one in whichever wrapping. An error of the node's own code is not: what it was made of is known to
its author, who did not pass it on.
"""

import errno
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

from tallgrass.nodes.values import type_name

_LATER: Final = frozenset({408, 425, 429})
_NAMES: Final = frozenset(
    {
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "botocore.exceptions.ConnectTimeoutError",
        "botocore.exceptions.ConnectionError",
        "botocore.exceptions.HTTPClientError",
        "botocore.exceptions.IncompleteReadError",
        "http.client.IncompleteRead",
        "httpx.NetworkError",
        "httpx.RemoteProtocolError",
        "httpx.TimeoutException",
        "requests.exceptions.ChunkedEncodingError",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "urllib.error.ContentTooShortError",
        "urllib3.exceptions.ProtocolError",
        "urllib3.exceptions.TimeoutError",
    }
)
#: Wrong for good: a certificate, a proxy's address.
_FINAL_NAMES: Final = frozenset(
    {
        "aiohttp.client_exceptions.ClientConnectorCertificateError",
        "requests.exceptions.InvalidProxyURL",
        "ssl.SSLCertVerificationError",
    }
)
#: A certificate, or a connection that ended amid TLS: what is inside tells.
_TLS_NAMES: Final = frozenset(
    {
        "botocore.exceptions.SSLError",
        "requests.exceptions.SSLError",
        "urllib3.exceptions.SSLError",
    }
)
_DATABASE_NAMES: Final = frozenset({"psycopg.OperationalError", "psycopg2.OperationalError"})
#: Libraries that put errors into errors of their own.
_WRAPPING: Final = frozenset(
    {
        "aiohttp",
        "botocore",
        "httpcore",
        "httpcore2",
        "httpx",
        "httpx2",
        "requests",
        "sqlalchemy",
        "urllib",
        "urllib3",
    }
)
#: Where they put them, beside the arguments.
_INSIDE: Final = ("reason", "os_error", "orig", "__cause__")
#: What httpx calls itself: its releases differ in the place of its errors, too.
_HTTPX: Final = re.compile(r"^httpx2?\.(_exceptions\.)?")
_INSIDE_MAX: Final = 16
#: Connections that ended amid TLS.
_ENDED_NAMES: Final = frozenset(
    {"ssl.SSLEOFError", "ssl.SSLSyscallError", "ssl.SSLZeroReturnError"}
)
_LOOKUP_NAME: Final = "socket.gaierror"
#: Of the network, and no kind of their own in Python.
_NETWORK: Final = frozenset(
    {errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH}
)
#: Codes of AWS, some of which come with the status 400; botocore takes the same for passing.
_AWS_LATER: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "InternalError",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
#: Beginnings of PostgreSQL's codes: connections, conflicts, locks, too many clients, shutdowns.
_SQL_LATER: Final = ("08", "40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03", "57P05")

Verdict = tuple[bool, str]


def commonly_retried(error: BaseException) -> Verdict | None:
    """Tell whether an error is retried that nobody has listed, and why; None: it is not known."""
    errors = list(_with_those_inside(error))
    if any(_is_final(each) for each in errors):
        return False, "it will not heal by itself"
    answer = _by_the_answer(error)
    if answer is not None:
        return answer
    if any(_is_passing(each) for each in errors):
        return True, "timeouts and broken connections are retried"
    names = set().union(*map(_names, errors))
    if names & _TLS_NAMES:
        return False, "it will not heal by itself"
    if names & _NAMES:
        return True, "timeouts and broken connections are retried"
    return None


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error of a well-known library carries, if it does."""
    response = part(error, "response")
    if isinstance(response, dict):
        found: Any = table_in(response, "ResponseMetadata").get("HTTPStatusCode")
    else:
        found = part(response, "status_code")
    for name in ("status_code", "status", "code"):
        if found is None:
            found = part(error, name)
    is_status = isinstance(found, int) and 100 <= found <= 599  # noqa: PLR2004
    return int(found) if is_status else None


def part(thing: object, name: str) -> Any:
    """Return a part of an error; None where it has none, or where reading it fails."""
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - properties of others
        return None


def table_in(response: dict[Any, Any], name: str) -> dict[Any, Any]:
    """Return a table in an answer of botocore; an empty one where there is none."""
    found = response.get(name)
    return found if isinstance(found, dict) else {}


def _with_those_inside(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those that libraries made it of."""
    found = [error]
    for each in found:
        yield each
        if any(kind.__module__.partition(".")[0] in _WRAPPING for kind in type(each).__mro__):
            inside = [part(each, name) for name in _INSIDE]
            keywords = part(each, "kwargs")
            if isinstance(keywords, dict):
                inside.extend(keywords.values())
            arguments = part(each, "args")
            if isinstance(arguments, tuple):
                inside.extend(arguments)
            for one in inside:
                is_new = isinstance(one, BaseException) and not any(one is known for known in found)
                if is_new and len(found) < _INSIDE_MAX:
                    found.append(one)


def _by_the_answer(error: BaseException) -> Verdict | None:
    response = part(error, "response")
    if isinstance(response, dict):
        code = table_in(response, "Error").get("Code")
        if isinstance(code, str) and code in _AWS_LATER:
            return True, f"the answer was {code}"
    status = status_of(error)
    if status is None:
        return None
    return status in _LATER or status >= 500, f"the answer was {status}"  # noqa: PLR2004


def _is_final(error: BaseException) -> bool:
    names = _names(error)
    is_unknown_name = _LOOKUP_NAME in names and not _is_lookup_for_later(error)
    return is_unknown_name or not names.isdisjoint(_FINAL_NAMES)


def _is_lookup_for_later(error: BaseException) -> bool:
    """Tell a name that could not be asked for from one that does not exist."""
    # Whoever raised the error has loaded it; here nothing of the network is imported.
    later = part(sys.modules.get("_socket"), "EAI_AGAIN")
    return later is not None and part(error, "errno") == later


def _is_passing(error: BaseException) -> bool:
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    if isinstance(error, OSError) and part(error, "errno") in _NETWORK:
        return True
    names = _names(error)
    if _LOOKUP_NAME in names or not names.isdisjoint(_ENDED_NAMES):
        return True
    if names.isdisjoint(_DATABASE_NAMES):
        return False
    code = part(error, "sqlstate") or part(error, "pgcode")
    # The server gives every error a code; what has none came of the connection.
    return code is None or str(code).startswith(_SQL_LATER)


def _names(error: BaseException) -> set[str]:
    return {_HTTPX.sub("httpx.", type_name(kind)) for kind in type(error).__mro__}
