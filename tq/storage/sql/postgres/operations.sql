-- name: hold_tasks
-- Keeps tasks as they are until the transaction ends.
SELECT 1 FROM {schema}.tasks
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text($1::jsonb))) AND completed_at IS NULL
ORDER BY id FOR NO KEY UPDATE;

-- name: cancel_waiting
-- Cancels tasks that nobody has claimed.
UPDATE {schema}.tasks
SET status = 'cancelled', version = version + 1, run_after = NULL, completed_at = $2::float8, updated_at = $2::float8,
    cancelled_by = $3::text
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text($1::jsonb)))
  AND status IN ('to-do', 'failed') AND completed_at IS NULL
RETURNING id, type, 'waiting', version, attempts;

-- name: ask_to_cancel
-- Asks the workers of claimed tasks to stop them. The claims stay theirs.
UPDATE {schema}.tasks SET cancelled_by = $2::text
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text($1::jsonb))) AND status = 'in-progress' AND cancelled_by IS NULL
RETURNING id, type, status, version, attempts;

-- name: retry_ended
-- Makes tasks ready that have ended in this status, with all of their attempts before them.
UPDATE {schema}.tasks
SET status = 'to-do', version = version + 1, attempts = 0, crashes = 0, ready_at = $2::float8, completed_at = NULL,
    cancelled_by = NULL, updated_at = $2::float8
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text($1::jsonb)))
  AND status = $3::text AND status IN ('failed', 'cancelled') AND completed_at IS NOT NULL
RETURNING id, type, $3::text, version, attempts;

-- name: hasten
-- Makes tasks ready that wait for their time, or for their retry.
UPDATE {schema}.tasks
SET status = 'to-do', version = version + 1, run_after = NULL, ready_at = $2::float8, updated_at = $2::float8
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text($1::jsonb)))
  AND status IN ('to-do', 'failed') AND run_after IS NOT NULL
RETURNING id, type, 'waiting', version, attempts;

-- name: delete_ended
-- Deletes tasks that have ended.
DELETE FROM {schema}.tasks
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text($1::jsonb)))
  AND status IN ('success', 'failed', 'cancelled') AND completed_at IS NOT NULL
RETURNING id, type, status, version, attempts;

-- name: delete_inputs
-- The long inputs of tasks that were deleted.
DELETE FROM {schema}.task_inputs WHERE task_id = ANY (ARRAY(SELECT jsonb_array_elements_text($1::jsonb)));

-- name: delete_attempts
-- The history of tasks that were deleted.
DELETE FROM {schema}.attempts WHERE task_id = ANY (ARRAY(SELECT jsonb_array_elements_text($1::jsonb)));

-- name: page
-- A page of the tasks between two ids that match, the newest first. The first parameters are those of every page: below
-- and from which id, how many, of which type, in which of these states, with which text or error.
SELECT id, type, coalesce(input, (SELECT input FROM {schema}.task_inputs WHERE task_id = id)), status, version,
    attempts, last_attempt_at, output, error, run_after, created_at, updated_at, completed_at, priority, key,
    max_attempts, timeout, crashes, worker_id, cancelled_by, ready_at
FROM {schema}.tasks
WHERE id < $1::text AND id >= $2::text AND ($4::text IS NULL OR type = $4::text)
    AND ($5::text IS NULL OR $5::jsonb ? CASE
        WHEN status = 'to-do' THEN CASE WHEN run_after IS NULL THEN 'ready' ELSE 'scheduled' END
        WHEN status = 'failed' THEN CASE WHEN completed_at IS NULL THEN 'retrying' ELSE 'dead' END
        ELSE status END)
    AND ($6::text IS NULL OR error ILIKE $6::text ESCAPE '\'
        OR coalesce(input, (SELECT input FROM {schema}.task_inputs WHERE task_id = id)) ILIKE $6::text ESCAPE '\')
    AND ($7::text IS NULL OR error = $7::text)
ORDER BY id DESC LIMIT $3::bigint;

-- name: page_of_few
-- The same, of states in which there are few tasks.
SELECT id, type, coalesce(input, (SELECT input FROM {schema}.task_inputs WHERE task_id = id)), status, version,
    attempts, last_attempt_at, output, error, run_after, created_at, updated_at, completed_at, priority, key,
    max_attempts, timeout, crashes, worker_id, cancelled_by, ready_at
FROM {schema}.tasks
WHERE id IN (
        SELECT id FROM (
            SELECT id FROM {schema}.tasks WHERE status = 'to-do' AND run_after IS NULL
            LIMIT CASE WHEN $5::jsonb ? 'ready' THEN 1000000 ELSE 0 END) AS tasks_ready
        UNION ALL
        SELECT id FROM (
            SELECT id FROM {schema}.tasks WHERE run_after IS NOT NULL
            LIMIT CASE WHEN $5::jsonb ? 'scheduled'
                OR $5::jsonb ? 'retrying' THEN 1000000 ELSE 0 END) AS tasks_due
        UNION ALL
        SELECT id FROM (
            SELECT id FROM {schema}.tasks WHERE status = 'in-progress'
            LIMIT CASE WHEN $5::jsonb ? 'in-progress' THEN 1000000 ELSE 0 END) AS tasks_running
        UNION ALL
        SELECT id FROM (
            SELECT id FROM {schema}.tasks WHERE status IN ('failed', 'cancelled') AND completed_at IS NOT NULL
            LIMIT CASE WHEN $5::jsonb ? 'dead'
                OR $5::jsonb ? 'cancelled' THEN 1000000 ELSE 0 END) AS tasks_given_up)
    AND id < $1::text AND id >= $2::text AND ($4::text IS NULL OR type = $4::text)
    AND ($5::text IS NULL OR $5::jsonb ? CASE
        WHEN status = 'to-do' THEN CASE WHEN run_after IS NULL THEN 'ready' ELSE 'scheduled' END
        WHEN status = 'failed' THEN CASE WHEN completed_at IS NULL THEN 'retrying' ELSE 'dead' END
        ELSE status END)
    AND ($6::text IS NULL OR error ILIKE $6::text ESCAPE '\'
        OR coalesce(input, (SELECT input FROM {schema}.task_inputs WHERE task_id = id)) ILIKE $6::text ESCAPE '\')
    AND ($7::text IS NULL OR error = $7::text)
ORDER BY id DESC LIMIT $3::bigint;

-- name: page_of_type
-- The same, of a type of which few tasks have not ended.
SELECT id, type, coalesce(input, (SELECT input FROM {schema}.task_inputs WHERE task_id = id)), status, version,
    attempts, last_attempt_at, output, error, run_after, created_at, updated_at, completed_at, priority, key,
    max_attempts, timeout, crashes, worker_id, cancelled_by, ready_at
FROM {schema}.tasks
WHERE id IN (
        SELECT id FROM {schema}.tasks
        WHERE type = $4::text AND status = 'to-do' AND run_after IS NULL
        UNION ALL SELECT id FROM {schema}.tasks WHERE type = $4::text AND run_after IS NOT NULL
        UNION ALL SELECT id FROM {schema}.tasks WHERE type = $4::text AND status = 'in-progress'
        UNION ALL SELECT id FROM (
            SELECT id FROM {schema}.tasks
            WHERE type = $4::text AND completed_at IS NOT NULL AND id < $1::text AND id >= $2::text
            ORDER BY id DESC LIMIT $8::bigint) AS ended)
    AND id < $1::text AND id >= $2::text AND ($4::text IS NULL OR type = $4::text)
    AND ($5::text IS NULL OR $5::jsonb ? CASE
        WHEN status = 'to-do' THEN CASE WHEN run_after IS NULL THEN 'ready' ELSE 'scheduled' END
        WHEN status = 'failed' THEN CASE WHEN completed_at IS NULL THEN 'retrying' ELSE 'dead' END
        ELSE status END)
    AND ($6::text IS NULL OR error ILIKE $6::text ESCAPE '\'
        OR coalesce(input, (SELECT input FROM {schema}.task_inputs WHERE task_id = id)) ILIKE $6::text ESCAPE '\')
    AND ($7::text IS NULL OR error = $7::text)
ORDER BY id DESC LIMIT $3::bigint;

-- name: reach_of_type
-- The last of so many ended tasks of a type below an id.
SELECT id FROM {schema}.tasks
WHERE type = $4::text AND completed_at IS NOT NULL AND id < $1::text AND id >= $2::text
ORDER BY id DESC LIMIT 1 OFFSET $3::bigint;

-- name: type_names
-- All types that have tasks that are ready, each found in the index behind the one before, or that have ended.
WITH RECURSIVE names (type) AS (
    SELECT min(type) FROM {schema}.tasks WHERE status = 'to-do' AND run_after IS NULL
    UNION ALL
    SELECT (SELECT min(type) FROM {schema}.tasks
        WHERE status = 'to-do' AND run_after IS NULL AND tasks.type > names.type)
    FROM names WHERE names.type IS NOT NULL)
SELECT type FROM names WHERE type IS NOT NULL
UNION SELECT type FROM {schema}.finished_counts WHERE count != 0;

-- name: count_few
-- How many tasks there are in each state but success, as far as a number.
SELECT 'ready', (SELECT count(*) FROM (
    SELECT 1 FROM {schema}.tasks WHERE status = 'to-do' AND run_after IS NULL LIMIT $1::bigint) AS few)
UNION ALL SELECT 'waiting', (SELECT count(*) FROM (
    SELECT 1 FROM {schema}.tasks WHERE run_after IS NOT NULL LIMIT $1::bigint) AS few)
UNION ALL SELECT 'in-progress', (SELECT count(*) FROM (
    SELECT 1 FROM {schema}.tasks WHERE status = 'in-progress' LIMIT $1::bigint) AS few)
UNION ALL SELECT 'given up', (SELECT count(*) FROM (
    SELECT 1 FROM {schema}.tasks
    WHERE status IN ('failed', 'cancelled') AND completed_at IS NOT NULL LIMIT $1::bigint) AS few);

-- name: reach
-- The last of so many tasks below an id: how far one page looks.
SELECT id FROM {schema}.tasks WHERE id < $1::text AND id >= $2::text ORDER BY id DESC LIMIT 1 OFFSET $3::bigint;

-- name: put_setting
-- Sets what holds for a type in every process.
INSERT INTO {schema}.settings (type, name, value) VALUES ($1::text, $2::text, $3::text)
ON CONFLICT (type, name) DO UPDATE SET value = excluded.value;

-- name: drop_setting
-- Lets a type be as the programs say.
DELETE FROM {schema}.settings WHERE type = $1::text AND name = $2::text;

-- name: describe_worker
-- What a worker process says of itself.
UPDATE {schema}.workers SET about = $2::text WHERE id = $1::text;

-- name: describe_workers
-- All worker processes, with what they say of themselves.
SELECT id, host, pid, identity, started_at, about FROM {schema}.workers ORDER BY id;

-- name: running_by_worker
-- What each worker has claimed and not settled.
SELECT worker_id, id, type, last_attempt_at, attempts FROM {schema}.tasks
WHERE status = 'in-progress' ORDER BY worker_id, id;

-- name: ready_before
-- How many ready tasks of a type go before one of this priority and id, as far as a number, twice.
SELECT (SELECT count(*) FROM (
        SELECT 1 FROM {schema}.tasks
        WHERE type = $1::text AND status = 'to-do' AND run_after IS NULL AND priority > $2::integer
        LIMIT $4::bigint) AS higher)
    + (SELECT count(*) FROM (
        SELECT 1 FROM {schema}.tasks
        WHERE type = $1::text AND status = 'to-do' AND run_after IS NULL AND priority = $2::integer
            AND id < $3::text
        LIMIT $4::bigint) AS older);

-- name: record_action
-- Remembers what somebody has changed.
INSERT INTO {schema}.tq_actions (id, at, actor, action, target, count)
VALUES ($1::text, $2::float8, $3::text, $4::text, $5::text, $6::bigint)
ON CONFLICT DO NOTHING;

-- name: list_actions
-- What was changed, the newest first.
SELECT id, at, actor, action, target, count FROM {schema}.tq_actions WHERE id < $1::text
ORDER BY id DESC LIMIT $2::bigint;

-- name: ready_of_type
-- How many tasks of a type are ready, as far as a number.
SELECT count(*) FROM (
    SELECT 1 FROM {schema}.tasks WHERE type = $1::text AND status = 'to-do' AND run_after IS NULL
    LIMIT $2::bigint) AS few;

-- name: next_of_type
-- Since when the ready task waits that is the next of its type.
SELECT coalesce(ready_at, created_at) FROM {schema}.tasks
WHERE type = $1::text AND status = 'to-do' AND run_after IS NULL
ORDER BY priority DESC, id LIMIT 1;

-- name: count_waiting_few
-- Scheduled tasks and retries by type, of so many that are looked at.
SELECT type, status, count(*) FROM (
    SELECT type, status FROM {schema}.tasks WHERE run_after IS NOT NULL LIMIT $1::bigint) AS few
GROUP BY type, status;

-- name: add_to_minute
-- Adds to what happened in a minute.
INSERT INTO {schema}.tq_minutes AS kept (minute, type, what, count) VALUES ($1::bigint, $2::text, $3::text, $4::bigint)
ON CONFLICT (minute, type, what) DO UPDATE SET count = kept.count + excluded.count;

-- name: put_minute
-- Says how often something happened in a minute, for whoever counts first.
INSERT INTO {schema}.tq_minutes (minute, type, what, count) VALUES ($1::bigint, $2::text, $3::text, $4::bigint)
ON CONFLICT DO NOTHING;

-- name: read_minutes
-- What happened from a minute on.
SELECT minute, type, what, count FROM {schema}.tq_minutes WHERE minute >= $1::bigint AND minute <= $2::bigint
ORDER BY minute, type, what;

-- name: last_minute_counted
-- The last minute whose new tasks were counted.
SELECT minute FROM {schema}.tq_minutes WHERE type = '' AND what = 'counted' ORDER BY minute DESC LIMIT 1;

-- name: count_added
-- How many tasks of each type were made between two ids, of so many that are looked at.
SELECT type, count(*) FROM (
    SELECT type FROM {schema}.tasks WHERE id >= $1::text AND id < $2::text LIMIT $3::bigint) AS made
GROUP BY type;

-- name: drop_minutes
-- Forgets what happened long ago.
DELETE FROM {schema}.tq_minutes WHERE minute < $1::bigint;
