-- What a config_version stood for.

-- name: insert_config_version(now, config_version, body)
INSERT INTO config_versions (config_version, body, first_seen_at)
VALUES (:config_version, CAST(:body AS BLOB), :now) ON CONFLICT DO NOTHING;
