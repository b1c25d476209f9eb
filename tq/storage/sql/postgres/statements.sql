-- name: insert_task
-- Accepts tasks. A second one with the same type and key is refused by its index.
WITH given AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::float8[], $5::float8[], $6::integer[], $7::text[],
        $8::integer[], $9::float8[]) WITH ORDINALITY
    AS given (id, type, input, created_at, run_after, priority, key, max_attempts, timeout, ordinal)),
accepted AS (
    INSERT INTO {schema}.tasks
        (id, type, input, created_at, updated_at, run_after, priority, key, max_attempts, timeout)
    SELECT id, type, input, created_at, created_at, run_after, priority, key, max_attempts, timeout FROM given
    ON CONFLICT DO NOTHING RETURNING id)
SELECT ordinal FROM given JOIN accepted USING (id);

-- name: insert_input
-- Keeps long inputs out of the rows that every transition rewrites.
INSERT INTO {schema}.task_inputs (task_id, input) SELECT * FROM unnest($1::text[], $2::text[]);

-- name: find_key
-- The task that already holds this key.
SELECT id FROM {schema}.tasks WHERE type = $1 AND key = $2;

-- name: promote_due
-- Makes tasks ready whose time has come: scheduled ones and retries alike.
UPDATE {schema}.tasks
SET status = 'to-do', run_after = NULL, ready_at = run_after, version = version + 1, updated_at = $1
WHERE id = ANY (ARRAY(
    SELECT id FROM {schema}.tasks WHERE run_after <= $1 ORDER BY run_after LIMIT $2 FOR UPDATE SKIP LOCKED))
  AND run_after <= $1 AND status IN ('to-do', 'failed');

-- name: next_due
-- When the next scheduled task or retry falls due.
SELECT min(run_after) FROM {schema}.tasks WHERE run_after IS NOT NULL;

-- name: claim
-- Takes the first ready tasks of a type: higher priority first, oldest first among equals. Where a task can afford to
-- lose the attempt, it counts as started at once; where it cannot, only mark_started says so.
UPDATE {schema}.tasks
SET status = 'in-progress', version = version + 1, attempts = attempts + 1, worker_id = $1, last_attempt_at = $2,
    updated_at = $2, attempts_allowed = coalesce(max_attempts, $3),
    started = attempts + 1 < coalesce(max_attempts, $3) AND crashes + 1 < {max_crashes}
WHERE id = ANY (ARRAY(
    SELECT id FROM {schema}.tasks WHERE type = $4 AND status = 'to-do' AND run_after IS NULL
    ORDER BY priority DESC, id LIMIT $5 FOR UPDATE SKIP LOCKED))
  AND status = 'to-do'
RETURNING id, type, coalesce(input, (SELECT input FROM {schema}.task_inputs WHERE task_id = id)), version, attempts,
    crashes, attempts_allowed, timeout, coalesce(ready_at, created_at), priority, last_attempt_at;

-- name: settle
-- The one way out of a claim. It changes nothing unless the task is still exactly the one that was claimed; and one that
-- is to be cancelled does not come again. The collation keeps the planner off the index of running tasks: it would read all
-- of them for each one (0.55 × at a million rows).
UPDATE {schema}.tasks AS task
SET status = done.status, version = task.version + 1, attempts = done.attempts, crashes = done.crashes,
    output = done.output, error = done.error, run_after = done.run_after, completed_at = done.completed_at,
    updated_at = done.updated_at
FROM unnest($1::text[], $2::integer[], $3::integer[], $4::text[], $5::text[], $6::float8[], $7::float8[],
    $8::float8[], $9::text[], $10::bigint[]) WITH ORDINALITY
    AS done (status, attempts, crashes, output, error, run_after, completed_at, updated_at, id, version, ordinal)
WHERE task.id = done.id AND task.version = done.version AND task.status COLLATE "C" = 'in-progress'
    AND (task.cancelled_by IS NULL OR done.completed_at IS NOT NULL)
RETURNING done.ordinal;

-- name: record_attempt
-- Remembers attempts that did not end well.
INSERT INTO {schema}.attempts (task_id, version, attempt, outcome, error, started_at, ended_at, worker_id)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::integer[], $4::text[], $5::text[], $6::float8[], $7::float8[],
    $8::text[])
ON CONFLICT DO NOTHING;

-- name: count_finished
-- Adds to the kept counts of ended tasks.
INSERT INTO {schema}.finished_counts AS kept (type, status, count) VALUES ($1, $2, $3)
ON CONFLICT (type, status) DO UPDATE SET count = kept.count + excluded.count;

-- name: lock_limits
-- Holds the shared limits of a type, so that nobody else counts its running tasks or spends its tokens meanwhile, and
-- tells the time after that.
WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended('{schema} limits ' || $1, 0)))
SELECT {time} FROM held;

-- name: running_of_type
-- How many tasks of a type run anywhere: the running rows themselves, so that no counter can leak. It reads the index of
-- running tasks, and not that of the type.
SELECT count(*) FROM {schema}.tasks WHERE status = 'in-progress' AND type || '' = $1;

-- name: owned_by
-- What a worker has claimed and not settled.
SELECT id, type, coalesce(input, ''), version, attempts, crashes, attempts_allowed, timeout,
    coalesce(ready_at, created_at), priority, last_attempt_at
FROM {schema}.tasks WHERE status = 'in-progress' AND worker_id = $1;

-- name: get_task
-- A task, whole.
SELECT id, type, coalesce(input, (SELECT input FROM {schema}.task_inputs WHERE task_id = id)), status, version,
    attempts, last_attempt_at, output, error, run_after, created_at, updated_at, completed_at, priority, key,
    max_attempts, timeout, crashes, worker_id, cancelled_by, ready_at
FROM {schema}.tasks WHERE id = $1;

-- name: get_attempts
-- The attempts of a task that did not end well, oldest first.
SELECT attempt, outcome, error, started_at, ended_at, worker_id FROM {schema}.attempts
WHERE task_id = $1 ORDER BY version;

-- name: get_status
-- Whether a task has ended, and how.
SELECT status, completed_at FROM {schema}.tasks WHERE id = $1;

-- name: count_ready
-- Ready tasks by type.
SELECT type, count(*) FROM {schema}.tasks WHERE status = 'to-do' AND run_after IS NULL GROUP BY type;

-- name: count_waiting
-- Scheduled tasks and retries by type.
SELECT type, status, count(*) FROM {schema}.tasks WHERE run_after IS NOT NULL GROUP BY type, status;

-- name: count_running
-- Claimed tasks by type.
SELECT type, count(*) FROM {schema}.tasks WHERE status = 'in-progress' GROUP BY type;

-- name: count_ended
-- The kept counts of ended tasks.
SELECT type, status, count FROM {schema}.finished_counts WHERE count != 0;

-- name: read_bucket
-- The token bucket of a type.
SELECT tokens, filled_at FROM {schema}.rate_buckets WHERE type = $1;

-- name: write_bucket
-- What is left in a token bucket.
INSERT INTO {schema}.rate_buckets (type, tokens, filled_at) VALUES ($1, $2, $3)
ON CONFLICT (type) DO UPDATE SET tokens = excluded.tokens, filled_at = excluded.filled_at;

-- name: stored_settings
-- The settings that hold in every process, as `look_around` tells them.
SELECT coalesce(json_agg(json_build_array(type, name, value) ORDER BY type, name), '[]')::text
FROM {schema}.settings;

-- name: pause_type
-- Pauses a type, or with '' the whole queue.
INSERT INTO {schema}.settings (type, name, value) VALUES ($1, 'paused', 'true') ON CONFLICT DO NOTHING;

-- name: resume_type
-- Ends a pause.
DELETE FROM {schema}.settings WHERE type = $1 AND name = 'paused';

-- name: insert_worker
-- A worker process says that it is there, and how long that holds.
INSERT INTO {schema}.workers (id, host, pid, identity, started_at, lease_until)
VALUES ($1, $2, $3, $4, $5, {server_time} + {lease})
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until;

-- name: look_around
-- One row if this worker counts as living: the time, the stored settings, when the next task falls due, and which of its
-- tasks are to be cancelled. Nobody can declare the worker dead before the transaction ends.
SELECT {time},
    (SELECT coalesce(json_agg(json_build_array(type, name, value) ORDER BY type, name), '[]')::text
     FROM {schema}.settings),
    (SELECT min(run_after) FROM {schema}.tasks WHERE run_after IS NOT NULL),
    (SELECT coalesce(json_agg(json_build_array(id, cancelled_by)), '[]')::text FROM {schema}.tasks
     WHERE worker_id = $1 AND cancelled_by IS NOT NULL AND status = 'in-progress')
FROM {schema}.workers WHERE id = $1 FOR KEY SHARE;

-- name: hold_worker
-- Keeps a worker's row as it is until the transaction ends: it can neither renew its lease nor claim meanwhile.
SELECT 1 FROM {schema}.workers WHERE id = $1 FOR UPDATE;

-- name: delete_worker
-- A worker process has gone. As long as it owns a task its row stays, so that the task is recovered.
DELETE FROM {schema}.workers
WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM {schema}.tasks WHERE status = 'in-progress' AND worker_id = $1);

-- name: list_workers
-- All worker processes that have not said goodbye.
SELECT id, host, pid, identity, started_at FROM {schema}.workers ORDER BY id;

-- name: count_unfinished
-- One row for as long as any task is not at its end.
SELECT 1 WHERE EXISTS (SELECT 1 FROM {schema}.tasks WHERE status = 'to-do' AND run_after IS NULL)
    OR EXISTS (SELECT 1 FROM {schema}.tasks WHERE run_after IS NOT NULL)
    OR EXISTS (SELECT 1 FROM {schema}.tasks WHERE status = 'in-progress');
