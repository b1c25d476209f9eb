-- What operators need: to cancel and to list tasks, to steer types while programs run, and to see how it went.

-- First of all, as an exchange takes these tables in the same order: they would wait for each other.
-- What a worker process says of itself, as JSON: the types it works on, and how.
ALTER TABLE {schema}.workers ADD COLUMN about TEXT NOT NULL DEFAULT '{}';

-- Who asked for the task to be cancelled. While it runs this is a request, which its worker follows.
ALTER TABLE {schema}.tasks ADD COLUMN cancelled_by TEXT;
-- Since when the task may run, where that is not since it was added.
ALTER TABLE {schema}.tasks ADD COLUMN ready_at DOUBLE PRECISION;

-- Of tasks that have ended only: an index of all would cost a quarter of a claim, which rewrites the row (measured).
CREATE INDEX tasks_ended ON {schema}.tasks (type, id) WHERE completed_at IS NOT NULL;
CREATE INDEX tasks_cancelling ON {schema}.tasks (worker_id) WHERE cancelled_by IS NOT NULL AND status = 'in-progress';
CREATE INDEX tasks_given_up ON {schema}.tasks (type, id)
    WHERE status IN ('failed', 'cancelled') AND completed_at IS NOT NULL;

-- How many tasks of a type were added, ended or tried again in a minute (since 1970), and how long they took: `what` names
-- the count.
CREATE TABLE {schema}.tq_minutes (
    minute BIGINT NOT NULL,
    type   TEXT COLLATE "C" NOT NULL,
    what   TEXT COLLATE "C" NOT NULL,
    count  BIGINT NOT NULL,
    PRIMARY KEY (minute, type, what)
) WITH (fillfactor = 50);

-- What people have changed: one row for each action, and one in `attempts` for each task that it touched.
CREATE TABLE {schema}.tq_actions (
    id     TEXT COLLATE "C" PRIMARY KEY,
    at     DOUBLE PRECISION NOT NULL,
    actor  TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    count  BIGINT NOT NULL
);
