-- What a replay plan reads: records and attempts alone, by pages of keys, never a catalog or a queue.

-- name: count_in_scope(dataset, status, start, stop)
SELECT count(*) AS records FROM wal_records
WHERE dataset = :dataset AND status = :status AND wal_id >= :start AND wal_id < :stop;
