-- The task table, keyed by UUIDv7 text. Without a rowid a single claim is 1.6 times faster (measured).
CREATE TABLE tasks (
    id               TEXT PRIMARY KEY,
    type             TEXT NOT NULL,
    -- JSON. NULL when it is long and stands in task_inputs: every transition rewrites the row, so with 4 kB in the
    -- row a drain takes twice as long (measured).
    input            TEXT,
    status           TEXT NOT NULL DEFAULT 'to-do',
    version          INTEGER NOT NULL DEFAULT 0,
    attempts         INTEGER NOT NULL DEFAULT 0,
    last_attempt_at  REAL,
    output           TEXT,
    error            TEXT,
    -- NULL means ready. A time in the future means scheduled, or waiting for its retry.
    run_after        REAL,
    created_at       REAL NOT NULL,
    updated_at       REAL NOT NULL,
    completed_at     REAL,
    priority         INTEGER NOT NULL DEFAULT 0,
    key              TEXT,
    -- The task's own limit and timeout; NULL leaves both to its type.
    max_attempts     INTEGER,
    timeout          REAL,
    crashes          INTEGER NOT NULL DEFAULT 0,
    worker_id        TEXT,
    -- The limit that held at the last claim: whoever recovers the task may not know its type.
    attempts_allowed INTEGER,
    progress         REAL
) WITHOUT ROWID;

-- Each index holds only the rows that its question is about, so a million others cost nothing.
CREATE INDEX tasks_ready ON tasks (type, priority DESC, id) WHERE status = 'to-do' AND run_after IS NULL;
CREATE INDEX tasks_due ON tasks (run_after, type, status) WHERE run_after IS NOT NULL;
CREATE INDEX tasks_running ON tasks (worker_id, type) WHERE status = 'in-progress';
CREATE UNIQUE INDEX tasks_key ON tasks (type, key) WHERE key IS NOT NULL;

CREATE TABLE task_inputs (
    task_id TEXT PRIMARY KEY,
    input   TEXT NOT NULL
);

-- Attempts that did not end well. A clean first success is told by the task's own row. The key's columns come first:
-- else SQLite 3.40, which many Pythons carry, reports missing values in a sound file when it checks its integrity.
CREATE TABLE attempts (
    task_id    TEXT NOT NULL,
    version    INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    outcome    TEXT NOT NULL,
    error      TEXT,
    started_at REAL,
    ended_at   REAL NOT NULL,
    worker_id  TEXT,
    PRIMARY KEY (task_id, version)
) WITHOUT ROWID;

-- How many tasks of a type have ended, and how: counting a million rows takes too long for stats().
CREATE TABLE finished_counts (
    type   TEXT NOT NULL,
    status TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (type, status)
) WITHOUT ROWID;

CREATE TABLE workers (
    id         TEXT PRIMARY KEY,
    host       TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    identity   TEXT NOT NULL,
    started_at REAL NOT NULL
) WITHOUT ROWID;

-- Settings that hold for every process; type '' is the whole queue.
CREATE TABLE settings (
    type  TEXT NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (type, name)
) WITHOUT ROWID;

CREATE TABLE rate_buckets (
    type      TEXT PRIMARY KEY,
    tokens    REAL NOT NULL,
    filled_at REAL NOT NULL
) WITHOUT ROWID;
