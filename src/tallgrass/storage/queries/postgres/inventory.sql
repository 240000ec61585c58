-- What listings tell, against the ledger.

-- name: unsettled_objects(rows)
-- Places in a list of [uri, etag, size] that the ledger lacks, or knows with another etag or size;
-- the newest object counts, and what one side does not tell is not compared. A unit that waits for a
-- message is told too: a listing announces it as well as the message would, which may be lost.
SELECT (listed.number - 1)::integer AS place
FROM json_array_elements(:rows::json) WITH ORDINALITY AS listed (value, number)
LEFT JOIN wal_records AS r ON r.object_uri = listed.value ->> 0
LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.attempts
WHERE r.wal_id IS NULL OR (r.status = 'pending' AND r.due_at IS NULL)
  OR listed.value ->> 1 <> CASE WHEN r.next_object IS NULL
    THEN coalesce(a.read_etag, a.object_etag) ELSE r.next_object::json ->> 'etag' END
  OR (listed.value ->> 2)::bigint <> CASE WHEN r.next_object IS NULL
    THEN a.object_size ELSE (r.next_object::json ->> 'size')::bigint END
ORDER BY listed.number;
