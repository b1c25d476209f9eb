"""The document that tq grew from, run: its examples in Python spelling, in its order."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypedDict

import pytest
from typing_extensions import NotRequired

from tests.programs import run
from tests.waiting import PATIENCE, eventually
from tq import Task, TaskFailed, TaskHandle, TaskQueue, TaskTypeContext
from tq.errors import DatabaseUnusable, PayloadError

SCHEDULED = datetime(2999, 12, 31, tzinfo=timezone.utc)
COLUMNS = (
    "id", "type", "input", "status", "version", "attempts", "last_attempt_at", "output", "error", "run_after",
    "created_at", "updated_at", "completed_at",
)  # fmt: skip


@pytest.fixture
def db(folder: Path) -> Iterator[sqlite3.Connection]:
    """The application's own connection."""
    connection = sqlite3.connect(folder / "app.db", isolation_level=None)
    yield connection
    connection.close()


@pytest.fixture
def tq(db: sqlite3.Connection) -> Iterator[TaskQueue]:
    """`tq` as programs import it is one of these; each test has its own."""
    queue = TaskQueue()
    queue.init(db, poll_interval=1.0, batch_size=10)
    yield queue
    queue.stop(timeout=0)


def rows(db: sqlite3.Connection, columns: str = "*") -> list[Any]:
    return db.execute(f"SELECT {columns} FROM tasks ORDER BY id").fetchall()


# --- 2.1 Queue interface -----------------------------------------------------------------------------------------


def test_2_1_example_usage(tq: TaskQueue):
    crawled: list[str] = []
    sent: list[str] = []

    async def crawl(input: dict[str, str]) -> None:
        await asyncio.sleep(0)
        crawled.append(input["url"])

    async def send_email(input: dict[str, str]) -> None:
        sent.append(input["to"])

    # Set up the worker
    tq("crawl").set_worker(crawl).set_worker_count(3).set_rate_limit(10).set_timeout(300).set_max_attempts(5)

    # Enqueue tasks
    tq("crawl").add({"url": "https://www.google.com/"})
    tq("crawl").add({"url": "https://www.baidu.com/"})

    # Can also chain adds
    (
        tq("crawl")
        .add({"url": "https://example.com/1"})
        .add({"url": "https://example.com/2"})
        .add({"url": "https://example.com/3"})
    )

    # Different task types, different configs
    tq("email").set_worker(send_email).set_worker_count(1).set_rate_limit(5)
    tq("email").add({"to": "user@example.com", "subject": "Hello"})

    assert tq.join(PATIENCE)
    assert sorted(crawled) == [
        "https://example.com/1",
        "https://example.com/2",
        "https://example.com/3",
        "https://www.baidu.com/",
        "https://www.google.com/",
    ]
    assert sent == ["user@example.com"]


def test_2_1_every_method_of_a_context_chains(tq: TaskQueue):
    context = tq("crawl")
    assert isinstance(context, TaskTypeContext)
    for chained in (
        context.add({"url": "https://example.com/"}, run_after=SCHEDULED),
        context.set_worker(print),
        context.set_worker_count(3),
        context.set_rate_limit(10),
        context.set_timeout(300),
        context.set_max_attempts(5),
    ):
        assert chained is context


def test_2_1_global_worker_control(tq: TaskQueue):
    tq("email").set_worker(lambda input: input["to"])
    tq.pause()
    handle = tq("email").submit({"to": "user@example.com"})
    assert tq.stats()["to-do"] == 1
    tq.resume()
    assert handle.result(PATIENCE) == "user@example.com"
    assert tq.stats()["success"] == 1
    assert tq.stop()


class CrawlPayload(TypedDict):
    url: str
    depth: NotRequired[int]


def test_2_1_typed_contexts(tq: TaskQueue, db: sqlite3.Connection):
    seen: list[str] = []

    def crawl(input: CrawlPayload) -> None:
        seen.append(input["url"].upper())

    tq("crawl", CrawlPayload).set_worker(crawl).add({"url": "https://example.com"})
    with pytest.raises(PayloadError, match="missing field 'url', unknown field 'wrong'"):
        tq("crawl", CrawlPayload).add({"wrong": "field"})  # type: ignore[typeddict-item, typeddict-unknown-key]
    assert tq.join(PATIENCE)
    assert seen == ["HTTPS://EXAMPLE.COM"]
    assert len(rows(db)) == 1


# --- 3.1 Database schema -----------------------------------------------------------------------------------------


def test_3_1_the_table_has_the_columns_by_name(tq: TaskQueue, db: sqlite3.Connection):
    described = {name: (kind, bool(pk)) for _, name, kind, _, _, pk in db.execute("PRAGMA table_info(tasks)")}
    assert set(COLUMNS) <= set(described)
    assert described["id"] == ("TEXT", True)


def test_3_1_a_new_task(tq: TaskQueue, db: sqlite3.Connection):
    tq("send_email").add({"to": "user@example.com"})
    [row] = db.execute(f"SELECT {', '.join(COLUMNS)} FROM tasks").fetchall()
    task = dict(zip(COLUMNS, row, strict=True))
    created = task.pop("created_at")
    assert uuid.UUID(task.pop("id")).version == 7
    assert abs(created - datetime.now().timestamp()) < 3600, "Unix seconds"
    assert task == {
        "type": "send_email",
        "input": '{"to":"user@example.com"}',
        "status": "to-do",
        "version": 0,
        "attempts": 0,
        "last_attempt_at": None,
        "output": None,
        "error": None,
        "run_after": None,
        "updated_at": created,
        "completed_at": None,
    }


def test_3_1_to_do_in_progress_success(tq: TaskQueue):
    running, go = threading.Event(), threading.Event()

    def handler(input: str) -> str:
        running.set()
        assert go.wait(PATIENCE)
        return input

    handle = tq("email").submit("hello")
    assert handle.status() == "to-do"
    tq("email").set_worker(handler)
    assert running.wait(PATIENCE)
    claimed = handle.task()
    assert (claimed.status, claimed.attempts, claimed.version) == ("in-progress", 1, 1)
    go.set()
    assert handle.result(PATIENCE) == "hello"
    task = handle.task()
    assert (task.status, task.output, task.attempts, task.error) == ("success", "hello", 1, None)
    assert task.version > claimed.version, "every transition counts the version up"
    assert task.completed_at is not None


def test_3_1_failed_waits_for_run_after_and_then_succeeds(tq: TaskQueue):
    attempts: list[int] = []

    def handler(_: None) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError("no route to host")
        return "sent"

    tq("email").set_worker(handler).set_backoff(lambda attempts: 0.5)
    handle = tq("email").submit(None)
    failed = eventually(lambda: seen(handle, "failed"))
    assert failed.run_after is not None
    assert failed.completed_at is None, "it is not terminal"
    assert "no route to host" in failed.error
    assert handle.result(PATIENCE) == "sent"
    assert handle.task().attempts == 2
    assert handle.task().error is None


def test_3_1_failed_is_terminal_after_the_last_attempt(tq: TaskQueue):
    def handler(_: None) -> None:
        raise ConnectionError("no route to host")

    tq("email").set_worker(handler).set_backoff(base=0)
    handle = tq("email").submit(None)
    with pytest.raises(TaskFailed, match="ConnectionError: no route to host"):
        handle.result(PATIENCE)
    task = handle.task()
    assert (task.status, task.attempts, task.run_after) == ("failed", 3, None), "three attempts by default"
    assert task.completed_at is not None


def seen(handle: TaskHandle, status: str) -> Task | None:
    task = handle.task()
    return task if task.status == status else None


# --- 3.2 JSON data structures ------------------------------------------------------------------------------------


def test_3_2_task(tq: TaskQueue):
    tq("send_email").set_worker(lambda input: {"messageId": "abc123"})
    handle = tq("send_email").submit({"to": "user@example.com", "subject": "Welcome"})
    handle.result(PATIENCE)
    task = tq.get(handle.id)
    assert task == handle.task()
    assert task.id == handle.id
    assert task.type == "send_email"
    assert task.input == {"to": "user@example.com", "subject": "Welcome"}
    assert task.status == "success"
    assert task.attempts == 1
    assert task.output == {"messageId": "abc123"}
    assert task.error is None
    assert task.run_after is None
    assert task.last_attempt_at is not None
    assert task.completed_at is not None
    assert task.created_at <= task.last_attempt_at <= task.completed_at <= task.updated_at


def test_3_2_enqueue_options(tq: TaskQueue, db: sqlite3.Connection):
    tq("send_email").add({}, run_after=SCHEDULED.timestamp())
    tq("send_email").add({}, run_after=SCHEDULED)
    assert rows(db, "status, run_after") == [("to-do", SCHEDULED.timestamp())] * 2


def test_3_2_queue_stats(tq: TaskQueue):
    def process(input: str) -> None:
        if input == "broken":
            raise ValueError(input)

    tq("process_image").set_worker(process).set_no_retry(ValueError).add_many(["a", "b", "broken"])
    tq("send_email").add({}).add({}, run_after=SCHEDULED)
    eventually(lambda: tq.stats()["success"] == 2 and tq.stats()["failed"] == 1)
    stats = tq.stats()
    assert {status: stats[status] for status in ("to-do", "in-progress", "success", "failed")} == {
        "to-do": 2,
        "in-progress": 0,
        "success": 2,
        "failed": 1,
    }
    assert stats["byType"] == {"send_email": {"to-do": 2}, "process_image": {"success": 2, "failed": 1}}


# --- 4.2 Scheduler -----------------------------------------------------------------------------------------------


def test_4_2_first_in_first_out(tq: TaskQueue):
    order: list[int] = []
    tq("count").add_many(range(50)).add(50).set_worker(order.append)
    assert tq.join(PATIENCE)
    assert order == list(range(51))


@pytest.mark.parametrize(("attempts", "low", "high"), [(1, 8, 12), (2, 16, 24), (3, 32, 48), (13, 17_280, 25_920)])
def test_4_2_backoff_doubles_from_ten_seconds_to_six_hours(
    tq: TaskQueue, db: sqlite3.Connection, attempts: int, low: float, high: float
):
    """The document's formula and its table of examples disagree; tq doubles: 10, 20, 40 s ..., at most 6 hours."""

    def handler(_: None) -> None:
        raise ConnectionError

    tq("email").add(None, max_attempts=20)
    db.execute("UPDATE tasks SET attempts = ?", (attempts - 1,))
    tq("email").set_worker(handler)
    [(run_after, settled_at)] = eventually(lambda: rows(db, "run_after, updated_at") if tq.stats()["failed"] else None)
    assert low <= run_after - settled_at <= high


def test_4_2_a_token_bucket_lets_a_burst_through_and_then_one_by_one(tq: TaskQueue, db: sqlite3.Connection):
    """10 a second: a burst of 10 at once, then one for each 100 ms."""
    tq("fetch").set_worker(lambda _: None).set_worker_count(25).set_rate_limit(10).add_many(range(25))
    assert tq.join(PATIENCE)
    started = sorted(at for (at,) in rows(db, "last_attempt_at"))
    assert all(n <= 10 + 10 * (at - started[0]) + 0.01 for n, at in enumerate(started, 1)), "no more than the rate"
    assert started[24] - started[0] >= 1.499, "fifteen had to wait for a token"


# --- 5 Programmatic API ------------------------------------------------------------------------------------------


def test_5_programmatic_api(db: sqlite3.Connection):
    emails: list[dict[str, str]] = []
    images: list[str] = []

    async def send_email(input: dict[str, str]) -> None:
        emails.append(input)

    async def process_image(input: dict[str, str]) -> None:
        images.append(input["imageUrl"])

    # Initialize once (app startup)
    tq = TaskQueue()
    tq.init(db, poll_interval=1.0, batch_size=10)

    # Setup workers (per task type)
    tq("send_email").set_worker(send_email).set_worker_count(2).set_rate_limit(10).set_timeout(30)
    tq("process_image").set_worker(process_image).set_worker_count(4).set_rate_limit(20).set_timeout(300)

    # Enqueue tasks (anywhere in app)
    tq("send_email").add({"to": "user@example.com", "subject": "Welcome", "body": "Hello!"})
    tq("process_image").add({"imageUrl": "/uploads/photo.jpg"})

    # Advanced: custom options
    tq("send_email").add({"to": "vip@example.com", "subject": "Important"}, run_after=SCHEDULED)

    # Global controls
    eventually(lambda: tq.stats()["success"] == 2)
    tq.pause()
    tq.resume()
    assert tq.stats()["to-do"] == 1, "the scheduled one waits"
    assert tq.stop(), "graceful shutdown"

    assert emails == [{"to": "user@example.com", "subject": "Welcome", "body": "Hello!"}]
    assert images == ["/uploads/photo.jpg"]


def test_5_a_task_scheduled_for_soon_runs_then_and_not_before(tq: TaskQueue):
    tq("remind").set_worker(lambda _: None)
    handle = tq("remind").submit(None, run_after=timedelta(seconds=0.7))
    due = handle.task().run_after
    handle.result(PATIENCE)
    started = handle.task().last_attempt_at
    assert due is not None and started is not None
    assert started >= due


# --- 7.3 Interface design, 8 Integration guide -------------------------------------------------------------------


def test_7_3_the_options_of_init(db: sqlite3.Connection):
    tq = TaskQueue()
    assert tq.init(db, poll_interval=1.0, batch_size=10, task_timeout=300) is tq
    assert tq.stop()


def test_8_1_an_existing_connection_keeps_working(tq: TaskQueue, db: sqlite3.Connection):
    """The application's tables and transactions live beside the queue, in one file."""
    db.execute("CREATE TABLE orders (number INTEGER)")
    tq("invoice").set_worker(lambda number: number)
    with db:
        db.execute("INSERT INTO orders VALUES (7)")
    assert tq("invoice").submit(7).result(PATIENCE) == 7
    assert db.execute("SELECT number FROM orders").fetchall() == [(7,)]
    tq.stop()
    assert db.execute("SELECT count(*) FROM orders").fetchall() == [(1,)], "stop() leaves the connection open"


def test_8_1_a_tasks_table_of_the_application_is_left_alone(db: sqlite3.Connection):
    db.execute("CREATE TABLE tasks (title TEXT)")
    with pytest.raises(DatabaseUnusable, match="a table named tasks that is not tq's"):
        TaskQueue().init(db)
    assert db.execute("SELECT sql FROM sqlite_master").fetchall() == [("CREATE TABLE tasks (title TEXT)",)]


def test_8_4_worker_initialisation(folder: Path):
    """The `tq` that programs import: the worker starts by itself, and the program ends when it is stopped."""
    printed = run(
        folder,
        """
        import sqlite3
        from tq import tq

        db = sqlite3.connect("app.db")
        tq.init(db, poll_interval=1.0, batch_size=10)

        async def send_email(input):
            print("sent to", input["to"], flush=True)

        tq("send_email").set_worker(send_email).set_max_attempts(3)

        tq("send_email").add({"to": "user@example.com"})
        assert tq.join(60)
        assert tq.stop()
        """,
    )
    assert printed == "sent to user@example.com\n"
