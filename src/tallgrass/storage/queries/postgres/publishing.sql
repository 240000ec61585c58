-- Events that pipelines publish in their own transactions, and events that consumers have handled.
-- The time is the server's: nobody has to ask for it first.

-- name: published_keys(rows)
-- Looked up one by one (OFFSET 0): a join was planned as a scan of all keys.
SELECT k.* FROM json_array_elements_text(:rows::json) AS wanted CROSS JOIN LATERAL (
  SELECT idempotency_key, subject, pipeline_id, event_name, dataset_id, version, payload_sha256,
    artifact_uri, artifact_checksum, care_label, governance_ref
  FROM idempotency_keys WHERE idempotency_key = wanted OFFSET 0) AS k;

-- name: published_artifacts(rows)
SELECT a.* FROM json_array_elements(:rows::json) AS wanted CROSS JOIN LATERAL (
  SELECT artifact_uri, version, artifact_checksum
  FROM artifact_versions WHERE artifact_uri = wanted ->> 0 AND version = wanted ->> 1 OFFSET 0) AS a;

-- name: published_rows(rows)
-- By subject and key, as the index has them.
SELECT e.idempotency_key, e.outbox_id::text
FROM json_array_elements(:rows::json) AS wanted CROSS JOIN LATERAL (
  SELECT idempotency_key, outbox_id
  FROM outbox WHERE subject = wanted ->> 0 AND idempotency_key = wanted ->> 1 OFFSET 0) AS e
ORDER BY e.outbox_id;

-- name: insert_published_keys(now; idempotency_key, subject, pipeline_id, event_name, dataset_id, event_version, payload_sha256, artifact_uri, artifact_checksum, care_label, governance_ref)
-- Without ON CONFLICT: who publishes the same key at the same time waits, and gives way.
INSERT INTO idempotency_keys (idempotency_key, subject, pipeline_id, event_name, dataset_id, version,
  payload_sha256, artifact_uri, artifact_checksum, care_label, governance_ref, created_at)
SELECT x.idempotency_key, x.subject, x.pipeline_id, x.event_name, x.dataset_id, x.event_version,
  x.payload_sha256, x.artifact_uri, x.artifact_checksum, x.care_label, x.governance_ref, coalesce(:now::timestamptz, clock_timestamp())
FROM each_row AS x;

-- name: insert_artifacts(now; artifact_uri, artifact_version, dataset_id, artifact_checksum, idempotency_key)
INSERT INTO artifact_versions (artifact_uri, version, dataset_id, artifact_checksum, idempotency_key,
  created_at)
SELECT x.artifact_uri, x.artifact_version, x.dataset_id, x.artifact_checksum, x.idempotency_key,
  coalesce(:now::timestamptz, clock_timestamp())
FROM each_row AS x;

-- name: insert_published_events(now; outbox_id, subject, pipeline_id, event_name, dataset_id, event_version, idempotency_key, target, payload, care_label, governance_ref)
INSERT INTO outbox (outbox_id, subject, pipeline_id, event_name, dataset_id, version, idempotency_key,
  target, payload, care_label, governance_ref, created_at)
SELECT x.outbox_id, x.subject, x.pipeline_id, x.event_name, x.dataset_id, x.event_version,
  x.idempotency_key, x.target, convert_to(x.payload, 'UTF8'), x.care_label, x.governance_ref,
  coalesce(:now::timestamptz, clock_timestamp())
FROM each_row AS x;

-- name: insert_duplicates(now; idempotency_key, pipeline_id, event_name)
INSERT INTO outbox_duplicates (idempotency_key, pipeline_id, event_name, seen_at)
SELECT x.idempotency_key, x.pipeline_id, x.event_name, coalesce(:now::timestamptz, clock_timestamp())
FROM each_row AS x;

-- name: create_inbox()
-- In the consumer's own database; as the migrations make it in ours.
CREATE TABLE IF NOT EXISTS inbox (
  consumer    text COLLATE "C" NOT NULL CHECK (consumer <> ''),
  event_key   text COLLATE "C" NOT NULL CHECK (trim(event_key) <> ''),
  handled_at  timestamptz NOT NULL,
  PRIMARY KEY (consumer, event_key)
);

-- name: insert_handled(now; consumer, event_key)
INSERT INTO inbox (consumer, event_key, handled_at)
SELECT x.consumer, x.event_key, coalesce(:now::timestamptz, clock_timestamp()) FROM each_row AS x
ON CONFLICT DO NOTHING;
