"""What the log says of one unit that failed or is held."""

from tallgrass.canonical_json import sha256_hex
from tallgrass.ledger.redaction import redact
from tallgrass.telemetry.recorder import Recorder

_HASH_DIGITS = 16


def report_unit(
    recorder: Recorder,
    name: str,
    *,
    wal_id: str,
    dataset: str,
    object_uri: str,
    status: str,
    error_code: str,
    message: str | None,
) -> None:
    """Write the unit's line; it holds a hash instead of the object's address."""
    recorder.event(
        name,
        wal_id=wal_id,
        dataset=dataset,
        object_uri_hash=sha256_hex(object_uri.encode())[:_HASH_DIGITS],
        status=status,
        error_code=error_code,
        message=None if message is None else redact(message),
    )
