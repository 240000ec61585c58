-- What verification reads: units with all that is stored of their success, in one statement each
-- page, so that an item that is replaced meanwhile is never met with another attempt's evidence.

-- name: units_to_verify(rows)
SELECT r.wal_id, r.dataset, r.object_uri, r.provider, r.queue, r.event_time, r.time_range_start,
  r.time_range_end, r.extensions, r.stac_collection_id, r.stac_item_id,
  a.attempt_no, a.intent, a.replay_run_id, a.object_etag, a.object_size, a.object_sequencer,
  a.object_version_id, a.evidence, a.code_version, a.config_version,
  a.item_sha256 AS made_item_sha256, a.provenance_sha256 AS made_provenance_sha256,
  i.collection_id, i.item_id, i.body AS item_body, i.sha256 AS item_sha256,
  p.body AS provenance_body, p.sha256 AS provenance_sha256
FROM json_array_elements_text(:rows::json) AS named (value)
JOIN wal_records AS r ON r.wal_id = named.value::uuid
LEFT JOIN wal_attempts AS a
  ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt AND a.status = 'applied'
LEFT JOIN stac_items AS i ON i.wal_id = r.wal_id
LEFT JOIN provenance AS p ON p.wal_id = r.wal_id AND p.activity_id = a.prov_activity_id
ORDER BY r.wal_id;
