-- The task table, keyed by UUIDv7 text. "C" orders texts by their bytes, as SQLite and Python do, and compares fastest.
-- Each task is rewritten twice: free space on its page keeps the new version beside the old one, and vacuum comes early.
CREATE TABLE {schema}.tasks (
    id               TEXT COLLATE "C" PRIMARY KEY,
    type             TEXT COLLATE "C" NOT NULL,
    -- JSON. NULL when it is long and stands in task_inputs: every transition rewrites the row.
    input            TEXT,
    status           TEXT NOT NULL DEFAULT 'to-do',
    version          BIGINT NOT NULL DEFAULT 0,
    attempts         INTEGER NOT NULL DEFAULT 0,
    last_attempt_at  DOUBLE PRECISION,
    output           TEXT,
    error            TEXT,
    -- NULL means ready. A time in the future means scheduled, or waiting for its retry.
    run_after        DOUBLE PRECISION,
    created_at       DOUBLE PRECISION NOT NULL,
    updated_at       DOUBLE PRECISION NOT NULL,
    completed_at     DOUBLE PRECISION,
    priority         INTEGER NOT NULL DEFAULT 0,
    key              TEXT COLLATE "C",
    -- The task's own limit and timeout; NULL leaves both to its type.
    max_attempts     INTEGER,
    timeout          DOUBLE PRECISION,
    crashes          INTEGER NOT NULL DEFAULT 0,
    worker_id        TEXT COLLATE "C",
    -- The limit that held at the last claim: whoever recovers the task may not know its type.
    attempts_allowed INTEGER,
    progress         DOUBLE PRECISION,
    -- Whether a crash of its worker costs the claimed task an attempt.
    started          BOOLEAN NOT NULL DEFAULT false
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Each index holds only the rows that its question is about, so a million others cost nothing.
CREATE INDEX tasks_ready ON {schema}.tasks (type, priority DESC, id) WHERE status = 'to-do' AND run_after IS NULL;
CREATE INDEX tasks_due ON {schema}.tasks (run_after, type, status) WHERE run_after IS NOT NULL;
CREATE INDEX tasks_running ON {schema}.tasks (worker_id, type) WHERE status = 'in-progress';
CREATE UNIQUE INDEX tasks_key ON {schema}.tasks (type, key) WHERE key IS NOT NULL;

CREATE TABLE {schema}.task_inputs (
    task_id TEXT COLLATE "C" PRIMARY KEY,
    input   TEXT NOT NULL
);

-- Attempts that did not end well. A clean first success is told by the task's own row.
CREATE TABLE {schema}.attempts (
    task_id    TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    attempt    INTEGER NOT NULL,
    outcome    TEXT NOT NULL,
    error      TEXT,
    started_at DOUBLE PRECISION,
    ended_at   DOUBLE PRECISION NOT NULL,
    worker_id  TEXT,
    PRIMARY KEY (task_id, version)
);

-- How many tasks of a type have ended, and how: counting a million rows takes too long for stats().
CREATE TABLE {schema}.finished_counts (
    type   TEXT COLLATE "C" NOT NULL,
    status TEXT NOT NULL,
    count  BIGINT NOT NULL,
    PRIMARY KEY (type, status)
) WITH (fillfactor = 10);

-- A worker lives for as long as it renews its lease, by the server's clock.
CREATE TABLE {schema}.workers (
    id          TEXT COLLATE "C" PRIMARY KEY,
    host        TEXT NOT NULL,
    pid         INTEGER NOT NULL,
    identity    TEXT NOT NULL,
    started_at  DOUBLE PRECISION NOT NULL,
    lease_until DOUBLE PRECISION NOT NULL
) WITH (fillfactor = 10);

-- Settings that hold for every process; type '' is the whole queue.
CREATE TABLE {schema}.settings (
    type  TEXT COLLATE "C" NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (type, name)
);

CREATE TABLE {schema}.rate_buckets (
    type      TEXT COLLATE "C" PRIMARY KEY,
    tokens    DOUBLE PRECISION NOT NULL,
    filled_at DOUBLE PRECISION NOT NULL
) WITH (fillfactor = 10);
