-- Where the ledger stands, in this database's own words.

-- name: count_mismatches(since)
SELECT count(*) AS records, count(*) FILTER (WHERE p.mismatch = 1) AS mismatches
FROM replay_runs AS r CROSS JOIN replay_run_records AS p ON p.replay_run_id = r.replay_run_id
WHERE r.started_at >= :since AND p.outcome = 'done';
