"""What Amazon's library reports, as errors of Tallgrass. The only place that knows its codes."""

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's own: no connection, or none in time
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from tallgrass.errors import (
    QueueDenied,
    QueueMissing,
    QueueRefused,
    QueueThrottled,
    QueueUnavailable,
    QueueUnreachable,
    TallgrassError,
)

#: Everything that a call through boto3 may raise.
AWS_ERRORS = (BotoCoreError, ClientError, ResponseParserError)

_NO_CREDENTIALS = (
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
_NO_ANSWER = (ConnectionError, HTTPClientError, ResponseParserError)

_SERVER_ERROR = 500
_TOO_MANY = 429
_FORBIDDEN = frozenset({401, 403})

#: More messages are in flight than SQS allows; deletions make room.
_OVER_LIMIT = "OverLimit"
_MISSING = frozenset({"QueueDoesNotExist", "NonExistentQueue"})
_THROTTLED = frozenset(
    {
        "KmsThrottled",
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_DENIED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "KmsAccessDenied",
        "KmsDisabled",
        "KmsInvalidState",
        "KmsNotFound",
        "KmsOptInRequired",
        "MissingAuthenticationToken",
        "NotAuthorized",
        "OptInRequired",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_UNREACHABLE = frozenset(
    {"InternalError", "InternalFailure", "RequestTimeout", "ServiceUnavailable"}
)


def translate(error: Exception, what: str) -> TallgrassError:
    """Return the error of a call; `what` names the queue and the action."""
    if isinstance(error, ClientError):
        answer = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code, text = str(answer.get("Code", "")), str(answer.get("Message", ""))
        message = f"{what}: {code}: {text}" if text else f"{what}: {code}"
        if code.rpartition(".")[2] == _OVER_LIMIT:
            return QueueThrottled(message, code="queue_over_limit")
        kind = unavailability(code) or _by_status(status) or QueueRefused
        return kind(message)
    if isinstance(error, _NO_CREDENTIALS):
        return QueueDenied(f"{what}: {error}")
    if isinstance(error, _NO_ANSWER):
        return QueueUnreachable(f"{what}: {error}")
    return QueueRefused(f"{what}: {error}")


def unavailability(code: str) -> type[QueueUnavailable] | None:
    """Return what a code means that will pass, or be mended; None for any other code."""
    # Old answers carry a prefix: AWS.SimpleQueueService.NonExistentQueue, KMS.DisabledException.
    name = code.rpartition(".")[2]
    if name in _MISSING:
        return QueueMissing
    if name in _THROTTLED:
        return QueueThrottled
    if name in _DENIED or code.startswith("KMS."):
        return QueueDenied
    return QueueUnreachable if name in _UNREACHABLE else None


def _by_status(status: int) -> type[QueueUnavailable] | None:
    if status >= _SERVER_ERROR:
        return QueueUnreachable
    if status == _TOO_MANY:
        return QueueThrottled
    return QueueDenied if status in _FORBIDDEN else None
