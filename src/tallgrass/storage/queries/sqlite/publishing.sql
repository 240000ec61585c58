-- Events that pipelines publish in their own transactions, and events that consumers have handled.

-- name: published_keys(rows)
SELECT k.idempotency_key, k.subject, k.pipeline_id, k.event_name, k.dataset_id, k.version,
  k.payload_sha256, k.artifact_uri, k.artifact_checksum, k.care_label, k.governance_ref
FROM json_each(:rows) AS wanted CROSS JOIN idempotency_keys AS k ON k.idempotency_key = wanted.value;

-- name: published_artifacts(rows)
SELECT a.artifact_uri, a.version, a.artifact_checksum
FROM json_each(:rows) AS wanted CROSS JOIN artifact_versions AS a
  ON a.artifact_uri = wanted.value ->> 0 AND a.version = wanted.value ->> 1;

-- name: published_rows(rows)
-- By subject and key, as the index has them.
SELECT e.idempotency_key, e.outbox_id
FROM json_each(:rows) AS wanted CROSS JOIN outbox AS e
  ON e.subject = wanted.value ->> 0 AND e.idempotency_key = wanted.value ->> 1
ORDER BY e.outbox_id;

-- name: insert_published_keys(now; idempotency_key, subject, pipeline_id, event_name, dataset_id, event_version, payload_sha256, artifact_uri, artifact_checksum, care_label, governance_ref)
INSERT INTO idempotency_keys (idempotency_key, subject, pipeline_id, event_name, dataset_id, version,
  payload_sha256, artifact_uri, artifact_checksum, care_label, governance_ref, created_at)
VALUES (:idempotency_key, :subject, :pipeline_id, :event_name, :dataset_id, :event_version,
  :payload_sha256, :artifact_uri, :artifact_checksum, :care_label, :governance_ref, :now);

-- name: insert_artifacts(now; artifact_uri, artifact_version, dataset_id, artifact_checksum, idempotency_key)
INSERT INTO artifact_versions (artifact_uri, version, dataset_id, artifact_checksum, idempotency_key,
  created_at)
VALUES (:artifact_uri, :artifact_version, :dataset_id, :artifact_checksum, :idempotency_key, :now);

-- name: insert_published_events(now; outbox_id, subject, pipeline_id, event_name, dataset_id, event_version, idempotency_key, target, payload, care_label, governance_ref)
INSERT INTO outbox (outbox_id, subject, pipeline_id, event_name, dataset_id, version, idempotency_key,
  target, payload, care_label, governance_ref, created_at)
VALUES (:outbox_id, :subject, :pipeline_id, :event_name, :dataset_id, :event_version, :idempotency_key,
  :target, CAST(:payload AS BLOB), :care_label, :governance_ref, :now);

-- name: insert_duplicates(now; idempotency_key, pipeline_id, event_name)
INSERT INTO outbox_duplicates (idempotency_key, pipeline_id, event_name, seen_at)
VALUES (:idempotency_key, :pipeline_id, :event_name, :now);

-- name: create_inbox()
-- In the consumer's own database; as the migrations make it in ours.
CREATE TABLE IF NOT EXISTS inbox (
  consumer    TEXT NOT NULL CHECK (consumer <> ''),
  event_key   TEXT NOT NULL CHECK (trim(event_key) <> ''),
  handled_at  TEXT NOT NULL CHECK (length(handled_at) = 27),
  PRIMARY KEY (consumer, event_key)
) STRICT, WITHOUT ROWID;

-- name: insert_handled(now; consumer, event_key)
INSERT INTO inbox (consumer, event_key, handled_at) VALUES (:consumer, :event_key, :now)
ON CONFLICT DO NOTHING;
