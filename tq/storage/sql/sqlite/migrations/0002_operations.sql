-- What operators need: to cancel and to list tasks, to steer types while programs run, and to see how it went.

-- Who asked for the task to be cancelled. While it runs this is a request, which its worker follows.
ALTER TABLE tasks ADD COLUMN cancelled_by TEXT;
-- Since when the task may run, where that is not since it was added.
ALTER TABLE tasks ADD COLUMN ready_at REAL;

-- Of tasks that have ended only: an index of all would cost each add, and on PostgreSQL a quarter of a claim (measured).
CREATE INDEX tasks_ended ON tasks (type, id) WHERE completed_at IS NOT NULL;
CREATE INDEX tasks_cancelling ON tasks (worker_id) WHERE cancelled_by IS NOT NULL AND status = 'in-progress';
CREATE INDEX tasks_given_up ON tasks (type, id) WHERE status IN ('failed', 'cancelled') AND completed_at IS NOT NULL;

-- What a worker process says of itself, as JSON: the types it works on, and how.
ALTER TABLE workers ADD COLUMN about TEXT NOT NULL DEFAULT '{}';

-- How many tasks of a type were added, ended or tried again in a minute (since 1970), and how long they took: `what` names
-- the count.
CREATE TABLE tq_minutes (
    minute INTEGER NOT NULL,
    type   TEXT NOT NULL,
    what   TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (minute, type, what)
) WITHOUT ROWID;

-- What people have changed: one row for each action, and one in `attempts` for each task that it touched.
CREATE TABLE tq_actions (
    id     TEXT PRIMARY KEY,
    at     REAL NOT NULL,
    actor  TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    count  INTEGER NOT NULL
) WITHOUT ROWID;
