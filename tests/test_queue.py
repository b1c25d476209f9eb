"""What a queue as a whole promises: how it is opened, steered, waited for and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.programs import Program, run
from tests.waiting import PATIENCE, eventually
from tq import TaskQueue
from tq.errors import DatabaseUnusable, InvalidOption, NotInitialised, TaskNotFound

MakeQueue = Callable[..., TaskQueue]


def count(database: Path) -> int:
    connection = sqlite3.connect(database)
    try:
        return int(connection.execute("SELECT count(*) FROM tasks").fetchall()[0][0])
    finally:
        connection.close()


# --- opening -----------------------------------------------------------------------------------------------------


def test_importing_and_registering_opens_and_starts_nothing(folder: Path):
    printed = run(
        folder,
        """
        import sys, threading
        before = threading.active_count()
        from tq import tq

        @tq.worker("email", worker_count=3)
        def send(message): ...

        tq("image").set_worker(print).set_rate_limit(5)
        assert threading.active_count() == before
        assert "tq.storage.sqlite" not in sys.modules
        """,
    )
    assert printed == ""
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("spelling", [str, Path, "sqlite:///{}".format], ids=["text", "PathLike", "URL"])
def test_a_database_is_a_path_in_any_spelling(folder: Path, spelling: Callable[[Path], Any]):
    queue = TaskQueue()
    assert queue.init(spelling(folder / "tasks.db")) is queue
    queue("email").add({})
    queue.stop()
    assert count(folder / "tasks.db") == 1


def test_a_relative_url_is_relative(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    queue = TaskQueue().init("sqlite:///tasks.db")
    queue.stop()
    assert (folder / "tasks.db").is_file()


def test_a_connection_lends_its_file(folder: Path):
    connection = sqlite3.connect(folder / "app.db")
    queue = TaskQueue().init(connection)
    queue("email").add({})
    queue.stop()
    assert connection.execute("SELECT count(*) FROM tasks").fetchall() == [(1,)]
    connection.close()


def test_a_connection_opened_by_uri_lends_its_file(folder: Path):
    connection = sqlite3.connect(f"file:{folder}/app.db?mode=rwc", uri=True)
    queue = TaskQueue().init(connection)
    queue.stop()
    connection.close()
    assert count(folder / "app.db") == 0


def test_without_init_the_environment_names_the_database(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TQ_DATABASE_URL", f"sqlite:///{folder}/from-environment.db")
    queue = TaskQueue()
    queue("email").add({})
    queue.stop()
    assert count(folder / "from-environment.db") == 1


@pytest.mark.parametrize("value", [None, ""], ids=["unset", "empty"])
def test_without_init_and_environment_it_is_tq_db_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
):
    monkeypatch.delenv("TQ_DATABASE_URL", raising=False)
    if value is not None:
        monkeypatch.setenv("TQ_DATABASE_URL", value)
    monkeypatch.chdir(folder)
    queue = TaskQueue()
    queue("email").add({})
    queue.stop()
    assert count(folder / "tq.db") == 1


def test_the_same_init_again_changes_nothing(queue: TaskQueue, folder: Path):
    queue("email").add({})
    assert queue.init(folder / "tasks.db") is queue
    assert queue.stats()["to-do"] == 1
    with pytest.raises(InvalidOption, match="call stop"):
        queue.init(folder / "tasks.db", durability="full", batch_size=7)


def test_a_second_init_is_refused_and_the_first_goes_on(queue: TaskQueue, folder: Path):
    with pytest.raises(InvalidOption, match=r"open on .*tasks\.db; call stop\(\) first"):
        queue.init(folder / "other.db")
    assert not (folder / "other.db").exists()
    queue("email").add({})


def test_a_failed_init_can_be_repeated(folder: Path):
    queue = TaskQueue()
    with pytest.raises(DatabaseUnusable):
        queue.init(folder)
    queue.init(folder / "tasks.db")
    queue("email").add({})
    queue.stop()


def test_a_stopped_queue_says_so_and_can_be_opened_again(queue: TaskQueue, folder: Path):
    queue("double").set_worker(lambda number: 2 * number)
    queue.stop()
    with pytest.raises(NotInitialised, match=r"was stopped; call init\(\)"):
        queue("double").add(4)
    with pytest.raises(NotInitialised):
        queue.stats()
    queue.init(folder / "tasks.db")
    assert queue("double").submit(4).result(PATIENCE) == 8, "its handlers are still registered"


def test_a_handle_survives_a_stop_and_a_new_init(queue: TaskQueue, folder: Path):
    handle = queue("double").submit(4)
    queue.stop()
    with pytest.raises(NotInitialised):
        handle.status()
    queue.init(folder / "tasks.db")
    assert handle.status() == "to-do"


def test_a_queue_can_move_to_another_database(queue: TaskQueue, folder: Path):
    queue("email").add({})
    queue.stop()
    queue.init(folder / "other.db")
    assert queue.stats()["to-do"] == 0


def test_stopping_a_queue_that_was_never_used_opens_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    assert TaskQueue().stop()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("database", [":memory:", "sqlite:///:memory:", "sqlite:///", ""])
def test_a_database_in_memory_is_refused(database: str):
    with pytest.raises(InvalidOption, match="needs a file that its workers can share"):
        TaskQueue().init(database)


def test_a_connection_to_memory_is_refused():
    connection = sqlite3.connect(":memory:")
    with pytest.raises(DatabaseUnusable, match="in memory, which no worker could share"):
        TaskQueue().init(connection)
    connection.close()


def test_a_closed_connection_is_refused(folder: Path):
    connection = sqlite3.connect(folder / "app.db")
    connection.close()
    with pytest.raises(DatabaseUnusable, match="closed"):
        TaskQueue().init(connection)


@pytest.mark.parametrize("url", ["mysql://localhost/tasks", "sqlite://tasks.db", "redis://"])
def test_an_unknown_scheme_is_refused(url: str):
    with pytest.raises(InvalidOption, match=f"cannot open {url.partition(':')[0]}:// databases; give a path"):
        TaskQueue().init(url)


@pytest.mark.parametrize("database", [b"tasks.db", 7, {"db": "tasks.db"}, 1.5, ["tasks.db"]])
def test_what_is_no_database_is_refused(database: Any):
    with pytest.raises(InvalidOption, match="give a path"):
        TaskQueue().init(database)


@pytest.mark.parametrize("option", ["poll_interval", "batch_size", "task_timeout", "durability"])
@pytest.mark.parametrize(
    "value", [0, -1, float("nan"), float("inf"), True, "5", None, 10**400], ids=lambda v: repr(v)[:5]
)
def test_a_wrong_option_of_init_is_refused_and_nothing_is_opened(folder: Path, option: str, value: Any):
    with pytest.raises(InvalidOption, match=option):
        TaskQueue().init(folder / "tasks.db", **{option: value})
    assert list(folder.iterdir()) == []


def test_an_unknown_option_of_init_is_refused(folder: Path):
    with pytest.raises(TypeError, match="pool_interval"):
        TaskQueue().init(folder / "tasks.db", pool_interval=1)  # type: ignore[call-arg]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("poll_interval", [0.05, 3_000_000.0, 1e300])
def test_any_poll_interval_works(make_queue: MakeQueue, poll_interval: float):
    queue = make_queue(poll_interval=poll_interval)
    queue("double").set_worker(lambda number: 2 * number)
    assert queue("double").submit(1).result(PATIENCE) == 2
    assert queue("double").submit(2).result(PATIENCE) == 4


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_each_durability_works(make_queue: MakeQueue, durability: str):
    queue = make_queue(durability=durability)
    assert queue("double").set_worker(lambda number: 2 * number).submit(4).result(PATIENCE) == 8


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", "a\0b", "\ud800", 7, None, b"email"])
def test_a_wrong_type_name_is_refused(name: Any):
    with pytest.raises(InvalidOption, match="a task type is a text of 1 to 255 printable characters"):
        TaskQueue()(name)


def test_queues_live_side_by_side(make_queue: MakeQueue):
    first, second = make_queue("first.db"), make_queue("second.db")
    first("name").set_worker(lambda _: "first")
    second("name").set_worker(lambda _: "second")
    assert first("name").submit(None).result(PATIENCE) == "first"
    assert second("name").submit(None).result(PATIENCE) == "second"
    first.stop()
    assert second("name").submit(None).result(PATIENCE) == "second"
    assert second.stats()["success"] == 2


def test_two_queues_on_one_file_share_the_work(make_queue: MakeQueue):
    producer, worker = make_queue(), make_queue()
    worker("double").set_worker(lambda number: 2 * number)
    assert producer("double").submit(4).result(PATIENCE) == 8
    worker.stop()
    producer("double").add(5)
    assert producer.stats()["to-do"] == 1


# --- pausing -----------------------------------------------------------------------------------------------------


def test_pause_starts_nothing_and_resume_goes_on(queue: TaskQueue):
    ran: list[int] = []
    queue("count").set_worker(ran.append)
    queue.pause()
    handles = [queue("count").submit(number) for number in range(3)]
    queue("marker").set_worker(lambda _: None)
    assert not handles[0].wait(0.5), "paused: nothing may start"
    assert ran == []
    queue.resume()
    assert all(handle.wait(PATIENCE) for handle in handles)
    assert ran == [0, 1, 2]


def test_a_paused_type_waits_while_others_run(queue: TaskQueue):
    queue("email").set_worker(lambda _: "sent").pause()
    queue("image").set_worker(lambda _: "drawn")
    waiting = queue("email").submit(None)
    assert queue("image").submit(None).result(PATIENCE) == "drawn"
    assert waiting.status() == "to-do"
    queue("email").resume()
    assert waiting.result(PATIENCE) == "sent"


def test_a_type_that_was_paused_by_itself_outlasts_the_pause_of_all(queue: TaskQueue):
    queue("email").set_worker(lambda _: "sent").pause()
    queue("image").set_worker(lambda _: "drawn")
    queue.pause()
    waiting, other = queue("email").submit(None), queue("image").submit(None)
    queue.resume()
    assert other.result(PATIENCE) == "drawn"
    assert waiting.status() == "to-do"


def test_pausing_twice_is_one_pause(queue: TaskQueue):
    queue.pause()
    queue.pause()
    queue.resume()
    assert queue("double").set_worker(lambda number: 2 * number).submit(4).result(PATIENCE) == 8


def test_what_runs_when_the_queue_is_paused_ends_well(queue: TaskQueue):
    running, go = threading.Event(), threading.Event()

    def handler(_: None) -> str:
        running.set()
        assert go.wait(PATIENCE)
        return "done"

    handle = queue("slow").set_worker(handler).submit(None)
    assert running.wait(PATIENCE)
    queue.pause()
    go.set()
    assert handle.result(PATIENCE) == "done"


def test_a_pause_survives_a_restart(make_queue: MakeQueue):
    queue = make_queue()
    queue.pause("email")
    queue.pause()
    queue.stop()
    again = make_queue()
    again("email").set_worker(lambda _: "sent")
    handle = again("email").submit(None)
    assert not handle.wait(0.5)
    again.resume()
    assert not handle.wait(0.5), "its own pause holds"
    again("email").resume()
    assert handle.result(PATIENCE) == "sent"


@pytest.mark.parametrize("name", ["", 7, b"email", "a\0b"])
def test_pausing_what_is_no_type_is_refused(queue: TaskQueue, name: Any):
    with pytest.raises(InvalidOption):
        queue.pause(name)
    with pytest.raises(InvalidOption):
        queue.resume(name)
    assert queue.stats()["paused"] is False and queue.stats()["pausedTypes"] == []


# --- looking -----------------------------------------------------------------------------------------------------


def test_stats_of_an_empty_queue_have_the_whole_shape(queue: TaskQueue):
    assert queue.stats() == {
        "to-do": 0,
        "in-progress": 0,
        "success": 0,
        "failed": 0,
        "cancelled": 0,
        "byType": {},
        "paused": False,
        "pausedTypes": [],
        "overdue": 0,
    }


def test_stats_count_running_tasks_and_retries(queue: TaskQueue):
    running, go = threading.Event(), threading.Event()

    def slow(_: None) -> None:
        running.set()
        assert go.wait(PATIENCE)

    def broken(_: None) -> None:
        raise ConnectionError

    queue("slow").set_worker(slow).add(None)
    queue("broken").set_worker(broken).add(None)
    assert running.wait(PATIENCE)
    stats = eventually(lambda: queue.stats() if queue.stats()["failed"] else None)
    assert stats["byType"] == {"slow": {"in-progress": 1}, "broken": {"failed": 1}}
    assert (stats["in-progress"], stats["failed"]) == (1, 1)
    go.set()


def test_a_task_that_is_not_there_is_named(queue: TaskQueue):
    missing = "01936d3f-1234-7abc-8ef0-123456789abc"
    with pytest.raises(TaskNotFound, match=f"no task {missing}"):
        queue.get(missing)
    with pytest.raises(LookupError):
        queue.handle(missing).result(timeout=1)


def test_join_waits_for_retries_and_scheduled_tasks(queue: TaskQueue):
    attempts: list[int] = []

    def once_broken(_: None) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError

    assert queue.join(0), "an empty queue has nothing to wait for"
    queue("flaky").set_worker(once_broken).set_backoff(base=0.1).add(None)
    queue("later").set_worker(lambda _: None)
    from datetime import timedelta

    queue("later").add(None, run_after=timedelta(seconds=0.3))
    assert queue.join(PATIENCE)
    assert queue.stats()["success"] == 2
    assert len(attempts) == 2


def test_join_says_when_the_time_was_over(queue: TaskQueue):
    queue("nobody").add(None)
    assert queue.join(timeout=0.05) is False
    assert queue.join(timeout=0) is False


# --- stopping ----------------------------------------------------------------------------------------------------


def test_stop_finishes_what_runs_and_gives_back_the_rest(queue: TaskQueue, make_queue: MakeQueue):
    running, go = threading.Event(), threading.Event()

    def handler(number: int) -> int:
        running.set()
        assert go.wait(PATIENCE)
        return number

    queue("slow").set_worker(handler)
    handles = [queue("slow").submit(number) for number in range(5)]
    assert running.wait(PATIENCE)
    threading.Timer(0.2, go.set).start()
    assert queue.stop(PATIENCE) is True
    tasks = [make_queue().get(handle.id) for handle in handles]
    assert [task.status for task in tasks] == ["success"] + ["to-do"] * 4
    assert [task.attempts for task in tasks] == [1, 0, 0, 0, 0], "what never started costs no attempt"


def test_stop_interrupts_what_takes_too_long_and_says_so(queue: TaskQueue, make_queue: MakeQueue):
    running, forever = threading.Event(), threading.Event()
    interrupted: list[str] = []

    def handler(_: None) -> None:
        running.set()
        try:
            while not forever.wait(0.01):
                pass
        except BaseException as error:
            interrupted.append(type(error).__name__)
            raise

    handle = queue("slow").set_worker(handler).submit(None)
    assert running.wait(PATIENCE)
    assert queue.stop(timeout=0.1) is False
    assert interrupted == ["TaskInterrupted"]
    task = make_queue().get(handle.id)
    assert (task.status, task.attempts) == ("failed", 1)
    assert task.run_after is not None, "it will be tried again"
    assert task.error == "interrupted, because the worker was stopped"


def test_stop_asks_handlers_that_look(queue: TaskQueue):
    from tq import current_task

    running = threading.Event()

    def handler(_: None) -> str:
        running.set()
        eventually(lambda: current_task().stopping)
        return "left early"

    queue("polite").set_worker(handler).add(None)
    assert running.wait(PATIENCE)
    assert queue.stop(PATIENCE) is True


def test_stop_cancels_a_coroutine_that_takes_too_long(queue: TaskQueue, make_queue: MakeQueue):
    import asyncio

    running = threading.Event()

    async def handler(_: None) -> None:
        running.set()
        await asyncio.Event().wait()

    handle = queue("slow").set_worker(handler).submit(None)
    assert running.wait(PATIENCE)
    assert queue.stop(timeout=0) is False
    assert make_queue().get(handle.id).error == "interrupted, because the worker was stopped"


@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_stop_ends_with_the_last_handler_and_not_with_the_next_poll(make_queue: MakeQueue, kind: str):
    queue = make_queue(poll_interval=3600)
    begun, go_on = threading.Event(), threading.Event()

    def wait(_: Any) -> None:
        begun.set()
        go_on.wait(PATIENCE)

    async def wait_on_the_loop(_: Any) -> None:
        await asyncio.to_thread(wait, None)

    handle = queue("email").set_worker(wait if kind == "thread" else wait_on_the_loop).submit({})
    assert begun.wait(PATIENCE)
    threading.Timer(0.1, go_on.set).start()
    assert queue.stop(timeout=PATIENCE)
    queue.init(queue._database)
    assert handle.status() == "success"


def test_stopping_twice_is_fine(queue: TaskQueue):
    queue("double").set_worker(lambda number: 2 * number)
    assert queue.stop()
    assert queue.stop()


def test_a_task_that_stop_left_behind_is_taken_over_by_the_next_worker_of_this_process(
    queue: TaskQueue, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
):
    """Where even the interruption takes too long, the file is closed under the worker."""
    running, go = threading.Event(), threading.Event()

    def stubborn(_: None) -> None:
        running.set()
        go.wait(PATIENCE)

    monkeypatch.setattr("tq.queue._INTERRUPT_SECONDS", 0.0)
    handle = queue("slow").set_worker(stubborn).submit(None)
    assert running.wait(PATIENCE)
    assert queue.stop(timeout=0) is False
    again = make_queue()
    again("slow").set_backoff(base=0).set_worker(lambda _: "taken over")
    again("other").set_worker(lambda _: None)
    try:
        eventually(lambda: again.get(handle.id).status != "in-progress", patience=20)
    finally:
        go.set()


def test_run_works_until_sigterm_and_finishes_what_runs(folder: Path):
    source = """
        import time
        from tq import tq, current_task
        tq.init("tasks.db")

        def handler(_):
            print("running", flush=True)
            while not current_task().stopping:
                time.sleep(0.01)
            return "finished"

        tq("slow").set_worker(handler)
        tq.run()
        print("ended")
    """
    producer = TaskQueue().init(folder / "tasks.db")
    handle = producer("slow").submit(None)
    with Program(folder, source) as worker:
        assert worker.line() == "running"
        worker.signal(signal.SIGTERM)
        out, _ = worker.ends(0)
    assert out == "ended\n"
    assert handle.task().output == "finished"
    producer.stop()


def test_a_second_signal_interrupts(folder: Path):
    source = """
        import time
        from tq import tq
        tq.init("tasks.db")

        def handler(_):
            print("running", flush=True)
            while True:
                time.sleep(0.01)

        tq("slow").set_worker(handler)
        tq.run(timeout=600)
        print("ended")
    """
    producer = TaskQueue().init(folder / "tasks.db")
    handle = producer("slow").submit(None)
    with Program(folder, source) as worker:
        assert worker.line() == "running"
        worker.signal(signal.SIGINT)
        eventually(lambda: worker_is_leaving(worker.pid))
        worker.signal(signal.SIGINT)
        assert worker.ends(0)[0] == "ended\n"
    assert "interrupted" in str(handle.task().error)
    producer.stop()


def worker_is_leaving(pid: int) -> bool:
    """Whether the first signal was seen: signals of one kind that come close together are one to the kernel."""
    pending = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("ShdPnd")]
    return int(pending[0].split()[1], 16) == 0


def test_run_in_another_thread_is_refused(queue: TaskQueue):
    errors: list[BaseException] = []

    def call() -> None:
        try:
            queue.run()
        except InvalidOption as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(PATIENCE)
    assert "only the main thread" in str(errors[0])


def test_run_without_a_handler_is_refused(queue: TaskQueue):
    with pytest.raises(InvalidOption, match="nothing to run: register a handler first"):
        queue.run()


def test_a_program_that_just_ends_leaves_its_tasks_for_the_next(folder: Path):
    run(
        folder,
        """
        from tq import tq
        tq.init("tasks.db")
        tq("slow").set_worker(lambda _: None)
        tq("other").add_many(range(10))
        """,
    )
    queue = TaskQueue().init(folder / "tasks.db")
    assert queue.stats()["to-do"] == 10
    queue.stop()


def test_the_database_keeps_working_after_chdir(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    queue = TaskQueue().init("tasks.db")
    os.chdir("/")
    assert queue("double").set_worker(lambda number: 2 * number).submit(4).result(PATIENCE) == 8
    queue.stop()
    assert count(folder / "tasks.db") == 1
