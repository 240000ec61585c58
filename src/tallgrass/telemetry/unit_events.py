"""What the log says of one unit that failed or is held: under the keys that its spans have."""

from collections.abc import Mapping, Sequence

from tallgrass.canonical_json import sha256_hex
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.redaction import redact
from tallgrass.telemetry.recorder import Recorder
from tallgrass.telemetry.trace_context import attempt_context

_HASH_DIGITS = 16
#: The reason of a unit that no replay ever asked for.
_NO_REPLAY = "none"


def object_uri_hash(object_uri: str) -> str:
    """Return what stands for an object's address where the address itself must not."""
    return sha256_hex(object_uri.encode())[:_HASH_DIGITS]


def replay_fields(claim: Claim) -> dict[str, object]:
    """Return what tells a replay from other attempts; all None where it is none."""
    return _replay(
        claim.replay_run_id,
        claim.replay_reason,
        mode=claim.replayed.mode,
        original_run=claim.replayed.original_run,
    )


def held_replay_fields(replay_run_id: str | None, reason: str) -> dict[str, object]:
    """Return the same of a unit that is held before it could be claimed."""
    return _replay(replay_run_id, reason)


def report_unit(  # noqa: PLR0913 - the fields of its line
    recorder: Recorder,
    name: str,
    *,
    wal_id: str,
    dataset: str,
    object_uri: str,
    attempt: int,
    status: str,
    error_code: str,
    message: str | None,
    replay: Mapping[str, object],
    issues: Sequence[str] = (),
    rule_id: str | None = None,
) -> None:
    """Write the unit's line; it holds a hash instead of the object's address.

    Its trace is named whether or not its spans are kept: the ids are made of the attempt's own.
    """
    context = attempt_context(wal_id, attempt)
    recorder.event(
        name,
        wal_id=wal_id,
        dataset=dataset,
        object_uri_hash=object_uri_hash(object_uri),
        attempt=attempt,
        status=status,
        error_code=error_code,
        issues=",".join(issues) or None,
        rule_id=rule_id,
        **replay,
        trace_id=context.trace_id,
        span_id=context.span_id,
        message=None if message is None else redact(message),
    )


def _replay(
    replay_run_id: str | None,
    reason: str,
    *,
    mode: str | None = None,
    original_run: str | None = None,
) -> dict[str, object]:
    return {
        "replay_run_id": replay_run_id,
        "replay_mode": mode,
        "replay_reason": None if reason == _NO_REPLAY else reason,
        "replay_original_run": original_run,
    }
