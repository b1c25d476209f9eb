"""What the figures should be: the floor that must hold, and what we aim at. All are ratios where that is possible."""

from __future__ import annotations

from typing import NamedTuple


class Goal(NamedTuple):
    figure: str
    says: str
    floor: float
    aim: float
    at_most: bool = False

    def verdict(self, measured: float) -> str:
        if self._reaches(measured, self.aim):
            return "aim met"
        return "floor met" if self._reaches(measured, self.floor) else "MISSED"

    def _reaches(self, measured: float, goal: float) -> bool:
        return measured <= goal if self.at_most else measured >= goal


GOALS = (
    Goal("drain_normal", "drain, NORMAL, × raw pump of 100", 0.35, 0.5),
    Goal("drain_full", "drain, FULL, × raw pump of 100", 0.35, 0.5),
    Goal("add_normal", "add one by one, NORMAL, × raw insert", 0.6, 0.75),
    Goal("add_full", "add one by one, FULL, × raw insert", 0.8, 0.95),
    Goal("add_full_32_threads", "add, FULL, 32 threads, × one thread", 2.0, 3.0),
    Goal("add_many_normal", "add_many, NORMAL, × raw executemany of 1000", 0.5, 0.75),
    Goal("add_many_full", "add_many, FULL, × raw executemany of 1000", 0.5, 0.75),
    Goal("latency_p50", "latency p50 into an idle worker, NORMAL, × datagram socket", 1.6, 1.2, at_most=True),
    Goal("idle_cpu", "idle CPU of a worker, % of a core", 0.5, 0.0, at_most=True),
    Goal("idle_rss", "memory of an idle worker over bare Python, MB, all pages (RSS)", 15.0, 10.0, at_most=True),
    Goal("idle_uss", "memory of an idle worker over bare Python, MB, its own (USS)", 15.0, 10.0, at_most=True),
    Goal("drain_3_processes", "drain with 3 worker processes, × one", 1.0, 1.3),
    Goal("drain_4_kb", "drain with 4 kB payloads, × 216 B", 0.4, 0.6),
    Goal("claim_finished_1000000", "claim + settle, 1M finished rows, × empty", 0.65, 0.8),
    Goal("claim_scheduled_1000000", "claim + settle, 1M scheduled rows, × empty", 0.65, 0.8),
    Goal("claim_foreign_1000000", "claim + settle, 1M rows of a foreign type, × empty", 0.65, 0.8),
    Goal("add_finished_1000000", "add, 1M finished rows, × empty", 0.65, 0.8),
    Goal("add_scheduled_1000000", "add, 1M scheduled rows, × empty", 0.65, 0.8),
    Goal("add_foreign_1000000", "add, 1M rows of a foreign type, × empty", 0.65, 0.8),
    Goal("stats_finished_1000000", "stats() with 1M finished rows, ms", 5.0, 1.0, at_most=True),
    Goal("drain_postgres", "drain, PostgreSQL, × raw pump of 100", 0.35, 0.5),
    Goal("add_postgres", "add one by one, PostgreSQL, × raw insert", 0.75, 0.9),
    Goal("add_many_postgres", "add_many, PostgreSQL, × raw COPY of 1000", 0.45, 0.7),
    Goal("latency_postgres_p50", "latency p50, PostgreSQL, × raw insert + notify + claim", 1.8, 1.3, at_most=True),
    Goal("drain_postgres_3_processes", "drain with 3 worker processes, PostgreSQL, × one", 1.0, 1.3),
    Goal("claim_postgres_finished_1000000", "claim + settle, PostgreSQL, 1M finished rows, × empty", 0.65, 0.8),
    Goal("claim_postgres_scheduled_1000000", "claim + settle, PostgreSQL, 1M scheduled rows, × empty", 0.65, 0.8),
    Goal("claim_postgres_foreign_1000000", "claim + settle, PostgreSQL, 1M of a foreign type, × empty", 0.65, 0.8),
    Goal("add_postgres_finished_1000000", "add, PostgreSQL, 1M finished rows, × empty", 0.65, 0.8),
    Goal("add_postgres_scheduled_1000000", "add, PostgreSQL, 1M scheduled rows, × empty", 0.65, 0.8),
    Goal("add_postgres_foreign_1000000", "add, PostgreSQL, 1M of a foreign type, × empty", 0.65, 0.8),
)
