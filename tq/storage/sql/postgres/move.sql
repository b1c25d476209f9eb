-- name: list_tables
-- What a schema has that a table could be mistaken for.
SELECT relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = $1 AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S');

-- name: staging_in_use
-- One row if what stands in this schema is, or was, a queue that programs use.
SELECT 1 WHERE EXISTS (SELECT 1 FROM {schema}.tasks) OR EXISTS (SELECT 1 FROM {schema}.workers);

-- name: make_staging_record
-- Which move fills this schema, and how far it has come.
CREATE TABLE IF NOT EXISTS {schema}.tq_move (id TEXT NOT NULL, cursor TEXT COLLATE "C" NOT NULL);

-- name: read_staging
-- The move that fills this schema, if any.
SELECT id, cursor FROM {schema}.tq_move;

-- name: empty_staging
-- Starts from nothing, whatever an abandoned move has left.
TRUNCATE {schema}.tasks, {schema}.task_inputs, {schema}.attempts, {schema}.finished_counts, {schema}.workers,
    {schema}.settings, {schema}.rate_buckets, {schema}.tq_minutes, {schema}.tq_actions, {schema}.tq_move;

-- name: drop_key_index
-- Keys are told apart when all is copied.
DROP INDEX IF EXISTS {schema}.tasks_key;

-- name: claim_staging
-- The move that fills this schema from here on.
INSERT INTO {schema}.tq_move (id, cursor) VALUES ($1, '');

-- name: write_cursor
-- Up to which task all are copied.
UPDATE {schema}.tq_move SET cursor = $2 WHERE id = $1;

-- name: copy_tasks
-- Puts tasks into a schema that nobody works on yet, as they stand now.
INSERT INTO {schema}.tasks AS task (id, type, input, status, version, attempts, last_attempt_at, output, error,
    run_after, created_at, updated_at, completed_at, priority, key, max_attempts, timeout, crashes, worker_id,
    attempts_allowed, progress, cancelled_by, ready_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::integer[], $7::float8[],
    $8::text[], $9::text[], $10::float8[], $11::float8[], $12::float8[], $13::float8[], $14::integer[], $15::text[],
    $16::integer[], $17::float8[], $18::integer[], $19::text[], $20::integer[], $21::float8[], $22::text[], $23::float8[])
ON CONFLICT (id) DO UPDATE SET type = excluded.type, input = excluded.input, status = excluded.status,
    version = excluded.version, attempts = excluded.attempts, last_attempt_at = excluded.last_attempt_at,
    output = excluded.output, error = excluded.error, run_after = excluded.run_after,
    created_at = excluded.created_at, updated_at = excluded.updated_at, completed_at = excluded.completed_at,
    priority = excluded.priority, key = excluded.key, max_attempts = excluded.max_attempts,
    timeout = excluded.timeout, crashes = excluded.crashes, worker_id = excluded.worker_id,
    attempts_allowed = excluded.attempts_allowed, progress = excluded.progress,
    cancelled_by = excluded.cancelled_by, ready_at = excluded.ready_at;

-- name: copy_inputs
-- The long inputs of these tasks.
INSERT INTO {schema}.task_inputs (task_id, input) SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT (task_id) DO UPDATE SET input = excluded.input;

-- name: copy_attempts
-- The recorded attempts of these tasks.
INSERT INTO {schema}.attempts (task_id, version, attempt, outcome, error, started_at, ended_at, worker_id)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::integer[], $4::text[], $5::text[], $6::float8[], $7::float8[],
    $8::text[])
ON CONFLICT DO NOTHING;

-- name: drop_tasks
-- Tasks that were deleted at the source while they were copied.
DELETE FROM {schema}.tasks WHERE id = ANY ($1::text[]);

-- name: drop_inputs
-- The long inputs of those.
DELETE FROM {schema}.task_inputs WHERE task_id = ANY ($1::text[]);

-- name: drop_attempts
-- The recorded attempts of those.
DELETE FROM {schema}.attempts WHERE task_id = ANY ($1::text[]);

-- name: drop_small_tables
-- Empties what is copied in one piece.
TRUNCATE {schema}.workers, {schema}.settings, {schema}.finished_counts, {schema}.rate_buckets, {schema}.tq_minutes,
    {schema}.tq_actions;

-- name: copy_workers
-- The worker processes, with time to come over; none for the dead.
INSERT INTO {schema}.workers (id, host, pid, identity, started_at, lease_until)
SELECT id, host, pid, identity, started_at, {server_time} + seconds
FROM unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::float8[], $6::float8[])
    AS given (id, host, pid, identity, started_at, seconds);

-- name: copy_settings
-- The settings.
INSERT INTO {schema}.settings (type, name, value) SELECT * FROM unnest($1::text[], $2::text[], $3::text[]);

-- name: copy_counts
-- The kept counts of ended tasks.
INSERT INTO {schema}.finished_counts (type, status, count) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]);

-- name: copy_minutes
-- What happened in each minute.
INSERT INTO {schema}.tq_minutes (minute, type, what, count)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]);

-- name: copy_actions
-- What operators have done.
INSERT INTO {schema}.tq_actions (id, at, actor, action, target, count)
SELECT * FROM unnest($1::text[], $2::float8[], $3::text[], $4::text[], $5::text[], $6::bigint[]);

-- name: copy_buckets
-- The token buckets.
INSERT INTO {schema}.rate_buckets (type, tokens, filled_at) SELECT * FROM unnest($1::text[], $2::float8[], $3::float8[]);

-- name: mark_claims
-- What is claimed counts as started, for a living worker may start it at any moment; what the dead had not started
-- does not.
UPDATE {schema}.tasks SET started = (id != ALL ($1::text[])) WHERE status = 'in-progress';

-- name: make_key_index
-- Keys hold again.
CREATE UNIQUE INDEX IF NOT EXISTS tasks_key ON {schema}.tasks (type, key) WHERE key IS NOT NULL;

-- name: write_moved_in
-- Says in the target which move it came by, for a move that was killed right after its last step.
INSERT INTO {schema}.settings (type, name, value) VALUES ('', 'moved_in', $1);

-- name: lock_migrations
-- Nobody else makes tables in the target, or opens it, before the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended($1, 0));

-- name: read_moved_in
-- Which move the queue in the target came by, if any.
SELECT value FROM {target}.settings WHERE type = '' AND name = 'moved_in';

-- name: lock_target
-- Keeps everybody out of the queue in the target, at once or not at all: who waits while it holds something may be what
-- others wait for.
LOCK TABLE {target}.tasks, {target}.task_inputs, {target}.attempts, {target}.finished_counts, {target}.workers,
    {target}.settings, {target}.rate_buckets, {target}.tq_minutes, {target}.tq_actions, {target}.tq_schema
    IN ACCESS EXCLUSIVE MODE NOWAIT;

-- name: drop_target_tables
-- Makes room for those that were copied.
DROP TABLE {target}.tasks, {target}.task_inputs, {target}.attempts, {target}.finished_counts, {target}.workers,
    {target}.settings, {target}.rate_buckets, {target}.tq_minutes, {target}.tq_actions, {target}.tq_schema;

-- name: target_in_use
-- One row if the queue in the target has ever had a task.
SELECT 1 WHERE EXISTS (SELECT 1 FROM {target}.tasks);

-- name: make_target
-- The schema where the queue will live.
CREATE SCHEMA IF NOT EXISTS {target};

-- name: open_target
-- Puts the copied tables into the target, all at once.
ALTER TABLE {schema}.tasks SET SCHEMA {target};
ALTER TABLE {schema}.task_inputs SET SCHEMA {target};
ALTER TABLE {schema}.attempts SET SCHEMA {target};
ALTER TABLE {schema}.finished_counts SET SCHEMA {target};
ALTER TABLE {schema}.workers SET SCHEMA {target};
ALTER TABLE {schema}.settings SET SCHEMA {target};
ALTER TABLE {schema}.rate_buckets SET SCHEMA {target};
ALTER TABLE {schema}.tq_minutes SET SCHEMA {target};
ALTER TABLE {schema}.tq_actions SET SCHEMA {target};
ALTER TABLE {schema}.tq_schema SET SCHEMA {target};
DROP TABLE {schema}.tq_move;
DROP SCHEMA {schema};

-- name: drop_staging
-- Forgets a move. What others have put into the schema keeps it from being dropped.
DROP TABLE IF EXISTS {schema}.tasks, {schema}.task_inputs, {schema}.attempts, {schema}.finished_counts,
    {schema}.workers, {schema}.settings, {schema}.rate_buckets, {schema}.tq_minutes, {schema}.tq_actions,
    {schema}.tq_schema, {schema}.tq_move;
DROP SCHEMA IF EXISTS {schema};

-- name: checksum_tasks
-- For each type and status: how many tasks, and a sum over all that they hold.
SELECT type, status, count(*), sum(('x' || substr(md5(
    id || '|' || version || '|' || attempts || '|' || crashes || '|' || priority
    || '|' || coalesce(max_attempts::text, '-') || '|' || coalesce(attempts_allowed::text, '-')
    || '|' || coalesce(key, '-') || '|' || coalesce(worker_id, '-') || '|' || coalesce(error, '-')
    || '|' || coalesce(output, '-') || '|' || coalesce(cancelled_by, '-')
    || '|' || coalesce(input, (SELECT input FROM {schema}.task_inputs WHERE task_id = id), '-')
    || '|' || coalesce(encode(float8send(timeout), 'hex'), '-')
    || '|' || coalesce(encode(float8send(last_attempt_at), 'hex'), '-')
    || '|' || coalesce(encode(float8send(run_after), 'hex'), '-')
    || '|' || encode(float8send(created_at), 'hex')
    || '|' || encode(float8send(updated_at), 'hex')
    || '|' || coalesce(encode(float8send(completed_at), 'hex'), '-')
    || '|' || coalesce(encode(float8send(ready_at), 'hex'), '-')
    ), 1, 15))::bit(60)::bigint)::text
FROM {schema}.tasks GROUP BY type, status;

-- name: checksum_attempts
-- For each outcome: how many attempts, and a sum over all that they hold.
SELECT '(attempts)', outcome, count(*), sum(('x' || substr(md5(
    task_id || '|' || version || '|' || attempt || '|' || coalesce(error, '-') || '|' || coalesce(worker_id, '-')
    || '|' || coalesce(encode(float8send(started_at), 'hex'), '-')
    || '|' || encode(float8send(ended_at), 'hex')
    ), 1, 15))::bit(60)::bigint)::text
FROM {schema}.attempts GROUP BY outcome;
