-- name: mark_started
-- Says that the handler of a claimed task is about to run, if the task is still exactly the one that was claimed and
-- its worker is not about to be declared dead.
UPDATE {schema}.tasks SET started = true
WHERE id = $1 AND version = $2 AND status = 'in-progress' AND EXISTS (
    SELECT 1 FROM {schema}.workers
    WHERE workers.id = worker_id AND lease_until > {server_time} FOR KEY SHARE);

-- name: started_by
-- Of what a worker has claimed and not settled, the claims that a crash costs an attempt.
SELECT id, version FROM {schema}.tasks WHERE status = 'in-progress' AND worker_id = $1 AND started;

-- name: renew_lease
-- A worker process is still there. If it was taken for dead meanwhile, nothing changes.
UPDATE {schema}.workers SET lease_until = {server_time} + {lease} WHERE id = $1;

-- name: end_lease
-- A worker process stops showing that it is there.
UPDATE {schema}.workers SET lease_until = 0 WHERE id = $1;

-- name: lease_expired
-- One row if a worker's lease has run out, by the server's clock.
SELECT 1 FROM {schema}.workers WHERE id = $1 AND lease_until < {server_time};

-- name: ring
-- Wakes the workers that listen, if there are any, once the transaction is committed. The server sends equal ones only
-- once, and lets only one transaction commit at a time that rings.
SELECT pg_notify($1, '') WHERE EXISTS (SELECT 1 FROM {schema}.workers);

-- name: insert_task_alone
-- Accepts one task and wakes the workers that listen, in one statement: a transaction by itself.
WITH accepted AS (
    INSERT INTO {schema}.tasks
        (id, type, input, created_at, updated_at, run_after, priority, key, max_attempts, timeout)
    VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9)
    ON CONFLICT DO NOTHING RETURNING 1)
SELECT 1, (SELECT pg_notify('{channel}', '') WHERE EXISTS (SELECT 1 FROM {schema}.workers)) FROM accepted;

-- name: moved_in
-- Which move this queue came by, if any: whoever follows one makes sure that it has come to the right place.
SELECT value FROM {schema}.settings WHERE type = '' AND name = 'moved_in';
