-- Who may act.

-- name: any_actor()
SELECT 1 AS found FROM actors LIMIT 1;

-- name: actor_by_name(actor)
SELECT name, role, token_sha256, created_by, created_at, rotated_at, revoked_at
FROM actors WHERE name = :actor;

-- name: actor_by_token(token_sha256)
SELECT name, role, token_sha256, created_by, created_at, rotated_at, revoked_at
FROM actors WHERE token_sha256 = :token_sha256;

-- name: list_actors()
SELECT name, role, token_sha256, created_by, created_at, rotated_at, revoked_at
FROM actors ORDER BY name;

-- name: insert_actor(now, actor, role, token_sha256, created_by)
INSERT INTO actors (name, role, token_sha256, created_by, created_at)
VALUES (:actor, :role, :token_sha256, :created_by, :now);

-- name: rotate_actor(now, actor, token_sha256)
UPDATE actors SET token_sha256 = :token_sha256, rotated_at = :now WHERE name = :actor;

-- name: revoke_actor(now, actor)
UPDATE actors SET revoked_at = :now WHERE name = :actor;
