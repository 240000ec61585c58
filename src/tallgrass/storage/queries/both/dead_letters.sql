-- What a drain keeps of its letters.

-- name: count_letters(replay_run_id)
SELECT action, state, CASE WHEN state = 'left' THEN reason END AS reason, count(*) AS letters,
  count(*) FILTER (WHERE sends > 1) AS sent_again
FROM drained_letters WHERE replay_run_id = :replay_run_id
GROUP BY 1, 2, 3;

-- name: grow_replay_run(replay_run_id, added)
UPDATE replay_runs SET planned = planned + :added, finished_at = NULL
WHERE replay_run_id = :replay_run_id;

-- name: succeeded_later(replay_run_id)
-- Units that failed in the run and that a message brought through since, by what they failed of.
SELECT p.reason, count(*) AS units FROM replay_run_records AS p
JOIN wal_records AS r ON r.wal_id = p.wal_id
WHERE p.replay_run_id = :replay_run_id AND p.outcome = 'failed' AND r.status = 'succeeded'
GROUP BY p.reason;

-- name: drain_quality(replay_run_id)
-- Units of a run that were applied more than once with the same object, and those that it brought
-- through and of which the catalog has no whole lineage.
SELECT (SELECT count(*) FROM replay_run_records AS p
    JOIN wal_attempts AS a ON a.wal_id = p.wal_id AND a.attempt_no = p.attempt_no
    WHERE p.replay_run_id = :replay_run_id AND a.status = 'applied' AND EXISTS (
      SELECT 1 FROM wal_attempts AS b WHERE b.wal_id = a.wal_id AND b.status = 'applied'
        AND b.attempt_no <> a.attempt_no AND coalesce(b.read_etag, b.object_etag, '') = coalesce(a.read_etag, a.object_etag, '')
        AND coalesce(b.object_sequencer, '') = coalesce(a.object_sequencer, ''))) AS duplicates,
  (SELECT count(*) FROM replay_run_records AS p
    JOIN wal_attempts AS a ON a.wal_id = p.wal_id AND a.attempt_no = p.attempt_no
    LEFT JOIN provenance AS d ON d.wal_id = a.wal_id AND d.activity_id = a.prov_activity_id
    WHERE p.replay_run_id = :replay_run_id AND a.status = 'applied'
      AND (d.wal_id IS NULL OR a.provenance_status <> 'ok')) AS lineage_regressions;
