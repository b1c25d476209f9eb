-- name: make_move_table
-- Where this queue moves to: the record that makes a move resumable, and that tells programs where the queue has gone.
CREATE TABLE IF NOT EXISTS tq_move (
    id TEXT NOT NULL, target TEXT NOT NULL, schema TEXT NOT NULL,
    fenced INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0);

-- name: make_change_log
-- Every task that changes while it is copied; the same task may stand here many times.
CREATE TABLE IF NOT EXISTS tq_move_log (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL);

-- name: log_inserts
-- The database itself logs what any program adds.
CREATE TRIGGER IF NOT EXISTS tq_move_insert AFTER INSERT ON tasks
BEGIN INSERT INTO tq_move_log (id) VALUES (NEW.id); END;

-- name: log_updates
-- The database itself logs what any program changes.
CREATE TRIGGER IF NOT EXISTS tq_move_update AFTER UPDATE ON tasks
BEGIN INSERT INTO tq_move_log (id) VALUES (NEW.id); END;

-- name: log_deletes
-- The database itself logs what any program deletes.
CREATE TRIGGER IF NOT EXISTS tq_move_delete AFTER DELETE ON tasks
BEGIN INSERT INTO tq_move_log (id) VALUES (OLD.id); END;

-- name: begin_move
-- Writes down that a move has begun.
INSERT INTO tq_move (id, target, schema) VALUES (?1, ?2, ?3);

-- name: read_move
-- The move that has begun, if any.
SELECT id, target, schema, fenced, done FROM tq_move;

-- name: has_queue
-- One row if this file has a queue.
SELECT 1 FROM sqlite_master WHERE name = 'tq_schema';

-- name: has_move
-- One row if a move was ever begun here.
SELECT 1 FROM sqlite_master WHERE name = 'tq_move';

-- name: page_of_ids
-- The next tasks to copy, by id, with their sizes.
SELECT id, coalesce(length(input), (SELECT length(input) FROM {prefix}task_inputs WHERE task_id = id), 0)
    + coalesce(length(output), 0) + coalesce(length(error), 0)
FROM {prefix}tasks WHERE id > ?2 ORDER BY id LIMIT ?1;

-- name: page_of_changes
-- The next logged changes, with the sizes of their tasks.
SELECT id, coalesce(length(input), (SELECT length(input) FROM {prefix}task_inputs WHERE task_id = id), 0)
    + coalesce(length(output), 0) + coalesce(length(error), 0), seq
FROM tq_move_log LEFT JOIN {prefix}tasks USING (id) ORDER BY seq LIMIT ?1;

-- name: count_changes
-- How many changes wait to be copied.
SELECT count(*) FROM tq_move_log;

-- name: forget_changes
-- Changes that were copied.
DELETE FROM tq_move_log WHERE seq <= ?1;

-- name: count_tasks
-- How many tasks there are in all.
SELECT count(*) FROM {prefix}tasks;

-- name: tasks_by_id
-- Tasks, column by column.
SELECT id, type, input, status, version, attempts, last_attempt_at, output, error, run_after, created_at, updated_at,
    completed_at, priority, key, max_attempts, timeout, crashes, worker_id, attempts_allowed, progress,
    cancelled_by, ready_at
FROM {prefix}tasks WHERE id IN (SELECT value FROM json_each(?1));

-- name: inputs_by_id
-- The long inputs of tasks.
SELECT task_id, input FROM {prefix}task_inputs WHERE task_id IN (SELECT value FROM json_each(?1));

-- name: attempts_by_id
-- The recorded attempts of tasks.
SELECT task_id, version, attempt, outcome, error, started_at, ended_at, worker_id
FROM {prefix}attempts WHERE task_id IN (SELECT value FROM json_each(?1));

-- name: all_workers
-- The worker processes.
SELECT id, host, pid, identity, started_at FROM {prefix}workers ORDER BY id;

-- name: claims_of
-- What a worker has claimed and not settled.
SELECT id, version FROM {prefix}tasks WHERE status = 'in-progress' AND worker_id = ?1;

-- name: all_settings
-- The settings that hold for every process, but for the one that a move makes.
SELECT type, name, value FROM {prefix}settings WHERE name != 'moving';

-- name: all_counts
-- The kept counts of ended tasks.
SELECT type, status, count FROM {prefix}finished_counts;

-- name: all_minutes
-- What happened in each minute.
SELECT minute, type, what, count FROM {prefix}tq_minutes;

-- name: all_actions
-- What operators have done.
SELECT id, at, actor, action, target, count FROM {prefix}tq_actions;

-- name: all_buckets
-- The token buckets.
SELECT type, tokens, filled_at FROM {prefix}rate_buckets;

-- name: stop_claims
-- Holds all claims for so many seconds, the last moments of a move; what had not started goes back.
INSERT INTO settings (type, name, value) VALUES ('', 'moving', (julianday('now') - 2440587.5) * 86400.0 + ?1)
ON CONFLICT DO UPDATE SET value = excluded.value;

-- name: allow_claims
-- Ends that.
DELETE FROM settings WHERE type = '' AND name = 'moving';

-- name: set_fenced
-- Whether the tables have other names now, so that nobody can change them any more; no row where it says so already.
UPDATE tq_move SET fenced = ?1 WHERE fenced != ?1 AND NOT done;

-- name: set_done
-- The queue lives at the target from here on.
UPDATE tq_move SET done = 1 WHERE fenced;

-- name: drop_insert_log
-- Ends the log of a move.
DROP TRIGGER IF EXISTS tq_move_insert;

-- name: drop_update_log
-- Ends the log of a move.
DROP TRIGGER IF EXISTS tq_move_update;

-- name: drop_delete_log
-- Ends the log of a move.
DROP TRIGGER IF EXISTS tq_move_delete;

-- name: drop_change_log
-- Ends the log of a move.
DROP TABLE IF EXISTS tq_move_log;

-- name: drop_move_table
-- Forgets a move.
DROP TABLE IF EXISTS tq_move;

-- name: checksum_tasks
-- For each type and status: how many tasks, and a sum over all that they hold.
SELECT type, status, count(*), tq_checksum(
    id || '|' || version || '|' || attempts || '|' || crashes || '|' || priority
    || '|' || coalesce(max_attempts, '-') || '|' || coalesce(attempts_allowed, '-') || '|' || coalesce(key, '-')
    || '|' || coalesce(worker_id, '-') || '|' || coalesce(error, '-') || '|' || coalesce(output, '-') || '|' || coalesce(cancelled_by, '-')
    || '|' || coalesce(input, (SELECT input FROM {prefix}task_inputs WHERE task_id = id), '-'),
    timeout, last_attempt_at, run_after, created_at, updated_at, completed_at, ready_at)
FROM {prefix}tasks GROUP BY type, status;

-- name: checksum_attempts
-- For each outcome: how many attempts, and a sum over all that they hold.
SELECT '(attempts)', outcome, count(*), tq_checksum(
    task_id || '|' || version || '|' || attempt || '|' || coalesce(error, '-') || '|' || coalesce(worker_id, '-'),
    started_at, ended_at)
FROM {prefix}attempts GROUP BY outcome;
