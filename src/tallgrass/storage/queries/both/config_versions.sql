-- What a config_version stood for.

-- name: config_body(config_version)
SELECT body FROM config_versions WHERE config_version = :config_version;

-- name: config_versions_seen()
SELECT config_version, first_seen_at FROM config_versions ORDER BY first_seen_at, config_version;
