-- What a config_version stood for.

-- name: config_body(config_version)
SELECT body FROM config_versions WHERE config_version = :config_version;
