-- name: insert_task
-- Accepts a task. A second one with the same type and key is refused by its index.
INSERT INTO tasks (id, type, input, created_at, updated_at, run_after, priority, key, max_attempts, timeout)
VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO NOTHING;

-- name: insert_input
-- Keeps a long input out of the row that every transition rewrites.
INSERT INTO task_inputs (task_id, input) VALUES (?1, ?2);

-- name: find_key
-- The task that already holds this key.
SELECT id FROM tasks WHERE type = ?1 AND key = ?2;

-- name: promote_due
-- Makes tasks ready whose time has come: scheduled ones and retries alike.
UPDATE tasks SET status = 'to-do', run_after = NULL, ready_at = run_after, version = version + 1, updated_at = ?1
WHERE id IN (SELECT id FROM tasks WHERE run_after <= ?1 ORDER BY run_after LIMIT ?2)
  AND run_after <= ?1 AND status IN ('to-do', 'failed');

-- name: next_due
-- When the next scheduled task or retry falls due.
SELECT min(run_after) FROM tasks WHERE run_after IS NOT NULL;

-- name: claim
-- Takes the first ready tasks of a type: higher priority first, oldest first among equals.
UPDATE tasks
SET status = 'in-progress', version = version + 1, attempts = attempts + 1, worker_id = ?1, last_attempt_at = ?2,
    updated_at = ?2, attempts_allowed = coalesce(max_attempts, ?3)
WHERE id IN (
    SELECT id FROM tasks WHERE type = ?4 AND status = 'to-do' AND run_after IS NULL
    ORDER BY priority DESC, id LIMIT ?5)
  AND status = 'to-do'
RETURNING id, type, coalesce(input, (SELECT input FROM task_inputs WHERE task_id = id)), version, attempts, crashes,
    attempts_allowed, timeout, coalesce(ready_at, created_at), priority, last_attempt_at;

-- name: settle
-- The one way out of a claim. It changes nothing unless the task is still exactly the one that was claimed; and one that
-- is to be cancelled does not come again.
UPDATE tasks
SET status = ?1, version = version + 1, attempts = ?2, crashes = ?3, output = ?4, error = ?5, run_after = ?6,
    completed_at = ?7, updated_at = ?8
WHERE id = ?9 AND version = ?10 AND status = 'in-progress' AND (cancelled_by IS NULL OR ?7 IS NOT NULL);

-- name: record_attempt
-- Remembers an attempt that did not end well.
INSERT INTO attempts (task_id, version, attempt, outcome, error, started_at, ended_at, worker_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT DO NOTHING;

-- name: count_finished
-- Adds to the kept counts of ended tasks.
INSERT INTO finished_counts (type, status, count) VALUES (?1, ?2, ?3)
ON CONFLICT (type, status) DO UPDATE SET count = count + excluded.count;

-- name: lock_limits
-- Holds the shared limits of a type, and tells the time after that. Here the write lock holds them, and our own clock tells.
SELECT NULL WHERE ?1 IS NOT NULL;

-- name: running_of_type
-- How many tasks of a type run anywhere: the running rows themselves, so that no counter can leak. It reads the index of
-- running tasks, and not that of the type.
SELECT count(*) FROM tasks WHERE status = 'in-progress' AND +type = ?1;

-- name: owned_by
-- What a worker has claimed and not settled.
SELECT id, type, coalesce(input, ''), version, attempts, crashes, attempts_allowed, timeout,
    coalesce(ready_at, created_at), priority, last_attempt_at
FROM tasks WHERE status = 'in-progress' AND worker_id = ?1;

-- name: get_task
-- A task, whole.
SELECT id, type, coalesce(input, (SELECT input FROM task_inputs WHERE task_id = id)), status, version, attempts,
    last_attempt_at, output, error, run_after, created_at, updated_at, completed_at, priority, key, max_attempts,
    timeout, crashes, worker_id, cancelled_by, ready_at
FROM tasks WHERE id = ?1;

-- name: get_attempts
-- The attempts of a task that did not end well, oldest first.
SELECT attempt, outcome, error, started_at, ended_at, worker_id FROM attempts WHERE task_id = ?1 ORDER BY version;

-- name: get_status
-- Whether a task has ended, and how.
SELECT status, completed_at FROM tasks WHERE id = ?1;

-- name: count_ready
-- Ready tasks by type.
SELECT type, count(*) FROM tasks WHERE status = 'to-do' AND run_after IS NULL GROUP BY type;

-- name: count_waiting
-- Scheduled tasks and retries by type.
SELECT type, status, count(*) FROM tasks WHERE run_after IS NOT NULL GROUP BY +type, status;

-- name: count_running
-- Claimed tasks by type.
SELECT type, count(*) FROM tasks WHERE status = 'in-progress' GROUP BY +type;

-- name: count_ended
-- The kept counts of ended tasks.
SELECT type, status, count FROM finished_counts WHERE count != 0;

-- name: read_bucket
-- The token bucket of a type.
SELECT tokens, filled_at FROM rate_buckets WHERE type = ?1;

-- name: write_bucket
-- What is left in a token bucket.
INSERT INTO rate_buckets (type, tokens, filled_at) VALUES (?1, ?2, ?3)
ON CONFLICT (type) DO UPDATE SET tokens = excluded.tokens, filled_at = excluded.filled_at;

-- name: stored_settings
-- The settings that hold in every process, as `look_around` tells them.
SELECT json_group_array(json_array(type, CASE name WHEN 'moving' THEN 'paused' ELSE name END, value))
FROM settings
WHERE name != 'moving' OR CAST(value AS REAL) > (julianday('now') - 2440587.5) * 86400.0;

-- name: pause_type
-- Pauses a type, or with '' the whole queue.
INSERT INTO settings (type, name, value) VALUES (?1, 'paused', 'true') ON CONFLICT DO NOTHING;

-- name: resume_type
-- Ends a pause.
DELETE FROM settings WHERE type = ?1 AND name = 'paused';

-- name: insert_worker
-- A worker process says that it is there.
INSERT INTO workers (id, host, pid, identity, started_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO NOTHING;

-- name: look_around
-- One row if this worker counts as living: the time (here our own clock tells it), the stored settings, when the next task
-- falls due, and which of its tasks are to be cancelled. The last moments of a move are a pause too, which ends by itself
-- if the mover dies.
SELECT NULL,
    (SELECT json_group_array(json_array(type, CASE name WHEN 'moving' THEN 'paused' ELSE name END, value))
     FROM settings
     WHERE name != 'moving' OR CAST(value AS REAL) > (julianday('now') - 2440587.5) * 86400.0),
    (SELECT min(run_after) FROM tasks WHERE run_after IS NOT NULL),
    (SELECT json_group_array(json_array(id, cancelled_by)) FROM tasks
     WHERE worker_id = ?1 AND cancelled_by IS NOT NULL AND status = 'in-progress')
FROM workers WHERE id = ?1;

-- name: hold_worker
-- Keeps a worker's row as it is until the transaction ends. Here the write lock does so already.
SELECT 1 FROM workers WHERE id = ?1;

-- name: delete_worker
-- A worker process has gone. As long as it owns a task its row stays, so that the task is recovered.
DELETE FROM workers
WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM tasks WHERE status = 'in-progress' AND worker_id = ?1);

-- name: list_workers
-- All worker processes that have not said goodbye.
SELECT id, host, pid, identity, started_at FROM workers ORDER BY id;

-- name: count_unfinished
-- One row for as long as any task is not at its end.
SELECT 1 WHERE EXISTS (SELECT 1 FROM tasks WHERE status = 'to-do' AND run_after IS NULL)
    OR EXISTS (SELECT 1 FROM tasks WHERE run_after IS NOT NULL)
    OR EXISTS (SELECT 1 FROM tasks WHERE status = 'in-progress');
