"""A worker in a process of its own, started by the other programs: says `ready`, starts at the first line it hears,
and ends when its input ends.

    python -m tests.bench.worker tq-drain|raw-drain|tq-latency|raw-latency DATABASE [options]
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.bench import raw
from tests.bench.stores import store_of
from tests.bench.workload import TYPE, Tally
from tq import TaskQueue

THREADS = 8


# --- bodies ------------------------------------------------------------------------------------------------------


def counting_body(options: argparse.Namespace) -> raw.Body:
    tally = Tally(options.tally, options.slot)

    def body(_: Any) -> None:
        tally.hit()

    async def coroutine(_: Any) -> None:
        tally.hit()

    return coroutine if options.coroutines else body


def latency_body(input_: Any) -> None:
    """Tells how long ago, by the clock that all processes share, its task was added."""
    print(time.monotonic() - input_["added_at"], flush=True)


# --- roles -------------------------------------------------------------------------------------------------------


def tq_drain(options: argparse.Namespace) -> None:
    work_until_input_ends(options, counting_body(options))


def tq_latency(options: argparse.Namespace) -> None:
    work_until_input_ends(options, latency_body)


def work_until_input_ends(options: argparse.Namespace, body: raw.Body) -> None:
    queue = TaskQueue().init(options.database, durability=options.durability)
    ready()
    queue(TYPE).set_worker_count(THREADS).set_worker(body)
    sys.stdin.read()
    queue.stop()


def raw_drain(options: argparse.Namespace) -> None:
    connection = raw_connection(options)
    ready()
    raw.drain(connection, counting_body(options))
    sys.stdin.read()


def raw_latency(options: argparse.Namespace) -> None:
    connection = raw_connection(options)
    connection.listen()
    ready()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
    sys.stdin.read()


def serve(connection: raw.Raw) -> None:
    while True:
        raw.drain(connection, latency_body)
        connection.wait()


def raw_connection(options: argparse.Namespace) -> raw.Raw:
    return store_of(options.database).raw(options.database, options.durability)


def ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


ROLES = {
    "tq-drain": tq_drain,
    "raw-drain": raw_drain,
    "tq-latency": tq_latency,
    "raw-latency": raw_latency,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("database")
    parser.add_argument("--durability", default="normal")
    parser.add_argument("--tally", type=Path)
    parser.add_argument("--slot", type=int, default=0)
    parser.add_argument("--coroutines", action="store_true")
    options = parser.parse_args()
    ROLES[options.role](options)


if __name__ == "__main__":
    main()
