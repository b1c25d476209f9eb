"""Whether an operator's questions stay fast in a table that has many rows.

    python -m tests.bench.looking [--repeats 5] [--rows 1000000] [--store sqlite|postgres]

For each kind of row (finished; scheduled; ready, but of a type that nobody works on) the milliseconds of each question
that a page or a command asks, as `look_QUESTION_KIND`; with 300 tasks of another type beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.bench.measure import Figure, Figures, arguments, report, stopwatch
from tests.bench.stores import STORES, BenchStore, add_store_option
from tests.bench.table_size import KINDS, fill
from tests.bench.workload import payloads
from tq import TaskQueue

FEW = "few"  # the type beside the million


def questions(queue: TaskQueue) -> dict[str, Callable[[], object]]:
    [newest] = queue.list(limit=1).tasks
    return {
        "types": queue.desk.types,
        "workers": queue.desk.workers,
        "page": queue.list,
        "page_of_few": partial(queue.list, type=FEW),
        "page_of_success": partial(queue.list, status="success"),
        "page_of_waiting": partial(queue.list, status="to-do"),
        "page_of_dead": partial(queue.list, status="dead"),
        "search": partial(queue.list, text="no such text"),
        "search_in_few": partial(queue.list, type=FEW, text="no such text"),
        "task": partial(queue.get, newest.id),
        "explain": partial(queue.explain, newest.id),
        "timeline": partial(queue.desk.timeline, newest.id),
        "metrics": queue.desk.metrics,
    }


def measure(store: BenchStore, rows: int, repeats: int) -> Figures:
    figures: Figures = {}
    for kind in KINDS:
        with store.new_database() as address:
            fill(store, address, kind, rows)
            queue = TaskQueue().init(address, durability="normal")
            queue(FEW).add_many(payloads(300))
            for name, ask in questions(queue).items():
                figure = figures[store.named("look", name, kind)] = Figure("amount", "ms")
                for _ in range(repeats):
                    with stopwatch() as seconds:
                        ask()
                    figure.add(seconds() * 1000)
            queue.stop()
    return figures


def main() -> None:
    parser = arguments(__doc__, n=0)
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many of each kind")
    add_store_option(parser)
    options = parser.parse_args()
    store = STORES[options.store]
    report("looking", options, store.about(), measure(store, options.rows, options.repeats))


if __name__ == "__main__":
    main()
