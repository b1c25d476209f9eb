"""The smallest worker process, for `idle.py`: it imports tq and nothing else that weighs.

    python -m tests.bench.idle_worker DATABASE

Says `ready`, starts at the first line it hears, runs one task so that its threads exist, and from then on answers each
line with the CPU seconds that it has used.
"""

import sys
import time

from tq import TaskQueue


def main() -> None:
    queue = TaskQueue().init(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    queue("noop").set_worker_count(8).set_worker(lambda _: print("done", flush=True))
    for _ in sys.stdin:
        print(time.process_time(), flush=True)
    queue.stop()


if __name__ == "__main__":
    main()
