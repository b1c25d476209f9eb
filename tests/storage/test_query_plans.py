"""What a statement costs: each reads its own small index, however many rows of other kinds there are."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from tests.contract.vocabulary import NOW, add, claim, settle
from tq.models import Cancelled, Failed, Retry, Succeeded
from tq.storage.sqlite import SqliteDriver, known_statements
from tq.storage.store import Store

STATEMENTS = known_statements()

# Each statement, the indexes that it may read, and whether it may sort what it finds there.
INDEXES = {
    "claim": {"tasks_ready", "PRIMARY KEY", "sqlite_autoindex_task_inputs_1"},
    "promote_due": {"tasks_due", "PRIMARY KEY"},
    "next_due": {"tasks_due"},
    "look_around": {"tasks_due", "PRIMARY KEY", "tasks_cancelling"},
    "running_of_type": {"tasks_running"},
    "owned_by": {"tasks_running"},
    "count_ready": {"tasks_ready"},
    "count_waiting": {"tasks_due"},
    "count_running": {"tasks_running"},
    "count_unfinished": {"tasks_ready", "tasks_due", "tasks_running"},
    "settle": {"PRIMARY KEY"},
    "find_key": {"tasks_key"},
    "get_task": {"PRIMARY KEY", "sqlite_autoindex_task_inputs_1"},
    "get_status": {"PRIMARY KEY"},
    "get_attempts": {"PRIMARY KEY"},
    "delete_worker": {"PRIMARY KEY", "tasks_running"},
    "cancel_waiting": {"PRIMARY KEY"},
    "ask_to_cancel": {"PRIMARY KEY"},
    "retry_ended": {"PRIMARY KEY"},
    "hasten": {"PRIMARY KEY"},
    "delete_ended": {"PRIMARY KEY"},
    "page": {"PRIMARY KEY", "sqlite_autoindex_task_inputs_1"},
    "page_of_type": {"PRIMARY KEY", "tasks_ready", "tasks_due", "tasks_running", "tasks_ended"},
    "page_of_few": {"PRIMARY KEY", "tasks_ready", "tasks_due", "tasks_running", "tasks_given_up"},
    "count_few": {"tasks_ready", "tasks_due", "tasks_running", "tasks_given_up"},
    "reach": {"PRIMARY KEY"},
    "reach_of_type": {"tasks_ended"},
    "type_names": {"tasks_ready"},
    "running_by_worker": {"tasks_running"},
    "ready_before": {"tasks_ready"},
    "ready_of_type": {"tasks_ready"},
    "next_of_type": {"tasks_ready"},
    "count_waiting_few": {"tasks_due"},
    "count_added": {"PRIMARY KEY"},
}
# By type, from an index that is ordered otherwise and holds few rows, or by id, of rows that are few.
GROUPS = {
    "count_waiting",
    "count_running",
    "count_waiting_few",
    "count_added",
    "page_of_few",
    "page_of_type",
    "running_by_worker",
    "type_names",
}


@pytest.fixture(scope="module", params=["as it is", "analysed"])
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """A database with rows of all kinds, as SQLite plans without and with statistics about them."""
    path: Path = tmp_path_factory.mktemp("plans") / "tasks.db"
    store = Store(SqliteDriver(path, "normal"))
    add(store, *range(600), type_="email")
    for number, task in enumerate(claim(store, 500)):
        settle(store, task, [Succeeded("1"), Failed("no"), Cancelled("no"), Retry("again", delay=1e6)][number % 4])
    claim(store, 50)
    add(store, *range(1000, 1300), type_="email", run_after=NOW + 1e6)
    add(store, *range(2000, 2300), type_="sms", input_='"' + "x" * 2000 + '"')
    store.close()
    connection = sqlite3.connect(path)
    if request.param == "analysed":
        connection.execute("ANALYZE")
    yield connection
    connection.close()


def plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    text = STATEMENTS[statement]
    parameters = dict.fromkeys(re.findall(r"\?(\d+)", text), 1)
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", parameters)]


@pytest.mark.parametrize("statement", sorted(INDEXES))
def test_a_statement_reads_its_own_indexes_only(connection: sqlite3.Connection, statement: str):
    steps = [
        step for step in plan(connection, statement) if re.match(r"(SCAN|SEARCH) (tasks|attempts|workers)\b", step)
    ]
    assert steps, "nothing is read: the test looks for the wrong words"
    for step in steps:
        used = re.search(r"USING (?:COVERING )?(?:INDEX (\w+)|(PRIMARY KEY))", step)
        assert used is not None, f"reads the whole table: {step}"
        assert (used[1] or used[2]) in INDEXES[statement], step


@pytest.mark.parametrize("statement", sorted(set(INDEXES) - GROUPS))
def test_nothing_is_sorted(connection: sqlite3.Connection, statement: str):
    assert not [step for step in plan(connection, statement) if "TEMP B-TREE" in step]


@pytest.mark.parametrize("statement", ["claim", "promote_due"])
def test_a_claim_walks_its_index_no_further_than_it_needs(connection: sqlite3.Connection, statement: str):
    """The primary key is searched by id, one row for each task that is taken; it is never walked."""
    assert not [step for step in plan(connection, statement) if step.startswith("SCAN tasks")]


@pytest.mark.parametrize("statement", ["count_waiting", "next_due"])
def test_looking_at_scheduled_tasks_reads_the_index_alone(connection: sqlite3.Connection, statement: str):
    assert all("COVERING INDEX" in step for step in plan(connection, statement) if re.match("SCAN|SEARCH", step))


def test_every_statement_that_reads_tasks_is_looked_at_here():
    reading = {name for name, text in STATEMENTS.items() if re.search(r"(FROM|UPDATE) tasks\b", text)}
    assert reading <= set(INDEXES)
