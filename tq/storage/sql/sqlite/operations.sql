-- name: hold_tasks
-- Keeps tasks as they are until the transaction ends. Here the write lock does so already.
SELECT NULL WHERE ?1 IS NULL;

-- name: cancel_waiting
-- Cancels tasks that nobody has claimed.
UPDATE tasks
SET status = 'cancelled', version = version + 1, run_after = NULL, completed_at = ?2, updated_at = ?2,
    cancelled_by = ?3
WHERE id IN (SELECT value FROM json_each(?1)) AND status IN ('to-do', 'failed') AND completed_at IS NULL
RETURNING id, type, 'waiting', version, attempts;

-- name: ask_to_cancel
-- Asks the workers of claimed tasks to stop them. The claims stay theirs.
UPDATE tasks SET cancelled_by = ?2
WHERE id IN (SELECT value FROM json_each(?1)) AND status = 'in-progress' AND cancelled_by IS NULL
RETURNING id, type, status, version, attempts;

-- name: retry_ended
-- Makes tasks ready that have ended in this status, with all of their attempts before them.
UPDATE tasks
SET status = 'to-do', version = version + 1, attempts = 0, crashes = 0, ready_at = ?2, completed_at = NULL,
    cancelled_by = NULL, updated_at = ?2
WHERE id IN (SELECT value FROM json_each(?1))
  AND status = ?3 AND status IN ('failed', 'cancelled') AND completed_at IS NOT NULL
RETURNING id, type, ?3, version, attempts;

-- name: hasten
-- Makes tasks ready that wait for their time, or for their retry.
UPDATE tasks
SET status = 'to-do', version = version + 1, run_after = NULL, ready_at = ?2, updated_at = ?2
WHERE id IN (SELECT value FROM json_each(?1)) AND status IN ('to-do', 'failed') AND run_after IS NOT NULL
RETURNING id, type, 'waiting', version, attempts;

-- name: delete_ended
-- Deletes tasks that have ended.
DELETE FROM tasks
WHERE id IN (SELECT value FROM json_each(?1))
  AND status IN ('success', 'failed', 'cancelled') AND completed_at IS NOT NULL
RETURNING id, type, status, version, attempts;

-- name: delete_inputs
-- The long inputs of tasks that were deleted.
DELETE FROM task_inputs WHERE task_id IN (SELECT value FROM json_each(?1));

-- name: delete_attempts
-- The history of tasks that were deleted.
DELETE FROM attempts WHERE task_id IN (SELECT value FROM json_each(?1));

-- name: page
-- A page of the tasks between two ids that match, the newest first. The first parameters are those of every page: below
-- and from which id, how many, of which type, in which of these states, with which text or error.
SELECT id, type, coalesce(input, (SELECT input FROM task_inputs WHERE task_id = id)), status, version, attempts,
    last_attempt_at, output, error, run_after, created_at, updated_at, completed_at, priority, key, max_attempts,
    timeout, crashes, worker_id, cancelled_by, ready_at
FROM tasks
WHERE id < ?1 AND id >= ?2 AND (?4 IS NULL OR type = ?4)
    AND (?5 IS NULL OR CASE
        WHEN status = 'to-do' THEN CASE WHEN run_after IS NULL THEN 'ready' ELSE 'scheduled' END
        WHEN status = 'failed' THEN CASE WHEN completed_at IS NULL THEN 'retrying' ELSE 'dead' END
        ELSE status END IN (SELECT value FROM json_each(?5)))
    AND (?6 IS NULL OR error LIKE ?6 ESCAPE '\'
        OR coalesce(input, (SELECT input FROM task_inputs WHERE task_id = id)) LIKE ?6 ESCAPE '\')
    AND (?7 IS NULL OR error = ?7)
ORDER BY id DESC LIMIT ?3;

-- name: page_of_few
-- The same, of states in which there are few tasks.
SELECT id, type, coalesce(input, (SELECT input FROM task_inputs WHERE task_id = id)), status, version, attempts,
    last_attempt_at, output, error, run_after, created_at, updated_at, completed_at, priority, key, max_attempts,
    timeout, crashes, worker_id, cancelled_by, ready_at
FROM tasks
WHERE id IN (
        SELECT id FROM (
            SELECT id FROM tasks INDEXED BY tasks_ready WHERE status = 'to-do' AND run_after IS NULL
            LIMIT CASE WHEN 'ready' IN (SELECT value FROM json_each(?5)) THEN 1000000 ELSE 0 END) AS tasks_ready
        UNION ALL
        SELECT id FROM (
            SELECT id FROM tasks INDEXED BY tasks_due WHERE run_after IS NOT NULL
            LIMIT CASE WHEN 'scheduled' IN (SELECT value FROM json_each(?5))
                OR 'retrying' IN (SELECT value FROM json_each(?5)) THEN 1000000 ELSE 0 END) AS tasks_due
        UNION ALL
        SELECT id FROM (
            SELECT id FROM tasks INDEXED BY tasks_running WHERE status = 'in-progress'
            LIMIT CASE WHEN 'in-progress' IN (SELECT value FROM json_each(?5)) THEN 1000000 ELSE 0 END) AS tasks_running
        UNION ALL
        SELECT id FROM (
            SELECT id FROM tasks INDEXED BY tasks_given_up
            WHERE status IN ('failed', 'cancelled') AND completed_at IS NOT NULL
            LIMIT CASE WHEN 'dead' IN (SELECT value FROM json_each(?5))
                OR 'cancelled' IN (SELECT value FROM json_each(?5)) THEN 1000000 ELSE 0 END) AS tasks_given_up)
    AND id < ?1 AND id >= ?2 AND (?4 IS NULL OR type = ?4)
    AND (?5 IS NULL OR CASE
        WHEN status = 'to-do' THEN CASE WHEN run_after IS NULL THEN 'ready' ELSE 'scheduled' END
        WHEN status = 'failed' THEN CASE WHEN completed_at IS NULL THEN 'retrying' ELSE 'dead' END
        ELSE status END IN (SELECT value FROM json_each(?5)))
    AND (?6 IS NULL OR error LIKE ?6 ESCAPE '\'
        OR coalesce(input, (SELECT input FROM task_inputs WHERE task_id = id)) LIKE ?6 ESCAPE '\')
    AND (?7 IS NULL OR error = ?7)
ORDER BY id DESC LIMIT ?3;

-- name: page_of_type
-- The same, of a type of which few tasks have not ended.
SELECT id, type, coalesce(input, (SELECT input FROM task_inputs WHERE task_id = id)), status, version, attempts,
    last_attempt_at, output, error, run_after, created_at, updated_at, completed_at, priority, key, max_attempts,
    timeout, crashes, worker_id, cancelled_by, ready_at
FROM tasks
WHERE id IN (
        SELECT id FROM tasks INDEXED BY tasks_ready
        WHERE type = ?4 AND status = 'to-do' AND run_after IS NULL
        UNION ALL SELECT id FROM tasks INDEXED BY tasks_due WHERE type = ?4 AND run_after IS NOT NULL
        UNION ALL SELECT id FROM tasks INDEXED BY tasks_running WHERE type = ?4 AND status = 'in-progress'
        UNION ALL SELECT id FROM (
            SELECT id FROM tasks INDEXED BY tasks_ended
            WHERE type = ?4 AND completed_at IS NOT NULL AND id < ?1 AND id >= ?2
            ORDER BY id DESC LIMIT ?8) AS ended)
    AND id < ?1 AND id >= ?2 AND (?4 IS NULL OR type = ?4)
    AND (?5 IS NULL OR CASE
        WHEN status = 'to-do' THEN CASE WHEN run_after IS NULL THEN 'ready' ELSE 'scheduled' END
        WHEN status = 'failed' THEN CASE WHEN completed_at IS NULL THEN 'retrying' ELSE 'dead' END
        ELSE status END IN (SELECT value FROM json_each(?5)))
    AND (?6 IS NULL OR error LIKE ?6 ESCAPE '\'
        OR coalesce(input, (SELECT input FROM task_inputs WHERE task_id = id)) LIKE ?6 ESCAPE '\')
    AND (?7 IS NULL OR error = ?7)
ORDER BY id DESC LIMIT ?3;

-- name: reach_of_type
-- The last of so many ended tasks of a type below an id.
SELECT id FROM tasks INDEXED BY tasks_ended
WHERE type = ?4 AND completed_at IS NOT NULL AND id < ?1 AND id >= ?2
ORDER BY id DESC LIMIT 1 OFFSET ?3;

-- name: type_names
-- All types that have tasks that are ready, each found in the index behind the one before, or that have ended.
WITH RECURSIVE names (type) AS (
    SELECT min(type) FROM tasks INDEXED BY tasks_ready WHERE status = 'to-do' AND run_after IS NULL
    UNION ALL
    SELECT (SELECT min(type) FROM tasks INDEXED BY tasks_ready
        WHERE status = 'to-do' AND run_after IS NULL AND tasks.type > names.type)
    FROM names WHERE names.type IS NOT NULL)
SELECT type FROM names WHERE type IS NOT NULL
UNION SELECT type FROM finished_counts WHERE count != 0;

-- name: count_few
-- How many tasks there are in each state but success, as far as a number.
SELECT 'ready', (SELECT count(*) FROM (
    SELECT 1 FROM tasks WHERE status = 'to-do' AND run_after IS NULL LIMIT ?1) AS few)
UNION ALL SELECT 'waiting', (SELECT count(*) FROM (
    SELECT 1 FROM tasks WHERE run_after IS NOT NULL LIMIT ?1) AS few)
UNION ALL SELECT 'in-progress', (SELECT count(*) FROM (
    SELECT 1 FROM tasks WHERE status = 'in-progress' LIMIT ?1) AS few)
UNION ALL SELECT 'given up', (SELECT count(*) FROM (
    SELECT 1 FROM tasks
    WHERE status IN ('failed', 'cancelled') AND completed_at IS NOT NULL LIMIT ?1) AS few);

-- name: reach
-- The last of so many tasks below an id: how far one page looks.
SELECT id FROM tasks WHERE id < ?1 AND id >= ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3;

-- name: put_setting
-- Sets what holds for a type in every process.
INSERT INTO settings (type, name, value) VALUES (?1, ?2, ?3)
ON CONFLICT (type, name) DO UPDATE SET value = excluded.value;

-- name: drop_setting
-- Lets a type be as the programs say.
DELETE FROM settings WHERE type = ?1 AND name = ?2;

-- name: describe_worker
-- What a worker process says of itself.
UPDATE workers SET about = ?2 WHERE id = ?1;

-- name: describe_workers
-- All worker processes, with what they say of themselves.
SELECT id, host, pid, identity, started_at, about FROM workers ORDER BY id;

-- name: running_by_worker
-- What each worker has claimed and not settled.
SELECT worker_id, id, type, last_attempt_at, attempts FROM tasks INDEXED BY tasks_running
WHERE status = 'in-progress' ORDER BY worker_id, id;

-- name: ready_before
-- How many ready tasks of a type go before one of this priority and id, as far as a number, twice.
SELECT (SELECT count(*) FROM (
        SELECT 1 FROM tasks INDEXED BY tasks_ready
        WHERE type = ?1 AND status = 'to-do' AND run_after IS NULL AND priority > ?2
        LIMIT ?4) AS higher)
    + (SELECT count(*) FROM (
        SELECT 1 FROM tasks INDEXED BY tasks_ready
        WHERE type = ?1 AND status = 'to-do' AND run_after IS NULL AND priority = ?2
            AND id < ?3
        LIMIT ?4) AS older);

-- name: record_action
-- Remembers what somebody has changed.
INSERT INTO tq_actions (id, at, actor, action, target, count) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO NOTHING;

-- name: list_actions
-- What was changed, the newest first.
SELECT id, at, actor, action, target, count FROM tq_actions WHERE id < ?1 ORDER BY id DESC LIMIT ?2;

-- name: ready_of_type
-- How many tasks of a type are ready, as far as a number.
SELECT count(*) FROM (
    SELECT 1 FROM tasks INDEXED BY tasks_ready WHERE type = ?1 AND status = 'to-do' AND run_after IS NULL
    LIMIT ?2) AS few;

-- name: next_of_type
-- Since when the ready task waits that is the next of its type.
SELECT coalesce(ready_at, created_at) FROM tasks INDEXED BY tasks_ready
WHERE type = ?1 AND status = 'to-do' AND run_after IS NULL
ORDER BY priority DESC, id LIMIT 1;

-- name: count_waiting_few
-- Scheduled tasks and retries by type, of so many that are looked at.
SELECT type, status, count(*) FROM (
    SELECT type, status FROM tasks INDEXED BY tasks_due WHERE run_after IS NOT NULL LIMIT ?1) AS few
GROUP BY type, status;

-- name: add_to_minute
-- Adds to what happened in a minute.
INSERT INTO tq_minutes AS kept (minute, type, what, count) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (minute, type, what) DO UPDATE SET count = kept.count + excluded.count;

-- name: put_minute
-- Says how often something happened in a minute, for whoever counts first.
INSERT INTO tq_minutes (minute, type, what, count) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- name: read_minutes
-- What happened from a minute on.
SELECT minute, type, what, count FROM tq_minutes WHERE minute >= ?1 AND minute <= ?2 ORDER BY minute, type, what;

-- name: last_minute_counted
-- The last minute whose new tasks were counted.
SELECT minute FROM tq_minutes WHERE type = '' AND what = 'counted' ORDER BY minute DESC LIMIT 1;

-- name: count_added
-- How many tasks of each type were made between two ids, of so many that are looked at.
SELECT type, count(*) FROM (
    SELECT type FROM tasks WHERE id >= ?1 AND id < ?2 LIMIT ?3) AS made
GROUP BY type;

-- name: drop_minutes
-- Forgets what happened long ago.
DELETE FROM tq_minutes WHERE minute < ?1;
