"""How fast tasks are added: one at a time, from many threads, and in bulk.

    python -m tests.bench.enqueue [--n 2000] [--repeats 5]

add_normal, add_full                one at a time, against one INSERT a transaction
add_full_32_threads                 32 threads of one process, against one thread: callers share a commit
add_many_normal, add_many_full      1000 in a call, against executemany of 1000 in a transaction; 10 × n tasks
"""

from __future__ import annotations

import threading
from functools import partial
from itertools import islice

from tests.bench import raw
from tests.bench.measure import Figures, arguments, compare, new_database, report, stopwatch
from tests.bench.workload import TYPE, payloads
from tq import TaskQueue

BULK = 1000


def add_one_by_one(n: int, durability: str, threads: int = 1) -> float:
    """Tasks in a second, added by as many threads."""
    share = n // threads
    inputs = payloads(share)
    with new_database() as path:
        queue = TaskQueue().init(path, durability=durability)

        def add_share() -> None:
            add = queue(TYPE).add
            for input_ in inputs:
                add(input_)

        adders = [threading.Thread(target=add_share) for _ in range(threads)]
        with stopwatch() as seconds:
            for adder in adders:
                adder.start()
            for adder in adders:
                adder.join()
        assert queue.stats()["to-do"] == share * threads
        queue.stop()
    return share * threads / seconds()


def insert_one_by_one(n: int, durability: str) -> float:
    inputs = payloads(n)
    with new_database() as path:
        connection = raw.connect(path, durability)
        with stopwatch() as seconds:
            for input_ in inputs:
                raw.insert(connection, input_)
        connection.close()
    return n / seconds()


def add_in_bulk(n: int, durability: str) -> float:
    inputs = iter(payloads(n))
    with new_database() as path:
        queue = TaskQueue().init(path, durability=durability)
        with stopwatch() as seconds:
            while batch := list(islice(inputs, BULK)):
                queue(TYPE).add_many(batch)
        assert queue.stats()["to-do"] == n
        queue.stop()
    return n / seconds()


def insert_in_bulk(n: int, durability: str) -> float:
    inputs = iter(payloads(n))
    with new_database() as path:
        connection = raw.connect(path, durability)
        with stopwatch() as seconds:
            while batch := list(islice(inputs, BULK)):
                raw.insert_many(connection, batch)
        connection.close()
    return n / seconds()


def measure(n: int, repeats: int) -> Figures:
    figures = {}
    for mode in ("normal", "full"):
        one, bulk = (n, mode), (10 * n, mode)
        figures[f"add_{mode}"] = compare(partial(add_one_by_one, *one), partial(insert_one_by_one, *one), repeats)
        figures[f"add_many_{mode}"] = compare(partial(add_in_bulk, *bulk), partial(insert_in_bulk, *bulk), repeats)
    many, alone = partial(add_one_by_one, n, "full", threads=32), partial(add_one_by_one, n, "full")
    figures["add_full_32_threads"] = compare(many, alone, repeats)
    return figures


def main() -> None:
    options = arguments(__doc__, n=2000).parse_args()
    report("enqueue", options, measure(options.n, options.repeats))


if __name__ == "__main__":
    main()
