"""Quick checks for after every event: the promises in one statement, and what a message leaves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.oracle.tables import announced_objects, read_rows, sha256

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: One row a violation: what, and of which unit.
_QUICK = """
SELECT 'an item without a success' AS what, CAST(i.wal_id AS text) FROM stac_items AS i
  LEFT JOIN wal_records AS r ON r.wal_id = i.wal_id
  LEFT JOIN wal_attempts AS a ON a.wal_id = i.wal_id AND a.attempt_no = i.attempt_no
  WHERE coalesce(r.status, '') <> 'succeeded' OR coalesce(a.status, '') <> 'applied'
    OR coalesce(a.item_sha256, '') <> i.sha256
UNION ALL SELECT 'provenance of no applied attempt', CAST(p.wal_id AS text) FROM provenance AS p
  LEFT JOIN wal_attempts AS a ON a.wal_id = p.wal_id AND a.attempt_no = p.attempt_no
  WHERE coalesce(a.status, '') <> 'applied'
UNION ALL SELECT 'an event of no applied attempt', e.subject FROM outbox AS e
  WHERE e.subject NOT IN (SELECT CAST(a.wal_id AS text) FROM wal_attempts AS a
    WHERE a.status = 'applied')
UNION ALL SELECT 'an applied attempt without provenance', CAST(a.wal_id AS text)
  FROM wal_attempts AS a
  LEFT JOIN provenance AS p ON p.wal_id = a.wal_id AND p.activity_id = a.prov_activity_id
  WHERE a.status = 'applied' AND p.wal_id IS NULL
UNION ALL SELECT 'a success without an item', CAST(r.wal_id AS text) FROM wal_records AS r
  LEFT JOIN stac_items AS i ON i.wal_id = r.wal_id
  WHERE r.status = 'succeeded' AND i.wal_id IS NULL
UNION ALL SELECT 'pending and never due', CAST(r.wal_id AS text) FROM wal_records AS r
  WHERE status = 'pending' AND due_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM replay_run_records AS p JOIN replay_runs AS u ON u.replay_run_id = p.replay_run_id
    WHERE p.replay_run_id = r.replay_run_id AND p.wal_id = r.wal_id AND p.outcome = 'due'
      AND u.mode = 'dlq')
UNION ALL SELECT 'not ready, and neither pending nor worked on', CAST(wal_id AS text)
  FROM wal_records AS r
  WHERE last_error_code = 'not_ready' AND (status = 'failed' OR status = 'quarantined'
    AND NOT EXISTS (SELECT 1 FROM wal_transitions AS t JOIN actors AS a ON a.name = t.actor
      WHERE t.wal_id = r.wal_id AND t.kind = 'quarantine'))
UNION ALL SELECT 'open attempts: not one, or of a unit that is not worked on',
  CAST(r.wal_id AS text)
  FROM wal_records AS r WHERE (SELECT count(*) FROM wal_attempts AS a
    WHERE a.wal_id = r.wal_id AND a.status = 'pending')
  NOT BETWEEN CASE WHEN r.status = 'in_progress' THEN 1 ELSE 0 END
    AND CASE WHEN r.status IN ('in_progress', 'succeeded') THEN 1 ELSE 0 END
UNION ALL SELECT 'an open attempt of a worker that is gone', CAST(a.wal_id AS text)
  FROM wal_attempts AS a
  LEFT JOIN workers AS w ON w.incarnation = a.worker_incarnation
  WHERE a.status = 'pending'
    AND (w.incarnation IS NULL OR w.fenced_at IS NOT NULL OR w.stopped_at IS NOT NULL)
UNION ALL SELECT 'attempts miscounted', CAST(r.wal_id AS text) FROM wal_records AS r
  WHERE r.attempts <> (SELECT count(*) FROM wal_attempts AS a WHERE a.wal_id = r.wal_id)
UNION ALL SELECT 'a version that history does not tell', CAST(r.wal_id AS text)
  FROM wal_records AS r
  WHERE r.version <> 1
    + (SELECT count(*) + count(closed_version) FROM wal_attempts AS a WHERE a.wal_id = r.wal_id)
    + (SELECT count(*) FROM wal_transitions AS t WHERE t.wal_id = r.wal_id)
"""

_EFFECTS = (
    "SELECT wal_id, attempt_no FROM stac_items",
    "SELECT wal_id, attempt_no FROM provenance",
)


def quick_violations(database: Any) -> list[str]:
    """Return violations that one statement finds, over a connection of either database."""
    return [f"{what}: {wal_id}" for what, wal_id in database.execute(_QUICK)]


def held_too_long(database: Any, claimed_before: str) -> list[str]:
    """Return attempts that are still open though they were claimed before that time."""
    rows = database.execute(
        "SELECT wal_id, attempt_no, claimed_at FROM wal_attempts "
        "WHERE status = 'pending' AND claimed_at < ?",
        (claimed_before,),
    )
    return [f"{row[0]} attempt {row[1]} is open since {row[2]}" for row in rows]


def effects(database: Any) -> set[tuple[str, int]]:
    """Return unit and attempt of every effect that is there."""
    return {(row[0], row[1]) for query in _EFFECTS for row in database.execute(query)}


def open_attempts(database: Any) -> set[tuple[str, int]]:
    """Return the attempts that are open."""
    rows = database.execute("SELECT wal_id, attempt_no FROM wal_attempts WHERE status = 'pending'")
    return {(row[0], row[1]) for row in rows}


def wrongly_released(
    database: Any, queue: Any, position: int, known_buckets: Collection[str]
) -> list[str]:
    """Return why the message at this position of the queue must not leave it now."""
    row = queue.execute("SELECT body FROM messages WHERE position = ?", (position,)).fetchone()
    if row is None:
        return []
    body = bytes(row[0])
    if must_be_kept(body, known_buckets):
        stored = database.execute(
            "SELECT 1 FROM poison_messages WHERE body_sha256 = ?", (sha256(body),)
        ).fetchone()
        return [] if stored else [f"message {position} is poison and was not stored"]
    ingestable = {uri for uri in announced_objects(body) if not uri.endswith((".idx", "_MDM"))}
    return [
        f"message {position} leaves, but {text}"
        for uri in sorted(ingestable)
        for text in _unfinished(database, queue, position, uri)
    ]


def must_be_kept(body: bytes, known_buckets: Collection[str]) -> bool:
    """Tell whether no unit can be made of a message that should have one."""
    try:
        message = json.loads(body, parse_constant=_refuse)
        if isinstance(message, dict) and isinstance(message.get("Message"), str):
            message = json.loads(message["Message"], parse_constant=_refuse)
    except ValueError:
        return True
    for record in message.get("Records", ()):
        s3 = record["s3"]
        if "key" not in s3["object"] or s3["bucket"]["name"] not in known_buckets:
            return True
    return False


def _unfinished(database: Any, queue: Any, position: int, uri: str) -> Iterator[str]:
    found = read_rows_of(database, uri)
    if not found:
        yield f"{uri} is not in the ledger"
        return
    status, due_at, by_message = found[0]
    if status in {"succeeded", "quarantined"} or due_at is not None:
        return
    if not by_message:
        return  # the ledger took it over: it runs it by itself, or says for good why it failed
    others = read_rows(queue, f"SELECT position, body FROM messages WHERE position <> {position}")
    others += read_rows(queue, "SELECT position, body FROM dead_letters")
    if not any(uri in announced_objects(other["body"]) for other in others):
        yield f"{uri} is {status} and nobody else tells of it"


def read_rows_of(database: Any, uri: str) -> list[tuple[str, str | None, bool]]:
    """Return status, due time and whether a message brought the last attempt."""
    return [
        (status, due_at, bool(by_message))
        for status, due_at, by_message in database.execute(
            "SELECT r.status, r.due_at, a.sqs_message_id IS NOT NULL FROM wal_records AS r "
            "LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.attempts "
            "WHERE r.object_uri = ?",
            (uri,),
        )
    ]


def _refuse(_word: str) -> None:
    raise ValueError
