"""When tasks run, and run again: run_after, priority, key, backoff, RetryAfter and PermanentError.

Run it:  python examples/scheduled_and_retried.py [database]

It takes about a second.
"""

import logging
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from tq import PermanentError, RetryAfter, TaskFailed, current_task, tq

# print() from several threads may mix its lines; logging does not.
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")


def report(name):
    logging.info("report: %s", name)


def charge(order):
    attempt = current_task().attempt
    logging.info("charge: %s, attempt %d", order["card"], attempt)
    if order["card"] == "expired":
        raise PermanentError("the card has expired")  # fails at once
    if order["card"] == "busy bank" and attempt == 1:
        raise RetryAfter(0.5, "the bank asks us to come back")  # its own delay
    if order["card"] == "shaky line" and attempt < 3:
        raise ConnectionError("no answer")  # any other exception: again, after the backoff
    return "paid"


def main(database):
    tq.init(database)

    # Nothing has a worker yet, so these wait: the order in which they will run is up to the queue.
    tq("report").add("in a second", run_after=timedelta(seconds=1))
    tq("report").add("daily").add("weekly")
    tq("report").add("urgent", priority=10)
    tq("report").add("daily, 24 May", key="2026-05-24").add("daily, 24 May", key="2026-05-24")  # kept once
    tq("report").set_worker(report)

    tq("charge").set_worker(charge).set_max_attempts(3).set_backoff(base=0.3, factor=2, jitter=0)
    orders = [tq("charge").submit({"card": card}) for card in ("good", "busy bank", "shaky line", "expired")]
    tq.join()

    for handle in orders:
        task = handle.task()
        try:
            print(f"{task.input['card']}: {handle.result(timeout=30)}, attempts: {task.attempts}")
        except TaskFailed as failure:
            print(f"{task.input['card']}: {failure.error}, attempts: {task.attempts}")
    tq.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else Path(folder) / "tasks.db")
