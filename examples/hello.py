"""The smallest queue: one type of task, one worker, one result.

Run it:  python examples/hello.py [database]

Without a database it works in a temporary folder. Give it a file twice, and it counts what earlier runs have done.
"""

import sys
import tempfile
from pathlib import Path

from tq import tq


def greet(name):
    return f"hello, {name}"


def main(database):
    tq.init(database)
    tq("greet").set_worker(greet)

    tq("greet").add("Ada").add("Grace")  # accepted: both survive a kill -9 from here on
    handle = tq("greet").submit("world")  # the same, with a handle to follow the task

    print(handle.result(timeout=30))
    tq.join()  # wait until every task has ended
    print("tasks that have succeeded so far:", tq.stats()["success"])
    tq.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else Path(folder) / "tasks.db")
