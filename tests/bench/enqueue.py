"""How fast tasks are added: one at a time, from many threads, and in bulk.

    python -m tests.bench.enqueue [--n 2000] [--repeats 5] [--store sqlite|postgres]

add_normal, add_full                one at a time, against one INSERT a transaction
add_full_32_threads                 32 threads of one process, against one thread: callers share a commit
add_many_normal, add_many_full      1000 in a call, against executemany of 1000 in a transaction; 10 × n tasks

add_postgres, add_postgres_32_threads, add_many_postgres
                                    the same on PostgreSQL, in bulk against COPY of 1000
"""

from __future__ import annotations

import threading
from functools import partial
from itertools import islice

from tests.bench.measure import Figures, arguments, compare, report, stopwatch
from tests.bench.stores import STORES, BenchStore, add_store_option
from tests.bench.workload import TYPE, payloads
from tq import TaskQueue

BULK = 1000


def add_one_by_one(store: BenchStore, n: int, durability: str, threads: int = 1) -> float:
    """Tasks in a second, added by as many threads."""
    share = n // threads
    inputs = payloads(share)
    with store.new_database() as address:
        queue = TaskQueue().init(address, durability=durability)

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


def insert_one_by_one(store: BenchStore, n: int, durability: str) -> float:
    inputs = payloads(n)
    with store.new_database() as address:
        connection = store.raw(address, durability)
        with stopwatch() as seconds:
            for input_ in inputs:
                connection.insert(input_)
        connection.close()
    return n / seconds()


def add_in_bulk(store: BenchStore, n: int, durability: str) -> float:
    inputs = iter(payloads(n))
    with store.new_database() as address:
        queue = TaskQueue().init(address, durability=durability)
        with stopwatch() as seconds:
            while batch := list(islice(inputs, BULK)):
                queue(TYPE).add_many(batch)
        assert queue.stats()["to-do"] == n
        queue.stop()
    return n / seconds()


def insert_in_bulk(store: BenchStore, n: int, durability: str) -> float:
    inputs = iter(payloads(n))
    with store.new_database() as address:
        connection = store.raw(address, durability)
        with stopwatch() as seconds:
            while batch := list(islice(inputs, BULK)):
                connection.insert_many(batch)
        connection.close()
    return n / seconds()


def measure(store: BenchStore, n: int, repeats: int) -> Figures:
    figures = {}
    for label, mode in store.modes.items():
        one, bulk = (store, n, mode), (store, 10 * n, mode)
        add, insert = partial(add_one_by_one, *one), partial(insert_one_by_one, *one)
        add_many, insert_many = partial(add_in_bulk, *bulk), partial(insert_in_bulk, *bulk)
        figures[store.named("add", label)] = compare(add, insert, repeats)
        figures[store.named("add_many", label)] = compare(add_many, insert_many, repeats)
    # The last mode is the most durable one: there it pays that callers share a commit.
    figures[store.named("add", label, "32_threads")] = compare(partial(add, threads=32), add, repeats)
    return figures


def main() -> None:
    parser = arguments(__doc__, n=2000)
    add_store_option(parser)
    options = parser.parse_args()
    store = STORES[options.store]
    report("enqueue", options, store.about(), measure(store, options.n, options.repeats))


if __name__ == "__main__":
    main()
