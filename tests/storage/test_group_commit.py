"""Group commit: many callers, few commits, and nobody waits for a leader that has gone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.interrupting import InterruptAt
from tests.storage.taking_part import taking_part
from tests.waiting import eventually
from tq.storage import group_commit
from tq.storage.group_commit import Entry, GroupCommit


class Ledger:
    """A store of numbers that commits all of a batch or nothing, and can be told to wait or to be interrupted."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.commits: list[int] = []
        self.interrupt_next = False
        self.gate = threading.Event()
        self.gate.set()

    def commit(self, entries: list[Entry[list[Any]]]) -> None:
        self.gate.wait()
        draft: list[Any] = []
        for entry in entries:
            entry.value = entry.operation(draft)
        if self.interrupt_next:
            self.interrupt_next = False
            raise KeyboardInterrupt
        self.kept += draft
        for entry in entries:
            entry.done = True
        self.commits.append(len(entries))


class Callers:
    """Threads that each run one operation, and what they heard."""

    def __init__(self, group: GroupCommit[list[Any]]) -> None:
        self._group = group
        self._threads: list[threading.Thread] = []
        self.heard: dict[Any, Any] = {}

    def call(self, name: Any, operation: Callable[[list[Any]], Any]) -> None:
        """Start a caller, and wait until it leads or has queued."""
        thread = threading.Thread(target=self._run, args=(name, operation))
        self._threads.append(thread)
        thread.start()
        eventually(lambda: name in self.heard or operation in (entry.operation for entry in taking_part(self._group)))

    def _run(self, name: Any, operation: Callable[[list[Any]], Any]) -> None:
        try:
            self.heard[name] = self._group.run(operation)
        except BaseException as error:
            self.heard[name] = error

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a caller waits for ever"


def keep(number: Any) -> Callable[[list[Any]], Any]:
    def operation(draft: list[Any]) -> Any:
        draft.append(number)
        return number

    return operation


def refuse(draft: list[Any]) -> None:
    draft.append("half of a broken operation")
    raise ValueError("broken")


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def group(ledger: Ledger) -> GroupCommit[list[Any]]:
    return GroupCommit(ledger.commit)


def test_a_lone_caller_commits_by_itself(group: GroupCommit[list[Any]], ledger: Ledger):
    assert [group.run(keep(number)) for number in range(3)] == [0, 1, 2]
    assert ledger.commits == [1, 1, 1]


def test_callers_that_come_during_a_commit_share_the_next_in_their_order(group, ledger: Ledger):
    ledger.gate.clear()
    callers = Callers(group)
    for number in range(10):
        callers.call(number, keep(number))
    ledger.gate.set()
    callers.join()
    assert callers.heard == {number: number for number in range(10)}
    assert ledger.kept == list(range(10))
    assert ledger.commits == [1, 9]


def test_a_broken_operation_among_many_fails_alone(group, ledger: Ledger):
    ledger.gate.clear()
    callers = Callers(group)
    for number in range(9):
        callers.call(number, refuse if number == 4 else keep(number))
    ledger.gate.set()
    callers.join()
    assert isinstance(callers.heard.pop(4), ValueError)
    assert callers.heard == {number: number for number in range(9) if number != 4}
    assert ledger.kept == [0, 1, 2, 3, 5, 6, 7, 8]


def test_an_error_is_told_to_its_caller(group: GroupCommit[list[Any]], ledger: Ledger):
    with pytest.raises(ValueError, match="broken"):
        group.run(refuse)
    assert group.run(keep(1)) == 1
    assert ledger.kept == [1]


def test_the_leaders_interrupt_leaves_nobody_waiting(group, ledger: Ledger):
    ledger.gate.clear()
    callers = Callers(group)
    for number in range(6):
        callers.call(number, keep(number))
    ledger.interrupt_next = True
    ledger.gate.set()
    callers.join()
    assert isinstance(callers.heard.pop(0), KeyboardInterrupt)
    assert callers.heard == {number: number for number in range(1, 6)}
    assert ledger.kept == [1, 2, 3, 4, 5]


def test_32_threads_keep_everything_once(group, ledger: Ledger):
    answers: list[list[int]] = [[] for _ in range(32)]

    def work(number: int) -> None:
        for step in range(50):
            answers[number].append(group.run(keep(number * 1000 + step)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [[number * 1000 + step for step in range(50)] for number in range(32)]
    assert answers == expected
    assert sorted(ledger.kept) == [each for numbers in expected for each in numbers]
    for numbers in expected:  # each caller's operations are kept in its order
        assert [each for each in ledger.kept if each in set(numbers)] == numbers


# --- an interrupt between any two lines ----------------------------------------------------------------------------


def interrupted_caller(group: GroupCommit[list[Any]], number: int, line: int, struck: list[bool]) -> None:
    try:
        with InterruptAt([group_commit.__file__], line) as interrupt:
            group.run(keep(number))
    except KeyboardInterrupt:
        pass
    struck.append(interrupt.struck)


def test_an_interrupt_between_any_two_lines_leaves_nobody_waiting_and_nothing_twice():
    line, struck = 1, [True]
    while struck[-1]:
        ledger = Ledger()
        group: GroupCommit[list[Any]] = GroupCommit(ledger.commit)
        ledger.gate.clear()
        callers = Callers(group)
        callers.call("first", keep("first"))
        victim = threading.Thread(target=interrupted_caller, args=(group, 0, line, struck))
        known = len(struck)
        victim.start()
        eventually(lambda: len(taking_part(group)) == 2 or len(struck) > known)  # noqa: B023
        callers.call("beside", keep("beside"))
        ledger.gate.set()
        victim.join(60)
        callers.join()
        assert group.run(keep("after")) == "after", f"interrupted at line {line}"
        assert callers.heard == {"first": "first", "beside": "beside"}
        assert sorted(each for each in ledger.kept if each != 0) == ["after", "beside", "first"]
        assert ledger.kept.count(0) <= 1
        line += 1
    assert line > 20
